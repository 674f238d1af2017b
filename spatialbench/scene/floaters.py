"""Small clusters of splats that float alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.weld import components, touching

__all__ = ["MOST", "ends_of", "floating_of"]

MOST = 0.05
"""Share of the opaque splats from which on what floats (is huge) is the world, and not judged."""
_FEW, _FEW_SHARE = 8, 1e-4
"""A cluster of this many opaque splats, or of this share of them, that touches no other cell is a floater."""
_BLOCK = 1 << 15  # splats that are worked on at a time
_STEP = 16  # of the points that are looked at first for the ends of all


def floating_of(columns: NDArray[np.float32], chosen: NDArray[np.bool_], cell: float, ends: NDArray | None = None
              ) -> NDArray[np.bool_] | None:
    """[N] splats of middles [3,N] in cells of small clusters (26 neighbours) of the ``chosen`` [N] ones, whose box has
    the ``ends`` [2,3]; None: too sparse to tell."""
    n = columns.shape[1]
    index = np.flatnonzero(chosen)
    if not len(index):
        return np.zeros(n, bool)
    ends = (ends_of(columns, chosen) if ends is None else ends).astype(np.float64)  # within FAR times the bulk
    shape = np.floor((ends[1] - ends[0]) / cell).astype(np.int64) + 1
    flat, inside = np.empty(n, np.int32), np.empty(n, bool)

    def block(part: slice) -> None:
        number = np.zeros(part.stop - part.start, np.int32)
        within = np.ones(part.stop - part.start, bool)
        for column, low, high, cells in zip(columns, *ends.tolist(), shape.tolist(), strict=True):
            values = column[part]
            within &= (values >= low) & (values <= high)
            with np.errstate(over="ignore"):  # of splats at the end of float32; they are not inside
                along = np.minimum((values - np.float32(low)) * np.float32(1 / cell), np.float32(cells - 1))
            number *= np.int32(cells)
            number += (along if within.all() else np.where(within, along, np.float32(0))).astype(np.int32)
        flat[part], inside[part] = number, within

    in_blocks(n, block, _BLOCK)
    occupied = np.zeros(int(shape.prod()), bool)
    at = flat if len(index) == n else np.take(flat, index)
    occupied[at] = True
    number = np.cumsum(occupied, dtype=np.int32) - np.int32(1)
    a, b = touching(occupied.reshape(shape))
    one = np.arange(int(number[-1]) + 1, dtype=np.int32)
    clusters, label = components(np.concatenate([number[a], one]), np.concatenate([number[b], one]), len(one))
    size = np.bincount(label, weights=np.bincount(np.take(number, at), minlength=len(one)), minlength=clusters)
    small = size <= max(_FEW, _FEW_SHARE * len(index))
    if not small.any():
        return np.zeros(n, bool)
    if size[small].sum() > MOST * len(index):
        return None
    floats = np.zeros(len(occupied), bool)
    floats[occupied] = small[label]
    return np.take(floats, flat) & inside


def ends_of(columns: NDArray, chosen: NDArray[np.bool_], some: NDArray[np.intp] | None = None) -> NDArray:
    """[2,3] ends of the ``chosen`` [N] points of [3,N]; only what lies beyond ``some`` of these need be looked at."""
    some = np.flatnonzero(chosen)[::_STEP] if some is None else some
    out = np.empty((2, len(columns)), columns.dtype)
    for k, column in enumerate(columns):
        part = np.take(column, some)
        for row, end, beyond in ((0, np.minimum, np.less), (1, np.maximum, np.greater)):
            out[row, k] = end.reduce(part)
            at = np.flatnonzero(beyond(column, out[row, k]))
            out[row, k] = end.reduce(np.take(column, at[np.take(chosen, at)]), initial=out[row, k])
    return out
