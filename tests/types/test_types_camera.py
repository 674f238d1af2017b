"""Poses and cameras: conventions at known directions, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.types import Camera, Frames, Pose, level_pose, look_at_pose, to_uint8

X, Y, Z = np.eye(3)
angle = st.floats(-360, 360)


@pytest.mark.parametrize(("yaw", "pitch", "right", "down", "forward"), [
    (0, 0, X, -Z, Y), (90, 0, -Y, -Z, X), (180, 0, -X, -Z, -Y), (270, 0, Y, -Z, -X), (-90, 0, Y, -Z, -X),
    (0, 90, X, Y, Z),      # up: the image's top is towards the back
    (0, -90, X, -Y, -Z),   # down: towards the front
])
def test_level_pose_is_exact_at_right_angles(yaw, pitch, right, down, forward):
    p = level_pose([1, 2, 3], yaw, pitch)
    assert p.rotation.T.tolist() == [right.tolist(), down.tolist(), forward.tolist()]
    assert p.position.tolist() == [1, 2, 3]
    assert p.forward.tolist() == forward.tolist()


@given(angle, angle, st.tuples(*[st.floats(-100, 100)] * 3))
def test_level_pose_is_a_rotation_with_a_level_horizon(yaw, pitch, at):
    p = level_pose(at, yaw, pitch)
    assert np.allclose(p.rotation.T @ p.rotation, np.eye(3), atol=1e-14)
    assert np.linalg.det(p.rotation) == pytest.approx(1, abs=1e-14)
    assert p.rotation[2, 0] == 0  # "right" has no height
    y, q = math.radians(yaw), math.radians(pitch)
    want = [math.sin(y) * math.cos(q), math.cos(y) * math.cos(q), math.sin(q)]
    assert p.forward == pytest.approx(want, abs=1e-12)
    assert np.allclose(p.world_to_camera @ p.matrix, np.eye(4), atol=1e-12)


@pytest.mark.parametrize(("target", "forward"), [((0, 5, 0), Y), ((3, 0, 0), X), ((0, 0, 4), Z), ((0, 0, -4), -Z),
                                                 ((1, 1, 0), (X + Y) / math.sqrt(2))])
def test_look_at(target, forward):
    assert look_at_pose([0, 0, 0], target).forward == pytest.approx(forward, abs=1e-15)


def bad(change):
    m = np.eye(4)
    change(m)
    return m


@pytest.mark.parametrize(("matrix", "message"), [
    (np.eye(3), "4x4"),
    (np.full((4, 4), np.nan), "finite"),
    (np.diag([1, 1, -1, 1]), "right-handed"),
    (np.diag([1, 1, 1 + 1e-5, 1]), "orthonormal"),
    (np.diag([2, 2, 2, 1]), "orthonormal"),
    (bad(lambda m: m.__setitem__((3, 0), 0.1)), "last row"),
])
def test_what_is_not_a_pose(matrix, message):
    with pytest.raises(ValueError, match=message):
        Pose(np.asarray(matrix, dtype=float))


def test_a_pose_keeps_a_copy_that_cannot_be_written():
    m = np.eye(4)
    p = Pose(m)
    m[0, 3] = 9
    assert p.position.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        p.matrix[0, 3] = 1
    Pose(np.diag([1, 1, 1 + 1e-7, 1]))  # within the tolerance


def test_field_of_view():
    c = Camera.from_fov(level_pose([0, 0, 0]), 90, 256)
    assert (c.fx, c.fy, c.cx, c.cy, c.width, c.height) == (pytest.approx(128), c.fx, 128, 128, 256, 256)
    wide = Camera.from_fov(level_pose([0, 0, 0]), 60, 400, 200)
    assert wide.fx == pytest.approx(200 * math.sqrt(3))
    assert (wide.cy, wide.height) == (100, 200)


@pytest.mark.parametrize("change", [{"width": 0}, {"height": -1}, {"fx": 0.0}, {"fy": -2.0}, {"fx": math.nan}])
def test_what_is_not_a_camera(change):
    good = {"pose": level_pose([0, 0, 0]), "fx": 1.0, "fy": 1.0, "cx": 0.5, "cy": 0.5, "width": 1, "height": 1}
    with pytest.raises(ValueError, match="positive"):
        Camera(**{**good, **change})


def test_keys_tell_cameras_apart():
    a, b = (Camera.from_fov(level_pose([0, 0, z]), 90, 8) for z in (0.0, 5e-324))
    assert a.key() == Camera.from_fov(level_pose([0, 0, 0]), 90, 8).key()
    assert len({a.key(), b.key(), Camera.from_fov(level_pose([0, 0, 0]), 91, 8).key()}) == 3


def test_frames_agree_with_their_cameras():
    c = Camera.from_fov(level_pose([0, 0, 0]), 90, 4, 3)
    image = np.zeros((2, 3, 4), np.float32)
    f = Frames((c, c), rgb=np.zeros((2, 3, 4, 3), np.float32), depth=image)
    assert len(f) == 2
    with pytest.raises(ValueError, match="depth has shape"):
        Frames((c,), depth=image)
    with pytest.raises(ValueError, match="float32"):
        Frames((c, c), alpha=image.astype(np.float64))
    with pytest.raises(ValueError, match="same image size"):
        Frames((c, Camera.from_fov(c.pose, 90, 4)))


def test_to_uint8_rounds_half_up_and_clips():
    x = np.array([-1, 0, 0.4 / 255, 0.6 / 255, 1, 2], dtype=np.float32)
    assert to_uint8(x).tolist() == [0, 0, 0, 1, 255, 255]
    levels = np.arange(256, dtype=np.float32) / np.float32(255)
    assert to_uint8(levels).tolist() == list(range(256))
