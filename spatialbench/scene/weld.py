"""Corners at one place: which vertices are one, which faces are there twice, and what hangs together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Welded", "components", "in_buckets", "numbered", "position_keys", "referred", "weld"]

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
    from spatialbench.scene import _mesh_kernels as kernels

    used = np.zeros(count, bool)
    kernels.mark(np.ascontiguousarray(faces), used)
    return used


def in_buckets(starts: NDArray[np.int64], values: NDArray) -> None:
    """Sort the large buckets ``values[starts[p]:starts[p + 1]]``; the loops that go through them sort the others."""
    from spatialbench.scene import _mesh_kernels as kernels

    for p in np.flatnonzero(np.diff(starts) > kernels.ALONE).tolist():
        values[starts[p]:starts[p + 1]].sort()


def position_keys(vertices: NDArray[np.float64]) -> NDArray[np.uint64]:
    """[V] a 64-bit hash of each position [V,3]: equal where all three coordinates are."""
    return _mix((vertices[:, k] + 0.0).view(np.uint64) for k in range(3))  # + 0.0 makes -0.0 and 0.0 one


def components(low: NDArray[np.int32], high: NDArray[np.int32], count: int) -> tuple[int, NDArray[np.int32]]:
    """Number of components with an edge, and that of each node [count] that has one, in the order of their least nodes.

    Edges are [E] ``low`` < ``high``.
    """
    from spatialbench.scene import _mesh_kernels as kernels

    parent = np.arange(count, dtype=np.int32)
    kernels.forest(low, high, parent)
    return numbered(parent, np.take(parent, low))


def numbered(parent: NDArray[np.int32], roots: NDArray[np.int32]) -> tuple[int, NDArray[np.int32]]:
    """From the least node of each one's component [N] to its number, counted over those of ``roots`` alone."""
    counted = np.zeros(len(parent), bool)
    counted[roots] = True
    return int(counted.sum()), np.take(np.cumsum(counted, dtype=np.int32) - np.int32(1), parent)


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
    from spatialbench.scene import _mesh_kernels as kernels

    starts, rest = np.zeros(count + 1, np.int64), np.empty(len(faces), np.uint64)
    kernels.fill_faces(np.ascontiguousarray(faces), starts, rest)
    in_buckets(starts, rest)
    return int(kernels.count_pairs(starts, rest))


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
