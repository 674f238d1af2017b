"""Polygons in plan on the world's grid, and the grid's four-connected components (spec/navmesh.md section 5)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.types import PlanGrid

__all__ = ["EDGE_TOLERANCE", "MAX_CELLS", "Components", "components", "planar_area", "rasterise"]

EDGE_TOLERANCE = 1e-6
"""Of a cell: a centre this far outside an edge still counts as on it."""
MAX_CELLS = 400_000_000
"""Of the box around all polygons; a byte each."""
_BLOCK_CELLS = 1 << 24
_STRIPS_AT_ONCE = 1 << 20


class Components(NamedTuple):
    """Four-connected components of a grid.

    Attributes
    ----------
    labels : [NX,NY] int32; 0 where nothing is marked, else 1 to K by falling size, ties by the first cell
        in order of rows and then columns.
    sizes : [K] int64 cells of each.
    """

    labels: NDArray[np.int32]
    sizes: NDArray[np.int64]


def rasterise(xy: ArrayLike, polygons: tuple[tuple[int, ...], ...], cell: float = 0.05) -> PlanGrid:
    """Cells whose centre is inside or on the edge of any of some convex polygons.

    Cell (i, j) is that of floor(coordinate / cell), whatever the polygons' bounds are. Both windings are taken.
    float32 coordinates are widened to float64 before anything is computed.

    Parameters
    ----------
    xy : [N,2] horizontal coordinates, metres.
    polygons : convex, as tuples of indices into ``xy``.
    cell : edge of a cell, metres.

    Raises
    ------
    CorruptInputError : an index out of range, coordinates that are not finite, more than 400 million cells.
    """
    points = np.asarray(xy, dtype=np.float64).reshape(-1, 2)
    corners, counts = _padded(polygons, len(points))
    if len(counts) == 0:
        return PlanGrid(np.zeros((0, 0), dtype=bool), 0, 0, cell)
    loops = points[corners] / cell  # From here on in cells.
    if not np.isfinite(loops).all():
        raise CorruptInputError("coordinates are not finite", where="rasterise", todo="Repair them")
    low, high = loops.min(axis=(0, 1)), loops.max(axis=(0, 1))
    if np.prod(high - low + 2) > MAX_CELLS:
        raise CorruptInputError(f"the polygons extend over {high[0] - low[0]:.0f} x {high[1] - low[1]:.0f} cells, "
                                f"more than {MAX_CELLS:,}", where="rasterise", todo="Use a coarser grid")
    i0, j0 = (int(k) for k in np.floor(low - EDGE_TOLERANCE))
    nx, ny = (int(k) + 1 for k in np.floor(high + EDGE_TOLERANCE) - [i0, j0])
    first, last = _rows_of(loops[:, :, 0])
    mask = np.zeros((nx, ny), dtype=bool)
    block = max(_BLOCK_CELLS // (ny + 1), 1)
    for a in range(0, nx, block):
        b = min(a + block, nx)
        # Where a run of covered cells starts (+1) and ends (-1) in its row; one more column for the last end.
        edges = np.zeros((b - a, ny + 1), dtype=np.int32)
        begin = np.maximum(first, i0 + a)
        rows = np.minimum(last, i0 + b - 1) - begin + 1
        some = np.flatnonzero(rows > 0)
        _add_polygons(edges, loops[some], begin[some], rows[some], i0 + a, j0)
        np.cumsum(edges, axis=1, out=edges)
        np.greater(edges[:, :ny], 0, out=mask[a:b])
    return PlanGrid(mask, i0, j0, cell)


def planar_area(xy: ArrayLike, polygons: tuple[tuple[int, ...], ...]) -> float:
    """Sum of the polygons' areas in plan, m2; storeys above each other are counted each.

    Raises
    ------
    CorruptInputError : an index out of range.
    """
    points = np.asarray(xy, dtype=np.float64).reshape(-1, 2)
    corners, counts = _padded(polygons, len(points))
    if len(counts) == 0:
        return 0.0
    loops = points[corners] - points[corners[:, :1]]  # From each polygon's own corner: far coordinates cancel.
    after = np.roll(loops, -1, axis=1)
    return float(np.abs((loops[..., 0] * after[..., 1] - loops[..., 1] * after[..., 0]).sum(axis=1)).sum() / 2)


def components(grid: PlanGrid) -> Components:
    """Label the marked cells that hang together by their sides; touching corners do not connect."""
    if not grid.mask.any():
        return Components(np.zeros(grid.mask.shape, np.int32), np.zeros(0, np.int64))
    from scipy import ndimage

    found = np.zeros(grid.mask.shape, np.int32)
    n = ndimage.label(grid.mask, output=found)
    flat = found.ravel()
    sizes = np.bincount(flat, minlength=n + 1)[1:]
    marked = np.flatnonzero(flat)
    first = np.empty(n + 1, np.int64)
    first[flat[marked[::-1]]] = marked[::-1]  # Of repeated indices the last assignment stays: the first cell.
    order = np.lexsort((first[1:], -sizes))
    renumbered = np.zeros(n + 1, np.int32)
    renumbered[order + 1] = np.arange(1, n + 1, dtype=np.int32)
    return Components(renumbered[found], sizes[order].astype(np.int64))


def _padded(polygons: tuple[tuple[int, ...], ...], n_points: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[P,M] corner indices, each polygon's last corner repeated to the common length M; and the [P] counts."""
    kept = [p for p in polygons if len(p) >= 3]
    counts = np.array([len(p) for p in kept], dtype=np.int64)
    if not kept:
        return np.zeros((0, 0), np.int64), counts
    width = int(counts.max())
    corners = np.array([(*p, *(p[-1],) * (width - len(p))) for p in kept], dtype=np.int64)
    if corners.min() < 0 or corners.max() >= n_points:
        raise CorruptInputError(f"a polygon refers to a vertex that is not there ({n_points} are)",
                                where="rasterise", todo="Give indices into xy")
    return corners, counts


def _rows_of(coordinate: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last cell along one axis whose centre is within each loop's extent; last < first if none is."""
    low = np.ceil(coordinate.min(axis=1) - EDGE_TOLERANCE - 0.5)
    high = np.floor(coordinate.max(axis=1) + EDGE_TOLERANCE - 0.5)
    return low.astype(np.int64), high.astype(np.int64)


def _add_polygons(edges: NDArray[np.int32], loops: NDArray[np.float64], first: NDArray[np.int64],
                  rows: NDArray[np.int64], i0: int, j0: int) -> None:
    """``_add_strips`` for as many polygons at a time as bounded memory allows."""
    done = np.concatenate([[0], np.cumsum(rows)])
    start = 0
    while start < len(rows):
        stop = max(int(np.searchsorted(done, done[start] + _STRIPS_AT_ONCE, side="right")) - 1, start + 1)
        _add_strips(edges, loops[start:stop], first[start:stop], rows[start:stop], i0, j0)
        start = stop


def _add_strips(edges: NDArray[np.int32], loops: NDArray[np.float64], first: NDArray[np.int64],
                rows: NDArray[np.int64], i0: int, j0: int) -> None:
    """Cut every polygon along each row of cell centres that crosses it, and mark both ends of the cut.

    A convex polygon is the set of points on one side of all its edges; on a row of constant x each edge leaves a
    half-line of y, so that their intersection is one interval.
    """
    owner = np.repeat(np.arange(len(rows)), rows)
    if len(owner) == 0:
        return
    row = np.arange(len(owner)) - np.repeat(np.cumsum(rows) - rows, rows) + np.repeat(first, rows)
    x = row + 0.5
    a = loops
    d = np.roll(loops, -1, axis=1) - a
    area = (a[:, :, 0] * (a[:, :, 1] + d[:, :, 1]) - (a[:, :, 0] + d[:, :, 0]) * a[:, :, 1]).sum(axis=1)
    side = np.where(area < 0, -1.0, 1.0)
    slack = EDGE_TOLERANCE * np.hypot(d[:, :, 0], d[:, :, 1])
    y_low = (a[:, :, 1].min(axis=1) - EDGE_TOLERANCE)[owner]
    y_high = (a[:, :, 1].max(axis=1) + EDGE_TOLERANCE)[owner]
    for k in range(loops.shape[1]):
        # Inside: dx (y - ay) >= dy (x - ax) - slack, with the edge turned so that inside is on its left.
        dx, dy = (side * d[:, k, 0])[owner], (side * d[:, k, 1])[owner]
        bound = dy * (x - a[owner, k, 0]) - slack[owner, k]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            y = a[owner, k, 1] + bound / dx
        y_low = np.where(dx > 0, np.maximum(y_low, y), y_low)
        y_high = np.where(dx < 0, np.minimum(y_high, y), y_high)
        y_high = np.where((dx == 0) & (bound > 0), -np.inf, y_high)
    covered = y_high >= y_low
    begin = np.ceil(y_low[covered] - 0.5).astype(np.int64) - j0
    end = np.floor(y_high[covered] - 0.5).astype(np.int64) - j0 + 1
    some = end > begin
    flat, width = edges.ravel(), edges.shape[1]
    at = (row[covered][some] - i0) * width
    np.add.at(flat, at + begin[some], 1)
    np.subtract.at(flat, at + end[some], 1)
