"""Releases against recorded oracles, statics and the limits of PyBullet."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.errors import SimulationError, UsageError
from spatialbench.physics.placement import Boundary, Release, plate, release_over, run_trials
from spatialbench.physics.placement.backend import bullet_client
from spatialbench.physics.placement.release import lowest_point, plate_axis, plate_mass, rim_points
from spatialbench.physics.placement.session import open_session
from spatialbench.physics.placement.static_scene import (
    MAX_INDICES,
    MAX_VERTICES,
    add_static_mesh,
    check_mesh,
    chunks,
    crop_to_plan,
)
from spatialbench.types import PlacementSettings
from tests.physics.brute_rays import BruteRayCaster
from tests.physics.placement_scenes import DATA, FLAT, box, grid, join, read_case, rectangle, sheet

S = PlacementSettings()
ALIGNED = PlacementSettings(release="plane_aligned")


def check_oracle(path: Path, **kw) -> None:
    case, v, f, releases = read_case(path)
    results = run_trials(v, f, releases, case["support_boundary"], S.model_copy(update=kw))
    for trial, r in zip(case["trials"], results, strict=True):
        e, where = trial["expect"], f"{case['name']} {trial['id']}: {trial['reason']}"
        assert r.success == e["success"], where
        assert set(e["reasons_always"]) <= set(r.reasons), where
        assert set(r.reasons) <= set(e["reasons_always"]) | set(e["reasons_sometimes"]), where
        if "initial_penetration_reference" in e:
            limit = S.max_initial_penetration
            assert (r.initial_penetration > limit) == (e["initial_penetration_reference"] > limit), where
        if e["success"] and "drop_range" in e:  # tolerances: the oracle's README
            lo, hi = e["drop_range"]
            assert lo - 0.003 <= r.drop <= hi + 0.003, where
            assert r.horizontal_displacement <= e["horizontal_displacement_range"][1] + 0.01, where
            assert r.tilt_deg <= e["tilt_deg_range"][1] + 1.0, where


@pytest.mark.parametrize("name", ["flat_table", "tilt_20"])
def test_oracle_in_tree(name: str) -> None:
    check_oracle(DATA / f"{name}.json")


@pytest.mark.parametrize("name", ["holed_table", "single_sided_inverted"])
def test_oracle_shared(data_dir: Path, name: str) -> None:
    check_oracle(data_dir / "oracle" / "placement" / f"{name}.json")


def test_b47_lip_carries_the_plate(data_dir: Path) -> None:
    case, v, f, releases = read_case(data_dir / "reports" / "placement" / "lip_table.json")
    results = run_trials(v, f, releases, case["support_boundary"], S)
    assert [r.success for r in results] == [True] * 4
    # CASES.csv, B47: drop within 0.003 of 0, tilts 0, 0.27, 0.3 to 0.45, 0, each within 1 degree.
    for r, tilt in zip(results, (0.0, 0.27, 0.375, 0.0), strict=True):
        assert abs(r.drop) <= 0.003
        assert r.tilt_deg == pytest.approx(tilt, abs=1.0)


def test_chunk_borders_under_the_plate_do_not_matter() -> None:
    # 37 of 62 faces: the border runs through the table; the outcomes are those of the oracle.
    check_oracle(DATA / "flat_table.json", chunk_triangles=37)
    v, f = grid(-0.4, -0.4, 0.4, 0.4, 0.75, 16)
    releases = [Release(0, (0.0, 0.0, 0.77), FLAT, 0.75), Release(1, (0.025, 0.01, 0.77), FLAT, 0.75)]
    for n in (150_000, 256, 60):
        for r in run_trials(v, f, releases, rectangle(-0.4, -0.4, 0.4, 0.4),
                            S.model_copy(update={"chunk_triangles": n})):
            assert r.success
            assert abs(r.drop) < 0.001  # no ridge and no gap at a border


def test_crop_changes_no_outcome() -> None:
    case, v, f, releases = read_case(DATA / "flat_table.json")
    v, f = join((v, f), grid(-8, -8, 8, 8, 0.0, 30))
    far, near = (run_trials(v, f, releases, case["support_boundary"], S, crop_margin=m) for m in (None, 1.0))
    assert [(r.success, r.reasons[:1]) for r in far] == [(r.success, r.reasons[:1]) for r in near]


def tilted_sheet(deg: float) -> tuple[np.ndarray, np.ndarray, tuple[float, float, float]]:
    v, f = sheet(-2, -1, 2, 1, 0.0)
    k = math.tan(math.radians(deg))
    v[:, 2] = 3.0 + k * v[:, 0]
    return v, f, (k, 0.0, 3.0)


@pytest.mark.parametrize(("deg", "holds"), [(21.5, True), (22.0, False)])
def test_friction_angle(deg: float, holds: bool) -> None:
    # Bullet multiplies frictions: tan = 0.5 * 0.8 = 0.40, 21.80 degrees.
    v, f, plane = tilted_sheet(deg)
    (r,) = run_trials(v, f, [release_over(0, 0.0, 0.0, 3.0, plane, ALIGNED, "plane")], rectangle(-2, -1, 2, 1), S)
    if holds:
        assert r.horizontal_displacement < 0.01
    else:
        # Free of other resistance it would slide g (sin - 0.4 cos) t^2 / 2 = 0.45 m in 5 s, 0.42 in plan;
        # damping (0.04) and the landing take some of it.
        assert 0.2 < r.horizontal_displacement < 0.45


def test_plate_numbers() -> None:
    assert plate_mass(S) == pytest.approx(1.368478, abs=5e-7)  # placement.md section 1
    with open_session(*check_mesh([], []), S, plate(S)) as session:
        body, _ = session.put(Release(0, (0, 0, 0), FLAT, 0))
        mass, friction, inertia = session.p.getDynamicsInfo(body, -1, physicsClientId=session.client)[:3]
    assert mass == pytest.approx(1.368478, abs=5e-7)
    assert friction == 0.5
    # Solid cylinder: m (3 r^2 + h^2) / 12 across, m r^2 / 2 along.
    across, along = mass * (3 * 0.11**2 + 0.02**2) / 12, mass * 0.11**2 / 2
    assert inertia == pytest.approx((across, across, along), rel=1e-6)


def test_free_fall_has_the_default_damping() -> None:
    # dv/dt = g - 0.04 v (1 + v): Bullet damps single bodies linearly and quadratically.
    v, f = sheet(5.5, 5.5, 6, 6, 0.0)
    (r,) = run_trials(v, f, [Release(0, (0, 0, 0.77), FLAT, 0.75)], rectangle(-1, -1, 1, 1), S)
    speed, fallen, dt = 0.0, 0.0, 1e-4
    for _ in range(50_000):
        speed += dt * (9.81 - 0.04 * speed * (1 + speed))
        fallen += dt * speed
    assert r.reasons == ("dropped",)
    assert r.final_speed == pytest.approx(speed, rel=0.01)
    assert r.drop == pytest.approx(fallen - 0.01, rel=0.01)


@given(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(-1, 1), st.floats(-1, 1))
def test_released_plate_clears_the_plane_by_the_release_height(a: float, b: float, x: float, y: float) -> None:
    plane = (a, b, 0.7)
    z = a * x + b * y + 0.7
    r = release_over(0, x, y, z, plane, ALIGNED, "plane")
    rim = rim_points(r.centre, r.quaternion, 360, S)
    off = (rim[:, 2] - (a * rim[:, 0] + b * rim[:, 1] + 0.7)) / math.sqrt(1 + a * a + b * b)
    np.testing.assert_allclose(off, 0.01, atol=1e-9)
    level = release_over(0, x, y, z, plane, S, "plane")
    assert level.quaternion == FLAT
    assert level.centre == pytest.approx((x, y, z + 0.02), abs=1e-12)
    assert math.hypot(*r.quaternion) == pytest.approx(1.0, abs=1e-12)


@given(st.floats(0, math.pi), st.floats(0, 2 * math.pi), st.floats(-2, 2))
def test_lowest_point_is_that_of_the_rims(tilt: float, turn: float, z: float) -> None:
    s = math.sin(tilt / 2)
    q = (s * math.cos(turn), s * math.sin(turn), 0.0, math.cos(tilt / 2))
    low = rim_points((0, 0, z), q, 3600, S)[:, 2].min()
    # 3600 points of the rim miss its lowest one by at most r (1 - cos(0.05 degrees)) = 4e-8.
    assert lowest_point(z, plate_axis(q)[2], S) == pytest.approx(low, abs=5e-8)


def test_outside_is_the_distance_to_the_outline_and_a_hole_is_outside() -> None:
    v, f = sheet(-1, -1, 1, 1, 0.75)
    hole = rectangle(0.3, -0.2, 0.7, 0.2)[::-1]
    places = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.55)]
    releases = [Release(i, (x, y, 0.77), FLAT, 0.75) for i, (x, y) in enumerate(places)]
    r = run_trials(v, f, releases, (rectangle(-0.5, -0.5, 0.8, 0.5), [hole]), S)
    assert [x.reasons for x in r] == [(), ("outside",), ("outside",)]
    assert [x.outside for x in r] == pytest.approx([0.0, 0.2, 0.05], abs=0.001)
    for bad in ([[0, 0], [1, 1]], [[0, 0], [1, 1], [2, 2]], [[0, 0], [1, 0], [0, np.nan]]):
        with pytest.raises(UsageError):
            Boundary.of(bad).polygon()


def test_bits_repeat_here_and_in_a_process_that_prints_only_its_own(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from tests.physics.placement_scenes import read_case
from spatialbench.physics.placement import placement_backend_status, run_trials
from spatialbench.types import PlacementSettings
assert placement_backend_status()[0]
case, v, f, releases = read_case(Path({str(DATA / "flat_table.json")!r}))
print(run_trials(v, f, releases, case["support_boundary"], PlacementSettings()))
"""
    other = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True,
                           cwd=Path(__file__).parents[2], check=False, timeout=120)
    assert other.stderr == ""
    case, v, f, releases = read_case(DATA / "flat_table.json")
    seen: list[tuple[int, int]] = []
    runs = [run_trials(v, f, releases, case["support_boundary"], S, progress=lambda a, b: seen.append((a, b)))
            for _ in range(2)]
    assert repr(runs[0]) == repr(runs[1])
    assert other.stdout == repr(runs[0]) + "\n"
    assert seen == [(i, 6) for i in range(1, 7)] * 2
    # A trial's result does not depend on those before it.
    alone = [run_trials(v, f, [r], case["support_boundary"], S)[0] for r in releases]
    assert repr(alone) == repr(runs[0])


def test_another_users_contact_threshold_does_not_leak_in() -> None:
    v, f = grid(-0.4, -0.4, 0.4, 0.4, 0.75, 8)
    args = (v, f, [Release(0, (0, 0, 0.77), FLAT, 0.75)], rectangle(-0.4, -0.4, 0.4, 0.4), S)
    before = run_trials(*args)
    with bullet_client() as (p, client):
        p.setPhysicsEngineParameter(contactBreakingThreshold=0.2, physicsClientId=client)
    assert repr(run_trials(*args)) == repr(before)


def test_no_mesh_is_remembered() -> None:
    # Files would be cached by name for the process; the same call with a moved table must see the new one.
    for z in (0.75, 0.60, 0.75):
        (r,) = run_trials(*sheet(-0.4, -0.4, 0.4, 0.4, z), [Release(0, (0, 0, z + 0.02), FLAT, z)],
                          rectangle(-0.4, -0.4, 0.4, 0.4), S)
        assert r.success
        assert r.rest_centre[2] == pytest.approx(z + 0.01, abs=1e-4)  # and no margin of 1 mm


def test_meshes_that_pybullet_must_not_get() -> None:
    v, f = sheet(-1, -1, 1, 1, 0.75)
    release = [Release(0, (0, 0, 0.77), FLAT, 0.75)]
    nan = v.copy()
    nan[2, 1] = np.nan
    for vertices, faces, what in ((nan, f, "not finite"), (v, f + 3, "do not exist"), (v, f - 1, "do not exist"),
                                  (v, f.ravel(), "must be"), (v, f.astype(float), "must be"),
                                  (np.zeros((0, 3)), f, "no vertices"), (v, [[0, 1, 2], [0, 2]], "equal length"),
                                  (v, [f.tolist()], "must be"), ([["a", 0, 0]] * 4, f, "no arrays of numbers")):
        with pytest.raises(SimulationError, match=what):
            run_trials(vertices, faces, release, rectangle(-1, -1, 1, 1), S)
    with pytest.raises(UsageError, match="unit length"):
        run_trials(v, f, [Release(0, (0, 0, 1), (0, 0, 0, 2), 0.75)], rectangle(-1, -1, 1, 1), S)
    with pytest.raises(UsageError, match="finite"):
        run_trials(v, f, [Release(0, (0, math.inf, 1), FLAT, 0.75)], rectangle(-1, -1, 1, 1), S)


@pytest.mark.parametrize("faces", [np.zeros((0, 3), int), np.array([[0, 0, 0], [0, 1, 1]])])
def test_nothing_to_collide_with(faces: np.ndarray) -> None:
    (r,) = run_trials(sheet(-1, -1, 1, 1, 0.75)[0], faces, [Release(7, (0, 0, 0.77), FLAT, 0.75)],
                      rectangle(-1, -1, 1, 1), S)
    assert (r.id, r.success, r.reasons) == (7, False, ("no_collision_geometry",))


def test_faces_without_area_carry_nothing() -> None:
    # PyBullet alone balances the plate on this line of zero area.
    v = np.array([[-0.2, 0, 0.75], [0, 0, 0.75], [0.2, 0, 0.75]])
    floor = sheet(-1, -1, 1, 1, 0.0)
    (r,) = run_trials(*join((v, np.array([[0, 1, 2]])), floor), [Release(0, (0, 0, 0.77), FLAT, 0.75)],
                      rectangle(-1, -1, 1, 1), S)
    assert r.drop == pytest.approx(0.75, abs=0.001)


def test_one_shape_over_the_limits_is_refused_before_c_sees_it() -> None:
    with bullet_client() as (p, client):
        with pytest.raises(SimulationError, match="exceed"):
            add_static_mesh(p, client, np.zeros((MAX_VERTICES + 1, 3)), np.array([[0, 1, 2]]), 0.8)
        with pytest.raises(SimulationError, match="exceed"):
            add_static_mesh(p, client, np.zeros((3, 3)), np.zeros((MAX_INDICES // 3 + 1, 3), np.int64), 0.8)


def test_chunks_keep_the_limits_and_all_faces() -> None:
    rng = np.random.default_rng(0)
    soup = rng.random((300_000, 3))  # unshared corners: the vertex limit binds first
    f = np.arange(300_000).reshape(-1, 3)
    parts = chunks(soup, f, 150_000)
    assert all(len(v) <= MAX_VERTICES and g.size <= MAX_INDICES for v, g in parts)
    together = np.concatenate([v[g] for v, g in parts])
    np.testing.assert_array_equal(np.sort(together[:, 0, 0]), np.sort(soup[f][:, 0, 0]))
    assert len(together) == len(f)
    assert len(chunks(*sheet(0, 0, 1, 1, 0), 10**9)) == 1


@given(st.integers(1, 40), st.integers(1, 60))
def test_chunks_are_a_partition(n: int, size: int) -> None:
    v, f = grid(0, 0, 1, 2, 0.0, n % 7 + 1)
    parts = chunks(v, f, size)
    assert all(len(g) <= size for _, g in parts)
    corners = np.concatenate([cv[g].reshape(-1, 9) for cv, g in parts])
    np.testing.assert_array_equal(corners[np.lexsort(corners.T)], v[f].reshape(-1, 9)[np.lexsort(
        v[f].reshape(-1, 9).T)])


def test_crop_keeps_faces_that_reach_in() -> None:
    v, f = join(sheet(-9, -9, 9, 9, 0), sheet(3, 0, 4, 1, 1), sheet(1.5, 0, 2, 1, 1))
    kept = crop_to_plan(*check_mesh(v, f), (-0.5, -0.5, 0.5, 0.5), 1.0)
    # The floor reaches in with both triangles; the sheet at 3 m and the one whose edge is exactly 1 m away.
    np.testing.assert_array_equal(kept, np.concatenate([f[:2], f[4:]]))


def test_diagnostics() -> None:
    # A closed block of 1 m with a shelf inside; and an open table whose edge the plate overhangs.
    v, f = join(box(-0.5, -0.5, 0.0, 0.5, 0.5, 1.0), sheet(-0.4, -0.4, 0.4, 0.4, 0.5),
                sheet(2.0, -0.5, 3.0, 0.5, 0.5))
    releases = [Release(0, (0, 0, 0.52), FLAT, 0.5), Release(1, (2.5, 0, 0.52), FLAT, 0.5),
                Release(2, (2.05, 0, 0.52), FLAT, 0.5)]
    inside, middle, edge = run_trials(v, f, releases, rectangle(-1, -1, 3, 1), S, raycaster=BruteRayCaster(v, f))
    assert inside.success  # placement.md trap 8: recorded, the outcome stays
    assert inside.diagnostics["inside_solid"] is True
    assert middle.diagnostics["inside_solid"] is False
    assert middle.diagnostics["unsupported_rim_share"] == 0.0
    assert abs(middle.diagnostics["resting_gap"]) < 1e-4
    # The rim overhangs where cos(a) < -5/11: a share of acos(5/11)/pi = 0.350, 32 points know it to 1/32.
    assert edge.success
    assert edge.diagnostics["unsupported_rim_share"] == pytest.approx(math.acos(5 / 11) / math.pi, abs=1 / 32)
    assert not run_trials(v, f, releases[:1], rectangle(-1, -1, 3, 1), S)[0].diagnostics
