"""W1 and W3 places in the room of ``object_world``: which frames are asked about, what counts, and what is missing.

Scorers answer by the number of the image or of the call, so that every value follows from the rule alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from spatialbench.scorers.contract import Detection, TextVectors
from spatialbench.scorers.judge import Answer
from spatialbench.tracks.spatial.judging import recorded
from spatialbench.types import Protocol, SnapshotCase, Status
from tests.fake_scorers import Says
from tests.object_world import measure, observe, room
from tests.worlds import quick_protocol

FRAMES = 20
SETTINGS = ("views.supersample=1", "views.lens={width: 32, height: 32, fov_deg: 75.0}", "views.probe_size=32",
            "finding.min_surfels=2000", "finding.max_surfels=2000", "finding.voxel=0.3")


def protocol(*more: str) -> Protocol:
    return quick_protocol(*SETTINGS, f"views.ring_frames={FRAMES}", *more)


PROTOCOL = protocol()
CASE = SnapshotCase(id="c", text="a grey room", image="input.png", categories=("box", "unicorn"))


def run(*metrics: str, case: SnapshotCase = CASE, rule: Protocol = PROTOCOL, image: Path | None = None,
        judge: Any = "no judge is named", **scorers: Any) -> dict[str, Any]:
    obs = observe(room(), case, protocol=rule, judge=judge, **scorers)
    if image is not None:
        obs.context = replace(obs.context, media={**obs.context.media, "image": image})
    return measure(obs, metrics)


class Rates:
    """Ratings by the number of the call and of the image in it; keeps what it was given."""

    def __init__(self, of: Callable[[int, int], float]) -> None:
        self.of = of
        self.calls: list[list[np.ndarray]] = []
        self.texts: list[str] = []

    def rate(self, images: Sequence[np.ndarray], text: str = "") -> np.ndarray:
        self.calls.append(list(images))
        self.texts.append(text)
        return np.array([self.of(len(self.calls) - 1, k) for k in range(len(images))])

    def rate_embeddings(self, vectors: np.ndarray) -> np.ndarray:
        return self.rate(list(vectors))


class Embeds:
    """Frame k of the ring at the angle ``of(k)`` to the text and to a single image; lengths grow with k."""

    def __init__(self, of: Callable[[int], float], text: tuple[float, float] = (3.0, 0.0)) -> None:
        self.of, self.text = of, text

    def embed_images(self, images: Sequence[np.ndarray]) -> np.ndarray:
        if len(images) == 1:
            return np.array([[2.0, 0.0]], np.float32)
        angles = np.array([self.of(k) for k in range(len(images))])
        lengths = 1.0 + np.arange(len(images))[:, None]
        return (lengths * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(np.float32)

    def embed_texts(self, texts: Sequence[str]) -> TextVectors:
        return TextVectors(np.array([self.text], np.float32), (False,))


# --- M01 to M05 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("metric", "scorer", "text"), [
    ("M01", "topiq_nr", ""), ("M03", "pi", ""), ("M04", "q_align", ""), ("M05", "hpsv3", "a grey room")])
def test_a_rating_is_the_mean_over_every_frame_of_the_ring(metric, scorer, text):
    """-1, 0, 1 ... 18: mean 8.5; nothing is clipped, and the text is HPSv3's alone."""
    rater = Rates(lambda call, k: k - 1.0)
    m = run(metric, **{scorer: rater})[metric]
    assert m.value == 8.5
    assert m.counts == {"frames": FRAMES}
    assert m.components["worst_frame"] == 0
    assert rater.texts == [text]
    red = [bool(((i[..., 0] > 100) & (i[..., 1] < 50)).any()) for i in rater.calls[0]]
    # the box ahead spans 8 degrees to each side, a view 37.5: it is in those of 0, +-18 and +-36 degrees, clockwise
    assert red == [k in (0, 1, 2, 18, 19) for k in range(FRAMES)]


def test_m02_rates_the_embeddings_of_every_frame():
    head = Rates(lambda call, k: float(k))
    m = run("M02", clip_l14=Embeds(lambda k: 0.1 * k), laion_aes=head)["M02"]
    assert m.value == 9.5
    assert np.linalg.norm(head.calls[0], axis=1) == pytest.approx(1 + np.arange(FRAMES))


@pytest.mark.parametrize("ratings", [[1.0], [np.nan] * FRAMES, [[1.0]] * FRAMES, [1.0] * 19 + [np.inf]])
@pytest.mark.parametrize(("metric", "scorer"), [("M01", "topiq_nr"), ("M02", "laion_aes"), ("M15", "hpsv3")])
def test_a_model_that_gives_something_else_than_a_number_for_each_image_is_unavailable(metric, scorer, ratings):
    class Broken:
        def rate(self, images: Any, text: str = "") -> np.ndarray:
            return np.array(ratings)

        rate_embeddings = rate
    m = run(metric, **{"clip_l14": Embeds(lambda k: 0.0), scorer: Broken()})[metric]
    assert m.status is Status.UNAVAILABLE
    assert m.reason.startswith(scorer)
    assert "weights verify" in m.reason


# --- M06 --------------------------------------------------------------------------------------------------

QUALITY = ("artifact_free", "sharp", "plausible_layout")


def test_m06_asks_three_questions_about_18_frames_evenly_spaced_from_the_first():
    """Of 20 frames those numbered floor(10 k / 9). Yes: 18 + 9 + 1 of 54."""
    rater = Rates(lambda call, k: 0.0)
    seen: list[np.ndarray] = []

    def answer(q: Any, pixels: np.ndarray) -> dict[str, bool]:
        k = len(seen)
        seen.append(pixels)
        return dict(zip(QUALITY, (True, k % 2 == 0, k == 17), strict=True))
    m = run("M01", "M06", topiq_nr=rater, judge=Says(answer))["M06"]
    chosen = [k * 10 // 9 for k in range(18)]
    assert m.components["views"] == chosen
    assert [s.tolist() for s in seen] == [rater.calls[0][k].tolist() for k in chosen]
    assert m.value == pytest.approx(28 / 54)
    assert m.components["rates"] == pytest.approx({"artifact_free": 1.0, "sharp": 0.5, "plausible_layout": 1 / 18})


def says(answers: Callable[[int, int], bool | None]) -> Any:
    """A judge that answers all three questions alike, by the number of the view and of the repeat."""
    class Judge(Says):
        def ask(self, questions: Sequence[Any]) -> list[Answer]:
            out = []
            for q in questions:
                yes = answers(int(q.id.rpartition(".")[2]), q.repeat)
                out.append(Answer(q.id, q.repeat, "judge_error", reason="no JSON") if yes is None
                           else Answer(q.id, q.repeat, "answered", dict.fromkeys(QUALITY, yes)))
            return out
    return Judge(lambda q, p: None)


def test_repeats_are_counted_by_majority():
    """Views 0 to 5: yes, yes, no; the others: no, no, yes. Each disagrees with itself in a third."""
    m = run("M06", rule=protocol("judge.repeats=3"), judge=says(lambda view, k: (k < 2) == (view < 6)))["M06"]
    assert m.value == pytest.approx(6 / 18)
    assert m.components["disagreement"] == pytest.approx(1 / 3)
    assert m.counts == {"views": 18, "answered": 54, "judge_errors": 0, "not_asked": 0}


@pytest.mark.parametrize(("ties", "value"), [(1, 1.0), (2, None)])
def test_a_view_on_which_repeats_do_not_agree_has_no_answer(ties, value):
    """17 of 18 views are 94 %, 16 are 89 %."""
    m = run("M06", rule=protocol("judge.repeats=2"), judge=says(lambda view, k: view >= ties or k == 0))["M06"]
    assert m.value == value
    if value is None:
        assert (m.status, m.counts["answered"]) == (Status.UNAVAILABLE, 36)
        assert "agree on 16 of 18 views" in m.reason
    else:
        assert m.components["answers"][0] is None
        assert m.components["disagreement"] == 0.5


def test_a_repeat_in_error_is_no_vote():
    """Of three repeats of view 0 two are errors, and the third says no: 52 of 54 answers, 17 of 18 yes."""
    m = run("M06", rule=protocol("judge.repeats=3"),
            judge=says(lambda view, k: True if view else (False if k == 2 else None)))["M06"]
    assert m.value == pytest.approx(17 / 18)
    assert m.counts == {"views": 18, "answered": 52, "judge_errors": 2, "not_asked": 0}


def test_just_the_share_that_is_needed_is_enough():
    """0.56 of 25 views is 14, though 0.56 * 25 is 14.000000000000002 in binary."""
    assert 0.56 * 25 > 14
    assert recorded([{"a": True}] * 14 + [None] * 11, 0.56).lacking == ""
    assert "answers 13 of 25 views, at least 56%" in recorded([{"a": True}] * 13 + [None] * 12, 0.56).lacking


# --- M09 and M10 ------------------------------------------------------------------------------------------


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "input.png")
    return tmp_path / "input.png"


def test_cosines_with_the_text_and_the_input_image(picture):
    """Cosines 0, 0.05 ... 0.95 of the frames: M09 is their mean, M10 that of 0.95, 0.90 and 0.85."""
    m = run("M09", "M10", image=picture, clip_l14=Embeds(lambda k: np.arccos(0.05 * k)))
    assert m["M09"].value == pytest.approx(9.5 * 0.05, abs=1e-6)  # float32 vectors
    assert m["M10"].value == pytest.approx(0.9, abs=1e-6)
    assert m["M10"].components["best"] == [19, 18, 17]
    opposite = run("M09", clip_l14=Embeds(lambda k: np.arccos(0.05 * k), (-1.0, 0.0)))["M09"]
    assert opposite.value == pytest.approx(-9.5 * 0.05, abs=1e-6), "not clipped at 0"


def test_m10_of_two_views_is_invalid(picture):
    m = run("M09", "M10", image=picture, rule=quick_protocol(*SETTINGS, "views.ring_frames=2"),
            clip_l14=Embeds(lambda k: 0.0))
    assert m["M10"].status is Status.INVALID  # OPEN-7
    assert m["M09"].value == pytest.approx(1.0)


@pytest.mark.parametrize("where", ["frames", "text"])
def test_an_embedding_without_a_direction_is_the_models_fault(where, picture):
    class Broken(Embeds):
        def embed_images(self, images: Any) -> np.ndarray:
            return super().embed_images(images) * (0.0 if where == "frames" and len(images) > 1 else 1.0)
    broken = Broken(lambda k: 0.0, (0.0, 0.0) if where == "text" else (1.0, 0.0))
    m = run("M02", "M09", "M10", image=picture, clip_l14=broken, laion_aes=Rates(lambda call, k: 1.0))
    for id in ("M02", "M09", "M10") if where == "frames" else ("M09",):
        assert m[id].status is Status.UNAVAILABLE
        assert "clip_l14 gave an embedding that is zero" in m[id].reason


# --- M11 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("face", "score", "pixels", "instances", "value"), [
    (0, 0.5, 64, 1, 0.5), (5, 0.9, 64, 1, 0.5), (0, 0.49, 1000, 1, 0.0), (0, 0.9, 63, 1, 0.0), (0, 0.9, 40, 3, 0.0)])
def test_m11_needs_one_instance_of_half_a_score_and_64_pixels_in_any_probe(face, score, pixels, instances, value):
    class Finds:
        def detect(self, images: Sequence[np.ndarray], text: str) -> list[tuple[Detection, ...]]:
            assert len(images) == 6
            mask = np.zeros((32, 32), bool)
            mask.ravel()[:pixels] = True
            return [(Detection(score, mask),) * instances if text == "box" and k == face else () for k in range(6)]
    m = run("M11", sam3=Finds())["M11"]
    assert m.value == value
    assert m.components["faces"] == {"box": [face] if value else [], "unicorn": []}
    assert m.components["best_scores"] == {"box": score, "unicorn": 0.0}
    assert m.reason == ("" if value else "no_category_detected")


# --- M15, M38 and M39 -------------------------------------------------------------------------------------


def test_places_by_the_mean_of_eight_views_each():
    """Place k gets the rewards k, k + 0.1 ... k + 0.7: its mean is k + 0.35, the spread that of 0 to K."""
    rater = Rates(lambda call, k: call + 0.1 * k)
    # With a clearance of 1.5 m the outermost places, which are nearer than that to the walls, are not free.
    m = run("M15", "M38", "M39", rule=protocol("usability.clearance=1.5"), hpsv3=rater)
    n = 6
    assert m["M38"].components["usable_slots"] == [False] * 2 + [True] * n
    assert m["M38"].counts["usable_locations"] == n
    assert [len(c) for c in rater.calls] == [8] * (n + 1)  # the origin and each place, once
    assert set(rater.texts) == {"a grey room"}
    assert m["M15"].components["origin"] == pytest.approx(0.35)
    assert m["M15"].components["locations"] == pytest.approx(0.35 + np.arange(1, n + 1))
    spread = (((n + 1) ** 2 - 1) / 12) ** 0.5  # of n + 1 whole numbers in a row, ddof 0
    assert m["M15"].value == pytest.approx(spread)
    assert m["M38"].value == n / 8
    assert m["M39"].value == pytest.approx(2 * (n / 8) / (1 + (n / 8) * (1 + spread)))
    assert (rater.calls[0][0] != rater.calls[0][4]).any(), "views 180 degrees apart"
    red = [bool(((i[..., 0] > 100) & (i[..., 1] < 50)).any()) for i in rater.calls[0]]
    assert red == [True] + [False] * 7, "45 degrees apart, the first one ahead"


def test_without_a_usable_place_recall_is_zero_and_there_is_no_spread():
    """A clearance of 100 m leaves none free: M38 and M39 are 0, M15 is undefined, and the origin alone is rated."""
    rater = Rates(lambda call, k: 1.0)
    m = run("M15", "M38", "M39", rule=protocol("usability.clearance=100"), hpsv3=rater)
    assert (m["M15"].status, m["M15"].reason) == (Status.INVALID, "no_location_scored")
    assert (m["M38"].value, m["M38"].reason) == (0.0, "no_usable_location")
    assert (m["M39"].value, m["M39"].reason) == (0.0, "zero_recall")
    assert len(rater.calls) == 1


def test_without_hpsv3_recall_is_missing_and_no_zero():
    m = run("M15", "M38", "M39", rule=protocol("usability.clearance=100"))
    assert {m[id].status for id in m} == {Status.UNAVAILABLE}
    assert m["M38"].components["r_usable"] == 0.0


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_without_a_text_there_is_nothing_to_rate_against(text):
    m = run("M05", "M09", "M15", "M38", "M39", case=SnapshotCase(id="c", text=text), hpsv3=Rates(lambda call, k: 1.0),
            clip_l14=Embeds(lambda k: 0.0))
    assert {m[id].status for id in m} == {Status.INAPPLICABLE}
    assert m["M38"].components["r_usable"] > 0, "what the geometry says is there"
