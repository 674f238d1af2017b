"""Whatever the bytes: a valid mesh or an error of ours that says what, where and what to do."""

from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scene_files import QUADRANTS, GltfBuilder, cube_glb, cube_obj, cube_ply, cube_stl, png

from spatialbench.errors import CorruptInputError, InputError, MissingInputError, UnsupportedFormatError
from spatialbench.scene import load_scene, sniff


def check(path):
    """Load or refuse; returns the scene or the error, after a look at what it promises."""
    try:
        scene = load_scene(path)
    except InputError as e:
        error = e
    else:
        check_scene(scene)
        return scene
    assert error.what
    assert error.where
    assert error.todo
    assert "\n" not in str(error)
    return error


def check_scene(scene):
    """What every loaded scene promises."""
    mesh = scene.mesh
    assert len(mesh.faces) > 0
    assert np.isfinite(mesh.vertices).all()
    assert mesh.faces.min() >= 0
    assert mesh.faces.max() < len(mesh.vertices)
    assert mesh.material_ids.min() >= 0
    assert mesh.material_ids.max() < len(mesh.materials)
    assert np.isfinite(scene.report.bounds).all()
    for array in (mesh.uv, mesh.colors):
        assert array is None or np.isfinite(array).all()
    assert scene.report.n_faces == len(mesh.faces)
    scene.report.model_dump_json()


def rich_glb() -> bytes:
    """A small GLB with most of what a GLB can have."""
    b = GltfBuilder()
    b.doc["images"] = [{"bufferView": b.view(png(QUADRANTS)), "mimeType": "image/png"}]
    b.doc["textures"] = [{"source": 0, "sampler": 0}]
    b.doc["samplers"] = [{"wrapS": 33071}]
    b.doc["materials"] = [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}, "alphaMode": "MASK"}]
    b.mesh(TEXCOORD_0=np.linspace(0, 1, 16, dtype="<f4").reshape(8, 2), COLOR_0=np.ones((8, 4), "<f4"), material=0)
    b.doc["cameras"] = [{"type": "perspective"}]
    b.doc["nodes"] = [{"children": [1, 2], "rotation": [0, 0, 0, 1]}, {"mesh": 0, "scale": [-1, 2, 1]}, {"camera": 0}]
    return b.glb()


def torch_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", pickle.dumps([1]))
    return out.getvalue()


def zip_of(*names) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name in names:
            z.writestr(name, b"x")
    return out.getvalue()


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


@pytest.mark.parametrize(("data", "kind", "words"), [
    (b"hello, I am no world\n", "text", "is plain text"),
    (b"   \n\n", "text", "white space"),
    (b"<!DOCTYPE html><html><body>404</body></html>", "html", "an HTML page"),
    (b"\n<html><head>403 Forbidden", "html", "an HTML page"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "lfs", "git lfs pull"),
    (pickle.dumps(Bomb(), 2), "pickle", "never opened"),
    (pickle.dumps(Bomb(), 4), "pickle", "never opened"),
    (torch_zip(), "pickle", "PyTorch"),
    (zip_of("a/room.glb", "readme"), "zip", "Unpack it and give a/room.glb"),
    (b"PK\x03\x04" + b"\0" * 60, "zip", "cannot be opened"),
    (b"{}", "json", "no asset.version"),
    (b"[1, 2]", "json", "no asset.version"),
    (b'{"render_asset": "a.glb"}', "stage", "a.glb"),
    (b"{not json", "text", "begins like JSON"),
    (b"\x89PNG\r\n\x1a\n", "image", "PNG"),
    (b"\x00\x00\x00\x18ftypmp42" + b"\0" * 16, "video", "video"),
    (b"Kaydara FBX Binary  \x00", "fbx", "FBX"),
    (b"\xff\xfeh\0i\0", "text", "UTF-16"),
    (bytes(range(256)) * 3, "binary", "binary data of unknown kind"),
    (b"newmtl a\nKd 1 1 1\n", "mtl", "MTL"),
])
@pytest.mark.parametrize("name", ["world.glb", "world.ply", "world"])
def test_refusals_name_what_it_is(tmp_path, data, kind, words, name):
    path = tmp_path / name
    path.write_bytes(data)
    assert sniff(path).kind == kind
    error = check(path)
    assert isinstance(error, UnsupportedFormatError)
    assert words in str(error)


def test_missing_empty_and_folders(tmp_path):
    with pytest.raises(MissingInputError, match="no such file"):
        load_scene(tmp_path / "nowhere.glb")
    (tmp_path / "empty.glb").touch()
    with pytest.raises(CorruptInputError, match=r"empty\.glb: is empty \(0 bytes\)"):
        load_scene(tmp_path / "empty.glb")
    with pytest.raises(CorruptInputError, match=r"empty\.glb: is empty"):  # the only world in its folder
        load_scene(tmp_path)
    (tmp_path / "other.obj").touch()
    with pytest.raises(MissingInputError, match=r"is a folder.*empty\.glb, other\.obj"):
        load_scene(tmp_path)
    (tmp_path / "hollow").mkdir()
    with pytest.raises(MissingInputError, match="no world file"):
        load_scene(tmp_path / "hollow")
    with pytest.raises(InputError):
        load_scene(tmp_path / ("x" * 300))
    with pytest.raises(InputError):
        load_scene(tmp_path / "a\0b")
    with pytest.raises(InputError):
        load_scene(tmp_path / "empty.glb" / "below")


def test_glb_header_and_chunks(tmp_path):
    data = cube_glb()
    path = tmp_path / "a.glb"
    for spoiled, words in ((data[:11], "takes 12 bytes, the file has 11"),
                           (data[:-1], f"announces {len(data)} bytes, the file has {len(data) - 1}"),
                           (data[:12] + b"\xff\xff\xff\x7f" + data[16:], "chunk of 2,147,483,647 bytes"),
                           (data[:16] + b"XXXX" + data[20:], "first chunk is not JSON"),
                           (data[:20] + b"!" + data[21:], "JSON line 1 column 1"),
                           (data[:4] + b"\x01" + data[5:], "version 1")):
        path.write_bytes(spoiled)
        error = check(path)
        assert words in str(error), (words, str(error))
    path.write_bytes(data + b"rubbish")
    assert any("7 bytes after the end" in w for w in load_scene(path).report.warnings)


@pytest.mark.parametrize("make", [cube_glb, rich_glb])
def test_a_glb_cut_anywhere(tmp_path, make):
    """The header has the length, so every cut is found."""
    data, path = make(), tmp_path / "cut.glb"
    for cut in {*range(1, 40), *range(40, len(data), 13), len(data) - 1}:
        path.write_bytes(data[:cut])
        assert isinstance(check(path), InputError), cut


@pytest.mark.parametrize("make", [cube_obj, cube_stl, lambda: cube_stl(text=True), lambda: cube_ply(text=True)])
@settings(max_examples=60, deadline=None)
@given(share=st.floats(0, 1))
def test_other_formats_cut_anywhere(tmp_path_factory, make, share):
    data = make()
    path = tmp_path_factory.mktemp("cut") / "cut.bin"
    path.write_bytes(data[:int(share * len(data))])
    check(path)


SEEDS = {"glb": cube_glb(), "rich": rich_glb(), "obj": cube_obj(), "ply": cube_ply(), "be": cube_ply(">"),
         "ascii": cube_ply(text=True), "stl": cube_stl(), "text": cube_stl(text=True)}


@pytest.mark.parametrize("seed", list(SEEDS))
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_spoiled_bytes(tmp_path_factory, seed, data):
    raw = bytearray(SEEDS[seed])
    edits = data.draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), min_size=1, max_size=6))
    for at, value in edits:
        raw[at] = value
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(raw)))
        raw[at:at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    path = tmp_path_factory.mktemp("spoiled") / "world.bin"
    path.write_bytes(bytes(raw))
    check(path)


VALUES = st.recursive(st.none() | st.booleans() | st.integers(-2, 2**40) | st.floats() | st.text(max_size=4),
                      lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=2),
                      max_leaves=4)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_spoiled_fields(tmp_path_factory, data):
    """Any field of the document replaced by any JSON value."""
    b = GltfBuilder()
    b.mesh()
    b.doc["materials"] = [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}]
    b.doc["textures"] = [{"source": 0}]
    b.doc["images"] = [{"uri": "a.png"}]
    b.doc["meshes"][0]["primitives"][0]["material"] = 0
    here = b.doc
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(here[key], (dict, list)) and here[key] and data.draw(st.booleans()):
            here = here[key]
            continue
        here[key] = data.draw(VALUES)
        break
    path = tmp_path_factory.mktemp("fields") / "world.glb"
    path.write_bytes(b.glb())
    check(path)
