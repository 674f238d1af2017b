"""The bulk of a world: the box that holds nearly all of it, by opacity or area."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.blocks import box
from spatialbench.types import TriangleMesh

__all__ = ["FAR", "SAMPLE", "Box", "bulk_of", "spread"]

FAR = 3.0
"""Times the box of the bulk beyond which something is far."""
SAMPLE = 100_000
"""Points that tell the bulk: percentiles of so many are within 0.05 % of the weight."""
_BULK = (0.005, 0.995)
_FLAT = 0.02  # least half side of a box over its largest: the air above a plain is not far


@dataclass(frozen=True, eq=False)
class Box:
    """The bulk: middle [3] and half sides [3], > 0, in the frame of the points."""

    middle: NDArray[np.float64]
    half: NDArray[np.float64]

    def far(self, points: NDArray, ends: NDArray | None = None) -> NDArray[np.bool_]:
        """[N] which points [N,3] lie beyond ``FAR`` times the box; ``ends`` [2,3] are those of all points."""
        low, high = self.middle - FAR * self.half, self.middle + FAR * self.half
        ends = box(points) if ends is None else ends
        out = np.zeros(len(points), bool)
        for k in range(3):  # an order of magnitude faster than along axis 1
            if not (ends[0, k] >= low[k] and ends[1, k] <= high[k]):
                out |= (points[:, k] < low[k]) | (points[:, k] > high[k])
        return out


def bulk_of(points: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Box:
    """The bulk of points [N,3], N > 0, by weights [N] or all alike; opacities (float32) add up without rounding, so
    that their order plays no part."""
    ends = np.empty((2, 3))
    shares = np.array(_BULK)
    for k in range(3):
        if weights is None:
            ordered, at = np.sort(points[:, k]), np.ceil(shares * len(points)).astype(np.int64) - 1
        else:
            order = np.argsort(points[:, k])
            ordered, reached = points[order, k], np.cumsum(weights[order])
            at = np.searchsorted(reached, shares * reached[-1])
        ends[:, k] = ordered[np.clip(at, 0, len(points) - 1)]
    half = (ends[1] - ends[0]) / 2
    least = max(_FLAT * float(half.max()), 1e-6 * float(np.abs(ends).max()), 1e-30)
    return Box((ends[0] + ends[1]) / 2, np.maximum(half, least))


def spread(mesh: TriangleMesh, area: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points [N,3] spread over the surface by area: even steps of the running area, fixed seed."""
    n = min(SAMPLE, max(1000, 4 * len(area)))
    rng = np.random.default_rng(0)
    ends = np.cumsum(area)
    face = np.searchsorted(ends, (np.arange(n) + 0.5) * (ends[-1] / n)).clip(0, len(area) - 1)
    root, along = np.sqrt(rng.random(n)), rng.random(n)
    weight = np.stack([1 - root, root * (1 - along), root * along], axis=1)
    return np.einsum("ni,nij->nj", weight, np.take(mesh.vertices, mesh.faces[face], axis=0))
