"""meshopt streams against the reference encoder: bytes that it wrote once, and the encoder itself where it is there."""

from __future__ import annotations

import contextlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scene_files import CUBE, CUBE_FACES, GltfBuilder, png
from test_scene_bad_input import check

from spatialbench.errors import CorruptInputError, InputError, UnsupportedFormatError
from spatialbench.scene import load_scene
from spatialbench.scene.gltf import _meshopt_kernels as kernels
from spatialbench.scene.gltf.meshopt import decode_view
from spatialbench.scene.gltf.schema import MeshoptView

I = np.arange(20)
FLOATS = np.stack([I * 0.5, (I % 5) * 2.0, -I * 0.25], 1).astype("<f4").view(np.uint8)
BYTES = np.stack([3 * I % 251, I * I % 256, 255 - I, I // 4], 1).astype(np.uint8)
FACES = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6],
                  [0, 6, 4], [1, 5, 7], [1, 7, 3]])
# Written by meshoptimizer 0.2.30 (MIT) from the arrays above.
GOLDEN = {
    "floats 0": (FLOATS, "a00000070000ff80804040404020202020202020ff0000002010101005308000007e800000000000050fc3f0"
            "fcff8080ff8080ff80803f000000ff80800530bc2f0b808180818081c20000008000000700ffff8080404040"
            "4020202020202020ff0000002010101001380080008300000000000000000000000000000000000000000000"
            "00000000000000000000"),
    "floats 1": (FLOATS, "a168693a011200070f020ff8f4c4f262e262e010f81c0f003e01030101101405010100010200217402174021"
            "740e0002010700ff008080404040402020202020202020101010010600820100000000000000000000000000"
            "0000000000000000522201"),
    "bytes 0": (BYTES, "a00a06666666666666666666000000000000070002060a0e12161a1e22262a2e32363aff0000003e42464a05"
            "1555555555000000050080808080000000000000000000000000000000000000000000000000000000000000"
            "000000ff00"),
    "bytes 1": (BYTES, "a15d0206666666666666660f00060606060002060a0e12161a1e22262a2e32363a3e42464a05155555555500"
            "00000100808080010002000000000000000000000000000000000000000000ff0000"),
}
TRIANGLES = "e1fe00ff0f0716a102071391050f06ff02040203007687566778a9866589689801690000"
SEQUENCE = "d10004080a0c020808040a0c0612100412140e0404101214021608101618060a100816180e00000000"


def raw(text: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(text), np.uint8)


def turned(faces):
    """Triangles with their smallest corner first: the codec keeps winding, not which corner is first."""
    return np.stack([np.roll(f, -int(np.argmin(f))) for f in np.asarray(faces).reshape(-1, 3)])


@pytest.mark.parametrize("name", list(GOLDEN))
def test_vertices(name):
    expected, text = GOLDEN[name]
    out = np.zeros_like(expected)
    assert kernels.decode_vertices(raw(text), *expected.shape, out)
    np.testing.assert_array_equal(out, expected)


def test_triangles_and_sequences():
    out = np.zeros(36, np.int64)
    assert kernels.decode_triangles(raw(TRIANGLES), 36, out)
    np.testing.assert_array_equal(turned(out), turned(FACES))
    assert kernels.decode_sequence(raw(SEQUENCE), 36, out)
    np.testing.assert_array_equal(out, FACES.reshape(-1))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), kind=st.integers(0, 3), n=st.integers(1, 700), words=st.integers(1, 16))
def test_as_the_reference_encodes(seed, kind, n, words):
    encoder = pytest.importorskip("meshoptimizer")
    rng = np.random.default_rng(seed)
    a = [rng.integers(0, 256, (n, 4 * words)), np.cumsum(rng.integers(-2, 3, (n, 4 * words)), 0) % 256,
         np.zeros((n, 4 * words), int), rng.integers(0, 2, (n, 4 * words))][kind].astype(np.uint8)
    out = np.zeros_like(a)
    stream = np.frombuffer(encoder.encode_vertex_buffer(a, n, 4 * words), np.uint8)
    assert kernels.decode_vertices(stream, *a.shape, out)
    np.testing.assert_array_equal(out, a)


def view(mode="ATTRIBUTES", count=20, stride=12, filter="NONE"):
    return MeshoptView(buffer=0, byteLength=1, byteStride=stride, count=count, mode=mode, filter=filter)


def test_filters():
    """By hand: 24 bits times a power of two of 8 bits; and the smallest three of a unit quaternion."""
    words = np.array([[(-3 & 0xFFFFFF) | (2 << 24)], [5 | (0xFF << 24)]], "<u4")  # -3 * 4; 5 / 2
    from spatialbench.scene.gltf.meshopt import _filtered

    assert _filtered(words.view(np.uint8), view(stride=4, filter="EXPONENTIAL"), "w").ravel().tolist() == [-12.0, 2.5]
    # w left out (2 low bits of the fourth say which is largest): x = 0.5 of scale 1 / sqrt(2)
    scale = 2047
    q = np.array([[round(0.5 * scale), 0, 0, scale & ~3 | 3]], "<i2")
    out = _filtered(q.view(np.uint8), view(stride=8, filter="QUATERNION"), "w")[0] / 32767
    x = 0.5 * 2**-0.5
    np.testing.assert_allclose(np.abs(out), [x, 0, 0, (1 - x * x) ** 0.5], atol=1e-3)


def cube_glb(**changed):
    """A cube whose indices are plain and whose positions are in no buffer but the compressed one."""
    b = GltfBuilder()
    b.mesh()
    text = changed.pop("text", GOLDEN["floats 0"][1])
    stream = b.view(bytes.fromhex(text))
    where = b.doc["bufferViews"].pop(stream)
    b.doc["bufferViews"].append({"buffer": 1, "byteLength": 240, "byteStride": 12, "extensions": {
        "EXT_meshopt_compression": {"buffer": 0, "byteOffset": where["byteOffset"], "byteLength": where["byteLength"],
                                    "byteStride": 12, "count": 20, "mode": "ATTRIBUTES", **changed}}})
    b.doc["accessors"][0] |= {"bufferView": stream, "count": 20}
    b.doc["extensionsUsed"] = b.doc["extensionsRequired"] = ["EXT_meshopt_compression"]
    return b


def save(tmp_path, b):
    doc = {**b.doc, "buffers": [{"byteLength": len(b.buffer)},
                                {"byteLength": 240, "extensions": {"EXT_meshopt_compression": {"fallback": True}}}]}
    text = json.dumps(doc).encode()
    text += b" " * (-len(text) % 4)
    body = b.buffer + b"\0" * (-len(b.buffer) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(body), b"BIN\0") + body
    path = tmp_path / "w.glb"
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)
    return path


def test_a_view_that_is_only_compressed(tmp_path):
    scene = load_scene(save(tmp_path, cube_glb()))
    used = np.unique(CUBE_FACES)
    np.testing.assert_array_equal(np.unique(scene.mesh.vertices[:, 0]), np.unique(FLOATS.view("<f4")[used, 0]))


@pytest.mark.parametrize(("changed", "error", "words"), [
    ({"count": 21}, CorruptInputError, "has 240 bytes, its meshopt stream 252"),
    ({"byteLength": 10**6}, CorruptInputError, "beyond its buffer"),
    ({"mode": "TRIANGLES"}, CorruptInputError, "cannot be"), ({"mode": "X"}, CorruptInputError, "mode"),
    ({"filter": "OCTAHEDRAL"}, UnsupportedFormatError, "OCTAHEDRAL"),
    ({"text": GOLDEN["floats 0"][1][:-2]}, CorruptInputError, "cannot be decoded"),
    ({"text": "a5" + GOLDEN["floats 0"][1][2:]}, CorruptInputError, "cannot be decoded"),
])
def test_bad_views(tmp_path, changed, error, words):
    got = check(save(tmp_path, cube_glb(**changed)))
    assert isinstance(got, error)
    assert words in str(got)


def test_counts_are_looked_at_before_memory_is_taken():
    with pytest.raises(CorruptInputError, match="announces 12,000,000,000 bytes"):
        decode_view(memoryview(b"\xa0" * 100), view(count=10**9), "w")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_spoiled_streams_never_leave_their_bounds(data):
    """Compiled code does not check by itself: whatever the bytes, each decoder ends with yes or no."""
    which = data.draw(st.sampled_from([*GOLDEN, "triangles", "sequence"]))
    text = TRIANGLES if which == "triangles" else SEQUENCE if which == "sequence" else GOLDEN[which][1]
    stream = bytearray(bytes.fromhex(text))
    for at, value in data.draw(st.lists(st.tuples(st.integers(1, len(stream) - 1), st.integers(0, 255)), max_size=5)):
        stream[at] = value
    stream = stream[:data.draw(st.one_of(st.just(len(stream)), st.integers(0, len(stream))))]
    mode = {"triangles": "TRIANGLES", "sequence": "INDICES"}.get(which, "ATTRIBUTES")
    count, stride = (36, 4) if mode != "ATTRIBUTES" else GOLDEN[which][0].shape
    with contextlib.suppress(InputError):
        assert len(decode_view(memoryview(bytes(stream)), view(mode, count, stride), "w")) == count * stride


def test_the_duck_and_the_city(data_dir):
    """The manifest's box; and the city block, which is a cloud of points."""
    duck = load_scene(data_dir / "scenes/awkward/glb/Duck-vp-12_meshopt.glb")
    assert duck.report.n_faces == 4212
    np.testing.assert_allclose(duck.report.bounds, [[-0.693, 0.099, -0.613], [0.962, 1.64, 0.539]], atol=6e-4)
    got = check(data_dir / "scenes/awkward/glb/helsinki_points_meshopt.glb")
    assert isinstance(got, UnsupportedFormatError)
    assert "point cloud" in str(got)


# --- textures that cannot be decoded ----------------------------------------------------------------

KTX2 = (b"\xabKTX 20\xbb\r\n\x1a\n" + struct.pack("<9I4I2Q3Q", 145, 1, 4, 4, 0, 0, 1, 1, 0, *[0] * 6, 104, 16, 16)
        + bytes(16))


def basis(fallback: bool):
    b = GltfBuilder()
    b.doc["images"] = [{"bufferView": b.view(KTX2), "mimeType": "image/ktx2"},
                       {"bufferView": b.view(png(np.full((2, 2, 3), 9)))}]
    b.doc["textures"] = [{"extensions": {"KHR_texture_basisu": {"source": 0}}, **({"source": 1} if fallback else {})}]
    b.doc["materials"] = [{"name": "wall", "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}]
    b.doc["extensionsUsed"] = ["KHR_texture_basisu"]
    b.mesh(CUBE, CUBE_FACES, TEXCOORD_0=np.zeros((8, 2), "<f4"), material=0)
    return b


def test_basis_textures_are_refused_where_nothing_stands_beside_them(tmp_path):
    got = check(basis(False).save(tmp_path / "w.glb"))
    assert isinstance(got, UnsupportedFormatError)
    assert "material 'wall'" in got.where
    assert "w.glb" in got.where
    assert "is KTX2 with BC7, which is not decoded. Export it with PNG, JPEG or WebP" in str(got)
    assert load_scene(basis(True).save(tmp_path / "w.glb")).mesh.materials[0].texture[0, 0, 0] == 9


def test_basis_textures_of_other_formats(tmp_path):
    (tmp_path / "w.obj").write_bytes(b"mtllib w.mtl\nusemtl a\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nf 1/1 2/1 3/1\n")
    (tmp_path / "w.mtl").write_bytes(b"newmtl a\nmap_Kd q.ktx2\n")
    (tmp_path / "q.ktx2").write_bytes(KTX2)
    got = check(tmp_path / "w.obj")
    assert isinstance(got, UnsupportedFormatError)
    assert "w.obj" in got.where
