"""What a place sees of a world: nine rays down, level ranges, enclosure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types import Camera
from spatialbench.types.protocol_rules import ScaleRule
from spatialbench.world.interior import look_directions
from spatialbench.world.sight import Sight

__all__ = ["camera_rays", "enclosure_at", "level_directions", "level_percentile", "level_ranges", "nine_rays"]

_LEVEL_RAYS = 360


def nine_rays(sight: Sight, position: ArrayLike, rotation: NDArray[np.float64], rule: ScaleRule
              ) -> tuple[float | None, ...]:
    """Vertical distances to the first hits of the nine downward rays (OPEN-1a, 1c).

    Parameters
    ----------
    position : [3] source frame.
    rotation : [3,3] from the source frame to X right, Y forward, Z up.

    Returns
    -------
    Nine distances in the source unit; None where nothing is hit, or not farther than ``min_distance``.
    """
    from spatialbench.renderers.trajectories import down_rays

    level = down_rays(rule.ray_tilt)
    hits = sight.first_hits(np.asarray(position, dtype=np.float64), level @ rotation)
    vertical = np.where(hits.hit, hits.distance, 0.0) * -level[:, 2]
    return tuple(float(d) if d > rule.min_distance else None for d in vertical)


def level_directions(n: int = _LEVEL_RAYS) -> NDArray[np.float64]:
    """[n,3] horizontal unit directions, clockwise from forward (+Y), level frame."""
    turn = 2 * math.pi * np.arange(n) / n
    return np.stack([np.sin(turn), np.cos(turn), np.zeros(n)], axis=1)


def level_ranges(sight: Sight, position: ArrayLike, rotation: NDArray[np.float64]) -> NDArray[np.float64]:
    """[360] distance to what level rays hit, clockwise from forward; inf where nothing is hit."""
    return sight.first_hits(np.asarray(position, dtype=np.float64), level_directions() @ rotation).distance


def level_percentile(ranges: NDArray[np.float64], percentile: float) -> float | None:
    """Range that ``percentile`` of the rays stay within; misses are infinitely far, and None means that."""
    value = float(np.percentile(ranges, percentile, method="inverted_cdf"))
    return value if math.isfinite(value) else None


def enclosure_at(sight: Sight, position: ArrayLike, rotation: NDArray[np.float64], reach: float
                 ) -> tuple[float, float | None]:
    """Share of the 50 directions of real-worlds.md section 5b that hit within ``reach`` (source unit), and
    the share of those hits that see a face from its front, None without a hit or where faces have no sides.
    """
    directions = look_directions() @ rotation
    hits = sight.first_hits(np.asarray(position, dtype=np.float64), directions)
    near = hits.hit & (hits.distance <= reach)
    if not sight.sided or not near.any():
        return float(near.mean()), None
    front = np.einsum("ij,ij->i", hits.normal, directions) < 0
    return float(near.mean()), float(front[near].mean())


def camera_rays(cameras: Sequence[Camera]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Origins and unit directions [R,3] through all pixel centres of all cameras, world frame."""
    origins, directions = [], []
    for c in cameras:
        x, y = np.meshgrid((np.arange(c.width) + 0.5 - c.cx) / c.fx, (np.arange(c.height) + 0.5 - c.cy) / c.fy)
        d = np.stack([x, y, np.ones_like(x)], axis=-1).reshape(-1, 3)
        directions.append((d / np.linalg.norm(d, axis=1, keepdims=True)) @ c.pose.rotation.T)
        origins.append(np.broadcast_to(c.pose.position, d.shape))
    return np.concatenate(origins), np.concatenate(directions)
