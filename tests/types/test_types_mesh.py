"""Triangle meshes: areas, transforms, winding, selection."""

import numpy as np
import pytest

from spatialbench.types import Material, TriangleMesh


def quad(**kw):
    """A 2 x 1 rectangle in the XY plane, facing up, as two triangles; one unused vertex."""
    v = [[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0], [9, 9, 9]]
    uv = np.array([[[0, 1], [1, 1], [1, 0]], [[0, 1], [1, 0], [0, 0]]], dtype=np.float32)
    colors = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 24
    return TriangleMesh(np.array(v), np.array([[0, 1, 2], [0, 2, 3]]), uv=uv, colors=colors,
                        **{"material_ids": np.array([0, 1]), "materials": (Material("a"), Material("b")), **kw})


def test_types_and_defaults():
    m = TriangleMesh(np.zeros((3, 3), np.float32), np.array([[0, 1, 2]], np.int64))
    assert (m.vertices.dtype, m.faces.dtype, m.material_ids.tolist()) == (np.float64, np.int32, [0])


@pytest.mark.parametrize(("kw", "message"), [
    ({"vertices": np.zeros((4, 2)), "faces": np.zeros((1, 3))}, "vertices must be"),
    ({"vertices": np.zeros((4, 3)), "faces": np.zeros((1, 4))}, "vertices must be"),
    ({"vertices": np.zeros((4, 3)), "faces": np.zeros((1, 3)), "material_ids": np.zeros(2)}, "2 material ids for 1"),
    ({"vertices": np.zeros((4, 3)), "faces": np.zeros((1, 3)), "uv": np.zeros((1, 3, 3))}, "uv must be"),
    ({"vertices": np.zeros((4, 3)), "faces": np.zeros((1, 3)), "colors": np.zeros((1, 3, 3))}, "colors must be"),
])
def test_shapes_that_do_not_fit(kw, message):
    with pytest.raises(ValueError, match=message):
        TriangleMesh(**kw)


def test_area_and_bounds():
    m = quad()
    assert m.area_vectors().tolist() == [[0, 0, 1], [0, 0, 1]]
    assert m.bounds().tolist() == [[0, 0, 0], [2, 1, 0]]  # without the vertex that no face uses


def test_flipping_turns_normals_and_keeps_corners_together():
    m, f = quad(), quad().flipped()
    assert f.area_vectors().tolist() == [[0, 0, -1], [0, 0, -1]]
    # Every corner keeps its texture coordinate and colour.
    for face in range(2):
        before = {tuple(p): (tuple(t), tuple(c)) for p, t, c in
                  zip(m.triangles[face], m.uv[face], m.colors[face], strict=True)}
        after = {tuple(p): (tuple(t), tuple(c)) for p, t, c in
                 zip(f.triangles[face], f.uv[face], f.colors[face], strict=True)}
        assert before == after
    back = f.flipped()
    assert back.faces.tolist() == m.faces.tolist()
    assert back.uv.tolist() == m.uv.tolist()
    assert TriangleMesh(m.vertices, m.faces).flipped().uv is None


def test_a_similarity_scales_areas_and_turns_normals():
    turn = np.array([[1, 0, 0, 5], [0, 0, -1, 6], [0, 1, 0, 7], [0, 0, 0, 1.0]])  # 90 degrees about x
    turn[:3, :3] *= 3
    m = quad().transformed(turn)
    assert m.area_vectors().tolist() == [[0, -9, 0], [0, -9, 0]]
    assert m.bounds().tolist() == [[5, 6, 7], [11, 6, 10]]


def test_a_mirror_keeps_the_outside_outside():
    mirror = np.diag([-1.0, 1, 1, 1])
    m = quad().transformed(mirror)
    assert m.area_vectors().tolist() == [[0, 0, 1], [0, 0, 1]]  # still facing up
    assert m.bounds().tolist() == [[-2, 0, 0], [0, 1, 0]]
    assert {tuple(p): tuple(t) for p, t in zip(m.triangles[0], m.uv[0], strict=True)} == {
        (0, 0, 0): (0, 1), (-2, 0, 0): (1, 1), (-2, 1, 0): (1, 0)}


@pytest.mark.parametrize("keep", [np.array([False, True]), np.array([1])])
def test_selection_drops_unused_vertices_and_keeps_the_rest(keep):
    m = quad().select(keep)
    assert len(m.vertices) == 3
    assert m.triangles.tolist() == quad().triangles[1:].tolist()
    assert m.material_ids.tolist() == [1]
    assert m.uv.tolist() == quad().uv[1:].tolist()
    assert m.colors.tolist() == quad().colors[1:].tolist()
    assert [x.name for x in m.materials] == ["a", "b"]


def test_selecting_nothing():
    m = quad().select(np.zeros(2, dtype=bool))
    assert (m.vertices.shape, m.faces.shape, m.uv.shape) == ((0, 3), (0, 3), (0, 3, 2))


def test_the_mesh_itself_is_left_alone():
    m = quad()
    m.transformed(np.diag([2.0, 2, 2, 1]))
    m.flipped()
    assert m.triangles.tolist() == quad().triangles.tolist()
