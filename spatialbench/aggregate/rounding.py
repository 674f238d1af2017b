"""Numbers as people see them. Nothing is computed from what is rounded here."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

__all__ = ["DASH", "Number", "exact", "half_up", "percent"]

Number = int | float | Decimal | Fraction
DASH = "–"
"""What a table shows where there is no score."""


def exact(x: Number) -> Fraction:
    """The number as a fraction; a float as the binary number that it is.

    Raises
    ------
    ValueError : when it is not finite.
    """
    try:
        return Fraction(x)
    except (ValueError, OverflowError):
        raise ValueError(f"{x!r} is not a finite number") from None


def half_up(x: Number | None, digits: int = 2) -> str:
    """``digits`` decimals, ties away from zero; a dash for None.

    A float is rounded as the shortest decimal that gives it back (what ``repr`` prints), so that 67.705
    becomes 67.71 although the binary number lies below the tie.

    >>> half_up(67.705), half_up(-0.005), half_up(0.004), half_up(None)
    ('67.71', '-0.01', '0.00', '–')
    """
    if x is None:
        return DASH
    f = exact(Decimal(repr(float(x))) if isinstance(x, float) else x)
    n = (abs(f) * 10**digits * 2 + 1) // 2
    whole, part = divmod(int(n), 10**digits)
    sign = "-" if f < 0 and n else ""
    return f"{sign}{whole}.{part:0{digits}d}" if digits else f"{sign}{whole}"


def percent(x: float | None, digits: int = 2) -> str:
    """100 times a score in [0,1], as ``half_up``: moved by two decimals, so that 0.57 is 57.00 and no tie is lost."""
    return half_up(None if x is None else Decimal(repr(float(x))) * 100, digits)
