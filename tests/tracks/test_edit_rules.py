"""W4 beyond single images: which pixels and patches of a view count, and what an answer does not depend on.

Room, box and models are those of ``test_edit_worlds`` and ``test_edit_models``; images have 64 x 64 pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.metrics.editing import depth_agreement
from spatialbench.types import Status
from tests.fake_scorers import Says, lend
from tests.tracks.test_edit_models import Maps, Seeks, Tokens, always, models, run  # noqa: F401
from tests.tracks.test_edit_worlds import (
    BOX_HIGH,
    BOX_LOW,
    EYE,
    FILE_BOX,
    QUICK,
    SIZE,
    case,
    give_masks,
    judge,
    room,
    rows,
)


def masked(background: np.ndarray) -> np.ndarray:
    """The same mask for each of the 24 views."""
    return np.broadcast_to(~background, (24, SIZE, SIZE))


class Columns(Tokens):
    """1 - cos of before and after is ``of[c]`` in column c of the 37."""

    def __init__(self, of: np.ndarray) -> None:
        self.of = of

    def patch_tokens(self, images: Any) -> np.ndarray:
        out = np.zeros((len(images), 37, 37, 2), np.float32)
        out[..., 0] = 1.0
        cosine = 1 - self.of
        out[len(images) // 2:] = np.stack([cosine, np.sqrt(1 - cosine**2)], -1)
        return out


class Ramp(Maps):
    """0.9 in the first 31 columns, 0.1 in the others."""

    def difference_maps(self, first: Any, second: Any) -> list[np.ndarray]:
        return [np.where(np.arange(SIZE) < 31, 0.9, 0.1)[None].repeat(SIZE, 0).astype(np.float32) for _ in first]


def test_only_the_background_of_a_view_is_compared(tmp_path, models):  # noqa: F811
    """31 of 64 columns are masked: patch column 17 ends at 31.14, and 8 % of it are background; 18 is all of it."""
    distance = np.zeros(37)
    distance[:18], distance[18] = 2.0, 1.0
    models(always(True), lpips_vgg=Ramp(), dinov2=Columns(distance))
    background = np.zeros((SIZE, SIZE), bool)
    background[:, 31:] = True
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence=give_masks(
        tmp_path, before=masked(background)))))
    assert m["M33"].value == pytest.approx(0.1, abs=1e-6)  # float32
    assert m["M34"].value == pytest.approx(1 / 19, abs=1e-6)  # of the columns 18 to 36


@pytest.mark.parametrize(("rows_", "columns", "lpips", "dino"), [
    (8, 8, True, True), (7, 9, False, True),  # 64 and 63 pixels
    (2, 7, False, True), (2, 6, False, False)])  # a patch is 1.73 pixels: 4 x 1 are more than half, and 3 x 1
def test_a_frame_needs_64_pixels_or_four_patches_of_background(
        tmp_path, models, rows_, columns, lpips, dino):  # noqa: F811
    models(always(True))
    background = np.zeros((SIZE, SIZE), bool)
    background[:rows_, :columns] = True
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence=give_masks(
        tmp_path, before=masked(background)))))
    for id, valid in (("M32", lpips), ("M33", lpips), ("M34", dino)):
        assert m[id].counts["valid"] == (6 if valid else 0), id
        assert (m[id].status, m[id].reason) == ((Status.MEASURED, "") if valid else (Status.INVALID, "no_valid_frame"))


def test_depths_are_compared_with_the_nearer_one():
    """2.102 is 5.1 % more than 2, and 2 is 4.85 % less than it; whichever is before."""
    near, far, full = np.full((8, 8), 2.0), np.full((8, 8), 2.102), np.ones((8, 8))
    assert depth_agreement(near, full, far, full)[0] == depth_agreement(far, full, near, full)[0] == 0.0


def test_a_probe_needs_64_common_pixels(tmp_path, models):  # noqa: F811
    """A probe has 1,024 pixels here, so that none has as many as are asked for."""
    models(always(True))
    m = rows(run(tmp_path, room(), room(), case(tmp_path, "weather"), "editing.min_pixels=1025"))
    assert (m["M35"].status, m["M35"].reason) == (Status.INVALID, "no_common_depth")
    assert m["M35"].components["common_pixels"] == [1024] * 6
    assert m["M37"].status is Status.INVALID


def test_a_judge_that_is_lost_after_the_edit_was_judged_costs_nothing(tmp_path, monkeypatch):
    """What is said of the world before gates nothing, and so its lack does not."""
    class Lost(Says):
        def ask(self, questions: Any) -> Any:
            if "before" in questions[0].id:
                raise BackendUnavailableError("the endpoint is gone")
            return super().ask(questions)
    lend(monkeypatch, Lost(always(True)), sam3=Seeks())
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path)))["M31"]
    assert (m.value, m.components["before"]) == (1.0, [None] * 6)


def test_a_score_of_zero_rests_on_the_answers_alone(tmp_path, models):  # noqa: F811
    """LPIPS maps of the case had no part in it: nothing was executed."""
    views = np.array([0, 4, 8, 12, 16, 20])
    np.savez(tmp_path / "l.npz", views=views, maps=np.full((6, SIZE, SIZE), 0.4, np.float32))
    for answer, flags in ((True, ("satisfied_before", "evidence_given")), (False, ())):
        models(always(answer))
        m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence="  lpips: l.npz\n")))
        assert m["M33"].flags == ("evidence_given",)
        assert (m["M36"].value > 0, m["M36"].flags) == (answer, flags)


def test_a_box_is_in_the_unit_of_the_file_before(tmp_path):
    """All of it twice as large, the eye at 3.2 m: the scale is one half, and the orbit that of the box in metres."""
    from spatialbench.runs.pair import run_pair
    from spatialbench.runs.single import RunOptions
    from spatialbench.types import level_pose
    from tests.analytic import write_glb

    twice = np.diag([2.0, 2.0, 2.0, 1.0])
    paths = [write_glb(tmp_path / name, room(box).transformed(twice), level_pose(2 * np.array(EYE)))
             for name, box in (("before.glb", True), ("after.glb", False))]
    evidence = "  target_box: {low: [-0.6, 0, -2.0], high: [0.6, 1.2, -0.8]}\n"  # twice FILE_BOX
    assert FILE_BOX == "{low: [-0.3, 0, -1.0], high: [0.3, 0.6, -0.4]}"
    obs = run_pair("edit", *paths, RunOptions(settings=QUICK, case=case(tmp_path, evidence=evidence))).observations
    assert obs.context.worlds["before"].scale.factor == pytest.approx(0.5, abs=1e-6)
    target = obs.get("spatial.edit_target")
    assert target.centre == pytest.approx((BOX_LOW + BOX_HIGH) / 2 - EYE, abs=1e-5)  # float32 file
    assert target.radius == pytest.approx(1.5 * np.linalg.norm(BOX_HIGH - BOX_LOW), abs=1e-5)


def test_the_case_may_say_more_views_than_the_judge_is_shown(tmp_path):
    """One yes among the given answers is enough, whichever view it is of."""
    for after, value in (([False, False, True], 1.0), ([False] * 3, 0.0)):
        m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence=judge(tmp_path, (2, 9, 23), after))))
        assert (m["M31"].value, m["M31"].counts["views"]) == (value, 3)
