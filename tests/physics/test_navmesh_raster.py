"""Polygons on the world's grid against shapely and against cases counted by hand; components."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import CorruptInputError
from spatialbench.physics.navmesh import components, rasterise
from spatialbench.physics.navmesh import raster as module
from spatialbench.types import PlanGrid


def cells_of(grid: PlanGrid) -> set[tuple[int, int]]:
    return {(int(a) + grid.i0, int(b) + grid.j0) for a, b in np.argwhere(grid.mask)}


@st.composite
def convex_polygons(draw) -> tuple[np.ndarray, tuple[tuple[int, ...], ...]]:
    """A few convex polygons of three to six corners on ellipses, in either winding."""
    xy: list[list[float]] = []
    polygons = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(3, 6))
        angles = [k / 100 for k in sorted(draw(st.lists(st.integers(0, 628), min_size=n, max_size=n, unique=True)))]
        cx, cy = draw(st.floats(-1, 1)), draw(st.floats(-1, 1))
        a, b = draw(st.floats(0.01, 0.8)), draw(st.floats(0.01, 0.8))
        index = list(range(len(xy), len(xy) + n))
        xy += [[cx + a * np.cos(t), cy + b * np.sin(t)] for t in angles]
        polygons.append(tuple(index[::-1] if draw(st.booleans()) else index))
    return np.array(xy), tuple(polygons)


@settings(max_examples=80, deadline=None)
@given(convex_polygons())
def test_equals_shapely(world):
    xy, polygons = world
    grid = rasterise(xy, polygons)
    i, j = np.meshgrid(np.arange(-40, 41), np.arange(-40, 41), indexing="ij")
    centres = shapely.points((i + 0.5) * 0.05, (j + 0.5) * 0.05)
    inside, near = np.zeros(i.shape, bool), np.zeros(i.shape, bool)
    for p in polygons:
        shape = shapely.Polygon(xy[list(p)])
        inside |= shapely.intersects(shape, centres)
        # Twice the tolerance of 1e-6 cell, and more at corners sharper than it takes to double it: left out.
        near |= shapely.distance(shapely.LinearRing(xy[list(p)]), centres) < 1e-5 * 0.05
    got = grid.contains(np.stack([i + 0.5, j + 0.5], axis=-1).reshape(-1, 2) * 0.05).reshape(i.shape)
    np.testing.assert_array_equal(got[~near], inside[~near])
    assert grid.count == got.sum()


def rectangle(x0: float, x1: float, y0: float, y1: float) -> tuple[np.ndarray, tuple[tuple[int, ...], ...]]:
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]), ((0, 1, 2, 3),)


def test_centres_on_the_edge_are_inside():
    # Centres lie at 0.025 + 0.05 k: three by two of them on or within this rectangle's edges.
    grid = rasterise(*rectangle(0.025, 0.125, -0.075, -0.025))
    assert cells_of(grid) == {(i, j) for i in (0, 1, 2) for j in (-2, -1)}


@pytest.mark.parametrize(("inset", "count"), [(0.5e-6, 6), (2e-6, 0)])
def test_the_tolerance_is_a_millionth_of_a_cell(inset, count):
    e = inset * 0.05
    grid = rasterise(*rectangle(0.025 + e, 0.125 - e, -0.075 + e, -0.025 - e))
    # With the outer centres gone the middle ones, which lie on the long edges, go as well.
    assert grid.count == count


def test_float32_corners_are_widened_first():
    # 0.325f is 0.32499998807907104: below the centre of cell 6 by 1.2e-8 m = 2.4e-7 cell, within the tolerance.
    corners, polygons = rectangle(0.0, 0.325, 0.0, 0.1)
    assert cells_of(rasterise(corners.astype(np.float32), polygons)) == {(i, j) for i in range(7) for j in range(2)}


def test_both_windings_and_overlaps_count_once():
    xy, (loop,) = rectangle(0, 1, 0, 1)
    once = rasterise(xy, (loop,))
    assert once.count == 400
    assert cells_of(rasterise(xy, (loop, loop[::-1], (0, 1, 2), (2, 3, 0)))) == cells_of(once)
    assert cells_of(rasterise(xy, ((0, 1, 2), (2, 3, 0)))) == cells_of(once)


def test_other_cell_sizes_and_negative_sides():
    grid = rasterise(*rectangle(-1.0, 1.0, -0.5, 0.5), cell=0.25)
    assert (grid.count, grid.cell, grid.area) == (32, 0.25, 2.0)
    assert cells_of(grid) == {(i, j) for i in range(-4, 4) for j in range(-2, 2)}


def test_degenerate_polygons_do_not_spread():
    # On a line of centres from 0.025 to 0.525: eleven cells, not the whole row.
    xy = np.array([[0.025, 0.025], [0.525, 0.025], [0.3, 0.025], [5.0, 5.0]])
    assert cells_of(rasterise(xy, ((0, 1, 2),))) == {(i, 0) for i in range(11)}
    assert rasterise(xy, ((0, 1, 1),)).count == 11
    assert rasterise(xy, ((3, 3, 3),)).count == 0


def test_nothing():
    grid = rasterise(np.zeros((0, 2), np.float32), ())
    assert (grid.mask.shape, grid.count) == ((0, 0), 0)
    labels, sizes = components(grid)
    assert (labels.shape, labels.dtype, len(sizes)) == ((0, 0), np.int32, 0)


def test_blocks_and_portions_make_no_difference(monkeypatch):
    rng = np.random.default_rng(3)
    xy = rng.uniform(-2, 2, (60, 2))
    polygons = tuple((k, k + 1, k + 2) for k in range(0, 60, 3))
    whole = rasterise(xy, polygons)
    monkeypatch.setattr(module, "_BLOCK_CELLS", 300)
    monkeypatch.setattr(module, "_STRIPS_AT_ONCE", 7)
    parts = rasterise(xy, polygons)
    assert (whole.i0, whole.j0) == (parts.i0, parts.j0)
    np.testing.assert_array_equal(whole.mask, parts.mask)


def test_refusals():
    xy, polygons = rectangle(0, 1, 0, 1)
    with pytest.raises(CorruptInputError, match="not there"):
        rasterise(xy, ((0, 1, 4),))
    with pytest.raises(CorruptInputError, match="not finite"):
        rasterise(np.where(xy == 1, np.nan, xy), polygons)
    with pytest.raises(CorruptInputError, match="cells"):
        rasterise(xy * 1e5, polygons)


def grid_of(*rows: str) -> PlanGrid:
    return PlanGrid(np.array([[c == "#" for c in row] for row in rows]), 0, 0)


def test_corners_do_not_connect():
    labels, sizes = components(grid_of("##..", "..##", "...#"))
    assert sizes.tolist() == [3, 2]
    assert labels.tolist() == [[2, 2, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]]


def test_ties_go_to_the_first_cell():
    labels, sizes = components(grid_of(".#.#", "#..#", "#.#.", "..#."))
    assert sizes.tolist() == [2, 2, 2, 1]
    assert labels.tolist() == [[0, 4, 0, 1], [2, 0, 0, 1], [2, 0, 3, 0], [0, 0, 3, 0]]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_components_equal_a_flood_fill(nx, ny, seed):
    mask = np.random.default_rng(seed).random((nx, ny)) < 0.55
    labels, sizes = components(PlanGrid(mask, 0, 0))
    seen: dict[tuple[int, int], int] = {}
    found = []
    for start in map(tuple, np.argwhere(mask).tolist()):
        if start in seen:
            continue
        todo, members = [start], []
        seen[start] = 1
        while todo:
            a, b = todo.pop()
            members.append((a, b))
            for n in ((a + 1, b), (a - 1, b), (a, b + 1), (a, b - 1)):
                if 0 <= n[0] < nx and 0 <= n[1] < ny and mask[n] and n not in seen:
                    seen[n] = 1
                    todo.append(n)
        found.append(members)
    found.sort(key=lambda m: -len(m))  # Stable: already by first cell.
    assert sizes.tolist() == [len(m) for m in found]
    for k, members in enumerate(found, 1):
        assert {tuple(x) for x in np.argwhere(labels == k).tolist()} == set(members)
