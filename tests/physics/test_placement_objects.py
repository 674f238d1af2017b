"""Bodies other than the plate: their shape against geometry, their fall against physics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.errors import SimulationError, UsageError
from spatialbench.physics.placement import BUILT_IN, Release, built_in, hull_object, plan_trials, plate, run_trials
from spatialbench.physics.placement.objects import bottom, height, lowest_point_of, object_mesh, plan_radius, underside
from spatialbench.physics.placement.release import lowest_point, plate_axis
from spatialbench.physics.placement.session import open_session
from spatialbench.physics.placement.static_scene import check_mesh
from spatialbench.types import PlacementSettings, Support
from tests.physics.brute_rays import BruteRayCaster
from tests.physics.placement_scenes import FLAT, box, rectangle, sheet

S = PlacementSettings()
CUBE = np.array([[x, y, z] for x in (0.0, 0.1) for y in (0.0, 0.1) for z in (0.0, 0.1)])
HULL = hull_object("cube", CUBE, None, 1.0, 0.5)
TABLE = rectangle(-1, -1, 1, 1)


@given(st.sampled_from(BUILT_IN), st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1))
def test_the_lowest_point_is_that_of_the_surface(name: str, a: float, b: float, c: float, d: float) -> None:
    n = math.sqrt(a * a + b * b + c * c + d * d)
    if n < 1e-3:
        return
    q = (a / n, b / n, c / n, d / n)
    o = built_in(name, S)
    v, _ = object_mesh(o)
    w = np.array(q[:3])
    turned = v + 2 * np.cross(w, np.cross(w, v) + q[3] * v)
    # 48 sides and 24 rings miss a circle of 0.11 m by at most 0.11 (1 - cos(3.75 degrees)) = 0.24 mm.
    assert lowest_point_of(o, 0.3, q) == pytest.approx(0.3 + turned[:, 2].min(), abs=2.5e-4)
    assert lowest_point_of(o, 0.3, q) <= 0.3 + turned[:, 2].min() + 1e-9
    if name == "plate":
        assert lowest_point_of(o, 0.3, q) == lowest_point(0.3, float(plate_axis(q)[2]), S)
    low = underside(o, (0.0, 0.0, 0.3), q)
    assert low[:-1, 2].min() >= lowest_point_of(o, 0.3, q) - 1e-9


def test_sizes() -> None:
    assert [round(height(built_in(n, S)), 6) for n in BUILT_IN] == [0.02, 0.095, 0.03, 0.067]
    assert [plan_radius(built_in(n, S)) for n in BUILT_IN] == pytest.approx(
        [0.11, 0.04, math.hypot(0.075, 0.105), 0.0335])
    assert (bottom(HULL), height(HULL)) == pytest.approx((0.05, 0.1))
    assert plan_radius(HULL) == pytest.approx(0.05 * math.sqrt(2))
    np.testing.assert_allclose(sorted(HULL.hull[:, 2]), [-0.05] * 4 + [0.05] * 4, atol=1e-12)
    assert plate(S).benchmark
    assert not any(built_in(n, S).benchmark for n in BUILT_IN if n != "plate")


def test_the_centroid_of_a_tetrahedron_is_the_mean_of_its_corners() -> None:
    corners = np.array([[0, 0, 0], [0.3, 0, 0], [0, 0.3, 0], [0, 0, 0.3]], float)
    o = hull_object("t", np.vstack([corners, [[0.05, 0.05, 0.05]]]), None, 1.0, 0.5)  # the fifth is inside
    np.testing.assert_allclose(o.hull, corners - 0.075, atol=1e-12)
    ball = np.random.default_rng(0).normal(size=(5000, 3))
    ball /= 10 * np.linalg.norm(ball, axis=1)[:, None]
    many = hull_object("b", ball, [0, 0, 0], 1.0, 0.5)
    assert len(many.hull) <= 410
    # 400 even directions are 5.7 degrees apart on average; the outermost corner along any is within 10 of it.
    directions = np.random.default_rng(1).normal(size=(200, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    assert (many.hull @ directions.T).max(axis=0).min() > 0.1 * math.cos(math.radians(10))


@pytest.mark.parametrize("points", [np.zeros((3, 3)), np.c_[np.random.default_rng(0).random((9, 2)), np.zeros(9)],
                                    np.full((8, 3), np.nan), np.zeros((8, 3))])
def test_no_body(points: np.ndarray) -> None:
    with pytest.raises(SimulationError):
        hull_object("nothing", points, None, 1.0, 0.5)


def test_unknown_names_say_which_there_are() -> None:
    with pytest.raises(UsageError, match="plate, mug, book, ball"):
        built_in("spoon", S)


@pytest.mark.parametrize("o", [*(built_in(n, S) for n in BUILT_IN), HULL], ids=lambda o: o.name)
def test_everything_stays_on_a_table_and_falls_beside_it(o) -> None:
    v, f = box(-1, -1, 0.7, 1, 1, 0.75)
    z = 0.75 + 0.01 + bottom(o)
    releases = [Release(0, (0.0, 0.0, z), FLAT, 0.75), Release(1, (1.5, 0.0, z), FLAT, 0.75)]
    stays, falls = run_trials(v, f, releases, TABLE, S, placed=o, raycaster=BruteRayCaster(v, f))
    assert stays.success
    # It sinks by the release height, and has no margin: half a millimetre would show one of a millimetre. A hull's
    # corners dig in until the solver's slop of a tenth of a millimetre.
    assert abs(stays.drop) < 5e-4
    assert abs(stays.diagnostics["resting_gap"]) < 5e-4
    assert stays.diagnostics["unsupported_rim_share"] == 0.0
    assert stays.horizontal_displacement < 1e-3
    assert "dropped" in falls.reasons


def test_pybullet_gets_the_mass_and_friction() -> None:
    for o in (built_in("book", S), HULL):
        with open_session(*check_mesh([], []), S, o) as session:
            body, _ = session.put(Release(0, (0, 0, 0), FLAT, 0))
            mass, friction = session.p.getDynamicsInfo(body, -1, physicsClientId=session.client)[:2]
        assert (mass, friction) == (o.mass, o.friction)


def test_a_mug_needs_less_room_than_a_plate() -> None:
    narrow = Support("s", rectangle(-0.3, -0.05, 0.3, 0.05), 0.75, (0.0, 0.0, 0.75), 0.06, "case")
    rays = BruteRayCaster(*sheet(-1, -1, 1, 1, 0.75))
    assert plan_trials(narrow, rays, S) == []
    plan = plan_trials(narrow, rays, S, built_in("mug", S))
    # Candidates stand at odd centimetres, -25 to 25 on the two middle rows; mugs are 8 cm: -1, 25, -25, 11 or -13...
    assert len(plan) >= 4
    assert all(t.kept and abs(t.x) <= 0.26 and abs(t.y) <= 0.01 + 1e-9 for t in plan)


def test_a_tilted_box_overhangs_by_what_geometry_says() -> None:
    book = built_in("book", S)
    v, f = sheet(-1.0, -1, 0.0, 1, 0.75)
    (r,) = run_trials(v, f, [Release(0, (-0.03, 0.0, 0.775), FLAT, 0.75)], TABLE, S, placed=book,
                      raycaster=BruteRayCaster(v, f))
    assert r.success
    # Its right edge (8 of 32 points) and the parts of two edges right of the table's end overhang: x in (0, 0.045] of
    # edges that reach from -0.105 to 0.045, sampled at 8 points each.
    assert r.diagnostics["unsupported_rim_share"] == pytest.approx((8 + 2 * 8 * 0.045 / 0.15) / 32, abs=2 / 32)
