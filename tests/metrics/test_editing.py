"""M31 to M37: every rule of the spec's section 10 with values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.metrics.editing import (
    allowed_change,
    background_mean,
    background_psnr,
    chosen_views,
    depth_agreement,
    edit_execution,
    edit_score_global,
    edit_score_object,
    frame_mean,
    patch_background,
    patch_distance,
    rmse_of_psnr,
)
from spatialbench.metrics.ruling import no_value, ruled
from spatialbench.types import Status

OLD = np.zeros((4, 4), bool)
OLD[0, :2] = True
NEW = np.zeros((4, 4), bool)
NEW[0, 1:3] = True
EVERYWHERE = np.ones((8, 8), bool)


@pytest.mark.parametrize(("operation", "cells"), [
    ("addition", [1, 2]), ("deletion", [0, 1]), ("replacement", [0, 1, 2]), ("modification", [0, 1, 2])])
def test_the_mask_of_each_operation(operation, cells):
    mask = allowed_change(operation, OLD, NEW)
    assert mask is not None
    assert np.flatnonzero(mask).tolist() == cells


@pytest.mark.parametrize(("operation", "before", "after"), [
    ("addition", OLD, None), ("deletion", None, NEW), ("replacement", None, None), ("modification", None, None)])
def test_without_a_mask_of_the_right_world_all_is_background(operation, before, after):
    assert allowed_change(operation, before, after) is None


def test_one_of_two_masks_is_enough():
    assert np.array_equal(allowed_change("replacement", None, NEW), NEW)
    assert np.array_equal(allowed_change("modification", OLD, None), OLD)


@pytest.mark.parametrize(("seen", "views"), [
    (range(24), (0, 4, 8, 12, 16, 20)),  # 24 / 6 apart
    (range(6), (0, 1, 2, 3, 4, 5)),
    ((3, 5, 20), (3, 5, 20)),
    ((0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 2, 4, 5, 6)),  # floor(8 k / 6)
    ((), ())])
def test_views_are_spread_over_the_detectable_ones(seen, views):
    assert chosen_views([k in set(seen) for k in range(24)], 6) == views


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 8))
def test_chosen_views_are_detectable_ascending_and_as_many_as_can_be(detectable, most):
    views = chosen_views(detectable, most)
    assert len(views) == min(most, sum(detectable))
    assert list(views) == sorted(set(views))
    assert all(detectable[v] for v in views)


def test_m31_is_any_after_view():
    assert edit_execution([False, True, False], 3) == ruled(1.0)
    assert edit_execution([False, False], 2) == ruled(0.0, "no_view_satisfies")
    assert edit_execution(None, 3).status is Status.UNAVAILABLE
    # no view of the object: a failed edit, whether or not there is a judge
    assert edit_execution(None, 0) == edit_execution([], 0) == ruled(0.0, "no_object_view")
    with pytest.raises(ValueError, match="2 answers for 3 views"):
        edit_execution([True, False], 3)


def test_m32_of_a_constant_difference():
    a = np.full((8, 8, 3), 0.25, np.float32)
    # 0.1 in every channel: MSE 0.01, so 20 dB; 0.3 in one of three channels: MSE 0.03, 15.2288 dB
    assert background_psnr(a, a + np.float32(0.1), EVERYWHERE) == pytest.approx(20.0, abs=1e-4)  # float32 input
    b = a.copy()
    b[..., 1] += 0.3
    assert background_psnr(a, b, EVERYWHERE) == pytest.approx(-10 * math.log10(0.03), abs=1e-4)


def test_m32_the_cap_is_lower_than_nearly_identical_frames():
    zero = np.zeros((8, 8, 3))
    assert background_psnr(zero, zero, EVERYWHERE) == 99.0
    assert background_psnr(zero, zero + 1e-6, EVERYWHERE) == 99.0  # MSE 1e-12 exactly at the floor
    assert background_psnr(zero, zero + 1.0001e-6, EVERYWHERE) == pytest.approx(119.999, abs=1e-3)


def test_m32_looks_at_the_background_only_and_needs_64_pixels():
    a, b = np.zeros((9, 8, 3)), np.zeros((9, 8, 3))
    b[8] = 1.0  # one row of 8 pixels
    background = np.ones((9, 8), bool)
    background[8] = False
    assert background_psnr(a, b, background) == 99.0  # 64 pixels
    # with the row: 8 of 72 pixels at 1: MSE 1/9, 9.54 dB
    assert background_psnr(a, b, np.ones((9, 8), bool)) == pytest.approx(10 * math.log10(9))
    background[0, 0] = False
    assert background_psnr(a, b, background) is None  # 63


def test_psnr_is_averaged_in_db_before_the_rmse():
    mean = frame_mean([20.0, 40.0])
    assert mean.value == 30.0
    assert rmse_of_psnr(30.0) == pytest.approx(0.0316228, abs=1e-7)  # spec section 16, not 0.055
    assert rmse_of_psnr(99.0) == pytest.approx(1.12202e-5, rel=1e-5)


def test_frames_without_a_value_are_skipped_and_none_at_all_is_invalid():
    assert frame_mean([None, 10.0, None, 30.0]).value == 20.0
    assert frame_mean([None, None]) == no_value(Status.INVALID, "no_valid_frame")
    assert frame_mean([], why_none="empty_background").reason == "empty_background"


def test_m33_is_the_mean_of_the_map_over_the_background():
    values = np.arange(64, dtype=np.float32).reshape(8, 8) / 64
    assert background_mean(values, EVERYWHERE) == pytest.approx(31.5 / 64)
    half = EVERYWHERE.copy()
    half[4:] = False
    assert background_mean(values, half, min_pixels=32) == pytest.approx(15.5 / 64)
    assert background_mean(values, half) is None  # 32 pixels


def test_patch_coverage_by_hand():
    # 4 pixels over 2 patches a side: each patch holds 2 x 2 pixels
    mask = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]], bool)
    assert patch_background(mask, 2).tolist() == pytest.approx(np.array([[0.75, 0.0], [0.0, 1.0]]))
    # 3 pixels over 2 patches: the middle one belongs half to each; 1/3 : 1/6 of the side in each patch
    row = np.array([[1, 0, 0]] * 3, bool)
    assert patch_background(row, 2) == pytest.approx(np.array([[2 / 3, 0.0], [2 / 3, 0.0]]))


@pytest.mark.parametrize("size", [64, 256, 768])
def test_a_patch_of_just_one_half_is_not_more(size):
    """The middle column of 37 patches of an image whose left half is background; also turned by 90 degrees."""
    left = np.zeros((size, size), bool)
    left[:, :size // 2] = True
    assert (patch_background(left)[:, 18] == 0.5).all()
    assert (patch_background(left.T)[18] == 0.5).all()


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_patch_coverage_keeps_the_area(height, width, seed):
    mask = np.random.default_rng(seed).random((height, width)) < 0.5
    coverage = patch_background(mask)
    assert coverage.shape == (37, 37)
    assert coverage.min() >= -1e-12 and coverage.max() <= 1 + 1e-9
    assert coverage.mean() == pytest.approx(mask.mean(), abs=1e-9)  # sums of at most 3,600 doubles


def test_m34_is_the_mean_of_one_minus_cos_over_kept_patches():
    before = np.array([[1.0, 0], [1, 0], [1, 0], [1, 0], [3, 0]])
    after = np.array([[2.0, 0], [0, 1], [-1, 0], [1, 1], [1, 0]])
    coverage = np.array([1.0, 1.0, 0.51, 1.0, 0.5])  # the last is not above one half
    # 0, 1, 2 and 1 - 1/sqrt 2
    assert patch_distance(before, after, coverage) == pytest.approx((0 + 1 + 2 + 1 - math.sqrt(0.5)) / 4)
    tokens = np.random.default_rng(0).normal(size=(200, 24)).astype(np.float32)
    for k in range(0, 200, 4):  # of equal tokens the cosine is rounded, and never above 1
        assert 0.0 <= patch_distance(tokens[k:k + 4], tokens[k:k + 4], np.ones(4)) < 1e-15
    assert patch_distance(before, after, np.array([1, 1, 1, 0.5, 0.5])) is None  # three patches
    with pytest.raises(ValueError, match="has no length"):
        patch_distance(np.zeros((4, 2)), after[:4], np.ones(4))


def test_m35_by_hand():
    depth0 = np.full((8, 10), 2.0)
    depth1 = depth0.copy()
    depth1[0, :4] = (2.09, 2.11, 1.91, 1.89)  # rho 0.045, 0.055, 0.0471, 0.0582
    alpha = np.ones((8, 10))
    share, common, agree = depth_agreement(depth0, alpha, depth1, alpha)
    assert share == 78 / 80
    assert common.all()
    assert agree[0, :4].tolist() == [True, False, True, False]


def test_m35_skips_what_is_not_in_both_worlds():
    depth0, depth1 = np.full((8, 10), 2.0), np.full((8, 10), 4.0)
    alpha0, alpha1 = np.ones((8, 10)), np.ones((8, 10))
    depth1[:, :8] = 2.0
    alpha1[:, 8] = 0.49
    depth1[:, 9] = 0.0
    share, common, _ = depth_agreement(depth0, alpha0, depth1, alpha1)
    assert (share, int(common.sum())) == (1.0, 64)  # geometry outside the common mask is invisible
    alpha0[0, 0] = 0.49
    assert depth_agreement(depth0, alpha0, depth1, alpha1)[0] is None  # 63


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_m35_is_symmetric(a, b):
    one, two = np.full((8, 8), a), np.full((8, 8), b)
    full = np.ones((8, 8))
    assert depth_agreement(one, full, two, full)[0] == depth_agreement(two, full, one, full)[0]


DONE, FAILED = ruled(1.0), ruled(0.0, "no_view_satisfies")
LACKING = no_value(Status.UNAVAILABLE, "no model")
EMPTY = no_value(Status.INVALID, "no_valid_frame")


def test_m36_by_hand():
    # spec section 16: RMSE 0.1 (20 dB), LPIPS 0.2, DINO 0.15 -> 1 - 0.45 / 3
    assert edit_score_object(DONE, ruled(20.0), ruled(0.2), ruled(0.15)).value == pytest.approx(0.85)
    # raw distances, not clipped: it may leave [0,1]
    assert edit_score_object(DONE, ruled(0.0), ruled(1.5), ruled(2.0)).value == pytest.approx(-0.5)


@pytest.mark.parametrize("parts", [(LACKING, LACKING, LACKING), (EMPTY, EMPTY, EMPTY), (ruled(20.0),) * 3])
def test_m36_is_zero_without_execution_whatever_the_rest(parts):
    assert edit_score_object(FAILED, *parts) == ruled(0.0, "not_executed")


@pytest.mark.parametrize(("parts", "status"), [
    ((ruled(20.0), LACKING, ruled(0.1)), Status.UNAVAILABLE),
    ((EMPTY, LACKING, ruled(0.1)), Status.UNAVAILABLE),
    ((EMPTY, ruled(0.1), ruled(0.1)), Status.INVALID)])
def test_m36_is_missing_when_a_part_is(parts, status):
    ruling = edit_score_object(DONE, *parts)
    assert (ruling.value, ruling.status) == (None, status)
    assert ruling.reason


def test_m37_by_hand():
    assert edit_score_global(DONE, ruled(0.7)).value == 0.7
    assert edit_score_global(FAILED, EMPTY) == ruled(0.0, "not_executed")  # OPEN-22
    assert edit_score_global(DONE, EMPTY).status is Status.INVALID
    assert edit_score_global(LACKING, ruled(0.7)).status is Status.UNAVAILABLE
    assert edit_score_object(LACKING, ruled(1), ruled(1), ruled(1)).status is Status.UNAVAILABLE


def test_composites_are_formed_per_case_and_then_averaged():
    """Eq. 77: cases of 20 and 40 dB are 1 - 0.1/3 and 1 - 0.01/3; the mean PSNR would give another value."""
    each = [edit_score_object(DONE, ruled(p), ruled(0.0), ruled(0.0)).value for p in (20.0, 40.0)]
    assert sum(each) / 2 == pytest.approx(1 - 0.055 / 3)
    assert edit_score_object(DONE, ruled(30.0), ruled(0.0), ruled(0.0)).value == pytest.approx(1 - 0.0316228 / 3)
