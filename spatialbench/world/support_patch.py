"""From seen cells to supports: closing of gaps, connected patches, plane, outline, confidence."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from spatialbench.types.placement import Support
from spatialbench.world.support_columns import CellGrid
from spatialbench.world.support_outline import Crossings, patch_polygon, polygon_rings

__all__ = ["closed", "describe", "fit_plane", "patches"]


def closed(cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """With gaps of one or two cells closed: grown by one cell (4 neighbours), then shrunk by one."""
    from scipy import ndimage

    return ndimage.binary_closing(np.pad(cells, 2), iterations=1)[2:-2, 2:-2] | cells


def patches(cells: NDArray[np.bool_], seen: NDArray[np.float64],
            grid: CellGrid) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.float64], CellGrid]]:
    """The 4-connected patches of ``cells``, each cut out with its part of ``seen`` and of the grid."""
    from scipy import ndimage

    label, _ = ndimage.label(cells)
    for k, (a, b) in enumerate(ndimage.find_objects(label), start=1):
        mask = label[a, b] == k
        yield mask, np.where(mask, seen[a, b], np.nan), CellGrid(
            grid.i0 + a.start, grid.j0 + b.start, mask.shape[0], mask.shape[1], grid.cell)


def describe(mask: NDArray[np.bool_], seen: NDArray[np.float64], grid: CellGrid, edges: Crossings, *,
             source: str, note: str, spread: float, id: str = "support") -> Support:
    """A support from one patch.

    Parameters
    ----------
    mask : [NX,NY] its cells; ``seen`` [NX,NY] their heights, NaN where a cell was only filled in (it gets
        the plane's height).
    edges : crossings that include this patch's.
    source : ``found`` or ``case``.
    spread : m; the confidence of a found one is the share of its cells that were seen, times one minus
        its roughness over this.
    """
    ij = np.argwhere(mask)
    xy, z = grid.centres(ij), seen[mask]
    known = np.isfinite(z)
    plane = fit_plane(xy[known], z[known])
    at = plane[0] * xy[:, 0] + plane[1] * xy[:, 1] + plane[2]
    rough = float(np.sqrt(np.mean((z - at)[known] ** 2)))
    polygon = patch_polygon(mask, grid, edges)
    boundary, holes = polygon_rings(polygon)
    share = float(known.mean())
    words = (f"{int(known.sum())} of {len(ij)} cells of {grid.cell * 100:g} cm seen, "
             f"{rough * 1000:.1f} mm rough")
    return Support(
        id=id, boundary=boundary, height=float(np.median(z[known])), plane=plane,
        area=float(polygon.area), source=source,
        confidence=1.0 if source == "case" else max(0.0, share * (1.0 - rough / spread)),
        note=f"{words}; {note}" if note else words, holes=holes,
        cells=np.column_stack([xy, np.where(known, z, at)]), cell=grid.cell)


def fit_plane(xy: NDArray[np.float64], z: NDArray[np.float64]) -> tuple[float, float, float]:
    """(a, b, c) of z = a x + b y + c, least squares in z; level where the points do not span a plane."""
    middle, level = xy.mean(axis=0), float(z.mean())
    d = xy - middle
    slope = np.zeros(2)
    if np.linalg.matrix_rank(d) == 2:
        slope = np.linalg.lstsq(d, z - level, rcond=None)[0]
    return float(slope[0]), float(slope[1]), float(level - slope @ middle)
