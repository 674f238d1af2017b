"""Colliders that hold no faces or stand in the frame of another format: what a warning and a decision say of them."""

from __future__ import annotations

import numpy as np
import pytest
from scene_files import GltfBuilder, cube_glb
from splat_files import gaussian_glb, ply, row

from spatialbench.scene import load_scene
from spatialbench.scene.pair import join_pair
from spatialbench.scene.write_glb import write_glb
from spatialbench.types import Pose, TriangleMesh


def points_glb():
    b = GltfBuilder()
    b.mesh(np.zeros((3, 3), np.float32), None, mode=0)
    return b.glb()


@pytest.mark.parametrize(("collider", "words"), [(gaussian_glb(4), "splats and no faces"),
                                                 (points_glb(), "point cloud")])
def test_a_collider_without_faces(tmp_path, collider, words):
    (tmp_path / "a.ply").write_bytes(ply([row(x=i) for i in range(5)]))
    (tmp_path / "a_collider.glb").write_bytes(collider)
    scene = load_scene(tmp_path / "a.ply")
    assert (scene.report.kind, scene.report.n_splats, scene.mesh) == ("splats", 5, None)
    assert [w for w in scene.report.warnings if "'a_collider.glb' is not used" in w and words in w]
    assert [f.name for f in scene.report.files] == ["a.ply"]


def test_splats_beside_the_faces_of_a_collider_do_not_matter(tmp_path):
    """One of both is judged by its faces: here a cube of one unit far from the splats."""
    (tmp_path / "a.ply").write_bytes(ply([row(x=i) for i in range(5)]))
    (tmp_path / "b.glb").write_bytes(gaussian_glb(4, cube=True))
    (tmp_path / "c.glb").write_bytes(cube_glb())
    splats = load_scene(tmp_path / "a.ply")
    both, faces = (join_pair(splats, load_scene(tmp_path / n)) for n in ("b.glb", "c.glb"))
    assert both.report.details["overlap"]["near"] == faces.report.details["overlap"]["near"]
    assert len(both.splats) == 5


HALF_TURN = np.diag([1.0, -1, -1, 1])
Z_UP = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
"""From x right, y down, z forward to X right, Y forward, Z up: (x, z, -y)."""


def step():
    """A room from 0.3 to 1.7 below and 2.3 ahead of the origin, with a low block on one side: no turn maps it onto
    itself, and none of those between formats overlaps with it by half."""
    def box(low, high):
        v = np.array([[(low, high)[k >> a & 1][a] for a in range(3)] for k in range(8)], float)
        q = ((0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5))
        return v, np.array([t for a, b, c, d in q for t in ((a, b, c), (a, c, d))], np.int32)

    (v, f), (w, g) = box((-1.0, 0.3, 0.2), (2.0, 1.7, 2.3)), box((0.5, 1.2, 0.2), (2.0, 1.7, 1.0))
    return TriangleMesh(np.concatenate([v, w]), np.concatenate([f, g + 8]))


def splats_of(mesh, comments=(), n=600):
    t, rng = mesh.triangles, np.random.default_rng(1)
    area = np.linalg.norm(mesh.area_vectors(), axis=1)
    k = rng.choice(len(t), n, p=area / area.sum())
    a, b = np.sqrt(rng.random(n)), rng.random(n)
    at = np.einsum("ni,nij->nj", np.stack([1 - a, a * (1 - b), a * b], 1), t[k])
    return ply([row(x=x, y=y, z=z, opacity=4.0) for x, y, z in at.tolist()], comments=comments)


def obj_of(mesh):
    return "".join([*(f"v {x!r} {y!r} {z!r}\n" for x, y, z in mesh.vertices.tolist()),
                    *(f"f {a} {b} {c}\n" for a, b, c in (mesh.faces + 1).tolist())])


def stl_of(mesh):
    rows = np.zeros(len(mesh.faces), np.dtype([("n", "<f4", 3), ("v", "<f4", (3, 3)), ("x", "<u2")]))
    rows["v"] = mesh.triangles
    return b" " * 80 + np.uint32(len(rows)).tobytes() + rows.tobytes()


def turned(scene):
    """That the collider was turned onto the splats, and how the report names it."""
    np.testing.assert_allclose(scene.mesh.bounds(), step().bounds(), atol=1e-6)  # float32 metres
    found = scene.report.details["overlap"]
    assert found["used"]
    assert found["near"] == 1.0
    assert found["as_given"]["near"] < 0.5 or found["as_given"]["boxes"] < 0.5
    decision = scene.report.decisions["collider"]
    assert (decision.source, decision.confidence) == ("found", 0.5)
    assert [w for w in scene.report.warnings if f"by {decision.value} it does" in w and "As given" in w]
    return decision.value


@pytest.mark.parametrize("cameras", [(), (Pose(HALF_TURN),)])
def test_a_collider_of_the_other_convention(tmp_path, cameras):
    """Splats Y down, glTF Y up, as 'convert' writes both of one world; its camera then says the same."""
    (tmp_path / "a.ply").write_bytes(splats_of(step()))
    write_glb(step().transformed(HALF_TURN), tmp_path / "a_collider.glb", cameras)
    assert turned(load_scene(tmp_path / "a.ply")) == "half a turn about X"


def test_a_collider_that_is_z_up(tmp_path):
    (tmp_path / "a.ply").write_bytes(splats_of(step()))
    (tmp_path / "a_collider.stl").write_bytes(stl_of(step().transformed(Z_UP)))
    assert turned(load_scene(tmp_path / "a.ply")) == "the turn between the up axes of both files"


def test_splats_that_state_their_up(tmp_path):
    """Z up by the file's word, the collider Y up as glTF: (x, y, z) of the splats is (x, z, -y) of the collider."""
    (tmp_path / "a.ply").write_bytes(splats_of(step(), ("spatialbench up 0 0 1",)))
    to_gltf = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    write_glb(step().transformed(to_gltf), tmp_path / "a_collider.glb")
    assert turned(load_scene(tmp_path / "a.ply")) == "the turn between the up axes of both files"


def test_a_collider_with_its_origin_elsewhere(tmp_path):
    """Splats have their camera at the origin; the collider's stands at (5, 1, -2) and looks along glTF's -Z."""
    pose = HALF_TURN.copy()
    pose[:3, 3] = [5, 1, -2]
    (tmp_path / "a.ply").write_bytes(splats_of(step()))
    write_glb(step().transformed(pose), tmp_path / "a_collider.glb", (Pose(pose),))
    assert "initial camera" in turned(load_scene(tmp_path / "a.ply"))


def test_what_no_convention_explains_is_not_used(tmp_path):
    """A quarter turn about the vertical."""
    quarter = np.array([[0.0, 0, 1, 0], [0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1]])
    (tmp_path / "a.ply").write_bytes(splats_of(step()))
    (tmp_path / "a_collider.obj").write_text(obj_of(step().transformed(quarter)))
    scene = load_scene(tmp_path / "a.ply")
    assert scene.mesh is None
    assert "collider" not in scene.report.decisions
    assert [w for w in scene.report.warnings if "is not used, as it does not stand" in w]


def test_one_that_fits_is_left_as_it_is(tmp_path):
    """Even though its format has another axis up."""
    (tmp_path / "a.ply").write_bytes(splats_of(step()))
    write_glb(step(), tmp_path / "a_collider.glb", (Pose(HALF_TURN),))
    scene = load_scene(tmp_path / "a.ply")
    assert scene.report.details["overlap"]["near"] == 1.0
    assert "collider" not in scene.report.decisions
    assert not [w for w in scene.report.warnings if "turn" in w]


def closed_room():
    """6 x 3 x 6 m around the origin (y down) with a block of 3 x 0.8 x 3 m on its floor. Turned over about X its walls,
    floor and ceiling lie on themselves."""
    def box(low, high):
        v = np.array([[(low, high)[k >> a & 1][a] for a in range(3)] for k in range(8)], float)
        q = ((0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5))
        return v, np.array([t for a, b, c, d in q for t in ((a, b, c), (a, c, d))], np.int32)

    (v, f), (w, g) = box((-3.0, -1.5, -3.0), (3.0, 1.5, 3.0)), box((-1.0, 0.7, -1.0), (2.0, 1.5, 2.0))
    return TriangleMesh(np.concatenate([v, w]), np.concatenate([f, g + 8]))


def test_a_closed_room_is_not_taken_upside_down(tmp_path):
    """As given most of its splats lie on it, on walls, floor and ceiling; the furniture tells which side is up."""
    room = closed_room()
    (tmp_path / "a.ply").write_bytes(splats_of(room, n=2000))
    (tmp_path / "a_collider.obj").write_text(obj_of(room.transformed(HALF_TURN)))
    scene = load_scene(tmp_path / "a.ply")
    found = scene.report.details["overlap"]
    assert found["as_given"]["near"] > 0.5
    assert found["near"] == 1.0
    np.testing.assert_allclose(found["collider_to_splats"], HALF_TURN, atol=1e-12)
    assert scene.report.decisions["collider"].source == "found"
    assert any("stands worse where the splats do" in w for w in scene.report.warnings)
    # The right one stays as it is given.
    (tmp_path / "a_collider.obj").write_text(obj_of(room))
    scene = load_scene(tmp_path / "a.ply")
    assert scene.report.details["overlap"]["near"] == 1.0
    assert "as_given" not in scene.report.details["overlap"]


def test_a_mirrored_collider_is_warned_about(tmp_path):
    """An annex of 3 m on one side only: mirrored, a third of the splats lie on nothing."""
    room = closed_room()
    annex = TriangleMesh(room.vertices * [0.5, 1.0, 1.0] + [4.5, 0.0, 0.0], room.faces)
    both = TriangleMesh(np.concatenate([room.vertices, annex.vertices]),
                        np.concatenate([room.faces, annex.faces + len(room.vertices)]))
    (tmp_path / "a.ply").write_bytes(splats_of(both, n=2000))
    (tmp_path / "a_collider.obj").write_text(obj_of(both.transformed(np.diag([-1.0, 1, 1, 1]))))
    scene = load_scene(tmp_path / "a.ply")
    found = scene.report.details["overlap"]
    assert found["used"] and 0.5 < found["near"] < 0.9
    assert any("fits the splats badly" in w and "mirrored" in w for w in scene.report.warnings)
