"""The bulk of a world: the box that holds nearly all of it, by opacity or area."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.blocks import box
from spatialbench.types import TriangleMesh

__all__ = ["FAR", "GAP", "SAMPLE", "Box", "bulk_of", "spread", "without_far"]

FAR = 3.0
"""Times the box of the bulk beyond which something is far."""
GAP = 5.0
"""Diagonals of a mesh between it and a piece that is far whatever its area."""
SAMPLE = 100_000
"""Points that tell the bulk: percentiles of so many are within 0.05 % of the weight."""
_BULK = (0.005, 0.995)
_MOST = 0.8  # of the area that is never far
_FLAT = 0.02  # least half side of a box over its largest: the air above a plain is not far


@dataclass(frozen=True, eq=False)
class Box:
    """The bulk: middle [3] and half sides [3], > 0, in the frame of the points."""

    middle: NDArray[np.float64]
    half: NDArray[np.float64]

    @property
    def reach(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper ends [3] of ``FAR`` times the box."""
        return self.middle - FAR * self.half, self.middle + FAR * self.half

    def far(self, points: NDArray, ends: NDArray | None = None) -> NDArray[np.bool_]:
        """[N] which points [N,3] lie beyond ``FAR`` times the box; ``ends`` [2,3] are those of all points."""
        low, high = self.reach
        ends = box(points) if ends is None else ends
        out = np.zeros(len(points), bool)
        for k in range(3):  # an order of magnitude faster than along axis 1
            if not (ends[0, k] >= low[k] and ends[1, k] <= high[k]):
                out |= (points[:, k] < low[k]) | (points[:, k] > high[k])
        return out


def bulk_of(points: NDArray[np.floating], weights: NDArray[np.float64] | None = None) -> Box:
    """The bulk of points [N,3], N > 0, by weights [N] (points of float32) or all alike; opacities (float32) add up
    without rounding, so that their order plays no part."""
    ends = np.empty((2, 3))
    for k in range(3):
        if weights is None:
            ordered, at = np.sort(points[:, k]), np.ceil(np.array(_BULK) * len(points)).astype(np.int64) - 1
            ends[:, k] = ordered[np.clip(at, 0, len(points) - 1)]
        else:
            ends[:, k] = _weighted(np.ascontiguousarray(points[:, k]), weights)
    half = (ends[1] - ends[0]) / 2
    least = max(_FLAT * float(half.max()), 1e-6 * float(np.abs(ends).max()), 1e-30)
    return Box((ends[0] + ends[1]) / 2, np.maximum(half, least))


def without_far(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Those of points [N,3], N > 0, that no gap of more than ``GAP`` diagonals along an axis parts from the most; all
    where these would be less than four fifths. The diagonal is that of the narrowest intervals that hold so many."""
    n = len(points)
    most = int(np.ceil(_MOST * n))
    columns = [np.sort(points[:, k]) for k in range(3)]
    widths = [c[most - 1:] - c[:n - most + 1] for c in columns]
    far = GAP * float(np.sqrt(sum(w.min() ** 2 for w in widths)))
    kept = np.ones(n, bool)
    for k, (column, width) in enumerate(zip(columns, widths, strict=True)):
        cuts = np.flatnonzero(np.diff(column) > far)
        if len(cuts):
            place = np.searchsorted(cuts, int(np.argmin(width)))
            low = column[cuts[place - 1] + 1] if place else -np.inf
            high = column[cuts[place]] if place < len(cuts) else np.inf
            kept &= (points[:, k] >= low) & (points[:, k] <= high)
    return points if kept.all() or np.count_nonzero(kept) < most else points[kept]


def _weighted(values: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """[2] the least of the values [N] that reach the shares ``_BULK`` of the weight. Only both tails are sorted: so
    many values as surely hold their share."""
    n, total, least = len(values), float(weights.sum()), float(weights.min())
    tail = int(min(n, _BULK[0] * total / least + 2)) if least > 0 else n
    chosen = [np.arange(n)] * 2
    if 4 * tail <= n:
        part = np.partition(values, (tail - 1, n - tail))
        chosen = [np.flatnonzero(values <= part[tail - 1]), np.flatnonzero(values >= part[n - tail])]
    out = np.empty(2)
    for i, (some, share) in enumerate(zip(chosen, _BULK, strict=True)):
        column, weight = values[some], weights[some]
        order = _ascending(column)
        reached = np.cumsum(np.take(weight, order))
        if i:
            reached += total - reached[-1]
        out[i] = column[order[min(int(np.searchsorted(reached, share * total)), len(order) - 1)]]
    return out


def _ascending(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """As ``np.argsort``, more than twice as fast: bits that ascend with the values, each with its place behind."""
    bits = (values + np.float32(0)).view(np.uint32)
    key = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31)).astype(np.uint64)
    key <<= np.uint64(32)
    key |= np.arange(len(values), dtype=np.uint64)
    key.sort()
    key &= np.uint64(0xFFFFFFFF)
    return key.astype(np.int64)


def spread(mesh: TriangleMesh, area: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points [N,3] spread over the surface by area: even steps of the running area, fixed seed."""
    n = min(SAMPLE, max(1000, 4 * len(area)))
    rng = np.random.default_rng(0)
    ends = np.cumsum(area)
    face = np.searchsorted(ends, (np.arange(n) + 0.5) * (ends[-1] / n)).clip(0, len(area) - 1)
    root, along = np.sqrt(rng.random(n)), rng.random(n)
    weight = np.stack([1 - root, root * (1 - along), root * along], axis=1)
    return np.einsum("ni,nij->nj", weight, np.take(mesh.vertices, mesh.faces[face], axis=0))
