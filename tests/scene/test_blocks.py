"""Figures of columns against NumPy's own, and work in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.scene import blocks
from spatialbench.scene.blocks import box, in_blocks, lengths, median, picked, quantiles

KINDS = st.sampled_from(["f4", "f8"])


def numbers(seed, n, kind):
    """Of all sizes, some of them several times."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
    return values[rng.integers(0, n, n)].astype(kind)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 300), kind=KINDS)
def test_quantiles_and_median_to_the_bit(seed, n, kind):
    values = numbers(seed, n, kind)
    shares = (0.0, 0.01, 0.05, 0.5, 0.95, 0.995, 1.0)
    assert quantiles(values, shares).tolist() == np.quantile(values, shares).tolist()
    assert median(values) == float(np.median(values))


@pytest.mark.parametrize("n", [1, 2, blocks._FOLD - 1, blocks._FOLD, blocks._FOLD + 1, 3 * blocks._FOLD + 7])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_box_is_that_along_axis_0(n, kind):
    points = numbers(n, 3 * n, kind).reshape(n, 3)
    for p in (points, np.asfortranarray(points), np.concatenate([points, points], axis=1)[:, 1:4], points[::-1]):
        np.testing.assert_array_equal(box(p), [p.min(axis=0), p.max(axis=0)])
        assert box(p).dtype == points.dtype
    points[n // 2, 1] = np.nan
    np.testing.assert_array_equal(box(points), [points.min(axis=0), points.max(axis=0)])


def test_lengths_to_the_bit():
    points = numbers(1, 3000, "f8").reshape(-1, 3)
    assert lengths(points).tolist() == np.linalg.norm(points, axis=1).tolist()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n", [0, 1, blocks._ALONE, blocks._ALONE + 1])
def test_every_row_once(monkeypatch, threads, n):
    monkeypatch.setattr(blocks, "threads", lambda: threads)
    seen = np.zeros(n, int)

    def work(part):
        seen[part] += 1

    in_blocks(n, work, 1000)
    assert (seen == 1).all()


@pytest.mark.parametrize("most", [1, 2, 3, 7, 100, 1000])
def test_picked_are_every_so_manyth_of_the_chosen(most):
    rng = np.random.default_rng(most)
    for n, share in ((0, 0.5), (1, 1.0), (300, 0.0), (300, 0.3), (300, 1.0)):
        chosen = rng.random(n) < share
        index = np.flatnonzero(chosen)
        found = picked(chosen, most)
        assert len(found) <= most
        assert found.tolist() == index[::max(1, -(-len(index) // most))].tolist()
