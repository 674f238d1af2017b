"""What is mended is listed with its count, whatever the format, and said when it is more than one in twenty."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from splat_files import ply, row

from spatialbench.errors import CorruptInputError, EmptyWorldError
from spatialbench.scene import load_scene
from spatialbench.scene.clean import WARN_SHARE, warn_of_many
from spatialbench.scene.log import ReadLog

GRID = [(x, y, 0.0) for y in range(6) for x in range(6)]
"""5 x 5 squares, 50 faces."""
SQUARES = [f for y in range(5) for x in range(5) for c in (6 * y + x,)
           for f in ((c, c + 1, c + 7), (c, c + 7, c + 6))]


def obj(vertices, faces) -> bytes:
    return ("".join(f"v {x} {y} {z}\n" for x, y, z in vertices)
            + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in faces)).encode()


def ascii_ply(vertices, faces) -> bytes:
    return (f"ply\nformat ascii 1.0\nelement vertex {len(vertices)}\nproperty float x\nproperty float y\nproperty "
            f"float z\nelement face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
            + "".join(f"{x} {y} {z}\n" for x, y, z in vertices)
            + "".join(f"3 {a} {b} {c}\n" for a, b, c in faces)).encode()


def off(vertices, faces) -> bytes:
    return (f"OFF\n{len(vertices)} {len(faces)} 0\n" + "".join(f"{x} {y} {z}\n" for x, y, z in vertices)
            + "".join(f"3 {a} {b} {c}\n" for a, b, c in faces)).encode()


def glb(vertices, faces) -> bytes:
    import json

    v, f = np.array(vertices, "<f4"), np.array(faces, "<u4")
    blob = v.tobytes() + f.tobytes()
    finite = v[np.isfinite(v).all(axis=1)]
    head = json.dumps({
        "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "buffers": [{"byteLength": len(blob)}],
        "bufferViews": [{"buffer": 0, "byteLength": v.nbytes}, {"buffer": 0, "byteOffset": v.nbytes,
                                                                "byteLength": f.nbytes}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": len(v), "type": "VEC3",
                       "min": finite.min(axis=0).tolist(), "max": finite.max(axis=0).tolist()},
                      {"bufferView": 1, "componentType": 5125, "count": f.size, "type": "SCALAR"}]}).encode()
    head += b" " * (-len(head) % 4)
    return (struct.pack("<4sII", b"glTF", 2, 28 + len(head) + len(blob)) + struct.pack("<I4s", len(head), b"JSON")
            + head + struct.pack("<I4s", len(blob), b"BIN\0") + blob)


def stl(vertices, faces) -> bytes:
    rows = b"".join(struct.pack("<12fH", 0, 0, 0, *(float(k) for c in f for k in vertices[c]), 0) for f in faces)
    return b"\0" * 80 + struct.pack("<I", len(faces)) + rows


WRITERS = {"obj": obj, "ply": ascii_ply, "off": off, "glb": glb, "stl": stl}
INDEXED = [k for k in WRITERS if k != "stl"]


def load(tmp_path, kind, vertices, faces):
    path = tmp_path / f"w.{kind}"
    path.write_bytes(WRITERS[kind](vertices, faces))
    return load_scene(path)


def repairs(scene) -> dict:
    return {r.name: r.count for r in scene.report.repairs}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_mesh_reader_lists_faces_without_area_and_duplicates(tmp_path, kind):
    """Two flat faces of 54 are less than a twentieth, as are two duplicates."""
    extra = [(0, 1, 1), (0, 1, 2), SQUARES[0], SQUARES[1][::-1]]
    scene = load(tmp_path, kind, GRID, SQUARES + extra)
    assert repairs(scene) == {"faces_degenerate": 2, "faces_duplicate": 2}
    assert scene.report.n_faces == 52
    assert not any("look at how" in w for w in scene.report.warnings)
    assert scene.report.details["topology"]["duplicate_faces"] == 2


@pytest.mark.parametrize("kind", INDEXED)
def test_every_mesh_reader_lists_vertices_that_no_face_uses(tmp_path, kind):
    scene = load(tmp_path, kind, [*GRID, (9, 9, 9)], SQUARES)
    assert repairs(scene) == {"vertices_unreferenced": 1}
    assert scene.report.bounds == [[0, 0, 0], [5, 5, 0]]


@pytest.mark.parametrize("kind", INDEXED)
def test_no_mesh_reader_mends_an_index(tmp_path, kind):
    with pytest.raises(CorruptInputError, match=r"36|37"):  # OBJ counts from 1
        load(tmp_path, kind, GRID, [*SQUARES, (0, 1, 36)])


@pytest.mark.parametrize("kind", WRITERS)
def test_no_mesh_reader_leaves_an_empty_world(tmp_path, kind):
    with pytest.raises(EmptyWorldError):
        load(tmp_path, kind, GRID, [(0, 1, 2), (0, 0, 1)])


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_mesh_reader_draws_what_is_not_finite(tmp_path, kind, value):
    with pytest.raises(CorruptInputError):
        load(tmp_path, kind, [*GRID[:-1], (5, 5, value)], SQUARES)


@pytest.mark.parametrize("kind", WRITERS)
def test_turned_faces_are_counted_and_left_alone(tmp_path, kind):
    """Along the diagonal of a square and the sides to its neighbours: a corner's face has one of them within."""
    turned = [SQUARES[0][::-1], *SQUARES[1:]]
    scene = load(tmp_path, kind, GRID, turned)
    assert scene.report.details["topology"]["inconsistent_edges"] == 2  # the diagonal and the side to the right
    assert not scene.report.repairs
    normals = scene.mesh.area_vectors()[:, 2]
    assert (int((normals < 0).sum()), len(normals)) == (1, 50)


def test_many_are_a_warning_of_their_own(tmp_path):
    scene = load(tmp_path, "obj", [*GRID, *[(9, 9, 9)] * 3], [*SQUARES, *[SQUARES[0]] * 3])
    words = [w for w in scene.report.warnings if "look at how" in w]
    assert words == [
        "3 of 53 faces have the corners of an earlier one and count twice (6%): look at how the world was exported",
        "3 of 39 vertices are used by no face and were dropped (8%): look at how the world was exported"]


FAULTS = {"position_not_finite": {"x": float("nan")}, "scale_infinite": {"scale_0": float("inf")},
          "rotation_zero": {"rot_0": 0.0, "rot_1": 0.0, "rot_2": 0.0, "rot_3": 0.0},
          "color_not_finite": {"f_dc_0": float("nan")}}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("bad", "told"), [(1, False), (2, True)])
def test_many_splats_that_are_dropped_are_a_warning(tmp_path, fault, bad, told):
    """One of 20 is a twentieth, and two are more."""
    path = tmp_path / "w.ply"
    good = [row(x=float(k % 5), y=float(k // 5)) for k in range(20 - bad)]
    path.write_bytes(ply([*good, *[row(**FAULTS[fault])] * bad]))
    report = load_scene(path).report
    assert {r.name: r.count for r in report.repairs}[f"splats_{fault}"] == bad
    assert report.n_splats == 20 - bad
    assert any(w.startswith("2 of 20 splats have ") and "(10%)" in w for w in report.warnings) is told


def test_a_share_of_nothing_is_none():
    assert WARN_SHARE == 0.05
    log = ReadLog()
    log.repair("faces_degenerate", 5)
    warn_of_many(log, splats=10)
    assert not log.warnings
    warn_of_many(log, faces=100)
    assert not log.warnings
    warn_of_many(log, faces=99)
    assert len(log.warnings) == 1
