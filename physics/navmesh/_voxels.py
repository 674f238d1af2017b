"""Settings in voxels, and what a grid of them would cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import ConfigError
from spatialbench.types import NavMeshSettings

__all__ = ["HEAP_LIMIT", "MAX_SPANS", "UNIT_HINT", "VoxelSettings", "check_settings", "grid_size", "heap_needed",
           "raster_work", "span_bound", "spans_in_heap"]

HEAP_LIMIT = 7 << 28
"""Bytes that one build may use (1.75 GiB); the wasm module itself could not pass 2 GiB."""
MAX_SPANS = 0xFFFFFF
"""Walkable spans that Recast can number (24 bits); beyond it the module would read out of bounds."""
UNIT_HINT = "if its unit is not the metre, say so: 'convert' and 'run' take --scale METRES"
"""Ends the reason of what is too large: most often that is a mesh in millimetres."""


@dataclass(frozen=True)
class VoxelSettings:
    """Recast's own configuration for one voxel size (spec/navmesh.md section 1). Lengths in voxels."""

    cell_size: np.float32
    cell_height: np.float32
    height: int
    clearance: int
    """Free voxels that the ledge and the low-height filter ask for; one more in the older profile (section 3)."""
    climb: int
    radius: int
    slope_deg: float
    min_region_area: int
    merge_region_area: int
    max_edge_len: int
    max_edge_error: float
    verts_per_poly: int
    filters: tuple[bool, bool, bool]
    """Low-hanging obstacles, ledge spans, low-height spans: applied in this order."""

    @classmethod
    def of(cls, s: NavMeshSettings, cell_size: float) -> VoxelSettings:
        """All divisions in float32, as habitat-sim does them: 0.6 / 0.2 is 3 there, and 2.999... in float64."""
        f = np.float32
        cs, ch = f(cell_size), f(s.cell_height)
        height = math.ceil(f(s.agent_height) / ch)
        return cls(
            cell_size=cs, cell_height=ch, height=height,
            clearance=height + (s.profile == "habitat-0.3.3"),
            climb=math.floor(f(s.agent_max_climb) / ch),
            radius=math.ceil(f(s.agent_radius) / cs),
            slope_deg=float(f(s.agent_max_slope)),
            min_region_area=int(f(s.region_min_size) * f(s.region_min_size)),
            merge_region_area=int(f(s.region_merge_size) * f(s.region_merge_size)),
            max_edge_len=int(f(s.edge_max_len) / cs),
            max_edge_error=float(f(s.edge_max_error)),
            verts_per_poly=s.verts_per_poly,
            filters=(s.filter_low_hanging_obstacles, s.filter_ledge_spans, s.filter_walkable_low_height_spans),
        )


def check_settings(s: NavMeshSettings) -> None:
    """Refuse values that Recast was not made for.

    Raises
    ------
    ConfigError : names the setting and the range.
    """
    if not s.cell_sizes:
        raise ConfigError("there is no voxel size to try", where="navmesh.cell_sizes", todo="Give at least one")
    ranges: list[tuple[str, float, float, float]] = [
        *(("cell_sizes", c, 1e-3, 1e3) for c in s.cell_sizes),
        ("cell_height", s.cell_height, 1e-3, 1e3),
        # Recast keeps spans in 13 bits and the distance of the erosion in 8.
        ("agent_height", s.agent_height, s.cell_height * 2, s.cell_height * 8191),
        ("agent_radius", s.agent_radius, 0.0, min(s.cell_sizes) * 127),
        ("agent_max_climb", s.agent_max_climb, 0.0, s.cell_height * 8191),
        ("agent_max_slope", s.agent_max_slope, 0.0, 90.0),
        ("region_min_size", s.region_min_size, 0.0, 30_000.0),
        ("region_merge_size", s.region_merge_size, 0.0, 30_000.0),
        ("edge_max_len", s.edge_max_len, 0.0, 1e6),
        ("edge_max_error", s.edge_max_error, 0.0, 1e3),
    ]
    for name, value, low, high in ranges:
        if not low <= value <= high:
            raise ConfigError(f"{value!r} is not between {low:g} and {high:g}", where=f"navmesh.{name}",
                              todo="Correct the value")


def grid_size(low: NDArray[np.float32], high: NDArray[np.float32], cell_size: np.float32) -> tuple[int, int]:
    """Columns along x and z of a y-up box: truncate(extent / cell size + 0.5) in float32.

    Raises
    ------
    OverflowError : more than 2**31 along one axis.
    """
    with np.errstate(over="ignore"):
        cells = (high - low) / cell_size + np.float32(0.5)
    if not (np.isfinite(cells).all() and cells.max() < 2**31):
        raise OverflowError("more than 2**31 columns along one axis")
    return int(cells[0]), int(cells[2])


def heap_needed(columns: int, n_vertices: int, n_faces: int) -> int:
    """Bytes that a build takes at the least: two tables with an entry per column, and the mesh."""
    return 8 * columns + 12 * n_vertices + 13 * n_faces


def spans_in_heap(columns: int, n_vertices: int, n_faces: int) -> int:
    """Spans for which the module's heap has room while triangles are rasterised: 8 bytes each, 4 for a column."""
    return (HEAP_LIMIT - 4 * columns - 12 * n_vertices - 13 * n_faces) // 8


def raster_work(vertices: NDArray[np.float32], faces: NDArray[np.int32], cell_size: np.float32) -> float:
    """Cells in the plan boxes of all triangles, each counted at least once: what rasterising them takes."""
    return _box_cells(vertices, faces, cell_size, 1)


def span_bound(vertices: NDArray[np.float32], faces: NDArray[np.int32], cell_size: np.float32) -> float:
    """Spans that rasterising makes at the most: one in each column that a triangle's box, lying as it may, touches."""
    return _box_cells(vertices, faces, cell_size, 2)


def _box_cells(vertices: NDArray[np.float32], faces: NDArray[np.int32], cell_size: np.float32, more: int) -> float:
    """Sum over the triangles of (width + more) (depth + more) of their boxes in plan, in cells."""
    cells = np.ones(len(faces))
    with np.errstate(over="ignore"):
        for axis in (0, 2):
            at = np.ascontiguousarray(vertices[:, axis])
            a, b, c = (at[faces[:, k]] for k in range(3))
            cells *= (np.maximum(np.maximum(a, b), c) - np.minimum(np.minimum(a, b), c)) / cell_size + more
    return float(cells.sum())
