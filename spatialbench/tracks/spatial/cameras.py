"""Cameras of the track that several levels share: circles on the spot and orbits, with the lenses of the protocol.

World frame: X right, Y forward, Z up, origin at the initial camera, m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.metrics.objects import orbit_radius
from spatialbench.types import Camera, Protocol

__all__ = ["RADIUS_READS", "Placed", "orbit_around", "origin_ring", "placed", "placed_in_box", "ring_at"]

RADIUS_READS = ("objects.radius_factor", "objects.radius_limits")
"""Protocol keys of the radius of an orbit."""
_ORIGIN = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Placed:
    """Where an object is.

    Attributes
    ----------
    centre : [3] what its orbit looks at, m.
    diagonal : b_o of its box, m (OPEN-20c).
    radius : of the orbit in plan, m (OPEN-17b).
    """

    centre: NDArray[np.float64]
    diagonal: float
    radius: float


def ring_at(protocol: Protocol, place: Sequence[float], frames: int) -> list[Camera]:
    """A level circle of ``frames`` views at a place [3], with the lens of ``views.lens`` (OPEN-6a, OPEN-16)."""
    from spatialbench.renderers.trajectories import ring

    lens = protocol.views.lens
    return ring(place, frames, lens.width, lens.height, lens.fov_deg)


def origin_ring(protocol: Protocol) -> list[Camera]:
    """V_0: the origin views, of which the first sees what the initial camera sees."""
    return ring_at(protocol, _ORIGIN, protocol.views.ring_frames)


def orbit_around(protocol: Protocol, centre: NDArray[np.float64], radius: float) -> list[Camera]:
    """The 24 views of an object or of an edit's target [3], with a radius in plan, m; the first on the side of the
    initial camera (OPEN-17c)."""
    from spatialbench.renderers.trajectories import orbit

    rule, lens = protocol.editing, protocol.views.lens
    return orbit(centre, radius, rule.orbit_views, lens.width, lens.height, rule.orbit_fov_deg, start=_ORIGIN)


def placed(protocol: Protocol, points: NDArray[np.float64]) -> Placed | None:
    """From points [N,3] that were lifted from masks: their median, and their box by percentiles; None without one
    (OPEN-17a, OPEN-20c)."""
    if not len(points):
        return None
    low, high = np.percentile(points, protocol.editing.box_percentiles, axis=0)
    return _placed(protocol, np.median(points, axis=0), high - low)


def placed_in_box(protocol: Protocol, low: ArrayLike, high: ArrayLike) -> Placed:
    """From the corners [3] of a box that is known."""
    a, b = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    return _placed(protocol, (a + b) / 2, b - a)


def _placed(protocol: Protocol, centre: NDArray[np.float64], size: NDArray[np.float64]) -> Placed:
    rule, diagonal = protocol.objects, float(np.linalg.norm(size))
    return Placed(centre, diagonal, orbit_radius(diagonal, rule.radius_factor, rule.radius_limits))
