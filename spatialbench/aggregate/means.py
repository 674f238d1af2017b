"""Means that no order of the values can change: computed exactly, rounded once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from spatialbench.aggregate.rounding import Number, exact

__all__ = ["exact_mean", "mean", "population_std", "weighted_mean"]

_SQRT_BITS = 128


def exact_mean(values: Iterable[Number]) -> Fraction:
    """Arithmetic mean as a fraction.

    Raises
    ------
    ValueError : when there is no value, or one is not finite.
    """
    total, n = _sum(_ratio(v) for v in values)
    if n == 0:
        raise ValueError("the mean of no values is undefined")
    return total / n


def mean(values: Iterable[Number]) -> float:
    """The float nearest to the exact mean."""
    return float(exact_mean(values))


def population_std(values: Sequence[Number]) -> float:
    """Standard deviation with ddof = 0 (eq. 27), from the exact variance; 0.0 for one value."""
    middle = exact_mean(values)
    squares, n = _sum((a * a, b * b) for a, b in map(_ratio, values))
    return _sqrt(squares / n - middle**2)


def weighted_mean(pairs: Iterable[tuple[Number, Number]]) -> Fraction:
    """Exact mean of (value, weight) pairs; weights need not sum to 1.

    Raises
    ------
    ValueError : when the weights are negative or sum to 0.
    """
    items = [(exact(v), exact(w)) for v, w in pairs]
    total = sum((w for _, w in items), Fraction(0))
    if total == 0 or any(w < 0 for _, w in items):
        raise ValueError("weights must not be negative, and one must be above 0")
    return sum((v * w for v, w in items), Fraction(0)) / total


def _ratio(x: Number) -> tuple[int, int]:
    """Numerator and denominator."""
    if type(x) is float and math.isfinite(x):
        return x.as_integer_ratio()
    f = exact(x)
    return f.numerator, f.denominator


def _sum(values: Iterable[tuple[int, int]]) -> tuple[Fraction, int]:
    # Numerators are added within each denominator first: floats share few, and fractions are slow to make and add.
    parts: dict[int, int] = {}
    n = 0
    for a, b in values:
        parts[b] = parts.get(b, 0) + a
        n += 1
    return sum((Fraction(p, d) for d, p in parts.items()), Fraction(0)), n


def _sqrt(x: Fraction) -> float:
    """Square root without a library's rounding, so that it is the same everywhere."""
    if x == 0:
        return 0.0
    # Scale by 4^shift until the integer part has well over 53 bits.
    shift = max(0, (_SQRT_BITS - x.numerator.bit_length() + x.denominator.bit_length() + 1) // 2)
    return float(Fraction(math.isqrt((x.numerator << 2 * shift) // x.denominator), 1 << shift))
