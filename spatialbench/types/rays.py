"""What a ray caster gives, as an interface, so that simulators can use one without importing renderers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["AllHits", "FirstHits", "RayCaster"]


@dataclass(frozen=True, eq=False)
class FirstHits:
    """First hit of each of R rays.

    Attributes
    ----------
    distance : [R] float64 along the unit direction; inf where nothing is hit.
    face : [R] int32, -1 where nothing is hit.
    normal : [R,3] float64 unit normal by the face's winding; zero where nothing is hit.
    """

    distance: NDArray[np.float64]
    face: NDArray[np.int32]
    normal: NDArray[np.float64]

    @property
    def hit(self) -> NDArray[np.bool_]:
        """[R] whether there was a hit."""
        return self.face >= 0


@dataclass(frozen=True, eq=False)
class AllHits:
    """Every hit of many rays, in order of ray and then of distance.

    Attributes
    ----------
    ray : [K] int64 index of the ray.
    distance : [K] float64.
    face : [K] int32.
    """

    ray: NDArray[np.int64]
    distance: NDArray[np.float64]
    face: NDArray[np.int32]


class RayCaster(Protocol):
    """Casts rays at one triangle mesh, in the mesh's own frame and unit."""

    def first_hits(self, origins: ArrayLike, directions: ArrayLike) -> FirstHits:
        """First hit of each ray; both [R,3], directions need not be unit."""

    def all_hits(self, origins: ArrayLike, directions: ArrayLike) -> AllHits:
        """All hits of each ray; both [R,3]."""
