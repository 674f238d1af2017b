"""glTF: placing, winding, materials, texture coordinates, cameras; against hand-made files and trimesh."""

from __future__ import annotations

import base64
import hashlib
import json
import math

import numpy as np
import pytest
from scene_files import CUBE, CUBE_FACES, QUADRANTS, GltfBuilder, png

from spatialbench.errors import CorruptInputError, EmptyWorldError, MissingInputError, UnsupportedFormatError
from spatialbench.scene import load_scene

TRIANGLE = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4")


def load(builder, tmp_path, name="a.glb"):
    return load_scene(builder.save(tmp_path / name))


def signed_volume(mesh):
    t = mesh.triangles
    return float(np.einsum("ij,ij->i", t[:, 0], np.cross(t[:, 1], t[:, 2])).sum() / 6)


def test_plain_cube(tmp_path):
    b = GltfBuilder()
    b.mesh()
    scene = load(b, tmp_path)
    r = scene.report
    assert (r.kind, r.format, r.n_faces, r.n_vertices, r.n_materials) == ("mesh", "glb", 12, 8, 1)
    assert r.bounds == [[0, 0, 0], [1, 1, 1]]
    assert not r.has_color
    assert not r.brings_lights
    assert r.repairs == []
    assert r.warnings == []
    assert scene.prior_up.tolist() == [0, 1, 0]
    assert scene.prior_unit_m == 1.0
    assert signed_volume(scene.mesh) == pytest.approx(1.0, abs=1e-12)
    data = b.glb()
    assert [(f.name, f.bytes, f.sha256) for f in r.files] == [("a.glb", len(data), hashlib.sha256(data).hexdigest())]


def test_transforms_multiply_from_root_to_leaf(tmp_path):
    """Parent: 90 degrees about z, then x + 10; child: x times 2. (1, 0, 0) -> (2, 0, 0) -> (0, 2, 0) -> (10, 2, 0)."""
    b = GltfBuilder()
    b.mesh(TRIANGLE, np.arange(3, dtype="<u1"))
    h = math.sqrt(0.5)
    b.doc["nodes"] = [{"children": [1], "translation": [10, 0, 0], "rotation": [0, 0, h, h]},
                      {"mesh": 0, "scale": [2, 1, 1]}]
    mesh = load(b, tmp_path).mesh
    np.testing.assert_allclose(mesh.triangles[0], [[10, 0, 0], [10, 2, 0], [9, 0, 0]], atol=1e-15)


def test_matrix_is_column_major(tmp_path):
    b = GltfBuilder()
    b.mesh(TRIANGLE, None)
    b.doc["nodes"][0]["matrix"] = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 6, 7, 1]
    assert load(b, tmp_path).mesh.bounds().tolist() == [[5, 6, 7], [6, 7, 7]]


@pytest.mark.parametrize("scale", [[-1, 1, 1], [-2, -3, -1], [1, -1, -1]])
def test_mirrored_nodes_keep_the_outside_outside(tmp_path, scale):
    b = GltfBuilder()
    uv = np.linspace(0, 1, 16, dtype="<f4").reshape(8, 2)
    b.doc["images"] = [{"bufferView": b.view(png(QUADRANTS)), "mimeType": "image/png"}]
    b.doc["textures"] = [{"source": 0}]
    b.doc["materials"] = [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}]
    b.mesh(TEXCOORD_0=uv, material=0)
    b.doc["nodes"][0]["scale"] = scale
    mesh = load(b, tmp_path).mesh
    assert signed_volume(mesh) == pytest.approx(abs(np.prod(scale)), abs=1e-12)
    # each corner keeps its own coordinates, wherever the winding puts it
    back = mesh.vertices / scale
    index = (back @ [4, 2, 1]).round().astype(int)
    np.testing.assert_array_equal(mesh.uv, uv[index[mesh.faces]])


def test_instances_are_placed_each(tmp_path):
    b = GltfBuilder()
    b.mesh()
    b.doc["nodes"] = [{"children": [1, 2]}, {"mesh": 0}, {"mesh": 0, "translation": [5, 0, 0]}]
    r = load(b, tmp_path).report
    assert r.n_faces == 24
    assert r.bounds == [[0, 0, 0], [6, 1, 1]]


def test_strips_and_fans_wind_as_the_specification_says(tmp_path):
    """glTF 2.0, 3.7.2.1: strip (i, i+1+i%2, i+2-i%2); fan (i+1, i+2, 0). All four triangles face +z."""
    strip = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], "<f4")
    fan = np.array([[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], "<f4")
    b = GltfBuilder()
    b.mesh(strip, None, mode=5)
    b.mesh(fan, None, mode=6)
    b.doc["nodes"] = [{"mesh": 0}, {"mesh": 1}]
    b.doc["scenes"] = [{"nodes": [0, 1]}]
    mesh = load(b, tmp_path).mesh
    np.testing.assert_allclose(mesh.area_vectors(), [[0, 0, 0.5]] * 4)


def test_lines_and_points_are_counted_and_left_out(tmp_path):
    b = GltfBuilder()
    b.mesh()
    positions = b.doc["meshes"][0]["primitives"][0]["attributes"]
    b.doc["meshes"][0]["primitives"] += [{"attributes": positions, "mode": m} for m in (0, 1, 3)]
    r = load(b, tmp_path).report
    assert r.n_faces == 12
    assert {x.name: x.count for x in r.repairs} == {"primitives_of_points_skipped": 1, "primitives_of_lines_skipped": 2}


def test_quantised_positions_and_colours(tmp_path):
    """Normalised i2: 32767 -> 1, -32767 and -32768 -> -1; u1: 255 -> 1; not normalised: as they are."""
    b = GltfBuilder()
    b.doc["extensionsUsed"] = b.doc["extensionsRequired"] = ["KHR_mesh_quantization"]
    corners = np.array([[32767, 0, -32768, 0], [0, 32767, 0, 0], [0, 0, -32767, 0]], "<i2")
    positions = b.add(np.ascontiguousarray(corners[:, :3]), normalized=True)
    colors = b.add(np.array([[255, 0, 51, 255], [0, 255, 0, 0], [0, 0, 0, 255]], "u1"), normalized=True)
    plain = b.add(np.array([[0, 0, 9], [7, 0, 9], [0, -8, 9]], "i1"))
    b.doc["meshes"] = [{"primitives": [{"attributes": {"POSITION": positions, "COLOR_0": colors}},
                                       {"attributes": {"POSITION": plain}}]}]
    mesh = load(b, tmp_path).mesh
    np.testing.assert_allclose(mesh.triangles[0], [[1, 0, -1], [0, 1, 0], [0, 0, -1]], atol=1e-15)
    np.testing.assert_allclose(mesh.triangles[1], [[0, 0, 9], [7, 0, 9], [0, -8, 9]])
    np.testing.assert_allclose(mesh.colors[0], [[1, 0, 0.2, 1], [0, 1, 0, 0], [0, 0, 0, 1]], atol=1e-7)
    np.testing.assert_array_equal(mesh.colors[1], np.ones((3, 4)))


def test_interleaved_and_sparse_accessors(tmp_path):
    b = GltfBuilder()
    rows = np.arange(18, dtype="<f4").reshape(3, 6)
    rows[:, :3] = TRIANGLE
    view = b.view(rows.tobytes())
    b.doc["bufferViews"][view]["byteStride"] = 24
    moved = b.view(np.array([[9, 9, 9]], "<f4").tobytes())
    which = b.view(np.array([2], "u1").tobytes())
    b.doc["accessors"] = [{"bufferView": view, "componentType": 5126, "count": 3, "type": "VEC3", "sparse": {
        "count": 1, "indices": {"bufferView": which, "componentType": 5121}, "values": {"bufferView": moved}}}]
    b.doc["meshes"] = [{"primitives": [{"attributes": {"POSITION": 0}}]}]
    np.testing.assert_array_equal(load(b, tmp_path).mesh.triangles[0], [[0, 0, 0], [1, 0, 0], [9, 9, 9]])


def textured(b, **material):
    b.doc["images"] = [{"bufferView": b.view(png(QUADRANTS)), "mimeType": "image/png"}]
    b.doc["textures"] = [{"source": 0, "sampler": 0}]
    b.doc["samplers"] = [{"wrapS": 33071, "wrapT": 33648, "magFilter": 9728}]
    b.doc["materials"] = [{"name": "paint", "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}, **material}]
    uv = np.array([[0, 0], [1, 0], [0, 1]], "<f4")
    b.mesh(TRIANGLE, np.arange(3, dtype="<u1"), TEXCOORD_0=uv, material=0)


def test_texture_row_0_is_v_0(tmp_path):
    b = GltfBuilder()
    textured(b, alphaMode="MASK", alphaCutoff=0.25, doubleSided=True, emissiveFactor=[0.1, 0.2, 0.3],
             extensions={"KHR_materials_unlit": {}, "KHR_materials_emissive_strength": {"emissiveStrength": 2}})
    scene = load(b, tmp_path)
    mesh, m = scene.mesh, scene.mesh.materials[0]
    np.testing.assert_array_equal(mesh.uv[0], [[0, 0], [1, 0], [0, 1]])
    assert m.texture.shape == (4, 4, 4)
    assert m.texture.dtype == np.uint8
    assert m.texture[0, 0].tolist() == [255, 0, 0, 255]  # v = 0, u = 0: top left of the image
    assert m.texture[3, 0].tolist() == [0, 0, 255, 255]  # v = 1, u = 0: bottom left
    assert (m.wrap, m.filter) == (("clamp", "mirror"), "nearest")
    assert (m.alpha_mode, m.alpha_cutoff, m.double_sided, m.unlit) == ("mask", 0.25, True, True)
    assert m.emissive == pytest.approx((0.2, 0.4, 0.6))
    assert (scene.report.n_textures, scene.report.has_color) == (1, True)


def test_texture_transform(tmp_path):
    """A quarter turn counter-clockwise on the image, v runs down: (u, v) -> (v, -u); first scaled, last shifted."""
    b = GltfBuilder()
    textured(b)
    info = b.doc["materials"][0]["pbrMetallicRoughness"]["baseColorTexture"]
    info["extensions"] = {"KHR_texture_transform": {"offset": [0.5, 0.25], "rotation": math.pi / 2, "scale": [2, 3]}}
    np.testing.assert_allclose(load(b, tmp_path).mesh.uv[0], [[0.5, 0.25], [0.5, -1.75], [3.5, 0.25]], atol=1e-6)


def test_textures_that_cannot_be_had_are_warnings(tmp_path):
    b = GltfBuilder()
    textured(b)
    for image, word in (({"uri": "nowhere.png"}, "not there"), ({"uri": "../up.png"}, "outside"),
                        ({"uri": "http://a.b/c.png"}, "network"), ({"uri": "data:image/png;base64,AAAA"}, "decoded"),
                        ({"uri": "/etc/hostname"}, "absolute")):
        b.doc["images"] = [image]
        scene = load(b, tmp_path)
        assert scene.mesh.materials[0].texture is None
        assert scene.mesh.uv is None
        assert any(word in w for w in scene.report.warnings), (image, scene.report.warnings)


def test_image_bombs_are_not_decoded(tmp_path):
    """A PNG that announces 60,000 x 60,000 pixels in a few bytes."""
    import struct
    import zlib

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    bomb = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b""))
    b = GltfBuilder()
    textured(b)
    b.doc["images"] = [{"bufferView": b.view(bomb)}]
    scene = load(b, tmp_path)
    assert scene.mesh.materials[0].texture is None
    assert any("pixels" in w for w in scene.report.warnings)


def test_faces_without_texture_coordinates_are_drawn_without_the_texture(tmp_path):
    b = GltfBuilder()
    textured(b)
    b.doc["meshes"][0]["primitives"].append(
        {"attributes": {"POSITION": b.add(TRIANGLE + np.float32(1))}, "material": 0})
    scene = load(b, tmp_path)
    with_texture = [scene.mesh.materials[i].texture is not None for i in scene.mesh.material_ids]
    assert with_texture == [True, False]
    assert any("texture coordinates" in w for w in scene.report.warnings)


def test_external_files_and_data_uris(tmp_path):
    b = GltfBuilder()
    textured(b)
    (tmp_path / "tex dir").mkdir()
    (tmp_path / "tex dir" / "q.png").write_bytes(png(QUADRANTS))
    b.doc["images"] = [{"uri": "tex%20dir/q.png"}]
    (tmp_path / "b.bin").write_bytes(b.buffer)
    for uri in ("b.bin", "data:application/octet-stream;base64," + base64.b64encode(b.buffer).decode()):
        b.doc["buffers"] = [{"byteLength": len(b.buffer), "uri": uri}]
        path = tmp_path / "a.gltf"
        path.write_text(json.dumps(b.doc))
        scene = load_scene(path)
        assert scene.report.format == "gltf"
        assert scene.mesh.materials[0].texture is not None
        names = ["a.gltf", "tex dir/q.png"] + (["b.bin"] if uri == "b.bin" else [])
        assert sorted(f.name for f in scene.report.files) == sorted(names)
    b.doc["buffers"][0]["uri"] = "lost.bin"
    path.write_text(json.dumps(b.doc))
    with pytest.raises(MissingInputError, match=r"lost\.bin"):
        load_scene(path)
    for uri in ("../b.bin", "/b.bin", "http://x/b.bin", "x/../../b.bin", "%2e%2e/b.bin", "..\\b.bin", "file:///b.bin"):
        (tmp_path.parent / "b.bin").write_bytes(b.buffer)
        b.doc["buffers"][0]["uri"] = uri
        path.write_text(json.dumps(b.doc))
        with pytest.raises(CorruptInputError, match=r"outside|absolute"):
            load_scene(path)


def test_links_that_leave_the_folder_are_not_followed(tmp_path):
    b = GltfBuilder()
    textured(b)
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    (away / "b.bin").write_bytes(b.buffer)
    b.doc["buffers"] = [{"byteLength": len(b.buffer), "uri": "b.bin"}]
    (home / "a.gltf").write_text(json.dumps(b.doc))
    (home / "b.bin").symlink_to(away / "b.bin")
    with pytest.raises(CorruptInputError, match="outside"):
        load_scene(home / "a.gltf")
    # a cache of links: the world itself is a link into the same store, so its companions are at home there
    (home / "a.gltf").rename(away / "a.gltf")
    (home / "a.gltf").symlink_to(away / "a.gltf")
    assert load_scene(home / "a.gltf").report.n_faces == 1


def test_cameras_become_opencv_poses(tmp_path):
    """glTF cameras look along -z with +y up. Turned +90 degrees about y: forward -x, up +y, right -z."""
    b = GltfBuilder()
    b.mesh()
    h = math.sqrt(0.5)
    b.doc["cameras"] = [{"type": "perspective", "perspective": {"yfov": 1, "znear": 0.1}}]
    b.doc["nodes"] += [{"camera": 0, "translation": [1, 2, 3], "rotation": [0, h, 0, h], "scale": [2, 2, 2]},
                       {"camera": 0, "scale": [-1, 1, 1]}]
    b.doc["scenes"][0]["nodes"] = [0, 1, 2]
    scene = load(b, tmp_path)
    assert scene.side.cameras_source == "file"
    assert len(scene.side.cameras) == 1
    np.testing.assert_allclose(scene.side.cameras[0].matrix,
                               [[0, 0, -1, 1], [0, -1, 0, 2], [-1, 0, 0, 3], [0, 0, 0, 1]], atol=1e-12)
    assert any("camera of node 2" in w for w in scene.report.warnings)


def test_draco_with_a_fallback_is_not_decoded(tmp_path):
    b = GltfBuilder()
    b.mesh()
    b.doc["extensionsUsed"] = ["KHR_draco_mesh_compression"]
    b.doc["meshes"][0]["primitives"][0]["extensions"] = {"KHR_draco_mesh_compression": {"bufferView": 0,
                                                                                       "attributes": {"POSITION": 0}}}
    assert load(b, tmp_path).report.n_faces == 12
    del b.doc["accessors"][0]["bufferView"]
    with pytest.raises(CorruptInputError, match="no Draco stream"):
        load(b, tmp_path)


@pytest.mark.parametrize("name", ["KHR_gaussian_splatting_compression_other",
                                  "ACME_shapes"])
def test_required_extensions_that_are_not_read(tmp_path, name):
    b = GltfBuilder()
    b.mesh()
    b.doc["extensionsUsed"] = b.doc["extensionsRequired"] = [name]
    with pytest.raises(UnsupportedFormatError, match=name):
        load(b, tmp_path)


def spoil_index(b):
    b.buffer = b.buffer[:-2] + b"\x63\x00"  # the last index becomes 99


def spoil_vertex(b):
    b.buffer = np.float32("nan").tobytes() + b.buffer[4:]


def drop_nodes(b):
    b.doc["scenes"][0]["nodes"] = []


@pytest.mark.parametrize(("spoil", "error", "words"), [
    (spoil_index, CorruptInputError, "index 99 at position 35"),
    (spoil_vertex, CorruptInputError, "not finite, the first is vertex 0"),
    (drop_nodes, EmptyWorldError, "no faces"),
    (lambda b: b.doc["accessors"][0].update(count=10**9), CorruptInputError, "needs 12,000,000,000 bytes"),
    (lambda b: b.doc["accessors"][1].update(count=40), CorruptInputError, "needs 80 bytes"),
    (lambda b: b.doc["accessors"][0].update(type="VEC2"), CorruptInputError, "VEC2"),
    (lambda b: b.doc["accessors"][0].update(componentType=7), CorruptInputError, "componentType 7"),
    (lambda b: b.doc["accessors"][0].update(bufferView=7), CorruptInputError, "bufferView 7"),
    (lambda b: b.doc["accessors"][0].pop("bufferView"), CorruptInputError, "no data"),
    (lambda b: b.doc["bufferViews"][0].update(byteLength=10**6), CorruptInputError, "ends at byte 1,000,000"),
    (lambda b: b.doc["bufferViews"][0].update(byteOffset=-4), CorruptInputError, "bufferViews.0.byteOffset"),
    (lambda b: b.doc["bufferViews"][0].update(byteStride=4), CorruptInputError, "steps of 4"),
    (lambda b: b.doc["nodes"][0].update(mesh=3), CorruptInputError, "mesh 3"),
    (lambda b: b.doc["nodes"][0].update(children=[0]), CorruptInputError, "own ancestor"),
    (lambda b: b.doc["nodes"][0].update(children=[8]), CorruptInputError, "child 8"),
    (lambda b: b.doc["nodes"].extend([{"children": [0]}, {"children": [0]}]), CorruptInputError, "two parents"),
    (lambda b: b.doc["nodes"][0].update(scale=[1e300, 1, 1]), CorruptInputError, "not finite"),
    (lambda b: b.doc["nodes"][0].update(rotation=[0, 0, 0, 0]), CorruptInputError, "quaternion"),
    (lambda b: b.doc["nodes"][0].update(scale=[0, 0, 0]), EmptyWorldError, "area"),
    (lambda b: b.doc.update(scene=4), CorruptInputError, "default scene 4"),
    (lambda b: b.doc.update(asset={"version": "1.0"}), UnsupportedFormatError, "glTF 1.0"),
    (lambda b: b.doc.update(nodes=5), CorruptInputError, "'nodes'"),
    (lambda b: b.doc["meshes"][0]["primitives"][0].update(mode=0), UnsupportedFormatError, "point cloud"),
    (lambda b: b.doc["meshes"][0]["primitives"][0].update(mode=1), EmptyWorldError, "lines"),
    (lambda b: b.doc["meshes"][0].update(primitives=[]), EmptyWorldError, "no faces"),
])
def test_bad_documents(tmp_path, spoil, error, words):
    b = GltfBuilder()
    b.mesh()
    spoil(b)
    with pytest.raises(error) as e:
        load(b, tmp_path)
    assert words in str(e.value)
    assert e.value.where
    assert e.value.todo


def test_an_army_of_instances_is_refused_before_memory_is_taken(tmp_path):
    """60,000 copies of a thousand faces out of 6 kB of geometry."""
    b = GltfBuilder()
    b.mesh(CUBE, np.tile(CUBE_FACES, (84, 1)))
    b.doc["nodes"] = [{"children": list(range(1, 60_000))}] + [{"mesh": 0}] * 59_999
    with pytest.raises(UnsupportedFormatError, match="places 60,478,992 faces"):
        load(b, tmp_path)


def test_deep_chains_do_not_recurse(tmp_path):
    b = GltfBuilder()
    b.mesh()
    n = 5000
    b.doc["nodes"] = [{"children": [i + 1]} for i in range(n)] + [{"mesh": 0}]
    assert load(b, tmp_path).report.n_faces == 12


def test_a_document_without_scenes_places_its_roots(tmp_path):
    b = GltfBuilder()
    b.mesh()
    del b.doc["scenes"], b.doc["scene"]
    r = load(b, tmp_path).report
    assert r.n_faces == 12
    assert any("no scene" in w for w in r.warnings)


def test_repairs_are_counted(tmp_path):
    """One face without area, one duplicate (in another order of corners), two vertices that no face uses."""
    b = GltfBuilder()
    vertices = np.concatenate([CUBE, np.array([[3, 3, 3], [np.nan, 0, 0]], "<f4")])
    faces = np.concatenate([CUBE_FACES, np.array([[0, 1, 0], [1, 3, 0]], "<u2")])
    b.mesh(vertices, faces)
    r = load(b, tmp_path).report
    assert {x.name: x.count for x in r.repairs} == {"faces_degenerate": 1, "faces_duplicate": 1,
                                                    "vertices_nonfinite": 1, "vertices_unreferenced": 1}
    assert (r.n_faces, r.n_vertices, r.details["faces_read"]) == (13, 8, 14)
    assert r.bounds == [[0, 0, 0], [1, 1, 1]]


def test_equal_bytes_give_equal_scenes(tmp_path):
    b = GltfBuilder()
    textured(b)
    one, two = load(b, tmp_path), load(b, tmp_path)
    assert one.report.model_dump_json() == two.report.model_dump_json()
    for name in ("vertices", "faces", "material_ids", "uv"):
        assert getattr(one.mesh, name).tobytes() == getattr(two.mesh, name).tobytes()
