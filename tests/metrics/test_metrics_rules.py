"""Ratios, recalls and composites: values by hand, and which status every case gets."""

import math
import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.metrics.harmonic import (
    harmonic,
    inverse_dispersion,
    place_dispersion,
    place_f1,
    place_recall,
    population_std,
    usable_recall,
)
from spatialbench.metrics.navigation import navigable_ratio
from spatialbench.metrics.placement import NO_SUPPORT, tabletop_ready_rate
from spatialbench.metrics.ruling import Ruling
from spatialbench.types import Status


def told(r):
    return r.value, r.status, r.reason


@pytest.mark.parametrize(("largest", "footprint", "want"), [
    (6.0, 8.0, (0.75, Status.MEASURED, "")),
    (9.0, 8.0, (1.125, Status.MEASURED, "")),                       # may exceed 1
    (0.0, 8.0, (0.0, Status.MEASURED, "no_navigable_component")),
    (None, 8.0, (0.0, Status.MEASURED, "navmesh_build_failed")),    # OPEN-9
    (None, 0.0, (None, Status.INVALID, "empty_footprint")),
    (0.0, 0.0, (None, Status.INVALID, "empty_footprint")),
    (3.0, 0.0, (None, Status.INVALID, "empty_footprint")),
])
def test_navigable_ratio(largest, footprint, want):
    assert told(navigable_ratio(largest, footprint)) == want


def test_negative_areas_are_a_programming_error():
    with pytest.raises(ValueError, match="negative"):
        navigable_ratio(-1.0, 2.0)


def test_placement_divides_by_the_kept_trials():
    assert told(tabletop_ready_rate([True, False, True, True])) == (0.75, Status.MEASURED, "")
    assert told(tabletop_ready_rate([False])) == (0.0, Status.MEASURED, "")
    assert told(tabletop_ready_rate([])) == (0.0, Status.MEASURED, "no_placement_location")
    assert told(tabletop_ready_rate([], NO_SUPPORT)) == (0.0, Status.MEASURED, "no_support_surface")
    assert tabletop_ready_rate([True], NO_SUPPORT).reason == ""


def test_harmonic_values_of_the_spec():
    assert harmonic(0.5, 0.25) == pytest.approx(1 / 3, rel=1e-15)
    assert harmonic(0, 0) == 0
    assert harmonic(0, 1) == harmonic(1, 0) == 0
    assert harmonic(1, 1) == 1


unit = st.floats(0, 1)


@given(unit, unit)
def test_harmonic_lies_between_and_is_symmetric(p, r):
    h = harmonic(p, r)
    assert h == pytest.approx(harmonic(r, p), rel=1e-15, abs=1e-300)
    assert 0 <= h <= 1
    if p > 1e-300 and r > 1e-300:
        want = 2 / (1 / Fraction(p) + 1 / Fraction(r))
        assert h == pytest.approx(float(want), rel=1e-14)


def test_population_std_has_no_bessel_correction():
    assert population_std([1.0, 3.0]) == 1.0  # ddof 1 would give sqrt(2)
    assert population_std([2, 4, 4, 4, 5, 5, 7, 9]) == 2.0
    assert population_std([5.0]) == 0.0
    with pytest.raises(ValueError, match="no values"):
        population_std([])


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=12), st.randoms())
def test_population_std_against_the_standard_library(values, rng):
    s = population_std(values)
    assert s == pytest.approx(statistics.pstdev(values), rel=1e-9, abs=1e-12)
    shuffled = list(values)
    rng.shuffle(shuffled)
    assert population_std(shuffled) == s


def test_inverse_dispersion():
    assert inverse_dispersion(0) == 1
    assert inverse_dispersion(3) == 0.25


def test_dispersion_includes_the_origin():
    assert told(place_dispersion(1.0, [3.0, None])) == (1.0, Status.MEASURED, "")
    assert told(place_dispersion(None, [3.0, 4.0])) == (None, Status.INVALID, "origin_not_scored")
    assert told(place_dispersion(1.0, [None, None])) == (None, Status.INVALID, "no_location_scored")
    assert told(place_dispersion(1.0, [])) == (None, Status.INVALID, "no_location_scored")


YES, NO = True, False


@pytest.mark.parametrize(("usable", "scored", "origin", "want"), [
    ([YES] * 8, [YES] * 8, True, (1.0, Status.MEASURED, "")),
    ([YES] * 6 + [NO] * 2, [YES] * 5 + [NO] * 3, True, (5 / 8, Status.MEASURED, "")),
    ([YES, NO], [YES, YES], True, (1 / 8, Status.MEASURED, "")),           # scored but not usable
    ([YES] * 8, None, True, (None, Status.UNAVAILABLE, "locations_not_scored")),
    ([], None, True, (None, Status.UNAVAILABLE, "locations_not_scored")),
    ([YES] * 8, [YES] * 8, False, (0.0, Status.MEASURED, "origin_not_scored")),
    ([YES] * 8, [NO] * 8, True, (0.0, Status.MEASURED, "no_location_scored")),
    ([NO] * 8, [NO] * 8, True, (0.0, Status.MEASURED, "no_usable_location")),
    ([], [], True, (0.0, Status.MEASURED, "no_usable_location")),
])
def test_place_recall(usable, scored, origin, want):
    assert told(place_recall(usable, scored, origin)) == want


def test_usable_recall_is_over_eight_slots():
    assert usable_recall([YES] * 6) == 0.75
    assert usable_recall([]) == 0
    with pytest.raises(ValueError, match="9 locations for 8 slots"):
        usable_recall([YES] * 9)


def test_place_f1_value_of_the_spec():
    assert place_f1(0.5, 0.75).value == pytest.approx(0.705882, abs=5e-7)  # six printed digits


@given(st.floats(0, 50), st.integers(1, 8))
def test_place_f1_equals_the_closed_form(s, k):
    r = k / 8
    assert place_f1(s, r).value == pytest.approx(2 * r / (1 + r * (1 + s)), rel=1e-13)


def test_place_f1_statuses():
    assert told(place_f1(None, None)) == (None, Status.UNAVAILABLE, "place_recall_missing")
    assert told(place_f1(1.0, None)) == (None, Status.UNAVAILABLE, "place_recall_missing")
    assert told(place_f1(None, 0.0)) == (0.0, Status.MEASURED, "zero_recall")
    assert told(place_f1(1.0, 0.0)) == (0.0, Status.MEASURED, "zero_recall")
    with pytest.raises(ValueError, match="without a dispersion"):
        place_f1(None, 0.5)


def test_composites_are_formed_per_case():
    # Eq. 77: the mean of F is not the F of the means.
    per_case = [place_f1(s, r).value for s, r in ((0.0, 1.0), (4.0, 0.125))]
    of_means = harmonic((1 + 0.2) / 2, (1 + 0.125) / 2)
    assert math.fsum(per_case) / 2 == pytest.approx((1 + 2 * 0.2 * 0.125 / 0.325) / 2)
    assert abs(math.fsum(per_case) / 2 - of_means) > 0.001


def test_a_ruling_is_never_half():
    with pytest.raises(ValueError, match="does not go with"):
        Ruling(None, Status.MEASURED)
    with pytest.raises(ValueError, match="does not go with"):
        Ruling(0.0, Status.INVALID, "x")
    with pytest.raises(ValueError, match="needs a reason"):
        Ruling(None, Status.INVALID)
