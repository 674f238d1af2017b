"""The collision mesh of a world of splats: which part of it is fused, and what to say about the outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.sky import without_sky
from spatialbench.types import CollisionMesh, GaussianSplats, Protocol
from spatialbench.world.collision import collision_mesh
from spatialbench.world.sight import depth_renderer
from spatialbench.world.surfels import weighted_quantile
from spatialbench.world.warn import fusion_warnings

__all__ = ["fused_bounds", "fused_collision"]

def fused_collision(splats: GaussianSplats, ground_z: float, protocol: Protocol,
                    progress: Callable[[str, int, int], None]) -> tuple[CollisionMesh, list[str]]:
    """Fuse the splats around the origin, and prepare the mesh as any other (real-worlds.md section 2; OPEN-3).

    Parameters
    ----------
    splats : world frame, metres, initial camera at the origin; their sky is left out.
    ground_z : height of the floor, m.

    Raises
    ------
    UsageError : settings that would keep too many images.
    BackendUnavailableError : ``fusion.backend`` is ``open3d``, and it is not there or does not work.
    """
    from spatialbench.world.fusion import fuse

    splats = without_sky(splats)
    low, high, clipped = fused_bounds(splats, ground_z, protocol)
    if not (high - low > 0).all():
        return (_nothing(ground_z, protocol),
                ["nothing lies near the initial camera that a collision mesh could be fused from"])
    fused = fuse(depth_renderer(splats), low, high, protocol.fusion, clipped=clipped,
                 progress=lambda done, total: progress("fusing the collision mesh", done, total))
    words = fusion_warnings(fused.quality, protocol.fusion)
    if fused.mesh is None:
        return replace(_nothing(ground_z, protocol), fusion=fused.quality), words
    return replace(collision_mesh(fused.mesh, ground_z, protocol.crop, "fused_mesh"), fusion=fused.quality), words


def _nothing(ground_z: float, protocol: Protocol) -> CollisionMesh:
    crop = (ground_z - protocol.crop.below_ground, ground_z + protocol.crop.above_ground)
    return CollisionMesh(None, "fused_mesh", None, None, False, False, 0, 0, crop)


def fused_bounds(splats: GaussianSplats, ground_z: float, protocol: Protocol
                 ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Corners [3], [3] of what is fused, and the share of the splats that lies outside.

    The bulk of the splats by opacity times largest sigma, with a margin, no farther than ``fusion.reach`` from the
    origin horizontally and within the crop heights.
    """
    rule, crop = protocol.fusion, protocol.crop
    points = splats.means.astype(np.float64)
    weight = splats.opacities.astype(np.float64) * splats.scales.max(axis=1)
    if not weight.sum() > 0:
        return np.zeros(3), np.zeros(3), 0.0
    ends = np.stack([weighted_quantile(points[:, a], weight, rule.trim, 1 - rule.trim) for a in range(3)], axis=1)
    low = np.maximum(ends[0] - rule.margin, [-rule.reach, -rule.reach, ground_z - crop.below_ground])
    high = np.minimum(ends[1] + rule.margin, [rule.reach, rule.reach, ground_z + crop.above_ground])
    inside = ((points >= low) & (points <= high)).all(axis=1)
    return low, high, float(1.0 - weight[inside].sum() / weight.sum())
