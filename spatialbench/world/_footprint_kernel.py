"""Compiled inner loops of the footprint; loaded on first use, since compiling takes seconds once."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["bucket_starts", "cell_ids", "mark_cells"]


def bucket_starts(cumulative: NDArray[np.float64]) -> NDArray[np.int64]:
    """[B+1] where the search in ``cumulative`` starts for draws in each of B equal parts of [0,1).

    B is a power of two, so that draw x B is exact: looking between two neighbouring entries then finds the very
    face that a search of the whole array would.
    """
    n_buckets = 1 << min(max(len(cumulative).bit_length(), 10), 22)
    edges = np.arange(n_buckets + 1) / n_buckets * cumulative[-1]
    found = np.searchsorted(cumulative, edges, side="right")
    return np.minimum(found, len(cumulative) - 1).astype(np.int64)


@numba.njit(cache=True, nogil=True)
def _cell(k, r1, r2, pick, total, cumulative, starts, planes, size):  # type: ignore[no-untyped-def]
    """World cell of sample ``k``; ``planes`` [F,6] holds A, B - A and C - A in plan."""
    target = pick[k] * total
    bucket = int(pick[k] * (len(starts) - 1))
    low, high = starts[bucket], starts[bucket + 1]
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > target:
            high = middle
        else:
            low = middle + 1
    root = np.sqrt(r1[k])
    b, c = root * (1.0 - r2[k]), root * r2[k]
    x = planes[low, 0] + b * planes[low, 2] + c * planes[low, 4]
    y = planes[low, 1] + b * planes[low, 3] + c * planes[low, 5]
    return np.int64(np.floor(x / size)), np.int64(np.floor(y / size))


@numba.njit(cache=True, nogil=True)
def mark_cells(pick, r1, r2, cumulative, starts, planes, size, i0, j0, mask):  # type: ignore[no-untyped-def]
    """Mark the cell of every sample in ``mask`` [NX,NY], whose first cell is (i0, j0)."""
    total = cumulative[-1]
    for k in range(len(pick)):
        i, j = _cell(k, r1, r2, pick, total, cumulative, starts, planes, size)
        mask[i - i0, j - j0] = True


@numba.njit(cache=True, nogil=True)
def cell_ids(pick, r1, r2, cumulative, starts, planes, size, i0, j0, ny, out):  # type: ignore[no-untyped-def]
    """Write (i - i0) * ny + (j - j0) of every sample to ``out`` [N] int64."""
    total = cumulative[-1]
    for k in range(len(pick)):
        i, j = _cell(k, r1, r2, pick, total, cumulative, starts, planes, size)
        out[k] = (i - i0) * ny + (j - j0)
