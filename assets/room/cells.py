"""Cells: rectangles of patches, each of which becomes a splat."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.assets.room.surface import Surface

__all__ = ["Cells", "coverage", "frames", "joined", "rows_of_cells"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Cells:
    """Rectangles of patches.

    Attributes
    ----------
    patch : [N] index.
    u0, u1, v0, v1 : [N] borders, within 0 to 1.
    free : [N,4] bool: beyond the borders u0, u1, v0, v1 there is nothing, so that the edge is seen.
    """

    patch: Index
    u0: Array
    u1: Array
    v0: Array
    v1: Array
    free: Mask

    def __len__(self) -> int:
        return len(self.patch)

    def __getitem__(self, keep: Mask | Index) -> Cells:
        return Cells(*(getattr(self, n)[keep] for n in ("patch", "u0", "u1", "v0", "v1", "free")))

    @property
    def middle(self) -> tuple[Array, Array]:
        """u, v of the middles."""
        return (self.u0 + self.u1) / 2, (self.v0 + self.v1) / 2

    def halves(self, along_u: Mask) -> tuple[Cells, Cells]:
        """Lower and upper half of each, along u or along v; inner borders are not free."""
        u, v = self.middle
        low, high = self.free.copy(), self.free.copy()
        low[along_u, 1] = high[along_u, 0] = False
        low[~along_u, 3] = high[~along_u, 2] = False
        return (replace(self, u1=np.where(along_u, u, self.u1), v1=np.where(along_u, self.v1, v), free=low),
                replace(self, u0=np.where(along_u, u, self.u0), v0=np.where(along_u, self.v0, v), free=high))


def joined(*parts: Cells) -> Cells:
    """In the order of patch and place, so that the same cells always give the same list."""
    c = Cells(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("patch", "u0", "u1", "v0", "v1", "free")))
    return c[np.lexsort((c.v0, c.u0, c.patch))]


def rows_of_cells(surface: Surface, widest: Array) -> Cells:
    """Cells about as wide and high as wanted: rows across v, and each row cut along u by its own length."""
    n = len(widest)
    everyone, zero, one = np.arange(n), np.zeros(n), np.ones(n)
    high = np.max([surface.lengths(everyone, (x * one, x * one), (zero, one), 64) for x in (0.1, 0.3, 0.5, 0.7, 0.9)],
                  axis=0)
    rows = np.maximum(1, np.round(high / widest)).astype(np.int64)
    patch, row = _counted(rows)
    v0, v1 = row / rows[patch], (row + 1) / rows[patch]
    middle = (v0 + v1) / 2
    zero, one = np.zeros(len(patch)), np.ones(len(patch))
    width = surface.lengths(patch, (zero, one), (middle, middle), 128)
    columns = np.maximum(np.where(surface.wraps[patch], 4, 1), np.round(width / widest[patch])).astype(np.int64)
    k, column = _counted(columns)
    out = Cells(patch[k], column / columns[k], (column + 1) / columns[k], v0[k], v1[k],
                np.zeros((len(k), 4), bool))
    return joined(out)


def _counted(counts: Index) -> tuple[Index, Index]:
    """For 2, 3: (0, 0, 1, 1, 1) and (0, 1, 0, 1, 2)."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def frames(surface: Surface, c: Cells) -> tuple[Array, Array, Array, Array]:
    """Middle, chords across u and v, and unit normal of each cell, [N,3] each."""
    u, v = c.middle
    across_u = surface.at(c.patch, c.u1, v)[0] - surface.at(c.patch, c.u0, v)[0]
    across_v = surface.at(c.patch, u, c.v1)[0] - surface.at(c.patch, u, c.v0)[0]
    normal = np.cross(across_u, across_v)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return surface.at(c.patch, u, v)[0], across_u, across_v, normal / np.maximum(length, 1e-12)


def coverage(surface: Surface, c: Cells, n: int = 6) -> Array:
    """Share of each cell where the patch has triangles."""
    share = np.ones(len(c))
    some = np.flatnonzero(surface.holed[c.patch])
    c, share[some] = c[some], 0
    for i in range(n):
        for j in range(n):
            share[some] += surface.at(c.patch, c.u0 + (i + 0.5) / n * (c.u1 - c.u0),
                                      c.v0 + (j + 0.5) / n * (c.v1 - c.v0))[1] / (n * n)
    return share.round(9)
