"""Compiled loops of fusion: votes of depth images on voxels, distances to triangles; loaded on first use."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["mesh_distances", "vote"]

F64 = NDArray[np.float64]

_HERE = 1e-12
"""A voxel's centre this close to a viewpoint, m, is where the viewpoint is."""


@njit(cache=True, nogil=True, inline="always")
def _count(depth: float, z: float, k: int, weight: float, front: float, behind: float, free: float, total: F64,
           near: F64, far: F64) -> None:
    """One look at voxel ``k`` of a column, ``z`` along the axis of the face that sees it."""
    if depth > 0.0:
        ahead = depth - z
        if ahead >= front:
            far[k] += weight * free
            total[k] += weight * free
        elif ahead >= -behind:
            near[k] += weight
            total[k] += weight * ahead / front


@njit(cache=True, nogil=True, inline="always")
def _pixel(at: float, size: int) -> int:
    """Pixel that holds ``at``; the border of a face, and what rounding puts beyond it, goes to its last pixel."""
    return min(max(int(math.floor(at)), 0), size - 1)


@njit(cache=True, nogil=True, error_model="numpy")
def vote(depths: NDArray[np.float32], positions: F64, low: F64, voxel: float, front: float, behind: float,
         free: float, snap: float, first: int, last: int, distance: NDArray[np.float32],
         state: NDArray[np.uint8]) -> None:
    """Fill the slabs ``first <= i < last`` of ``distance`` and ``state`` [NX,NY,NZ]; see ``volume``.

    Parameters
    ----------
    depths : [V,6,S,S] float32 z-depths of the six faces of each viewpoint in the order of ``cube_faces``, 0 where
        nothing is. The four level faces are transposed, [column, row], so that a column of voxels is read in order.
    positions : [V,3] of the viewpoints.
    low : [3] lowest corner of the grid; the centre of voxel 0 lies half a ``voxel`` farther.
    front, behind : truncation, m.
    free : factor on the weight of a vote for free space.
    snap : distances between -snap and snap become snap.
    """
    _, ny, nz = distance.shape
    size = depths.shape[2]
    half = 0.5 * size  # focal length of 90 degrees, and the principal point
    total = np.empty(nz)
    near = np.empty(nz)
    far = np.empty(nz)
    for i in range(first, last):
        x = low[0] + (i + 0.5) * voxel
        for j in range(ny):
            y = low[1] + (j + 0.5) * voxel
            total[:] = 0.0
            near[:] = 0.0
            far[:] = 0.0
            for v in range(len(positions)):
                dx = x - positions[v, 0]
                dy = y - positions[v, 1]
                if abs(dy) >= abs(dx):
                    face, level, right = (0, dy, dx) if dy >= 0.0 else (2, -dy, -dx)
                else:
                    face, level, right = (1, dx, -dy) if dx >= 0.0 else (3, -dx, dy)
                slope = half / level if level > _HERE else 0.0
                column = depths[v, face, _pixel(half + right * slope, size)]
                weight = 1.0 / (0.05 + level * level)
                bottom = low[2] + 0.5 * voxel - positions[v, 2]
                # Voxels k0 <= k < k1 are in the level face, those above and below in the other two.
                k0 = min(max(int(math.ceil((-level - bottom) / voxel)), 0), nz)
                k1 = min(max(int(math.floor((level - bottom) / voxel)) + 1, k0), nz)
                for k in range(k0, k1):
                    row = _pixel(half - (bottom + k * voxel) * slope, size)
                    _count(column[row], level, k, weight, front, behind, free, total, near, far)
                for k in range(k0):
                    z = -(bottom + k * voxel)
                    slope = half / z if z > _HERE else 0.0
                    depth = depths[v, 5, _pixel(half - dy * slope, size), _pixel(half + dx * slope, size)]
                    _count(depth, z, k, 1.0 / (0.05 + z * z), front, behind, free, total, near, far)
                for k in range(k1, nz):
                    z = bottom + k * voxel
                    slope = half / z if z > _HERE else 0.0
                    depth = depths[v, 4, _pixel(half + dy * slope, size), _pixel(half + dx * slope, size)]
                    _count(depth, z, k, 1.0 / (0.05 + z * z), front, behind, free, total, near, far)
            for k in range(nz):
                weight = near[k] + far[k]
                value = total[k] / weight if weight > 0.0 else -behind / front
                distance[i, j, k] = snap if abs(value) < snap else value
                state[i, j, k] = 2 if near[k] > 0.0 else 1 if weight > 0.0 else 0
