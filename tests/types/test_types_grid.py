"""Plan grids: cells are fixed to the world."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.types import PlanGrid


def grid(mask, i0=0, j0=0, cell=0.5):
    return PlanGrid(np.array(mask, dtype=bool), i0, j0, cell)


def test_area_and_extent():
    g = grid([[1, 0, 1], [0, 0, 1]], i0=-2, j0=4)
    assert (g.count, g.area) == (3, 0.75)
    assert g.extent == (-1.0, 0.0, 2.0, 3.5)


def test_cells_hold_their_lower_edges():
    g = grid([[1, 0]], i0=-1, j0=2)  # cell (-1, 2): x in [-0.5, 0), y in [1, 1.5)
    points = [(-0.5, 1.0), (-0.001, 1.499), (0.0, 1.0), (-0.5, 1.5), (-0.501, 1.0), (-0.2, 0.999), (1e9, -1e9)]
    assert g.contains(points).tolist() == [True, True, False, False, False, False, False]
    assert g.contains([-0.25, 1.25]).tolist() == [True]


def test_an_empty_grid_holds_nothing():
    g = PlanGrid(np.zeros((0, 0), bool), 0, 0)
    assert (g.count, g.area) == (0, 0.0)
    assert g.contains([[0, 0]]).tolist() == [False]


def test_alignment_keeps_the_cells_where_they_are():
    a = grid(np.ones((3, 3)), i0=0, j0=0)
    frame = grid(np.zeros((4, 2)), i0=1, j0=-1)
    b = a.aligned_to(frame)
    assert (b.i0, b.j0, b.mask.shape) == (1, -1, (4, 2))
    assert b.mask.astype(int).tolist() == [[0, 1], [0, 1], [0, 0], [0, 0]]
    assert grid(np.ones((2, 2)), i0=50).aligned_to(frame).count == 0
    with pytest.raises(ValueError, match="cannot be aligned"):
        a.aligned_to(grid([[1]], cell=0.25))


corner = st.integers(-6, 6)
size = st.integers(1, 6)


@given(corner, corner, size, size, corner, corner, size, size, st.randoms(use_true_random=False))
def test_alignment_equals_asking_cell_by_cell(i0, j0, n, m, k0, l0, p, q, rng):
    a = grid([[rng.random() < 0.5 for _ in range(m)] for _ in range(n)], i0, j0)
    frame = grid(np.zeros((p, q)), k0, l0)
    b = a.aligned_to(frame)
    for x in range(p):
        for y in range(q):
            centre = [(k0 + x + 0.5) * 0.5, (l0 + y + 0.5) * 0.5]
            assert b.mask[x, y] == a.contains(centre)[0]
