"""Clusters of cells against SciPy's labels, and what is taken from them against plain sums."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import label

from spatialbench.scene.cells import clusters_of


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shape=st.tuples(*3 * [st.integers(1, 7)]), share=st.floats(0, 1))
def test_clusters_are_those_of_scipy(seed, shape, share):
    rng = np.random.default_rng(seed)
    occupied = rng.random(shape) < share
    expected, count = label(occupied, np.ones((3, 3, 3)))
    found = clusters_of(occupied)
    flat = expected.reshape(-1)
    order = [] if not count else np.unique(flat[flat > 0], return_index=True)[1]  # SciPy's order may be another
    rank = np.argsort(np.argsort(order)) if count else np.zeros(0, int)
    assert found.count == count
    assert found.labels().tolist() == [int(rank[x - 1]) if x else -1 for x in flat]
    counts = rng.integers(0, 5, occupied.size).astype(np.int32)
    assert found.sums(counts).tolist() == [int(counts[found.labels() == k].sum()) for k in range(count)]
    chosen = rng.random(count) < 0.5
    assert found.cells(chosen).tolist() == [x > 0 and bool(chosen[rank[x - 1]]) for x in flat]


def test_cells_touch_by_corners_and_not_over_the_ends_of_rows():
    """(0,0,0) and (1,1,1) by a corner; the last cell of a row and the first of the next are no neighbours."""
    one = np.zeros((2, 2, 2), bool)
    one[0, 0, 0] = one[1, 1, 1] = True
    assert clusters_of(one).count == 1
    two = np.zeros((1, 2, 4), bool)
    two[0, 0, 3] = two[0, 1, 0] = True
    assert clusters_of(two).count == 2
    assert clusters_of(np.zeros((2, 2, 2), bool)).count == 0
