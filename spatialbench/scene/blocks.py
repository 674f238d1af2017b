"""Work on long arrays block by block, several blocks at a time, and the figures of a column that need no full sort."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "box", "in_blocks", "lengths", "median", "picked", "quantiles", "share_of", "threads"]

BLOCK = 8192
"""Rows that are worked on at a time: a block of the widest files stays in the cache."""
_FOLD = 256
_ALONE = 8 * BLOCK
"""Rows up to which threads cost more than they save."""
_MOST_THREADS = 4


def in_blocks(n: int, work: Callable[[slice], None], size: int = BLOCK) -> None:
    """Call ``work`` for every block of ``n`` rows; each must write to its own rows alone: order plays no part."""
    parts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    count = 1 if n <= _ALONE else min(threads(), len(parts))
    if count == 1:
        for part in parts:
            work(part)
        return

    rest = iter(parts)  # handed out one by one: a thread that the machine holds up takes fewer

    def some() -> None:
        with np.errstate(all="ignore"):  # its setting belongs to a thread; bad numbers are looked for and named
            for part in rest:
                work(part)

    with ThreadPoolExecutor(count - 1) as pool:
        others = [pool.submit(some) for _ in range(count - 1)]
        some()
        for other in others:
            other.result()


def picked(chosen: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
    """Places of the chosen of a mask [N], or where these are more than ``most``, of every so-manyth of them."""
    from spatialbench.scene.splats import _kernels as kernels

    count = int(np.count_nonzero(chosen))
    step = max(1, -(-count // most))
    out = np.empty(-(-count // step), np.int64)
    kernels.every(chosen, step, out)
    return out


def share_of(n: int) -> int:
    """Rows for each thread, for work that keeps a sum of its own for each block; at least 1."""
    return max(1, -(-n // (1 if n <= _ALONE else threads())))


def threads() -> int:
    """How many threads reading may use: the cores that may be used, ``SPATIALBENCH_THREADS``, at most four."""
    limit = os.environ.get("SPATIALBENCH_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_MOST_THREADS, max(1, min(cores, int(limit))) if limit.isdigit() else cores)


def box(points: NDArray) -> NDArray:
    """[2,K] ends of points [N,K], N > 0, as along axis 0, in a hundredth of the time: many points make one row."""
    k = points.shape[1]
    whole = len(points) // _FOLD * _FOLD if points.flags.c_contiguous else 0
    rest, out = points[whole:], []
    for ends in (np.minimum, np.maximum):
        wide = ends.reduce(points[:whole].reshape(-1, _FOLD * k), axis=0).reshape(-1, k) if whole else points[:0]
        out.append(ends.reduce(np.concatenate([wide, rest]), axis=0))
    return np.array(out)


def lengths(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """[N] as ``np.linalg.norm`` along axis 1, to the bit, in a quarter of the time."""
    squares = points[:, 0] ** 2
    for k in (1, 2):
        squares += points[:, k] ** 2
    return np.sqrt(squares, out=squares)


def quantiles(values: NDArray, shares: Sequence[float]) -> NDArray[np.float64]:
    """Quantiles of values [N], N > 0 without NaN, at ascending shares, to the bit as ``np.quantile`` interpolates them
    (linearly). Each is looked for above the one before it: NumPy's own of several at once takes ten times as long.
    """
    out, rest, start = [], values.copy(), 0
    for share in shares:
        place = (len(values) - 1) * share
        at = int(place)
        rest.partition(at - start)
        rest, start = rest[at - start:], at
        low, high = rest[0], rest[1:].min() if len(rest) > 1 else rest[0]
        step, t = float(high - low), place - at
        out.append(float(high) - step * (1 - t) if t >= 0.5 else float(low) + step * t)
    return np.array(out)


def median(values: NDArray) -> float:
    """Median of values [N], N > 0 without NaN, as ``np.median`` gives it: in the type of the values."""
    low, high = _neighbours(values, (len(values) - 1) // 2)
    return float(low if len(values) % 2 else np.mean(np.array([low, high])))


def _neighbours(values: NDArray, at: int) -> tuple[np.floating, np.floating]:
    """The value at place ``at`` of the sorted ones, and the one behind it (itself at the end)."""
    part = np.partition(values, at)
    behind = part[at + 1:]
    return part[at], behind.min() if len(behind) else part[at]
