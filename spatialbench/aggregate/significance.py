"""Tests that assume nothing of the distribution, and what many of them at once are worth."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

__all__ = ["holm", "sign_test"]


def sign_test(wins: int, losses: int) -> float:
    """Exact two-sided p-value of the sign test: how likely a split at least this uneven is among n fair coins.

    Ties are left out before. Without any win or loss it is 1.

    >>> sign_test(8, 1)
    0.0390625

    Raises
    ------
    ValueError : for negative counts.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"counts must not be negative, got {wins} and {losses}")
    n, fewer = wins + losses, min(wins, losses)
    if 2 * fewer == n:
        return 1.0
    term = total = 1
    for i in range(fewer):
        term = term * (n - i) // (i + 1)
        total += term
    return float(min(Fraction(1), Fraction(2 * total, 2**n)))


def holm(p_values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Holm's step-down adjustment: a family's error rate holds for those at most alpha, whatever their dependence.

    The i-th smallest of m is multiplied by m - i + 1, made not smaller than the one before, and cut at 1. None
    (nothing to test) stays None and does not count.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    ordered = sorted((p, name) for name, p in p_values.items() if p is not None)
    out: dict[str, float | None] = dict.fromkeys(p_values)
    reached = 0.0
    for i, (p, name) in enumerate(ordered):
        reached = max(reached, min(1.0, p * (len(ordered) - i)))
        out[name] = reached
    return out
