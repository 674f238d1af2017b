"""Means over resampled cases, exact in any order of summation.

Values become integers on a binary grid fine enough that every sum of every resample stays below 2^53. A float64
matrix product then makes no rounding error at all, so that neither the order of the terms nor the number of threads
nor the type of CPU can change a bit. What the grid leaves out is below 2^-37 of a metric's largest value for up to
16,000 cases.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Measurement

__all__ = ["CaseSums", "Statistic", "Values", "case_seed", "case_sums", "leave_one_out", "resample", "values_by_case",
           "weights"]

Array = NDArray[np.float64]
Values = Mapping[str, Sequence[float]]
"""Measured values by case id: one for a metric of the case, several for one of its objects."""
Statistic = Callable[[Array], Array]
"""Case weights [B,C] to one number for each of the B resamples; NaN where a resample leaves it undefined."""

_EXACT_BITS = 52
_BLOCK = 1 << 16
"""Cells of a block of weights: 512 KiB, so that drawing stays in the cache."""
_KEPT = 1 << 25
"""Up to so many cells (64 MiB) all weights are kept: metrics and systems mostly share their cases, and so the seed."""


def values_by_case(measurements: Iterable[Measurement]) -> dict[str, list[float]]:
    """Measured values of one metric and system by case; no sum made of them depends on their order."""
    found: dict[str, list[float]] = defaultdict(list)
    for m in measurements:
        if m.value is not None:
            found[m.case].append(m.value)
    return found


@dataclass(frozen=True)
class CaseSums:
    """Sums and counts of K columns of values over C cases.

    Attributes
    ----------
    cases : C ids, sorted; each has a value in some column.
    total : [C,K] sums as integers times 2^-shift.
    count : [C,K] numbers of values.
    shift : [K].
    low, high : [K] smallest and largest value of each column; NaN without any.
    """

    cases: tuple[str, ...]
    total: Array
    count: Array
    shift: NDArray[np.int32]
    low: Array
    high: Array

    @cached_property
    def _both(self) -> Array:
        return np.hstack([self.total, self.count])

    def means(self, weight: Array) -> Array:
        """[B,C] case weights to [B,K] means over values; NaN where no value has a weight."""
        both = weight @ self._both
        k = len(self.shift)
        with np.errstate(invalid="ignore"):
            found = np.ldexp(both[:, :k] / both[:, k:], -self.shift)
        return np.clip(found, self.low, self.high)


def case_sums(columns: Sequence[Values], family: Sequence[Hashable] | None = None) -> CaseSums:
    """Columns over the union of their cases.

    Parameters
    ----------
    columns : K columns; a case that is absent or has no values does not enter.
    family : K labels. Columns of one label share one grid, so that equal values have equal means; each its own
        when left out.
    """
    labels = list(range(len(columns))) if family is None else list(family)
    cases = tuple(sorted({c for column in columns for c, v in column.items() if len(v)}))
    row = {c: i for i, c in enumerate(cases)}
    shape = (len(cases), len(columns))
    total, count = np.zeros(shape), np.zeros(shape)
    shift = np.zeros(len(columns), np.int32)
    low, high = np.full(len(columns), np.nan), np.full(len(columns), np.nan)
    for label in dict.fromkeys(labels):
        members = [k for k, x in enumerate(labels) if x == label]
        lists = [v for k in members for v in columns[k].values() if len(v)]
        if not lists:
            continue
        top = max(abs(x) for v in lists for x in v)
        room = (1 << _EXACT_BITS) // (len(cases) * max(map(len, lists)))
        bits = room.bit_length() - 1 - math.frexp(top)[1] if top else 0
        for k in members:
            for case, values in columns[k].items():
                if len(values):
                    total[row[case], k] = sum(round(math.ldexp(x, bits)) for x in values)
                    count[row[case], k] = len(values)
            shift[k] = bits
            flat = [x for v in columns[k].values() for x in v]
            if flat:
                low[k], high[k] = min(flat), max(flat)
    return CaseSums(cases, total, count, shift, low, high)


def case_seed(cases: Iterable[str]) -> int:
    """48 bits of a hash of the set of case ids: the same cases give the same resamples, whatever their order."""
    text = json.dumps(sorted(set(cases)), separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def weights(n_cases: int, replicates: int, seed: int) -> Iterator[Array]:
    """How often each of the cases is drawn in each resample: blocks [B,C] of whole numbers with row sums C.

    The 64-bit words of PCG64 are used as they come (NumPy keeps that stream, not the ones of its distributions):
    the upper 32 bits times C, divided by 2^32.
    """
    rows = max(1, _BLOCK // n_cases)
    if n_cases * replicates <= _KEPT:
        drawn = _kept(n_cases, replicates, seed)
        yield from (drawn[i:i + rows].astype(np.float64) for i in range(0, replicates, rows))
        return
    bits = np.random.PCG64(seed)
    for start in range(0, replicates, rows):
        yield _draw(bits, n_cases, min(rows, replicates - start)).astype(np.float64)


@lru_cache(maxsize=2)
def _kept(n_cases: int, replicates: int, seed: int) -> NDArray[np.uint16]:
    bits = np.random.PCG64(seed)
    rows = max(1, _BLOCK // n_cases)
    out = np.concatenate([_draw(bits, n_cases, min(rows, replicates - start)).astype(np.uint16)
                          for start in range(0, replicates, rows)])
    out.setflags(write=False)
    return out


def _draw(bits: np.random.PCG64, n_cases: int, rows: int) -> NDArray[np.int64]:
    words = np.asarray(bits.random_raw(rows * n_cases), np.uint64)
    drawn = ((words >> np.uint64(32)) * np.uint64(n_cases) >> np.uint64(32)).astype(np.int64)
    drawn += np.repeat(np.arange(rows, dtype=np.int64) * n_cases, n_cases)
    return np.bincount(drawn, minlength=rows * n_cases).reshape(rows, n_cases)


def resample(statistic: Callable[[Array], Array], n_cases: int, replicates: int, seed: int) -> Array:
    """The statistic of every resample: [R], or [R,S] when it gives S numbers each."""
    return np.concatenate([statistic(w) for w in weights(n_cases, replicates, seed)])


def leave_one_out(n_cases: int) -> Array:
    """[C,C] weights of the C samples that lack one case each."""
    return 1.0 - np.eye(n_cases)
