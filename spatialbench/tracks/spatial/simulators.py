"""What the spatial track simulates: where an agent can walk, and whether plates stay on a support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.observe import Observations, observation
from spatialbench.tracks.spatial.reads import COLLISION
from spatialbench.types import NavMesh, PlannedTrial, Support, TrialResult

__all__ = ["Placement", "Walkable"]

REFERENCES = ("footprint_median", "plane", "footprint_max")


@dataclass(frozen=True, eq=False)
class Walkable:
    """The navigation mesh on the footprint's grid.

    Attributes
    ----------
    navmesh : polygons, attempts, profile, backend; None without collision geometry.
    labels : [NX,NY] component of each cell of ``grid_i0``, ``grid_j0``: 0 none, 1 the largest.
    areas : m2 of the components, largest first.
    """

    navmesh: NavMesh | None
    labels: NDArray[np.int32]
    grid_i0: int
    grid_j0: int
    cell: float
    areas: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Placement:
    """Plates on one support.

    Attributes
    ----------
    support : the surface, or None when there is none.
    planned : the places asked for, kept and dropped.
    results : outcomes by reference height; the protocol's own is what counts.
    pictures : release and rest of each kept trial, uint8 images.
    """

    support: Support | None
    planned: tuple[PlannedTrial, ...]
    results: dict[str, tuple[TrialResult, ...]]
    pictures: tuple[tuple[NDArray[np.uint8], NDArray[np.uint8]], ...] = ()


@observation("spatial.walkable", label="building the NavMesh",
             reads=(*COLLISION, "navmesh"))
def _walkable(obs: Observations) -> Walkable:
    from spatialbench.physics.navmesh import build_navmesh
    from spatialbench.physics.navmesh.raster import components, rasterise

    mesh, cell = obs.world.collision.mesh, obs.protocol.footprint.cell
    if mesh is None or len(mesh.faces) == 0:
        return Walkable(None, np.zeros((0, 0), np.int32), 0, 0, cell, ())
    navmesh = build_navmesh(mesh.vertices, mesh.faces, obs.protocol.navmesh, up="z")
    grid = rasterise(navmesh.vertices[:, :2], navmesh.polygons, cell)
    found = components(grid)
    return Walkable(navmesh, found.labels, grid.i0, grid.j0, cell,
                    tuple(float(n) * cell * cell for n in found.sizes))


@observation("spatial.collision_rays", label="preparing the ray caster", reads=COLLISION)
def _collision_rays(obs: Observations) -> Any:
    from spatialbench.renderers.raycast import MeshRayCaster

    mesh = obs.world.collision.mesh
    return None if mesh is None else MeshRayCaster(mesh.vertices, mesh.faces)


@observation("spatial.placement", label="dropping plates", reads=(*COLLISION, "placement", "supports"),
             needs=("spatial.collision_rays",))
def _placement(obs: Observations) -> Placement:
    from spatialbench.physics.placement import plan_trials, run_plan

    mesh, settings = obs.world.collision.mesh, obs.protocol.placement
    support = obs.world.supports[0] if obs.world.supports else None
    if support is None or mesh is None:
        return Placement(support, (), {})
    rays = obs.get("spatial.collision_rays")
    planned = tuple(plan_trials(support, rays, settings))
    results = run_plan(mesh.vertices, mesh.faces, support, planned, settings, references=REFERENCES,
                       raycaster=rays, progress=obs.progress)
    return Placement(support, planned, {k: tuple(v) for k, v in results.items()})
