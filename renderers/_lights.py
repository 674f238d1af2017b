"""Lights that a mesh brings, as rows of one array, with the exposure worked in.

Direct light on matt surfaces, without shadows: linear colour x sum of illuminance x cosine. Illuminance of a
directional light is its intensity in lux, of the others candela / distance^2, faded towards ``reach`` and the edge of
a spot's cone as KHR_lights_punctual recommends. The standard leaves exposure to the viewer: here it is that at which a
white face would on average (by area, of the faces' better lit sides, at their middles) come out at ``MIDDLE``. It
depends on the mesh alone, so that all images of a world are alike.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Light, TriangleMesh

__all__ = ["LIGHT_COLUMNS", "MIDDLE", "pack_lights"]

LIGHT_COLUMNS = 16
"""Kind (0 directional, 1 point, 2 spot), colour x intensity x exposure (3), position (3), direction (3), reach,
scale and offset of the cosine within a spot's cone; the rest is room."""
MIDDLE = 0.5
"""Linear value of a white surface in the mean light."""

_KINDS = {"directional": 0.0, "point": 1.0, "spot": 2.0}
F64 = NDArray[np.float64]


def pack_lights(mesh: TriangleMesh, normals: F64) -> F64:
    """Rows [n,LIGHT_COLUMNS] of the mesh's lights.

    Parameters
    ----------
    normals : [F,3] unit, 0 for faces without area.

    Raises
    ------
    ValueError : an unknown kind, or values that are no light.
    """
    table = np.stack([_row(light) for light in mesh.lights])
    area = np.linalg.norm(mesh.area_vectors(), axis=1)
    middles = mesh.triangles.mean(axis=1)
    sides = np.zeros((2, len(area)))
    for row in table:
        strength, to = _arriving(row, middles)
        facing = np.einsum("ij,ij->i", normals, to)
        grey = row[1:4].mean()
        sides[0] += grey * strength * np.maximum(facing, 0)
        sides[1] += grey * strength * np.maximum(-facing, 0)
    better = sides.max(axis=0)
    mean = float((better * area).sum() / max(float(area.sum()), 1e-300))
    table[:, 1:4] *= MIDDLE / mean if mean > 0 else 1.0
    return table


def _row(light: Light) -> F64:
    if light.kind not in _KINDS:
        raise ValueError(f"a light is one of {', '.join(_KINDS)}, not '{light.kind}'")
    axis = np.array(light.direction, np.float64)
    axis = axis / max(float(np.linalg.norm(axis)), 1e-300)
    inner, outer = math.cos(light.inner), math.cos(light.outer)
    scale = 1.0 / max(inner - outer, 1e-3)
    row = np.zeros(LIGHT_COLUMNS)
    row[0] = _KINDS[light.kind]
    row[1:4] = np.array(light.color) * light.intensity
    row[4:7], row[7:10] = light.position, axis
    row[10], row[11], row[12] = light.reach, scale, -outer * scale
    if not np.isfinite(row).all() or (row[1:4] < 0).any() or light.reach < 0:
        raise ValueError(f"a {light.kind} light has values that are not finite or below 0")
    return row


def _arriving(row: F64, points: F64) -> tuple[F64, F64]:
    """Share of the intensity that arrives at points [n,3], and the unit vectors [n,3] to the light."""
    axis = row[7:10]
    if row[0] == _KINDS["directional"]:
        return np.ones(len(points)), np.broadcast_to(-axis, points.shape)
    away = row[4:7] - points
    distance2 = np.maximum(np.einsum("ij,ij->i", away, away), 1e-12)
    to = away / np.sqrt(distance2)[:, None]
    strength = 1.0 / distance2
    if row[10] > 0:
        strength *= np.clip(1.0 - (distance2 / row[10] ** 2) ** 2, 0.0, 1.0)
    if row[0] == _KINDS["spot"]:
        strength *= np.clip(to @ -axis * row[11] + row[12], 0.0, 1.0) ** 2
    return strength, to
