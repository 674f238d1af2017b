"""Cutting patches into cells: small where there is detail, an edge or a bend, none where nothing can be seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.assets.room.cells import Cells, coverage, frames, joined, rows_of_cells
from spatialbench.assets.room.exposure import free_edges, linings, openness, visible
from spatialbench.assets.room.surface import AtlasMeans, Surface
from spatialbench.types import RayCaster

__all__ = ["cut_cells"]

_WIDEST_SHELL, _WIDEST, _LEAST = 0.052, 0.050, 0.008
"""Cells before they are halved: of the shell; most and least elsewhere; m."""
_OF_SIZE = 0.25
"""Cells are at most this share of the root of their patch's area, within the limits above."""
_EDGE = 0.026
"""Widest cell at a free edge, across it, m."""
_CUT = 0.013
"""Largest cell that the outline of an opening runs through, m."""
_SAGITTA = 0.004
"""A cell's middle lies at most this far from the chord between its ends, m."""
_DETAIL = 7.0e-5
"""Area times variance of the colour, summed over RGB, above which a cell is halved, m2."""
_SMALLEST, _FINEST_DETAIL = 0.006, 0.009
"""Least width of halves: where the surface bends, where it is painted in detail; m."""
_SLIMMEST, _LONG = 4.0, 0.03
"""Most that a cell may be longer than wide, unless it is shorter than this, m."""
_OPEN, _COARSER = 0.35, 1.6
"""Patches less open than this share of rays get larger cells, up to this factor."""
_NEAR = 0.35
"""An opening counts as beside a cell within this share of its width."""
_ROUNDS = 14

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


def cut_cells(surface: Surface, means: AtlasMeans, caster: RayCaster, owner: Index, areas: Array, shell: Mask
              ) -> Cells:
    """Cells that cover everything that can be seen of the patches.

    Parameters
    ----------
    surface, means : the patches [P] and their colours.
    caster, owner : casts rays at the patches' triangles [F]; the patch of each.
    areas : [P] m2.
    shell : [P] bool, floor, walls and ceiling.
    """
    widest = np.where(shell, _WIDEST_SHELL, np.clip(_OF_SIZE * np.sqrt(areas), _LEAST, _WIDEST))
    rough = _covered(surface, rows_of_cells(surface, 2 * widest))
    opened = openness(surface, rough, caster, len(areas))
    lining = linings(surface, rough, caster, owner, opened)
    widest *= np.clip(np.sqrt(_OPEN / np.maximum(opened, 1e-3)), 1.0, _COARSER)
    cells = _covered(surface, rows_of_cells(surface, widest))
    cells = visible(surface, cells[~lining[cells.patch]], caster)
    cells = replace(cells, free=free_edges(surface, cells, caster))
    for _ in range(_ROUNDS):
        split, along_u = _to_split(surface, means, replace(cells, free=cells.free | _at_opening(surface, cells)))
        if not split.any():
            break
        low, high = cells[split].halves(along_u[split])
        cells = joined(cells[~split], low, high)
    cells = cells[(coverage(surface, cells) >= 0.5) & surface.at(cells.patch, *cells.middle)[1]]
    return replace(cells, free=cells.free | _at_opening(surface, cells))


def _covered(surface: Surface, c: Cells) -> Cells:
    """Those that have a part of the surface."""
    return c[coverage(surface, c) > 0]


def _at_opening(surface: Surface, c: Cells) -> Mask:
    """[N,4] borders beyond which the patch goes on without triangles: cells along an opening."""
    out = np.zeros((len(c), 4), bool)
    reach_u, reach_v = _NEAR * (c.u1 - c.u0), _NEAR * (c.v1 - c.v0)
    for f in (0.1, 0.5, 0.9):
        u, v = c.u0 + f * (c.u1 - c.u0), c.v0 + f * (c.v1 - c.v0)
        for k, (a, b) in enumerate(((c.u0 - reach_u, v), (c.u1 + reach_u, v), (u, c.v0 - reach_v),
                                    (u, c.v1 + reach_v))):
            x = a if k < 2 else b
            out[:, k] |= (x > 0) & (x < 1) & ~surface.at(c.patch, a, b)[1]
    return out


def _to_split(surface: Surface, means: AtlasMeans, c: Cells) -> tuple[Mask, Mask]:
    """Which cells are halved, and whether along u."""
    u, v = c.middle
    point, across_u, across_v, _ = frames(surface, c)
    wide, high = (np.linalg.norm(a, axis=1) for a in (across_u, across_v))
    along_u = wide >= high
    split = np.maximum(wide, high) > np.maximum(_SLIMMEST * np.minimum(wide, high), _LONG)

    def decide(these: Mask, way: Mask | bool) -> None:
        new = these & ~split
        along_u[new] = np.broadcast_to(way, len(c))[new]
        split[new] = True

    for way, size, a, b in ((True, wide, (c.u0, v), (c.u1, v)), (False, high, (u, c.v0), (u, c.v1))):
        edge = (c.free[:, :2] if way else c.free[:, 2:]).any(axis=1)
        decide(edge & (size > _EDGE), way)
        ends = surface.at(c.patch, *a)[0] + surface.at(c.patch, *b)[0]
        decide((np.linalg.norm(point - ends / 2, axis=1) > _SAGITTA) & (size > _SMALLEST), way)
    share = coverage(surface, c)
    decide((share > 0) & (share < 1) & (np.maximum(wide, high) > _CUT), wide >= high)
    varied = wide * high * means.variance(c.patch, c.u0, c.u1, c.v0, c.v1) > _DETAIL
    best = np.full(len(c), -1.0)
    for way, size, rest in ((True, wide, high), (False, high, wide)):
        low, up = c.halves(np.full(len(c), way))
        step = (means(low.patch, low.u0, low.u1, low.v0, low.v1) - means(up.patch, up.u0, up.u1, up.v0, up.v1))
        gain = np.einsum("ij,ij->i", step, step) * (0.5 + size / (wide + high))
        gain[(size < 2 * _FINEST_DETAIL) | (2 * rest > _SLIMMEST * size) | ~varied | split] = -1
        along_u[gain > best] = way
        best = np.maximum(best, gain)
    return split | (best >= 0), along_u
