"""Surfaces that things can be put on, found in a world or shown by a case (real-worlds.md 5d; OPEN-11a)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.physics.placement.planner import eroded_candidates
from spatialbench.types.mesh import TriangleMesh
from spatialbench.types.placement import Support
from spatialbench.types.protocol_rules import SupportFinding
from spatialbench.types.rays import RayCaster
from spatialbench.world.support_annotation import annotated_support, lift_image_polygon
from spatialbench.world.support_columns import (
    MAX_COLUMNS,
    CellGrid,
    Facing,
    Hits,
    columns_of_faces,
    surfaces_below,
)
from spatialbench.world.support_outline import Inside, edge_crossings
from spatialbench.world.support_patch import closed, describe, patches

__all__ = ["annotated_support", "find_supports", "lift_image_polygon"]

_REACH = 15.0
"""Only so far from the origin is searched where the plan has too many columns, m."""


def find_supports(collision: TriangleMesh, raycaster: RayCaster, floor_z: float, settings: SupportFinding,
                  plate_radius: float) -> list[Support]:
    """All supports of a world, largest first (``support_0``), none is an empty list.

    A support is a connected patch of faces that look up (by their winding), at table height, with room
    above, near one height, large enough, and with room for a plate (real-worlds.md section 5d). All
    surfaces of a column count, so a shelf does not hide the counter below it. Equally large ones are
    ordered by height, then by x and y of their first corner.

    Parameters
    ----------
    collision : world frame, Z up, m.
    raycaster : of that mesh, with the same faces.
    floor_z : height of the floor, m.
    settings : of the protocol.
    plate_radius : a disc so large must fit, m.
    """
    grid, note = _plan(collision, settings)
    facing = Facing.of(collision, settings.max_tilt_deg)
    top = float(collision.triangles[:, :, 2].max(initial=floor_z)) + 1.0
    search = _Search(raycaster, facing, top, floor_z + settings.band[0], floor_z + settings.band[1], settings)
    z = collision.triangles[:, :, 2]
    could = facing.carries & (z.max(axis=1) >= search.low) & (z.min(axis=1) <= search.high)
    cells = columns_of_faces(collision, could, grid) if could.any() else np.zeros((0, 2), np.int64)
    hits = search.surfaces(grid.centres(cells))
    found = [support for level in _levels(hits.z, search.low, settings)
             for support in _at_level(search, hits, level, cells, grid, plate_radius, note)]
    found.sort(key=lambda s: (-s.area, s.height, *s.boundary[0].tolist()))
    return [replace(s, id=f"support_{i}") for i, s in enumerate(found)]


@dataclass(frozen=True, eq=False)
class _Search:
    """Surfaces in the band of heights with room above them."""

    rays: RayCaster
    facing: Facing
    top: float
    low: float
    high: float
    settings: SupportFinding

    def surfaces(self, xy: NDArray[np.float64]) -> Hits:
        start = np.full(len(xy), self.top)
        return surfaces_below(xy, start, self.top - self.low, self.settings.headroom, self.facing,
                              self.rays).up_to(self.high)

    def near(self, height: float) -> Inside:
        """Whether there is such a surface near a height, at [N,2]."""

        def inside(xy: NDArray[np.float64]) -> NDArray[np.bool_]:
            hits = self.surfaces(xy)
            out = np.zeros(len(xy), bool)
            out[hits.ray[np.abs(hits.z - height) <= self.settings.peak_width]] = True
            return out

        return inside


def _plan(mesh: TriangleMesh, s: SupportFinding) -> tuple[CellGrid, str]:
    """The grid to search, and a note where it is not all of the world."""
    if len(mesh.faces) == 0:
        return CellGrid(0, 0, 1, 1, s.grid), ""
    (x0, y0, _), (x1, y1, _) = mesh.bounds().tolist()
    if (x1 - x0) / s.grid * ((y1 - y0) / s.grid) <= MAX_COLUMNS:
        return CellGrid.over(x0, y0, x1, y1, s.grid), ""
    x0, y0, x1, y1 = max(x0, -_REACH), max(y0, -_REACH), min(x1, _REACH), min(y1, _REACH)
    return (CellGrid.over(min(x0, x1), min(y0, y1), x1, y1, s.grid),
            f"the world is large: only {_REACH:g} m around the origin was searched")


def _levels(z: NDArray[np.float64], low: float, s: SupportFinding) -> list[tuple[float, NDArray[np.bool_]]]:
    """Heights at which many columns have a surface, with the hits [K] near each, strongest first."""
    width = s.peak_width / 2
    n = int(np.ceil((s.band[1] - s.band[0]) / width)) + 1
    count = np.bincount(np.clip(((z - low) / width).astype(np.int64), 0, n - 1), minlength=n)
    smooth = np.convolve(count, np.ones(3, np.int64), "same")
    free = np.ones(len(z), bool)
    out = []
    for b in np.argsort(-smooth, kind="stable").tolist():
        if smooth[b] * s.grid**2 < s.min_area:
            break
        near = free & (np.abs(z - (low + (b + 0.5) * width)) <= s.peak_width)
        if near.sum() * s.grid**2 < s.min_area:
            continue
        height = float(np.median(z[near]))
        near = free & (np.abs(z - height) <= s.peak_width)
        free &= ~near
        out.append((height, near))
    return out


def _at_level(search: _Search, hits: Hits, level: tuple[float, NDArray[np.bool_]], cells: NDArray[np.int64],
              grid: CellGrid, plate_radius: float, note: str) -> list[Support]:
    """The supports among the patches of one level."""
    s = search.settings
    height, near = level
    ray, first = np.unique(hits.ray[near], return_index=True)
    seen = np.full((grid.nx, grid.ny), np.nan)
    seen[tuple(cells[ray].T)] = hits.z[near][first]
    large = [patch for patch in patches(closed(np.isfinite(seen)), seen, grid)
             if _may_do(patch[0], s, plate_radius)]
    if not large:
        return []
    wanted = np.zeros(seen.shape, bool)
    for mask, _, here in large:
        a, b = here.i0 - grid.i0, here.j0 - grid.j0
        wanted[a:a + here.nx, b:b + here.ny] |= mask
    edges = edge_crossings(wanted, np.isfinite(seen), grid, search.near(height))
    out = [describe(mask, heights, here, edges, source="found", note=note, spread=s.peak_width)
           for mask, heights, here in large]
    return [x for x in out
            if x.area >= s.min_area and len(eroded_candidates(x, plate_radius, s.grid))]


def _may_do(mask: NDArray[np.bool_], s: SupportFinding, plate_radius: float) -> bool:
    """Whether a patch could be large enough, before its outline is known to better than a cell."""
    from scipy import ndimage

    if mask.sum() * s.grid**2 < s.min_area / 2:
        return False
    return bool(ndimage.distance_transform_edt(np.pad(mask, 1)).max() * s.grid >= plate_radius - s.grid)
