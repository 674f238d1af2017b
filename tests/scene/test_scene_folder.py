"""Worlds of several files: layers, folders with one world, splats with their collider; and what is sky."""

from __future__ import annotations

import numpy as np
import pytest
from scene_files import CUBE, CUBE_FACES, cube_glb, cube_ply, cube_stl
from splat_files import ply, row
from test_scene_draco import encode

from spatialbench.errors import CorruptInputError, InputError, MissingInputError, UnsupportedFormatError
from spatialbench.scene import load_scene
from spatialbench.scene.log import ReadLog
from spatialbench.scene.pair import overlap
from spatialbench.scene.sky import flag_sky, sky_named
from spatialbench.scene.world_files import world_files
from spatialbench.types import GaussianSplats, Material, TriangleMesh
from spatialbench.types.protocol_rules import Crop
from spatialbench.world.collision import collision_mesh


def ball(radius, centre=(0, 0, 0), keep=None, subdivisions=3):
    import trimesh

    m = trimesh.creation.icosphere(subdivisions=subdivisions, radius=radius)
    faces = m.faces if keep is None else m.faces[keep(m.triangles_center)]
    return m.vertices + centre, faces


def mesh_ply(vertices, faces) -> bytes:
    head = (f"ply\nformat binary_little_endian 1.0\nelement vertex {len(vertices)}\nproperty float x\n"
            f"property float y\nproperty float z\nelement face {len(faces)}\n"
            "property list uchar int vertex_indices\nend_header\n").encode()
    rows = np.zeros(len(faces), np.dtype([("n", "u1"), ("f", "<i4", 3)]))
    rows["n"], rows["f"] = 3, faces
    return head + np.asarray(vertices, "<f4").tobytes() + rows.tobytes()


def joined(*parts):
    vertices = np.concatenate([np.asarray(v, float) for v, _ in parts])
    starts = np.cumsum([0] + [len(v) for v, _ in parts])
    faces = np.concatenate([np.asarray(f) + s for (_, f), s in zip(parts, starts, strict=False)])
    return vertices, faces


def room(size=(4.0, 3.0, 5.0)):
    """A box around the origin, cut finely: 12 faces of a cube, each side in two."""
    v = (CUBE.astype(float) - 0.5) * size
    return v, CUBE_FACES.astype(int)


# --- layers -----------------------------------------------------------------------------------------


def panorama(folder):
    """Foreground at 2, background at 5, sky at 40: half spheres around the origin, the sky above Z."""
    shells = ((2, lambda c: c[:, 0] > 1), (5, lambda c: c[:, 2] < 2), (40, lambda c: c[:, 2] > 0))
    for k, (radius, keep) in enumerate(shells):
        (folder / f"mesh_layer{k}.ply").write_bytes(mesh_ply(*ball(radius, keep=keep)))


def test_layers_are_one_world(tmp_path):
    panorama(tmp_path)
    scene = load_scene(tmp_path)
    r = scene.report
    assert [f.name for f in r.files] == ["mesh_layer0.ply", "mesh_layer1.ply", "mesh_layer2.ply"]
    assert sum(r.details["layers"].values()) == r.n_faces
    assert [m.name for m in scene.mesh.materials] == ["mesh_layer0", "mesh_layer1", "mesh_layer2 sky"]
    assert [m.sky for m in scene.mesh.materials] == [False, False, True]
    assert r.details["sky"] == ["mesh_layer2 sky"]
    assert any("'mesh_layer2'" in w and "taken for the sky" in w for w in r.warnings)
    assert not any("not there" in w for w in r.warnings)
    assert scene.side.up.tolist() == [0, 0, 1]
    assert scene.side.up_source == "profile"
    assert np.linalg.norm(scene.mesh.vertices, axis=1).max() == pytest.approx(40, rel=1e-6)


def test_layers_stay_apart_from_what_lies_beside_them(tmp_path):
    panorama(tmp_path)
    (tmp_path / "mesh_layer10.ply").write_bytes(mesh_ply(*ball(1)))
    (tmp_path / "gaussians.ply").write_bytes(ply([row()]))
    (tmp_path / "notes.txt").write_text("no world")
    scene = load_scene(tmp_path)
    assert list(scene.report.details["layers"]) == ["mesh_layer0", "mesh_layer1", "mesh_layer2", "mesh_layer10"]
    assert any("gaussians.ply in the folder is not read" in w for w in scene.report.warnings)
    assert any("layers, numbers 3, 4, 5, 6, 7, 8, 9 are not there" in w for w in scene.report.warnings)
    first = load_scene(tmp_path / "mesh_layer0.ply")  # brings the others, as the batch counts them with it
    assert first.report.model_dump() == scene.report.model_dump()
    assert load_scene(tmp_path / "mesh_layer1.ply").report.details.get("layers") is None  # one file was asked for


def test_layers_as_draco(tmp_path):
    (tmp_path / "mesh_layer0.drc").write_bytes(encode())
    (tmp_path / "mesh_layer1.drc").write_bytes(encode())
    (tmp_path / "mesh_layer1.ply").write_bytes(cube_ply())
    scene = load_scene(tmp_path)
    assert [f.name for f in scene.report.files] == ["mesh_layer0.drc", "mesh_layer1.ply"]
    assert scene.report.n_faces == 24


def test_bad_layers_are_named(tmp_path):
    panorama(tmp_path)
    (tmp_path / "mesh_layer1.ply").write_bytes(cube_ply()[:-5])
    with pytest.raises(CorruptInputError, match=r"mesh_layer1\.ply"):
        load_scene(tmp_path)
    (tmp_path / "mesh_layer1.ply").write_bytes(ply([row()]))
    with pytest.raises(UnsupportedFormatError, match=r"mesh_layer1\.ply.*not the mesh that a layer is"):
        load_scene(tmp_path)


def test_a_background_is_no_sky(tmp_path):
    """Layers that overlap in distance, and a world of one layer, have no sky."""
    (tmp_path / "mesh_layer0.ply").write_bytes(mesh_ply(*room()))
    assert not load_scene(tmp_path).mesh.materials[0].sky
    (tmp_path / "mesh_layer1.ply").write_bytes(mesh_ply(*room((5.0, 4.0, 6.0))))
    (tmp_path / "mesh_layer2.ply").write_bytes(mesh_ply(*ball(3.2)))
    assert not any(m.sky for m in load_scene(tmp_path).mesh.materials)


# --- folders ----------------------------------------------------------------------------------------


def test_a_folder_with_one_world(tmp_path):
    (tmp_path / "readme.md").write_text("a world")
    (tmp_path / ".hidden.glb").write_bytes(b"x")
    (tmp_path / "room.stl").write_bytes(cube_stl())
    scene = load_scene(tmp_path)
    assert (scene.path.name, scene.report.n_faces) == ("room.stl", 12)
    (tmp_path / "other.glb").write_bytes(cube_glb())
    with pytest.raises(MissingInputError, match=r"is a folder, not a file.*other\.glb, room\.stl"):
        load_scene(tmp_path)


# --- splats with a collider -------------------------------------------------------------------------


def splats_on(vertices, faces, n=1500, shift=(0.0, 0.0, 0.0)):
    """Rows of a splat PLY on a surface, uniform by area."""
    t = np.asarray(vertices, float)[np.asarray(faces)]
    area = np.linalg.norm(np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]), axis=1)
    rng = np.random.default_rng(1)
    k = rng.choice(len(t), n, p=area / area.sum())
    a, b = np.sqrt(rng.random(n)), rng.random(n)
    p = np.einsum("ni,nij->nj", np.stack([1 - a, a * (1 - b), a * b], 1), t[k]) + shift
    return ply([{**row(), "x": x, "y": y, "z": z, "opacity": 4.0} for x, y, z in p.tolist()])


@pytest.mark.parametrize(("main", "collider"), [("world.ply", "collider.ply"), ("scene.ply", "scene_collider.ply")])
def test_a_pair(tmp_path, main, collider):
    (tmp_path / main).write_bytes(splats_on(*room()))
    (tmp_path / collider).write_bytes(mesh_ply(*room()))
    for path in (tmp_path, tmp_path / main):
        scene = load_scene(path)
        assert scene.report.kind == "both"
        assert scene.path.name == main
        assert (len(scene.splats), len(scene.mesh.faces)) == (1500, 12)
        assert (scene.report.n_splats, scene.report.n_faces) == (1500, 12)
        assert scene.prior_up.tolist() == [0, -1, 0]  # of the splats
        assert [f.name for f in scene.report.files] == [main, collider]
        found = scene.report.details["overlap"]
        assert found["used"]
        assert found["near"] == 1.0  # the centres lie on the surface
        assert found["boxes"] == pytest.approx(1, abs=0.02)
    alone = load_scene(tmp_path / collider)
    assert alone.report.kind == "mesh"


@pytest.mark.parametrize("shift", [(3.0, 0, 0), (0, 1.0, 0), (40.0, 0, 0)])
def test_a_collider_elsewhere_is_not_used(tmp_path, shift):
    (tmp_path / "a.ply").write_bytes(splats_on(*room(), shift=shift))
    (tmp_path / "collider.ply").write_bytes(mesh_ply(*room()))
    scene = load_scene(tmp_path)
    assert scene.mesh is None
    assert scene.report.kind == "splats"
    assert not scene.report.details["overlap"]["used"]
    assert any("collider 'collider.ply' is not used, as it does not stand" in w for w in scene.report.warnings)


def test_a_turned_or_scaled_collider_is_not_used(tmp_path):
    v, f = room((4.0, 2.0, 9.0))
    (tmp_path / "a.ply").write_bytes(splats_on(v, f))
    for other in (v[:, [0, 2, 1]], 2 * v, 0.5 * v):
        (tmp_path / "collider.ply").write_bytes(mesh_ply(other, f))
        assert load_scene(tmp_path).mesh is None


def test_broken_colliders_are_warned_of(tmp_path):
    (tmp_path / "a.ply").write_bytes(splats_on(*room()))
    (tmp_path / "collider.ply").write_bytes(mesh_ply(*room())[:-3])
    scene = load_scene(tmp_path)
    assert scene.mesh is None
    assert any("'collider.ply' is not used: it" in w for w in scene.report.warnings)


def test_pairs_are_told_by_content_and_never_guessed(tmp_path):
    (tmp_path / "a.ply").write_bytes(cube_ply())
    (tmp_path / "collider.ply").write_bytes(cube_ply())
    assert world_files(tmp_path).collider is None  # two meshes
    with pytest.raises(MissingInputError, match="is a folder"):
        load_scene(tmp_path)
    (tmp_path / "a.ply").write_bytes(splats_on(*room()))
    (tmp_path / "b.ply").write_bytes(splats_on(*room()))
    assert world_files(tmp_path).collider is None
    assert world_files(tmp_path / "a.ply").collider is None  # whose is it?
    (tmp_path / "a_collider.ply").write_bytes(cube_ply())
    assert world_files(tmp_path / "a.ply").collider == tmp_path / "a_collider.ply"
    assert world_files(tmp_path / "b.ply").collider is None


def test_overlap_figures():
    """Splats on a 10 m square, a collider that is half of it: half the splats lie on it; boxes share one half."""
    rng = np.random.default_rng(3)
    n = 4000
    means = np.zeros((n, 3), np.float32)
    means[:, :2] = rng.uniform(0, 10, (n, 2))
    splats = GaussianSplats(means, np.full((n, 3), 0.1, np.float32), np.tile(np.float32([1, 0, 0, 0]), (n, 1)),
                            np.ones(n, np.float32), np.zeros((n, 1, 3), np.float32))
    half = TriangleMesh(np.array([[0, 0, 0], [5, 0, 0], [5, 10, 0], [0, 10, 0]], float),
                        np.array([[0, 1, 2], [0, 2, 3]]))
    found = overlap(splats, half)
    assert found.distance == pytest.approx(0.02 * 9.8 * 2**0.5, rel=0.01)
    # half, and a strip of one distance beyond the edge, of 9.8; three standard errors of 4,000 draws
    assert found.near == pytest.approx((4.9 + found.distance) / 9.8, abs=3 * 0.5 / n**0.5)
    assert found.boxes == pytest.approx(1, abs=0.01)  # the shorter box lies within the longer
    assert found == overlap(splats, half)


# --- sky --------------------------------------------------------------------------------------------


def flagged(*parts, names=None):
    vertices, faces = joined(*parts)
    names = names or ["a"] * len(parts)
    ids = np.repeat(np.arange(len(parts)), [len(f) for _, f in parts])
    log = ReadLog()
    mesh = TriangleMesh(vertices, faces, ids, tuple(Material(name=n) for n in names))
    return flag_sky(mesh, log), log


def sky_faces(mesh):
    return int(np.array([m.sky for m in mesh.materials])[mesh.material_ids].sum())


@pytest.mark.parametrize("keep", [None, lambda c: c[:, 2] > 0])
def test_a_dome_is_the_sky(keep):
    sphere = ball(30, keep=keep)
    mesh, log = flagged(room(), sphere)  # the room's radius is sqrt(4^2 + 3^2 + 5^2) / 2 = 3.54
    assert sky_faces(mesh) == len(sphere[1])
    assert log.details["sky"] == ["a"]
    assert any("form a dome more than 5 times as large" in w for w in log.warnings)
    crop = Crop(below_ground=2, above_ground=50)
    collision = collision_mesh(mesh, -1.5, crop)
    assert len(collision.mesh.faces) == 12  # without the sky


@pytest.mark.parametrize("other", [
    ball(12), ball(30, centre=(200, 0, 0)), ball(30, keep=lambda c: np.abs(c[:, 2]) < 3),
    joined(ball(30), (np.array([[0, 0, 0], [1, 0, 0], [29.9, 0, 1.0]]), np.array([[0, 1, 2]])))])
def test_what_is_no_dome(other):
    """Only 3.4 times as large; elsewhere; a ring of hills; a face that reaches from the room to the sphere."""
    mesh, log = flagged(room(), other)
    assert sky_faces(mesh) == 0
    assert not log.warnings


def box(half, centre=(0.0, 0.0, 0.0)):
    vertices, faces = room()
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    return (vertices - (low + high) / 2) / (high - low) * 2 * np.asarray(half) + centre, faces


@pytest.mark.parametrize("lamp", [0.05, 0.1, 0.3])
def test_the_walls_around_a_lamp_in_the_air_are_no_sky(lamp):
    """A closed room of 4 x 3 x 2.5 m: its corners are 2.8 m from the lamp, 50 to 9 times the lamp's radius."""
    mesh, log = flagged(box((2, 1.5, 1.25)), ball(lamp))
    assert sky_faces(mesh) == 0
    assert not log.warnings


def test_a_box_far_around_everything_is_the_sky():
    mesh, _ = flagged(box((1.0, 1.0, 0.5)), box((160, 160, 160)))  # 107 times the radius of 1.5 m
    assert sky_faces(mesh) == 12


def test_a_material_of_dome_and_room_is_split():
    vertices, faces = joined(room(), ball(30))
    log = ReadLog()
    mesh = flag_sky(TriangleMesh(vertices, faces, materials=(Material(name="all"),)), log)
    assert [(m.name, m.sky) for m in mesh.materials] == [("all", False), ("all sky", True)]
    assert np.bincount(mesh.material_ids).tolist() == [12, len(faces) - 12]


def test_names_say_sky():
    assert [n for n in ("sky", "SkyBox", "mat_skydome", "layer2 sky", "skylight", "husky", "sky-blue wall")
            if sky_named(n)] == ["sky", "SkyBox", "mat_skydome", "layer2 sky", "sky-blue wall"]
    mesh, log = flagged(room(), ball(1), names=["walls", "Skybox"])
    assert [m.sky for m in mesh.materials] == [False, True]
    assert any("'Skybox'" in w for w in log.warnings)


def test_folders_that_are_none(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path / ("x" * 300), tmp_path / "a\0b"):
        with pytest.raises(InputError):
            load_scene(path)


@pytest.mark.parametrize(("flat", "told"), [(1, False), (2, True)])
def test_many_repairs_are_a_warning(tmp_path, flat, told):
    """One face of 21 without an area is less than a twentieth; two of 22 are more."""
    lines = "".join(f"v {x} 0 0\nv {x + 1} 0 0\nv {x} 1 0\nf -3 -2 -1\n" for x in range(20))
    (tmp_path / "w.obj").write_text(lines + "f 1 2 2\n" * flat)
    report = load_scene(tmp_path / "w.obj").report
    assert [(r.name, r.count) for r in report.repairs if "degenerate" in r.name] == [("faces_degenerate", flat)]
    assert any("2 of 22 faces have no area and were dropped (9%)" in w for w in report.warnings) == told


def test_the_sky_gives_no_depth():
    """A platform of 4 x 4 m below a dome of 60 m: the ring sees the dome, those that give a scale end at 2.83 m."""
    from spatialbench.types import load_protocol
    from spatialbench.world.scale import ring_depths

    protocol = load_protocol("happyworld-spatial-1-fast")
    box = room((4.0, 4.0, 1.0))
    mesh, _ = flagged((box[0] - [0, 0, 1.0], box[1]), ball(60))
    assert mesh.materials[1].sky
    assert 2 < ring_depths(mesh, protocol).max() < 2 * 2**0.5 + 1e-3
    blue = TriangleMesh(mesh.vertices, mesh.faces, mesh.material_ids, (Material(name="a"), Material(name="b")))
    assert ring_depths(blue, protocol).max() > 40
