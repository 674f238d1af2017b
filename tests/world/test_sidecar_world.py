"""What side-cars say of a world, held against the world: rooms whose answers are known, and a real one."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from spatialbench.scene import load_scene
from spatialbench.types import Pose, Scene
from spatialbench.world import FrameOverrides
from spatialbench.world.camera import InitialCamera, given_camera, try_camera, try_origin
from spatialbench.world.decide import decide_unit, decide_up, default_forward, level_rotation
from spatialbench.world.probe import nine_rays
from spatialbench.world.profile_check import checked_up
from spatialbench.world.sidecar_check import checked_camera, side_car_words
from spatialbench.world.subject import subject_of
from tests import analytic as A
from tests.worlds import moved, pose_looking, quick_protocol, scene_of, y_up, y_up_scene

P = quick_protocol()
UP = np.array([0.0, 1.0, 0.0])
NOBODY = FrameOverrides()


def with_cameras(*places: ArrayLike, forward: ArrayLike = (0, 1, 0), names: tuple[str, ...] = ()) -> Scene:
    """A box room of 6 by 5 by 2.7 m in a Y-up file with a side-car's cameras at places of the analytic frame."""
    poses = tuple(pose_looking(y_up(p), y_up(forward), UP) for p in places)
    return y_up_scene(A.box_room(), cameras=poses, cameras_source="side-car", camera_names=names)


def taken(scene: Scene, unit_m: float | None = 1.0) -> tuple[InitialCamera | None, list[str]]:
    camera, _ = given_camera(scene, None, NOBODY, UP)
    return checked_camera(camera, subject_of(scene, UP), UP, unit_m, P)


def rays_of(scene: Scene, up: np.ndarray, camera: InitialCamera) -> tuple[float | None, ...]:
    return nine_rays(subject_of(scene, up).sight, camera.position, level_rotation(up, camera.forward), P.scale)


# --- the camera ---------------------------------------------------------------------------------------------


def test_a_side_cars_camera_in_the_room_is_taken() -> None:
    camera, words = taken(with_cameras((1, 0.5, 1.5), (0, 0, 1.6), names=("IMG_1", "IMG_2")))
    assert words == []
    assert camera is not None
    assert camera.source == "side-car"
    np.testing.assert_allclose(camera.position, y_up((1, 0.5, 1.5)))
    assert camera.decision().note == "'IMG_1'"


@pytest.mark.parametrize(("at", "why"), [
    ((0, -20, 1.6), "nine rays meet a floor"),  # outside of the room, over nothing
    ((0, 0, 0.1), "far from eye height"),  # on the floor
    ((0, 0, 9.0), "far from eye height"),  # 6.3 m over the roof
    ((2.9, -2.4, 1.6), "geometry within")])  # 0.1 m from both walls of a corner: nearer than 0.3 m in many directions
def test_a_side_cars_camera_passes_the_gates_or_is_not_taken(at: tuple, why: str) -> None:
    scene = with_cameras(at, names=("IMG_1",))
    camera, words = taken(scene)
    assert camera is None
    assert "first camera ('IMG_1') is not taken" in words[0]
    assert why in words[0]


def test_cameras_of_others_are_not_put_to_the_gates() -> None:
    scene = with_cameras((0, -20, 1.6))
    by_file = replace(scene, side=replace(scene.side, cameras_source="file"))
    camera, words = taken(by_file)
    assert (words, camera is not None) == ([], True)
    assert checked_camera(None, subject_of(scene, UP), UP, 1.0, P) == (None, [])


def test_the_origin_is_tried_like_any_camera() -> None:
    scene = y_up_scene(A.box_room(), shift=(0, 0, -1.6))
    subject = subject_of(scene, UP)
    origin = try_origin(subject, UP, 1.0, P)
    assert origin.reason == ""
    same = try_camera(InitialCamera(np.zeros(3), default_forward(UP), "side-car", 0.9), subject, UP, 1.0, P)
    assert (same.reason, same.enclosed, same.behind) == (origin.reason, origin.enclosed, origin.behind)


# --- the floor ----------------------------------------------------------------------------------------------


def floor_scene(ground_m: float, unit_m: float = 1.0, axis: ArrayLike = UP) -> Scene:
    """The room in a Y-up file with its floor at y = 0, of ``unit_m`` metres a unit."""
    scene = y_up_scene(A.box_room(), unit_m=None, per_metre=1 / unit_m)
    return replace(scene, side=replace(scene.side, unit_m=unit_m, unit_source="side-car", ground_m=ground_m,
                                       ground_axis=np.array(axis, dtype=np.float64)))


def words_of(scene: Scene, height: float = 1.6, up: np.ndarray = UP) -> list[str]:
    unit = scene.side.unit_m or 1.0
    camera = InitialCamera(y_up((0, 0, height)) / unit, default_forward(up), "user", 1.0)
    return side_car_words(scene, up, camera, rays_of(scene, up, camera))


@pytest.mark.parametrize("unit_m", [1.0, 0.25])
@pytest.mark.parametrize("height", [1.6, 1.0])
def test_a_floor_where_the_rays_end_needs_no_word(unit_m: float, height: float) -> None:
    """Up to a fifth of what the rays measure, whatever the unit and wherever the camera."""
    assert words_of(floor_scene(0.0, unit_m), height) == []
    for sign in (-1, 1):
        assert words_of(floor_scene(sign * 0.19 * height, unit_m), height) == []
        (words,) = words_of(floor_scene(sign * 0.21 * height, unit_m), height)
        assert f"by the side-car the floor is {height - sign * 0.21 * height:.2f} m below" in words
        assert f"the rays down end {height:.2f} m below" in words


def test_a_turned_file_is_guessed_by_its_sign() -> None:
    """The floor of a room whose origin is at eye height lies at y = -1.6; Marble's frame has y down, so says +1.6."""
    scene = y_up_scene(A.box_room(), shift=(0, 0, -1.6), unit_m=None)
    side = replace(scene.side, unit_m=1.0, ground_m=1.6, ground_axis=UP)
    camera = InitialCamera(np.zeros(3), default_forward(UP), "origin", 0.6)
    (words,) = side_car_words(replace(scene, side=side), UP, camera, rays_of(scene, UP, camera))
    assert "-1.60 m below" in words
    assert "opposite sign it would fit" in words
    # The same file as Marble writes it, y down: (x, y, z) -> (x, -y, -z).
    down = np.array([0.0, -1.0, 0.0])
    flipped = scene_of(moved(scene.mesh, np.diag([1.0, -1.0, -1.0])), up=down, unit_m=None)
    flipped = replace(flipped, side=side)
    camera = InitialCamera(np.zeros(3), default_forward(down), "origin", 0.6)
    assert side_car_words(flipped, down, camera, rays_of(flipped, down, camera)) == []


def test_a_floor_that_is_not_level_is_said() -> None:
    (words,) = words_of(floor_scene(0.0, axis=(0, 0, 1)))
    assert "along +Z, which is not level where up is +Y" in words


def test_without_rays_or_a_unit_nothing_is_compared() -> None:
    scene = floor_scene(9.0)
    camera = InitialCamera(np.zeros(3), default_forward(UP), "user", 1.0)
    assert side_car_words(scene, UP, camera, (None,) * 9) == []
    bare = replace(scene, side=replace(scene.side, unit_m=None))
    assert side_car_words(bare, UP, camera, (1.0,) * 9) == []


# --- up -----------------------------------------------------------------------------------------------------


def tilted(degrees: float, n: int = 4) -> tuple[Pose, ...]:
    """Cameras around the middle, all tipped down by as much as they look away: their mean up is +Y."""
    out = []
    for k in range(n):
        a, t = 2 * np.pi * k / n, np.radians(degrees)
        forward = np.array([np.sin(a) * np.cos(t), -np.sin(t), -np.cos(a) * np.cos(t)])
        out.append(pose_looking((0, 1.6, 0), forward, UP))
    return tuple(out)


def test_mean_up_of_the_cameras_only_warns() -> None:
    scene = y_up_scene(A.box_room(), cameras=tilted(20), cameras_source="side-car")
    assert decide_up(scene, None, NOBODY)[1].source == "prior"
    camera = InitialCamera(y_up(A.EYE), default_forward(UP), "user", 1.0)
    assert side_car_words(scene, UP, camera, (1.6,) * 9) == []
    wrong = np.array([0.0, 0.0, 1.0])
    (words,) = side_car_words(scene, wrong, camera, (1.6,) * 9)
    assert "4 cameras of the side-car have their up at +Y, 90 degrees from the decided +Z" in words
    # Cameras of the file are none of a side-car's; few, or turned every way, have no mean.
    assert side_car_words(replace(scene, side=replace(scene.side, cameras_source="file")), wrong, camera, ()) == []
    few = replace(scene, side=replace(scene.side, cameras=scene.side.cameras[:2]))
    assert side_car_words(few, wrong, camera, ()) == []
    steep = replace(scene, side=replace(scene.side, cameras=tilted(60)))  # mean of length cos 60 = 0.5
    assert side_car_words(steep, wrong, camera, ()) == []


def test_photographers_of_real_captures_hold_cameras_upright(data_dir: Path, tmp_path: Path) -> None:
    """Splats of the trainer are y down by convention, and its capture of a garden agrees within what tilting does."""
    shutil.copy(data_dir / "scenes/splats/train-1000.ply", tmp_path / "w.ply")
    scene = load_scene(tmp_path / "w.ply", side_cars=[data_dir / "scenes/trajectories/mipnerf360_garden_cameras.json"])
    up, _ = decide_up(scene, None, NOBODY)
    np.testing.assert_array_equal(up, [0, -1, 0])
    camera, _ = given_camera(scene, None, NOBODY, up)
    assert camera is not None
    assert camera.note == "'DSC07956'"
    assert side_car_words(scene, up, camera, ()) == []
    assert len(side_car_words(scene, -up, camera, ())) == 1


# --- a real world -------------------------------------------------------------------------------------------


def test_marbles_kitchen_with_its_metadata(data_dir: Path, tmp_path: Path) -> None:
    """MANIFEST: y up, metric, floor at y -0.05 to 0; a camera at 1.4 m sees it 1.4 to 1.45 m below."""
    shutil.copy(data_dir / "scenes/splats/marble_kitchen/scene.spz", tmp_path / "scene.spz")

    def load(offset: float, **more: bool) -> Scene:
        meta = {"metric_scale_factor": 1.0, "ground_plane_offset": offset, **more}
        (tmp_path / "scene.json").write_text(json.dumps({"assets": {"splats": {"semantics_metadata": meta}}}))
        return load_scene(tmp_path / "scene.spz")

    scene = load(-0.03)
    assert decide_unit(scene, None, NOBODY)[1].source == "side-car"
    camera = InitialCamera(np.array([0.0, 1.4, 0.0]), default_forward(UP), "user", 1.0)
    rays = rays_of(scene, UP, camera)
    assert side_car_words(scene, UP, camera, rays) == []
    (words,) = side_car_words(load(0.75), UP, camera, rays)  # the counters' tops
    assert "the floor is 0.65 m below the initial camera" in words
    # This file was turned after it was exported: flip_y would stand it on its head, and the room speaks against it.
    flipped = load(-0.03, flip_y=True)
    told, decision = decide_up(flipped, None, NOBODY)
    np.testing.assert_array_equal(told, [0, -1, 0])
    up, decision, words = checked_up(flipped, subject_of(flipped, told), told, decision, 1.0, P)
    np.testing.assert_array_equal(up, UP)
    assert decision.source == "prior"
    assert len(words) == 1
