"""Topology against known solids, trimesh, and what cannot matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.scene.log import ReadLog
from spatialbench.scene.topology import MAX_JUDGED, Topology, report_topology, topology
from spatialbench.types import TriangleMesh

CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
FACES = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6],
                  [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]])


def counts(vertices, faces) -> dict:
    return topology(TriangleMesh(vertices, faces)).as_json()


def cubes(*shifts) -> tuple:
    vertices = np.concatenate([CUBE + s for s in shifts])
    return vertices, np.concatenate([FACES + 8 * k for k in range(len(shifts))])


def test_a_cube():
    """12 faces and 8 corners: 18 edges by Euler (8 - E + 12 = 2), each with two faces."""
    assert counts(CUBE, FACES) == {
        "edges": 18, "boundary_edges": 0, "nonmanifold_edges": 0, "inconsistent_edges": 0, "duplicate_faces": 0,
        "components": 1, "closed_components": 1, "inward_components": 0}


def test_indices_do_not_matter():
    """A soup with three corners for every face, and a corner at -0, is the same cube."""
    soup = CUBE[FACES].reshape(-1, 3).copy()
    soup[::2] *= np.where(soup[::2] == 0, -1.0, 1.0)
    assert counts(soup, np.arange(36).reshape(-1, 3)) == counts(CUBE, FACES)


def test_a_reversed_cube_looks_inward_and_a_reversed_face_disagrees():
    inward = counts(CUBE, FACES[:, ::-1])
    assert (inward["closed_components"], inward["inward_components"]) == (1, 1)
    one = FACES.copy()
    one[0] = one[0, ::-1]
    assert counts(CUBE, one)["inconsistent_edges"] == 3
    assert counts(CUBE, one)["closed_components"] == 0


def test_an_open_cube():
    """Without two faces of one side its four sides are borders, and the diagonal is gone."""
    found = counts(CUBE, FACES[2:])
    assert (found["edges"], found["boundary_edges"], found["closed_components"]) == (17, 4, 0)


def test_two_cubes_along_an_edge_and_apart():
    along = counts(*cubes((0, 0, 0), (1, 1, 0)))
    assert (along["edges"], along["nonmanifold_edges"], along["components"]) == (35, 1, 1)
    apart = counts(*cubes((0, 0, 0), (3, 0, 0)))
    assert (apart["components"], apart["closed_components"], apart["nonmanifold_edges"]) == (2, 2, 0)
    corner = counts(*cubes((0, 0, 0), (1, 1, 1)))  # share a place
    assert (corner["components"], corner["nonmanifold_edges"]) == (1, 0)


def test_a_duplicate_in_any_order_is_one():
    found = counts(CUBE, np.concatenate([FACES, FACES[:2, [1, 2, 0]], FACES[3:4, ::-1]]))
    assert found["duplicate_faces"] == 3
    assert found["closed_components"] == 0


def test_volumes_do_not_depend_on_where_the_mesh_is():
    """A cube of 1 at 10,000 units: products of three coordinates are 10^12, their rounding 10^-4."""
    assert counts(CUBE + 1e4, FACES[:, ::-1])["inward_components"] == 1
    far = counts(*cubes((1e4, 0, 0), (-1e4, 1e4, 5)))
    assert (far["closed_components"], far["inward_components"]) == (2, 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_against_trimesh(seed: int, n: int):
    """Random faces over few corners, so that every kind of edge occurs."""
    import trimesh

    rng = np.random.default_rng(seed)
    vertices = rng.normal(size=(12, 3))
    faces = np.array([rng.choice(12, 3, replace=False) for _ in range(n)])
    found = topology(TriangleMesh(vertices, faces))
    mesh = trimesh.Trimesh(vertices, faces, process=False, validate=False)
    _, around = np.unique(mesh.edges_sorted, axis=0, return_counts=True)
    assert (found.edges, found.boundary_edges, found.nonmanifold_edges) == (
        len(around), int((around == 1).sum()), int((around > 2).sum()))
    assert found.duplicate_faces == n - len(np.unique(np.sort(faces, axis=1), axis=0))
    sense = {}
    for a, b in mesh.edges.tolist():
        sense.setdefault((min(a, b), max(a, b)), []).append(a < b)
    assert found.inconsistent_edges == sum(len(s) == 2 and s[0] == s[1] for s in sense.values())
    parts = trimesh.graph.connected_components(mesh.edges_unique, nodes=np.unique(faces))
    assert found.components == len(parts)
    for part in parts:
        assert len(set(found.component[np.isin(faces[:, 0], part)].tolist())) == 1
    shuffled = topology(TriangleMesh(vertices, faces[rng.permutation(n)]))
    assert shuffled.as_json() == found.as_json()


def test_the_report():
    log = ReadLog()
    found = report_topology(TriangleMesh(CUBE, FACES), log)
    assert isinstance(found, Topology)
    assert log.details["topology"]["edges"] == 18
    assert not log.warnings
    one = FACES.copy()
    one[0] = one[0, ::-1]
    report_topology(TriangleMesh(CUBE, one), log)
    assert log.warnings == ["3 of 18 edges lie between faces that are wound against each other (17%): floors may count "
                            "as ceilings; make the winding consistent on export"]
    assert report_topology(TriangleMesh(CUBE, FACES[:0]), log) is None
    with pytest.raises(ValueError, match="without faces"):
        topology(TriangleMesh(CUBE, FACES[:0]))


def test_a_mesh_that_is_too_large_is_left_out(monkeypatch):
    assert MAX_JUDGED == 5_000_000
    monkeypatch.setattr("spatialbench.scene.topology.MAX_JUDGED", 11)
    log = ReadLog()
    assert report_topology(TriangleMesh(CUBE, FACES), log) is None
    assert log.details["topology"] == {"left_out": "12 faces, at most 11 are counted"}
