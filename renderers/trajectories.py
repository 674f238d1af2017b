"""Where the cameras stand: rings, cube faces, downward rays, timed action paths, sampler locations.

Everything is in a Z-up frame: X right, Y forward; yaw and bearing 0 look along +Y and grow clockwise
seen from above (OPEN-6a, OPEN-15).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.renderers.actions import TimedPath, action_path, held_keys, parse_actions
from spatialbench.types import Camera, level_pose, look_at_pose

__all__ = ["CUBE_FACES", "TimedPath", "action_path", "bearings", "connecting_path", "cube_faces", "down_rays",
           "held_keys", "location_plan", "orbit", "orbit_of_box", "parse_actions", "path_cameras", "ring"]

CUBE_FACES = ("front", "right", "back", "left", "up", "down")
"""Order of ``cube_faces``: +Y, +X, -Y, -X, +Z, -Z."""
ORBIT_BOX = (1.5, 0.5, 4.0)
"""Radius of an orbit as a multiple of the box's diagonal, and its bounds in metres (OPEN-17b)."""
ORBIT_RISE = 0.25
"""Height above the centre as a share of the radius in plan (OPEN-17c)."""

def ring(position: ArrayLike, frames: int, width: int, height: int | None = None, fov_deg: float = 75.0,
         yaw0: float = 0.0) -> list[Camera]:
    """A level turn on the spot, clockwise, without a repeated end frame (OPEN-6a, OPEN-16).

    Parameters
    ----------
    position : [3] camera centre.
    frames : number of cameras, ``360 / frames`` degrees apart.
    width, height : pixels; height None for a square image.
    fov_deg : field of view across the width.
    yaw0 : yaw of the first camera, degrees.
    """
    return [Camera.from_fov(level_pose(position, yaw0 + 360.0 * k / frames), fov_deg, width, height)
            for k in range(frames)]


def cube_faces(position: ArrayLike, size: int) -> list[Camera]:
    """Six square 90-degree cameras that see everything, in the order of ``CUBE_FACES`` (M11, M12)."""
    angles = ((0, 0), (90, 0), (180, 0), (270, 0), (0, 90), (0, -90))
    return [Camera.from_fov(level_pose(position, yaw, pitch), 90.0, size) for yaw, pitch in angles]


def orbit(centre: ArrayLike, radius: float, views: int = 24, width: int = 768, height: int | None = None,
          fov_deg: float = 60.0, elevation_deg: float | None = None, start: ArrayLike | None = None) -> list[Camera]:
    """Cameras on a level circle that all look at one place, clockwise seen from above (OPEN-17c).

    Parameters
    ----------
    centre : [3] what they look at.
    radius : of the circle in plan, m; of the distance to the centre when an elevation is given.
    elevation_deg : of the cameras above the centre; None for a quarter of the radius in plan above it.
    start : [3] the first camera stands on the side of this place, of the initial camera for objects of the benchmark;
        None, or right above the centre, for the side of -Y.

    Raises
    ------
    ValueError : a radius that is not positive, an elevation at or beyond 90 degrees.
    """
    c = np.asarray(centre, dtype=np.float64)
    if not (radius > 0 and math.isfinite(radius)):
        raise ValueError(f"the radius of an orbit must be positive, got {radius}")
    if elevation_deg is not None and not abs(elevation_deg) < 90:
        raise ValueError(f"the elevation of an orbit must be between -90 and 90 degrees, got {elevation_deg}")
    plan, rise = radius, ORBIT_RISE * radius
    if elevation_deg is not None:
        plan, rise = (radius * f(math.radians(elevation_deg)) for f in (math.cos, math.sin))
    towards = np.zeros(2) if start is None else np.asarray(start, dtype=np.float64)[:2] - c[:2]
    first = math.degrees(math.atan2(towards[0], towards[1])) if towards.any() else 180.0
    places = [c + [*(plan * level_pose(c, first + 360.0 * k / views).forward[:2]), rise] for k in range(views)]
    return [Camera.from_fov(look_at_pose(p, c), fov_deg, width, height) for p in places]


def orbit_of_box(low: ArrayLike, high: ArrayLike, bounds: tuple[float, float] = ORBIT_BOX[1:]
                 ) -> tuple[NDArray[np.float64], float]:
    """Centre [3] and radius in plan of the orbit around a box: 1.5 diagonals, clipped to ``bounds`` (OPEN-17b)."""
    a, b = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    radius = ORBIT_BOX[0] * float(np.linalg.norm(b - a))
    return (a + b) / 2, min(max(radius, bounds[0]), bounds[1])


def connecting_path(start: ArrayLike, end: ArrayLike, frames: int = 16, width: int = 768, height: int | None = None,
                    fov_deg: float = 75.0) -> list[Camera]:
    """Cameras on the straight way from one place to another, both ends among them (V_P of W5, OPEN-23b).

    They are level and look along the way in plan; forward where it goes straight up or nowhere. The full circle at
    its end, V_J, is a ``ring`` there (OPEN-23a).
    """
    a, b = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    yaw = math.degrees(math.atan2(b[0] - a[0], b[1] - a[1]))
    share = np.linspace(0.0, 1.0, frames) if frames > 1 else np.zeros(1)
    return [Camera.from_fov(level_pose(a * (1 - t) + b * t, yaw), fov_deg, width, height) for t in share.tolist()]


def path_cameras(path: TimedPath, width: int, height: int | None = None, fov_deg: float = 75.0,
                 start: ArrayLike = (0.0, 0.0, 0.0)) -> list[Camera]:
    """A camera for each sample of a timed path (OPEN-12c)."""
    return [Camera.from_fov(pose, fov_deg, width, height) for pose in path.poses(start)]


def down_rays(tilt: float = 0.1) -> NDArray[np.float64]:
    """Unit directions [9,3] around straight down (OPEN-1a).

    Tangents -tilt, 0, tilt along X (slow) and Y (fast), so that row 4 is straight down. A hit's vertical
    distance is its distance times ``-z`` of its row.
    """
    t = np.array([-tilt, 0.0, tilt])
    x, y = np.meshgrid(t, t, indexing="ij")
    d = np.stack([x.ravel(), y.ravel(), np.full(9, -1.0)], axis=1)
    return np.asarray(d / np.linalg.norm(d, axis=1, keepdims=True))


def bearings(n: int = 8) -> NDArray[np.float64]:
    """Unit directions [n,2] in the plan: (sin, cos) of ``360 k / n`` degrees, exact along the axes (OPEN-15)."""
    return np.stack([level_pose(np.zeros(3), 360.0 * k / n).forward[:2] for k in range(n)]) + 0.0


def location_plan(distance: float, radius_factors: Sequence[float], n_bearings: int = 8
                  ) -> Iterator[list[tuple[int, NDArray[np.float64]]]]:
    """Candidates of the eight-location sampler (spec section 8), one list for each radius j.

    Yields
    ------
    (bearing index, position [3] relative to the origin, at its height), in the order j, j + n/2, then the
    others ascending.
    """
    directions = bearings(n_bearings)
    for j, factor in enumerate(radius_factors):
        first = [j % n_bearings, (j + n_bearings // 2) % n_bearings]
        order = list(dict.fromkeys([*first, *range(n_bearings)]))
        yield [(b, np.array([*(distance * factor * directions[b]), 0.0])) for b in order]
