"""How the faces of a mesh hang together: borders, non-manifold edges, winding, components. Counted, never changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.clean import WARN_SHARE, position_keys
from spatialbench.scene.log import ReadLog
from spatialbench.types import TriangleMesh

__all__ = ["MAX_JUDGED", "Topology", "report_topology", "topology"]

MAX_JUDGED = 5_000_000
"""Faces: of a larger mesh nothing is counted here; a million take about a second and 150 MB."""


@dataclass(frozen=True, eq=False)
class Topology:
    """Counts over edges between positions: corners at exactly one place are one, whatever their indices.

    Attributes
    ----------
    component : [F] int32 number of each face's component; two faces that share a place are in one.
    edges : number of them.
    boundary_edges : with one face: open borders.
    nonmanifold_edges : with three faces or more.
    inconsistent_edges : with two faces that run along it in the same sense: one of them is turned over.
    duplicate_faces : with the corners of an earlier face, in any order and sense.
    components : number of them.
    closed_components : without borders, non-manifold and inconsistent edges.
    inward_components : of the closed ones, those whose normals point inwards (negative volume). A room that is seen
        from inside is right so, an object is inside out.
    """

    component: NDArray[np.int32]
    edges: int
    boundary_edges: int
    nonmanifold_edges: int
    inconsistent_edges: int
    duplicate_faces: int
    components: int
    closed_components: int
    inward_components: int

    def as_json(self) -> dict[str, Any]:
        """The counts, for ``details["topology"]``."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "component"}


def topology(mesh: TriangleMesh) -> Topology:
    """Count (see :class:`Topology`); 0.4 s for 500,000 faces.

    Edges are sorted with their sense as the last bit, so that the faces of each lie side by side.

    Raises
    ------
    ValueError : a mesh without faces.
    """
    if len(mesh.faces) == 0:
        raise ValueError("a mesh without faces has no topology")
    faces, count = _welded(mesh)
    a, b = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    key = ((np.minimum(a, b).astype(np.uint64) * np.uint64(count) + np.maximum(a, b).astype(np.uint64))
           << np.uint64(1)) | (a > b)
    key.sort()
    edge = key >> np.uint64(1)
    start = np.flatnonzero(np.concatenate([[True], edge[1:] != edge[:-1]]))
    around = np.diff(np.append(start, len(edge)))
    low, high = (n.astype(np.int64) for n in np.divmod(edge[start], np.uint64(count)))
    pair = np.flatnonzero(around == 2)
    against = np.zeros(len(start), bool)
    against[pair] = key[start[pair]] == key[start[pair] + 1]
    components, of_place = _components(low, high, count)
    component = of_place[faces[:, 0]]
    closed = np.ones(components, bool)
    closed[of_place[low[(around != 2) | against]]] = False
    return Topology(component, len(start), int((around == 1).sum()), int((around > 2).sum()), int(against.sum()),
                    _duplicates(faces, count), components, int(closed.sum()),
                    int((closed & (_volumes(mesh, component, components) < 0)).sum()))


def report_topology(mesh: TriangleMesh, log: ReadLog) -> Topology | None:
    """Put the counts into ``details["topology"]``; say when neighbours are wound against each other along more than
    ``WARN_SHARE`` of the edges. None for a mesh that is too large or empty."""
    if not 0 < len(mesh.faces) <= MAX_JUDGED:
        log.details["topology"] = {"left_out": f"{len(mesh.faces):,} faces, at most {MAX_JUDGED:,} are counted"}
        return None
    found = topology(mesh)
    log.details["topology"] = found.as_json()
    if found.inconsistent_edges > WARN_SHARE * found.edges:
        log.warn(f"{found.inconsistent_edges:,} of {found.edges:,} edges lie between faces that are wound against each "
                 f"other ({found.inconsistent_edges / found.edges:.0%}): floors may count as ceilings; make the "
                 "winding consistent on export")
    return found


def _welded(mesh: TriangleMesh) -> tuple[NDArray[np.int64], int]:
    """Faces [F,3] that refer to distinct positions, and the number of these (by 64-bit hashes)."""
    key = position_keys(mesh.vertices)
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    number = np.empty(len(key), np.int64)
    number[order] = np.cumsum(np.concatenate([[False], ordered[1:] != ordered[:-1]]))
    return number[mesh.faces], int(number[order[-1]]) + 1


def _components(low: NDArray[np.int64], high: NDArray[np.int64], count: int) -> tuple[int, NDArray[np.int32]]:
    """Number of components with an edge, and that of each place [count] that has one; ``low`` ascends."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    rows = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(low, minlength=count), out=rows[1:])
    graph = csr_matrix((np.ones(len(low), np.int8), high.astype(np.int32), rows), shape=(count, count))
    found, label = connected_components(graph, directed=False)
    with_edges = np.zeros(found, bool)
    with_edges[label[low]] = True
    return int(with_edges.sum()), (np.cumsum(with_edges, dtype=np.int32) - 1)[label]


def _duplicates(faces: NDArray[np.int64], count: int) -> int:
    corner = np.sort(faces, axis=1).astype(np.uint64)
    if count < 1 << 21:
        key = (corner[:, 0] * np.uint64(count) + corner[:, 1]) * np.uint64(count) + corner[:, 2]
        key.sort()
        return int((key[1:] == key[:-1]).sum())
    corner = corner[np.lexsort(corner.T)]
    return int((corner[1:] == corner[:-1]).all(axis=1).sum())


def _volumes(mesh: TriangleMesh, component: NDArray[np.int32], count: int) -> NDArray[np.float64]:
    """[count] signed volume by the divergence theorem, about a corner of the mesh; means nothing for open ones."""
    x, y, z = (np.ascontiguousarray(mesh.vertices[:, k] - mesh.vertices[0, k])[mesh.faces].T for k in range(3))
    six = (x[0] * (y[1] * z[2] - z[1] * y[2]) + y[0] * (z[1] * x[2] - x[1] * z[2])
           + z[0] * (x[1] * y[2] - y[1] * x[2]))
    return np.bincount(component, weights=six, minlength=count) / 6
