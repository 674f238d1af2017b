"""M26 to M30: every rule of the spec's section 11 with values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.metrics.expansion import area_ratio, centroid, lost_cells, mean_difference, new_cells
from spatialbench.metrics.ruling import no_value, ruled
from spatialbench.types import PlanGrid, Status


def grid(text: str, i0: int = 0, j0: int = 0, cell: float = 0.05) -> PlanGrid:
    """Rows are i (x), columns j (y)."""
    return PlanGrid(np.array([[c == "#" for c in row] for row in text.split()]), i0, j0, cell)


@pytest.mark.parametrize(("before", "after", "ruling"), [
    (4.0, 5.0, ruled(1.25)), (4.0, 4.0, ruled(1.0)), (4.0, 2.0, ruled(0.5)),
    (4.0, 0.0, ruled(0.0, "empty_footprint_after")),
    (0.0, 3.0, no_value(Status.INVALID, "empty_footprint_before")),
    (0.0, 0.0, no_value(Status.INVALID, "empty_footprint_before"))])
def test_m26(before, after, ruling):
    assert area_ratio(before, after) == ruling


def test_new_and_lost_cells_on_one_grid():
    before = grid("## ##", i0=0, j0=0)
    after = grid("### #..", i0=1, j0=0)
    new, lost = new_cells(before, after), lost_cells(before, after)
    assert np.argwhere(new.mask).tolist() == [[0, 2], [1, 0]]  # (1, 2) and (2, 0) in the world
    assert (new.i0, new.j0) == (1, 0)
    assert np.argwhere(lost.mask).tolist() == [[0, 0], [0, 1]]
    # growth and loss cancel: the ratio is 1 although half of the cells are new
    assert area_ratio(before.area, after.area).value == 1.0


def test_grids_of_other_cells_are_no_pair():
    with pytest.raises(ValueError, match="cannot be aligned"):
        new_cells(grid("#"), grid("#", cell=0.1))


def test_the_centroid_is_the_mean_of_the_cells_centres():
    # cells (10, -4), (10, -3), (12, -4): i mean 10.6667, j mean -3.6667
    c = centroid(grid("## .. #.", i0=10, j0=-4))
    assert c == pytest.approx([(32 / 3 + 0.5) * 0.05, (-11 / 3 + 0.5) * 0.05])
    assert centroid(grid("... ...")) is None


def test_the_centroid_of_a_ring_lies_on_no_cell():
    ring = grid("### #.# ###")
    c = centroid(ring)
    assert c == pytest.approx([0.075, 0.075])
    assert not ring.contains(c)[0]


@given(st.integers(-10**6, 10**6), st.integers(-10**6, 10**6), st.integers(0, 2**32 - 1))
def test_the_centroid_moves_with_the_grid(i0, j0, seed):
    mask = np.random.default_rng(seed).random((7, 9)) < 0.4
    mask[0, 0] = True
    here, there = centroid(PlanGrid(mask, 0, 0)), centroid(PlanGrid(mask, i0, j0))
    # 0.05 i0 is at most 5e4: its spacing in doubles is 7e-12
    assert there - here == pytest.approx(np.array([i0, j0]) * 0.05, abs=1e-10)


@given(st.integers(0, 2**32 - 1))
def test_new_and_kept_make_up_the_after_footprint(seed):
    rng = np.random.default_rng(seed)
    a = PlanGrid(rng.random((6, 5)) < 0.5, int(rng.integers(-3, 3)), int(rng.integers(-3, 3)))
    b = PlanGrid(rng.random((4, 8)) < 0.5, int(rng.integers(-3, 3)), int(rng.integers(-3, 3)))
    assert b.count - new_cells(a, b).count == a.count - lost_cells(a, b).count
    assert not (new_cells(a, b).mask & a.aligned_to(b).mask).any()


def test_paired_differences():
    # M27: holes of 0.5 and 0.2 closed to 0.1 and 0.3
    assert mean_difference([0.5, 0.2], [0.1, 0.3]) == pytest.approx(0.15)
    assert mean_difference([1.0], [0.0]) == 1.0
    assert mean_difference([0.0], [1.0]) == -1.0
    for bad in (([], []), ([1.0], [1.0, 2.0])):
        with pytest.raises(ValueError, match="make no pairs"):
            mean_difference(*bad)
