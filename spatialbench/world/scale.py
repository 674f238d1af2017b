"""The metric scale by the protocol's rule, which is the paper's and literal (spec section 3, equation 30)."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.sky import without_sky
from spatialbench.types import Decision, GaussianSplats, Protocol, ScaleRecord, TriangleMesh

__all__ = ["ground_height", "ring_depths", "scale_decision", "scale_world"]

_OPAQUE = 0.5  # OPEN-1c
_AGREE = 0.2
"""Rays that differ by less than this from their median, as a share of it, end on one floor."""


def scale_world(rays: tuple[float | None, ...], depths: Callable[[], NDArray[np.float32]], protocol: Protocol,
                user_scale: float | None) -> ScaleRecord:
    """Metres per source unit: nine rays, else the depth percentile, else failed (OPEN-1).

    Parameters
    ----------
    rays : vertical distances of the nine rays, source units.
    depths : gives the pooled depths of the origin ring that count, source units; only called when needed.
    user_scale : stands in for the rule; the record then says ``protocol=False``.
    """
    rule = protocol.scale
    if user_scale is not None:
        return ScaleRecord("user", float(user_scale), rays, protocol=False)
    valid = [d for d in rays if d is not None]
    if len(valid) >= rule.min_hits:
        return ScaleRecord("floor", rule.camera_height / statistics.median(valid), rays)
    pooled = depths()
    pooled = pooled[pooled > rule.min_distance]
    if not len(pooled):
        return ScaleRecord("failed", None, rays)
    percentile = float(np.percentile(pooled.astype(np.float64), rule.fallback_percentile))
    return ScaleRecord("depth", rule.fallback_depth / percentile, rays, percentile)


def ring_depths(level: TriangleMesh | GaussianSplats, protocol: Protocol) -> NDArray[np.float32]:
    """[K] camera-axis depths of the pixels of the origin ring with alpha >= 0.5, without the sky (OPEN-1c, 2, 6).

    Parameters
    ----------
    level : world with its camera at the origin, X right, Y forward, Z up, source unit.
    """
    from spatialbench.renderers import open_renderer
    from spatialbench.renderers.trajectories import ring

    level = without_sky(level)
    if len(level.faces if isinstance(level, TriangleMesh) else level) == 0:
        return np.zeros(0, np.float32)
    lens = protocol.views.lens
    cameras = ring(np.zeros(3), protocol.views.ring_frames, lens.width, lens.height, lens.fov_deg)
    found = [np.zeros(0, np.float32)]
    for frames in open_renderer(level).stream(cameras, want=("depth", "alpha")):
        assert frames.depth is not None
        assert frames.alpha is not None
        found.append(frames.depth[(frames.alpha >= _OPAQUE) & (frames.depth > 0)])
    return np.concatenate(found)


def ground_height(record: ScaleRecord, protocol: Protocol) -> tuple[float, bool]:
    """Height of the floor in the world, m, and whether it is assumed because no ray saw one (OPEN-1d)."""
    if record.branch == "floor":
        return -protocol.scale.camera_height, False
    valid = [d for d in record.ray_distances if d is not None]
    if record.branch == "user" and valid and record.factor is not None:
        return -statistics.median(valid) * record.factor, False
    return protocol.scale.assumed_ground_z, True


def scale_decision(record: ScaleRecord, protocol: Protocol) -> tuple[Decision, list[str]]:
    """The decision ``scale`` and what a person should know about it."""
    rule = protocol.scale
    hits = sum(d is not None for d in record.ray_distances)
    if record.branch == "user":
        return (Decision(value=record.factor, source="user", note="replaces the protocol's rule"),
                ["the scale was given: results are not the protocol's"])
    if record.branch == "failed":
        return (Decision(value=None, source="none", confidence=0.0, note="no ray and no pixel meets anything"),
                ["no scale: nothing lies below the initial camera or around it; lengths are in the file's unit"])
    if record.branch == "depth":
        return (Decision(value=record.factor, source="rule", confidence=0.3,
                         note=f"{rule.fallback_depth:g} m / {rule.fallback_percentile:g}th percentile of depth "
                              f"{record.percentile_depth:.4g}"),
                ["no floor below the initial camera: the scale comes from the depth around it, and the ground is "
                 f"assumed {-rule.assumed_ground_z:g} m below"])
    warnings = []
    if hits < rule.warn_below_hits:
        warnings.append(f"only {hits} of the nine rays down meet something: the scale rests on them")
    valid = [d for d in record.ray_distances if d is not None]
    near, far = (statistics.median(valid) * (1 + s * _AGREE) for s in (-1, 1))
    agree = sum(near <= d <= far for d in valid)
    if 3 * agree < 2 * hits:
        warnings.append(f"the rays down end {min(valid):.3g} to {max(valid):.3g} units below the initial camera, only "
                        f"{agree} of {hits} near their median, which the scale rests on: is that the floor? Look at "
                        "the height of the rooms, and choose another place with --camera if it is not")
    return Decision(value=record.factor, source="rule", confidence=hits / 9,
                    note=f"{rule.camera_height:g} m / median of {hits} rays"), warnings
