"""Point clouds of three formats: refused as worlds, and inspected as far as they go."""

from __future__ import annotations

import numpy as np
import pytest
from scene_files import CUBE, GltfBuilder, cube_glb

from spatialbench.errors import CorruptInputError, EmptyWorldError, UnsupportedFormatError
from spatialbench.runs.inspection import inspect_world
from spatialbench.scene.points import load_points
from spatialbench.types import load_protocol

POINTS = 0


def cloud_glb(points=CUBE, **extra) -> GltfBuilder:
    """Two copies of some points: one as they are, one turned by 90 degrees about Z, doubled and moved by (10, 0, 0)."""
    b = GltfBuilder()
    b.mesh(points, None, mode=POINTS, **extra)
    half = 0.5**0.5
    b.doc["nodes"] = [{"mesh": 0}, {"mesh": 0, "rotation": [0, 0, half, half], "scale": [2, 2, 2],
                                    "translation": [10, 0, 0]}]
    b.doc["scenes"] = [{"nodes": [0, 1]}]
    return b


def save(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.glb())
    return path


def inspected(path):
    return inspect_world(path, load_protocol("happyworld-spatial-1")).as_json()


def check(found, kind, count, bounds, atol=1e-6):
    assert (found["kind"], found["format"], found["n_vertices"], found["n_faces"]) == ("points", kind, count, 0)
    np.testing.assert_allclose(found["bounds"], bounds, atol=atol)
    assert found["error"]["class"] == "UnsupportedFormatError"
    assert "point cloud" in found["error"]["message"]
    assert found["world"] is None


def test_points_of_a_glb_are_placed_and_have_their_colours(tmp_path):
    colors = np.linspace(0, 1, 24, dtype="<f4").reshape(8, 3)
    path = save(tmp_path / "w.glb", cloud_glb(COLOR_0=colors))
    check(inspected(path), "glb", 16, [[0, 0, 0], [10, 2, 2]])
    cloud = load_points(path)
    x, y, z = CUBE.T
    np.testing.assert_allclose(cloud.positions, np.concatenate([CUBE, np.stack([10 - 2 * y, 2 * x, 2 * z], 1)]),
                               atol=1e-6)  # float32 quaternions are a unit to 1e-7
    np.testing.assert_array_equal(cloud.colors, np.tile(np.c_[colors, np.ones(8)], (2, 1)).astype(np.float32))


def test_a_draco_stream_of_points(tmp_path):
    DracoPy = pytest.importorskip("DracoPy")
    rng = np.random.default_rng(0)
    points, colors = rng.random((50, 3)).astype(np.float32), rng.integers(0, 256, (50, 3), np.uint8)
    path = save(tmp_path / "w.drc", DracoPy.encode(points, colors=colors, quantization_bits=14))
    ends = [points.min(axis=0), points.max(axis=0)]
    check(inspected(path), "drc", 50, ends, atol=1 / (1 << 14))  # a step of the quantised range, which is below 1
    assert load_points(path).colors.shape == (50, 4)


def test_points_of_a_ply_and_those_that_are_not_finite(tmp_path):
    text = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
    path = save(tmp_path / "w.ply", (text + "0 1 2\nnan 0 0\n3 1 5\n").encode())
    found = inspected(path)
    check(found, "ply", 2, [[0, 1, 2], [3, 1, 5]])
    assert [(r["name"], r["count"]) for r in found["repairs"]] == [("points_not_finite", 1)]


def test_what_is_no_cloud_is_none_and_keeps_its_error(tmp_path):
    assert load_points(save(tmp_path / "w.glb", cube_glb())) is None
    needs = cloud_glb()
    needs.doc["extensionsRequired"] = needs.doc["extensionsUsed"] = ["EXT_unknown"]
    with pytest.raises(UnsupportedFormatError, match="EXT_unknown"):
        inspected(save(tmp_path / "x.glb", needs))


def test_clouds_that_are_broken_say_so(tmp_path):
    with pytest.raises(EmptyWorldError, match="none of its 16 points is finite"):
        inspected(save(tmp_path / "a.glb", cloud_glb(np.full((8, 3), np.nan))))
    with pytest.raises(CorruptInputError, match="COLOR_0 has 7 elements, POSITION has 8"):
        inspected(save(tmp_path / "b.glb", cloud_glb(COLOR_0=np.zeros((7, 3), "<f4"))))
    many = b"DRACO\x02\x03\x00\x00\x00\x00" + (2**31).to_bytes(4, "little") + bytes(50)
    with pytest.raises(UnsupportedFormatError, match="announces 2,147,483,648 points"):
        load_points(save(tmp_path / "c.drc", many))
    with pytest.raises(CorruptInputError, match="Draco stream"):
        load_points(save(tmp_path / "d.drc", many[:11] + bytes([9, 0, 0, 0]) + bytes(3)))
