"""The page: self-contained, escaped, complete, the same bytes for the same data."""

from __future__ import annotations

import base64
import io
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import fake
import numpy as np
import pytest
from PIL import Image

from spatialbench.report import GroupRow, MetricRow, ReportData, render_page, write_page
from spatialbench.report.page import MAX_BYTES
from spatialbench.types import Status

VOID = {"meta", "img", "br", "link", "input", "hr"}
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


class Tree(HTMLParser):
    """Collects elements and text, and fails on tags that do not close in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.stack: list[str] = []
        self.feed(html)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack, f"</{tag}> without a start"
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if "style" not in self.stack:
            self.text.append(data)

    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.elements if t == tag]


@pytest.fixture(scope="module")
def html() -> str:
    return render_page(fake.make_report())


@pytest.fixture(scope="module")
def tree(html) -> Tree:
    return Tree(html)


@pytest.fixture(scope="module")
def empty() -> str:
    return render_page(ReportData("Spatial report", "nothing.glb"))


def test_loads_nothing(html, tree):
    assert "http://" not in html
    assert "https://" not in html
    for _, attributes in tree.elements:
        for key in ("src", "href", "xlink:href", "srcset", "action", "data"):
            if attributes.get(key) is not None:
                assert attributes[key].startswith(("data:image/", "#"))
        assert not [k for k in attributes if k.startswith("on")]
    assert not tree.all("script")
    assert not tree.all("link")
    assert "url(" not in html
    assert "@import" not in html
    policy = next(a["content"] for a in tree.all("meta") if a.get("http-equiv"))
    assert "default-src 'none'" in policy


def test_every_link_inside_the_page_has_a_target(tree):
    ids = [a["id"] for _, a in tree.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    links = [a["href"] for t, a in tree.elements if t in ("a", "use")]
    assert links
    assert {href[1:] for href in links} <= set(ids)


def test_says_that_it_is_a_preview(tree, empty):
    assert "Preview of one case, not a benchmark result." in tree.words()
    assert "Preview of one case, not a benchmark result." in Tree(empty).words()


def test_preview_note_is_not_said_twice():
    page = render_page(ReportData("t", "w", preview_note="Preview of one case, not a benchmark result"))
    assert Tree(page).words().count("not a benchmark result") == 1


def test_lists_all_39_metrics_with_status_and_reason(tree):
    rows = [a["id"] for a in tree.all("tr") if (a.get("id") or "").startswith("metric-")]
    assert sorted(rows) == [f"metric-M{i:02d}" for i in range(1, 40)]
    words = tree.words()
    for status in Status:
        assert status.value in words
    assert "needs a second world" in words
    assert words.count("not in the score") == 8  # spec section 12: eight of 39 are not retained


def test_groups_without_a_score_show_a_dash_and_no_bar(html):
    block = html[html.index("Programmable Dynamics"):html.index("Scalable Shared World")]
    assert 'aria-label="no score">\u2013<' in block
    assert 'class="bar none"' in block
    assert "<strong>0 of 7</strong> metrics, so no score; 7 not measured" in block
    assert not re.search(r">0(\.0+)?<", block)


def test_unavailable_never_looks_like_zero():
    def row(raw, z, status):
        return MetricRow("M31", "edit_execution", "Edit execution", "W4", True, raw, "", True, z, status, "because")

    measured = render_page(ReportData("t", "w", metrics=[row(0.0, 0.0, Status.MEASURED)]))
    missing = render_page(ReportData("t", "w", metrics=[row(None, None, Status.UNAVAILABLE)]))
    cell = re.compile(r'<tr id="metric-M31".*?</tr>', re.S)
    zero, none = cell.search(measured).group(), cell.search(missing).group()
    assert "0.00" in zero
    assert 'class="bar"' in zero
    assert "0.00" not in none
    assert 'class="bar' not in none
    assert none.count('aria-label="no value"') == 2


def test_why_names_the_lowest_metrics_worst_first_with_a_sentence(html):
    part = html[html.index('id="h-why"'):html.index('id="panorama"')]
    assert re.findall(r'<span class="id">(M\d\d)</span>', part) == ["M08", "M14", "M25", "M13", "M12", "M07"]
    words = Tree(f"<div>{part[part.index('<ul'):part.rindex('</ul>') + 5]}</div>").words()
    assert "8 of 65 steps leave the world, first at step 7." in words
    assert '<a class="ti" href="#map">Navigable ratio</a>' in part
    assert '<a class="ti" href="#trials">' in part
    assert ">In-bounds ratio</a>" in part


def test_escapes_hostile_texts():
    fields = ("world_name", "system", "case_id", "protocol_id", "protocol_hash", "version", "created",
              "preview_note", "trials_note", "support_note", "title")
    page = render_page(fake.make_report(**{f: f"{f}{HOSTILE}" for f in fields}))
    words = Tree(_harmless(page)).words()
    for f in fields:
        assert f"{f}{HOSTILE}" in words


def test_escapes_hostile_rows():
    data = fake.make_report(warnings=[HOSTILE], repairs=[(HOSTILE, 1, HOSTILE)], inputs=[(HOSTILE, 1, HOSTILE)],
                            machine=[(HOSTILE, HOSTILE)], backends=[(HOSTILE, HOSTILE)])
    for m in data.metrics[:8]:
        m.name = m.title = m.unit = m.reason = m.why = HOSTILE
        m.flags, m.components, m.counts = (HOSTILE,), {HOSTILE: HOSTILE, "x": [HOSTILE]}, {HOSTILE: 1}
    data.metrics[0].level = data.headline[0].name = data.headline[1].note = HOSTILE
    data.headline[0].missing = [HOSTILE]
    for d in data.decisions:
        d.name = d.value = d.source = d.note = HOSTILE
    for g in data.gates:
        g.name = g.note = HOSTILE
    for p in data.probes:
        p.title = p.cause = HOSTILE
    for t in data.trials:
        t.reasons, t.note, t.other_references = (HOSTILE,), HOSTILE, {HOSTILE: True}
    data.map.notes = [HOSTILE]
    data.map.locations[0].cause = data.map.supports[0].id = HOSTILE
    _harmless(render_page(data))


def _harmless(page: str) -> str:
    tree = Tree(page)
    assert not tree.all("script")
    assert not [a for a in tree.all("img") if not (a.get("src") or "").startswith("data:image/")]
    assert not [a for _, a in tree.elements if any(k.startswith("on") for k in a)]
    return page


def test_empty_page_says_what_is_missing(empty):
    words = Tree(empty).words()
    for text in ("No scores were computed.", "Nothing was measured.", "No views were rendered.", "There is no map",
                 "The action path was not rendered.", "No plate was tried.", "No metric was run.",
                 "No decisions were recorded."):
        assert text in words


@pytest.mark.parametrize("gone", [("panorama", "panorama_yaws", "hole_masks"), ("map",), ("trials", "metrics"),
                                  ("probes", "headline"), ("path_chart", "decisions"), ("hole_masks", "gates")])
def test_any_part_may_be_missing(gone):
    none = ("map", "path_chart", "hole_masks")
    page = render_page(fake.make_report(**{part: None if part in none else [] for part in gone}))
    tree = Tree(page)
    ids = {a["id"] for _, a in tree.elements if a.get("id")}
    assert {a["href"][1:] for a in tree.all("a")} <= ids


def test_map_without_navmesh_path_or_footprint_cells():
    plan = fake.make_map()
    plan.nav_labels = plan.path = plan.path_oob = None
    plan.locations, plan.supports, plan.trials = [], [], []
    assert "no navigation mesh" in Tree(render_page(fake.make_report(map=plan))).words()
    plan.footprint.mask[:] = False
    assert "0.0\u00a0m²" in render_page(fake.make_report(map=plan))


def test_trials_without_pictures_say_so():
    data = fake.make_report()
    for t in data.trials:
        t.release_picture = t.rest_picture = None
    assert Tree(render_page(data)).words().count("no picture") == 12


def test_same_data_same_bytes(html):
    assert render_page(fake.make_report()) == html


def test_pictures_are_readable(tree):
    uris = [a.get("src") or a.get("href") for t, a in tree.elements if t in ("img", "image")]
    assert len(uris) == 1 + 36 + 1 + 2 * 6 + 6 * 2  # strip, ring, map, two cubes, six plates twice
    for uri in uris:
        kind, data = re.fullmatch(r"data:image/(jpeg|png);base64,(.+)", uri).groups()
        with Image.open(io.BytesIO(base64.b64decode(data))) as image:
            image.load()
            assert image.format.lower() == kind
    assert all(a.get("alt") for a in tree.all("img"))


def test_size_is_bounded_even_for_pictures_that_do_not_compress(html):
    assert len(html.encode()) < 1_000_000
    noise = np.random.default_rng(0).integers(0, 256, (512, 512, 3)).astype(np.uint8)
    data = fake.make_report(panorama=[noise] * 36, hole_masks=None)
    for t in data.trials:
        t.release_picture = t.rest_picture = noise
    for p in data.probes:
        p.faces = [noise] * 6
    data.probes = list(data.probes) * 3
    assert len(render_page(data).encode()) <= MAX_BYTES


def test_only_six_probes_are_shown():
    data = fake.make_report()
    data.probes = list(data.probes) * 4
    page = render_page(data)
    assert page.count('class="cube"') == 6
    assert "2 more are not shown" in page


def test_wrong_pictures_are_refused():
    with pytest.raises(ValueError, match=r"uint8 \[H,W,3\]"):
        render_page(fake.make_report(panorama=[np.zeros((4, 4, 3), np.float32)], panorama_yaws=[0], hole_masks=None))
    data = fake.make_report()
    data.probes[0].faces = data.probes[0].faces[:5]
    with pytest.raises(ValueError, match="5 faces, not six"):
        render_page(data)


def test_write_is_atomic(tmp_path, monkeypatch):
    target = tmp_path / "deep" / "report.html"
    data = ReportData("t", "w", headline=[GroupRow("W1", "n", 50.0, 1, 2, ["M01"])])
    write_page(data, target)
    assert target.read_bytes() == render_page(data).encode()
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]

    def broken(src: str, dst: Path) -> None:
        raise OSError("disk full")

    before = target.read_bytes()
    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write_page(ReportData("other", "w"), target)
    assert target.read_bytes() == before
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]
