"""An expansion end to end: a second room behind the first, with values derived by hand.

The first room is 4 x 4 x 2.7 m around the eye, open at its east side; the second continues it from x = 2 to x = 5.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spatialbench.errors import ConfigError, CorruptInputError, UsageError
from spatialbench.report.edit_page import make_pair_page
from spatialbench.report.expand_plan import growth_cells, growth_map
from spatialbench.runs.pair import PairResult, metrics_of, run_pair, runs_kind, write_pair
from spatialbench.runs.pair_frames import write_frames
from spatialbench.runs.single import RunOptions
from spatialbench.tracks.spatial.expansion_views import ground_at
from spatialbench.types import PlanGrid, Status, TriangleMesh, level_pose
from spatialbench.world import FrameOverrides
from tests.analytic import EYE, Soup, write_glb
from tests.splats import splat_mesh
from tests.worlds import moved

CELL = 0.05
QUICK = ("finding.min_surfels=2000", "finding.max_surfels=2000", "finding.voxel=0.3", "views.ring_frames=4",
         "views.probe_size=32", "views.lens={width: 48, height: 48, fov_deg: 90.0}")


def first_room() -> Soup:
    s = Soup()
    s.box((-2.0, -2.0, 0.0), (2.0, 2.0, 2.7), inward=True, skip="1")
    return s


def both_rooms(east: float = 5.0) -> Soup:
    s = first_room()
    s.box((2.0, -2.0, 0.0), (east, 2.0, 2.7), inward=True, skip="3")
    return s


def pair(folder: Path, before: TriangleMesh, after: TriangleMesh, case: str = "", settings=()) -> PairResult:
    given = None
    if case:
        given = folder / "case.yaml"
        given.write_text(f"kind: expand\nid: grown\n{case}\n")
    return run_pair("expand", write_glb(folder / "before.glb", before, level_pose(EYE)),
                    write_glb(folder / "after.glb", after, level_pose(EYE)),
                    RunOptions(settings=(*QUICK, *settings), case=given))


def rows(result: PairResult) -> dict:
    return {m.metric: m for m in result.measurements}


def test_a_second_room(tmp_path):
    """Floors of 4 x 4 and 7 x 4 m: 80 x 80 and 140 x 80 cells, and a row each along walls that lie on a border.

    A wall's points have its own x, so that one at -2 lies in the cells that begin there, which the floor covers, and
    one at +2 or +5 in a row beyond the floor. Before there are walls at x = -2 and y = +-2; after there is one at x = 5
    too. So 80 x 81 cells before and 141 x 81 after; corners are shared.
    """
    m = rows(pair(tmp_path, first_room().mesh(), both_rooms().mesh(), "text: two rooms"))
    before, after = 80 * 81, 141 * 81
    # rounding may put the corner of two walls (a single column of points) into a cell of its own
    assert m["M26"].components["area_before"] / CELL**2 == pytest.approx(before, abs=2)
    assert m["M26"].components["area_after"] / CELL**2 == pytest.approx(after, abs=2)
    assert m["M26"].value == pytest.approx(after / before, rel=1e-3)
    assert m["M26"].components["lost_area"] == 0.0
    # the centroid is that of 61 x 81 cells from x = 2 and from y = -2
    assert m["M27"].components["centroid"] == pytest.approx([2 + 61 * CELL / 2, -2 + 81 * CELL / 2], abs=2e-3)
    x, y, z = m["M27"].components["location"]
    assert (x, y) == pytest.approx((3.525, 0.025), abs=2e-3)
    # ground and eye height as in the first room: float32 file, 1e-6 m
    assert z == pytest.approx(0.0, abs=1e-5)
    assert m["M27"].components["moved"] is False
    # From (3.525, 0.025), 1.6 m high, four views of 90 degrees. After: closed, no holes. Before: only the first room's
    # inside is there. North, east and south see nothing of it, but for pixels that look west past 45 degrees: none.
    assert m["M27"].components["hole_rate_after"] == 0.0
    gains = m["M27"].components["frame_gains"]
    assert gains[0] == pytest.approx(_open_share(0.0, x, y), abs=0.01)
    assert gains[1] == 1.0
    assert gains[2] == pytest.approx(_open_share(180.0, x, y), abs=0.01)
    assert gains[3] == pytest.approx(_open_share(270.0, x, y), abs=0.01)
    assert m["M27"].value == pytest.approx(sum(gains) / 4)
    for id in ("M28", "M29", "M30"):
        assert m[id].status is Status.UNAVAILABLE
        assert "HPSv3" in m[id].reason and "evidence" in m[id].reason


def _open_share(yaw: float, x: float, y: float, size: int = 48) -> float:
    """Share of pixels whose ray from the new place does not enter the first room through its open side at x = 2."""
    pose = level_pose((x, y, 0.0), yaw)
    j, i = np.mgrid[:size, :size]
    local = np.stack([(i + 0.5 - size / 2) / (size / 2), (j + 0.5 - size / 2) / (size / 2), np.ones(i.shape)], -1)
    d = local @ pose.rotation.T
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (2.0 - x) / d[..., 0]
        at_y, at_z = y + t * d[..., 1], t * d[..., 2]
    enters = (t > 0) & (np.abs(at_y) < 2) & (at_z > -1.6) & (at_z < 1.1)
    return float((~enters).mean())


@pytest.mark.parametrize(("settings", "scale"), [((), 1.0), (("scale.camera_height=2",), 1.25)])
def test_the_camera_stands_above_the_ground_of_the_new_place(tmp_path, settings, scale):
    """The second room's floor is half a metre higher, and so is the camera; with an eye of 2 m all is 1.25 times it."""
    s = first_room()
    s.box((2.0, -2.0, 0.5), (5.0, 2.0, 2.7), inward=True, skip="3")
    m = rows(pair(tmp_path, first_room().mesh(), s.mesh(), settings=settings))["M27"]
    assert m.components["ground"] == pytest.approx(-1.1 * scale, abs=1e-5)  # float32 file
    assert m.components["location"][2] == pytest.approx(0.5 * scale, abs=1e-5)


def test_nothing_grew(tmp_path):
    m = rows(pair(tmp_path, first_room().mesh(), first_room().mesh(), "text: a room"))
    assert m["M26"].value == 1.0
    for id in ("M27", "M28", "M30"):
        assert (m[id].status, m[id].reason) == (Status.INVALID, "no_new_cells")
    assert m["M29"].status is Status.UNAVAILABLE
    assert "identical_worlds" in m["M26"].flags


def test_a_world_that_shrank(tmp_path):
    """The second room is gone: the ratio is under 1, and there is no new cell but for the wall that is not there."""
    m = rows(pair(tmp_path, both_rooms().mesh(), first_room().mesh()))
    assert m["M26"].value == pytest.approx(80 / 141, rel=1e-3)
    assert m["M26"].components["lost_area"] == pytest.approx(61 * 81 * CELL**2, rel=1e-3)
    assert m["M27"].reason == "no_new_cells"


def test_an_empty_world_after_is_zero_and_an_empty_one_before_invalid(tmp_path):
    """All of the world after lies above the crop (ground + 10 m), and so has no footprint."""
    high = moved(first_room().mesh(), np.eye(3), (0, 0, 20.0))
    m = rows(pair(tmp_path, first_room().mesh(), high))
    assert (m["M26"].value, m["M26"].reason) == (0.0, "empty_footprint_after")
    assert (m["M27"].status, m["M27"].reason) == (Status.INVALID, "no_new_cells")
    assert "frames_disagree" in m["M26"].flags
    m = rows(pair(tmp_path, first_room().mesh(), both_rooms().mesh(), settings=("crop.below_ground=-20",
                                                                                "crop.above_ground=-19")))
    assert (m["M26"].status, m["M26"].reason) == (Status.INVALID, "empty_footprint_before")


def test_new_cells_without_ground(tmp_path):
    """Only a ceiling was added: it looks down, so that no new cell has ground."""
    s = first_room()
    s.quad((2.5, -1.0, 2.7), (2.5, 1.0, 2.7), (4.5, 1.0, 2.7), (4.5, -1.0, 2.7))
    m = rows(pair(tmp_path, first_room().mesh(), s.mesh()))
    assert m["M26"].value > 1
    assert m["M27"].status is Status.INVALID and m["M27"].reason.startswith("no_ground")


def test_rewards_of_the_case(tmp_path):
    rng = np.random.default_rng(0)
    r = {"junction_after": rng.normal(size=4), "origin_before": rng.normal(size=4), "origin_after": rng.normal(size=4),
         "path_before": rng.normal(size=16), "path_after": rng.normal(size=16)}
    np.savez(tmp_path / "r.npz", **r)
    m = rows(pair(tmp_path, first_room().mesh(), both_rooms().mesh(), "evidence: {rewards: r.npz}"))
    assert m["M28"].value == pytest.approx(r["junction_after"].mean())
    assert m["M29"].value == pytest.approx((r["origin_after"] - r["origin_before"]).mean())
    assert m["M30"].value == pytest.approx((r["path_after"] - r["path_before"]).mean())
    assert all("evidence_given" in m[id].flags for id in ("M28", "M29", "M30"))
    assert "evidence_given" not in m["M27"].flags


def test_unchanged_rewards_are_zero_and_part_of_them_is_enough(tmp_path):
    np.savez(tmp_path / "r.npz", origin_before=np.ones(4), origin_after=np.ones(4))
    m = rows(pair(tmp_path, first_room().mesh(), first_room().mesh(), "text: x\nevidence: {rewards: r.npz}"))
    assert m["M29"].value == 0.0  # shown as 50
    assert m["M28"].reason == "no_new_cells"


@pytest.mark.parametrize(("arrays", "words"), [
    ({"junction_after": np.ones(5)}, "must be 4"), ({"path_after": np.ones(16)}, "only one of"),
    ({"junction_after": np.array([1, 2, np.nan, 3])}, "not finite"), ({"junction": np.ones(4)}, "no metric reads"),
    ({"junction_after": np.ones(4, int)}, "kind f")])
def test_bad_rewards(tmp_path, arrays, words):
    np.savez(tmp_path / "r.npz", **arrays)
    with pytest.raises(CorruptInputError, match=words):
        pair(tmp_path, first_room().mesh(), both_rooms().mesh(), "evidence: {rewards: r.npz}")


def test_without_a_case_rewards_have_no_text(tmp_path):
    m = rows(pair(tmp_path, first_room().mesh(), both_rooms().mesh()))
    assert m["M29"].status is Status.INAPPLICABLE


def test_a_world_in_another_scale_is_said(tmp_path):
    result = pair(tmp_path, first_room().mesh(), moved(both_rooms().mesh(), 0.5 * np.eye(3), (0, 0, 0.8)))
    assert "frames_disagree" in rows(result)["M26"].flags
    assert "1.60 m down before and 0.80 m after" in result.warnings[0]


def test_a_case_of_an_edit_is_refused(tmp_path):
    (tmp_path / "c.yaml").write_text("kind: edit\nid: a\ninstruction: x\ncategory: weather\n")
    with pytest.raises(ConfigError, match="kind 'edit', and this needs 'expand'"):
        run_pair("expand", tmp_path / "a.glb", tmp_path / "b.glb", RunOptions(case=tmp_path / "c.yaml"))


def test_a_protocol_without_such_metrics(tmp_path):
    with pytest.raises(UsageError, match="no metric of W5"):
        pair(tmp_path, first_room().mesh(), both_rooms().mesh(), settings=("metrics=[M07]",))


# --- where the ground is ----------------------------------------------------------------------------------


def test_the_ground_is_the_highest_upward_surface_below_the_eye():
    s = Soup()
    s.quad((0.0, 0.0, -1.6), (1.0, 0.0, -1.6), (1.0, 1.0, -1.6), (0.0, 1.0, -1.6))
    s.quad((0.0, 0.0, -0.8), (1.0, 0.0, -0.8), (1.0, 1.0, -0.8), (0.0, 1.0, -0.8))
    s.quad((0.0, 0.0, 0.5), (1.0, 0.0, 0.5), (1.0, 1.0, 0.5), (0.0, 1.0, 0.5))  # above the eye
    s.quad((0.0, 0.0, -0.3), (0.0, 1.0, -0.3), (1.0, 1.0, -0.3), (1.0, 0.0, -0.3))  # looks down
    cells = PlanGrid(np.ones((20, 20), bool), 0, 0)
    place, ground, was_moved = ground_at(s.mesh(), cells, np.array([0.5, 0.5]))
    assert (place, was_moved) == ((0.5, 0.5), False)
    assert ground == pytest.approx(-0.8)


def test_a_centroid_without_ground_moves_to_the_nearest_new_cell_that_has_some():
    """A courtyard: floor only for x >= 1; the centroid is at 0.4 and the nearest cell's centre at 1.025."""
    s = Soup()
    s.quad((1.0, 0.0, -1.0), (2.0, 0.0, -1.0), (2.0, 1.0, -1.0), (1.0, 1.0, -1.0))
    cells = PlanGrid(np.ones((40, 20), bool), 0, 0)
    place, ground, was_moved = ground_at(s.mesh(), cells, np.array([0.4, 0.475]))
    assert place == pytest.approx((1.025, 0.475))
    assert (ground, was_moved) == (pytest.approx(-1.0), True)
    assert ground_at(s.mesh(), PlanGrid(np.ones((10, 10), bool), 0, 0), np.array([0.4, 0.4])) is None


# --- splats -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_room_of_splats(tmp_path):
    """The same rooms as splats: floors of 16 and 28 m2; the fused mesh bends within a voxel or two of its edges."""
    from spatialbench.scene.splats.write_ply import write_splat_ply

    at_eye = (0.0, 0.0, -1.6)
    for name, soup in (("before", first_room()), ("after", both_rooms())):
        splats = splat_mesh(moved(soup.mesh(), np.eye(3), at_eye), 0.06)
        write_splat_ply(splats, tmp_path / f"{name}.ply")
    frame = FrameOverrides(up=(0, 0, 1), camera_position=(0, 0, 0), camera_forward=(0, 1, 0))
    result = run_pair("expand", tmp_path / "before.ply", tmp_path / "after.ply", RunOptions(frame=frame, settings=(
        *QUICK, "fusion.rounds=[4, 4, 4]", "fusion.image=128", "fusion.checks=0")))
    m = rows(result)
    assert m["M26"].value == pytest.approx(28 / 16, rel=0.15)  # 0.1 m at each edge of 4 m
    x, y, _ = m["M27"].components["location"]
    assert (x, y) == pytest.approx((3.5, 0.0), abs=0.2)
    assert m["M27"].value > 0.5
    assert m["M26"].geometry == "fused_mesh" and m["M27"].geometry == "splats"


# --- files, pictures, kinds -------------------------------------------------------------------------------


def test_the_folder_the_page_and_the_frames(tmp_path):
    result = pair(tmp_path, first_room().mesh(), both_rooms().mesh(), "text: two rooms\ninstruction: go on east")
    page = make_pair_page(result)
    write_pair(result, tmp_path / "out", page)
    for word in ("go on east", "expansion location", "new cells", "4 of 16", "holes 100 %"):
        assert word in page
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["kind"], record["case"]) == ("expand", "grown")
    assert set(record["backends"]) == {"renderer_before", "renderer_after"}
    n = write_frames(result, tmp_path / "frames")
    assert n == 2 * (6 + 4 + 4 + 16)
    cameras = json.loads((tmp_path / "frames" / "cameras.json").read_text())
    way = np.array([np.array(c["camera_to_world"])[:3, 3] for c in cameras["path"]])
    assert way == pytest.approx(np.linspace((0, 0, 0), rows(result)["M27"].components["location"], 16))
    write_pair(pair(tmp_path, first_room().mesh(), both_rooms().mesh(), "text: two rooms\ninstruction: go on east"),
               tmp_path / "again")
    for file in ("units.jsonl", "summary.json", "import.json"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()


def test_the_plan_shows_kept_new_and_lost_cells():
    before, after = PlanGrid(np.ones((2, 1), bool), 0, 0), PlanGrid(np.ones((2, 1), bool), 1, 0)
    codes, i0, j0, cell = growth_cells(before, after)
    assert (codes.ravel().tolist(), i0, j0, cell) == ([3, 1, 2], 0, 0, CELL)
    assert growth_cells(None, None) is None
    from spatialbench.report.expand_plan import GrowthPlan

    assert growth_map(GrowthPlan(None, None)) is None
    drawing = growth_map(GrowthPlan(before, after, (1.0, 1.0), (2.0, 1.0)))
    assert "expansion location" in drawing and "centroid" in drawing


def test_which_metrics_are_for_which_kind():
    ids = ("M01", "M26", "M31", "M37", "M30")
    assert metrics_of("edit", ids) == ("M31", "M37")
    assert metrics_of("expand", ids) == ("M26", "M30")
    assert metrics_of("snapshot", ids) == ids
    assert runs_kind("snapshot", ()) and runs_kind("edit", ids) and not runs_kind("edit", ("M01",))
    assert not runs_kind("video", ids)


def test_the_command(tmp_path):
    from click.testing import CliRunner

    from spatialbench.cli.expand import expand

    paths = [write_glb(tmp_path / f"{n}.glb", s.mesh(), level_pose(EYE)) for n, s in (
        ("before", first_room()), ("after", both_rooms()))]
    given = [x for s in QUICK for x in ("--set", s)]
    done = CliRunner().invoke(expand, [*map(str, paths), "-o", str(tmp_path / "out"), *given])
    assert done.exit_code == 0, done.output
    assert "M26  Footprint growth" in done.output


def test_single_worlds_say_that_one_world_was_given(tmp_path):
    from spatialbench.runs.single import run_world

    path = write_glb(tmp_path / "room.glb", first_room().mesh(), level_pose(EYE))
    result = run_world(path, RunOptions(settings=(*QUICK, "metrics=[M26, M31, M35]")))
    assert {m.metric: (m.status, m.reason) for m in result.measurements} == {
        "M26": (Status.UNTESTED, "it compares a world before and after an expansion; only one world was given"),
        **{id: (Status.UNTESTED, "it compares a world before and after an edit; only one world was given")
           for id in ("M31", "M35")}}
