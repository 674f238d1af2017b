"""Where an agent can walk: M08 follows the paper literally, M08c with the two rules that misfire put right."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.navigation import navigable_ratio
from spatialbench.observe import Observations, Outcome, invalid, measured, observation
from spatialbench.tracks.spatial.gating import invalidated, world_flags
from spatialbench.tracks.spatial.inventory import spatial_metric
from spatialbench.tracks.spatial.reads import COLLISION
from spatialbench.types import NavMesh, Protocol, TriangleMesh

__all__ = ["Walkable", "fusion_components", "navigable_outcome"]


@dataclass(frozen=True, eq=False)
class Walkable:
    """The navigation mesh on the footprint's grid.

    Attributes
    ----------
    navmesh : polygons, attempts, profile, backend; None without collision geometry.
    labels : [NX,NY] component of each cell of ``grid_i0``, ``grid_j0``: 0 none, 1 the largest.
    areas : m2 of the components, largest first.
    footprint_area : m2 that the geometry it was built from covers.
    far_faces : stray faces far from the rest (``far_geometry``), kept or left out.
    turned_back : the faces are wound as in the file, against the protocol's facing rule.
    """

    navmesh: NavMesh | None
    labels: NDArray[np.int32]
    grid_i0: int
    grid_j0: int
    cell: float
    areas: tuple[float, ...]
    footprint_area: float = 0.0
    far_faces: int = 0
    turned_back: bool = False


@observation("spatial.walkable", label="building the NavMesh", reads=(*COLLISION, "navmesh"))
def _walkable(obs: Observations) -> Walkable:
    from spatialbench.world.collision import far_faces

    mesh = obs.world.collision.mesh
    if mesh is None or len(mesh.faces) == 0:
        return Walkable(None, np.zeros((0, 0), np.int32), 0, 0, obs.protocol.footprint.cell, ())
    return _walk(mesh, obs.protocol, obs.world.footprint_area, int(far_faces(mesh).sum()))


@observation("spatial.walkable_corrected", label="building the corrected NavMesh", reads=(*COLLISION, "navmesh"),
             needs=("spatial.walkable",))
def _walkable_corrected(obs: Observations) -> Walkable:
    """The same where the facing rule and the first hits agree and nothing is far away."""
    from spatialbench.world.collision import far_faces, true_facing
    from spatialbench.world.footprint import footprint

    collision, area = obs.world.collision, obs.world.footprint_area
    mesh = true_facing(collision)
    if mesh is None or len(mesh.faces) == 0:
        return obs.get("spatial.walkable")
    turned = mesh is not collision.mesh
    far = far_faces(mesh)
    if not turned and not far.any():
        return obs.get("spatial.walkable")
    if far.any():
        mesh = mesh.select(~far)
        covered = footprint(mesh, obs.protocol.footprint)
        area = 0.0 if covered is None else covered.area
    return _walk(mesh, obs.protocol, area, int(far.sum()), turned)


def _walk(mesh: TriangleMesh, protocol: Protocol, footprint_area: float, far: int, turned: bool = False) -> Walkable:
    from spatialbench.physics.navmesh import build_navmesh, components, rasterise

    cell = protocol.footprint.cell
    navmesh = build_navmesh(mesh.vertices, mesh.faces, protocol.navmesh, up="z")
    grid = rasterise(navmesh.vertices[:, :2], navmesh.polygons, cell)
    found = components(grid)
    return Walkable(navmesh, found.labels, grid.i0, grid.j0, cell, tuple(float(n) * cell * cell for n in found.sizes),
                    footprint_area, far, turned)


def navigable_outcome(obs: Observations, name: str) -> Outcome:
    """M08 or M08c (eq. 42) from one of the two observations, ``name``.

    Without a NavMesh the value is 0 and the reason begins with the cause: ``navmesh_build_failed``, ``no_floor``,
    ``agent_does_not_fit`` or ``only_islands``.
    """
    gated = invalidated(obs, ("no_interior", "too_blurry_for_geometry"))
    if gated:
        return gated
    collision = obs.world.collision
    empty = invalid("empty_footprint: no geometry is left within the crop heights "
                    f"[{collision.crop[0]:.1f}, {collision.crop[1]:.1f}] m", geometry=collision.geometry)
    if collision.mesh is None or obs.world.footprint_area == 0.0:
        return empty
    walk: Walkable = obs.get(name)
    navmesh, area = walk.navmesh, walk.footprint_area
    if navmesh is None or area == 0.0:
        return empty
    literal = name == "spatial.walkable"
    flags = (*world_flags(obs), *(("facing_disagrees",) if literal and collision.facing_disagrees else ()),
             *(("far_geometry",) if literal and walk.far_faces else ()))
    components = {
        "footprint_area": area,
        "largest_component_area": walk.areas[0] if walk.areas else 0.0,
        "component_areas": list(walk.areas[:10]),
        "attempts": [{"cell_size": a.cell_size, "ok": a.ok, "stage": a.stage, "reason": a.reason, "cause": a.cause}
                     for a in navmesh.attempts],
        "cell_size": navmesh.cell_size, "profile": navmesh.profile, "backend": navmesh.backend,
        "facing_share": collision.facing_share, "first_hit_share": collision.first_hit_share,
        "reversed": collision.reversed and not walk.turned_back, "cropped_faces": collision.cropped_faces,
        "far_faces": walk.far_faces, **fusion_components(obs),
    }
    built = navmesh.cell_size is not None
    ruling = navigable_ratio((walk.areas[0] if walk.areas else 0.0) if built else None, area, navmesh.cause)
    reason = ruling.reason if built or not navmesh.attempts else f"{ruling.reason}: {navmesh.attempts[0].reason}"
    return measured(ruling.value or 0.0, reason, components=components,
                    counts={"polygons": len(navmesh.polygons), "components": len(walk.areas)}, flags=flags,
                    geometry=collision.geometry)


def fusion_components(obs: Observations) -> dict[str, object]:
    """How good a fused collision mesh is, for the metrics that stand on it."""
    quality = obs.world.collision.fusion
    return {} if quality is None else {"fusion": asdict(quality)}


@spatial_metric("M08c", observations=("spatial.walkable_corrected",), reads=(*COLLISION, "navmesh"))
def corrected_navigable_ratio_of_world(obs: Observations) -> Outcome:
    """M08c: M08 with faces reversed only when both the area share and the first-hit share are under one half
    (OPEN-27), and without stray faces that are far from the rest."""
    return navigable_outcome(obs, "spatial.walkable_corrected")
