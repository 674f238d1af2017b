"""How high the surface is under a plate: the three reference heights (OPEN-11g), and whether it is there."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spatialbench.types.placement import PlacementSettings
from spatialbench.types.rays import RayCaster

__all__ = ["DISC_RAYS", "PATCH_DISTANCE", "REFERENCES", "heights_near_plane", "missing_below", "plane_at",
           "reference_heights"]

REFERENCES = ("footprint_median", "plane", "footprint_max")
DISC_RAYS = 97
PATCH_DISTANCE = 0.08
"""Hits count within so far of the support's plane, m (real-worlds.md section 3)."""
_RIM_CHECKS = 8
_RIM_INSET = 0.001
"""The rim is looked at so far inside: a plate flush with an edge must not fall to a ray's rounding, m."""

Plane = tuple[float, float, float]


def plane_at(plane: Plane, xy: NDArray[np.float64]) -> NDArray[np.float64]:
    """[N] z of the plane z = a x + b y + c at [N,2]."""
    return plane[0] * xy[:, 0] + plane[1] * xy[:, 1] + plane[2]


def heights_near_plane(xy: NDArray[np.float64], plane: Plane, rays: RayCaster) -> NDArray[np.float64]:
    """[N] highest surface within ``PATCH_DISTANCE`` of the plane at [N,2]; NaN where there is none.

    The rays start at the top of that slab, so that a shelf above hides nothing.
    """
    z = plane_at(plane, xy)
    origins = np.column_stack([xy, z + PATCH_DISTANCE])
    hits = rays.first_hits(origins, np.tile([0.0, 0.0, -1.0], (len(xy), 1)))
    return np.where(hits.hit & (hits.distance <= 2 * PATCH_DISTANCE), origins[:, 2] - hits.distance, np.nan)


def missing_below(x: float, y: float, plane: Plane, s: PlacementSettings, rays: RayCaster) -> int:
    """How many of the centre and eight rim points have no surface below them (OPEN-11b)."""
    a = 2 * math.pi * np.arange(_RIM_CHECKS) / _RIM_CHECKS
    r = s.plate_diameter / 2 - _RIM_INSET
    xy = np.vstack([[x, y], np.column_stack([x + r * np.cos(a), y + r * np.sin(a)])])
    return int(np.isnan(heights_near_plane(xy, plane, rays)).sum())


def reference_heights(x: float, y: float, plane: Plane, s: PlacementSettings,
                      rays: RayCaster) -> dict[str, float]:
    """The three heights, m; only ``plane`` where no ray finds a surface.

    97 rays under the disc, spread evenly over its area (each stands for one 97th of it, so that their
    median is the disc's), from the middle to the rim.
    """
    k = np.arange(DISC_RAYS)
    r = s.plate_diameter / 2 * np.sqrt((k + 0.5) / DISC_RAYS)
    a = k * math.pi * (3.0 - math.sqrt(5.0))
    xy = np.column_stack([x + r * np.cos(a), y + r * np.sin(a)])
    z = heights_near_plane(xy, plane, rays)
    z = z[np.isfinite(z)]  # before any maximum: a NaN height would fail a trial for no reason
    at = float(plane_at(plane, np.array([[x, y]]))[0])
    if len(z) == 0:
        return {"plane": at}
    return {"footprint_median": float(np.median(z)), "plane": at, "footprint_max": float(z.max())}
