"""Exact means, and rounding for the eye."""

import statistics
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.aggregate import DASH, exact_mean, half_up, mean, population_std, weighted_mean
from spatialbench.aggregate.rounding import percent

finite = st.floats(allow_nan=False, allow_infinity=False)


def test_means_by_hand():
    assert mean([1, 2, 6]) == 3
    assert mean([1e308, 1e308, -1e308]) == pytest.approx(1e308 / 3)  # a running sum would overflow
    assert mean([1e16, 1.0, -1e16]) == 1 / 3                          # and lose the 1
    assert mean([0.1] * 10) == 0.1
    assert exact_mean([Decimal("0.1"), Fraction(1, 5)]) == Fraction(3, 20)
    with pytest.raises(ValueError, match="no values"):
        mean([])
    with pytest.raises(ValueError, match="finite"):
        mean([float("nan")])
    with pytest.raises(ValueError, match="finite"):
        mean([float("inf")])


@given(st.lists(finite, min_size=1, max_size=20), st.randoms())
def test_the_order_does_not_matter_and_the_value_is_the_nearest_float(values, rng):
    shuffled = list(values)
    rng.shuffle(shuffled)
    assert mean(values) == mean(shuffled) == float(sum(map(Fraction, values)) / len(values))
    if max(map(abs, values)) < 1e150:
        assert population_std(values) == population_std(shuffled)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20))
def test_population_std(values):
    middle = sum(map(Fraction, values)) / len(values)
    variance = sum((Fraction(v) - middle) ** 2 for v in values) / len(values)
    s = Fraction(population_std(values))
    if variance == 0:
        assert s == 0
    else:
        # Nearest float: half an ulp, 2^-53, of the root is 2^-52 of the square; subnormals aside.
        assert abs(s * s / variance - 1) < Fraction(1, 2**50) or variance < Fraction(1, 10**600)
    assert float(s) == pytest.approx(statistics.pstdev(values), rel=1e-9, abs=1e-12)


def test_population_std_by_hand():
    assert population_std([1, 3]) == 1
    assert population_std([0.25] * 7) == 0
    assert population_std([2.0]) == 0


def test_weighted_mean():
    pairs = [(Fraction(1, 2), Decimal("0.2")), (Fraction(1), Decimal("0.3"))]
    assert weighted_mean(pairs) == Fraction(4, 5)
    for bad in ([], [(1, 0)], [(1, 2), (1, -1)]):
        with pytest.raises(ValueError, match="weights"):
            weighted_mean(bad)


@pytest.mark.parametrize(("x", "digits", "want"), [
    (67.705, 2, "67.71"), (79.095, 2, "79.10"), (0.895, 2, "0.90"), (2.675, 2, "2.68"), (0.125, 2, "0.13"),
    (-0.125, 2, "-0.13"), (-0.004, 2, "0.00"), (0.005, 2, "0.01"), (99.995, 2, "100.00"), (5, 2, "5.00"),
    (2.5, 0, "3"), (1e21, 1, "1000000000000000000000.0"), (Decimal("1.005"), 2, "1.01"), (Fraction(1, 3), 4, "0.3333"),
    (Fraction(67705, 1000), 2, "67.71"), (None, 2, DASH),
])
def test_half_up(x, digits, want):
    assert half_up(x, digits) == want


@given(st.floats(-1e6, 1e6), st.integers(0, 5))
def test_half_up_against_decimal(x, digits):
    want = Decimal(repr(x)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    assert Decimal(half_up(x, digits)) == want


def test_percent_moves_the_point():
    assert percent(0.57) == "57.00"
    assert percent(0.67705) == "67.71"   # 0.67705 * 100 is 67.70500000000001 or less, by luck
    assert percent(0.28675) == "28.68"   # 0.28675 * 100 = 28.674999999999997
    assert percent(None) == DASH
