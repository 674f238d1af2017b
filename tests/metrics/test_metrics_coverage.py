"""Hole rates against counts made by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spatialbench.metrics.coverage import hole_rate, mean_hole_rate


def test_counts_pixels_below_the_threshold():
    alpha = np.array([[[0.0, 0.49], [0.5, 1.0]], [[1.0, 1.0], [1.0, 0.2]]], dtype=np.float32)
    assert hole_rate(alpha).tolist() == [0.5, 0.25]
    assert mean_hole_rate(hole_rate(alpha)) == 0.375


def test_an_opacity_equal_to_the_threshold_is_covered():
    alpha = np.full((1, 2, 2), 0.5, dtype=np.float32)
    assert hole_rate(alpha).tolist() == [0.0]
    assert hole_rate(alpha, threshold=0.51).tolist() == [1.0]


def test_a_pixel_that_is_not_a_number_is_a_hole():
    assert hole_rate(np.array([[[np.nan, 1.0]]])).tolist() == [0.5]


def test_a_wall_with_a_known_share_of_holes():
    alpha = np.ones((3, 10, 20), dtype=np.float32)
    alpha[1, :3] = 0.0   # 60 of 200 pixels
    alpha[2, :, :5] = 0.1  # 50 of 200
    assert hole_rate(alpha).tolist() == [0.0, 0.3, 0.25]
    assert mean_hole_rate(hole_rate(alpha)) == pytest.approx((0.3 + 0.25) / 3, abs=1e-16)


@pytest.mark.parametrize("shape", [(4, 4), (1, 0, 4), (1, 4, 4, 1)])
def test_shapes_that_make_no_sense(shape):
    with pytest.raises(ValueError, match="alpha must be"):
        hole_rate(np.zeros(shape))


def test_no_frames():
    assert hole_rate(np.zeros((0, 4, 4))).shape == (0,)
    with pytest.raises(ValueError, match="no frames"):
        mean_hole_rate(np.zeros(0))


@given(hnp.arrays(np.float32, (3, 4, 5), elements=st.floats(0, 1, width=32)), st.permutations(range(3)))
def test_mean_does_not_depend_on_the_order_of_frames(alpha, order):
    value = mean_hole_rate(hole_rate(alpha))
    assert 0 <= value <= 1
    assert mean_hole_rate(hole_rate(alpha[list(order)])) == value
