"""Small clusters of splats that float alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.weld import touching

__all__ = ["MOST", "ends_of", "floating_of"]

MOST = 0.05
"""Share of the opaque splats from which on what floats (is huge) is the world, and not judged."""
_FEW, _FEW_SHARE = 8, 1e-4
"""A cluster of this many opaque splats, or of this share of them, that touches no other cell is a floater."""


def floating_of(means: NDArray[np.float32], chosen: NDArray[np.bool_], cell: float,
                ends: NDArray[np.float32] | None = None) -> NDArray[np.bool_] | None:
    """[N] splats of means [N,3] in cells of small clusters (26 neighbours) of the ``chosen`` [N] ones, whose box has
    the ``ends`` [2,3]; None: too sparse to tell."""
    from spatialbench.scene.splats import _kernels as kernels

    n = len(means)
    total = int(np.count_nonzero(chosen))
    if not total:
        return np.zeros(n, bool)
    low, high = (ends_of(means, chosen) if ends is None else ends).astype(np.float64)  # within FAR times the bulk
    shape = np.floor((high - low) / cell).astype(np.int64) + 1
    flat, count = np.empty(n, np.int32), np.zeros(int(shape.prod()), np.int32)
    in_blocks(n, lambda part: kernels.cells(means, low, high, np.float32(1 / cell), shape, part.start, part.stop, flat))
    kernels.count_cells(flat, chosen, count)
    occupied = count > 0
    clusters, label = touching(occupied.reshape(shape))
    label = label[occupied]
    size = np.bincount(label, weights=count[occupied], minlength=clusters)
    small = size <= max(_FEW, _FEW_SHARE * total)
    if not small.any():
        return np.zeros(n, bool)
    if size[small].sum() > MOST * total:
        return None
    floats = np.zeros(len(occupied) + 1, bool)  # the last one is for what lies outside
    floats[:-1][occupied] = small[label]
    return np.take(floats, flat, mode="wrap")


def ends_of(means: NDArray[np.float32], chosen: NDArray[np.bool_]) -> NDArray[np.float32]:
    """[2,3] ends of the ``chosen`` [N] of the means [N,3], of which there is one."""
    from spatialbench.scene.splats import _kernels as kernels

    size = max(1, -(-len(means) // 16))
    out = np.full((-(-len(means) // size), 2, 3), [[[np.inf], [-np.inf]]], np.float32)
    in_blocks(len(means), lambda part: kernels.ends(means[part], chosen[part], out[part.start // size]), size)
    return np.stack([out[:, 0].min(axis=0), out[:, 1].max(axis=0)])
