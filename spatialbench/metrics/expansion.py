"""How far a world grew, and what became of the old part (M26 to M30, eqs. 72 to 76)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.ruling import Ruling, no_value, ruled
from spatialbench.types import PlanGrid, Status

__all__ = ["NO_NEW_CELLS", "area_ratio", "centroid", "lost_cells", "mean_difference", "new_cells"]

NO_NEW_CELLS = "no_new_cells"


def area_ratio(before: float, after: float) -> Ruling:
    """M26 (eq. 72): A(F_1) / A(F_0) of one case; 1 is no change, and growth and loss can cancel.

    Parameters
    ----------
    before, after : footprint areas, m2, on one grid.
    """
    if not before > 0:
        return no_value(Status.INVALID, "empty_footprint_before")
    return ruled(after / before, "" if after > 0 else "empty_footprint_after")


def new_cells(before: PlanGrid, after: PlanGrid) -> PlanGrid:
    """F+ = F_1 without F_0, in the extent of ``after``.

    Raises
    ------
    ValueError : cells of different sizes.
    """
    return PlanGrid(after.mask & ~before.aligned_to(after).mask, after.i0, after.j0, after.cell)


def lost_cells(before: PlanGrid, after: PlanGrid) -> PlanGrid:
    """F_0 without F_1, in the extent of ``before``; no metric, but what an unchanged area may hide."""
    return new_cells(after, before)


def centroid(cells: PlanGrid) -> NDArray[np.float64] | None:
    """[2] mean of the cells' centres, m: their area-weighted centroid. None without a cell.

    It need not lie on a cell.
    """
    at = np.argwhere(cells.mask)
    if not len(at):
        return None
    # Integer sums are exact, so that no order of adding can change a bit.
    total = at.sum(axis=0)
    return np.asarray((total / len(at) + 0.5 + [cells.i0, cells.j0]) * cells.cell)


def mean_difference(first: Sequence[float], second: Sequence[float]) -> float:
    """Mean over paired frames of first - second (eqs. 73, 75 and 76).

    Raises
    ------
    ValueError : no frame, or not as many on both sides.
    """
    if len(first) != len(second) or not len(first):
        raise ValueError(f"{len(first)} and {len(second)} frames make no pairs")
    return math.fsum(a - b for a, b in zip(first, second, strict=True)) / len(first)
