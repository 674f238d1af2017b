"""From a file's frame to the world's, with answers that follow from how the rooms are made."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import (
    ConfigError,
    CorruptInputError,
    EmptyWorldError,
    UnsupportedFormatError,
    UsageError,
)
from spatialbench.renderers import open_renderer
from spatialbench.types import Camera, Light, RenderSettings, SnapshotCase, TriangleMesh, World
from spatialbench.world import FrameOverrides, build_world
from spatialbench.world.anchor import anchor_mesh
from spatialbench.world.decide import decide_unit, decide_up, default_forward, level_rotation
from tests import analytic as A
from tests.worlds import moved, pose_looking, quick_protocol, scene_of, y_up, y_up_scene

P = quick_protocol()
EYE = tuple(y_up(A.EYE).tolist())
AHEAD = tuple(y_up((0, 1, 0)).tolist())
AT_EYE = FrameOverrides(camera_position=EYE, camera_forward=AHEAD)
NOBODY = FrameOverrides()


def lowered(mesh: TriangleMesh) -> np.ndarray:
    """Where ``analytic`` says its vertices lie in the world: 1.6 m lower."""
    return mesh.vertices - [0, 0, 1.6]


def raised(world: World) -> set[str]:
    return set(world.raised())


# --- who decides --------------------------------------------------------------------------------------------


def test_up_comes_from_the_strongest_source_that_says_something() -> None:
    plain = scene_of(A.box_room())
    side = scene_of(A.box_room(), up_source="side-car", up_axis=(0, 0, 2))
    case = SnapshotCase(id="c", up="-X")
    for scene, c, overrides, source, axis in (
            (plain, None, NOBODY, "prior", (0, 1, 0)), (side, None, NOBODY, "side-car", (0, 0, 1)),
            (side, case, NOBODY, "case", (-1, 0, 0)),
            (side, case, FrameOverrides(up=(0, 3, 4)), "user", (0, 0.6, 0.8))):
        up, decision = decide_up(scene, c, overrides)
        assert decision.source == source
        np.testing.assert_allclose(up, axis, atol=1e-15)
        assert decision.value == pytest.approx(axis)


def test_unit_comes_from_the_strongest_source_that_says_something() -> None:
    bare = scene_of(A.box_room(), unit_m=None)
    side = scene_of(A.box_room(), side_unit=0.1, unit_source="file")
    case = SnapshotCase(id="c", unit_m=0.3048)
    for scene, c, overrides, source, unit in (
            (bare, None, NOBODY, "none", None), (scene_of(A.box_room()), None, NOBODY, "prior", 1.0),
            (side, None, NOBODY, "file", 0.1), (side, case, NOBODY, "case", 0.3048),
            (side, case, FrameOverrides(unit_m=0.01), "user", 0.01)):
        value, decision = decide_unit(scene, c, overrides)
        assert (value, decision.source) == (unit, source)


def test_wrong_axes_and_lengths_are_refused_where_they_are_given() -> None:
    with pytest.raises(ConfigError, match=r"case c: key 'up': 'W' is not an axis"):
        decide_up(scene_of(A.box_room()), SnapshotCase(id="c", up="W"), NOBODY)
    with pytest.raises(ConfigError, match="no direction"):
        decide_up(scene_of(A.box_room()), SnapshotCase(id="c", up=(0, 0, 0)), NOBODY)
    with pytest.raises(CorruptInputError, match="no direction"):
        decide_up(scene_of(A.box_room(), up=(0, 0, 0)), None, NOBODY)
    for wrong in ({"unit_m": 0.0}, {"scale": math.nan}, {"up": (0, 0, 0)}, {"camera_forward": (1, 0, 0)},
                  {"camera_position": (0, math.inf, 0)}):
        with pytest.raises(UsageError):
            FrameOverrides(**wrong)


@pytest.mark.parametrize(("up", "forward"), [((0, 1, 0), (0, 0, -1)), ((0, -1, 0), (0, 0, 1)),
                                             ((0, 0, 1), (0, 1, 0)), ((1, 0, 0), (0, 1, 0))])
def test_level_rotation_is_right_handed_with_the_formats_forward(up: tuple, forward: tuple) -> None:
    np.testing.assert_array_equal(default_forward(up) + 0.0, forward)
    r = level_rotation(up, forward)
    np.testing.assert_allclose(r @ up, [0, 0, 1], atol=1e-15)
    np.testing.assert_allclose(r @ forward, [0, 1, 0], atol=1e-15)
    assert np.linalg.det(r) == pytest.approx(1.0)
    # Right of a viewer is his forward turned clockwise seen from above.
    np.testing.assert_allclose(r @ np.cross(forward, up), [1, 0, 0], atol=1e-15)


# --- the initial camera -------------------------------------------------------------------------------------


def test_a_given_camera_makes_the_world_that_the_room_was_made_in() -> None:
    room = A.table_room()
    world = build_world(y_up_scene(room), P, None, AT_EYE)
    # The floor is 1.6 below: s = 1 but for the rounding of one division.
    assert world.scale.branch == "floor"
    assert world.scale.factor == pytest.approx(1.0, abs=1e-12)
    assert world.scale.ray_distances == pytest.approx((1.6,) * 9, abs=1e-12)
    assert (world.ground_z, world.ground_assumed) == (-1.6, False)
    assert world.mesh is not None
    np.testing.assert_allclose(world.mesh.vertices, lowered(room), atol=1e-12)
    source = np.c_[world.scene.mesh.vertices, np.ones(len(room.vertices))]
    np.testing.assert_allclose((source @ world.transform.T)[:, :3], world.mesh.vertices, atol=1e-12)
    assert world.decisions["camera"].source == "user"
    assert not raised(world)
    # One table of 1.4 x 0.8 m at 0.75 m; outlines are found to a cell of 0.02 m.
    assert [round(s.height + 1.6, 6) for s in world.supports] == [0.75]
    assert world.supports[0].area == pytest.approx(1.12, abs=0.02 * 2 * (1.4 + 0.8))


def test_only_the_horizontal_part_of_a_cameras_forward_counts() -> None:
    room = A.box_room()
    tilted = FrameOverrides(camera_position=EYE, camera_forward=tuple(y_up((1, 1, -3)).tolist()))
    world = build_world(y_up_scene(room), P, None, tilted)
    c = math.sqrt(0.5)
    expected = lowered(room) @ np.array([[c, -c, 0], [c, c, 0], [0, 0, 1]]).T
    np.testing.assert_allclose(world.mesh.vertices, expected, atol=1e-12)


def test_camera_comes_from_the_strongest_source() -> None:
    room = A.box_room()
    poses = [pose_looking(EYE, y_up((0, 0, -1)), y_up((0, 1, 0))),
             pose_looking(EYE, y_up((1, 0, -0.2)), y_up((0, 0, 1)))]
    scene = y_up_scene(room, cameras=tuple(poses), cameras_source="file")
    case = SnapshotCase.model_validate({"id": "c", "camera": {
        "position": list(EYE), "look_at": list(y_up((0, -1, 1.0)))}})
    by_file = build_world(scene, P)
    assert by_file.decisions["camera"].source == "file"
    # The first camera looks straight down and is passed over; the second looks along the room's +X.
    assert any("camera 0 of the file looks straight" in w for w in by_file.warnings)
    np.testing.assert_allclose(by_file.decisions["camera"].value["forward"], y_up((1, 0, 0)), atol=1e-12)
    by_case = build_world(scene, P, case)
    assert by_case.decisions["camera"].source == "case"
    np.testing.assert_allclose(by_case.mesh.vertices, lowered(room) * [-1, -1, 1], atol=1e-12)
    by_user = build_world(scene, P, case, FrameOverrides(camera_position=EYE))
    assert by_user.decisions["camera"].source == "user"
    np.testing.assert_allclose(by_user.mesh.vertices, lowered(room), atol=1e-12)


def test_a_camera_that_looks_straight_down_is_refused() -> None:
    down = SnapshotCase.model_validate({"id": "c", "camera": {"position": [0, 1.6, 0], "forward": [0, -1, 0]}})
    with pytest.raises(UsageError, match=r"case c, key 'camera': .*straight up or down"):
        build_world(y_up_scene(A.box_room()), P, down)
    with pytest.raises(UsageError, match="straight up or down"):
        build_world(y_up_scene(A.box_room()), P, None, FrameOverrides(camera_position=EYE, camera_forward=(0, 1, 0)))


def test_the_files_origin_is_the_camera_where_it_passes_the_gates() -> None:
    room = A.box_room()
    world = build_world(y_up_scene(room, shift=(0, 0, -1.6)), P)
    assert world.decisions["camera"].source == "origin"
    assert not raised(world)
    np.testing.assert_allclose(world.mesh.vertices, lowered(room), atol=1e-12)


def test_without_a_unit_the_origins_rays_give_the_scale() -> None:
    room = A.box_room()
    world = build_world(y_up_scene(room, shift=(0, 0, -1.6), unit_m=None, per_metre=100.0), P)
    assert (world.decisions["unit"].source, world.decisions["camera"].source) == ("none", "origin")
    assert world.scale.factor == pytest.approx(0.01, rel=1e-12)
    assert world.estimates["search_unit_m"] == pytest.approx(0.01, rel=1e-12)
    np.testing.assert_allclose(world.mesh.vertices, lowered(room), atol=1e-11)
    assert not raised(world)


@pytest.mark.parametrize(("unit", "per_metre"), [(1.0, 1.0), (0.01, 100.0)])
def test_a_camera_is_found_in_a_room_whose_origin_lies_on_the_floor(unit: float, per_metre: float) -> None:
    room = A.table_room()
    world = build_world(y_up_scene(room, unit_m=unit, per_metre=per_metre), P)
    camera = world.decisions["camera"]
    assert camera.source == "found"
    x, minus_z, y = np.array(camera.value["position"]) * [1, 1, -1] / per_metre
    assert minus_z == pytest.approx(1.6, abs=1e-9)  # surfels of a flat floor lie on it to rounding
    assert world.scale.factor == pytest.approx(unit, rel=1e-6)
    # In the room, and as far from the walls and the table as its 0.1 m voxels can tell: at least 0.8 m is
    # free somewhere (the room is 6 by 5, the table reaches 1.6 m from its middle).
    gap = max(abs(x - A.TABLE_CENTRE[0]) - A.TABLE_SIZE[0] / 2, abs(y - A.TABLE_CENTRE[1]) - A.TABLE_SIZE[1] / 2)
    assert min(3 - abs(x), 2.5 - abs(y), gap) > 0.8
    assert world.estimates["enclosure"] == 1.0  # a closed room
    assert not raised(world)


def test_the_origin_in_solid_ground_is_not_taken_for_a_room() -> None:
    # A room on a 4 m thick closed block, whose inside holds the origin 1.6 m above the block's bottom.
    s = A.Soup()
    s.box((-6, -6, -1.6), (6, 6, 2.4))
    room = moved(A.box_room(), np.eye(3), (0, 0, 2.5))
    both = TriangleMesh(np.concatenate([s.mesh().vertices, room.vertices]),
                        np.concatenate([s.mesh().faces, room.faces + len(s.v)]))
    world = build_world(y_up_scene(both), P)
    camera = world.decisions["camera"]
    assert camera.source == "found"
    assert "from behind" in camera.note
    assert camera.value["position"][1] == pytest.approx(2.5 + 1.6, abs=1e-9)


def test_a_room_wound_inside_out_keeps_its_origin_and_is_still_an_interior() -> None:
    world = build_world(y_up_scene(A.box_room().flipped(), shift=(0, 0, -1.6)), P)
    assert world.decisions["camera"].source == "origin"
    assert "no_interior" not in raised(world)
    assert any("inside out" in w for w in world.warnings)
    assert (world.collision.reversed, world.collision.facing_disagrees) == (True, False)


def test_without_any_floor_the_origin_serves_if_it_has_surroundings_else_a_place_outside() -> None:
    inside = build_world(y_up_scene(A.no_floor_room(), shift=(0, 0, -1.6)), P)
    assert inside.decisions["camera"].source == "origin"
    assert inside.decisions["camera"].confidence < 0.5
    s = A.Soup()
    s.box((-0.2, 4.8, 0.0), (0.2, 5.2, 0.3))
    apart = build_world(y_up_scene(s.mesh()), P)
    camera = apart.decisions["camera"]
    assert camera.source == "none"
    # In front of the box (file -Z is forward), level with its middle.
    np.testing.assert_allclose(camera.value["position"][:2], [0.0, 0.15], atol=1e-9)
    assert camera.value["position"][2] > -4.8
    assert {"no_interior", "scale_doubtful"} <= raised(apart)


# --- scale --------------------------------------------------------------------------------------------------


def test_a_users_scale_replaces_the_rule_and_says_so() -> None:
    overrides = FrameOverrides(camera_position=EYE, camera_forward=AHEAD, scale=2.0)
    world = build_world(y_up_scene(A.box_room()), P, None, overrides)
    assert (world.scale.branch, world.scale.factor, world.scale.protocol) == ("user", 2.0, False)
    assert world.ground_z == pytest.approx(-3.2, abs=1e-12)
    assert world.decisions["scale"].source == "user"
    np.testing.assert_allclose(world.mesh.vertices, 2 * lowered(A.box_room()), atol=1e-12)
    assert "scale_doubtful" not in raised(world)


def test_no_floor_falls_back_to_the_depth_percentile() -> None:
    world = build_world(y_up_scene(A.no_floor_room()), P, None, AT_EYE)
    # The room's walls and ceiling as planes around the eye; z-depth of every ring pixel by hand.
    depths = []
    for k in range(4):
        d = A.ring_rays(k, 4, 48, 48, 75.0)
        t = np.full(len(d), np.inf)
        for axis, at in ((0, 3.0), (0, -3.0), (1, 2.5), (1, -2.5), (2, 1.1)):
            with np.errstate(divide="ignore"):
                reach = at / d[:, axis]
            t = np.where(reach > 0, np.minimum(t, reach), t)
        depths.append(t[t * d[:, 2] > -1.6])  # what passes under the walls meets nothing
    ordered = np.sort(np.concatenate(depths))
    at = 0.9 * (len(ordered) - 1)
    low, high = ordered[int(at)], ordered[int(at) + 1]
    p90 = low + (at - int(at)) * (high - low)  # linear interpolation (OPEN-1e)
    assert world.scale.branch == "depth"
    assert world.scale.percentile_depth == pytest.approx(p90, rel=1e-6)  # depths are float32
    assert world.scale.factor == pytest.approx(5 / p90, rel=1e-6)
    assert (world.ground_z, world.ground_assumed) == (-1.6, True)
    assert "scale_doubtful" in raised(world)


def test_nothing_below_and_nothing_around_is_a_failed_scale() -> None:
    s = A.Soup()
    s.quad((-1, -1, 9), (-1, 1, 9), (1, 1, 9), (1, -1, 9))  # overhead, above every ring view
    world = build_world(y_up_scene(s.mesh()), P, None, AT_EYE)
    assert (world.scale.branch, world.scale.factor, world.has_scale) == ("failed", None, False)
    assert world.decisions["scale"].source == "none"
    assert world.supports == ()
    assert {"scale_doubtful", "no_interior"} <= raised(world)


def test_few_rays_are_literal_but_doubted() -> None:
    # A strip of floor under the three rays that tilt to the left only.
    s = A.Soup()
    s.quad((-0.3, -1, 0), (-0.1, -1, 0), (-0.1, 1, 0), (-0.3, 1, 0))
    s.quad((-3, 2, 0), (3, 2, 0), (3, 2, 3), (-3, 2, 3))
    world = build_world(y_up_scene(s.mesh()), P, None, AT_EYE)
    assert [d is not None for d in world.scale.ray_distances] == [True] * 3 + [False] * 6
    assert world.scale.branch == "floor"
    assert world.scale.factor == pytest.approx(1.0, abs=1e-12)
    assert "scale_doubtful" in raised(world)
    assert any("only 3 of the nine rays" in w for w in world.warnings)


# --- the whole ----------------------------------------------------------------------------------------------


@cache
def table_world() -> World:
    return build_world(scene_of(A.table_room(), up=(0, 0, 1)), P, None, FrameOverrides(
        camera_position=A.EYE, camera_forward=(0, 1, 0)))


@settings(max_examples=6, deadline=None)
@given(angles=st.tuples(*[st.floats(-3.0, 3.0)] * 3), log_scale=st.floats(-4.0, 4.0),
       offset=st.tuples(*[st.floats(-300.0, 300.0)] * 3))
def test_the_world_does_not_depend_on_the_files_frame(angles: tuple, log_scale: float, offset: tuple) -> None:
    room, base = A.table_room(), table_world()
    rotation = np.eye(3)
    for axis, angle in enumerate(angles):
        c, s = math.cos(angle), math.sin(angle)
        i, j = [k for k in range(3) if k != axis]
        turn = np.eye(3)
        turn[i, i], turn[i, j], turn[j, i], turn[j, j] = c, -s, s, c
        rotation = turn @ rotation
    k = math.exp(log_scale)
    t = np.array(offset) * k
    scene = scene_of(moved(room, k * rotation, t), up=rotation[:, 2], unit_m=1 / k)
    other = build_world(scene, P, None, FrameOverrides(
        camera_position=tuple((k * rotation @ A.EYE + t).tolist()), camera_forward=tuple(rotation[:, 1].tolist())))
    assert base.mesh is not None
    assert other.mesh is not None
    # Float32 rays cost the scale some 1e-7; offsets of 300 m cost vertices 300 * 2^-52.
    np.testing.assert_allclose(other.mesh.vertices, base.mesh.vertices, rtol=1e-6, atol=1e-6)
    assert other.collision.facing_share == pytest.approx(base.collision.facing_share, abs=1e-9)
    assert (other.collision.reversed, other.collision.cropped_faces) == (base.collision.reversed, 0)
    assert base.footprint is not None
    assert other.footprint is not None
    # The floor's edges lie on cell borders, so that rounding may move one row of cells on each side.
    assert abs(other.footprint.count - base.footprint.count) <= 2 * (6 + 5) / 0.05 + 4
    assert len(other.supports) == len(base.supports) == 1
    assert other.supports[0].area == pytest.approx(base.supports[0].area, abs=0.05)


def test_building_twice_gives_the_same_bytes() -> None:
    one, two = (build_world(y_up_scene(A.table_room()), P) for _ in range(2))
    assert one.mesh is not None
    assert two.mesh is not None
    assert one.mesh.vertices.tobytes() == two.mesh.vertices.tobytes()
    assert one.estimates == two.estimates
    assert one.decisions == two.decisions


def test_what_cannot_be_anchored_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="but not scored"):
        build_world(scene_of(None), P)
    line = TriangleMesh(np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]), np.array([[0, 1, 2]], np.int32))
    with pytest.raises(EmptyWorldError, match="area"):
        build_world(scene_of(line), P)


def test_a_cases_support_is_found_by_polygon_and_by_image() -> None:
    (cx, cy), (w, d), h = A.TABLE_CENTRE, A.TABLE_SIZE, A.TABLE_HEIGHT
    corners = np.array([[cx - w / 2, cy - d / 2, h], [cx + w / 2, cy - d / 2, h], [cx + w / 2, cy + d / 2, h],
                        [cx - w / 2, cy + d / 2, h]])
    by_polygon = SnapshotCase.model_validate({"id": "c", "support": {
        "label": "table", "polygon": y_up(corners).tolist()}})
    # Pinhole by hand: the first ring view looks along +Y, 75 degrees across, from the eye.
    rel = corners - A.EYE
    k = 0.5 / math.tan(math.radians(37.5))
    pixels = np.c_[0.5 + k * rel[:, 0] / rel[:, 1], 0.5 - k * rel[:, 2] / rel[:, 1]]
    inside = np.clip(pixels, 0.0, 1.0)
    by_image = SnapshotCase.model_validate({"id": "c", "support": {
        "label": "table", "image_polygon": inside.tolist()}})
    for case, least in ((by_polygon, 1.0), (by_image, 0.4)):
        world = build_world(y_up_scene(A.table_room()), quick_protocol("views.lens={width: 256, height: 256, "
                            "fov_deg: 75.0}"), case, AT_EYE)
        assert world.support_annotated
        assert len(world.supports) == 1
        assert world.supports[0].height + 1.6 == pytest.approx(h, abs=1e-3)
        assert least < world.supports[0].area < 1.12 + 0.1
    gone = build_world(y_up_scene(A.table_room("none")), P, by_polygon, AT_EYE)
    assert (gone.support_annotated, gone.supports) == (True, ())


def test_progress_is_told() -> None:
    heard: list[str] = []
    build_world(y_up_scene(A.box_room()), P, None, AT_EYE, lambda label, done, total: heard.append(label))
    assert len(heard) >= 3


def test_lights_are_anchored_with_their_mesh():
    """The file's Y up becomes Z up, (x,y,z) -> (x,-z,y), the camera the origin, lengths double: candela grow by 4, lux
    stay, and what light falls on a place at 2 m stays 5 / 1^2 lux."""
    lights = (Light("point", intensity=5.0, position=(1.0, 2.0, 3.0), reach=7.0),
              Light("directional", intensity=3.0, direction=(0.0, -1.0, 0.0)),
              Light("spot", intensity=1.0, position=(0.0, 0.0, -1.0), direction=(0.0, 0.0, -1.0)))
    mesh = replace(A.box_room(), lights=lights)
    turn = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    point, sun, spot = anchor_mesh(mesh, turn, np.array([1.0, 1.0, 1.0]), 2.0).lights
    assert (point.position, point.intensity, point.reach) == ((0, -4, 2), pytest.approx(20), pytest.approx(14))
    assert (sun.direction, sun.intensity) == ((0, 0, -1), 3)
    assert (spot.position, spot.direction) == ((-2, 4, -2), (0, 1, 0))


def test_a_lit_world_looks_the_same_from_its_anchored_camera():
    """A room by a lamp and a sun: the anchored mesh from the origin is the source from its camera."""
    lit = replace(y_up_scene(A.box_room()).mesh, lights=(
        Light("point", intensity=3.0, position=tuple(y_up((1.0, 1.0, 2.0)))),
        Light("directional", intensity=0.5, direction=tuple(y_up((0.6, 0.0, -0.8))))))
    turn, eye = level_rotation((0, 1, 0), AHEAD), np.array(EYE)
    seen = [open_renderer(mesh, RenderSettings(), "embree").render([Camera.from_fov(pose, 75.0, 48, 32)]).rgb[0]
            for mesh, pose in ((lit, pose_looking(eye, AHEAD, (0, 1, 0))),
                               (anchor_mesh(lit, turn, eye, 2.0), pose_looking((0, 0, 0), (0, 1, 0), (0, 0, 1))))]
    assert np.ptp(seen[0]) > 0.1
    assert np.abs(seen[0] - seen[1]).max() < 1e-3
