"""What the spatial track simulates: where an agent can walk, and whether plates stay on a support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.observe import Observations, observation
from spatialbench.tracks.spatial.navigation import Walkable
from spatialbench.tracks.spatial.reads import COLLISION
from spatialbench.types import PlannedTrial, Support, TrialResult

__all__ = ["Placement", "Walkable"]

REFERENCES = ("footprint_median", "plane", "footprint_max")


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


@observation("spatial.collision_rays", label="preparing the ray caster", reads=COLLISION)
def _collision_rays(obs: Observations) -> Any:
    from spatialbench.renderers.raycast import MeshRayCaster
    from spatialbench.world.collision import true_facing

    mesh = true_facing(obs.world.collision)  # the diagnostics go by the side of a face that a ray meets
    return None if mesh is None else MeshRayCaster(mesh.vertices, mesh.faces)


@observation("spatial.placement", label="dropping plates", reads=(*COLLISION, "placement", "supports"),
             needs=("spatial.collision_rays",))
def _placement(obs: Observations) -> Placement:
    from spatialbench.physics.placement import plan_trials, run_plan
    from spatialbench.renderers._threads import thread_count

    mesh, settings = obs.world.collision.mesh, obs.protocol.placement
    support = obs.world.supports[0] if obs.world.supports else None
    if support is None or mesh is None:
        return Placement(support, (), {})
    rays = obs.get("spatial.collision_rays")
    planned = tuple(plan_trials(support, rays, settings))
    # In other processes: a crash of PyBullet costs this metric, not the run.
    results = run_plan(mesh.vertices, mesh.faces, support, planned, settings, references=REFERENCES,
                       raycaster=rays, progress=obs.progress, workers=thread_count())
    return Placement(support, planned, {k: tuple(v) for k, v in results.items()})
