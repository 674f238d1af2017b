"""A renderer that needs no mesh, compiler or ray caster: one flat floor, for tests of whatever uses a renderer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Camera, RenderSettings, TriangleMesh

__all__ = ["FLOOR_COLOR", "FLOOR_Z", "FakeBackend"]

FLOOR_Z = -1.6
"""Height of the floor, an infinite horizontal plane; the mesh is ignored."""
FLOOR_COLOR = (0.5, 0.25, 0.75)
"""Encoded colour of the floor; above the horizon there is nothing."""


class FakeBackend:
    """Draws the floor at pixel centres, in closed form and without supersampling."""

    def __init__(self, mesh: TriangleMesh, settings: RenderSettings) -> None:
        del mesh
        self._background = np.array(settings.background, np.float32)

    def __call__(self, cameras: Sequence[Camera], want: Sequence[str]) -> tuple[
            NDArray[np.float32] | None, NDArray[np.float32] | None, NDArray[np.float32] | None]:
        """Images of cameras of one size."""
        depth = np.stack([_floor_depth(c) for c in cameras])
        alpha = (depth > 0).astype(np.float32)
        rgb = np.where(alpha[..., None] > 0, np.array(FLOOR_COLOR, np.float32), self._background)
        return rgb if "rgb" in want else None, depth if "depth" in want else None, \
            alpha if "alpha" in want else None


def _floor_depth(c: Camera) -> NDArray[np.float32]:
    x, y = np.meshgrid((np.arange(c.width) + 0.5 - c.cx) / c.fx, (np.arange(c.height) + 0.5 - c.cy) / c.fy)
    rise = np.stack([x, y, np.ones_like(x)], axis=-1) @ c.pose.rotation[2]
    gap = FLOOR_Z - float(c.pose.position[2])
    depth = np.divide(gap, rise, out=np.zeros_like(rise), where=np.abs(rise) > 1e-12)
    return np.where(depth > 0, depth, 0.0).astype(np.float32)
