"""Plane depth of splats: where a pixel's ray meets the plane of the splat that its median depth is of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers._splat_pack import PackedSplats
from spatialbench.types import Camera

__all__ = ["plane_depth"]

_ROWS = 1 << 18
"""Pixels at a time."""


def plane_depth(splats: PackedSplats, camera: Camera, position: NDArray[np.float64],
                depth: NDArray[np.float32]) -> None:
    """Replace numbers of splats by depths, in place.

    A splat's plane goes through its centre and holds its two longer axes. Where the ray meets it farther from the
    centre's depth than the splat reaches (3.33 of the largest standard deviation), or the two axes span no plane, the
    centre's depth stands.

    Parameters
    ----------
    position : [3] of the camera, in the frame of the splats' means.
    depth : [H,W] 1 plus the row of ``splats``, 0 for none; becomes the z-depth of the pixel's centre.
    """
    width = depth.shape[1]
    flat = depth.reshape(-1)
    hits = np.flatnonzero(flat)
    rotation = camera.pose.rotation
    for a in range(0, len(hits), _ROWS):
        at = hits[a:a + _ROWS]
        shape = splats.shape[flat[at].astype(np.int64) - 1].astype(np.float64)
        rays = np.stack([(at % width + 0.5 - camera.cx) / camera.fx, (at // width + 0.5 - camera.cy) / camera.fy,
                         np.ones(len(at))], axis=1) @ rotation.T
        axes = shape[:, 3:12].reshape(-1, 3, 3)
        longest = np.argsort((axes**2).sum(axis=2), axis=1, kind="stable")[:, 1:]
        which = np.arange(len(at))
        normal = np.cross(axes[which, longest[:, 0]], axes[which, longest[:, 1]])
        away = shape[:, :3] - position
        centre = away @ rotation[:, 2]
        along = np.einsum("ij,ij->i", normal, rays)
        z = np.divide(np.einsum("ij,ij->i", normal, away), along, out=np.zeros(len(at)), where=along != 0)
        sure = (z > 0) & (np.abs(z - centre) <= shape[:, 13])
        flat[at] = np.where(sure, z, centre)
