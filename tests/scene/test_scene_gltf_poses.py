"""glTF that poses its meshes: instances, morph targets, skins; and which set of texture coordinates counts."""

from __future__ import annotations

import numpy as np
import pytest
from scene_files import CUBE, CUBE_FACES, QUADRANTS, GltfBuilder, png
from test_scene_bad_input import check

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene import load_scene

HALF = 2**-0.5


def load(tmp_path, b):
    return load_scene(b.save(tmp_path / "w.glb"))


def volume(mesh):
    t = mesh.triangles
    return float(np.einsum("ij,ij->i", t[:, 0], np.cross(t[:, 1], t[:, 2])).sum() / 6)


def instanced(node=None, **attributes):
    b = GltfBuilder()
    b.mesh()
    b.doc["nodes"] = [{"mesh": 0, **(node or {}), "extensions": {"EXT_mesh_gpu_instancing": {
        "attributes": {k: b.add(np.asarray(v, "<f4")) for k, v in attributes.items()}}}}]
    b.doc["extensionsUsed"] = b.doc["extensionsRequired"] = ["EXT_mesh_gpu_instancing"]
    return b


def test_instances_stand_where_each_says(tmp_path):
    """By hand: translation (rotation (scale cube)), then the node's shift; 90 degrees about Z take x to y."""
    b = instanced({"translation": [100, 0, 0]}, TRANSLATION=[[0, 0, 0], [10, 0, 0], [0, 0, 5]],
                  ROTATION=[[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, HALF, HALF]],
                  SCALE=[[1, 1, 1], [2, 1, 1], [3, 1, -1]])
    scene = load(tmp_path, b)
    boxes = [scene.mesh.triangles[12 * k:12 * k + 12].reshape(-1, 3) for k in range(3)]
    for box, low, high in zip(boxes, ([100, 0, 0], [110, 0, 0], [99, 0, 4]), ([101, 1, 1], [112, 1, 1], [100, 3, 5]),
                              strict=True):
        np.testing.assert_allclose([box.min(axis=0), box.max(axis=0)], [low, high], atol=1e-5)
    assert volume(scene.mesh) == pytest.approx(1 + 2 + 3, abs=1e-4)  # the mirrored one is not inside out
    assert scene.report.details["instances"] == 3


def test_instances_equal_nodes(tmp_path):
    rng = np.random.default_rng(0)
    t, s = rng.normal(size=(5, 3)).astype("<f4"), rng.uniform(0.5, 2, (5, 3)).astype("<f4")
    q = rng.normal(size=(5, 4))
    q = (q / np.linalg.norm(q, axis=1, keepdims=True)).astype("<f4")
    ours = load(tmp_path, instanced(TRANSLATION=t, ROTATION=q, SCALE=s)).mesh
    b = GltfBuilder()
    b.mesh()
    b.doc["nodes"] = [{"mesh": 0, "translation": t[k].tolist(), "rotation": q[k].tolist(), "scale": s[k].tolist()}
                      for k in range(5)]
    b.doc["scenes"] = [{"nodes": list(range(5))}]
    nodes = load(tmp_path, b).mesh
    np.testing.assert_allclose(ours.vertices, nodes.vertices, atol=1e-12)
    np.testing.assert_array_equal(ours.faces, nodes.faces)


def test_bad_instances(tmp_path):
    for b, words in ((instanced(TRANSLATION=[[0, 0, 0]], SCALE=[[1, 1, 1]] * 2), "[1, 2] translations"),
                     (instanced(ROTATION=[[0, 0, 0, 0]]), "no quaternion"), (instanced(), "no translations"),
                     (instanced(TRANSLATION=[[np.nan, 0, 0]]), "not finite"),
                     (instanced(TRANSLATION=[[0, 0]]), "VEC2")):
        got = check(b.save(tmp_path / "w.glb"))
        assert isinstance(got, CorruptInputError)
        assert words in str(got)
    b = instanced(SCALE=[[1, 1, 1]])
    b.doc["accessors"][-1]["count"] = 2_000_000
    got = check(b.save(tmp_path / "w.glb"))
    assert isinstance(got, UnsupportedFormatError)
    assert "copies" in str(got)


# --- morph targets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("mesh_weights", "node_weights", "high"), [
    (None, None, 1), ([0, 0], None, 1), ([0.5, 0], None, 2), ([0.5, 1.0], None, 5), ([1.0, 1.0], [0, 1.0], 4)])
def test_default_weights_of_targets(tmp_path, mesh_weights, node_weights, high):
    """Targets lift the top (y = 1) by 2 and by 3; the node's weights stand above the mesh's."""
    b = GltfBuilder()
    b.mesh()
    top = (CUBE[:, 1] == 1)[:, None] * np.array([[0, 1, 0]])
    b.doc["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": b.add((2 * top).astype("<f4"))},
                                                      {"POSITION": b.add((3 * top).astype("<f4"))}]
    if mesh_weights is not None:
        b.doc["meshes"][0]["weights"] = mesh_weights
    if node_weights is not None:
        b.doc["nodes"][0]["weights"] = node_weights
    assert load(tmp_path, b).report.bounds == [[0, 0, 0], [1, high, 1]]


def test_two_nodes_with_other_weights(tmp_path):
    b = GltfBuilder()
    b.mesh()
    b.doc["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": b.add(np.tile(np.float32([10, 0, 0]), (8, 1)))}]
    b.doc["nodes"] = [{"mesh": 0, "weights": [1.0]}, {"mesh": 0}]
    b.doc["scenes"] = [{"nodes": [0, 1]}]
    r = load(tmp_path, b).report
    assert (r.n_vertices, r.n_faces, r.bounds) == (16, 24, [[0, 0, 0], [11, 1, 1]])


def test_a_target_of_another_length(tmp_path):
    b = GltfBuilder()
    b.mesh()
    b.doc["meshes"][0] |= {"weights": [1.0]}
    b.doc["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": b.add(np.zeros((7, 3), "<f4"))}]
    with pytest.raises(CorruptInputError, match="target 0 has 7 elements, POSITION has 8"):
        load(tmp_path, b)


# --- skins ------------------------------------------------------------------------------------------


def skinned(joints, weights, nodes, bind=None, node=None):
    b = GltfBuilder()
    b.mesh(JOINTS_0=np.asarray(joints, "<u1"), WEIGHTS_0=np.asarray(weights, "<f4"))
    b.doc["nodes"] = [{"mesh": 0, "skin": 0, **(node or {})}, *nodes]
    b.doc["scenes"] = [{"nodes": list(range(len(b.doc["nodes"])))}]
    b.doc["skins"] = [{"joints": list(range(1, 1 + len(nodes)))}]
    if bind is not None:
        index = b.add(np.asarray(bind, "<f4").reshape(-1, 4))
        b.doc["accessors"][index] |= {"type": "MAT4", "count": len(bind)}
        b.doc["skins"][0]["inverseBindMatrices"] = index
    return b


ONE = [[1, 0, 0, 0]] * 8


def test_a_skin_at_rest(tmp_path):
    """One joint: vertices go where it is, and the mesh's own node has no part in it."""
    b = skinned([[0, 0, 0, 0]] * 8, ONE, [{"translation": [5, 0, 0]}], node={"translation": [100, 0, 0]})
    assert load(tmp_path, b).report.bounds == [[5, 0, 0], [6, 1, 1]]


def test_inverse_bind_matrices_are_column_major(tmp_path):
    shift = np.eye(4)
    shift[3, :3] = [-5, 0, 0]  # rows of the file are columns of the matrix
    b = skinned([[0, 0, 0, 0]] * 8, ONE, [{"translation": [5, 2, 0]}], bind=[shift])
    assert load(tmp_path, b).report.bounds == [[0, 2, 0], [1, 3, 1]]


def test_weights_mix_joints(tmp_path):
    """The top follows the second joint by three quarters (weights are brought to a sum of 1)."""
    top = CUBE[:, 1] == 1
    weights = np.where(top[:, None], [[0.5, 1.5, 0, 0]], [[1.0, 0, 0, 0]])
    b = skinned([[0, 1, 7, 7]] * 8, weights, [{}, {"translation": [0, 8, 0]}])  # joints of no weight do not matter
    assert load(tmp_path, b).report.bounds == [[0, 0, 0], [1, 7, 1]]


def test_a_mirroring_joint_keeps_the_outside_outside(tmp_path):
    b = skinned([[0, 0, 0, 0]] * 8, ONE, [{"scale": [-1, 1, 1]}])
    assert volume(load(tmp_path, b).mesh) == pytest.approx(1)


@pytest.mark.parametrize(("spoil", "words"), [
    (lambda b: b.doc["skins"][0].update(joints=[9]), "joint 9"),
    (lambda b: b.doc["skins"].clear(), "skin 0 does not exist"),
    (lambda b: b.doc["scenes"][0].update(nodes=[0]), "joint 1"),
    (lambda b: b.doc["meshes"][0]["primitives"][0]["attributes"].update(JOINTS_0=b.add(np.full((8, 4), 3, "<u1"))),
     "belongs to joint 3"),
    (lambda b: b.doc["meshes"][0]["primitives"][0]["attributes"].update(JOINTS_0=b.add(np.zeros((7, 4), "<u1"))),
     "not as many"),
    (lambda b: b.doc["meshes"][0]["primitives"][0]["attributes"].update(WEIGHTS_0=b.add(np.full((8, 4), -1, "<f4"))),
     "negative"),
])
def test_bad_skins(tmp_path, spoil, words):
    b = skinned([[0, 0, 0, 0]] * 8, ONE, [{}])
    spoil(b)
    got = check(b.save(tmp_path / "w.glb"))
    assert isinstance(got, CorruptInputError)
    assert words in str(got)


# --- sets of texture coordinates --------------------------------------------------------------------


def two_sets(info):
    b = GltfBuilder()
    sets = [np.full((8, 2), 0.25, "<f4"), np.full((8, 2), 0.75, "<f4")]
    b.doc["images"] = [{"bufferView": b.view(png(QUADRANTS)), "mimeType": "image/png"}]
    b.doc["textures"] = [{"source": 0}]
    b.doc["materials"] = [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0, **info}}}]
    b.mesh(CUBE, CUBE_FACES, TEXCOORD_0=sets[0], TEXCOORD_1=sets[1], material=0)
    return b


@pytest.mark.parametrize(("info", "uv"), [
    ({}, [0.25, 0.25]), ({"texCoord": 0}, [0.25, 0.25]), ({"texCoord": 1}, [0.75, 0.75]),
    # the transform's own set stands above the texture's; half the size, then shifted
    ({"extensions": {"KHR_texture_transform": {"texCoord": 1, "scale": [0.5, 1], "offset": [0.1, 0]}}}, [0.475, 0.75]),
    # the specification's example matrix: a quarter turn against the clock in an image whose v runs down
    ({"extensions": {"KHR_texture_transform": {"rotation": np.pi / 2, "offset": [0, 1]}}}, [0.25, 0.75]),
])
def test_the_set_that_the_texture_names(tmp_path, info, uv):
    np.testing.assert_allclose(load(tmp_path, two_sets(info)).mesh.uv[0, 0], uv, atol=1e-6)


def test_a_set_that_is_not_there(tmp_path):
    scene = load(tmp_path, two_sets({"texCoord": 2}))
    assert scene.mesh.materials[0].texture is None
    assert any("no texture coordinates" in w for w in scene.report.warnings)
