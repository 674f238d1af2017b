"""Settings and results of building a navigation mesh."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["NavMesh", "NavMeshAttempt", "NavMeshSettings"]


class NavMeshSettings(BaseModel):
    """habitat-sim's NavMeshSettings with its defaults; metres, degrees, or voxels (v)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str = Field("habitat-0.3.4", pattern=r"^habitat-0\.3\.[34]$")
    """Whose behaviour: 0.3.3 and older need one more free voxel under a ceiling than 0.3.4."""
    cell_sizes: tuple[float, ...] = (0.05, 0.10, 0.20)
    """Horizontal voxel sizes, tried in this order until a build succeeds, m."""
    cell_height: float = 0.2
    agent_height: float = 1.5
    agent_radius: float = 0.1
    agent_max_climb: float = 0.2
    agent_max_slope: float = 45.0
    region_min_size: float = 20.0
    region_merge_size: float = 20.0
    edge_max_len: float = 12.0
    edge_max_error: float = 1.3
    verts_per_poly: int = Field(6, ge=3, le=6)
    detail_sample_dist: float = 6.0
    """v; with the next, heights of the detail mesh only, which nothing but the backend ``habitat`` builds."""
    detail_sample_max_error: float = 1.0
    filter_low_hanging_obstacles: bool = True
    filter_ledge_spans: bool = True
    filter_walkable_low_height_spans: bool = True


@dataclass(frozen=True)
class NavMeshAttempt:
    """One try at one voxel size.

    Attributes
    ----------
    cell_size : m.
    ok : a navigation mesh with at least one polygon came out.
    stage : where it failed (``bounds``, ``heightfield``, ``rasterise``, ``regions``, ``contours``,
        ``polymesh``, ``empty``, ``trap``...), empty when ok.
    reason : the same for people.
    cause : empty when ok; else ``build_failed`` (a step or a limit), ``no_floor`` (nothing looks up within the
        slope), ``agent_does_not_fit`` (floors too low, too narrow or too rough) or ``only_islands`` (the agent fits,
        on pieces smaller than the least region).
    """

    cell_size: float
    ok: bool
    stage: str = ""
    reason: str = ""
    cause: str = ""


@dataclass(frozen=True, eq=False)
class NavMesh:
    """Walkable polygons, in the frame of the mesh they were built from.

    Attributes
    ----------
    vertices : [N,3] float32.
    polygons : convex, as tuples of vertex indices, up to six each; empty when every attempt failed.
    attempts : every voxel size tried, in order.
    cell_size : of the successful attempt, or None.
    profile, backend : whose behaviour, and what ran (name and version).
    """

    vertices: NDArray[np.float32]
    polygons: tuple[tuple[int, ...], ...]
    attempts: tuple[NavMeshAttempt, ...]
    cell_size: float | None
    profile: str
    backend: str

    @property
    def cause(self) -> str:
        """Why there is no polygon: the cause of the first attempt, whose voxels are the finest; empty otherwise."""
        return self.attempts[0].cause if self.cell_size is None and self.attempts else ""
