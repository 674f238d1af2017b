"""Corners at one place: which vertices are one, which faces are there twice, and what hangs together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Welded", "components", "position_keys", "referred", "touching", "weld"]

_BLOCK = 1 << 17


@dataclass(frozen=True, eq=False)
class Welded:
    """Faces [F,3] int32 that refer to places, numbered in the order of their first vertices; the number of places; how
    many faces have the corners of an earlier one, in any order and sense."""

    faces: NDArray[np.int32]
    places: int
    duplicate_faces: int


def weld(vertices: NDArray[np.float64], faces: NDArray[np.int32]) -> Welded:
    """Take vertices at exactly one place for one (by 64-bit hashes); no array of the mesh is changed."""
    number = _places(position_keys(vertices))
    if number is None:
        return Welded(faces, len(vertices), _duplicates(faces, len(vertices)))
    places, joined = int(number.max()) + 1, np.take(number, faces)
    return Welded(joined, places, _duplicates(joined, places))


def referred(faces: NDArray[np.int32], count: int) -> NDArray[np.bool_]:
    """[count] which vertices faces refer to."""
    return np.bincount(faces.reshape(-1), minlength=count) > 0


def position_keys(vertices: NDArray[np.float64]) -> NDArray[np.uint64]:
    """[V] a 64-bit hash of each position [V,3]: equal where all three coordinates are."""
    return _mix((vertices[:, k] + 0.0).view(np.uint64) for k in range(3))  # + 0.0 makes -0.0 and 0.0 one


def components(low: NDArray[np.int32], high: NDArray[np.int32], count: int) -> tuple[int, NDArray[np.int32]]:
    """Number of components with an edge, and that of each node [count] that has one, in the order of their least nodes.

    Edges are [E] ``low`` < ``high``. Each node hangs on to a lower neighbour, each tree is drawn together to its root,
    and so again with the edges between trees, of which half are left at most after two rounds. A few passes over
    whole arrays: a third of the time of a search in compiled code, and of the memory.
    """
    parent = np.arange(count, dtype=np.int32)
    a, b = low, high
    while len(a):
        parent[b[::-1]] = a[::-1]
        while True:
            above = np.take(parent, parent)
            if np.array_equal(above, parent):
                break
            parent = above
        a, b = np.take(parent, a), np.take(parent, b)
        apart = np.flatnonzero(a != b)
        a, b = a[apart], b[apart]
        a, b = np.minimum(a, b), np.maximum(a, b)
    with_edges = np.zeros(count, bool)
    with_edges[np.take(parent, low)] = True
    return int(with_edges.sum()), np.take(np.cumsum(with_edges, dtype=np.int32) - np.int32(1), parent)


def touching(occupied: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Flat numbers of the two cells, the lower one first, of all pairs of occupied cells [X,Y,Z] that touch (26
    neighbours)."""
    flat = occupied.reshape(-1)
    used = np.flatnonzero(flat)
    place = np.unravel_index(used, occupied.shape)
    low, high = [], []
    _, ny, nz = occupied.shape
    for step in [(i - 1, j - 1, k - 1) for i, j, k in np.ndindex(3, 3, 3)][14:]:  # the 13 behind (0, 0, 0)
        inside = np.ones(len(used), bool)
        for at, d, size in zip(place, step, occupied.shape, strict=True):
            inside &= at < size - 1 if d > 0 else at > 0 if d < 0 else True
        own = used[inside]
        other = own + (step[0] * ny + step[1]) * nz + step[2]
        both = flat[other]
        low.append(own[both])
        high.append(other[both])
    return np.concatenate(low).astype(np.int32), np.concatenate(high).astype(np.int32)


def _places(key: NDArray[np.uint64]) -> NDArray[np.int32] | None:
    """[V] number of each vertex's place, in the order of the first vertices there; None when all keys differ."""
    n = len(key)
    bits = np.uint64((n - 1).bit_length())
    last = np.uint64((1 << int(bits)) - 1)
    tagged = key & ~last
    tagged |= np.arange(n, dtype=np.uint32)  # so that sorting brings the vertex along, several times as fast as argsort
    tagged.sort()
    new = np.ones(n, bool)
    np.greater(tagged[1:] ^ tagged[:-1], last, out=new[1:])
    if new.all():
        return None
    tagged &= last
    order = tagged.astype(np.int32)
    del tagged
    first = _firsts(order, new)
    if any((key[first[i:i + _BLOCK]] != key[i:i + _BLOCK]).any() for i in range(0, n, _BLOCK)):
        order = np.argsort(key, kind="stable").astype(np.int32)  # two places agree in all but the last bits
        new[1:] = key[order[1:]] != key[order[:-1]]
        first = _firsts(order, new)
    del order, new
    number = np.cumsum(first == np.arange(n, dtype=np.int32), dtype=np.int32)
    number -= np.int32(1)
    return np.take(number, first)


def _firsts(order: NDArray[np.int32], new: NDArray[np.bool_]) -> NDArray[np.int32]:
    """[V] the first vertex at the place of each; in ``order`` places lie together, the first of each is ``new``."""
    start = np.flatnonzero(new)
    first = np.empty(len(order), np.int32)
    first[order] = np.repeat(order[start], np.diff(np.append(start, len(order))))
    return first


def _duplicates(faces: NDArray[np.int32], count: int) -> int:
    a, b, c = (np.ascontiguousarray(faces[:, k]) for k in range(3))
    low, high = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
    middle = a ^ b ^ c ^ low ^ high
    bits = np.uint64((count - 1).bit_length())
    key = low.astype(np.uint64) << bits
    key |= middle.astype(np.uint64)
    if 3 * int(bits) <= 64:
        key <<= bits
        key |= high.astype(np.uint64)
    else:
        key = _mix((key, high.astype(np.uint64)))
    key.sort()
    return int(np.count_nonzero(key[1:] == key[:-1]))


def _mix(columns: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """One well-spread 64-bit number for each row (the finaliser of splitmix64, chained over the columns)."""
    h: NDArray[np.uint64] | None = None
    for column in columns:
        if h is None:
            h = column.copy()
        else:
            h += column
        h += np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(30)
        h *= np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(27)
        h *= np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    assert h is not None
    return h
