"""The sampled footprint against a plain numpy version of its definition and against counts by hand."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import CorruptInputError
from spatialbench.types import PlanGrid, TriangleMesh
from spatialbench.types.protocol_rules import Footprint as FootprintSettings
from spatialbench.world import footprint as module
from spatialbench.world.footprint import fill_holes, footprint

DELTA = 0.05


def box(x0, x1, y0, y1, z0=0.0, z1=0.1) -> tuple[np.ndarray, np.ndarray]:
    v = np.array([[x, y, z] for z in (z0, z1) for y in (y0, y1) for x in (x0, x1)], float)
    f = np.array([(0, 2, 3), (0, 3, 1), (4, 5, 7), (4, 7, 6), (0, 1, 5), (0, 5, 4),
                  (2, 6, 7), (2, 7, 3), (0, 4, 6), (0, 6, 2), (1, 3, 7), (1, 7, 5)])
    return v, f


def sheet(x0, x1, y0, y1, z=0.0) -> TriangleMesh:
    return TriangleMesh(np.array([[x0, y0, z], [x1, y0, z], [x1, y1, z], [x0, y1, z]], float),
                        np.array([[0, 1, 2], [0, 2, 3]], np.int32))


def plain(mesh: TriangleMesh, s: FootprintSettings) -> tuple[set[tuple[int, int]], int]:
    """Spec section 4.2 as it reads: everything drawn at once, no chunks, no grid."""
    t = mesh.vertices[mesh.faces]
    n = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) / 2
    running = np.cumsum(np.linalg.norm(n, axis=1))
    samples = int(min(max(s.samples_per_cell * np.abs(n[:, 2]).sum() / s.cell**2, s.min_samples), s.max_samples))
    rng = np.random.default_rng(s.seed)
    face = np.searchsorted(running, rng.random(samples) * running[-1], side="right")
    root = np.sqrt(rng.random(samples))
    r2 = rng.random(samples)
    a, b, c = (t[face, k, :2] for k in range(3))
    p = a + (root * (1 - r2))[:, None] * (b - a) + (root * r2)[:, None] * (c - a)
    return set(map(tuple, np.floor(p / s.cell).astype(int).tolist())), samples


def cells_of(grid: PlanGrid | None) -> set[tuple[int, int]]:
    assert grid is not None
    return {(int(a) + grid.i0, int(b) + grid.j0) for a, b in np.argwhere(grid.mask)}


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(0, 2**32 - 1), st.integers(0, 5), st.integers(100, 3000))
def test_chunks_equal_one_draw_cell_for_cell(n_faces, seed, sampling_seed, chunk):
    rng = np.random.default_rng(seed)
    v = rng.uniform(-1.5, 1.5, (max(n_faces // 2, 3), 3))
    mesh = TriangleMesh(v, rng.integers(0, len(v), (n_faces, 3)).astype(np.int32))  # Some without area.
    s = FootprintSettings(seed=sampling_seed, max_samples=20_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", chunk)
        found = footprint(mesh, s)
        if found is None:
            assert np.abs(mesh.area_vectors()).max() == 0
            return
        patch.setattr(module, "MAX_CELLS", 1)
        scattered = footprint(mesh, s)
    cells, samples = plain(mesh, s)
    assert found.samples == samples
    assert cells_of(found.grid) == cells
    assert found.cells == len(cells)
    assert scattered is not None
    assert (scattered.grid is None, scattered.cells) == (len(cells) > 1, len(cells))


def test_the_grid_is_cut_to_its_cells():
    found = footprint(sheet(3.0, 4.0, -2.0, -1.5), FootprintSettings())
    assert found is not None
    assert found.grid is not None
    m = found.grid.mask
    assert m[0].any()
    assert m[-1].any()
    assert m[:, 0].any()
    assert m[:, -1].any()
    assert (found.grid.i0, found.grid.j0, m.shape) == (60, -40, (20, 10))


def test_scattered_cells_that_fit_an_array_give_one(monkeypatch):
    mesh = sheet(3.01, 3.99, -1.99, -1.51)
    dense = footprint(mesh, FootprintSettings())
    assert dense is not None
    assert dense.grid is not None
    monkeypatch.setattr(module, "MAX_CELLS", dense.grid.mask.size)  # The padded box has more.
    sparse = footprint(mesh, FootprintSettings())
    assert sparse is not None
    assert sparse.grid is not None
    assert (sparse.grid.i0, sparse.grid.j0) == (dense.grid.i0, dense.grid.j0)
    np.testing.assert_array_equal(sparse.grid.mask, dense.grid.mask)


def test_stray_geometry_ten_kilometres_off_takes_no_memory():
    (va, fa), (vb, fb) = box(0, 1, 0, 1), box(10_000, 10_001, 9_000, 9_001)
    mesh = TriangleMesh(np.vstack([va, vb]), np.vstack([fa, fb + 8]).astype(np.int32))
    found = footprint(mesh, FootprintSettings(samples_per_cell=400))
    assert found is not None
    assert found.grid is None
    # Sides lie on cell borders: 20 x 20 cells each, and a row of 20 and a column of 20 more at the upper ends,
    # where only the side walls are; the cell at the upper corner has but one vertical edge, without area.
    assert found.cells == 2 * (20 * 20 + 20 + 20)


@settings(max_examples=40, deadline=None)
@given(st.integers(-40, 40), st.integers(-40, 40), st.integers(1, 25), st.integers(1, 25),
       st.tuples(*[st.floats(0.3, 0.7)] * 4))
def test_a_slab_covers_the_cells_it_overlaps(i, j, nx, ny, parts):
    """Its least covered cell, a corner with 0.3 x 0.3 of a cell, gets 400 x 0.09 x 2 = 72 samples on average
    (2 faces; a budget of 400 a cell and face; the side walls take a share of at most 1/2): never none."""
    x0, x1 = (i + parts[0]) * DELTA, (i + nx + parts[1]) * DELTA
    y0, y1 = (j + parts[2]) * DELTA, (j + ny + parts[3]) * DELTA
    v, f = box(x0, x1, y0, y1, 0.0, 0.01)
    found = footprint(TriangleMesh(v, f.astype(np.int32)), FootprintSettings(samples_per_cell=400))
    assert found is not None
    assert cells_of(found.grid) == {(a, b) for a in range(i, i + nx + 1) for b in range(j, j + ny + 1)}
    assert found.area == pytest.approx((nx + 1) * (ny + 1) * DELTA**2)


def test_budget():
    """Spec section 16: A_proj of 100 m2 takes 640,000 points; clamped at both ends; both faces count."""
    s = FootprintSettings()
    # Truncation of a product in floating point: one less is possible.
    assert footprint(sheet(0, 10, 0, 10), s).samples in (639_999, 640_000)
    assert footprint(sheet(0, 0.1, 0, 0.1), s).samples == 1_000
    assert footprint(sheet(0, 100, 0, 100), FootprintSettings(max_samples=5_000)).samples == 5_000
    v, f = box(0, 2, 0, 3)
    found = footprint(TriangleMesh(v, f.astype(np.int32)), s)
    assert found.a_proj == pytest.approx(12)
    assert found.a_surface == pytest.approx(12 + 2 * 0.1 * (2 + 3))


def test_a_wall_covers_its_own_line():
    # A_proj is 0, so the minimum of 1000 points over 40 cells: the chance of a miss is 40 (39/40)^1000 = 4e-10.
    wall = TriangleMesh(np.array([[0.5, 0, 0], [0.5, 2, 0], [0.5, 2, 1], [0.5, 0, 1.0]]),
                        np.array([[0, 1, 2], [0, 2, 3]], np.int32))
    found = footprint(wall, FootprintSettings())
    assert found.a_proj == 0
    assert cells_of(found.grid) == {(10, j) for j in range(40)}


def test_nothing_to_cover():
    v = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0.0]])
    assert footprint(TriangleMesh(v, np.zeros((0, 3), np.int32)), FootprintSettings()) is None
    assert footprint(TriangleMesh(v, np.array([[0, 1, 2]], np.int32)), FootprintSettings()) is None


def test_bad_coordinates():
    with pytest.raises(CorruptInputError, match="finite"):
        footprint(sheet(0, np.nan, 0, 1), FootprintSettings())
    with pytest.raises(CorruptInputError, match="too far"):
        footprint(sheet(1e30, 2e30, 0, 1), FootprintSettings())


def grid_of(*rows: str) -> PlanGrid:
    return PlanGrid(np.array([[c == "#" for c in row] for row in rows]), -3, 7)


def test_holes_are_filled_and_nothing_else():
    filled = fill_holes(grid_of("####.#",
                                "#..#.#",
                                "#..###",
                                "####.#",
                                "##.#..",
                                "#.####"))
    # The inner 2 x 2 is closed; (4,2) is closed too, its neighbours being marked; the bays at the border are open.
    assert filled.mask.tolist() == grid_of("####.#",
                                           "####.#",
                                           "######",
                                           "####.#",
                                           "####..",
                                           "#.####").mask.tolist()
    assert (filled.i0, filled.j0, filled.cell) == (-3, 7, 0.05)


def test_a_gap_at_a_corner_does_not_open_a_hole():
    # The empty cells touch the outside over a corner only; four-connected, they are enclosed.
    assert fill_holes(grid_of(".##.", "#..#", "#..#", ".##.")).mask.tolist() == \
        grid_of(".##.", "####", "####", ".##.").mask.tolist()


def test_an_empty_grid_stays_empty():
    assert fill_holes(PlanGrid(np.zeros((0, 0), bool), 0, 0)).count == 0
    assert fill_holes(PlanGrid(np.zeros((3, 4), bool), 0, 0)).count == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_filling_is_idempotent_and_leaves_the_outside(nx, ny, seed):
    mask = np.random.default_rng(seed).random((nx, ny)) < 0.6
    filled = fill_holes(PlanGrid(mask, 0, 0))
    assert (filled.mask | ~mask).all()
    np.testing.assert_array_equal(fill_holes(filled).mask, filled.mask)
    # What is left empty reaches the border: grow from the border over empty cells, by hand.
    outside = np.pad(mask, 1)
    reached = np.zeros_like(outside)
    reached[[0, -1]] = reached[:, [0, -1]] = True
    for _ in range(reached.size):
        grown = reached.copy()
        grown[1:] |= reached[:-1]
        grown[:-1] |= reached[1:]
        grown[:, 1:] |= reached[:, :-1]
        grown[:, :-1] |= reached[:, 1:]
        grown &= ~outside
        if (grown == reached).all():
            break
        reached = grown
    np.testing.assert_array_equal(filled.mask, ~reached[1:-1, 1:-1])


def test_importing_loads_no_compiler():
    code = ("import sys, spatialbench.world.footprint; "
            "print(sorted({'numba', 'scipy', 'trimesh'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
