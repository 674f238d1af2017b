"""A boolean grid over the horizontal plane whose cells are fixed to the world, not to a mesh's bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["PlanGrid"]


@dataclass(frozen=True, eq=False)
class PlanGrid:
    """Cells of the XY plane; cell (i, j) covers [i, i+1) x [j, j+1) times ``cell`` metres from the origin.

    Attributes
    ----------
    mask : [NX,NY] bool; ``mask[a, b]`` is cell (i0 + a, j0 + b).
    i0, j0 : world index of the first row and column.
    cell : edge length, metres.
    """

    mask: NDArray[np.bool_]
    i0: int
    j0: int
    cell: float = 0.05

    @property
    def count(self) -> int:
        """Number of marked cells."""
        return int(self.mask.sum())

    @property
    def area(self) -> float:
        """Marked area, square metres."""
        return self.count * self.cell * self.cell

    def contains(self, xy: ArrayLike) -> NDArray[np.bool_]:
        """[N] whether each point [N,2] (metres) lies in a marked cell."""
        p = np.atleast_2d(np.asarray(xy, dtype=np.float64))
        # Compared as floats: a point may be farther away than an integer can count cells.
        ij = np.floor(p / self.cell) - [self.i0, self.j0]
        inside = ((ij >= 0) & (ij < self.mask.shape)).all(axis=1)
        out = np.zeros(len(p), dtype=bool)
        out[inside] = self.mask[tuple(ij[inside].astype(np.int64).T)]
        return out

    def aligned_to(self, other: PlanGrid) -> PlanGrid:
        """The same cells in an array of ``other``'s extent; cells outside it are dropped."""
        if self.cell != other.cell:
            raise ValueError(f"grids of {self.cell} and {other.cell} m cells cannot be aligned")
        out = np.zeros_like(other.mask)
        a, b = self.i0 - other.i0, self.j0 - other.j0
        lo = np.maximum([a, b], 0)
        hi = np.minimum([a + self.mask.shape[0], b + self.mask.shape[1]], other.mask.shape)
        if (hi > lo).all():
            out[lo[0]:hi[0], lo[1]:hi[1]] = self.mask[lo[0] - a:hi[0] - a, lo[1] - b:hi[1] - b]
        return PlanGrid(out, other.i0, other.j0, other.cell)

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """x0, x1, y0, y1 of the whole array, metres."""
        nx, ny = self.mask.shape
        c = self.cell
        return self.i0 * c, (self.i0 + nx) * c, self.j0 * c, (self.j0 + ny) * c
