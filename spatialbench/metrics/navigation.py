"""M08 and M08c: how much of the ground can be walked on (eq. 42)."""

from __future__ import annotations

from spatialbench.metrics.ruling import Ruling, no_value, ruled
from spatialbench.types import Status

__all__ = ["BUILD_FAILED", "EMPTY_FOOTPRINT", "NO_COMPONENT", "navigable_ratio"]

EMPTY_FOOTPRINT = "empty_footprint"
BUILD_FAILED = "navmesh_build_failed"
NO_COMPONENT = "no_navigable_component"


def navigable_ratio(largest_area: float | None, footprint_area: float, cause: str = "") -> Ruling:
    """Area of the largest four-connected navigable component over the footprint's area; may exceed 1.

    Parameters
    ----------
    largest_area : m2 of the plan cells; 0 when a NavMesh marks none; None when no NavMesh could be built
        at any voxel size.
    footprint_area : m2 of the plan cells that geometry covers.
    cause : why there is no NavMesh, as its first attempt says: ``build_failed`` (or empty), ``no_floor``,
        ``agent_does_not_fit`` or ``only_islands``.

    Returns
    -------
    ``invalid`` for an empty footprint, whatever the NavMesh; else a value, which is 0 with its reason
    when every build failed (OPEN-9), for want of a floor, of room for the agent or of pieces that are large enough,
    or when nothing is navigable.

    Raises
    ------
    ValueError : for an area below zero.
    """
    if footprint_area < 0 or (largest_area is not None and largest_area < 0):
        raise ValueError(f"areas cannot be negative, got {largest_area} and {footprint_area}")
    if footprint_area == 0:
        return no_value(Status.INVALID, EMPTY_FOOTPRINT)
    if largest_area is None:
        return ruled(0.0, BUILD_FAILED if cause in ("", "build_failed") else cause)
    if largest_area == 0:
        return ruled(0.0, NO_COMPONENT)
    return ruled(largest_area / footprint_area)
