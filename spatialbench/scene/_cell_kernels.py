"""Compiled loops over the cells of a grid; loaded on first use, as importing numba takes a while.

Cells [X,Y,Z] have flat numbers, the last axis runs fastest. Nothing is checked here.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spatialbench.scene._mesh_kernels import join, settle

__all__ = ["join_runs", "runs_of", "spread_marks", "spread_numbers", "sum_runs"]

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


@njit(cache=True, nogil=True)
def runs_of(occupied: Mask, first: I32, last: I32, row: I32) -> int:
    """Number of runs of occupied cells [X,Y,Z] along Z; into ``first`` and ``last`` go the flat numbers of the ends of
    each, in order, into ``row`` [X*Y + 1] the first run of each row."""
    nx, ny, nz = occupied.shape
    runs = 0
    for i in range(nx):
        for j in range(ny):
            place, inside = i * ny + j, False
            row[place] = runs
            for k in range(nz):
                if occupied[i, j, k] != inside:
                    inside = not inside
                    if inside:
                        first[runs] = place * nz + k
                    else:
                        last[runs] = place * nz + k - 1
                        runs += 1
            if inside:
                last[runs] = place * nz + nz - 1
                runs += 1
    row[nx * ny] = runs
    return runs


@njit(cache=True, nogil=True)
def join_runs(first: I32, last: I32, row: I32, nx: int, ny: int, nz: int, parent: I32) -> None:
    """Let ``parent`` [R] be the least run of each one's cluster: those that touch by a face, an edge or a corner."""
    for i in range(nx):
        for j in range(ny):
            own = i * ny + j
            for back in range(4):  # the rows beside this one that come before it
                a, b = (i, j - 1) if back == 3 else (i - 1, j - 1 + back)
                if a < 0 or b < 0 or b >= ny:
                    continue
                other = a * ny + b
                shift = (own - other) * nz
                p, q = row[own], row[other]
                while p < row[own + 1] and q < row[other + 1]:
                    if first[p] <= last[q] + shift + 1 and first[q] + shift <= last[p] + 1:
                        join(parent, p, q)
                    if last[p] < last[q] + shift:
                        p += 1
                    else:
                        q += 1
    settle(parent)


@njit(cache=True, nogil=True)
def spread_numbers(first: I32, last: I32, number: I32, out: I32) -> None:
    """Give the cells of each run its number."""
    for r in range(len(first)):
        out[first[r]:last[r] + 1] = number[r]


@njit(cache=True, nogil=True)
def spread_marks(first: I32, last: I32, marked: Mask, out: Mask) -> None:
    """Mark the cells of the marked runs."""
    for r in range(len(first)):
        if marked[r]:
            out[first[r]:last[r] + 1] = True


@njit(cache=True, nogil=True)
def sum_runs(first: I32, last: I32, count: I32, number: I32, sums: I64) -> None:
    """Add up the counts of cells, cluster by cluster."""
    for r in range(len(first)):
        for cell in range(first[r], last[r] + 1):
            sums[number[r]] += count[cell]
