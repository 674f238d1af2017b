"""Compiled loops of fusion: incidence of depth, its votes on voxels, distances to triangles; loaded on first use."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["LEAST_COSINE", "STEP_COSINE", "incidence", "mesh_distances", "vote"]

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]

_HERE = 1e-12
"""A voxel's centre this close to a viewpoint, m, is where the viewpoint is."""
LEAST_COSINE = 0.25
"""Normals are guesses where depth is rough or a surface is grazed; no distance is shortened by more than this."""
STEP_COSINE = 0.15
"""Below it there is a step between pixels rather than a surface: something thin, whose normal is not known."""
_UNIT = 128
"""Incidence is kept in steps of 1/128; the largest, 3^(1/2) in a corner of a face, is 222."""


@njit(cache=True, nogil=True, inline="always")
def _slope(before: float, here: float, after: float) -> float:
    """Of inverse depth, by pixel, towards the neighbour that differs less; 0 without a neighbour."""
    back = here - before if before > 0.0 else np.inf
    on = after - here if after > 0.0 else np.inf
    slope = back if abs(back) < abs(on) else on
    return slope if abs(slope) < np.inf else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def incidence(depth: F32, out: U8) -> None:
    """What a difference along the axis has to be multiplied with to be one along the normal, in steps of 1/128.

    The ray of a pixel, scaled to advance 1 along the axis, times the unit normal of the plane on which the pixel and
    its neighbours lie: inverse depth of a plane is linear across an image. It is 1 all over a plane that the axis
    meets at a right angle. Between ``STEP_COSINE`` and ``LEAST_COSINE`` it becomes the latter, below it 1, as it is
    for what has no depth. ``depth`` and ``out`` are [S,S] of a 90-degree face.
    """
    size = depth.shape[0]
    half = 0.5 * size
    inverse = np.zeros((size + 2, size + 2))
    for i in range(size):
        for j in range(size):
            inverse[i + 1, j + 1] = 1.0 / depth[i, j] if depth[i, j] > 0.0 else 0.0
    for i in range(size):
        for j in range(size):
            here = inverse[i + 1, j + 1]
            cosine = 1.0
            if here > 0.0:
                a = half * _slope(inverse[i, j + 1], here, inverse[i + 2, j + 1])
                b = half * _slope(inverse[i + 1, j], here, inverse[i + 1, j + 2])
                c = here - a * ((i + 0.5) / half - 1.0) - b * ((j + 0.5) / half - 1.0)
                cosine = here / math.sqrt(a * a + b * b + c * c)
            cosine = min(max(cosine, LEAST_COSINE), 1.75) if cosine >= STEP_COSINE else 1.0
            out[i, j] = np.uint8(cosine * _UNIT + 0.5)


@njit(cache=True, nogil=True, inline="always")
def _pixel(at: float, last: float) -> Any:
    """Pixel that holds ``at``; the border of a face, and what rounding puts beyond it, goes to its last pixel."""
    return np.uint32(min(max(at, 0.0), last))


@njit(cache=True, nogil=True, inline="always")
def _count(depth: float, cosine: float, z: float, k: int, weight: float, front: float, behind: float, total: F32,
           near: F32, far: F32) -> None:
    """One look at voxel ``k`` of a column, ``z`` along the axis of the face that sees it. No branches: they would
    be mispredicted, and memory would be waited for at each of them."""
    ahead = (depth - z) * cosine * (1.0 / _UNIT)
    weight = weight if (depth > 0.0) & (ahead >= -behind) else 0.0
    close = weight if ahead < front else 0.0
    near[k] += close
    total[k] += close * ahead
    far[k] += weight - close


@njit(cache=True, nogil=True, error_model="numpy")
def _vote_column(cube: F32, cosines: U8, dx: float, dy: float, bottom: float, voxel: float, front: float,
                 behind: float, total: F32, near: F32, far: F32) -> None:
    """What one viewpoint says of a column of voxels whose lowest centre is (dx, dy, bottom) from it."""
    nz = len(total)
    size = cube.shape[1]
    last = size - 1.0
    half = 0.5 * size  # focal length of 90 degrees, and the principal point
    if abs(dy) >= abs(dx):
        face, level, right = (0, dy, dx) if dy >= 0.0 else (2, -dy, -dx)
    else:
        face, level, right = (1, dx, -dy) if dx >= 0.0 else (3, -dx, dy)
    slope = half / level if level > _HERE else 0.0
    column = _pixel(half + right * slope, last)
    line, line_cosines = cube[face, column], cosines[face, column]
    weight = 1.0 / (0.05 + level * level)
    # Voxels k0 <= k < k1 are in the level face, those above and below in the other two.
    k0 = min(max(math.ceil((-level - bottom) / voxel), 0), nz)
    k1 = min(max(math.floor((level - bottom) / voxel) + 1, k0), nz)
    for k in range(k0, k1):
        row = _pixel(half - (bottom + k * voxel) * slope, last)
        _count(line[row], line_cosines[row], level, k, weight, front, behind, total, near, far)
    down, down_cosines = cube[5], cosines[5]
    for k in range(k0):
        z = -(bottom + k * voxel)
        slope = half / max(z, _HERE)
        row, column = _pixel(half - dy * slope, last), _pixel(half + dx * slope, last)
        _count(down[row, column], down_cosines[row, column], z, k, 1.0 / (0.05 + z * z), front, behind, total, near,
               far)
    up, up_cosines = cube[4], cosines[4]
    for k in range(k1, nz):
        z = bottom + k * voxel
        slope = half / max(z, _HERE)
        row, column = _pixel(half + dy * slope, last), _pixel(half + dx * slope, last)
        _count(up[row, column], up_cosines[row, column], z, k, 1.0 / (0.05 + z * z), front, behind, total, near, far)


@njit(cache=True, nogil=True, error_model="numpy")
def vote(depths: F32, cosines: U8, positions: F64, low: F64, voxel: float, front: float, behind: float, free: float,
         snap: float, first: int, last: int, distance: F32, state: U8) -> None:
    """Fill the slabs ``first <= i < last`` of ``distance`` and ``state`` [NX,NY,NZ]; see ``volume``.

    Parameters
    ----------
    depths : [V,6,S,S] float32 z-depths of the six faces of each viewpoint in the order of ``cube_faces``, 0 where
        nothing is. The four level faces are transposed, [column, row], so that a column of voxels is read in order.
    cosines : [V,6,S,S] uint8 ``incidence`` of them, in the same layout.
    positions : [V,3] of the viewpoints.
    low : [3] lowest corner of the grid; the centre of voxel 0 lies half a ``voxel`` farther.
    front, behind : truncation, m.
    free : factor on the weight of a vote for free space.
    snap : distances between -snap and snap become snap.
    """
    _, ny, nz = distance.shape
    total = np.zeros((last - first, ny, nz), np.float32)
    near = np.zeros_like(total)
    far = np.zeros_like(total)
    for v in range(len(positions)):  # outermost: one viewpoint's images stay in the caches
        bottom = low[2] + 0.5 * voxel - positions[v, 2]
        for i in range(first, last):
            dx = low[0] + (i + 0.5) * voxel - positions[v, 0]
            for j in range(ny):
                dy = low[1] + (j + 0.5) * voxel - positions[v, 1]
                _vote_column(depths[v], cosines[v], dx, dy, bottom, voxel, front, behind, total[i - first, j],
                             near[i - first, j], far[i - first, j])
    for i in range(first, last):
        for j in range(ny):
            for k in range(nz):
                value, seen = -behind / front, 0
                n, f = near[i - first, j, k], far[i - first, j, k]
                if n > 0.0:
                    value, seen = (total[i - first, j, k] / front + free * f) / (n + free * f), 2
                elif f > 0.0:
                    value, seen = 1.0, 1
                distance[i, j, k] = snap if abs(value) < snap else value
                state[i, j, k] = seen


@njit(cache=True, nogil=True, inline="always")
def _dot(a: Any, b: Any) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@njit(cache=True, nogil=True, inline="always")
def _less(a: Any, b: Any) -> Any:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@njit(cache=True, nogil=True, inline="always")
def _cross(a: Any, b: Any) -> Any:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@njit(cache=True, nogil=True)
def _triangle_squared(p: Any, a: Any, b: Any, c: Any) -> float:
    """Squared distance of a point to a triangle: to its plane when straight over it, else to a side."""
    normal = _cross(_less(b, a), _less(c, a))
    length = _dot(normal, normal)
    over = length > 0.0
    best = np.inf
    for start, end in ((a, b), (b, c), (c, a)):
        side, to = _less(end, start), _less(p, start)
        over = over and _dot(_cross(side, to), normal) >= 0.0
        along = _dot(side, side)
        t = min(max(_dot(side, to) / along, 0.0), 1.0) if along > 0.0 else 0.0
        off = (to[0] - t * side[0], to[1] - t * side[1], to[2] - t * side[2])
        best = min(best, _dot(off, off))
    if over:
        height = _dot(normal, _less(p, a))
        return height * height / length
    return best


@njit(cache=True, nogil=True)
def mesh_distances(points: F64, vertices: F64, faces: NDArray[np.int32], reach: float) -> F64:
    """Distance [P] of each point [P,3] to the nearest face; inf without faces.

    ``reach`` is at least the length of the longest side: faces whose first corner is farther than that beyond the
    nearest vertex need no look. ``faces`` refer to every vertex.
    """
    out = np.full(len(points), np.inf)
    squared = np.empty(len(vertices))
    for n in range(len(points)):
        p = (points[n, 0], points[n, 1], points[n, 2])
        best = np.inf
        for v in range(len(vertices)):
            x, y, z = vertices[v, 0] - p[0], vertices[v, 1] - p[1], vertices[v, 2] - p[2]
            squared[v] = x * x + y * y + z * z
            best = min(best, squared[v])
        limit = (math.sqrt(best) + reach) ** 2
        for f in range(len(faces)):
            if squared[faces[f, 0]] <= limit:
                a, b, c = vertices[faces[f, 0]], vertices[faces[f, 1]], vertices[faces[f, 2]]
                best = min(best, _triangle_squared(p, (a[0], a[1], a[2]), (b[0], b[1], b[2]), (c[0], c[1], c[2])))
        out[n] = math.sqrt(best)
    return out
