"""M13 and M14 against values derived by hand; OpenCV's conversions against the colour formulas."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.metrics.consistency import (
    brightness_consistency,
    color_temperature_constraint,
    eps_cosine,
    gain,
    gray_histogram,
    hue_histogram,
)
from spatialbench.types.protocol_rules import Consistency

# |x| = 1 for a one-hot histogram, so cos(x,x) = 1/(1 + 1e-8)^2 = 1 - 2e-8, and the gain's slope at 1 is 15:
# a frame like the first scores 1 - 15 * 2e-8 = 1 - 3e-7. A spread of B bins has |x| >= 1/sqrt(B).
SAME = 3.1e-7


def image(*colours):
    return np.array([colours], dtype=np.uint8)


@pytest.mark.parametrize(("x", "want", "digits"), [
    (1, 0.999999999999997, 15), (0.99, 0.860708, 6), (0.95, 0.472366, 6), (0.9, 0.223130, 6), (0.8, 0.049787, 6),
    (0.5, 0.000552779, 9),
])
def test_gain_values_of_the_spec(x, want, digits):
    assert gain(x) == pytest.approx(want, abs=0.5 * 10**-digits)  # half a unit of the last printed digit


def test_gain_ends():
    assert gain(0) == 0
    assert gain(-3) == 0
    assert gain(7) == gain(1) < 1
    assert gain(1) == pytest.approx(1 - 1e-8 / math.e**15, abs=2e-16)


def test_gain_with_another_rate():
    assert gain(0.5, 2.0, 0.0) == pytest.approx((math.e - 1) / (math.e**2 - 1), rel=1e-15)


def test_cosine_of_known_histograms():
    assert eps_cosine([0.5, 0.5, 0], [1, 0, 0]) == pytest.approx(1 / math.sqrt(2), abs=5e-8)
    assert eps_cosine([1, 0, 0], [0, 0, 1]) == 0
    assert eps_cosine([0, 0, 0], [0, 0, 1]) == 0
    assert eps_cosine([3, 4], [4, 3], eps=0) == pytest.approx(24 / 25, rel=1e-15)
    assert eps_cosine([3, 4], [4, 3], eps=1) == pytest.approx(24 / 36, rel=1e-15)  # both norms 5 + 1


def test_gray_bins_at_their_edges():
    levels = [0, 63, 64, 191, 192, 255]
    for level, bin in zip(levels, [0, 0, 1, 1, 2, 2], strict=True):
        assert gray_histogram(image((level,) * 3)).tolist() == np.eye(3)[bin].tolist()
    assert gray_histogram(image(*((v,) * 3 for v in levels))).tolist() == [2 / 6] * 3


def test_gray_is_the_luma_of_rec_601():
    rng = np.random.default_rng(0)
    for rgb in [(255, 0, 0), (0, 255, 0), (0, 0, 255), *map(tuple, rng.integers(0, 256, (200, 3)).tolist())]:
        luma = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]
        seen = np.flatnonzero(gray_histogram(image(rgb), edges=tuple(range(257))))
        assert len(seen) == 1
        assert abs(int(seen[0]) - luma) <= 0.51  # rounded to an integer; coefficients of 14 or 15 bits


def hue_by_hexcone(r, g, b):
    top, low = max(r, g, b), min(r, g, b)
    if top == low:
        return 0.0
    span = top - low
    h = (60 * (g - b) / span if top == r else 120 + 60 * (b - r) / span if top == g else 240 + 60 * (r - g) / span)
    return h % 360 / 2


def test_hue_is_the_hexcone_angle_in_two_degree_steps():
    rng = np.random.default_rng(1)
    named = [(255, 0, 0), (255, 128, 0), (255, 255, 0), (0, 255, 0), (0, 255, 255), (0, 0, 255), (255, 0, 255),
             (128, 128, 128), (0, 0, 0), (10, 200, 30)]
    for rgb in [*named, *map(tuple, rng.integers(0, 256, (300, 3)).tolist())]:
        seen = int(np.flatnonzero(hue_histogram(image(rgb), edges=tuple(range(181))))[0])
        off = abs(seen - hue_by_hexcone(*rgb))
        assert min(off, 180 - off) <= 0.6  # rounding to an integer, of a fixed-point quotient


@pytest.mark.parametrize(("rgb", "hue", "bin"), [
    ((255, 0, 0), 0, 0), ((255, 255, 0), 30, 1), ((0, 255, 0), 60, 2), ((0, 255, 255), 90, 3), ((0, 0, 255), 120, 4),
    ((255, 0, 255), 150, 5), ((255, 0, 128), 165, 6), ((77, 77, 77), 0, 0),
])
def test_hue_bins_of_pure_colours(rgb, hue, bin):
    assert round(hue_by_hexcone(*rgb)) == hue
    assert hue_histogram(image(rgb)).tolist() == np.eye(7)[bin].tolist()


def test_hue_bins_at_their_edges():
    # A ramp from red to yellow has hue = 30 * g / 255: the bins change between 15 and 16, and 30 and 31.
    hues = {rgb: int(np.flatnonzero(hue_histogram(image(rgb), edges=tuple(range(181))))[0])
            for rgb in [(255, g, 0) for g in range(256)] + [(255 - r, 255, 0) for r in range(256)]}
    edges = Consistency().hue_edges
    assert edges == (0, 16, 31, 61, 91, 121, 151, 180)
    for rgb, hue in hues.items():
        bin = int(np.flatnonzero(hue_histogram(image(rgb)))[0])
        assert bin == [hue <= 15, hue <= 30, hue <= 60].index(True)


def test_histograms_count_all_pixels():
    half = np.zeros((2, 4, 3), dtype=np.uint8)
    half[:, 2:] = 255
    assert gray_histogram(half).tolist() == [0.5, 0, 0.5]
    assert hue_histogram(half).tolist() == [1, 0, 0, 0, 0, 0, 0]  # no saturation mask
    assert gray_histogram(half[:, ::-1]).tolist() == [0.5, 0, 0.5]  # any memory order


@pytest.mark.parametrize("bad", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32),
                                 np.zeros((0, 4, 3), np.uint8)])
def test_other_images_are_refused(bad):
    with pytest.raises(ValueError, match="uint8 image"):
        gray_histogram(bad)


def test_edges_that_lose_pixels_are_refused():
    with pytest.raises(ValueError, match="do not cover"):
        gray_histogram(image((255, 255, 255)), edges=(0, 64, 192, 255))


def test_a_grey_sequence_that_does_not_change_scores_one():
    frame = np.full((8, 8, 3), 100, dtype=np.uint8)
    gray, hue = [gray_histogram(frame)] * 65, [hue_histogram(frame)] * 65
    for value, scores in (brightness_consistency(gray), color_temperature_constraint(hue)):
        assert 1 - SAME < value < 1
        assert scores[0] == 1
        assert ((scores > 1 - SAME) & (scores <= 1)).all()


def test_black_to_white_in_one_frame():
    black, white = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 255, np.uint8)
    hists = [gray_histogram(f) for f in (black, white, white, black)]
    value, scores = brightness_consistency(hists)
    # cos = 0 for the white frames, 1 for the last.
    assert scores.tolist() == [1, 0, 0, pytest.approx(1, abs=SAME)]
    assert value == pytest.approx(2 / 4, abs=SAME)


def test_half_of_the_image_turns_white():
    value, scores = brightness_consistency([[1, 0, 0], [0.5, 0, 0.5]])
    want = (math.exp(15 / math.sqrt(2)) - 1) / (math.exp(15) - 1)
    assert scores[1] == pytest.approx(want, rel=1e-6)  # eps moves the cosine by 2.4e-8, the gain by 15 times that
    assert value == pytest.approx((1 + want) / 2, rel=1e-6)


def test_hue_looks_at_the_first_and_at_the_previous_frame():
    red, green = np.eye(7)[0], np.eye(7)[2]
    value, scores = color_temperature_constraint([red, green, green, red])
    # c = (0+0)/2, (0+1)/2, (1+0)/2
    g = gain(0.5)
    assert scores == pytest.approx([1, 0, g, g], rel=1e-6)
    assert value == pytest.approx((1 + 2 * g) / 4, rel=1e-9)
    assert brightness_consistency([red, green, green, red])[1] == pytest.approx([1, 0, 0, 1], abs=SAME)


def test_one_frame_scores_one():
    assert brightness_consistency([[0.2, 0.3, 0.5]])[0] == 1
    assert color_temperature_constraint([[1, 0, 0, 0, 0, 0, 0]])[0] == 1


@pytest.mark.parametrize("bad", [[], [0.5, 0.5], np.zeros((0, 3))])
def test_no_frames_are_refused(bad):
    with pytest.raises(ValueError, match="histograms must be"):
        brightness_consistency(bad)


@given(st.lists(st.lists(st.integers(0, 50), min_size=7, max_size=7).filter(any), min_size=1, max_size=12))
def test_bounds(counts):
    h = np.array(counts, dtype=float)
    h /= h.sum(axis=1, keepdims=True)
    for f in (brightness_consistency, color_temperature_constraint):
        value, scores = f(h)
        assert 1 / len(h) <= value <= 1
        assert scores[0] == 1
        assert ((scores >= 0) & (scores <= 1)).all()


@given(st.floats(0, 1), st.floats(0, 1))
def test_gain_grows(x, y):
    assert (gain(x) <= gain(y)) if x <= y else (gain(x) >= gain(y))
