"""What is recorded of a trial but does not decide it.

``inside_solid`` : a ray upwards from the released body's centre meets a face from behind, as inside a
closed solid, where a plate has no contact and "rests" on the table in there (placement.md trap 8).
``unsupported_rim_share`` : share of 32 points of the lower rim at rest with nothing within 1 cm below (of the corners
it stands on, for a hull).
``resting_gap`` : m between the underside at rest (rim and middle) and the surface below, at its narrowest;
absent when nothing is below. About 0; 1 mm would betray a collision margin.
The last two are given only for bodies that have not dropped.
"""

from __future__ import annotations

import numpy as np

from spatialbench.physics.placement.objects import underside
from spatialbench.types.placement import PlacedObject
from spatialbench.types.rays import RayCaster

__all__ = ["release_diagnostics", "rest_diagnostics"]

_NEAR = 0.01
_START = 0.005
"""Rays start so far above the underside, so that a surface flush with it is not missed."""


def release_diagnostics(centre: tuple[float, float, float], rays: RayCaster) -> dict[str, float | bool]:
    """``inside_solid``."""
    hit = rays.first_hits([centre], [(0.0, 0.0, 1.0)])
    return {"inside_solid": bool(hit.face[0] >= 0 and hit.normal[0, 2] > 0)}


def rest_diagnostics(centre: tuple[float, float, float], quaternion: tuple[float, float, float, float],
                     placed: PlacedObject, rays: RayCaster) -> dict[str, float | bool]:
    """``unsupported_rim_share`` and ``resting_gap``."""
    points = underside(placed, centre, quaternion)
    hits = rays.first_hits(points + [0.0, 0.0, _START], np.tile([0.0, 0.0, -1.0], (len(points), 1)))
    gaps = np.where(hits.hit, hits.distance - _START, np.inf)
    out: dict[str, float | bool] = {"unsupported_rim_share": float((gaps[:-1] > _NEAR).mean())}
    if np.isfinite(gaps).any():
        out["resting_gap"] = float(gaps.min())
    return out
