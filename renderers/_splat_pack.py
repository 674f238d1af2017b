"""Splats laid out for drawing: neighbours in space are neighbours in memory, one cache line a splat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers._threads import in_chunks, thread_count
from spatialbench.types import GaussianSplats

__all__ = ["ALPHA_MIN", "CHUNK", "DEGREE_MAX", "SIGMAS", "PackedSplats", "drawn_harmonics", "pack_splats",
           "visible_splats"]

ALPHA_MIN = 1.0 / 255.0
"""What covers less of a pixel is left out."""
SIGMAS = 3.33
"""Standard deviations at which even an opaque splat is below ``ALPHA_MIN``: (2 ln 255)^(1/2) = 3.329."""
DEGREE_MAX = 3
"""Highest degree of spherical harmonics that is drawn."""
CHUNK = 1024
"""Consecutive splats that are left out together when their box is out of view."""

_BLOCK = 1 << 16
_BITS = 10
"""Of each coordinate in the sorting key: 1024 cells along each side of the box of all centres."""

F32 = NDArray[np.float32]


class PackedSplats(NamedTuple):
    """The n splats that could be seen from somewhere, in Morton order of their centres.

    Attributes
    ----------
    shape : [n,14] float32: centre (3), the three own axes times their standard deviations (9, axis by axis),
        opacity, ``SIGMAS`` times the largest standard deviation.
    sh : [n,3,K] float32: coefficients channel by channel, K = 1, 4, 9 or 16.
    source : [n] uint32 index in what was packed.
    boxes : [chunks,7] float32: middle and half extents of the chunk's centres, largest reach of its splats.
    """

    shape: F32
    sh: F32
    source: NDArray[np.uint32]
    boxes: F32


def visible_splats(splats: GaussianSplats) -> NDArray[np.uint32]:
    """Indices, ascending, of those that could be seen: not below ``ALPHA_MIN``, every value finite, with a rotation."""
    n = len(splats)
    usable = np.zeros(n, np.bool_)

    def check(a: int, b: int) -> None:
        usable[a:b] = (splats.opacities[a:b] >= ALPHA_MIN) & (splats.quaternions[a:b] != 0).any(1)
        for array in (splats.means, splats.scales, splats.quaternions, splats.opacities, splats.sh):
            usable[a:b] &= np.isfinite(array[a:b].reshape(b - a, -1)).all(1)

    in_chunks(check, n, _BLOCK, thread_count())
    return np.flatnonzero(usable).astype(np.uint32)


def pack_splats(splats: GaussianSplats) -> PackedSplats:
    """Order the splats that could be seen, and work out what does not depend on the view."""
    threads = thread_count()
    source = _morton_order(splats.means, visible_splats(splats))
    m = len(source)
    k = drawn_harmonics(splats)
    shape, sh = np.empty((m, 14), np.float32), np.empty((m, 3, k), np.float32)

    def fill(a: int, b: int) -> None:
        s = source[a:b]
        scales = splats.scales[s].astype(np.float64)
        axes = _rotations(splats.quaternions[s]) * scales[:, None, :]
        shape[a:b, :3] = splats.means[s]
        shape[a:b, 3:12] = axes.transpose(0, 2, 1).reshape(-1, 9)
        shape[a:b, 12] = splats.opacities[s]
        shape[a:b, 13] = np.minimum(SIGMAS * scales.max(1), np.finfo(np.float32).max)
        sh[a:b] = splats.sh[s, :k].transpose(0, 2, 1)

    in_chunks(fill, m, _BLOCK, threads)
    starts = np.arange(0, m, CHUNK)
    boxes = np.empty((len(starts), 7), np.float32)
    if m:
        low = np.minimum.reduceat(shape[:, :3], starts).astype(np.float64)
        high = np.maximum.reduceat(shape[:, :3], starts).astype(np.float64)
        boxes[:, :3], boxes[:, 3:6] = (low + high) / 2, (high - low) / 2
        boxes[:, 6] = np.maximum.reduceat(shape[:, 13], starts)
    return PackedSplats(shape, sh, source, boxes)


def drawn_harmonics(splats: GaussianSplats) -> int:
    """Number of coefficients a channel that are drawn: those of degree 4 are not, which the import report says."""
    return min(splats.sh.shape[1], (DEGREE_MAX + 1) ** 2)


def _morton_order(means: F32, which: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """``which`` by the interleaved bits of the cell of each centre, then by index."""
    if not len(which):
        return which
    means = means[which]
    low, high = means.min(0), means.max(0)
    cells = (1 << _BITS) * (1 - 2.0**-10) / np.maximum(high.astype(np.float64) - low.astype(np.float64), 1e-30)
    key = np.zeros(len(which), np.uint64)
    for a in range(3):
        cell = ((means[:, a].astype(np.float64) - low[a]) * cells[a]).astype(np.uint64)
        # Bit i goes to bit 3 i: halves are pulled apart, then quarters, and so on.
        for shift, mask in ((16, 0x30000FF), (8, 0x300F00F), (4, 0x30C30C3), (2, 0x9249249)):
            cell = (cell | (cell << np.uint64(shift))) & np.uint64(mask)
        key |= cell << np.uint64(a)
    key = (key << np.uint64(32)) | which
    key.sort()
    return (key & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _rotations(quaternions: F32) -> NDArray[np.float64]:
    """[n,3,3] of quaternions wxyz, normalised."""
    q = quaternions.astype(np.float64)
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    return np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
                     2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                     2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], 1).reshape(-1, 3, 3)
