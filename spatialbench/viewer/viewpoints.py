"""Where a person looks from: the initial camera, straight down with all above it cut away, and from outside."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.sky import without_sky
from spatialbench.types import GaussianSplats, Protocol, World

__all__ = ["VIEWPOINTS", "Viewpoint", "extent", "viewpoint"]

VIEWPOINTS = ("Initial camera", "Top", "Orbit")
_CUT = 0.3
"""Above the initial camera, where the view from the top cuts the world open, m."""
_FOV = math.radians(50.0)
_NEAR = 0.01
_SHARES = (1.0, 99.0)

F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Viewpoint:
    """A camera of the page: world frame, m; ``fov`` across the height, radians; nearer than ``near`` is cut off."""

    position: F64
    target: F64
    fov: float
    near: float = _NEAR


def extent(world: World) -> F64:
    """[2,3] box of the 1st to 99th percentile of vertices, or centres of splats, the sky left out."""
    seen = without_sky(world.seen)
    if isinstance(seen, GaussianSplats):
        points = seen.means.astype(np.float64) + (0.0 if seen.offset is None else seen.offset)
    else:
        points = seen.vertices
    if not len(points):
        return np.array([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])
    return np.percentile(points, _SHARES, axis=0)


def viewpoint(name: str, box: F64, protocol: Protocol) -> Viewpoint:
    """One of ``VIEWPOINTS`` of a world of that extent [2,3]."""
    centre, size = box.mean(axis=0), box[1] - box[0]
    if name == "Initial camera":
        lens = protocol.views.lens
        across = math.tan(math.radians(lens.fov_deg) / 2) * lens.height / lens.width
        return Viewpoint(np.zeros(3), np.array([0.0, 1.0, 0.0]), 2 * math.atan(across))
    if name == "Top":
        away = 0.55 * float(max(size[0], size[1], 0.5)) / math.tan(_FOV / 2)
        # A little to the south, so that forward is up on the screen.
        place = np.array([centre[0], centre[1] - 1e-3 * away, _CUT + away])
        return Viewpoint(place, np.array([centre[0], centre[1], 0.0]), _FOV, away)
    away = 0.6 * max(float(np.linalg.norm(size)), 0.5) / math.sin(_FOV / 2)
    yaw, pitch = math.radians(150.0), math.radians(40.0)
    side = np.array([math.sin(yaw) * math.cos(pitch), math.cos(yaw) * math.cos(pitch), math.sin(pitch)])
    return Viewpoint(centre + away * side, centre, _FOV)
