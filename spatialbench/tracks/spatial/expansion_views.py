"""Where a world was expanded, and the cameras there: new cells, location, junction ring, connecting path (OPEN-23);
and what HPSv3 says of their images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.coverage import hole_rate
from spatialbench.metrics.expansion import NO_NEW_CELLS, centroid, new_cells
from spatialbench.observe import Observations, observation
from spatialbench.tracks.spatial import cameras as views_of
from spatialbench.tracks.spatial.evidence import ExpandGiven
from spatialbench.tracks.spatial.reads import COLLISION
from spatialbench.tracks.spatial.scored import need, rated
from spatialbench.tracks.spatial.two_worlds import (
    PAIR,
    PAIR_READS,
    PairView,
    drawn_of,
    pair_case,
    pair_view,
    pair_worlds,
    picture,
)
from spatialbench.types import Camera, PlanGrid, TriangleMesh

__all__ = ["Growth", "Junction", "NewPlace", "PairRewards", "connecting_cameras", "ground_at", "junction_cameras",
           "origin_ring"]

_CHUNK = 4096
_READS = (*PAIR_READS, *COLLISION)
_FACING_UP = 1e-6
_SCORED = (*_READS, "scorers")
_HPSV3 = "hpsv3"


@dataclass(frozen=True, eq=False)
class Growth:
    """New cells F+.

    Attributes
    ----------
    cells : of the footprint after that the one before lacks; None when they cannot be laid out.
    reason : why there is no expansion location; empty when there are cells.
    regions : number of their four-connected regions.
    largest : share of the new cells that lie in the largest one.
    """

    cells: PlanGrid | None
    reason: str
    regions: int = 0
    largest: float = 0.0


@dataclass(frozen=True, eq=False)
class NewPlace:
    """The expansion location.

    Attributes
    ----------
    centroid : [2] of the new cells, m.
    location : [3] camera there: ground and the original camera's height above its own.
    ground : z, m.
    moved : the centroid has no ground: the nearest new cell that has one was taken.
    """

    centroid: tuple[float, float]
    location: tuple[float, float, float]
    ground: float
    moved: bool


@dataclass(frozen=True, eq=False)
class Junction:
    """The full circle at the expansion location in both worlds: hole rates [T], pictures, holes bool [h,w]."""

    holes_before: NDArray[np.float64]
    holes_after: NDArray[np.float64]
    pictures: tuple[PairView, ...]
    masks_before: tuple[NDArray[np.bool_], ...]
    masks_after: tuple[NDArray[np.bool_], ...]


@dataclass(frozen=True, eq=False)
class PairRewards:
    """Rewards of one set of views: [T] of the world after, and of the world before where these count too."""

    after: NDArray[np.float64]
    before: NDArray[np.float64] | None = None
    given: bool = False


@observation("spatial.growth", label="comparing the footprints", reads=_READS)
def _growth(obs: Observations) -> Growth:
    from scipy import ndimage

    before, after = pair_worlds(obs)
    if after.footprint is None and after.footprint_area > 0:
        return Growth(None, "the footprint after is too spread out for a plan, so that new cells are not known")
    if before.footprint is None and before.footprint_area > 0:
        return Growth(None, "the footprint before is too spread out for a plan, so that new cells are not known")
    if after.footprint is None:
        return Growth(None, NO_NEW_CELLS)
    empty = PlanGrid(np.zeros((0, 0), bool), 0, 0, after.footprint.cell)
    cells = new_cells(before.footprint or empty, after.footprint)
    if not cells.count:
        return Growth(cells, NO_NEW_CELLS)
    labels, n = ndimage.label(cells.mask)
    sizes = np.bincount(labels.ravel())[1:]
    return Growth(cells, "", int(n), float(sizes.max() / sizes.sum()))


@observation("spatial.new_place", label="finding the expansion location", reads=_READS, needs=("spatial.growth",))
def _new_place(obs: Observations) -> NewPlace | None:
    from spatialbench.world.collision import true_facing

    before, after = pair_worlds(obs)
    growth: Growth = obs.get("spatial.growth")
    mesh = true_facing(after.collision)
    if growth.reason or growth.cells is None or mesh is None:
        return None
    centre = centroid(growth.cells)
    assert centre is not None
    found = ground_at(mesh, growth.cells, centre)
    if found is None:
        return None
    (x, y), ground, moved = found
    return NewPlace((float(centre[0]), float(centre[1])), (x, y, ground - before.ground_z), ground, moved)


@observation("spatial.junction", label="rendering the circle at the expansion location",
             reads=(*_READS, "usability"), needs=("spatial.new_place", *PAIR))
def _junction(obs: Observations) -> Junction:
    cameras, alpha = junction_cameras(obs), obs.protocol.usability.hole_alpha
    holes: tuple[list[float], list[float]] = ([], [])
    masks: tuple[list[NDArray[np.bool_]], list[NDArray[np.bool_]]] = ([], [])
    pictures = []
    for camera in cameras:
        frames = [obs.get(name).render([camera], want=("rgb", "alpha")) for name in PAIR]
        for side, f in enumerate(frames):
            holes[side].append(float(hole_rate(f.alpha, alpha)[0]))
            masks[side].append(picture((f.alpha[0] < alpha).astype(np.uint8) * 255) > 127)
        pictures.append(pair_view(*frames))
        obs.progress(len(pictures), len(cameras))
    return Junction(np.array(holes[0]), np.array(holes[1]), tuple(pictures), tuple(masks[0]), tuple(masks[1]))


@observation("spatial.connection", label="rendering the way to the expansion location",
             reads=(*_READS, "expansion"), needs=("spatial.new_place", *PAIR))
def _connection(obs: Observations) -> tuple[PairView, ...]:
    """Pictures of V_P, for people and for who scores them elsewhere."""
    pictures = []
    for camera in connecting_cameras(obs):
        pictures.append(pair_view(*(obs.get(name).render([camera], want=("rgb",)) for name in PAIR)))
        obs.progress(len(pictures), obs.protocol.expansion.path_frames)
    return tuple(pictures)


@observation("spatial.new_rewards", label="rating the new region", reads=(*_SCORED, "expansion"),
             needs=("spatial.new_place", *PAIR))
def _new_rewards(obs: Observations) -> PairRewards:
    return _rewards(obs, "junction", ("after",), junction_cameras)


@observation("spatial.old_rewards", label="rating the origin views of both worlds", reads=_SCORED, needs=PAIR)
def _old_rewards(obs: Observations) -> PairRewards:
    return _rewards(obs, "origin", ("before", "after"), origin_ring)


@observation("spatial.path_rewards", label="rating the way to the new region", reads=(*_SCORED, "expansion"),
             needs=("spatial.new_place", *PAIR))
def _path_rewards(obs: Observations) -> PairRewards:
    return _rewards(obs, "path", ("before", "after"), connecting_cameras)


def _rewards(obs: Observations, name: str, roles: tuple[str, ...],
             cameras: Callable[[Observations], list[Camera]]) -> PairRewards:
    """By the evidence of the case, else by HPSv3 with the case's text.

    Raises
    ------
    BackendUnavailableError : neither is there, or the model failed.
    """
    evidence = obs.context.media.get("evidence")
    rewards = evidence.rewards if isinstance(evidence, ExpandGiven) else {}
    if f"{name}_after" in rewards:  # both or neither: checked when they were read
        return PairRewards(rewards[f"{name}_after"], rewards.get(f"{name}_before"), given=True)
    need(obs, _HPSV3, todo=f"Or give rewards as the case's evidence ('rewards': {name}_after)")
    views, text = cameras(obs), pair_case(obs).text
    found = {role: rated(obs, _HPSV3, drawn_of(obs, role, views), text) for role in roles}
    return PairRewards(found["after"], found.get("before"))


def origin_ring(obs: Observations) -> list[Camera]:
    """V_0: the origin views."""
    return views_of.origin_ring(obs.protocol)


def junction_cameras(obs: Observations) -> list[Camera]:
    """V_J: a level circle at the expansion location, as many frames as the origin ring (OPEN-23a)."""
    return views_of.ring_at(obs.protocol, obs.get("spatial.new_place").location, obs.protocol.views.ring_frames)


def connecting_cameras(obs: Observations) -> list[Camera]:
    """V_P: on the straight way from the original camera to the expansion location (OPEN-23b)."""
    from spatialbench.renderers.trajectories import connecting_path

    lens = obs.protocol.views.lens
    return connecting_path((0.0, 0.0, 0.0), obs.get("spatial.new_place").location, obs.protocol.expansion.path_frames,
                           lens.width, lens.height, lens.fov_deg)


def ground_at(mesh: TriangleMesh, cells: PlanGrid, centre: NDArray[np.float64]
              ) -> tuple[tuple[float, float], float, bool] | None:
    """Place [2], height of the ground there, and whether it is another place than ``centre`` (OPEN-23c).

    The ground is the highest hit at or below z = 0, the original camera's height, on a face that looks up. Where the
    centre has none, the nearest new cell's centre that has one is taken; of equally near ones the first by x, then y.

    Parameters
    ----------
    mesh : world frame.
    cells : the new cells.
    centre : [2] m.
    """
    from spatialbench.renderers.raycast import MeshRayCaster

    rays = MeshRayCaster(mesh.vertices, mesh.faces)
    own = _ground(rays, centre[None])[0]
    if np.isfinite(own):
        return (float(centre[0]), float(centre[1])), float(own), False
    at = (np.argwhere(cells.mask) + 0.5 + [cells.i0, cells.j0]) * cells.cell
    order = np.argsort(np.hypot(*(at - centre).T), kind="stable")
    for k in range(0, len(order), _CHUNK):
        some = at[order[k:k + _CHUNK]]
        heights = _ground(rays, some)
        hit = np.flatnonzero(np.isfinite(heights))
        if len(hit):
            x, y = some[hit[0]].tolist()
            return (x, y), float(heights[hit[0]]), True
    return None


def _ground(rays: object, places: NDArray[np.float64]) -> NDArray[np.float64]:
    """[N] z of the ground below places [N,2]; -inf where there is none."""
    from spatialbench.renderers.raycast import MeshRayCaster

    assert isinstance(rays, MeshRayCaster)
    origins = np.column_stack([places, np.zeros(len(places))])
    hits = rays.all_hits(origins, np.array([0.0, 0.0, -1.0]))
    out = np.full(len(places), -np.inf)
    up = rays.normals[hits.face][:, 2] > _FACING_UP
    np.maximum.at(out, hits.ray[up], -hits.distance[up])
    return out
