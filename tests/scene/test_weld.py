"""Corners at one place, and components against plain loops, NumPy's unique and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.scene import blocks, load_scene, weld
from spatialbench.scene.clean import _areas, clean
from spatialbench.scene.log import ReadLog, Soup
from spatialbench.scene.weld import components
from spatialbench.types import Material


def in_order(labels):
    """Numbers in the order of their first appearance."""
    seen = {}
    return [seen.setdefault(x, len(seen)) for x in labels]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(3, 60), m=st.integers(1, 80), steps=st.integers(1, 4))
def test_corners_at_one_place(seed, n, m, steps):
    rng = np.random.default_rng(seed)
    vertices = rng.integers(-steps, steps + 1, (n, 3)) * rng.choice([0.5, -0.5], (n, 3))  # has 0.0 and -0.0
    faces = rng.integers(0, n, (m, 3)).astype(np.int32)
    found = weld.weld(vertices, faces)
    place = in_order(map(tuple, vertices.tolist()))  # in Python 0.0 == -0.0
    assert found.places == max(place) + 1
    assert found.faces.tolist() == np.array(place)[faces].tolist()
    assert found.duplicate_faces == m - len({tuple(sorted(f)) for f in found.faces.tolist()})


@pytest.mark.parametrize("key", [[7], [1, 2, 3], [9, 9], [8, 9, 8, 10], [8, 9, 10, 11, 8], [2**64 - 1, 0, 2**64 - 1],
                                 [3, 2, 3, 2, 1, 3]])
def test_keys_that_agree_in_all_but_their_last_bits(key):
    """These are the bits that number the vertices while they are sorted."""
    found = weld._places(np.array(key, np.uint64))
    expected = in_order(key)
    assert expected == list(range(len(key))) if found is None else found.tolist() == expected


def test_many_places_need_a_hash_for_a_face():
    """Three numbers of 22 bits do not fit into 64; the count is that of a lexicographic sort."""
    rng = np.random.default_rng(0)
    faces = rng.integers(0, 1 << 22, (4000, 3)).astype(np.int32)
    faces[2000:2500] = faces[:500][:, [1, 2, 0]]
    rows = np.sort(faces, axis=1)
    assert weld._duplicates(faces, 1 << 22) == len(rows) - len(np.unique(rows, axis=0)) == 500


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 200), m=st.integers(0, 300),
       kind=st.sampled_from(["random", "path", "star", "near"]))
def test_components_are_those_of_scipy(seed, n, m, kind):
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    rng = np.random.default_rng(seed)
    a = rng.integers(0, n, m)
    b = {"random": rng.integers(0, n, m), "path": (a + 1) % n, "star": np.full(m, n - 1),
         "near": (a + rng.integers(0, 4, m)) % n}[kind]
    names = rng.permutation(n)  # so that a path does not ascend
    a, b = names[a], names[b]
    low, high = np.minimum(a, b).astype(np.int32), np.maximum(a, b).astype(np.int32)
    count, label = components(low, high, n)
    _, other = connected_components(coo_matrix((np.ones(m), (low, high)), (n, n)), directed=False)
    with_edges = np.isin(np.arange(n), [*low, *high])
    assert label[with_edges].tolist() == in_order(other[with_edges])
    assert count == len(set(other[with_edges]))


# --- areas


def test_areas_by_hand_and_what_has_none():
    """Right triangles with legs 3 and 4; one a part in 1e12 as high as long is kept at the origin, but 1e6 away its
    height is less than the rounding of its corners (1e6 times 2e-16)."""
    flat = np.array([[0, 0, 0], [1, 0, 0], [0.5, 1e-12, 0]])
    vertices = np.concatenate([[[0, 0, 0], [3, 0, 0], [0, 4, 0]], flat, flat + [1e6, 0, 0], [[9, 9, 9], [np.nan] * 3]])
    faces = np.array([[0, 1, 2], [0, 2, 1], [3, 4, 5], [6, 7, 8], [0, 0, 1], [9, 9, 9]], np.int32)
    area, none = _areas(vertices, faces)
    assert area[:2].tolist() == [6, 6]
    assert area[2] == pytest.approx(0.5e-12, rel=1e-3)
    assert none.tolist() == [False, False, False, True, True, True]


def test_areas_are_those_of_the_mesh_to_the_bit(monkeypatch):
    """Over several blocks and threads, against the vectors of the mesh."""
    monkeypatch.setattr(blocks, "threads", lambda: 3)
    rng = np.random.default_rng(1)
    n = blocks._ALONE + 5
    vertices, faces = rng.normal(size=(1000, 3)), rng.integers(0, 1000, (n, 3)).astype(np.int32)
    soup = Soup(vertices, faces, np.zeros(n, np.int32), [Material()])
    done = clean(soup, ReadLog(), "w")
    assert len(done.area) == len(done.mesh.faces) < n
    np.testing.assert_array_equal(done.area, np.linalg.norm(done.mesh.area_vectors(), axis=1))


def test_threads_change_nothing(monkeypatch, tmp_path):
    """An STL of more faces than one thread takes alone, with a hole, a turned face and one that is there twice."""
    side = 190
    k = side + 1
    x, z = (a.reshape(-1) for a in np.meshgrid(np.arange(k), np.arange(k)))
    v = np.stack([x, np.sin(x) + np.cos(z), z], axis=1)
    i = (np.arange(side)[:, None] * k + np.arange(side)).reshape(-1)
    faces = np.concatenate([np.stack([i, i + k, i + 1], 1), np.stack([i + 1, i + k, i + k + 1], 1)])
    faces[5] = faces[5, ::-1]
    faces = np.concatenate([faces[:-1], faces[7:8]])
    assert len(faces) > blocks._ALONE
    rows = np.zeros(len(faces), [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("flags", "<u2")])
    rows["corners"] = v[faces]
    path = tmp_path / "a.stl"
    path.write_bytes(bytes(80) + np.uint32(len(faces)).tobytes() + rows.tobytes())
    reports = []
    for threads in (1, 3):
        monkeypatch.setattr(blocks, "threads", lambda n=threads: n)
        reports.append(load_scene(path).report)
    assert reports[0].model_dump_json() == reports[1].model_dump_json()
    topology = reports[0].details["topology"]
    # Of the grid: 190 x 191 x 2 sides and 190^2 diagonals; its rim has 4 x 190. The last triangle, in a corner, took 2
    # of the rim with it and leaves its diagonal open. The copy of face 7, in the first row, has one side on the rim
    # (now with two faces, wound alike) and two with three faces.
    assert topology["edges"] == 2 * 190 * 191 + 190**2 - 2
    assert topology["boundary_edges"] == 4 * 190 - 2 + 1 - 1
    assert topology["nonmanifold_edges"] == 2
    assert topology["duplicate_faces"] == 1
    # Face 5 too has one side on the rim, and two neighbours.
    assert topology["inconsistent_edges"] == 2 + 1
    assert (topology["components"], topology["closed_components"]) == (1, 0)
