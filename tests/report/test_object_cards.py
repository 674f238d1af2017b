"""Cards of objects on the page: pictures, outlines, verdicts, and what is said where there is no orbit."""

from __future__ import annotations

import re

import numpy as np
import pytest

from spatialbench.report import MetricRow, ReportData, render_page
from spatialbench.report.edit_pictures import marked
from spatialbench.report.object_cards import object_cards
from spatialbench.report.why import evidence_of
from spatialbench.types import Status
from tests.object_world import (
    METRICS,
    SIZE,
    FakeJudge,
    RedDetector,
    Rewards,
    Tracker,
    case_of,
    measure,
    observe,
    room,
    said,
)

PINK = (236, 64, 160)


@pytest.fixture(scope="module")
def seen():
    """A box whose view 2 is hidden by the judge's word, view 3 has artifacts, view 4 no answer."""
    answers = {2: said(visible=False), 3: said(clean=False), 4: None, 5: said(inside=False)}
    obs = observe(room(), case_of({"id": "box", "text": "a red <box>"}, {"id": "ball", "text": "a blue ball"}),
                  sam3=RedDetector(), hpsv3=Rewards(lambda crop, k: k % 2), tapip3d=Tracker(),
                  judge=FakeJudge(lambda k: answers.get(k, said())))
    return obs, list(measure(obs, METRICS).values())


def test_a_card_for_each_object_in_the_order_of_the_case(seen):
    box, ball = object_cards(*seen)
    assert (box.id, ball.id) == ("box", "ball")
    assert [k for k, _ in box.scores] == [k for k, _ in ball.scores]
    scores = dict(box.scores)
    assert scores["M16 detected"] == "1.00"
    assert scores["M17 reward spread"] == "0.50"
    assert scores["M18 reward F1"] == "0.80"
    assert dict(ball.scores)["M16 detected"] == "0.00 (target not lifted)"
    assert dict(ball.scores)["M17 reward spread"] == "invalid"
    assert not ball.views
    assert "not found" in ball.note


def test_every_view_has_its_outline_and_what_was_said(seen):
    obs, rows = seen
    box = object_cards(obs, rows)[0]
    assert [v.name for v in box.views[:3]] == ["0°", "15°", "30°"]
    assert len(box.views) == 24
    masks = obs.get("spatial.object_detections")["box"].masks
    for view, mask in zip(box.views, masks, strict=True):
        assert view.picture.shape == (SIZE, SIZE, 3)
        outline = (view.picture == PINK).all(axis=-1)
        assert outline.any()
        assert not (outline & ~mask).any()
    assert box.views[0].notes == ["seen", "reward 0.00", "valid"]
    assert box.views[1].notes == ["seen", "reward 1.00", "valid"]
    assert [(box.views[k].notes[2], box.views[k].state) for k in (2, 3, 4, 5)] == [
        ("hidden or absent", "bad"), ("valid, artifacts", "good"), ("no answer", ""), ("outside of the scene", "bad")]


def test_without_models_the_views_are_drawn_all_the_same():
    case = case_of({"id": "box", "text": "a red box", "image_polygon": [(0.4, 0.6), (0.6, 0.6), (0.5, 0.9)]})
    obs = observe(room(), case)
    card, = object_cards(obs, list(measure(obs).values()))
    assert len(card.views) == 24
    assert {v.state for v in card.views} == {""}
    assert dict(card.facts)["found by"] == "the case's polygon"
    assert {words for _, words in card.scores} == {"unavailable"}


def test_an_object_that_nobody_could_look_for():
    obs = observe(room())
    card, = object_cards(obs, list(measure(obs).values()))
    assert not card.views
    assert "not looked for" in card.note


def test_no_cards_where_nothing_was_asked():
    assert object_cards(observe(room()), []) == []


def test_pictures_are_of_the_first_eight_objects():
    case = case_of(*({"id": f"o{k}", "text": "a red box", "image_polygon": [(0.4, 0.6), (0.6, 0.6), (0.5, 0.9)]}
                     for k in range(9)))
    obs = observe(room(), case)
    obs.get("spatial.object_targets")
    cards = object_cards(obs, [])
    assert [bool(c.views) for c in cards] == [True] * 8 + [False]


def test_the_page_shows_them_escaped_once_and_linked(seen):
    obs, rows = seen
    data = ReportData("Spatial report", "room.glb", objects=object_cards(obs, rows), metrics=[
        MetricRow(m.metric, m.metric, f"{m.metric}: {m.object}", "W3", True, m.value, "", True, m.value, m.status,
                  m.reason) for m in rows])
    html = render_page(data)
    assert "a red &lt;box&gt;" in html
    assert "<box>" not in html
    part = html[html.index('<section class="card" id="objects"'):]
    assert part[:part.index("</section>")].count("<img ") == 24
    assert 'href="#objects"' in html
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert all(evidence_of(m, data) == "objects" for m in data.metrics if m.status is Status.MEASURED)
    assert 'id="objects"' not in render_page(ReportData("Spatial report", "room.glb"))
    assert html == render_page(data)


def test_an_outline_follows_a_mask_of_another_size():
    mask = np.zeros((96, 96), bool)
    mask[24:72, 24:72] = True
    out = marked(np.zeros((32, 32, 3), np.uint8), mask)
    assert (out[8, 8] == PINK).all()
    assert (out[16, 16] == 0).all()
