"""Surfels of a world of splats, and how coarse its splats are."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import GaussianSplats
from spatialbench.types.protocol_rules import CameraFinding
from spatialbench.world.surfels import Surfels

__all__ = ["median_largest_sigma", "splat_surfels"]

# Constants of real-worlds.md sections 5 and 7 that no protocol key names.
_MIN_OPACITY = 0.2
_MAX_SIGMA = 1.0  # m


def splat_surfels(splats: GaussianSplats, unit_m: float, finding: CameraFinding) -> Surfels:
    """One surfel for each splat that can pass for a piece of surface (real-worlds.md section 5).

    Those with opacity above 0.2 and a largest standard deviation below 1 m: the point is the centre, the normal the
    shortest axis (of equal ones the first; its sense means nothing), the area opacity times 2 pi times the two larger
    standard deviations. Splats without area and those that are not finite give none. Of more than
    ``finding.max_surfels``, every k-th is taken for k.

    Parameters
    ----------
    unit_m : metres per unit of the splats.

    Returns
    -------
    Source frame's axes, metres, ``signed`` False.
    """
    ordered = np.sort(splats.scales, axis=1)
    kept = np.flatnonzero(_solid(splats) & (ordered[:, 2].astype(np.float64) * unit_m < _MAX_SIGMA)
                          & (ordered[:, 1] > 0) & np.isfinite(splats.means).all(axis=1)
                          & np.isfinite(splats.quaternions).all(axis=1) & (splats.quaternions != 0).any(axis=1))
    k = max(1, -(-len(kept) // finding.max_surfels))
    kept = kept[::k]  # not ``select``: it would copy the colours
    two = ordered[kept, 1:].astype(np.float64) * unit_m
    areas = splats.opacities[kept].astype(np.float64) * (2 * math.pi * k) * two[:, 0] * two[:, 1]
    points = splats.means[kept].astype(np.float64)
    if splats.offset is not None:
        points += splats.offset
    points *= unit_m
    normals = _axes(splats.quaternions[kept], splats.scales[kept].argmin(axis=1))
    return Surfels(points, normals, areas, signed=False)


def median_largest_sigma(splats: GaussianSplats, unit_m: float) -> float | None:
    """Median over the splats with opacity above 0.2 of the largest standard deviation, m (real-worlds.md section 7).

    None when there is no such splat. Splats with a standard deviation that is not finite do not count.
    """
    largest = splats.scales[_solid(splats)].max(axis=1, initial=0.0)
    return float(np.median(largest)) * unit_m if len(largest) else None


def _solid(splats: GaussianSplats) -> NDArray[np.bool_]:
    return np.asarray((splats.opacities > _MIN_OPACITY) & np.isfinite(splats.scales).all(axis=1))


def _axes(quaternions: NDArray[np.float32], which: NDArray[np.intp]) -> NDArray[np.float64]:
    """[N,3] unit: own axis number ``which`` [N] of each splat, in the splats' frame."""
    q = quaternions.astype(np.float64)
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    out = np.empty((len(q), 3))
    for i, column in enumerate(((1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)),
                                (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)),
                                (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)))):
        mine = which == i
        out[mine] = np.stack(column, axis=1)[mine]
    return out
