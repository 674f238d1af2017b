"""Compiled loops over voxels and surfels; loaded on first use, because importing numba takes a second."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["band_areas", "component_labels", "enclosure", "fill_voxels", "floor_columns", "horizontal_near"]

F64 = NDArray[np.float64]


@njit(cache=True, nogil=True)
def _along(rotation: F64, axis: int, vectors: F64, n: int) -> Any:
    return (rotation[axis, 0] * vectors[n, 0] + rotation[axis, 1] * vectors[n, 1]
            + rotation[axis, 2] * vectors[n, 2])


@njit(cache=True, nogil=True)
def fill_voxels(points: F64, normals: F64, areas: F64, rotation: F64, origin: F64, voxel: float,
                occupied: NDArray[np.float32], horizontal: NDArray[np.float32], min_cos: float) -> None:
    """Add the area of each surfel to its voxel, and to ``horizontal`` when its normal points up.

    ``points`` [N,3] are turned by ``rotation`` [3,3] first; both grids are [NX,NY,NZ] and start at
    ``origin`` [3]. What lies outside is left out.
    """
    nx, ny, nz = occupied.shape
    for n in range(len(areas)):
        i = math.floor((_along(rotation, 0, points, n) - origin[0]) / voxel)
        j = math.floor((_along(rotation, 1, points, n) - origin[1]) / voxel)
        k = math.floor((_along(rotation, 2, points, n) - origin[2]) / voxel)
        if i < 0 or j < 0 or k < 0 or i >= nx or j >= ny or k >= nz:
            continue
        occupied[i, j, k] += areas[n]
        if _along(rotation, 2, normals, n) > min_cos:
            horizontal[i, j, k] += areas[n]


@njit(cache=True, nogil=True)
def floor_columns(occupied: NDArray[np.float32], horizontal: NDArray[np.float32], threshold: float,
                  free_above: int, solid: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Which voxels are solid, and which of them are floor with ``free_above`` free voxels over them.

    Fills ``solid`` [NX,NY,NZ]. Returns (start [NX*NY+1], k [W]): the floor voxels of column ``i * NY + j``
    are ``k[start[c]:start[c + 1]]``, ascending. What is above the grid is free.
    """
    nx, ny, nz = occupied.shape
    start = np.zeros(nx * ny + 1, np.int64)
    ks = np.empty(0, np.int32)
    for both in range(2):  # first counts, then fills
        if both == 1:
            ks = np.empty(start[nx * ny], np.int32)
        at = 0
        for i in range(nx):
            for j in range(ny):
                free = free_above
                first = at
                for k in range(nz - 1, -1, -1):
                    if occupied[i, j, k] > threshold:
                        solid[i, j, k] = 1
                        if free >= free_above and horizontal[i, j, k] > 0.5 * occupied[i, j, k]:
                            if both == 1:
                                ks[at] = k
                            at += 1
                        free = 0
                    else:
                        free += 1
                if both == 1:
                    ks[first:at] = ks[first:at][::-1].copy()
                start[i * ny + j + 1] = at
    return start, ks


@njit(cache=True, nogil=True)
def _root(parent: NDArray[np.int64], a: int) -> int:
    while parent[a] != a:
        parent[a] = parent[parent[a]]
        a = parent[a]
    return a


@njit(cache=True, nogil=True)
def _join(parent: NDArray[np.int64], a: int, b: int) -> None:
    ra, rb = _root(parent, a), _root(parent, b)
    parent[max(ra, rb)] = min(ra, rb)


@njit(cache=True, nogil=True)
def component_labels(start: NDArray[np.int64], ks: NDArray[np.int32], nx: int, ny: int) -> NDArray[np.int64]:
    """26-connected component [W] of each floor voxel of ``floor_columns``, named by its first voxel."""
    parent = np.arange(len(ks))
    for i in range(nx):
        for j in range(ny):
            c = i * ny + j
            for a in range(start[c], start[c + 1]):
                if a > start[c] and ks[a] - ks[a - 1] == 1:
                    _join(parent, a, a - 1)
                for di, dj in ((-1, -1), (-1, 0), (-1, 1), (0, -1)):
                    x, y = i + di, j + dj
                    if x < 0 or y < 0 or y >= ny:
                        continue
                    d = x * ny + y
                    for b in range(start[d], start[d + 1]):
                        if abs(ks[b] - ks[a]) <= 1:
                            _join(parent, a, b)
    for a in range(len(parent)):
        parent[a] = _root(parent, a)
    return parent


@njit(cache=True, nogil=True)
def enclosure(solid: NDArray[np.uint8], eyes: F64, directions: F64, steps: int) -> NDArray[np.int32]:
    """Steps [E,D] of one voxel until something solid is met, 0 where nothing is.

    ``eyes`` [E,3] are voxel indices, which may lie above the grid; ``directions`` [D,3] are unit.
    """
    shape = solid.shape
    out = np.zeros((len(eyes), len(directions)), np.int32)
    at = np.zeros(3, np.int64)
    for e in range(len(eyes)):
        for d in range(len(directions)):
            for s in range(1, steps):
                inside = True
                gone = False
                for axis in range(3):
                    at[axis] = math.floor(eyes[e, axis] + directions[d, axis] * s + 0.5)
                    if at[axis] < 0:
                        inside = False
                        gone = gone or directions[d, axis] <= 0
                    elif at[axis] >= shape[axis]:
                        inside = False
                        gone = gone or directions[d, axis] >= 0
                if gone:
                    break
                if inside and solid[at[0], at[1], at[2]]:
                    out[e, d] = s
                    break
    return out


@njit(cache=True, nogil=True)
def horizontal_near(points: F64, normals: F64, rotation: F64, centre: F64, half_width: float,
                    half_height: float, min_cos: float) -> NDArray[np.int64]:
    """Indices of the upward surfels in a box around ``centre`` [3] (level frame)."""
    out = np.empty(len(points), np.int64)
    found = 0
    for n in range(len(points)):
        if (_along(rotation, 2, normals, n) > min_cos
                and abs(_along(rotation, 0, points, n) - centre[0]) < half_width
                and abs(_along(rotation, 1, points, n) - centre[1]) < half_width
                and abs(_along(rotation, 2, points, n) - centre[2]) < half_height):
            out[found] = n
            found += 1
    return out[:found].copy()


@njit(cache=True, nogil=True)
def band_areas(points: F64, normals: F64, areas: F64, rotation: F64, centre: F64, radius: float, floor: float,
               top: float, near: float, far: float, min_cos: float) -> tuple[float, float]:
    """Horizontal area ``near`` to ``far`` above the floor, and the same below the top, around ``centre`` [2]."""
    low = 0.0
    high = 0.0
    for n in range(len(points)):
        if abs(_along(rotation, 2, normals, n)) <= min_cos:
            continue
        dx = _along(rotation, 0, points, n) - centre[0]
        dy = _along(rotation, 1, points, n) - centre[1]
        if dx * dx + dy * dy >= radius * radius:
            continue
        z = _along(rotation, 2, points, n)
        if near < z - floor < far:
            low += areas[n]
        if near < top - z < far:
            high += areas[n]
    return low, high
