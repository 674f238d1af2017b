"""Where plates go, on tables whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spatialbench.errors import UsageError
from spatialbench.physics.placement import REFERENCES, plan_trials, run_plan
from spatialbench.physics.placement.planner import farthest_points
from spatialbench.types import PlacementSettings, Support
from tests.physics.brute_rays import BruteRayCaster
from tests.physics.placement_scenes import box, join, rectangle, sheet

S = PlacementSettings()
R = 0.11


def support(boundary: np.ndarray, z: float = 0.75, holes: tuple = (), plane: tuple | None = None) -> Support:
    return Support("support_0", boundary, z, plane or (0.0, 0.0, z), 1.0, "case", holes=holes)


TABLE = rectangle(-0.7, -0.4, 0.7, 0.4)
TOP = box(-0.7, -0.4, 0.72, 0.7, 0.4, 0.75)


def test_six_separated_places_inside_the_eroded_table() -> None:
    rays = BruteRayCaster(*TOP)
    plan = plan_trials(support(TABLE), rays, S)
    assert [t.id for t in plan] == list(range(6))
    assert all(t.kept and t.reason == "" for t in plan)
    xy = np.array([[t.x, t.y] for t in plan])
    assert (np.abs(xy) <= [0.7 - R, 0.4 - R]).all()
    gaps = np.linalg.norm(xy[:, None] - xy[None], axis=-1)[np.triu_indices(6, 1)]
    assert gaps.min() >= 0.22
    # Candidates are at odd centimetres. Four are nearest the middle: the smaller x, then y, is taken. From
    # there the opposite corner is farthest, then the other one of the same long side. The other two corners
    # are 0.58 from those; the farthest place of all trades that against its distance to the middle.
    np.testing.assert_allclose(xy[:3], [[-0.01, -0.01], [0.59, 0.29], [-0.59, 0.29]], atol=1e-12)
    every = np.stack(np.meshgrid(np.arange(-59, 60, 2), np.arange(-29, 30, 2)), -1).reshape(-1, 2) / 100
    for k in range(1, 6):  # none is farther from those before it
        nearest = np.linalg.norm(every[:, None] - xy[None, :k], axis=-1).min(axis=1)
        assert np.linalg.norm(xy[k] - xy[:k], axis=1).min() == pytest.approx(nearest.max(), abs=1e-9)
    for t in plan:
        assert set(t.surface) == set(REFERENCES)
        assert list(t.surface.values()) == pytest.approx([0.75] * 3, abs=1e-12)
    assert plan_trials(support(TABLE), rays, S) == plan


def test_a_small_table_has_fewer_places_and_a_stool_none() -> None:
    rays = BruteRayCaster(*sheet(-1, -1, 1, 1, 0.75))
    assert plan_trials(support(rectangle(-0.1, -0.1, 0.1, 0.1)), rays, S) == []
    assert len(plan_trials(support(rectangle(-0.13, -0.13, 0.13, 0.13)), rays, S)) == 1
    # Eroded to 0.42 by 0.02: candidates at odd centimetres up to 21 and 1. From (-1, -1) only (21, 1) is far
    # enough (22.1); nothing is left 22 from both. Eroded to 0.50 by 0.02 there is room at both ends.
    assert len(plan_trials(support(rectangle(-0.32, -0.12, 0.32, 0.12)), rays, S)) == 2
    assert len(plan_trials(support(rectangle(-0.36, -0.12, 0.36, 0.12)), rays, S)) == 3
    with pytest.raises(UsageError):
        plan_trials(support(np.array([[0, 0], [1, 0], [2, 0]], float)), rays, S)


def test_holes_are_kept_clear() -> None:
    hole = rectangle(-0.2, -0.2, 0.2, 0.2)
    plan = plan_trials(support(TABLE, holes=(hole[::-1],)), BruteRayCaster(*TOP), S)
    assert len(plan) == 6
    for t in plan:
        dx, dy = max(abs(t.x) - 0.2, 0.0), max(abs(t.y) - 0.2, 0.0)
        assert np.hypot(dx, dy) >= R - 1e-9


def test_cells_are_the_candidates_where_a_support_has_them() -> None:
    cells = np.array([[0.0, 0.0, 0.75], [0.3, 0.1, 0.75], [0.65, 0.0, 0.75]])
    s = Support("s", TABLE, 0.75, (0, 0, 0.75), 1.0, "found", cells=cells)
    plan = plan_trials(s, BruteRayCaster(*TOP), S)
    assert {(t.x, t.y) for t in plan} == {(0.0, 0.0), (0.3, 0.1)}  # the third is 5 cm from the edge


def test_places_with_nothing_below_stay_in_the_list_but_are_not_tried() -> None:
    # The outline promises twice the table that is there.
    v, f = sheet(-0.7, -0.4, 0.0, 0.4, 0.75)
    plan = plan_trials(support(TABLE), BruteRayCaster(v, f), S)
    assert len(plan) == 6
    for t in plan:
        assert t.kept == (t.x + R - 0.001 <= 0), (t.x, t.reason)
        if t.x - R > 0:
            assert t.reason == "no surface under the plate"
            assert set(t.surface) == {"plane"}
        elif not t.kept:
            assert "rim points" in t.reason
    kept = sum(t.kept for t in plan)
    assert 0 < kept < 6
    results = run_plan(v, f, support(TABLE), plan, S, references=("footprint_median",))
    assert len(results["footprint_median"]) == kept


def test_reference_heights_of_a_cluttered_place() -> None:
    one = Support("s", TABLE, 0.75, (0, 0, 0.75), 1.0, "found", cells=np.array([[0.0, 0.0, 0.75]]))

    def heights(*more: tuple) -> dict[str, float]:
        (t,) = plan_trials(one, BruteRayCaster(*join(TOP, *more)), S)
        return t.surface

    low = box(0.02, -0.2, 0.75, 0.2, 0.2, 0.80)  # 5 cm high, under 39 % of the disc
    assert heights(low) == pytest.approx({"footprint_median": 0.75, "plane": 0.75, "footprint_max": 0.80})
    half = box(-0.02, -0.2, 0.75, 0.2, 0.2, 0.80)  # under 62 %
    assert heights(half)["footprint_median"] == pytest.approx(0.80)
    high = box(0.02, -0.2, 0.75, 0.2, 0.2, 0.90)  # sticks out of the 8 cm: only its foot counts
    assert heights(high)["footprint_max"] == pytest.approx(0.75)
    shelf = sheet(-1, -1, 1, 1, 1.0)
    assert heights(shelf)["footprint_max"] == pytest.approx(0.75)


def test_run_plan_simulates_equal_heights_once() -> None:
    rays = BruteRayCaster(*TOP)
    plan = plan_trials(support(TABLE), rays, S)
    plan = [type(t)(t.id, t.x, t.y, dict.fromkeys(REFERENCES, 0.75)) for t in plan]
    plan[2].surface["footprint_max"] = 0.76
    calls: list[tuple[int, int]] = []
    out = run_plan(*TOP, support(TABLE), plan, S, raycaster=rays, progress=lambda a, b: calls.append((a, b)))
    assert calls[-1] == (7, 7)
    assert set(out) == set(REFERENCES)
    for name, results in out.items():
        assert [r.id for r in results] == list(range(6))
        assert all(r.reference == name and r.success for r in results)
    assert out["plane"][2].rest_centre == out["footprint_median"][2].rest_centre
    assert out["footprint_max"][2].surface_z == 0.76
    assert out["footprint_max"][2].drop == pytest.approx(0.01, abs=1e-4)  # measured from its own reference
    with pytest.raises(UsageError, match="no reference"):
        run_plan(*TOP, support(TABLE), plan, S, references=("highest",))


def test_on_a_slope_a_level_plate_starts_inside_it_and_an_aligned_one_does_not() -> None:
    v, f = sheet(-0.7, -0.4, 0.7, 0.4, 0.0)
    k = np.tan(np.radians(12.0))
    v[:, 2] = 0.75 + k * v[:, 1]
    s = support(TABLE, plane=(0.0, k, 0.75))
    rays = BruteRayCaster(v, f)
    plan = plan_trials(s, rays, S)
    aligned = S.model_copy(update={"release": "plane_aligned"})
    for r in run_plan(v, f, s, plan, aligned, raycaster=rays)["plane"]:
        assert r.success
        assert r.tilt_deg == pytest.approx(12.0, abs=0.5)
    for r in run_plan(v, f, s, plan, S, raycaster=rays)["plane"]:
        assert "initial_penetration" in r.reasons  # its rim is 0.11 tan(12 deg) - 0.01 = 13 mm deep


points = hnp.arrays(np.float64, st.tuples(st.integers(1, 60), st.just(2)),
                    elements=st.integers(-50, 50).map(lambda i: i * 0.02))


@given(points, st.integers(1, 8))
def test_farthest_points_are_separated_and_leave_no_room(p: np.ndarray, count: int) -> None:
    p = np.unique(p, axis=0)
    chosen = p[farthest_points(p, count, 0.22)]
    d = np.linalg.norm(chosen[:, None] - chosen[None], axis=-1)
    assert (d[np.triu_indices(len(chosen), 1)] >= 0.22 - 1e-8).all()
    assert 1 <= len(chosen) <= count
    if len(chosen) < count:  # every point left is too near to one of them
        assert (np.linalg.norm(p[:, None] - chosen[None], axis=-1).min(axis=1) < 0.22 + 1e-8).all()
    # Turned by half a turn, or moved by whole cells, the same places up to the order of ties.
    moved = farthest_points(p + [1.0, -2.0], count, 0.22)
    np.testing.assert_allclose(p[moved], chosen, atol=1e-9)


def test_no_points_no_places() -> None:
    assert len(farthest_points(np.zeros((0, 2)), 6, 0.22)) == 0
