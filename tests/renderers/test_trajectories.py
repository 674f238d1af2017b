"""Trajectories against positions and angles worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.errors import CorruptInputError, MissingInputError
from spatialbench.renderers.trajectories import (
    CUBE_FACES,
    action_path,
    bearings,
    cube_faces,
    down_rays,
    load_cameras,
    location_plan,
    ring,
    save_cameras,
)
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


def test_camera_files_round_trip(tmp_path):
    cameras = ring([0.1, 1 / 3, -7e-9], 7, 64, 48, 71.0)
    save_cameras(tmp_path / "c.json", cameras, frame="source: file's own")
    loaded, frame = load_cameras(tmp_path / "c.json")
    assert frame == "source: file's own"
    assert [c.key() for c in loaded] == [c.key() for c in cameras]


@pytest.mark.parametrize("text", ["[]", "{", '{"frame": "x"}', '{"frame": "x", "cameras": [{"fx": 1}]}'])
def test_bad_camera_files(tmp_path, text):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(CorruptInputError, match="Give a file with"):
        load_cameras(tmp_path / "c.json")
    with pytest.raises(MissingInputError):
        load_cameras(tmp_path / "none.json")
