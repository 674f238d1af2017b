"""The plate as a rigid body: mass, axis, lowest point, where it is released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from spatialbench.types.placement import PlacementSettings

__all__ = ["Quaternion", "Release", "Vec3", "lowest_point", "plate_axis", "plate_mass", "release_over",
           "rim_points"]

Vec3 = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


@dataclass(frozen=True)
class Release:
    """One release of the plate, at rest.

    Attributes
    ----------
    id : of the place.
    centre : of the plate, m.
    quaternion : xyzw, unit.
    surface_z : height that the drop is measured from, m.
    reference : name of that height.
    """

    id: int
    centre: Vec3
    quaternion: Quaternion
    surface_z: float
    reference: str = "footprint_median"


def plate_mass(s: PlacementSettings) -> float:
    """Kilograms of the solid cylinder (1.36848 by the protocol)."""
    return s.plate_density * math.pi * (s.plate_diameter / 2) ** 2 * s.plate_thickness


def plate_axis(quaternion: Sequence[float]) -> NDArray[np.float64]:
    """[3] the plate's axis in the world: third column of the rotation of a unit quaternion xyzw."""
    x, y, z, w = quaternion
    return np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])


def lowest_point(centre_z: float, axis_z: float, s: PlacementSettings) -> float:
    """Height of the cylinder's lowest point (OPEN-11c): z - h/2 |n.z| - r sqrt(1 - n.z^2)."""
    nz = min(1.0, abs(axis_z))
    return centre_z - s.plate_thickness / 2 * nz - s.plate_diameter / 2 * math.sqrt(1.0 - nz * nz)


def release_over(id: int, x: float, y: float, surface_z: float, plane: tuple[float, float, float],
                 s: PlacementSettings, reference: str, below: float | None = None) -> Release:
    """Release with the underside's middle ``release_height`` off the surface point.

    ``below`` is the distance from the body's centre to its underside, m; the plate's when None.

    Level and vertically above it; or, with ``s.release == "plane_aligned"``, aligned with the plane
    z = a x + b y + c and along its normal (placement.md 2.2). A level plate over a slope starts inside it.
    """
    off = s.release_height + (s.plate_thickness / 2 if below is None else below)
    if s.release == "level":
        return Release(id, (x, y, surface_z + off), (0.0, 0.0, 0.0, 1.0), surface_z, reference)
    n = np.array([-plane[0], -plane[1], 1.0])
    n /= np.linalg.norm(n)
    # The shortest rotation of +Z onto n: axis Z x n, half angle from cos = n.z.
    w = math.sqrt((1.0 + n[2]) / 2)
    q = (float(-n[1] / (2 * w)), float(n[0] / (2 * w)), 0.0, w)
    return Release(id, (float(x + off * n[0]), float(y + off * n[1]), float(surface_z + off * n[2])), q,
                   surface_z, reference)


def rim_points(centre: Sequence[float], quaternion: Sequence[float], count: int,
               s: PlacementSettings) -> NDArray[np.float64]:
    """[count,3] points of the lower rim: the edge of whichever face looks down."""
    n = plate_axis(quaternion)
    n = n if n[2] >= 0 else -n
    u = np.cross(n, [1.0, 0.0, 0.0] if abs(n[0]) < 0.9 else [0.0, 1.0, 0.0])
    u /= np.linalg.norm(u)
    w = np.cross(n, u)
    a = 2 * math.pi * np.arange(count) / count
    r = s.plate_diameter / 2
    return (np.asarray(centre) - n * s.plate_thickness / 2
            + r * (np.cos(a)[:, None] * u + np.sin(a)[:, None] * w))
