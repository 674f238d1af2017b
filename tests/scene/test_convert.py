"""Writing worlds: what is read back is what was written, and it is anchored as before."""

from __future__ import annotations

import io
import json
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scene_files import QUADRANTS, GltfBuilder, png
from splat_files import ply, row

from spatialbench.scene import load_scene
from spatialbench.scene.convert import (
    WORLD_TO_3DGS,
    WORLD_TO_GLTF,
    in_3dgs_frame,
    write_source_ply,
    write_world_glb,
    write_world_ply,
)
from spatialbench.scene.images import encoded_image
from spatialbench.scene.write_glb import write_glb
from spatialbench.types import Camera, GaussianSplats, Light, Material, Pose, TriangleMesh
from spatialbench.types.sh_rotation import sh_basis


def document(path):
    data = path.read_bytes()
    (size,) = struct.unpack_from("<I", data, 12)
    return json.loads(data[20:20 + size]), data[28 + size:]


def image_of(path, index=0):
    doc, binary = document(path)
    view = doc["bufferViews"][doc["images"][index]["bufferView"]]
    return binary[view["byteOffset"]:view["byteOffset"] + view["byteLength"]]


def corners(mesh):
    """Positions, coordinates and colours of every corner, ordered by material as they are written."""
    order = np.argsort(mesh.material_ids, kind="stable")
    n = len(mesh.faces)
    uv = np.zeros((n, 3, 2)) if mesh.uv is None else mesh.uv
    textured = np.array([m.texture is not None for m in mesh.materials])[mesh.material_ids]
    colors = np.ones((n, 3, 4)) if mesh.colors is None else mesh.colors
    return [a[order] for a in (mesh.triangles.astype(np.float32), np.where(textured[:, None, None], uv, 0), colors,
                               mesh.material_ids)]


def assert_same(got, mesh):
    for a, b in zip(corners(got), corners(mesh), strict=True):
        np.testing.assert_array_equal(a, b)


def texture(seed=0, alpha=255):
    pixels = np.random.default_rng(seed).integers(0, 256, (5, 7, 4)).astype(np.uint8)
    pixels[..., 3] = alpha if alpha is not None else pixels[..., 3]
    return pixels


LOOKS = (
    Material("plain", (0.1, 0.2, 0.3, 1.0)),
    Material("wall", texture=texture(), wrap=("clamp", "mirror"), filter="nearest", double_sided=True),
    Material("leaf", (1, 1, 1, 0.5), texture=texture(1, None), alpha_mode="mask", alpha_cutoff=0.25),
    Material("glass", (0.9, 0.9, 1, 0.125), alpha_mode="blend", unlit=True, emissive=(0.25, 0.5, 0)),
    Material("lamp", emissive=(3.0, 1.5, 0.75)),
)


def some_mesh(n=40, seed=0, looks=LOOKS, colors=True):
    """Loose triangles with everything that a mesh can have; materials alternate."""
    rng = np.random.default_rng(seed)
    vertices = rng.uniform(-5, 5, (n, 3)).astype(np.float32).astype(np.float64)
    faces = np.array([rng.choice(n, 3, replace=False) for _ in range(2 * n)], dtype=np.int32)
    faces[0] = [0, 1, 2]
    used = np.unique(faces)
    faces = np.searchsorted(used, faces).astype(np.int32)
    return TriangleMesh(vertices[used], faces, (np.arange(2 * n) % len(looks)).astype(np.int32), looks,
                        uv=rng.normal(size=(2 * n, 3, 2)).astype(np.float32),
                        colors=rng.uniform(size=(2 * n, 3, 4)).astype(np.float32) if colors else None)


@pytest.mark.parametrize("colors", [True, False])
def test_glb_is_read_back_as_it_was(tmp_path, colors):
    mesh = some_mesh(colors=colors)
    write_glb(mesh, tmp_path / "a.glb")
    scene = load_scene(tmp_path / "a.glb")
    assert_same(scene.mesh, mesh)
    assert not [w for w in scene.report.warnings if "wound against" not in w]  # the faces are random
    assert not [r for r in scene.report.repairs if r.name != "faces_duplicate"]
    for got, m in zip(scene.mesh.materials, LOOKS, strict=True):
        assert (got.texture is None) == (m.texture is None)
        if m.texture is not None:
            np.testing.assert_array_equal(got.texture, m.texture)
        strength = max(1.0, *m.emissive)
        np.testing.assert_allclose(got.emissive, m.emissive, rtol=1e-15 * strength)
        wanted = replace(m, texture=got.texture, emissive=got.emissive,
                         alpha_cutoff=m.alpha_cutoff if m.alpha_mode == "mask" else 0.5)
        if m.texture is None:
            wanted = replace(wanted, wrap=got.wrap, filter=got.filter)
        assert vars(got) == vars(wanted)


def test_a_plain_mesh_shares_its_vertices(tmp_path):
    """Without coordinates and colours no vertex is doubled, whatever the materials."""
    mesh = replace(some_mesh(looks=(Material("a"), Material("b")), colors=False), uv=None)
    write_glb(mesh, tmp_path / "a.glb")
    doc, _ = document(tmp_path / "a.glb")
    assert len({p["attributes"]["POSITION"] for p in doc["meshes"][0]["primitives"]}) == 1
    got = load_scene(tmp_path / "a.glb").mesh
    assert len(got.vertices) == len(mesh.vertices)
    assert_same(got, mesh)


@pytest.mark.parametrize("colors", [True, False])
def test_vertices_that_no_face_uses_are_left_out(tmp_path, colors):
    """One at each end, and those of a textured face, which has corners of its own beside a plain face."""
    vertices = np.array([[9.0, 9, 9], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2], [1, 0, 2], [0, 1, 2], [-9, 0, 0]])
    faces = np.array([[4, 5, 6], [1, 2, 3]], np.int32)
    tint = np.ones((2, 3, 4), np.float32)
    tint[0] = 0.5
    mesh = TriangleMesh(vertices, faces, np.array([0, 1]), (Material("a", texture=texture()), Material("b")),
                        uv=np.zeros((2, 3, 2), np.float32), colors=tint if colors else None)
    write_glb(mesh, tmp_path / "a.glb")
    doc, _ = document(tmp_path / "a.glb")
    of = [doc["accessors"][p["attributes"]["POSITION"]] for p in doc["meshes"][0]["primitives"]]
    assert [a["count"] for a in of] == [3, 3]
    assert [(a["min"], a["max"]) for a in of] == [([0, 0, 2], [1, 1, 2]), ([0, 0, 0], [1, 1, 0])]
    again = load_scene(tmp_path / "a.glb")
    assert not again.report.repairs
    assert_same(again.mesh, mesh)


LAMPS = (
    Light("point", (1.0, 0.5, 0.25), 8.0, (1.0, -1.0, 2.0), reach=7.5),
    Light("spot", (0.5, 1.0, 0.5), 20.0, (-1.0, 0.5, 1.5), (0.6, 0.0, -0.8), 0.0, 0.25, 0.75),
    Light("directional", (1.0, 1.0, 1.0), 3.0, direction=(0.0, -0.28, -0.96)),
    Light("spot", (2.0, 1.0, 0.0), 5.0, (0.0, 0.0, 0.0), (0.0, 0.0, -1.0), 3.0, 0.0, np.pi / 2))
"""The last has a colour beyond the schema's 1."""


def test_lights_as_the_extension_has_them(tmp_path):
    """By hand from KHR_lights_punctual: colours to 1, lux or candela, a node's -Z along the light."""
    write_glb(replace(some_mesh(), lights=(*LAMPS, Light("ambient", intensity=2.0))), tmp_path / "a.glb")
    doc, _ = document(tmp_path / "a.glb")
    assert doc["extensionsUsed"].count("KHR_lights_punctual") == 1
    said = doc["extensions"]["KHR_lights_punctual"]["lights"]
    assert said == [
        {"type": "point", "color": [1, 0.5, 0.25], "intensity": 8, "range": 7.5},
        {"type": "spot", "color": [0.5, 1, 0.5], "intensity": 20,
         "spot": {"innerConeAngle": 0.25, "outerConeAngle": 0.75}},
        {"type": "directional", "color": [1, 1, 1], "intensity": 3},
        {"type": "spot", "color": [1, 0.5, 0], "intensity": 10, "range": 3,
         "spot": {"innerConeAngle": 0, "outerConeAngle": np.pi / 2}}]
    nodes = [n for n in doc["nodes"] if "extensions" in n]
    assert [n["extensions"]["KHR_lights_punctual"]["light"] for n in nodes] == [0, 1, 2, 3]
    assert nodes[0]["translation"] == [1, -1, 2]
    for node, lamp in list(zip(nodes, LAMPS, strict=True))[1:]:
        m = np.array(node["matrix"]).reshape(4, 4).T
        np.testing.assert_allclose(m[:3, :3] @ m[:3, :3].T, np.eye(3), atol=1e-15)
        assert np.linalg.det(m[:3, :3]) == pytest.approx(1)
        np.testing.assert_allclose(-m[:3, 2], lamp.direction, atol=1e-15)
        np.testing.assert_array_equal(m[:3, 3], lamp.position)


def test_lights_are_read_back_as_they_were(tmp_path):
    write_glb(replace(some_mesh(), lights=LAMPS), tmp_path / "a.glb")
    scene = load_scene(tmp_path / "a.glb")
    assert scene.report.brings_lights
    for got, lamp in zip(scene.mesh.lights, LAMPS, strict=True):
        assert (got.kind, got.reach, got.inner, got.outer, got.position) == (
            lamp.kind, lamp.reach, lamp.inner, lamp.outer, lamp.position)
        np.testing.assert_allclose(np.array(got.color) * got.intensity, np.array(lamp.color) * lamp.intensity,
                                   rtol=1e-15)
        if lamp.kind != "point":
            np.testing.assert_allclose(got.direction, lamp.direction, atol=2e-16)


@pytest.mark.parametrize("lamp", [Light("point", intensity=np.inf), Light("point", (1, -1, 0)),
                                  Light("directional", direction=(np.nan, 0, 1))])
def test_lights_that_gltf_has_not(tmp_path, lamp):
    with pytest.raises(ValueError, match="light has values"):
        write_glb(replace(some_mesh(), lights=(lamp,)), tmp_path / "a.glb")
    assert not list(tmp_path.iterdir())


def test_a_lit_world_looks_alike_in_the_frame_it_is_written_in(tmp_path):
    """Drawn from one place in the source frame, and in what is read of the world-frame file, 2.5 times as large.

    What is lit is then 2.5 times as far from its lamps, so candela must have grown by 6.25. Positions are float32,
    2e-7 of 6 m; a shade changes by less than that times its slope, here at most some units per metre.
    """
    from spatialbench.renderers import open_renderer

    v = np.array([[x, y, z] for x in (-2.0, 2.0) for y in (-2.0, 2.0) for z in (-1.0, 3.0)])
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    f = np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))], np.int32)
    looks = (Material("a", (0.6, 0.5, 0.4, 1), double_sided=True), Material("b", (0.3, 0.4, 0.6, 1), double_sided=True))
    room = TriangleMesh(v, f, np.arange(12) // 6, looks, lights=LAMPS)
    turn = np.array([[0.8, 0.6, 0], [-0.6, 0.8, 0], [0, 0, 1.0]])
    to_world = np.eye(4)
    to_world[:3, :3], to_world[:3, 3] = 2.5 * turn, [0.5, -1.0, 0.25]
    write_world_glb(room.transformed(to_world), tmp_path / "b.glb")
    read = load_scene(tmp_path / "b.glb").mesh
    pose, moved = np.eye(4), np.eye(4)
    pose[:3, :3] = [[1, 0, 0], [0, 0, 1], [0, -1, 0]]  # level, along +Y
    pose[:3, 3] = [0.5, -1.5, 1.0]
    moved[:3, :3] = WORLD_TO_GLTF[:3, :3] @ turn @ pose[:3, :3]
    moved[:3, 3] = (WORLD_TO_GLTF @ to_world @ pose)[:3, 3]
    images = [open_renderer(m, backend="embree").render([Camera.from_fov(Pose(p), 90.0, 48)]).rgb[0]
              for m, p in ((room, pose), (read, moved))]
    assert images[0].std() > 0.05
    assert np.abs(images[0] - images[1]).max() < 1e-4
    unlit = open_renderer(replace(read, lights=()), backend="embree").render([Camera.from_fov(Pose(moved), 90.0, 48)])
    assert np.abs(images[0] - unlit.rgb[0]).max() > 0.05


def test_another_unit_is_a_scale_of_the_root(tmp_path):
    """0.5 m: numbers stay, what is read is half as large; candela fall by 4 and reach by 2, lux and cones stay."""
    mesh, pose = replace(some_mesh(), lights=LAMPS), np.eye(4)
    pose[:3, 3] = [4.0, 2.0, -6.0]
    write_glb(mesh, tmp_path / "a.glb", (Pose(pose),), 0.5)
    doc, _ = document(tmp_path / "a.glb")
    (root,) = doc["scenes"][0]["nodes"]
    assert doc["nodes"][root]["scale"] == [0.5] * 3
    assert sorted(doc["nodes"][root]["children"]) == [i for i in range(len(doc["nodes"])) if i != root]
    of = [doc["accessors"][p["attributes"]["POSITION"]] for p in doc["meshes"][0]["primitives"]]
    assert min(a["min"][0] for a in of) == mesh.bounds()[0, 0]
    scene = load_scene(tmp_path / "a.glb")
    np.testing.assert_array_equal(scene.report.bounds, 0.5 * mesh.bounds())
    np.testing.assert_array_equal(scene.side.cameras[0].matrix[:3, 3], [2, 1, -3])
    point, spot, sun, _ = scene.mesh.lights
    assert (point.intensity, point.reach, point.position) == (2, 3.75, (0.5, -0.5, 1))
    assert (spot.intensity, spot.inner, spot.outer) == (5, 0.25, 0.75)
    assert sun.intensity == 3
    np.testing.assert_allclose(spot.direction, (0.6, 0, -0.8), atol=1e-15)


def test_corners_that_are_equal_are_one_vertex(tmp_path):
    """A square of two triangles with one map: 4 vertices; with a seam along the diagonal: 6."""
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    faces = np.array([[0, 1, 2], [0, 2, 3]], np.int32)
    flat = vertices[:, :2].astype(np.float32)[faces]
    looks = (Material(texture=texture()),)
    for uv, count in ((flat, 4), (flat + np.array([0, 5], np.float32)[:, None, None], 6)):
        write_glb(TriangleMesh(vertices, faces, materials=looks, uv=uv), tmp_path / "a.glb")
        doc, _ = document(tmp_path / "a.glb")
        assert doc["accessors"][doc["meshes"][0]["primitives"][0]["attributes"]["POSITION"]]["count"] == count


def test_another_reader_agrees(tmp_path):
    """trimesh, which shares no code with the reader here."""
    trimesh = pytest.importorskip("trimesh")
    mesh = some_mesh(looks=(Material("a", texture=texture()), Material("b", (0.5, 0.25, 1, 1))), colors=False)
    write_glb(mesh, tmp_path / "a.glb", (Pose(np.eye(4)),))
    other = trimesh.load(tmp_path / "a.glb", process=False)
    theirs = np.concatenate([g.vertices[g.faces] for g in other.geometry.values()])
    order = np.argsort(mesh.material_ids, kind="stable")

    def sort(triangles):
        return sorted(map(tuple, triangles.reshape(-1, 9).tolist()))

    assert sort(theirs) == sort(mesh.triangles[order])
    textured = next(g for g in other.geometry.values() if g.visual.material.baseColorTexture is not None)
    np.testing.assert_array_equal(np.asarray(textured.visual.material.baseColorTexture), texture()[..., :3])


def test_pictures_are_embedded_as_they_were(tmp_path):
    """PNG and JPEG bytes are kept; WebP becomes PNG of the same pixels; a picture used twice is there once."""
    from PIL import Image

    pixels = np.kron(QUADRANTS, np.ones((4, 4, 1), np.uint8))
    for kind in ("PNG", "JPEG", "WEBP"):
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, kind)
        data = out.getvalue()
        b = GltfBuilder()
        b.doc["images"] = [{"bufferView": b.view(data), "mimeType": f"image/{kind.lower()}"}]
        b.doc["textures"] = [{"source": 0}, {"source": 0}]
        b.doc["materials"] = [{"pbrMetallicRoughness": {"baseColorTexture": {"index": i}}, "doubleSided": bool(i)}
                              for i in (0, 1)]
        uv = np.linspace(0, 1, 16, dtype="<f4").reshape(8, 2)
        b.mesh(TEXCOORD_0=uv, material=0)
        b.mesh(TEXCOORD_0=uv, material=1)
        b.doc["nodes"] = [{"mesh": 0}, {"mesh": 1, "translation": [5, 0, 0]}]
        b.doc["scenes"] = [{"nodes": [0, 1]}]
        scene = load_scene(b.save(tmp_path / "a.glb"))
        write_glb(scene.mesh, tmp_path / "b.glb")
        doc, _ = document(tmp_path / "b.glb")
        assert len(doc["images"]) == 1
        assert (image_of(tmp_path / "b.glb") == data) is (kind != "WEBP")
        again = load_scene(tmp_path / "b.glb")
        assert_same(again.mesh, scene.mesh)
        np.testing.assert_array_equal(again.mesh.materials[0].texture, scene.mesh.materials[0].texture)


def test_pictures_are_forgotten_with_their_pixels(tmp_path):
    import gc

    from spatialbench.scene import images
    from spatialbench.scene.log import ReadLog

    pixels = images.TextureStore(ReadLog()).decode(png(QUADRANTS), "a")
    assert encoded_image(pixels) == png(QUADRANTS)
    assert encoded_image(pixels.copy()) is None
    key = id(pixels)
    del pixels
    gc.collect()
    assert key not in images._ENCODED


def test_glb_twice_is_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_world_glb(some_mesh(), tmp_path / f"{name}.glb")
    assert (tmp_path / "a.glb").read_bytes() == (tmp_path / "b.glb").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.glb", "b.glb"]


@pytest.mark.parametrize("mesh", [
    TriangleMesh(np.zeros((3, 3)), np.zeros((0, 3), np.int32)),
    TriangleMesh(np.full((3, 3), 1e39), np.array([[0, 1, 2]], np.int32)),
    TriangleMesh(np.full((3, 3), np.nan), np.array([[0, 1, 2]], np.int32))])
def test_glb_refuses(tmp_path, mesh):
    with pytest.raises(ValueError, match=r"face|finite"):
        write_glb(mesh, tmp_path / "a.glb")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def refuse(fd):
        raise OSError(28, "no space left")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(OSError, match="no space"):
        write_glb(some_mesh(), tmp_path / "a.glb")
    assert not list(tmp_path.iterdir())


def test_frames_by_hand():
    """Right stays right; the world's up and forward go where each format has them. Neither mirrors."""
    right, forward, up = np.eye(3)
    assert (WORLD_TO_GLTF[:3, :3] @ right).tolist() == [1, 0, 0]
    assert (WORLD_TO_GLTF[:3, :3] @ up).tolist() == [0, 1, 0]
    assert (WORLD_TO_GLTF[:3, :3] @ forward).tolist() == [0, 0, -1]
    assert (WORLD_TO_3DGS[:3, :3] @ up).tolist() == [0, -1, 0]
    assert (WORLD_TO_3DGS[:3, :3] @ forward).tolist() == [0, 0, 1]
    for m in (WORLD_TO_GLTF, WORLD_TO_3DGS):
        assert np.linalg.det(m) == pytest.approx(1)


def test_the_camera_of_a_world_is_level_and_looks_forward(tmp_path):
    write_world_glb(some_mesh(), tmp_path / "a.glb")
    scene = load_scene(tmp_path / "a.glb")
    (pose,) = scene.side.cameras
    assert pose.position.tolist() == [0, 0, 0]
    assert pose.forward.tolist() == [0, 0, -1]
    assert (-pose.rotation[:, 1]).tolist() == [0, 1, 0]
    doc, _ = document(tmp_path / "a.glb")
    assert "matrix" not in doc["nodes"][1]  # exactly glTF's own
    assert scene.prior_unit_m == 1


def some_splats(n=50, degree=3, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(n, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    return GaussianSplats(rng.normal(size=(n, 3)).astype("f4"), rng.uniform(0.01, 2, (n, 3)).astype("f4"),
                          q.astype("f4"), rng.uniform(size=n).astype("f4"),
                          rng.normal(size=(n, (degree + 1) ** 2, 3)).astype("f4"), antialiased=True)


@settings(max_examples=20, deadline=None)
@given(degree=st.integers(0, 4), seed=st.integers(0, 1000), metric=st.booleans())
def test_world_ply_is_read_back_as_it_was(tmp_path_factory, degree, seed, metric):
    path = tmp_path_factory.mktemp("ply") / "a.ply"
    splats = some_splats(degree=degree, seed=seed)
    write_world_ply(splats, path, metric=metric)
    scene, written = load_scene(path), in_3dgs_frame(splats)
    s = scene.splats
    np.testing.assert_array_equal(s.means, splats.means @ WORLD_TO_3DGS[:3, :3].T.astype("f4"))
    np.testing.assert_array_equal(s.sh, written.sh)
    np.testing.assert_allclose(s.scales, splats.scales, rtol=1e-6)  # a logarithm of up to 4.6 in float32, back
    np.testing.assert_allclose(s.opacities, splats.opacities, atol=3e-7)
    np.testing.assert_allclose(s.quaternions, written.quaternions, atol=2e-7)
    assert s.antialiased
    assert scene.side.up.tolist() == [0, -1, 0]
    assert scene.side.unit_m == (1.0 if metric else None)
    np.testing.assert_array_equal(scene.side.cameras[0].matrix, np.eye(4))
    # Of 9 in 1,000 seeds a splat or two are larger than so small a world, which is told; so is degree 4.
    assert not [w for w in scene.report.warnings if "larger than the world" not in w and "of degree 4" not in w]
    # Colours go with the directions: what was seen from the world's d is seen from the turned d.
    d = np.random.default_rng(3).normal(size=(10, 3))
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    np.testing.assert_allclose(np.einsum("qk,nkc->nqc", sh_basis(d @ WORLD_TO_3DGS[:3, :3].T, degree), s.sh),
                               np.einsum("qk,nkc->nqc", sh_basis(d, degree), splats.sh), atol=1e-5)


def test_source_ply_keeps_all_numbers(tmp_path):
    """Far from the origin too, in float64, with the axis, unit and camera of the source."""
    (tmp_path / "far.ply").write_bytes(ply([row(x=5e6 + i / 100) for i in range(3)], kind="double"))
    scene = load_scene(tmp_path / "far.ply")
    pose = np.eye(4)
    pose[:3, 3] = [0.1, 2, 3]
    write_source_ply(scene.splats, tmp_path / "b.ply", np.array([0, 0, 1.0]), 0.25, (Pose(pose),))
    again = load_scene(tmp_path / "b.ply")
    np.testing.assert_array_equal(again.splats.offset + again.splats.means, scene.splats.offset + scene.splats.means)
    for name in ("scales", "quaternions", "opacities", "sh"):
        np.testing.assert_allclose(getattr(again.splats, name), getattr(scene.splats, name), rtol=1e-6)
    assert again.side.up.tolist() == [0, 0, 1]
    assert again.side.unit_m == 0.25
    np.testing.assert_array_equal(again.side.cameras[0].matrix, pose)


@pytest.mark.parametrize("name", ["house.glb", "cave/cave.gltf", "dungeon.obj", "living_room.glb"])
def test_real_meshes(data_dir, tmp_path, name):
    scene = load_scene(data_dir / "scenes/meshes" / name)
    write_glb(scene.mesh, tmp_path / "a.glb")
    again = load_scene(tmp_path / "a.glb")
    lost = sum(r.count for r in again.report.repairs if r.name == "faces_degenerate")  # too thin for float32
    assert len(again.mesh.faces) + lost == len(scene.mesh.faces)
    if not lost:
        assert_same(again.mesh, scene.mesh)
    assert again.report.n_textures == scene.report.n_textures
