"""Surfels, voxels, the up estimate and the search for a camera, against other libraries and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from spatialbench.renderers.raycast import MeshRayCaster
from spatialbench.types import TriangleMesh
from spatialbench.types.protocol_rules import CameraFinding
from spatialbench.world import FrameOverrides, _kernels, build_world
from spatialbench.world.camera import look_around
from spatialbench.world.decide import default_forward
from spatialbench.world.estimates import guess_unit
from spatialbench.world.interior import analyse_interior, look_directions
from spatialbench.world.surfels import Surfels, mesh_surfels, weighted_quantile
from spatialbench.world.up import axis_words, estimate_up, normal_modes
from tests import analytic as A
from tests.worlds import moved, quick_protocol, scene_of, y_up, y_up_scene

FINDING = CameraFinding(min_surfels=60_000, max_surfels=60_000)
Z = np.array([0.0, 0.0, 1.0])


# --- surfels ------------------------------------------------------------------------------------------------


def test_surfels_share_the_area_and_lie_on_their_faces() -> None:
    room = A.table_room()
    surfels = mesh_surfels(moved(room, 100 * np.eye(3)), 0.01, FINDING)
    area = np.linalg.norm(room.area_vectors(), axis=1)
    assert len(surfels) == 60_000
    assert surfels.areas.sum() == pytest.approx(area.sum(), rel=1e-9)
    # The floor, 6 x 5 m at z = 0, is the only thing there but for four legs of 0.05 m.
    floor = (np.abs(surfels.points[:, 2]) < 1e-12) & (surfels.normals[:, 2] > 0.5)
    each = surfels.areas[0]
    # Every one of the floor's two faces has its share rounded up or down.
    assert floor.sum() * each == pytest.approx(30.0, abs=2 * each)
    xy = surfels.points[floor][:, :2]
    # Uniform: counts of a 6 x 5 grid of 1 m cells scatter by at most their square root; 5 sigma.
    count = np.histogram2d(xy[:, 0], xy[:, 1], bins=(6, 5), range=((-3, 3), (-2.5, 2.5)))[0]
    assert np.abs(count - floor.sum() / 30).max() < 5 * math.sqrt(floor.sum() / 30)


def test_surfel_count_is_clipped_and_faces_without_area_get_none() -> None:
    flat = TriangleMesh(np.array([[0.0, 0, 0], [10, 0, 0], [0, 10, 0], [20, 0, 0]]),
                        np.array([[0, 1, 3], [0, 1, 2], [0, 1, 3]], np.int32))
    f = CameraFinding(surfels_per_m2=10, min_surfels=100, max_surfels=400)
    assert len(mesh_surfels(flat, 1.0, f)) == 400  # 50 m2 at 10 a m2, at most 400
    assert len(mesh_surfels(flat, 0.1, f)) == 100  # 0.5 m2
    surfels = mesh_surfels(flat, 0.5, f)
    assert len(surfels) == 125
    np.testing.assert_array_equal(surfels.normals, np.broadcast_to(Z, (125, 3)))
    assert len(mesh_surfels(flat.select(np.array([0])), 1.0, f)) == 0


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 6)), min_size=1, max_size=30),
       st.floats(0.01, 0.99))
def test_weighted_quantile_is_the_quantile_of_repeated_values(rows: list, share: float) -> None:
    values, weights = (np.array(x, dtype=np.float64) for x in zip(*rows, strict=True))
    repeated = np.sort(np.repeat(values, weights.astype(int)))
    k = max(0, math.ceil(share * len(repeated) - 1e-9) - 1)
    assert weighted_quantile(values, weights, share)[0] == repeated[k]


# --- voxels -------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), fill=st.floats(0.05, 0.6))
def test_floors_and_components_equal_plain_loops_and_scipy(seed: int, fill: float) -> None:
    rng = np.random.default_rng(seed)
    shape, free_above = (7, 6, 9), 3
    solid_wanted = rng.random(shape) < fill
    up = rng.random(shape) < 0.7
    solid = np.zeros(shape, np.uint8)
    start, ks = _kernels.floor_columns(solid_wanted.astype(np.float32), (solid_wanted & up).astype(np.float32),
                                       0.5, free_above, solid)
    np.testing.assert_array_equal(solid > 0, solid_wanted)
    walk = np.zeros(shape, bool)
    for i, j, k in np.argwhere(solid_wanted & up):
        walk[i, j, k] = not solid_wanted[i, j, k + 1:k + 1 + free_above].any()
    mine = np.zeros(shape, bool)
    column = np.repeat(np.arange(shape[0] * shape[1]), np.diff(start))
    mine[column // shape[1], column % shape[1], ks] = True
    np.testing.assert_array_equal(mine, walk)
    label = _kernels.component_labels(start, ks, shape[0], shape[1])
    other = ndimage.label(walk, np.ones((3, 3, 3)))[0][column // shape[1], column % shape[1], ks]
    # Two labellings are the same partition when pairs of labels match one to one.
    pairs = {(a, b) for a, b in zip(label.tolist(), other.tolist(), strict=True)}
    assert len(pairs) == len(set(label.tolist())) == len(set(other.tolist()))


def test_enclosure_steps_equal_a_plain_walk() -> None:
    rng = np.random.default_rng(3)
    solid = (rng.random((12, 9, 7)) < 0.03).astype(np.uint8)
    eyes = np.array([[5.0, 4, 3], [0, 0, 9], [11, 8, 0]])
    directions, steps = look_directions(), 20
    got = _kernels.enclosure(solid, eyes, directions, steps)
    for e in range(3):
        for d in range(len(directions)):
            want = 0
            for s in range(1, steps):
                at = np.floor(eyes[e] + directions[d] * s + 0.5).astype(int)
                if (at >= 0).all() and (at < solid.shape).all() and solid[tuple(at)]:
                    want = s
                    break
            assert got[e, d] == want


def test_look_directions_are_fifty_unit_vectors() -> None:
    d = look_directions()
    assert d.shape == (50, 3)
    np.testing.assert_allclose(np.linalg.norm(d, axis=1), 1.0, atol=1e-15)
    assert len(np.unique(d.round(9), axis=0)) == 50
    np.testing.assert_allclose(d.sum(axis=0), 0.0, atol=1e-12)


# --- interior -----------------------------------------------------------------------------------------------


def test_a_closed_room_has_one_floor_and_is_all_around() -> None:
    a = analyse_interior(mesh_surfels(A.box_room(), 1.0, FINDING), Z, FINDING)
    assert len(a.places) == 1
    place = a.places[0]
    assert place.enclosure == 1.0
    assert place.floor == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(place.position[2], 1.6, atol=1e-12)
    # The middle, to the spacing of 600 places on 30 m2 (0.22 m) and a step of clearance (0.2 m); the floor's
    # plan, to a voxel's border; the ceiling 1.1 m above the eye.
    assert np.abs(place.position[:2]).max() <= 0.45
    assert place.area == pytest.approx(30.0, abs=0.2 * (6 + 5))
    assert place.ceiling == pytest.approx(1.1, abs=0.15)
    assert a.height == pytest.approx(2.7, abs=0.01)


def test_an_open_plane_encloses_by_its_lower_directions_only() -> None:
    # 16 directions at 0.35 rad down meet the plane after 1.6 / tan(0.35) = 4.4 m, and one straight down.
    finding = CameraFinding()  # with fewer than 800 surfels a m2 the plane has holes
    plane = mesh_surfels(A.open_plane(14.0), 1.0, finding)
    a = analyse_interior(plane, Z, finding)
    assert a.enclosure == 17 / 50
    nothing = analyse_interior(plane, -Z, finding)
    assert nothing.places == ()
    assert (nothing.evidence, nothing.enclosure) == (0.0, 0.0)


def test_furniture_is_kept_away_from() -> None:
    a = analyse_interior(mesh_surfels(A.table_room(), 1.0, FINDING), Z, FINDING)
    x, y, _ = a.places[0].position
    assert not (abs(x - A.TABLE_CENTRE[0]) < A.TABLE_SIZE[0] / 2 + 0.5
                and abs(y - A.TABLE_CENTRE[1]) < A.TABLE_SIZE[1] / 2 + 0.5)


def test_unsigned_surfels_find_the_floor_whichever_way_they_face() -> None:
    s = mesh_surfels(A.box_room(), 1.0, FINDING)
    sign = np.where(np.arange(len(s)) % 2, 1.0, -1.0)[:, None]
    a = analyse_interior(Surfels(s.points, s.normals * sign, s.areas, signed=False), Z, FINDING)
    assert a.places[0].floor == pytest.approx(0.0, abs=1e-12)
    assert a.enclosure == 1.0


# --- up -----------------------------------------------------------------------------------------------------


def test_modes_of_a_turned_box_are_its_axes() -> None:
    c, s = math.cos(0.4), math.sin(0.4)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    modes = normal_modes(mesh_surfels(moved(A.box_room(), turn), 1.0, FINDING))
    assert len(modes) == 3
    # Largest area first: floor and ceiling 60 m2, then the walls of 32.4 and 27 m2.
    for mode, axis in zip(modes, (turn[:, 2], turn[:, 1], turn[:, 0]), strict=True):
        assert abs(mode @ axis) == pytest.approx(1.0, abs=1e-9)


def test_a_furnished_room_shows_which_way_is_up_and_a_wrong_prior_is_kept_with_a_warning() -> None:
    estimate = estimate_up(mesh_surfels(A.table_room(), 1.0, FINDING), Z, FINDING)
    assert axis_words(estimate.candidates[0].up) == "+Z"
    assert estimate.agrees is True
    assert estimate.warning(2.0) is None
    wrong = build_world(scene_of(A.table_room(), up=(1, 0, 0)), quick_protocol("finding.warn_ratio=1.0"), None,
                        FrameOverrides(camera_position=A.EYE, camera_forward=(0, 1, 0)))
    up = wrong.decisions["up"]
    assert (up.source, up.value) == ("prior", [1.0, 0.0, 0.0])
    assert "disagrees" in up.note
    assert any("up were +Z" in w and "--up" in w for w in wrong.warnings)
    assert wrong.estimates["up"][0]["axis"] == pytest.approx([0, 0, 1])
    right = build_world(y_up_scene(A.table_room()), quick_protocol("finding.warn_ratio=1.0"))
    assert not any("up were" in w for w in right.warnings)


# --- camera -------------------------------------------------------------------------------------------------


def test_the_camera_looks_down_the_long_side_and_away_from_a_hole() -> None:
    long = moved(A.box_room(2.0, 12.0, 2.7), np.eye(3), (0, 0, -1.6))
    caster = MeshRayCaster(long.vertices, long.faces)
    # With equal medians the least turn wins; a window whose middle ray is within 18.75 degrees of the long
    # axis has the same median ray, 18.75 degrees off it.
    np.testing.assert_allclose(look_around(caster, np.zeros(3), Z, 25.0, 75.0), [0, 1, 0], atol=1e-9)
    s = A.Soup()
    s.box((-3, -2.5, -1.6), (3, 2.5, 1.1), inward=True, skip="2")  # nothing in front
    open_mesh = s.mesh()
    forward = look_around(MeshRayCaster(open_mesh.vertices, open_mesh.faces), np.zeros(3), Z, 25.0, 75.0)
    bearing = math.degrees(math.atan2(forward[0], forward[1]))
    # The gap spans 50.2 degrees each side of +Y; a window of half 37.5 (37 whole rays) must keep clear of it.
    assert abs(bearing) >= math.degrees(math.atan2(3, 2.5)) + 37
    assert default_forward(Z)[1] == 1.0


@pytest.mark.parametrize(("height", "factor"), [
    (2.7, None), (7.9, None), (270.0, 0.01), (106.0, 0.0254), (8.9, 0.3048), (2700.0, 0.001), (0.027, 100.0),
    (0.5, None), (20.0, None)])
def test_unit_guess_by_the_height(height: float, factor: float | None) -> None:
    assert guess_unit(height) == factor


def test_a_room_in_centimetres_without_a_unit_warns_but_is_not_changed() -> None:
    world = build_world(y_up_scene(A.box_room(), unit_m=None, per_metre=100.0), quick_protocol())
    assert world.decisions["unit"].source == "none"
    assert any("--unit 0.01" in w for w in world.warnings)
    assert world.estimates["unit_factor"] == 0.01


def test_estimates_hold_storeys_and_candidates_in_the_files_unit() -> None:
    lower, upper = A.box_room(), moved(A.box_room(), np.eye(3), (0, 0, 3.0))
    both = TriangleMesh(np.concatenate([lower.vertices, upper.vertices]),
                        np.concatenate([lower.faces, upper.faces + len(lower.vertices)]))
    world = build_world(y_up_scene(both, unit_m=0.01, per_metre=100.0), quick_protocol())
    assert [round(s["height"], 6) for s in world.estimates["storeys"]] == [0.0, 3.0]
    heights = sorted(c["position"][1] for c in world.estimates["cameras"])
    assert heights == pytest.approx([160.0, 460.0], abs=1e-6)
    assert y_up((0, 0, 1)).tolist() == [0, 1, 0]


@pytest.mark.parametrize("tilt", [0.4, 3.0, 6.0])
def test_a_candidate_is_refined_to_the_floor_it_stands_on(tilt: float) -> None:
    """The floor is a plane; legs and lower walls in the band pull at the fit, but evenly."""
    a = math.radians(tilt)
    turn = np.array([[1, 0, 0], [0, math.cos(a), -math.sin(a)], [0, math.sin(a), math.cos(a)]])
    surfels = mesh_surfels(moved(A.table_room(), turn), 1.0, FINDING)
    best = estimate_up(surfels, Z, FINDING).candidates[0]
    assert math.degrees(math.acos(min(1.0, float(best.up @ turn[:, 2])))) < 0.05
