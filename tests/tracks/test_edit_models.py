"""Edits scored by models: what they are shown, what counts, and what of it the case's evidence replaces.

The room and its box are those of ``test_edit_worlds``: the box is all that is not of the room's colour, also where an
edge is blended, since a quarter of their difference is 20 codes.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.report.edit_page import make_pair_page
from spatialbench.runs.batch.keys import recipes
from spatialbench.runs.pair import PairResult, run_pair
from spatialbench.runs.single import RunOptions, prepare
from spatialbench.scorers import registry
from spatialbench.types import Status, TriangleMesh, load_protocol
from tests.fake_scorers import Says, Thresholds, lend
from tests.tracks.test_edit_worlds import (
    FILE_BOX,
    QUICK,
    ROOM,
    SIZE,
    case,
    encoded,
    give_masks,
    glb,
    judge,
    masks,
    room,
    rows,
)

CODE = round(255 * encoded(ROOM))
COSINE = 0.85


def not_room(image: np.ndarray) -> np.ndarray:
    return (image != CODE).any(axis=-1)


class Seeks(Thresholds):
    """Finds the box by its colour; remembers what it was asked for."""

    def __init__(self, test: Any = not_room, score: float = 0.9) -> None:
        super().__init__(score, **{"a box": test, "a ball": test})
        self.asked: list[tuple[str, int, int]] = []

    def detect(self, images: Any, text: str) -> Any:
        self.asked.append((text, len(images), images[0].shape[0]))
        return super().detect(images, text)


class Maps:
    """0.2 where images are equal, 0.9 elsewhere."""

    def __init__(self, same: float = 0.2) -> None:
        self.same = same

    def difference_maps(self, first: Any, second: Any) -> list[np.ndarray]:
        return [np.where((a == b).all(axis=-1), self.same, 0.9).astype(np.float32)
                for a, b in zip(first, second, strict=True)]


class Tokens:
    """Tokens of the images after stand at a known angle to those before, on a grid of ``side``."""

    def __init__(self, cosine: float = COSINE, side: int = 37) -> None:
        self.cosine, self.side = cosine, side

    def patch_tokens(self, images: Any) -> np.ndarray:
        out = np.zeros((len(images), self.side, self.side, 2), np.float32)
        out[..., 0] = 1.0
        out[len(images) // 2:] = (self.cosine, np.sqrt(1 - self.cosine**2))
        return out * 3.0  # lengths do not count


def no_box(question: Any, pixels: np.ndarray) -> dict[str, bool]:
    return {"satisfied": not not_room(pixels).any()}


def always(answer: bool | None) -> Any:
    return lambda question, pixels: None if answer is None else {"satisfied": answer}


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(answer: Any = no_box, **other: Any) -> SimpleNamespace:
        made = {"sam3": Seeks(), "lpips_vgg": Maps(), "dinov2": Tokens(), **other}
        said = None if answer is None else Says(answer)
        lend(monkeypatch, said, **{k: v for k, v in made.items() if v is not None})
        return SimpleNamespace(judge=said, **made)
    return give


def run(folder: Path, before: TriangleMesh, after: TriangleMesh, case_file: Path, *settings: str) -> PairResult:
    return run_pair("edit", glb(folder / "before.glb", before), glb(folder / "after.glb", after),
                    RunOptions(settings=(*QUICK, *settings), case=case_file))


# --- the whole of it --------------------------------------------------------------------------------------


def test_a_deleted_box_by_models_alone(tmp_path, models):
    """As with evidence: PSNR 99, LPIPS 0.2, 1 - cos = 0.15; the judge sees the box before and none after."""
    used = models()
    result = run(tmp_path, room(), room(box=False), case(tmp_path))
    m = rows(result)
    assert used.sam3.asked == [("a box", 6, 32), ("a box", 24, SIZE)]
    views = m["M32"].components["views"]
    assert len(views) == 6 and m["M32"].counts == {"detectable": 24, "frames": 6, "valid": 6}
    assert m["M31"].value == 1.0
    assert m["M31"].components["after"] == [True] * 6 and m["M31"].components["before"] == [False] * 6
    assert m["M31"].counts == {"views": 6, "answered": 6, "judge_errors": 0, "not_asked": 0}
    ids = [a.id for a in used.judge.answers]
    assert len(set(ids)) == 12 and ids[0] == "edit.after.00"
    assert (m["M32"].value, m["M33"].value) == (99.0, pytest.approx(0.2, abs=1e-6))  # float32
    assert m["M34"].value == pytest.approx(1 - COSINE, abs=1e-6)
    assert m["M36"].value == pytest.approx(1 - (10 ** (-99 / 20) + 0.2 + 0.15) / 3, abs=1e-6)
    assert all(m[id].flags == () for id in ("M31", "M32", "M33", "M34", "M36"))
    target = result.observations.get("spatial.edit_target")
    assert target.points > 0 and target.centre[1] < 1.5  # it lies in front, 0.4 to 1 m
    assert "orbit view 00" in make_pair_page(result)


def test_the_orbit_of_an_edit_is_that_of_an_object(tmp_path, models):
    """OPEN-17b by the same keys: with twice the factor the radius doubles, and the limits hold."""
    models()
    runs = [run(tmp_path, room(), room(box=False), case(tmp_path), *more)
            for more in ((), ("objects.radius_factor=3",), ("objects.radius_limits=[0.5, 1.25]",))]
    radii = [r.observations.get("spatial.edit_target").radius for r in runs]
    assert radii[1] == pytest.approx(2 * radii[0])
    assert radii[2] == 1.25 < radii[0]


def test_noise_outside_the_mask_is_counted(tmp_path, models):
    """All of the room is repainted: every background pixel differs by e(0.3) - e(0.2)."""
    models()
    m = rows(run(tmp_path, room(), room(box=False, colour=0.3), case(tmp_path)))
    assert m["M32"].value == pytest.approx(-20 * np.log10(encoded(0.3) - encoded(ROOM)), abs=1e-3)  # float32 pixels
    assert m["M33"].value == pytest.approx(0.9, abs=1e-6)
    rmse = encoded(0.3) - encoded(ROOM)
    assert m["M31"].value == 0.0  # nothing in the picture has the room's colour any more
    assert m["M36"].value == 0.0 and m["M36"].components["rmse"] == pytest.approx(rmse, rel=1e-4)


@pytest.mark.parametrize(("category", "asked"), [
    ("addition", [("a box", 6), ("a box", 24)]),
    ("replacement", [("a ball", 6), ("a box", 24), ("a ball", 24)]),
    ("colour", [("a box", 6), ("a box", 24), ("a box", 24)])])
def test_each_operation_seeks_its_object_where_it_is(tmp_path, models, category, asked):
    """The mask is of the world after, of both, and of both; then nothing else differs."""
    used = models(always(True))
    before = room(box=category != "addition")
    m = rows(run(tmp_path, before, room(box_colour=0.1), case(tmp_path, category)))
    assert [(text, n) for text, n, _ in used.sam3.asked] == asked
    assert m["M32"].value == 99.0 and m["M36"].value > 0.8


def test_a_changed_description_is_sought_after(tmp_path, models):
    used = models()
    run(tmp_path, room(), room(box_colour=0.1), case(tmp_path, "colour", more="target_after: a ball"))
    assert [text for text, *_ in used.sam3.asked] == ["a box", "a box", "a ball"]


def test_a_moved_light(tmp_path, models):
    """A global edit: six probes, no detector; the judge says yes to the brighter one."""
    used = models(lambda q, pixels: {"satisfied": bool(pixels.mean() > 150)})
    m = rows(run(tmp_path, room(), room(colour=0.5, box_colour=0.9), case(tmp_path, "lighting")))
    assert used.sam3.asked == []
    assert (m["M31"].value, m["M37"].value, m["M37"].flags) == (1.0, 1.0, ())
    assert m["M31"].components["views"] == list(range(6))
    assert m["M31"].components["before"] == [False] * 6 and m["M31"].components["after"] == [True] * 6
    assert m["M36"].status is Status.INAPPLICABLE


# --- zeros, missing and undefined -------------------------------------------------------------------------

NOWHERE = {"nothing": Seeks(lambda i: np.zeros(i.shape[:2], bool)), "weak": Seeks(score=0.49),
           "probes only": Seeks(lambda i: not_room(i) & (i.shape[0] == 32))}


@pytest.mark.parametrize("how", NOWHERE)
def test_an_object_that_is_found_nowhere_is_a_failed_edit(tmp_path, models, how):
    used = models(sam3=NOWHERE[how])
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path)))
    assert (m["M31"].value, m["M31"].reason, m["M31"].flags) == (0.0, "no_object_view", ())
    assert all((m[id].status, m[id].reason) == (Status.INVALID, "no_object_view") for id in ("M32", "M33", "M34"))
    assert (m["M36"].value, m["M36"].reason) == (0.0, "not_executed")
    assert used.judge.answers == []


def test_masks_of_whole_views_leave_no_background(tmp_path, models):
    models(always(True), sam3=Seeks(lambda i: np.ones(i.shape[:2], bool)))
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path)))
    assert all((m[id].status, m[id].reason) == (Status.INVALID, "empty_background") for id in ("M32", "M33", "M34"))
    assert m["M31"].value == 1.0 and m["M36"].status is Status.INVALID


def test_the_same_world_twice_and_a_judge_that_always_says_yes(tmp_path, models):
    """A no-op on an already satisfied scene passes: answers before do not gate."""
    models(always(True), lpips_vgg=Maps(0.0), dinov2=Tokens(1.0, side=16))
    m = rows(run(tmp_path, room(), room(), case(tmp_path)))
    assert m["M31"].components["before"] == [True] * 6
    assert (m["M32"].value, m["M33"].value) == (99.0, 0.0)
    assert m["M34"].value == pytest.approx(0.0, abs=1e-6)
    assert m["M36"].value == pytest.approx(1 - 10 ** (-99 / 20) / 3, abs=1e-6)
    assert set(m["M31"].flags) == set(m["M36"].flags) == {"identical_worlds", "satisfied_before"}


def test_a_judge_that_always_says_no(tmp_path, models):
    models(always(False), lpips_vgg=None, dinov2=None)
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path)))
    assert (m["M31"].value, m["M31"].reason) == (0.0, "no_view_satisfies")
    assert (m["M36"].value, m["M36"].reason) == (0.0, "not_executed")  # also without what is lacking
    assert m["M33"].status is m["M34"].status is Status.UNAVAILABLE
    assert "evidence ('lpips')" in m["M33"].reason and "evidence ('dino')" in m["M34"].reason


def test_judge_errors_are_no_answers(tmp_path, models):
    """Five of six answers are fewer than 90 %; errors about views before cost nothing."""
    models(lambda q, pixels: None if q.id == "edit.after.02" else {"satisfied": True})
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path)))
    assert m["M31"].status is m["M36"].status is Status.UNAVAILABLE
    assert m["M31"].counts == {"views": 6, "answered": 5, "judge_errors": 1, "not_asked": 0}
    models(lambda q, pixels: None if "before" in q.id else {"satisfied": q.id == "edit.after.05"})
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path)))
    assert m["M31"].value == 1.0 and m["M31"].components["before"] == [None] * 6
    models(always(None))
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, "weather")))
    assert m["M31"].status is m["M37"].status is Status.UNAVAILABLE and m["M35"].value < 1.0


def test_an_answer_that_is_lacking_below_the_coverage_is_not_taken_as_yes(tmp_path, models):
    models(lambda q, pixels: None if q.id == "edit.after.02" else {"satisfied": False})
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path), "judge.min_coverage=0.5"))
    assert (m["M31"].value, m["M31"].components["after"]) == (0.0, [False, False, None, False, False, False])


def test_without_a_judge_the_rest_is_measured(tmp_path, models):
    models(None)
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path)))
    assert m["M32"].value == 99.0 and m["M34"].value is not None
    assert m["M31"].status is m["M36"].status is Status.UNAVAILABLE
    assert "evidence ('judge')" in m["M31"].reason and "SAM3" not in m["M31"].reason


class Fails:
    def __init__(self, value: float = np.nan) -> None:
        self.value = value

    def detect(self, images: Any, text: str) -> Any:
        raise BackendUnavailableError("the device has too little memory for one image")

    def difference_maps(self, first: Any, second: Any) -> list[np.ndarray]:
        return [np.full(a.shape[:2], self.value, np.float32) for a in first]

    def patch_tokens(self, images: Any) -> np.ndarray:
        return np.full((len(images), 4, 4, 2), self.value, np.float32)


def test_models_that_fail_cost_their_metrics_only(tmp_path, models):
    models(sam3=Fails())
    result = run(tmp_path, room(), room(box=False), case(tmp_path))
    m = rows(result)
    for id in ("M31", "M32", "M33", "M34", "M36"):
        assert m[id].status is Status.UNAVAILABLE and "too little memory" in m[id].reason
    assert "too little memory" in make_pair_page(result)
    for value in (np.nan, -1.0, 0.0):
        models(lpips_vgg=Fails(value), dinov2=Fails(0.0 if value < 0 else value))
        m = rows(run(tmp_path, room(), room(box=False), case(tmp_path)))
        assert m["M34"].status is m["M36"].status is Status.UNAVAILABLE and m["M32"].value == 99.0
        assert m["M33"].value == (0.0 if value == 0 else None)


# --- evidence, stand-ins, recipes -------------------------------------------------------------------------


def test_masks_of_the_case_come_before_the_detector(tmp_path, models):
    used = models()
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence=give_masks(
        tmp_path, before=masks(grow=0.12)))))
    assert used.sam3.asked == []
    assert all(m[id].flags == ("evidence_given",) for id in ("M31", "M32", "M33", "M34", "M36"))
    assert m["M31"].value == 1.0 and m["M33"].value == pytest.approx(0.2, abs=1e-6)


def test_each_kind_of_evidence_by_itself(tmp_path, models):
    """A box: the detector masks the views. Masks of one world: the other's are sought. Answers: only they are given."""
    used = models()
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence=f"  target_box: {FILE_BOX}\n")))
    assert [n for _, n, _ in used.sam3.asked] == [24]
    assert (m["M32"].value, m["M32"].flags) == (99.0, ("evidence_given",))
    used = models(always(True))
    m = rows(run(tmp_path, room(), room(box_colour=0.1), case(tmp_path, "replacement", give_masks(
        tmp_path, before=masks(grow=0.12)))))
    assert [(text, n) for text, n, _ in used.sam3.asked] == [("a ball", 24)]
    assert (m["M32"].value, m["M31"].value) == (99.0, 1.0)
    used = models()
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence=judge(tmp_path, (0, 8), [True, False]))))
    assert used.judge.answers == []
    assert (m["M31"].value, m["M31"].flags) == (1.0, ("evidence_given",))
    assert (m["M32"].flags, m["M36"].flags) == ((), ("evidence_given",))


@pytest.mark.parametrize("fits", [True, False])
def test_maps_and_tokens_of_the_case_must_be_of_the_views_that_the_detector_chose(tmp_path, models, fits):
    models()
    views = np.array([0, 4, 8, 12, 16, 20] if fits else [0, 1, 2])
    np.savez(tmp_path / "l.npz", views=views, maps=np.full((len(views), SIZE, SIZE), 0.4, np.float32))
    np.savez(tmp_path / "d.npz", views=views, before=np.ones((len(views), 37, 37, 2), np.float32),
             after=np.ones((len(views), 37, 37, 2), np.float32))
    evidence = f"  target_box: {FILE_BOX}\n  lpips: l.npz\n  dino: d.npz\n"
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence=evidence)))
    if fits:
        assert (m["M33"].value, m["M34"].value) == (pytest.approx(0.4, abs=1e-6), pytest.approx(0.0, abs=1e-6))
        return
    assert m["M33"].status is m["M34"].status is m["M36"].status is Status.INVALID
    assert "evidence, 'lpips': is of the views [0, 1, 2], and [0, 4, 8, 12, 16, 20]" in m["M33"].reason


def test_stand_ins_are_flagged(tmp_path, models, monkeypatch):
    for id, official in (("other_sam", "sam3"), ("other_lpips", "lpips_vgg"), ("other_dino", "dinov2")):
        monkeypatch.setitem(registry._SPECS, id, registry.ScorerSpec(
            id, id, "detection", "a test", lambda opening: None, stands_in_for=official))
    used = models(other_sam=Seeks(), other_lpips=Maps(), other_dino=Tokens(), sam3=None, lpips_vgg=None, dinov2=None)
    used.judge.substitute = True
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path), "scorers.substitutes="
                 "{sam3: other_sam, lpips_vgg: other_lpips, dinov2: other_dino}"))
    sam, lpips, dino = (f"substitute:other_{n}" for n in ("sam", "lpips", "dino"))
    assert m["M31"].flags == (sam, "substitute:vlm_judge")
    assert (m["M32"].flags, m["M33"].flags, m["M34"].flags) == ((sam,), (sam, lpips), (sam, dino))
    assert m["M36"].flags == (sam, "substitute:vlm_judge", lpips, dino)
    m = rows(run(tmp_path, room(), room(), case(tmp_path, "weather")))
    assert m["M37"].flags == ("identical_worlds", "substitute:vlm_judge")


def test_a_text_that_the_detector_cuts_is_said(tmp_path, models):
    seeks = Seeks()
    seeks.truncates = lambda text: True
    models(sam3=seeks)
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path)))
    assert m["M31"].flags == m["M32"].flags == m["M36"].flags == ("text_truncated",)


def test_recipes_name_what_models_are_told():
    prepare()
    ids = [f"M{k}" for k in range(31, 38)]
    base = recipes(load_protocol("happyworld-spatial-1"), ids)

    def changed(*settings: str) -> set[str]:
        other = recipes(load_protocol("happyworld-spatial-1", settings), ids)
        return {id for id in ids if other[id] != base[id]}
    assert changed("objects.radius_factor=2") == {"M31", "M32", "M33", "M34", "M36", "M37"}
    assert changed("scorers.detection_score=0.6") == {"M31", "M32", "M33", "M34", "M36", "M37"}
    assert changed("judge.repeats=3") == {"M31", "M36", "M37"}
