"""Outlines of patches of cells, with the edge measured between the cells rather than drawn along them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.world.support_columns import CellGrid

__all__ = ["Crossings", "Inside", "edge_crossings", "patch_polygon", "polygon_rings"]

_BISECTIONS = 7
"""Of a cell of 2 cm: the edge is then known to 0.16 mm."""
_SIMPLIFY = 0.1
"""Corners that move the outline by less than this share of a cell are dropped."""

Inside = Callable[[NDArray[np.float64]], NDArray[np.bool_]]
"""Whether the surface is there, [N] for XY [N,2]."""

# By which of a block's corners (0,0), (1,0), (1,1), (0,1) are inside (bits 1, 2, 4, 8): where the outline
# enters and leaves the block, with the inside on its left. Two opposite corners stay apart.
_B, _R, _T, _L = 0, 1, 2, 3
_SEGMENTS: dict[int, tuple[tuple[int, int], ...]] = {
    1: ((_B, _L),), 2: ((_R, _B),), 4: ((_T, _R),), 8: ((_L, _T),),
    3: ((_R, _L),), 6: ((_T, _B),), 12: ((_L, _R),), 9: ((_B, _T),),
    14: ((_L, _B),), 13: ((_B, _R),), 11: ((_R, _T),), 7: ((_T, _L),),
    5: ((_B, _L), (_T, _R)), 10: ((_R, _B), (_L, _T)),
}


@dataclass(frozen=True)
class Crossings:
    """Where outlines cross the lines between neighbouring cell centres.

    ``x`` and ``y`` give XY for the line from a cell, counted from the world's origin, to the next one along
    that axis.
    """

    x: dict[tuple[int, int], tuple[float, float]]
    y: dict[tuple[int, int], tuple[float, float]]


def edge_crossings(mask: NDArray[np.bool_], seen: NDArray[np.bool_], grid: CellGrid,
                   inside: Inside) -> Crossings:
    """All crossings of the outlines of ``mask`` [NX,NY], which may hold several patches.

    Between an inside and an outside cell centre the outline crosses where the surface ends: at the last
    place along the line that ``inside`` accepts, by bisection. Beside cells that were filled in and not
    ``seen`` it crosses halfway.
    """
    m, s = np.pad(mask, 1), np.pad(seen & mask, 1)
    wide = CellGrid(grid.i0 - 1, grid.j0 - 1, m.shape[0], m.shape[1], grid.cell)
    pairs = []
    for near, far, step in ((m[:-1, :], m[1:, :], (1, 0)), (m[:, :-1], m[:, 1:], (0, 1))):
        ij = np.argwhere(near != far)
        from_near = near[tuple(ij.T)][:, None]
        pairs.append((ij, ij + np.where(from_near, (0, 0), step), ij + np.where(from_near, step, (0, 0))))
    inner = np.concatenate([a for _, a, _ in pairs])
    xy = _last_inside(wide.centres(inner), wide.centres(np.concatenate([b for _, _, b in pairs])),
                      s[tuple(inner.T)], inside)
    found: list[dict[tuple[int, int], tuple[float, float]]] = []
    start = 0
    for ij, _, _ in pairs:
        keys = (ij + [wide.i0, wide.j0]).tolist()
        found.append({(i, j): (x, y) for (i, j), (x, y) in
                      zip(keys, xy[start:start + len(ij)].tolist(), strict=True)})
        start += len(ij)
    return Crossings(*found)


def _last_inside(p: NDArray[np.float64], q: NDArray[np.float64], seen: NDArray[np.bool_],
                 inside: Inside) -> NDArray[np.float64]:
    """[N,2] last point inside on the way from p to q; halfway where p was not seen."""
    lo, hi = np.zeros(len(p)), np.ones(len(p))
    for _ in range(_BISECTIONS):
        middle = (lo + hi) / 2
        good = np.zeros(len(p), bool)
        good[seen] = inside((p + middle[:, None] * (q - p))[seen])
        lo, hi = np.where(good, middle, lo), np.where(good, hi, middle)
    # Never through a cell centre itself: the outline could touch its own other side there.
    share = np.where(seen, np.maximum(lo, 2.0**-_BISECTIONS / 2), 0.5)
    return p + share[:, None] * (q - p)


def patch_polygon(mask: NDArray[np.bool_], grid: CellGrid, edges: Crossings) -> Any:
    """Shapely polygon, with holes, of one 4-connected patch [NX,NY]; its corners are cut by under a cell."""
    import shapely

    rings = _rings(np.pad(mask, 1), grid.i0 - 1, grid.j0 - 1, edges)
    rings.sort(key=lambda r: -_signed_area(r))  # the only one that runs counter-clockwise is the outside
    return shapely.simplify(shapely.Polygon(rings[0], rings[1:]), _SIMPLIFY * grid.cell)


def polygon_rings(polygon: Any) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], ...]]:
    """Outline counter-clockwise and holes clockwise, not closed."""
    from shapely.geometry.polygon import orient

    p = orient(polygon)
    return (np.array(p.exterior.coords)[:-1, :2],
            tuple(np.array(h.coords)[:-1, :2] for h in p.interiors))


def _rings(m: NDArray[np.bool_], i0: int, j0: int, edges: Crossings) -> list[list[tuple[float, float]]]:
    """Closed outlines, each with the inside on its left."""
    code = m[:-1, :-1] * 1 + m[1:, :-1] * 2 + m[1:, 1:] * 4 + m[:-1, 1:] * 8
    follow: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    for a, b in np.argwhere((code > 0) & (code < 15)).tolist():
        i, j = a + i0, b + j0
        side = ((0, i, j), (1, i + 1, j), (0, i, j + 1), (1, i, j))  # B, R, T, L as crossings
        for enter, leave in _SEGMENTS[int(code[a, b])]:
            follow[side[enter]] = side[leave]
    rings = []
    while follow:
        start = next(iter(follow))
        ring, here = [], start
        while True:
            ring.append((edges.y if here[0] else edges.x)[here[1], here[2]])
            here = follow.pop(here)
            if here == start:
                break
        rings.append(ring)
    return rings


def _signed_area(ring: list[tuple[float, float]]) -> float:
    p = np.array(ring)
    q = np.roll(p, -1, axis=0)
    return float((p[:, 0] * q[:, 1] - q[:, 0] * p[:, 1]).sum() / 2)
