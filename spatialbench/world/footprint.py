"""The ground that a mesh covers in plan, by sampling its surface (spec section 4.2), and its holes filled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.types import PlanGrid, TriangleMesh
from spatialbench.types.protocol_rules import Footprint as FootprintSettings

__all__ = ["MAX_CELLS", "Footprint", "fill_holes", "footprint"]

MAX_CELLS = 200_000_000
"""Cells that are laid out as an array, a byte each: 700 x 700 m of 0.05 m cells."""
_CHUNK = 1 << 20
_FAR = 2.0**53


@dataclass(frozen=True, eq=False)
class Footprint:
    """Cells that surface samples fell into, and how many samples that took.

    Attributes
    ----------
    grid : the cells, cut to the marked ones; None when they lie so far apart that an array would be too large.
    cells : number of them, always known.
    samples : number of surface points, N.
    a_proj : horizontally projected area, m2, up- and downward faces both counted.
    a_surface : surface area, m2.
    cell : edge of a cell, m.
    """

    grid: PlanGrid | None
    cells: int
    samples: int
    a_proj: float
    a_surface: float
    cell: float

    @property
    def area(self) -> float:
        """A(F), m2."""
        return self.cells * self.cell * self.cell


class _Surface(NamedTuple):
    cumulative: NDArray[np.float64]  # [F] running area
    starts: NDArray[np.int64]
    planes: NDArray[np.float64]  # [F,6] A, B - A and C - A in plan


def footprint(mesh: TriangleMesh, settings: FootprintSettings) -> Footprint | None:
    """Plan cells that a mesh covers: N = clamp(16 A_proj / cell^2, 1000, 20e6) points spread evenly over the
    surface, each put into the cell floor(coordinate / cell).

    The points are a fixed stream: with ``rng = numpy.random.default_rng(seed)``, N doubles choose faces by
    running area, N more give sqrt(r1) and N more r2, for the point A + sqrt r1 (1 - r2) (B - A) +
    sqrt r1 r2 (C - A). This form keeps the points of an axis-aligned wall exactly on it, hence in one row of
    cells. They are drawn and marked in chunks, with the same result as at once and in bounded memory.

    Parameters
    ----------
    mesh : metres, Z up.

    Returns
    -------
    None when no face has any area.

    Raises
    ------
    CorruptInputError : coordinates that are not finite, or too large for cells to be counted.
    """
    areas = mesh.area_vectors()
    a_faces = np.linalg.norm(areas, axis=1)
    cumulative = np.cumsum(a_faces)
    if len(cumulative) == 0 or cumulative[-1] == 0.0:
        return None
    if not np.isfinite(cumulative[-1]):
        raise CorruptInputError("coordinates are not finite, or areas overflow", where="footprint",
                                todo="Repair the mesh or its scale")
    a_proj = float(np.abs(areas[:, 2]).sum())
    size = settings.cell
    samples = int(np.clip(settings.samples_per_cell * a_proj / size**2, settings.min_samples,
                          settings.max_samples))
    plan = mesh.triangles[:, :, :2]
    planes = plan.copy()
    planes[:, 1:] -= plan[:, :1]
    from spatialbench.world._footprint_kernel import bucket_starts

    surface = _Surface(cumulative, bucket_starts(cumulative), planes.reshape(-1, 6))
    bounds = np.stack([plan.min(axis=(0, 1)), plan.max(axis=(0, 1))])
    grid, cells = _sample(surface, bounds, samples, settings.seed, size)
    return Footprint(grid, cells, samples, a_proj, float(cumulative[-1]), size)


def fill_holes(grid: PlanGrid) -> PlanGrid:
    """The marked cells and those that they enclose (OPEN-5): every cell that has no path over the sides of
    unmarked cells to the outside. The array's own border counts as outside. Nothing is dilated."""
    if not grid.mask.any():
        return grid
    from scipy import ndimage

    outside = np.zeros((grid.mask.shape[0] + 2, grid.mask.shape[1] + 2), dtype=bool)
    np.logical_not(grid.mask, out=outside[1:-1, 1:-1])
    outside[[0, -1]] = True
    outside[:, [0, -1]] = True
    labels, _ = ndimage.label(outside)
    return PlanGrid((labels != labels[0, 0])[1:-1, 1:-1], grid.i0, grid.j0, grid.cell)


def _sample(surface: _Surface, bounds: NDArray[np.float64], samples: int, seed: int,
            size: float) -> tuple[PlanGrid | None, int]:
    """The grid (None if too large for an array) and the number of marked cells."""
    from spatialbench.world._footprint_kernel import cell_ids, mark_cells

    low, high = np.floor(bounds / size)
    if max(abs(low).max(), abs(high).max()) >= _FAR or np.prod(high - low + 3) >= 2.0**62:
        raise CorruptInputError(f"the mesh reaches {np.abs(bounds).max():.3g} m from the origin, too far for cells of "
                                f"{size:g} m", where="footprint", todo="Check the scale, or remove stray faces")
    # One cell more on every side, for points that rounding puts just outside the bounds.
    i0, j0 = int(low[0]) - 1, int(low[1]) - 1
    nx, ny = int(high[0]) - i0 + 2, int(high[1]) - j0 + 2
    if nx * ny <= MAX_CELLS:
        mask = np.zeros((nx, ny), dtype=bool)
        for pick, r1, r2 in _stream(samples, seed):
            mark_cells(pick, r1, r2, *surface, size, i0, j0, mask)
        grid = _cut(mask, i0, j0, size)
        return grid, grid.count
    parts = []
    for pick, r1, r2 in _stream(samples, seed):
        new = np.empty(len(pick), np.int64)
        cell_ids(pick, r1, r2, *surface, size, i0, j0, ny, new)
        parts.append(_distinct(new))
    ids = _distinct(np.concatenate(parts))
    i, j = np.divmod(ids, ny)
    nx, ny = int(i.max() - i.min()) + 1, int(j.max() - j.min()) + 1
    if nx * ny > MAX_CELLS:
        return None, len(ids)
    mask = np.zeros((nx, ny), dtype=bool)
    mask[i - i.min(), j - j.min()] = True
    return PlanGrid(mask, i0 + int(i.min()), j0 + int(j.min()), size), len(ids)


def _distinct(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sorted and each once; sorts in place. ``np.unique`` hashes, and takes some thirty times as long for these."""
    ids.sort()
    new = np.ones(len(ids), bool)
    np.not_equal(ids[1:], ids[:-1], out=new[1:])
    return ids[new]


def _stream(samples: int, seed: int) -> Iterator[tuple[NDArray[np.float64], ...]]:
    """Chunks of the three runs of N doubles that one generator would give one after the other. Each double takes
    one step of the generator, so that the later runs start N and 2N steps on."""
    generators = []
    for run in range(3):
        bits = np.random.PCG64(seed)
        bits.advance(run * samples)
        generators.append(np.random.Generator(bits))
    for start in range(0, samples, _CHUNK):
        n = min(_CHUNK, samples - start)
        yield tuple(g.random(n) for g in generators)


def _cut(mask: NDArray[np.bool_], i0: int, j0: int, size: float) -> PlanGrid:
    """Without the unmarked rows and columns around."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    inner = mask[rows[0]:rows[-1] + 1, columns[0]:columns[-1] + 1]
    return PlanGrid(np.ascontiguousarray(inner), i0 + int(rows[0]), j0 + int(columns[0]), size)
