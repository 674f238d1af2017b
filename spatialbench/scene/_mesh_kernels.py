"""Compiled loops over the faces and vertices of a mesh; loaded on first use, as importing numba takes a while.

Faces [F,3] are int32 and within range, vertices [V,3] float64: nothing is checked here. Loops with ``start`` and
``stop`` write to these rows alone, so that blocks may run side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["ALONE", "areas", "cells", "count_pairs", "edge_runs", "fill_edges", "fill_faces", "forest", "join", "mark",
           "settle"]

ALONE = 64
"""Entries of a bucket up to which it is sorted by insertion; larger ones come sorted from the caller, so that a fan of
a million faces takes no quadratic time."""

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]


@njit(cache=True, nogil=True)
def mark(faces: I32, used: Mask) -> None:
    """Set ``used`` [V] of every vertex that a face refers to."""
    for f in range(len(faces)):
        for k in range(3):
            used[faces[f, k]] = True


@njit(cache=True, nogil=True)
def areas(vertices: F64, faces: I32, rounding: float, start: int, stop: int, area: F64, flat: Mask) -> None:
    """Areas [F], and whether twice the area is no more than ``rounding`` times the farthest coordinate of a face from
    the origin times its longest edge."""
    for f in range(start, stop):
        i, j, k = faces[f, 0], faces[f, 1], faces[f, 2]
        ax, ay, az = (vertices[j, 0] - vertices[i, 0], vertices[j, 1] - vertices[i, 1], vertices[j, 2] - vertices[i, 2])
        bx, by, bz = (vertices[k, 0] - vertices[i, 0], vertices[k, 1] - vertices[i, 1], vertices[k, 2] - vertices[i, 2])
        cx, cy, cz = ax - bx, ay - by, az - bz
        longest2 = max(max(ax * ax + ay * ay + az * az, bx * bx + by * by + bz * bz), cx * cx + cy * cy + cz * cz)
        nx, ny, nz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
        twice = np.sqrt(nx * nx + ny * ny + nz * nz)
        farthest = 0.0
        for c in range(3):
            farthest = max(farthest, max(max(abs(vertices[i, c]), abs(vertices[j, c])), abs(vertices[k, c])))
        area[f] = twice * 0.5
        flat[f] = twice <= rounding * farthest * np.sqrt(longest2)


@njit(cache=True, nogil=True)
def cells(points: F64, low: F64, scale: float, side: int, start: int, stop: int, cell: I32) -> None:
    """Flat number of the cell of each point [N,3] in a cube of ``side`` cells along each axis."""
    for n in range(start, stop):
        number = 0
        for k in range(3):
            number = number * side + int(min(max((points[n, k] - low[k]) * scale, 0.0), side - 1.0))
        cell[n] = number


@njit(cache=True, nogil=True)
def fill_edges(faces: I32, starts: I64, high: U32) -> None:
    """Put each edge of a face into the bucket of its lower place: twice the higher one, plus 1 where the face runs
    along it downwards.

    ``starts`` [places + 1] is zero before; bucket p is ``high[starts[p]:starts[p + 1]]`` of [3F] behind.
    """
    for f in range(len(faces)):
        for k in range(3):
            starts[min(faces[f, k], faces[f, (k + 1) % 3]) + 1] += 1
    _ends(starts)
    for f in range(len(faces)):
        for k in range(3):
            a, b = faces[f, k], faces[f, (k + 1) % 3]
            low = min(a, b)
            high[starts[low]] = np.uint32(2) * np.uint32(max(a, b)) + np.uint32(a > b)
            starts[low] += 1
    _begins(starts)


@njit(cache=True, nogil=True)
def fill_faces(faces: I32, starts: I64, rest: U64) -> None:
    """Put each face into the bucket of its lowest place, with the middle and the highest one in 32 bits each, [F]."""
    for f in range(len(faces)):
        starts[min(min(faces[f, 0], faces[f, 1]), faces[f, 2]) + 1] += 1
    _ends(starts)
    for f in range(len(faces)):
        a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
        low, high = min(min(a, b), c), max(max(a, b), c)
        rest[starts[low]] = np.uint64(a ^ b ^ c ^ low ^ high) << np.uint64(32) | np.uint64(high)
        starts[low] += 1
    _begins(starts)


@njit(cache=True, nogil=True)
def _ends(starts: I64) -> None:
    """From sizes, one place on, to where each bucket starts."""
    for p in range(1, len(starts)):
        starts[p] += starts[p - 1]


@njit(cache=True, nogil=True)
def _begins(starts: I64) -> None:
    """Back from where each bucket ends to where it starts."""
    for p in range(len(starts) - 1, 0, -1):
        starts[p] = starts[p - 1]
    starts[0] = 0


@njit(cache=True, nogil=True)
def _sort(values: Any, start: int, stop: int) -> None:
    if stop - start > ALONE:
        return
    for i in range(start + 1, stop):
        value, at = values[i], i
        while at > start and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


@njit(cache=True, nogil=True)
def count_pairs(starts: I64, rest: U64) -> int:
    """How many entries equal one before them in their bucket; sorts the small buckets."""
    count = 0
    for p in range(len(starts) - 1):
        _sort(rest, starts[p], starts[p + 1])
        for i in range(starts[p] + 1, starts[p + 1]):
            count += rest[i] == rest[i - 1]
    return count


@njit(cache=True, nogil=True)
def _root(parent: I32, node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit(cache=True, nogil=True)
def join(parent: I32, a: int, b: int) -> None:
    """Make one of the components of two nodes; a parent is never above its child."""
    a, b = _root(parent, a), _root(parent, b)
    parent[max(a, b)] = min(a, b)


@njit(cache=True, nogil=True)
def settle(parent: I32) -> None:
    """Let each node refer to the least one of its component."""
    for n in range(len(parent)):
        parent[n] = parent[parent[n]]


@njit(cache=True, nogil=True)
def edge_runs(starts: I64, high: U32, parent: I32, open_: Mask, counts: I64) -> None:
    """Count edges, borders, those with three faces or more and those whose two faces run the same way (``counts`` [4]);
    join the places of each edge in ``parent`` and mark the lower place of each of the last three in ``open_``."""
    for p in range(len(starts) - 1):
        _sort(high, starts[p], starts[p + 1])
        i = starts[p]
        while i < starts[p + 1]:
            other = high[i] >> np.uint32(1)
            j = i + 1
            while j < starts[p + 1] and high[j] >> np.uint32(1) == other:
                j += 1
            counts[0] += 1
            counts[1] += j - i == 1
            counts[2] += j - i > 2
            against = j - i == 2 and high[i] == high[i + 1]
            counts[3] += against
            if against or j - i != 2:
                open_[p] = True
            join(parent, p, np.int64(other))
            i = j
    settle(parent)


@njit(cache=True, nogil=True)
def forest(low: I32, high: I32, parent: I32) -> None:
    """Join the nodes of each edge [E]; then ``parent`` [N] is the least node of each one's component."""
    for e in range(len(low)):
        join(parent, low[e], high[e])
    settle(parent)
