"""Surfels: small oriented pieces of surface, what the up axis, the floor and the camera are found on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import TriangleMesh
from spatialbench.types.protocol_rules import CameraFinding

__all__ = ["Surfels", "mesh_surfels", "weighted_quantile"]


@dataclass(frozen=True, eq=False)
class Surfels:
    """Pieces of surface in the source frame's axes, metres (by the unit that was decided).

    Attributes
    ----------
    points : [N,3] float64.
    normals : [N,3] float64, unit.
    areas : [N] float64, square metres.
    signed : whether the normals' sense means anything (meshes: by winding).
    """

    points: NDArray[np.float64]
    normals: NDArray[np.float64]
    areas: NDArray[np.float64]
    signed: bool = True

    def __len__(self) -> int:
        return len(self.areas)

    def thinned(self, at_most: int) -> Surfels:
        """Every k-th surfel, so that at most ``at_most`` are left."""
        k = max(1, -(-len(self) // at_most))
        return Surfels(self.points[::k], self.normals[::k], self.areas[::k] * k, self.signed)

    def flipped(self) -> Surfels:
        """The same pieces seen from the other side."""
        return Surfels(self.points, -self.normals, self.areas, self.signed)


def mesh_surfels(mesh: TriangleMesh, unit_m: float, finding: CameraFinding) -> Surfels:
    """Area-uniform samples of a mesh (real-worlds.md section 5).

    ``clip(surfels_per_m2 * area, min_surfels, max_surfels)`` samples of equal area; a face gets its exact
    share rounded up or down, in the order of faces, and random places on it from the protocol's seed.
    Faces without area get none; a mesh without area gives no surfels.
    """
    area_vectors = mesh.area_vectors()
    area = np.linalg.norm(area_vectors, axis=1)
    ends = np.cumsum(area)
    total = float(ends[-1]) if len(ends) else 0.0
    if not total > 0:
        return Surfels(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))
    n = int(np.clip(finding.surfels_per_m2 * total * unit_m**2, finding.min_surfels, finding.max_surfels))
    rng = np.random.default_rng(finding.seed)
    face = np.searchsorted(ends, (np.arange(n) + rng.random()) * (total / n), side="right")
    # Rounding at the very end may point past the last face that has an area.
    face = np.minimum(face, int(np.flatnonzero(area)[-1]))
    root, along = np.sqrt(rng.random(n)), rng.random(n)
    corner = mesh.vertices[mesh.faces[:, 0]]
    edge_1 = mesh.vertices[mesh.faces[:, 1]] - corner
    edge_2 = mesh.vertices[mesh.faces[:, 2]] - corner
    points = corner[face]
    points += edge_1[face] * (root * (1.0 - along))[:, None]
    points += edge_2[face] * (root * along)[:, None]
    points *= unit_m
    unit_normals = np.divide(area_vectors, area[:, None], out=np.zeros_like(area_vectors),
                             where=area[:, None] > 0)
    return Surfels(points, unit_normals[face], np.full(n, total * unit_m**2 / n))


def weighted_quantile(values: NDArray[np.float64], weights: NDArray[np.float64], *shares: float
                      ) -> NDArray[np.float64]:
    """For each share of the weight, the smallest value at which it is reached.

    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), 0.25, 0.5).tolist()
    [1.0, 2.0]
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    at = np.searchsorted(reached, np.array(shares) * reached[-1])
    return np.asarray(values[order[np.minimum(at, len(values) - 1)]])
