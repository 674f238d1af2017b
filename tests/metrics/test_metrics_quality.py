"""M01 to M06 and M09 to M11: the maths, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.metrics.quality import cosines, mean_rating, object_coverage, spread_views, top_mean, vlm_score
from spatialbench.types import Status

ratings = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40)


def test_mean_rating() -> None:
    assert mean_rating(np.array([1.0, 2.0, 6.0])) == 3.0
    for wrong in ([], [math.nan], [[1.0]]):
        with pytest.raises(ValueError):
            mean_rating(np.array(wrong))


@given(ratings, st.randoms())
def test_the_order_of_frames_does_not_matter(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert mean_rating(np.array(values)) == mean_rating(np.array(shuffled))


def test_cosines() -> None:
    vectors = np.array([[1.0, 0], [3, 4], [-2, 0], [0, 5]])
    assert cosines(vectors, np.array([2.0, 0])).tolist() == pytest.approx([1.0, 0.6, -1.0, 0.0])
    with pytest.raises(ValueError, match="no length"):
        cosines(np.zeros((1, 2)), np.array([1.0, 0]))
    with pytest.raises(ValueError, match="do not fit"):
        cosines(vectors, np.array([1.0, 0, 0]))


def test_a_cosine_has_the_same_bits_whatever_the_other_vectors_are() -> None:
    rng = np.random.default_rng(0)
    vectors, other = rng.normal(size=(37, 768)), rng.normal(size=768)
    together = cosines(vectors, other)
    for k, vector in enumerate(vectors):
        assert cosines(vector[None], other)[0] == together[k]
        exact = math.fsum(vector * other) / math.sqrt(math.fsum(vector**2) * math.fsum(other**2))
        assert together[k] == pytest.approx(exact, abs=1e-14)  # 768 roundings of 1e-16


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_lengths_do_not_matter(a: float, b: float) -> None:
    assert cosines(np.array([[3.0, 4]]) * a, np.array([1.0, 0]) * b)[0] == pytest.approx(0.6)


def test_m10_is_the_mean_of_the_three_largest() -> None:
    assert top_mean(np.array([0.1, 0.5, 0.3, 0.4])).value == pytest.approx(0.4)
    few = top_mean(np.array([0.1, 0.5]))
    assert (few.value, few.status) == (None, Status.INVALID)


def test_the_18_views_of_m06() -> None:
    assert spread_views(36) == tuple(range(0, 36, 2))
    assert spread_views(18) == tuple(range(18))
    assert spread_views(5) == tuple(range(5))
    assert len(set(spread_views(25))) == 18
    assert spread_views(25)[0] == 0


def test_m06_counts_every_yes() -> None:
    views = [{"a": True, "s": True, "l": False}, {"a": False, "s": True, "l": False}, None]
    ruling, rates = vlm_score(views)
    assert ruling.value == pytest.approx(3 / 6)
    assert rates == {"a": 0.5, "s": 1.0, "l": 0.0}
    assert vlm_score([None])[0].status is Status.UNAVAILABLE


def test_m06_of_18_views_is_a_number_of_54ths() -> None:
    views = [{"a": True, "s": k % 2 == 0, "l": False} for k in range(18)]
    assert vlm_score(views)[0].value == pytest.approx((18 + 9) / 54)


def test_m11() -> None:
    assert object_coverage({"chair": True, "table": False, "lamp": True}).value == pytest.approx(2 / 3)
    nothing = object_coverage({"chair": False})
    assert (nothing.value, nothing.reason) == (0.0, "no_category_detected")
    assert object_coverage({}).status is Status.INAPPLICABLE
