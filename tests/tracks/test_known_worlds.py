"""Whole runs on analytic worlds whose scores are derived by hand, from the file to the measurement."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spatialbench.runs import RunOptions, RunResult, run_world
from spatialbench.types import Measurement, Status, TriangleMesh, level_pose
from spatialbench.world import FrameOverrides
from tests.analytic import (
    EYE,
    box_room,
    camera_in_wall,
    corridor,
    corridor_out_of_bounds,
    no_floor_room,
    north_panel,
    open_plane,
    panel_hole_rate,
    plane_hole_rate,
    table_room,
    textured,
    two_rooms,
    write_glb,
)

FAST = "happyworld-spatial-1-fast"
SIZE, FRAMES = 96, 18
"""Ring of the fast protocol, with smaller images: what is derived here holds for any."""
FEW = ("finding.min_surfels=10000", "finding.max_surfels=10000",
       f"views.lens={{width: {SIZE}, height: {SIZE}, fov_deg: 75.0}}")
"""Cameras and axes are given, so that nothing here depends on what the search for them samples."""
ROW = 1 / (SIZE * FRAMES)
"""Share of all pixels of the ring that a row of one frame is: 6e-4."""


_PLAIN: dict[bytes, RunResult] = {}
"""Runs of worlds of which nothing else was said, by the bytes of their files."""


def score(tmp_path: Path, mesh: TriangleMesh, case: str | None = None, **frame: Any) -> RunResult:
    path = write_glb(tmp_path / "world.glb", mesh, None if frame else level_pose(EYE))
    if case is None and not frame:
        data = path.read_bytes()
        if data not in _PLAIN:
            _PLAIN[data] = run_world(path, RunOptions(protocol=FAST, settings=FEW))
        return _PLAIN[data]
    case_path = None
    if case is not None:
        case_path = tmp_path / "case.yaml"
        case_path.write_text(f"id: c\n{case}")
    return run_world(path, RunOptions(protocol=FAST, settings=FEW, case=case_path, frame=FrameOverrides(**frame)))


@pytest.fixture(autouse=True, scope="module")
def _forget() -> Iterator[None]:
    yield
    _PLAIN.clear()
    table_as_it_stands.cache_clear()


def by_id(result: RunResult) -> dict[str, Measurement]:
    return {m.metric: m for m in result.measurements}


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5])
def test_hole_rate_of_a_wall_with_a_known_part_missing(tmp_path: Path, fraction: float) -> None:
    """Expected: the ring's centre rays against the panel's rectangle, in float64, without the engine.

    Rays graze the panel's edge in float32, which pixels' centres lie on, if at all, along one side: a row or column
    of one frame can differ.
    """
    m = by_id(score(tmp_path, box_room(hole=fraction)))
    expected = panel_hole_rate(north_panel(fraction), frames=FRAMES, size=SIZE) if fraction else 0.0
    assert m["M07"].value == pytest.approx(expected, abs=ROW)
    assert m["M07"].counts == {"frames": FRAMES}
    if not fraction:
        assert m["M07"].value == 0.0, "no ray leaks out of a closed room"


def test_a_corridor_is_left_at_the_steps_that_geometry_says(tmp_path: Path) -> None:
    result = score(tmp_path, corridor())
    m12 = by_id(result)["M12"]
    outside, samples = corridor_out_of_bounds()
    assert (outside, samples) == (7, 65)
    assert m12.value == pytest.approx(outside / samples, abs=1e-12)
    # 1.25 m ahead is reached after 1.25 s, the fifth sample at four a second.
    assert m12.components["first_step"] == 5
    assert m12.components["causes"] == {"outside_footprint": 7}


def test_a_closed_room_is_never_left(tmp_path: Path) -> None:
    m = by_id(score(tmp_path, box_room()))
    assert m["M12"].value == 0.0
    assert m["M38"].components["r_usable"] <= 1.0


def test_navigable_ratio_of_a_box_lies_between_its_bounds(tmp_path: Path) -> None:
    """Erosion keeps 0.10 to 0.20 m from each wall (analytic.box_room) of 6 x 5 m; the footprint is the room's
    6 x 5 m and at most the walls' own cell on each side."""
    m08 = by_id(score(tmp_path, box_room()))["M08"]
    assert m08.value is not None
    assert (5.6 * 4.6) / (6.1 * 5.1) <= m08.value <= (5.8 * 4.8) / (6 * 5)
    assert m08.components["largest_component_area"] / m08.components["footprint_area"] == pytest.approx(m08.value)
    assert m08.counts["components"] == 1
    assert m08.components["facing_share"] == 1.0
    assert not m08.components["reversed"]


def test_a_narrow_door_parts_the_rooms(tmp_path: Path) -> None:
    shut, open_ = (by_id(score(tmp_path, two_rooms(door)))["M08"] for door in (0.15, 0.9))
    assert (shut.counts["components"], open_.counts["components"]) == (2, 1)
    assert shut.value is not None
    assert open_.value is not None
    # The larger room takes 5.5 of the 8 m (x from -4 to 1.5) and the other 2.38.
    assert shut.value / open_.value == pytest.approx(5.5 / (5.5 + 2.38), abs=0.05)


def test_an_untextured_room_of_one_colour_keeps_brightness_and_hue(tmp_path: Path) -> None:
    """One unlit white: every frame has the same histograms, so every gain is g_15(1) = 1 to 1e-7 (eps)."""
    white = np.full((4, 4, 4), 255, np.uint8)
    m = by_id(score(tmp_path, textured(box_room(), white)))
    assert m["M13"].value == pytest.approx(1.0, abs=1e-6)
    assert m["M14"].value == pytest.approx(1.0, abs=1e-6)


def test_six_plates_stay_on_a_plain_table(tmp_path: Path) -> None:
    m25 = by_id(score(tmp_path, textured(table_room())))["M25"]
    assert m25.value == 1.0
    assert m25.counts == {"planned": 6, "retained": 6, "succeeded": 6}
    assert m25.components["support_height"] == pytest.approx(0.75 - 1.6, abs=1e-4)
    assert m25.components["support_area"] == pytest.approx(1.4 * 0.8, rel=0.05)
    assert {k: v["succeeded"] for k, v in m25.components["by_reference"].items()} == {
        "footprint_median": 6, "plane": 6, "footprint_max": 6}


def test_without_a_table_placement_is_inapplicable_and_with_an_annotated_one_a_zero(tmp_path: Path) -> None:
    missing = by_id(score(tmp_path, table_room("none")))["M25"]
    assert (missing.status, missing.value) == (Status.INAPPLICABLE, None)
    # File frame (x, z, -y): a table is annotated where the room has none.
    polygon = "[[-0.1, 0.75, -0.8], [1.3, 0.75, -0.8], [1.3, 0.75, -1.6], [-0.1, 0.75, -1.6]]"
    case = f"support: {{label: table, polygon: {polygon}}}\n"
    zero = by_id(score(tmp_path, table_room("none"), case))["M25"]
    assert (zero.status, zero.value) == (Status.MEASURED, 0.0)
    assert zero.reason == "no_support_surface"
    there = by_id(score(tmp_path, table_room(), case))["M25"]
    assert there.value == 1.0
    assert there.components["support_source"] == "case"


def test_a_tilted_top_that_the_case_names_fails_every_plate(tmp_path: Path) -> None:
    """At 14 degrees it is still a support; a level plate starts with its rim 0.11 tan 14 - 0.01 = 17 mm inside."""
    k = math.tan(math.radians(14.0))
    corners = [(x, 0.75 + k * (y - 1.2), -y) for x, y in ((-0.1, 0.8), (1.3, 0.8), (1.3, 1.6), (-0.1, 1.6))]
    polygon = [[round(c, 4) for c in p] for p in corners]
    m25 = by_id(score(tmp_path, table_room("tilted", 14.0), f"support: {{polygon: {polygon}}}\n"))["M25"]
    assert m25.value == 0.0
    assert m25.counts["retained"] > 0
    assert all("initial_penetration" in t["reasons"] for t in m25.components["trials"])


def test_a_room_without_a_floor_has_no_walk_and_says_so(tmp_path: Path) -> None:
    result = score(tmp_path, no_floor_room())
    m = by_id(result)
    assert result.world.scale.branch == "depth"
    assert "scale_fallback" in m["M07"].flags
    assert (m["M08"].status, m["M08"].value) in ((Status.MEASURED, 0.0), (Status.INVALID, None))
    assert m["M08"].reason
    assert m["M25"].status is Status.INAPPLICABLE or m["M25"].value == 0.0 or m["M25"].status is Status.INVALID


def test_a_case_keeps_a_bad_world_in_the_mean_and_its_absence_does_not(tmp_path: Path) -> None:
    """An open plane has no interior: without a case M08, M12, M25, M38 are invalid; with one the values stay."""
    without, given_case = by_id(score(tmp_path, open_plane())), by_id(score(tmp_path, open_plane(), "text: a plane\n"))
    for id in ("M08", "M12", "M25", "M38"):
        assert without[id].status is Status.INVALID, id
        assert without[id].reason.startswith("no_interior")
    assert without["M07"].value == pytest.approx(plane_hole_rate(frames=FRAMES, pixels=SIZE), abs=1e-3)
    assert given_case["M08"].status is Status.MEASURED
    assert given_case["M12"].status is Status.MEASURED
    assert given_case["M38"].status is Status.UNAVAILABLE
    assert "no_interior" in given_case["M08"].flags


def test_a_camera_inside_a_wall_runs_with_a_flag(tmp_path: Path) -> None:
    result = score(tmp_path, camera_in_wall())
    assert "camera_inside_geometry" in result.world.raised()
    assert "camera_inside_geometry" in by_id(result)["M07"].flags
    assert len(result.measurements) == 40


def test_a_user_scale_is_marked(tmp_path: Path) -> None:
    result = score(tmp_path, box_room(), camera_position=(0.0, 1.6, 0.0), camera_forward=(0.0, 0.0, -1.0), scale=2.0)
    assert result.world.scale.factor == 2.0
    assert "scale_overridden" in by_id(result)["M07"].flags


def tiled_table() -> TriangleMesh:
    return textured(table_room(), metres_per_tile=0.7)


@cache
def table_as_it_stands(tmp_path: Path) -> RunResult:
    return score(tmp_path, tiled_table(), camera_position=(0.0, 1.6, 0.0), camera_forward=(0.0, 0.0, -1.0),
                 up=(0.0, 1.0, 0.0), unit_m=1.0)


@pytest.mark.slow
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(angles=st.tuples(*[st.floats(-180, 180)] * 3), shift=st.tuples(*[st.floats(-50, 50)] * 3),
       unit=st.sampled_from([1.0, 0.01, 0.3048]))
def test_a_rigid_motion_or_another_unit_changes_nothing(tmp_path: Path, angles: tuple[float, float, float],
                                                        shift: tuple[float, float, float], unit: float) -> None:
    """Camera, up and unit are given and moved along. Images are drawn from float32 rays, whose directions differ in
    the last bit: some edge pixels change side, far under 1e-3 of any mean. M08 moves by Recast's voxel phase."""
    from scipy.spatial.transform import Rotation

    mesh = tiled_table()
    to_file = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    base = np.eye(4)
    base[:3, :3] = to_file
    # write_glb itself turns by to_file, so the motion is applied in the builders' frame.
    r = Rotation.from_euler("xyz", angles, degrees=True).as_matrix()
    move = np.eye(4)
    move[:3, :3] = r / unit
    move[:3, 3] = np.asarray(shift)
    moved = mesh.transformed(move)

    def in_file(direction: np.ndarray) -> tuple[float, float, float]:
        x, y, z = to_file @ r @ direction
        return float(x), float(y), float(z)

    eye = to_file @ (r @ np.asarray(EYE) / unit + np.asarray(shift))
    still = table_as_it_stands(tmp_path)
    gone = score(tmp_path, moved, camera_position=tuple(eye), camera_forward=in_file(np.array([0.0, 1.0, 0.0])),
                 up=in_file(np.array([0.0, 0.0, 1.0])), unit_m=unit)
    a, b = by_id(still), by_id(gone)
    for id in ("M07", "M12", "M13", "M14"):
        assert b[id].value == pytest.approx(a[id].value, abs=1e-3), id
    assert b["M08"].value == pytest.approx(a["M08"].value, abs=0.02)
    outcomes = [[t["success"] for t in m["M25"].components["trials"]] for m in (a, b)]
    assert outcomes[0] == outcomes[1]
    assert b["M25"].value == a["M25"].value == 1.0
