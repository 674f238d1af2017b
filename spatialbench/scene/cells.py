"""Which occupied cells of a grid hang together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.weld import numbered

__all__ = ["Clusters", "clusters_of"]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of cells that touch (26 neighbours), as runs of cells along the last axis.

    Attributes
    ----------
    count : number of clusters.
    shape : of the grid, [X,Y,Z].
    first, last : [R] flat numbers of the ends of each run, ascending.
    number : [R] cluster of each run, in the order of their first cells.
    """

    count: int
    shape: tuple[int, int, int]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    number: NDArray[np.int32]

    def labels(self) -> NDArray[np.int32]:
        """[X*Y*Z] number of each cell's cluster; -1 where it is not occupied."""
        from spatialbench.scene import _cell_kernels as kernels

        out = np.full(int(np.prod(self.shape)), -1, np.int32)
        kernels.spread_numbers(self.first, self.last, self.number, out)
        return out

    def sums(self, counts: NDArray[np.int32]) -> NDArray[np.int64]:
        """[count] sum over the cells [X*Y*Z] of each cluster."""
        from spatialbench.scene import _cell_kernels as kernels

        out = np.zeros(self.count, np.int64)
        kernels.sum_runs(self.first, self.last, counts, self.number, out)
        return out

    def cells(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """[X*Y*Z] whether a cell is in a cluster that is ``chosen`` [count]."""
        from spatialbench.scene import _cell_kernels as kernels

        out = np.zeros(int(np.prod(self.shape)), bool)
        kernels.spread_marks(self.first, self.last, np.take(chosen, self.number), out)
        return out


def clusters_of(occupied: NDArray[np.bool_]) -> Clusters:
    """The clusters of occupied cells [X,Y,Z], of which there are fewer than 2^31."""
    from spatialbench.scene import _cell_kernels as kernels

    nx, ny, nz = occupied.shape
    first, last = np.empty((2, nx * ny * ((nz + 1) // 2)), np.int32)
    row = np.empty(nx * ny + 1, np.int32)
    runs = kernels.runs_of(occupied, first, last, row)
    first, last = first[:runs].copy(), last[:runs].copy()
    parent = np.arange(runs, dtype=np.int32)
    kernels.join_runs(first, last, row, nx, ny, nz, parent)
    count, number = numbered(parent, parent)
    return Clusters(count, (nx, ny, nz), first, last, number)
