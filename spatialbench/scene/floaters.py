"""Small clusters of splats that float alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.blocks import in_blocks, share_of
from spatialbench.scene.cells import clusters_of

__all__ = ["MOST", "empty_boxes", "ends_of", "floating_of", "widest"]

MOST = 0.05
"""Share of the opaque splats from which on what floats (is huge) is the world, and not judged."""
_FEW, _FEW_SHARE = 8, 1e-4
"""A cluster of this many opaque splats, or of this share of them, that touches no other cell is a floater."""


def floating_of(means: NDArray[np.float32], chosen: NDArray[np.bool_], ends: NDArray[np.float32], cell: float
                ) -> tuple[NDArray[np.bool_] | None, NDArray[np.float32]]:
    """[N] splats of means [N,3] in cells of small clusters (26 neighbours) of the ``chosen`` [N] ones, whose box has
    the ``ends`` [2,3]; None: too sparse to tell. And the ends of the chosen that do not float."""
    from spatialbench.scene.splats import _kernels as kernels

    n = len(means)
    total = int(np.count_nonzero(chosen))
    if not total:
        return np.zeros(n, bool), ends
    low, high = ends.astype(np.float64)  # within FAR times the bulk
    shape = np.floor((high - low) / cell).astype(np.int64) + 1
    flat, size = np.empty(n, np.int32), share_of(n)
    counts = np.zeros((-(-n // size), int(shape.prod())), np.int32)
    in_blocks(n, lambda part: kernels.cells(means, chosen, low, high, np.float32(1 / cell), shape, part.start,
                                            part.stop, flat, counts[part.start // size]), size)
    count = counts.sum(axis=0, dtype=np.int32) if len(counts) > 1 else counts[0]
    clusters = clusters_of((count > 0).reshape(shape))
    sizes = clusters.sums(count)
    small = sizes <= max(_FEW, _FEW_SHARE * total)
    if not small.any():
        return np.zeros(n, bool), ends
    if sizes[small].sum() > MOST * total:
        return None, ends
    there, floats, boxes = clusters.cells(small), np.empty(n, bool), empty_boxes(-(-n // size))
    in_blocks(n, lambda part: kernels.marked(means, chosen, flat, there, part.start, part.stop, floats,
                                             boxes[part.start // size]), size)
    return floats, widest(boxes)


def ends_of(means: NDArray[np.float32], chosen: NDArray[np.bool_]) -> NDArray[np.float32]:
    """[2,3] ends of the ``chosen`` [N] of the means [N,3]; infinite without any."""
    from spatialbench.scene.splats import _kernels as kernels

    out = empty_boxes(1)[0]
    kernels.ends(means, chosen, out)
    return out


def empty_boxes(*shape: int) -> NDArray[np.float32]:
    """[...,2,3] boxes that hold nothing, to be widened."""
    out = np.empty((*shape, 2, 3), np.float32)
    out[..., 0, :], out[..., 1, :] = np.inf, -np.inf
    return out


def widest(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """[...,2,3] box around boxes [B,...,2,3]."""
    return np.stack([boxes[..., 0, :].min(axis=0), boxes[..., 1, :].max(axis=0)], axis=-2)
