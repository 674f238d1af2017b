"""M16 to M24: every rule of the spec's section 9 with values worked out by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.metrics.objects import (
    NOT_LIFTED,
    closed_points,
    judged_object,
    object_dispersion,
    object_f1,
    object_recall,
    orbit_radius,
    reward_precision,
    start_points,
    track_accuracy,
    track_order,
)
from spatialbench.metrics.ruling import no_value, ruled
from spatialbench.types import Status

KEYS = ("inside_scene", "target_visible", "artifact_free", "complete")
NONE = no_value(Status.UNAVAILABLE, "no model")
VIEW = st.none() | st.tuples(*[st.booleans()] * 4).map(lambda t: dict(zip(KEYS, t, strict=True)))


def flags(*seen: int, of: int = 24) -> list[bool]:
    return [k in seen for k in range(of)]


def views(text: str) -> list[dict[str, bool] | None]:
    """One word a view: a letter of i, v, a, c for each answer that is yes; ``?`` for no answer."""
    return [None if w == "?" else {k: c in w for k, c in zip(KEYS, "ivac", strict=True)} for w in text.split()]


# --- M16 to M18 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seen", "ruling"), [
    ((), ruled(0.0, "not_detected")), ((5,), ruled(0.0, "too_few_detections")), ((5, 17), ruled(1 / 12)),
    (tuple(range(24)), ruled(1.0))])
def test_m16_needs_two_views(seen, ruling):  # spec section 16: 0, 0, 1/12, 1
    assert object_recall(flags(*seen)) == ruling


def test_m16_of_an_object_that_could_not_be_lifted():
    assert object_recall(None) == ruled(0.0, NOT_LIFTED)


@given(st.permutations(flags(0, 3, 4, 11)))
def test_m16_does_not_depend_on_the_order_of_views(order):
    assert object_recall(order) == ruled(4 / 24)


@pytest.mark.parametrize(("rewards", "ruling"), [
    (None, no_value(Status.INVALID, NOT_LIFTED)), ([], no_value(Status.INVALID, "too_few_crops")),
    ([3.0], no_value(Status.INVALID, "too_few_crops")), ([4.0, 4.0], ruled(0.0)),
    ([1.0, 3.0], ruled(1.0)),  # ddof 1 would be 1.414
    ([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], ruled(2.0))])
def test_m17(rewards, ruling):
    assert object_dispersion(rewards) == ruling


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=24), st.data())
def test_m17_does_not_depend_on_the_order_of_views(rewards, data):
    assert object_dispersion(rewards) == object_dispersion(data.draw(st.permutations(rewards)))


def test_m18():
    # s = 1: p = 1/2; H(1/2, 3/4) = 0.75 / 1.25
    assert object_f1(reward_precision(ruled(1.0)), ruled(0.75)).value == pytest.approx(0.6)
    assert object_f1(reward_precision(ruled(0.0)), ruled(1.0)) == ruled(1.0)


@pytest.mark.parametrize("precision", [NONE, no_value(Status.INVALID, "too_few_crops"), ruled(0.7)])
def test_a_recall_of_zero_is_zero_whatever_the_precision(precision):
    recall = object_recall(flags(3))
    assert object_f1(precision, recall) == ruled(0.0, "too_few_detections")


@pytest.mark.parametrize("gap", [NONE, no_value(Status.INVALID, "too_few_crops")])
def test_a_recall_above_zero_without_a_precision_has_no_value(gap):
    assert object_f1(gap, ruled(0.5)) == gap
    assert object_f1(reward_precision(gap), ruled(0.5)) == gap


def test_no_recall_no_value():
    assert object_f1(ruled(1.0), NONE) == NONE


# --- M19 and M20 ------------------------------------------------------------------------------------------


def test_m19_begins_with_the_first_visible_view_and_repeats_it():
    assert track_order(flags(3, 7, 20)) == (*range(3, 24), 0, 1, 2, 3)
    assert track_order(flags(0)) == (*range(24), 0)
    assert track_order(flags()) == ()


@given(st.lists(st.booleans(), min_size=1, max_size=30).filter(any), st.integers(0, 30))
def test_a_turned_orbit_is_followed_from_a_visible_view_through_all(seen, turn):
    turned = seen[turn % len(seen):] + seen[:turn % len(seen)]
    order = track_order(turned)
    n = len(seen)
    assert len(order) == n + 1
    assert order[0] == order[-1]
    assert turned[order[0]]
    assert not any(turned[:order[0]])
    assert sorted(order[:-1]) == list(range(n))
    assert all(b == (a + 1) % n for a, b in pairwise(order))


def test_points_are_drawn_without_replacement_from_usable_pixels():
    usable = np.zeros((20, 30), bool)
    usable[3:10, 5:20] = True  # 105
    points = start_points(usable)
    assert points.shape == (64, 2)
    assert len(np.unique(points, axis=0)) == 64
    assert usable[tuple(points.T)].all()
    assert (start_points(usable) == points).all()
    assert (start_points(usable, seed=1) != points).any()


def test_points_repeat_where_there_are_fewer_pixels():
    usable = np.zeros((8, 8), bool)
    usable[2, 3:6] = True
    points = start_points(usable)
    assert points.shape == (64, 2)
    assert usable[tuple(points.T)].all()
    assert start_points(np.zeros((8, 8), bool)).shape == (0, 2)


def test_points_are_drawn_uniformly():
    """Of 4 x 64 pixels 64 are taken, over 100 seeds: 25 times each, +- 5 sigma of a binomial (4.33) in the mean of
    a row of 64."""
    usable = np.ones((4, 64), bool)
    counts = np.zeros((4, 64))
    for seed in range(100):
        np.add.at(counts, tuple(start_points(usable, seed=seed).T), 1)
    assert counts.sum() == 6400
    assert np.abs(counts.mean(axis=1) - 25).max() < 5 * 4.33 / 8


def test_m19_counts_ends_only_within_a_hundredth_of_the_box():
    tracks = np.zeros((25, 4, 3))
    tracks[5, 0] = 9.0  # on the way: does not matter
    tracks[24, 1, 0] = 0.009
    tracks[24, 2] = (0.006, 0.008, 0.003)  # 0.01044
    tracks[24, 3] = np.nan
    closed, distance = closed_points(tracks, 0.01 * 1.0)
    assert closed.tolist() == [True, True, False, False]
    assert distance[:3] == pytest.approx([0, 0.009, math.sqrt(1.09e-4)])
    assert track_accuracy(closed.tolist()) == ruled(0.5)
    assert track_accuracy([False] * 64) == ruled(0.0, "no_point_closes")


def test_a_point_just_at_the_tolerance_closes():
    tracks = np.zeros((25, 2, 3))
    tracks[24, :, 1] = 0.25, np.nextafter(0.25, 1.0)
    assert closed_points(tracks, 0.25)[0].tolist() == [True, False]


def test_a_point_that_was_never_seen_does_not_close():
    tracks = np.zeros((25, 1, 3))
    tracks[0] = np.nan
    assert not closed_points(tracks, 1.0)[0].any()


@given(st.permutations(range(8)))
def test_m19_does_not_depend_on_the_order_of_points(order):
    tracks = np.zeros((25, 8, 3))
    tracks[24, :, 2] = np.arange(8)
    closed, _ = closed_points(tracks[:, order], 2.5)
    assert track_accuracy(closed.tolist()) == ruled(3 / 8)


def test_m20():
    # A = 48/64, r = 1/2: H = 0.75 / 1.25
    assert object_f1(track_accuracy([True] * 48 + [False] * 16), ruled(0.5)).value == pytest.approx(0.6)
    assert object_f1(track_accuracy([False] * 64), ruled(0.5)) == ruled(0.0, "zero_precision")
    assert object_f1(NONE, ruled(0.5)) == NONE
    assert object_f1(NONE, ruled(0.0)).value == 0.0


# --- M21 to M24 -------------------------------------------------------------------------------------------


def test_judged_views_are_valid_only_inside_and_visible():
    j = judged_object(views("ivac iva ivc iv ia iac vac -"))
    assert j.recall == ruled(4 / 8)
    assert j.artifact_free == ruled(2 / 4)
    assert j.complete == ruled(2 / 4)
    assert j.precision == ruled(0.5)
    assert j.f1 == ruled(0.5)
    assert j.valid == (True,) * 4 + (False,) * 4


def test_m24_is_of_the_mean_of_both_shares():
    # r = 3/4, a = 1, c = 1/3: p = 2/3; H = 1 / (17/12) = 12/17
    j = judged_object(views("ivac iva iva ac"))
    assert (j.recall.value, j.artifact_free.value, j.complete.value) == (0.75, 1.0, 1 / 3)
    assert j.f1.value == pytest.approx(12 / 17)


def test_one_valid_view_is_enough_for_the_judge():
    j = judged_object(views("ivac" + " -" * 23))
    assert j.recall == ruled(1 / 24)
    assert j.f1.value == pytest.approx(2 / 25)  # H(1, 1/24)


def test_no_valid_view():
    j = judged_object(views("- i v a"))
    assert j.recall == j.f1 == ruled(0.0, "no_valid_view")
    assert j.artifact_free == j.complete == no_value(Status.INVALID, "no_valid_view")


def test_valid_views_that_are_all_bad():
    j = judged_object(views("iv iv - -"))
    assert j.recall == ruled(0.5)
    assert j.artifact_free == ruled(0.0, "artifacts_in_every_valid_view")
    assert j.complete == ruled(0.0, "incomplete_in_every_valid_view")
    assert j.f1 == ruled(0.0, "zero_precision")


def test_an_object_that_could_not_be_lifted():
    j = judged_object(None)
    assert j.recall == j.f1 == ruled(0.0, NOT_LIFTED)
    assert j.artifact_free == j.complete == no_value(Status.INVALID, NOT_LIFTED)


def test_views_without_an_answer_are_left_out():
    j = judged_object(views("ivac ? - ?"))
    assert j.recall == ruled(0.5)
    assert j.artifact_free == ruled(1.0)
    assert j.valid == (True, None, False, None)
    assert judged_object(views("? ?")).f1.status is Status.UNAVAILABLE


@given(st.lists(VIEW, max_size=24), st.data())
def test_judged_values_do_not_depend_on_the_order_of_views_and_stay_in_range(seen, data):
    a, b = judged_object(seen), judged_object(data.draw(st.permutations(seen)))
    for name in ("recall", "artifact_free", "complete", "precision", "f1"):
        ruling = getattr(a, name)
        assert ruling == getattr(b, name)
        assert ruling.value is None or 0 <= ruling.value <= 1


@given(st.lists(VIEW.filter(lambda v: v is not None), min_size=1, max_size=24))
def test_a_better_answer_never_lowers_m24(seen):
    """Of a valid view: r is fixed then, and p grows."""
    for key in ("artifact_free", "complete"):
        better = [dict(v, **{key: True}) if v["inside_scene"] and v["target_visible"] else v for v in seen]
        assert judged_object(better).f1.value >= judged_object(seen).f1.value - 1e-12


# --- the orbit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("diagonal", "radius"), [(0.0, 0.5), (0.2, 0.5), (1.0, 1.5), (2.0, 3.0), (3.0, 4.0)])
def test_radius_of_the_orbit(diagonal, radius):
    assert orbit_radius(diagonal) == radius
