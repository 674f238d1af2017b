"""Draco, in glTF and bare: streams that DracoPy encoded here, and the Khronos box."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scene_files import CUBE, CUBE_FACES, QUADRANTS, GltfBuilder, png
from test_scene_bad_input import check

from spatialbench.errors import CorruptInputError, InputError, UnsupportedFormatError
from spatialbench.scene import load_scene

DracoPy = pytest.importorskip("DracoPy")


def encode(points=CUBE, faces=CUBE_FACES, **extra) -> bytes:
    return DracoPy.encode(np.asarray(points, np.float32), np.asarray(faces, np.uint32), quantization_bits=12,
                          preserve_order=True, **extra)


def glb(stream: bytes, points=8, corners=36, required=True, attributes=None) -> bytes:
    """One mesh whose accessors have no data of their own."""
    b = GltfBuilder()
    view = b.view(stream)
    attributes = attributes or {"POSITION": (0, "VEC3")}
    accessors = {}
    for name, (_, kind) in attributes.items():
        b.doc["accessors"].append({"componentType": 5126, "count": points, "type": kind})
        accessors[name] = len(b.doc["accessors"]) - 1
    b.doc["accessors"].append({"componentType": 5125, "count": corners, "type": "SCALAR"})
    b.doc["meshes"] = [{"primitives": [{
        "attributes": accessors, "indices": len(b.doc["accessors"]) - 1,
        "extensions": {"KHR_draco_mesh_compression": {
            "bufferView": view, "attributes": {n: i for n, (i, _) in attributes.items()}}}}]}]
    b.doc["extensionsUsed"] = ["KHR_draco_mesh_compression"]
    if required:
        b.doc["extensionsRequired"] = ["KHR_draco_mesh_compression"]
    return b, b.glb()


def save(tmp_path, data, name="w.glb"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def volume(mesh):
    t = mesh.triangles
    return float(np.einsum("ij,ij->i", t[:, 0], np.cross(t[:, 1], t[:, 2])).sum() / 6)


@pytest.mark.parametrize("required", [True, False])
def test_the_cube_comes_back(tmp_path, required):
    """The corners of the box lie on the ends of the quantised range, so they are exact."""
    scene = load_scene(save(tmp_path, glb(encode(), required=required)[1]))
    np.testing.assert_array_equal(scene.mesh.triangles, CUBE[CUBE_FACES])
    assert scene.report.details["primitives_draco"] == 1
    assert volume(scene.mesh) == pytest.approx(1)


@pytest.mark.parametrize("level", [0, 1, 5, 10])
def test_precision_is_that_of_the_quantisation(tmp_path, level):
    """12 bits over the longest side: half a step each way, and float32 on top."""
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=3, radius=4)
    stream = DracoPy.encode(ball.vertices.astype(np.float32), ball.faces.astype(np.uint32), quantization_bits=12,
                            compression_level=level)
    mesh = load_scene(save(tmp_path, glb(stream, len(ball.vertices), ball.faces.size)[1])).mesh
    step = 8 / (2**12 - 1)
    ours, theirs = (np.sort(t.mean(axis=1) @ [1, 10, 100]) for t in (mesh.triangles, ball.triangles))
    np.testing.assert_allclose(ours, theirs, atol=111 * (step / 2 + 1e-6))
    assert volume(mesh) == pytest.approx(ball.volume, rel=3 * step / 4)


def test_texture_coordinates_and_colours_come_from_the_stream(tmp_path):
    uv = np.linspace(0, 1, 16, dtype=np.float32).reshape(8, 2)
    stream = encode(tex_coord=uv.astype(float), tex_coord_quantization_bits=16)
    ids = {a["attribute_type"]: a["unique_id"] for a in DracoPy.decode(stream).attributes}
    b, _ = glb(stream, attributes={"POSITION": (ids[0], "VEC3"), "TEXCOORD_0": (ids[3], "VEC2")})
    b.doc["images"] = [{"bufferView": b.view(png(QUADRANTS)), "mimeType": "image/png"}]
    b.doc["textures"] = [{"source": 0}]
    b.doc["materials"] = [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}]
    b.doc["meshes"][0]["primitives"][0]["material"] = 0
    mesh = load_scene(save(tmp_path, b.glb())).mesh
    np.testing.assert_allclose(mesh.uv, uv[CUBE_FACES], atol=2**-17)


def test_plain_data_beside_the_stream_wins(tmp_path):
    b = GltfBuilder()
    b.mesh()
    b.doc["meshes"][0]["primitives"][0]["extensions"] = {"KHR_draco_mesh_compression": {
        "bufferView": b.view(b"no stream"), "attributes": {"POSITION": 0}}}
    b.doc["extensionsUsed"] = ["KHR_draco_mesh_compression"]
    assert load_scene(save(tmp_path, b.glb())).report.n_faces == 12


@pytest.mark.parametrize(("change", "error", "words"), [
    ({"points": 9}, CorruptInputError, "announces 9 elements, the compressed stream has 8"),
    ({"corners": 33}, CorruptInputError, "announces 33 elements, the compressed stream has 36"),
    ({"corners": 200_000_000}, UnsupportedFormatError, "more than 50,000,000 faces"),
    ({"attributes": {"POSITION": (7, "VEC3")}}, CorruptInputError, "no attribute 7"),
    ({"attributes": {"POSITION": (0, "VEC2")}}, CorruptInputError, "VEC2"),
])
def test_streams_that_are_not_what_the_document_says(tmp_path, change, error, words):
    got = check(save(tmp_path, glb(encode(), **change)[1]))
    assert isinstance(got, error)
    assert words in str(got)


def test_bare_streams(tmp_path):
    scene = load_scene(save(tmp_path, encode(colors=np.full((8, 3), 51, np.uint8)), "cube.drc"))
    np.testing.assert_array_equal(scene.mesh.triangles, CUBE[CUBE_FACES])
    np.testing.assert_allclose(scene.mesh.colors[0, 0], [((0.2 + 0.055) / 1.055) ** 2.4] * 3 + [1], rtol=1e-5)
    cloud = DracoPy.encode(CUBE.astype(np.float32))
    got = check(save(tmp_path, cloud, "cloud.drc"))
    assert isinstance(got, UnsupportedFormatError)
    assert "point cloud" in str(got)


def test_counts_are_looked_at_before_decoding(tmp_path):
    """A sequential stream of a few bytes that announces four thousand million faces takes no memory."""
    head = b"DRACO\x02\x02\x01\x00\x00\x00" + b"\xff\xff\xff\xff\x0f" * 2
    tracemalloc.start()
    got = check(save(tmp_path, head + b"\0" * 64, "bomb.drc"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(got, UnsupportedFormatError)
    assert "4,294,967,295 faces" in str(got)
    assert peak < 20e6


SEEDS = [encode(), DracoPy.encode(CUBE.astype(np.float32), CUBE_FACES.astype(np.uint32), compression_level=7)]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_spoiled_streams(tmp_path_factory, data):
    raw = bytearray(data.draw(st.sampled_from(SEEDS)))
    for at, value in data.draw(st.lists(st.tuples(st.integers(5, len(raw) - 1), st.integers(0, 255)), max_size=4)):
        raw[at] = value
    cut = data.draw(st.one_of(st.just(len(raw)), st.integers(5, len(raw))))
    path = tmp_path_factory.mktemp("spoiled") / "world.glb"
    path.write_bytes(glb(bytes(raw[:cut]))[1])
    check(path)


def test_khronos_box_and_cave(data_dir):
    """The cave is that of the undecoded reader's trap: trimesh without DracoPy gives zeros for its vertices."""
    box = load_scene(data_dir / "scenes/awkward/glb/Box_Draco.glb")
    assert (box.report.n_faces, box.report.bounds) == (12, [[-0.5] * 3, [0.5] * 3])
    start = time.perf_counter()
    cave = load_scene(data_dir / "scenes/meshes/cave_draco.glb")
    assert time.perf_counter() - start < 20
    assert cave.report.details["faces_read"] == 595_410
    np.testing.assert_allclose(cave.report.bounds, [[-5.701, -2.565, -2.832], [4.969, 0.964, 30.07]], atol=0.004)


def test_a_truncated_stream_is_an_error(tmp_path):
    stream = encode()
    for cut in range(11, len(stream) - 1, 7):
        assert isinstance(check(save(tmp_path, glb(stream[:cut])[1])), InputError), cut
