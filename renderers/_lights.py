"""Lights that a mesh brings, as rows of one array, with the exposure worked in.

Light on matt surfaces, without shadows: linear colour x sum of illuminance x cosine. Illuminance of a directional
light is its intensity in lux, of an ambient one too but without a cosine, of the others candela / distance^2, faded
towards ``reach`` and the edge of a spot's cone as KHR_lights_punctual recommends.

The lights' first bounce is one more ambient light: what the faces throw back, spread evenly over all of them, that is
the mean by area of albedo x illuminance, channel by channel. It is the first term of the ambient light of progressive
radiosity (Cohen et al. 1988), for which a world counts as closed; later bounces, which a window or a gap swallows, are
left out, so that it never exceeds the mean of the direct light.

The standard leaves exposure to the viewer: here it is that at which a white face would on average (by area, of the
faces' better lit sides, at their middles) come out at ``MIDDLE``. It depends on the mesh alone, so that all images of
a world are alike.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers._albedo import face_albedo
from spatialbench.types import Light, TriangleMesh

__all__ = ["LIGHT_COLUMNS", "MIDDLE", "pack_lights"]

LIGHT_COLUMNS = 16
"""Kind (0 directional, 1 point, 2 spot, 3 ambient), colour x intensity x exposure (3), position (3), direction (3),
reach, scale and offset of the cosine within a spot's cone; the rest is room."""
MIDDLE = 0.5
"""Linear value of a white surface in the mean light."""

_KINDS = {"directional": 0.0, "point": 1.0, "spot": 2.0, "ambient": 3.0}
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


def pack_lights(mesh: TriangleMesh, normals: F64, decode: F32) -> F64:
    """Rows [n + 1,LIGHT_COLUMNS] of the mesh's lights and of their first bounce.

    Parameters
    ----------
    normals : [F,3] unit, 0 for faces without area.
    decode : [256] linear values of texels.

    Raises
    ------
    ValueError : an unknown kind, or values that are no light.
    """
    rows = [_row(light) for light in mesh.lights]
    area = np.linalg.norm(mesh.area_vectors(), axis=1)
    middles = mesh.triangles.mean(axis=1)
    sides = np.zeros((2, len(area), 3))
    for row in rows:
        strength, to = _arriving(row, middles)
        facing = np.einsum("ij,ij->i", normals, to)
        for side, sign in zip(sides, (1.0, -1.0), strict=True):
            cosine = 1.0 if row[0] == _KINDS["ambient"] else np.maximum(sign * facing, 0)
            side += (strength * cosine)[:, None] * row[1:4]
    direct = np.where((sides[0].sum(axis=1) >= sides[1].sum(axis=1))[:, None], sides[0], sides[1])
    albedo, lit = face_albedo(mesh, decode)
    back = _mean(albedo * direct, area * lit)
    rows.append(_row(Light("ambient", (float(back[0]), float(back[1]), float(back[2])))))
    table = np.stack(rows)
    mean = float(_mean(direct, area).mean() + back.mean())
    table[:, 1:4] *= MIDDLE / mean if mean > 0 else 1.0
    return table


def _mean(values: F64, weights: F64) -> F64:
    """[3] mean of rows [F,3], 0 without weight."""
    mean: F64 = (values * weights[:, None]).sum(axis=0) / max(float(weights.sum()), 1e-300)
    return mean


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
    """Share of the intensity that arrives at points [n,3], and the unit vectors [n,3] to the light (any if ambient)."""
    axis = row[7:10]
    if row[0] in (_KINDS["directional"], _KINDS["ambient"]):
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
