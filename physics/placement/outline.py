"""The edge of a support in plan: what is inside, and how far outside a point is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import UsageError
from spatialbench.types.placement import Support

__all__ = ["Boundary"]


@dataclass(frozen=True, eq=False)
class Boundary:
    """Outline of a support in plan, with holes.

    Attributes
    ----------
    outline : [N,2] XY corners, m, in either sense, not closed.
    holes : outlines of holes; a hole is outside.
    """

    outline: NDArray[np.float64]
    holes: tuple[NDArray[np.float64], ...] = ()

    @classmethod
    def of(cls, what: Boundary | Support | ArrayLike | tuple[ArrayLike, Sequence[ArrayLike]]) -> Boundary:
        """From a support, an outline, or (outline, holes).

        Raises
        ------
        UsageError : fewer than three corners, or not [N,2] and finite.
        """
        if isinstance(what, Boundary):
            return what
        if isinstance(what, Support):
            return cls(_ring(what.boundary), tuple(_ring(h) for h in what.holes))
        if isinstance(what, tuple) and len(what) == 2 and np.ndim(what[0]) == 2:
            return cls(_ring(what[0]), tuple(_ring(h) for h in what[1]))
        return cls(_ring(what))

    def polygon(self) -> Any:
        """As a prepared shapely geometry.

        Raises
        ------
        UsageError : the outline encloses nothing.
        """
        import shapely

        shape = shapely.make_valid(shapely.Polygon(self.outline, self.holes))
        if shape.area <= 0.0:
            raise UsageError("the outline of a support encloses no area", where="placement",
                             todo="Give at least three corners that are not in one line")
        shapely.prepare(shape)
        return shape

    def is_simple(self) -> bool:
        """Whether no ring crosses or touches itself or another."""
        import shapely

        return bool(shapely.is_valid(shapely.Polygon(self.outline, self.holes)))

    def bounds(self) -> tuple[float, float, float, float]:
        """x0, y0, x1, y1."""
        (x0, y0), (x1, y1) = self.outline.min(axis=0), self.outline.max(axis=0)
        return float(x0), float(y0), float(x1), float(y1)


def _ring(points: Any) -> NDArray[np.float64]:
    ring = np.array(points, dtype=np.float64)
    if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 3 or not np.isfinite(ring).all():
        raise UsageError(f"an outline is at least three finite XY corners, got shape {ring.shape}",
                         where="placement", todo="Give corners as [N,2] metres")
    return ring
