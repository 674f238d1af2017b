"""Trajectories against positions and angles worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.errors import CorruptInputError, MissingInputError
from spatialbench.renderers.actions import held_keys, parse_actions
from spatialbench.renderers.trajectories import (
    CUBE_FACES,
    action_path,
    bearings,
    connecting_path,
    cube_faces,
    down_rays,
    location_plan,
    orbit,
    orbit_of_box,
    path_cameras,
    ring,
)
from spatialbench.scene.cameras import CameraList, Intrinsics, ListedCamera, read_cameras, write_cameras
from spatialbench.types import load_protocol

CROSS = [("W", 2.0), ("S", 4.0), ("W", 2.0), ("A", 2.0), ("D", 4.0), ("A", 2.0)]


def test_ring_turns_clockwise_from_forward():
    cameras = ring([1, 2, 3], 36, 768, 768, 75.0)
    forward = np.array([c.pose.forward for c in cameras])
    np.testing.assert_array_equal(forward[[0, 9, 18, 27]], [[0, 1, 0], [1, 0, 0], [0, -1, 0], [-1, 0, 0]])
    yaw = np.radians(10 * np.arange(36))
    np.testing.assert_allclose(forward, np.c_[np.sin(yaw), np.cos(yaw), 0 * yaw], atol=1e-15)
    assert all((c.pose.position == [1, 2, 3]).all() for c in cameras)
    # The image's x axis points right and its y axis down: level horizon.
    assert all(c.pose.rotation[2, 0] == 0 and abs(c.pose.rotation[2, 1] + 1) < 1e-15 for c in cameras)
    assert cameras[0].fx == pytest.approx(384 / math.tan(math.radians(37.5)))


def test_ring_starts_at_yaw0():
    np.testing.assert_array_equal(ring([0, 0, 0], 4, 8, yaw0=90.0)[0].pose.forward, [1, 0, 0])


def test_cube_faces_order_and_cover():
    cameras = cube_faces([0, 0, 1], 256)
    assert len(CUBE_FACES) == 6
    np.testing.assert_array_equal([c.pose.forward for c in cameras],
                                  [[0, 1, 0], [1, 0, 0], [0, -1, 0], [-1, 0, 0], [0, 0, 1], [0, 0, -1]])
    assert all(c.fx == pytest.approx(128) and c.cx == 128 and c.height == 256 for c in cameras)


def test_down_rays():
    d = down_rays(0.1)
    assert d.shape == (9, 3)
    np.testing.assert_array_equal(d[4], [0, 0, -1])
    np.testing.assert_allclose(np.linalg.norm(d, axis=1), 1, atol=1e-15)
    np.testing.assert_allclose(sorted(map(tuple, np.round(-d[:, :2] / d[:, 2:], 12) + 0.0)),
                               sorted((x, y) for x in (-0.1, 0, 0.1) for y in (-0.1, 0, 0.1)))


def test_action_path_of_the_protocol():
    protocol = load_protocol("happyworld-spatial-1").path
    assert [(s.keys, s.seconds) for s in protocol.segments] == CROSS
    path = action_path(CROSS, 1.0, 4.0)
    assert len(path) == 65
    np.testing.assert_array_equal(path.times, np.arange(65) / 4)
    p = path.positions
    np.testing.assert_array_equal(p[[0, 8, 24, 32, 40, 56, 64]],
                                  [[0, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 0], [-2, 0, 0], [2, 0, 0],
                                   [0, 0, 0]])
    assert np.abs(p).max() == 2
    np.testing.assert_allclose(np.linalg.norm(np.diff(p, axis=0), axis=1), 0.25)
    # 16 steps each way on two axes, and the origin: 33 places.
    assert len({row.tobytes() for row in p}) == 33
    assert path.keys == ("W",) * 8 + ("S",) * 16 + ("W",) * 8 + ("A",) * 8 + ("D",) * 16 + ("A",) * 8


def test_action_path_diagonal_opposite_and_odd_rates():
    p = action_path([("WD", 1.0), ("SA", 1.0), ("WS", 1.0)], 2.0, 10.0).positions
    np.testing.assert_allclose(p[10], [math.sqrt(2), math.sqrt(2), 0], rtol=1e-15)
    assert not p[20:].any()
    assert len(action_path([("W", 1.0)], 1.0, 0.7).times) == 1
    with pytest.raises(ValueError, match="unknown key 'X'"):
        action_path([("X", 1.0)], 1.0, 4.0)
    with pytest.raises(ValueError, match="positive"):
        action_path([("W", 1.0)], 0.0, 4.0)


@given(st.lists(st.tuples(st.sampled_from(["W", "A", "WD", "AS"]), st.integers(1, 20)), min_size=1, max_size=4),
       st.sampled_from([0.1, 0.3, 1.0, 1.7]), st.sampled_from([4.0, 5.0, 10.0]))
def test_walking_back_meets_the_same_bits(legs, speed, rate):
    back = {"W": "S", "A": "D", "WD": "SA", "AS": "DW"}
    # n / rate is a short decimal for these rates, so that samples fall on the turning points.
    out = [(k, n / rate) for k, n in legs]
    path = action_path(out + [(back[k], s) for k, s in reversed(out)], speed, rate)
    assert len(path) == 2 * sum(n for _, n in legs) + 1
    assert path.positions[::-1].tobytes() == path.positions.tobytes()
    steps = np.linalg.norm(np.diff(path.positions, axis=0), axis=1)
    np.testing.assert_allclose(steps, speed / rate, rtol=1e-9)


def test_bearings_and_location_order():
    b = bearings(8)
    np.testing.assert_array_equal(b[[0, 2, 4, 6]], [[0, 1], [1, 0], [0, -1], [-1, 0]])
    np.testing.assert_allclose(b[1], [math.sqrt(0.5)] * 2)
    plan = list(location_plan(2.0, (1.5, 1.0, 0.6, 0.3), 8))
    assert [k for k, _ in plan[0]] == [0, 4, 1, 2, 3, 5, 6, 7]
    assert [k for k, _ in plan[3]] == [3, 7, 0, 1, 2, 4, 5, 6]
    for candidates, radius in zip(plan, (3.0, 2.0, 1.2, 0.6), strict=True):
        for k, p in candidates:
            np.testing.assert_allclose(p, [radius * math.sin(k * math.pi / 4),
                                           radius * math.cos(k * math.pi / 4), 0], atol=1e-15)


def test_looking_turns_the_view_and_the_walk():
    """45 degrees a second: two seconds of Right are a quarter turn, and W then leads along +X."""
    path = action_path([("Right", 2.0), ("W", 2.0), ("Left+Up", 1.0), ("Down", 4.0)], 1.5, 2.0)
    np.testing.assert_array_equal(path.yaws[[0, 1, 4, 8, 10, 18]], [0, 22.5, 90, 90, 45, 45])
    # 45 up, then 180 down from there: it stops at straight down.
    np.testing.assert_array_equal(path.pitches[[0, 8, 10, 12, 18]], [0, 0, 45, 0, -90])
    np.testing.assert_array_equal(path.positions[[4, 6, 8, 18]], [[0, 0, 0], [1.5, 0, 0], [3, 0, 0], [3, 0, 0]])
    assert path.keys == ("Right",) * 4 + ("W",) * 4 + ("Left+Up",) * 2 + ("Down",) * 8
    poses = path.poses([1, 2, 3])
    np.testing.assert_allclose(poses[8].forward, [1, 0, 0], atol=1e-15)
    np.testing.assert_array_equal(poses[8].position, [4, 2, 3])
    np.testing.assert_array_equal(poses[-1].forward, [0, 0, -1])


def test_a_walk_that_turns_is_a_circle():
    """Speed v at w degrees a second: radius v / radians(w), centre to the side of the turn."""
    r = 1.0 / math.radians(45)
    path = action_path([("W+Right", 8.0)], 1.0, 4.0)
    angle = np.radians(path.yaws)
    assert path.yaws[-1] == 360
    np.testing.assert_allclose(path.positions[:, :2], np.c_[r * (1 - np.cos(angle)), r * np.sin(angle)], atol=1e-14)
    left = action_path([("WA+Left", 2.0)], 1.0, 4.0).positions[-1]
    # It sets out at 45 degrees to the left, its centre lies at right angles to that, and it turns by 90.
    c = r * np.array([-math.sqrt(0.5), -math.sqrt(0.5)])
    np.testing.assert_allclose(left[:2], c + r * np.array([-math.sqrt(0.5), math.sqrt(0.5)]), atol=1e-14)


@given(st.lists(st.tuples(st.sampled_from(["W", "AS", "D+Left", "WD+Right", "Up", "Left", "S+Left+Up", "idle"]),
                          st.integers(1, 12)), min_size=1, max_size=5),
       st.sampled_from([0.3, 1.0, 1.7]), st.sampled_from([30.0, 45.0, 100.0]))
def test_paths_against_small_steps(legs, speed, turn):
    """The closed form against Euler's midpoint rule, whose error after time T is at most v T (w h)^2 / 24."""
    rate, fine = 4.0, 64
    path = action_path([(k, n / rate) for k, n in legs], speed, rate, turn)
    p, yaw, h, steps = np.zeros(2), 0.0, 1 / (rate * fine), [np.zeros(2)]
    for text, n in legs:
        keys = held_keys(text)
        x, y = (sum({"W": (0, 1), "S": (0, -1), "A": (-1, 0), "D": (1, 0)}.get(k, (0, 0))[i] for k in keys)
                for i in (0, 1))
        w = math.radians(turn) * (("Right" in keys) - ("Left" in keys))
        unit = np.array([x, y]) / max(1.0, math.hypot(x, y))
        for _ in range(n):
            for _ in range(fine):
                s, c = math.sin(yaw + w * h / 2), math.cos(yaw + w * h / 2)
                p = p + speed * h * np.array([unit[0] * c + unit[1] * s, unit[1] * c - unit[0] * s])
                yaw += w * h
            steps.append(p)
    bound = speed * path.times[-1] * (math.radians(turn) * h) ** 2 / 24 + 1e-12
    assert np.abs(path.positions[:, :2] - steps).max() <= bound
    assert path.yaws[-1] == pytest.approx(math.degrees(yaw), abs=1e-9)


def test_walking_a_square_comes_back_to_the_last_bit():
    path = action_path([("W", 1.3), ("Right", 2.0)] * 4, 0.7, 10.0)
    assert path.positions[0].tobytes() == (path.positions[-1] + 0.0).tobytes()
    assert path.yaws[-1] == 360


def test_grammar_of_actions():
    assert parse_actions("W2, W+D1.5; Left:3 idle 1\nS + Right : .5 forward") == [
        ("W", 2.0), ("W+D", 1.5), ("Left", 3.0), ("idle", 1.0), ("S + Right", 0.5), ("forward", 1.0)]
    for text, keys in [("WD", ("W", "D")), ("w+d", ("W", "D")), ("Mouse_Up", ("Up",)), ("cam_left", ("Left",)),
                       ("look_RIGHT", ("Right",)), ("pitch_down", ("Down",)), ("yaw_left+W", ("Left", "W")),
                       ("↑→", ("Up", "Right")), ("IJKL", ("Up", "Left", "Down", "Right")), ("stop", ()), ("", ()),
                       ("backward", ("S",)), ("WWD", ("W", "D"))]:
        assert held_keys(text) == keys, text
    for text in ("", " ; ", "X2", "2", "W-1", "W2x", "W1.2.3", "+", "W+", "W2 3", "run 2", "W " * 10_001):
        with pytest.raises(ValueError, match=r"segment|key"):
            parse_actions(text)


def test_paths_that_are_too_long():
    with pytest.raises(ValueError, match="at most 100,000"):
        action_path([("W", 1e9)], 1.0, 24.0)
    with pytest.raises(ValueError, match="finite"):
        action_path([("W", math.inf)], 1.0, 24.0)


def test_orbit_of_the_benchmark():
    """OPEN-17: 1.5 diagonals, clipped; a quarter of it up; first towards the camera, then clockwise by 15 degrees."""
    centre, radius = orbit_of_box([1, 3, 0], [2, 5, 2])
    np.testing.assert_array_equal(centre, [1.5, 4, 1])
    assert radius == 4.0  # 1.5 * 3 clipped
    assert orbit_of_box([0, 0, 0], [0.1, 0, 0])[1] == 0.5
    assert orbit_of_box([0, 0, 0], [1, 0, 0])[1] == 1.5
    cameras = orbit([0, 4, 1], 2.0, 24, 96, start=[0, 0, 0])
    assert len(cameras) == 24
    np.testing.assert_allclose(cameras[0].pose.position, [0, 2, 1.5], atol=1e-15)
    # Clockwise from above: from -Y the next ones are to -X.
    np.testing.assert_allclose(cameras[6].pose.position, [-2, 4, 1.5], atol=1e-15)
    np.testing.assert_allclose(cameras[1].pose.position,
                               [2 * math.sin(math.radians(195)), 4 + 2 * math.cos(math.radians(195)), 1.5], atol=1e-15)
    for c in cameras:
        d = np.array([0, 4, 1]) - c.pose.position
        np.testing.assert_allclose(c.pose.forward, d / np.linalg.norm(d), atol=1e-15)
        assert c.pose.rotation[2, 0] == 0
        assert c.fx == pytest.approx(48 / math.tan(math.radians(30)))


def test_orbit_by_elevation():
    """The radius is then the distance itself."""
    for c in orbit([1, 2, 3], 2.0, 5, 8, elevation_deg=30.0):
        d = c.pose.position - [1, 2, 3]
        assert np.linalg.norm(d) == pytest.approx(2.0)
        assert d[2] == pytest.approx(1.0)
    for radius, elevation in [(0.0, None), (math.inf, None), (1.0, 90.0)]:
        with pytest.raises(ValueError, match="orbit"):
            orbit([0, 0, 0], radius, elevation_deg=elevation)


def test_connecting_path():
    """OPEN-23b: 16 places with both ends, even steps in position and height, level, looking ahead."""
    cameras = connecting_path([1, 2, 0], [4, 6, 1.5], width=64)
    places = np.array([c.pose.position for c in cameras])
    assert len(cameras) == 16
    np.testing.assert_allclose(places, np.linspace([1, 2, 0], [4, 6, 1.5], 16), atol=1e-15)
    assert (places[[0, -1]] == [[1, 2, 0], [4, 6, 1.5]]).all()
    np.testing.assert_allclose([c.pose.forward for c in cameras], [[0.6, 0.8, 0]] * 16, atol=1e-15)
    np.testing.assert_array_equal(connecting_path([0, 0, 0], [0, 0, 2], 1, 8)[0].pose.forward, [0, 1, 0])


def all_lists():
    return {"ring": ring([0.1, 1 / 3, -7e-9], 7, 64, 48, 71.0), "probe": cube_faces([0, 0, 1], 32),
            "orbit": orbit([0.3, -2, 1], 1.7, 24, 40, 30), "connect": connecting_path([0, 0, 0], [3, 1, 0.2], 16, 20),
            "path": path_cameras(action_path([("W+Right", 1.3), ("Up", 1.0)], 1.1, 5.0), 64, 36)}


@pytest.mark.parametrize("name", ["ring", "probe", "orbit", "connect", "path"])
@pytest.mark.parametrize("kind", ["spatialbench", "nerfstudio", "inria", "colmap"])
def test_camera_lists_round_trip(tmp_path, name, kind):
    """Exact but for COLMAP, whose poses go through quaternions: some rounding errors of 1.1e-16 each."""
    cameras = all_lists()[name]
    entries = tuple(ListedCamera(c.pose, f"{name}-{k:03d}", None,
                                 Intrinsics(c.fx, c.fy, c.cx, c.cy, c.width, c.height)) for k, c in enumerate(cameras))
    path = tmp_path if kind == "colmap" else tmp_path / "c.json"
    write_cameras(CameraList(entries, "spatialbench", "source: file's own"), path, kind)
    back = read_cameras(path)
    assert back.frame == ("source: file's own" if kind == "spatialbench" else "")
    loaded = [c.camera() for c in back.cameras]
    if kind == "colmap":
        for a, b in zip(loaded, cameras, strict=True):
            np.testing.assert_allclose(a.pose.matrix, b.pose.matrix, atol=5e-15)
            assert a.key()[12:] == b.key()[12:]
    else:
        assert [c.key() for c in loaded] == [c.key() for c in cameras]
    assert [c.name for c in back.cameras] == [c.name for c in entries]


@pytest.mark.parametrize("text", ["{", '{"frame": "x", "cameras": []}', '{"frame": "x", "cameras": [{"fx": 1}]}'])
def test_bad_camera_files(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(CorruptInputError):
        read_cameras(tmp_path / "c.json")
    with pytest.raises(MissingInputError):
        read_cameras(tmp_path / "none.json")
