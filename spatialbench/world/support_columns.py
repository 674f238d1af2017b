"""The surfaces that vertical rays meet: which could carry something, and on which cells of a grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.types.mesh import TriangleMesh
from spatialbench.types.rays import AllHits, RayCaster

__all__ = ["MAX_COLUMNS", "CellGrid", "Facing", "Hits", "columns_of_faces", "surfaces_below"]

MAX_COLUMNS = 4_000_000
"""Most cells of one plan grid."""
_RAYS_AT_ONCE = 1 << 18
_SAME_SURFACE = 1e-3
"""Hits of one ray so near to each other are one surface (a face given twice, a shared edge), m."""


@dataclass(frozen=True)
class CellGrid:
    """Square cells fixed to the world: cell (i, j) of the array is (i0 + i, j0 + j) from the origin."""

    i0: int
    j0: int
    nx: int
    ny: int
    cell: float

    @classmethod
    def over(cls, x0: float, y0: float, x1: float, y1: float, cell: float) -> CellGrid:
        """The cells that cover a rectangle."""
        i0, j0 = int(np.floor(x0 / cell)), int(np.floor(y0 / cell))
        return cls(i0, j0, max(1, int(np.ceil(x1 / cell)) - i0), max(1, int(np.ceil(y1 / cell)) - j0), cell)

    def centres(self, ij: NDArray[np.int64]) -> NDArray[np.float64]:
        """[N,2] XY of cells [N,2]."""
        return (np.asarray(ij, np.float64) + [self.i0 + 0.5, self.j0 + 0.5]) * self.cell


@dataclass(frozen=True, eq=False)
class Hits:
    """Surfaces found: ``ray`` [K] int64 in order, ``z`` [K], highest first within a ray."""

    ray: NDArray[np.int64]
    z: NDArray[np.float64]

    def up_to(self, height: float) -> Hits:
        """Only those no higher than ``height``."""
        low = self.z <= height
        return Hits(self.ray[low], self.z[low])


@dataclass(frozen=True, eq=False)
class Facing:
    """Which way faces look, by their winding; all [F] bool.

    ``carries`` : within the given angle of up. ``up`` and ``down`` : at all.
    """

    carries: NDArray[np.bool_]
    up: NDArray[np.bool_]
    down: NDArray[np.bool_]

    @classmethod
    def of(cls, mesh: TriangleMesh, max_tilt_deg: float) -> Facing:
        """Of a mesh's faces; those without area look nowhere."""
        n = mesh.area_vectors()
        length = np.linalg.norm(n, axis=1)
        z = np.divide(n[:, 2], length, out=np.zeros(len(n)), where=length > 0)
        return cls(z >= np.cos(np.radians(max_tilt_deg)), z > 0, z < 0)


def columns_of_faces(mesh: TriangleMesh, which: NDArray[np.bool_], grid: CellGrid) -> NDArray[np.int64]:
    """[N,2] cells whose centre lies in the plan box of one of the faces: no other column can meet them."""
    t = mesh.triangles[which][:, :, :2] / grid.cell - [grid.i0, grid.j0]
    size = np.array([grid.nx, grid.ny])
    lo = np.clip(np.floor(t.min(axis=1)), 0, size).astype(np.int64)
    hi = np.clip(np.floor(t.max(axis=1)) + 1, 0, size).astype(np.int64)
    some = (hi > lo).all(axis=1)
    lo, hi = lo[some], hi[some]
    # Corners of each box as +1 and -1; running sums over both axes then count the boxes over a cell.
    step = np.zeros((grid.nx + 1, grid.ny + 1), np.int32)
    for i, j, sign in ((lo[:, 0], lo[:, 1], 1), (hi[:, 0], hi[:, 1], 1),
                       (lo[:, 0], hi[:, 1], -1), (hi[:, 0], lo[:, 1], -1)):
        np.add.at(step, (i, j), sign)
    return np.argwhere(step.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] > 0)


def surfaces_below(xy: NDArray[np.float64], start: NDArray[np.float64], depth: float, headroom: float,
                   facing: Facing, rays: RayCaster) -> Hits:
    """Carrying faces met by rays down from ``start`` [N] at ``xy`` [N,2], at most ``depth`` below it.

    A surface does not count when another one is less than ``headroom`` above it, or when a solid stands on
    it: a downward face in the same place, and above it an upward one. What is above ``start`` is not seen.
    """
    ray_parts, z_parts = [np.zeros(0, np.int64)], [np.zeros(0)]
    for a in range(0, len(xy), _RAYS_AT_ONCE):
        part = slice(a, a + _RAYS_AT_ONCE)
        origins = np.column_stack([xy[part], start[part]])
        hits = rays.all_hits(origins, np.tile([0.0, 0.0, -1.0], (len(origins), 1)))
        if len(hits.ray) == 0:
            continue
        above = _room_above(hits, facing)
        good = facing.carries[hits.face] & (above >= headroom) & (above > 0.0) & (hits.distance <= depth)
        ray, z = hits.ray[good], origins[hits.ray[good], 2] - hits.distance[good]
        order = np.lexsort((-z, ray))
        ray_parts.append(ray[order] + a)
        z_parts.append(z[order])
    return Hits(np.concatenate(ray_parts), np.concatenate(z_parts))


def _room_above(hits: AllHits, facing: Facing) -> NDArray[np.float64]:
    """[K] m from each hit up to the next surface of its ray; inf for none, 0 under a solid."""
    ray, distance = hits.ray, hits.distance
    starts = np.ones(len(ray), bool)
    starts[1:] = (ray[1:] != ray[:-1]) | (distance[1:] - distance[:-1] > _SAME_SURFACE)
    first = np.flatnonzero(starts)
    surface = np.cumsum(starts) - 1
    up = np.logical_or.reduceat(facing.up[hits.face], first)
    down = np.logical_or.reduceat(facing.down[hits.face], first)
    last_distance = distance[np.append(first[1:], len(ray)) - 1]
    before = np.maximum(surface - 1, 0)
    has = (surface > 0) & (ray[first[before]] == ray)
    solid = has & down[surface] & up[before] & ~down[before]
    return np.where(solid, 0.0, np.where(has, distance - last_distance[before], np.inf))
