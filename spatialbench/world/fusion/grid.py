"""The voxels on which depth is fused."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Grid", "make_grid"]


@dataclass(frozen=True, eq=False)
class Grid:
    """Cubes that fill a box.

    Attributes
    ----------
    low : [3] float64 lowest corner, world frame, m.
    voxel : edge length, m. The centre of voxel (i, j, k) is ``low + voxel ((i, j, k) + 1/2)``.
    shape : voxels along x, y and z, at least 2 each.
    """

    low: NDArray[np.float64]
    voxel: float
    shape: tuple[int, int, int]

    @property
    def high(self) -> NDArray[np.float64]:
        """[3] highest corner."""
        return self.low + self.voxel * np.array(self.shape)

    def index(self, point: ArrayLike) -> tuple[int, int, int] | None:
        """The voxel that holds a point [3], or None outside."""
        at = np.floor((np.asarray(point, np.float64) - self.low) / self.voxel)
        if (at < 0).any() or (at >= self.shape).any():
            return None
        i, j, k = (int(a) for a in at)
        return i, j, k


def make_grid(low: ArrayLike, high: ArrayLike, voxel: float, max_voxels: float) -> Grid:
    """A grid that starts at ``low`` [3] and reaches ``high`` [3] or up to one voxel beyond.

    Voxels are ``voxel`` m, or as little larger as it takes (to 1 %) to have at most ``max_voxels``.

    Raises
    ------
    ValueError : corners that are no box, or a box that so few voxels cannot fill.
    """
    a, b = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if a.shape != (3,) or b.shape != (3,) or not (np.isfinite(a).all() and np.isfinite(b).all() and (a < b).all()):
        raise ValueError(f"low and high must be finite and low < high along each axis, got {low!r} and {high!r}")
    if max_voxels < 8:
        raise ValueError(f"a grid has at least 8 voxels, got max_voxels = {max_voxels}")
    while True:
        # A box of 2 m has 40 voxels of 0.05 m, not 41 because of a rounding.
        along = np.maximum(np.ceil((b - a) / voxel - 1e-6), 2.0)
        if not along.prod() > max_voxels:
            i, j, k = (int(n) for n in along)
            return Grid(a, float(voxel), (i, j, k))
        voxel *= max(1.01, math.cbrt(along.prod() / max_voxels) if along.prod() < 1e30 else 1e6)
