"""W5, expansion: M26 to M30 on a world before and one after it was made larger.

Both footprints are on one grid, fixed to the initial camera of the world before. Rewards come from the files that the
case gives, else from HPSv3.
"""

from __future__ import annotations

from typing import Any

from spatialbench.metrics.expansion import area_ratio, lost_cells, mean_difference
from spatialbench.observe import Observations, Outcome, inapplicable, invalid, measured
from spatialbench.tracks.spatial.evidence import ExpandGiven
from spatialbench.tracks.spatial.expansion_views import Growth, Junction, NewPlace, PairRewards
from spatialbench.tracks.spatial.inventory import spatial_metric
from spatialbench.tracks.spatial.outcomes import doubts, ruled_outcome
from spatialbench.tracks.spatial.reads import COLLISION
from spatialbench.tracks.spatial.scored import NEEDS, substitutes
from spatialbench.tracks.spatial.two_worlds import (
    PAIR_READS,
    not_of_this_pair,
    pair_case,
    pair_flags,
    pair_worlds,
)

__all__: list[str] = []

_DOUBTS = ("spatial.frame_agreement", "spatial.origin_pair")
_GROWTH = (*_DOUBTS, "spatial.growth")
_PLACE = (*_GROWTH, "spatial.new_place")
_READS = (*PAIR_READS, *COLLISION)
_EXPANSION = (*_READS, "expansion", "usability")
_RATED = (*_READS, "expansion", "scorers")


@spatial_metric("M26", observations=_GROWTH, reads=_READS)
def expand_area_ratio(obs: Observations) -> Outcome:
    """M26, eq. (72): area of the footprint after over that before."""
    other = _other(obs)
    if other is not None:
        return other
    before, after = pair_worlds(obs)
    growth: Growth = obs.get("spatial.growth")
    components: dict[str, Any] = {"area_before": before.footprint_area, "area_after": after.footprint_area}
    if growth.cells is not None and before.footprint is not None and after.footprint is not None:
        lost = lost_cells(before.footprint, after.footprint)
        components |= {"new_area": growth.cells.area, "lost_area": lost.area, "new_regions": growth.regions,
                       "largest_new_region": growth.largest}
    return ruled_outcome(area_ratio(before.footprint_area, after.footprint_area), components=components,
                         flags=_flags(obs), geometry=after.collision.geometry)


@spatial_metric("M27", observations=(*_PLACE, "spatial.junction"), reads=_EXPANSION)
def junction_coverage_gain(obs: Observations) -> Outcome:
    """M27, eq. (73): how many holes the expansion closes, all around at the expansion location."""
    gated = _other(obs) or _no_place(obs)
    if gated is not None:
        return gated
    junction: Junction = obs.get("spatial.junction")
    before, after = junction.holes_before.tolist(), junction.holes_after.tolist()
    return measured(mean_difference(before, after), components={
        "hole_rate_before": sum(before) / len(before), "hole_rate_after": sum(after) / len(after),
        **_place_components(obs), "frame_gains": [a - b for a, b in zip(before, after, strict=True)]},
        counts={"frames": len(before)}, flags=_flags(obs), geometry=pair_worlds(obs)[1].seen_geometry)


@spatial_metric("M28", observations=(*_PLACE, "spatial.new_rewards"), scorers=("hpsv3",), reads=_RATED)
def new_region_hpsv3(obs: Observations) -> Outcome:
    """M28, eq. (74): mean reward of the views at the expansion location, after."""
    return _reward(obs, "junction", "spatial.new_rewards")


@spatial_metric("M29", observations=(*_DOUBTS, "spatial.old_rewards"), scorers=("hpsv3",), reads=(*_READS, "scorers"))
def old_region_hpsv3_delta(obs: Observations) -> Outcome:
    """M29, eq. (75): mean change of the reward of the origin views; it needs no new cell."""
    return _reward(obs, "origin", "spatial.old_rewards", at_new_place=False)


@spatial_metric("M30", observations=(*_PLACE, "spatial.path_rewards"), scorers=("hpsv3",), reads=_RATED)
def connect_hpsv3_delta(obs: Observations) -> Outcome:
    """M30, eq. (76): mean change of the reward on the way to the expansion location."""
    return _reward(obs, "path", "spatial.path_rewards")


def _reward(obs: Observations, views: str, name: str, *, at_new_place: bool = True) -> Outcome:
    gated = _other(obs) or (_no_place(obs) if at_new_place else None) or _no_text(obs, views)
    if gated is not None:
        return gated
    said: PairRewards = obs.get(name)
    new = said.after.tolist()
    old = [0.0] * len(new) if said.before is None else said.before.tolist()
    components: dict[str, Any] = _place_components(obs) if at_new_place else {}
    components["mean_after"] = sum(new) / len(new)
    if said.before is not None:
        components["mean_before"] = sum(old) / len(old)
    flags = _flags(obs) if at_new_place else pair_flags(obs)
    how = doubts(given=True) if said.given else substitutes(obs, "hpsv3")
    return measured(mean_difference(new, old), components=components, counts={"frames": len(new)},
                    flags=(*flags, *how), geometry=pair_worlds(obs)[1].seen_geometry)


def _no_text(obs: Observations, views: str) -> Outcome | None:
    """Why there is nothing to rate the views against; None when the case says it, or gives their rewards."""
    evidence, case = obs.context.media.get("evidence"), pair_case(obs)
    if isinstance(evidence, ExpandGiven) and f"{views}_after" in evidence.rewards:
        return None
    if case is None:
        return inapplicable("no case was given, and so no text")
    return None if (case.text or "").strip() else inapplicable(NEEDS["text"])


def _other(obs: Observations) -> Outcome | None:
    return not_of_this_pair(obs, "expand", "an expansion")


def _no_place(obs: Observations) -> Outcome | None:
    """Why there is no expansion location (OPEN-24); None when there is one."""
    growth: Growth = obs.get("spatial.growth")
    if growth.reason:
        return invalid(growth.reason, flags=_flags(obs))
    place: NewPlace | None = obs.get("spatial.new_place")
    if place is None:
        return invalid("no_ground: no surface faces up at or below the camera's height at any new cell",
                       counts={"new_cells": 0 if growth.cells is None else growth.cells.count}, flags=_flags(obs))
    return None


def _place_components(obs: Observations) -> dict[str, Any]:
    place: NewPlace = obs.get("spatial.new_place")
    return {"centroid": list(place.centroid), "location": list(place.location), "ground": place.ground,
            "moved": place.moved}


def _flags(obs: Observations) -> tuple[str, ...]:
    """Doubts about the pair, and whether no region has half of the new cells: the location may then lie in none."""
    growth: Growth = obs.get("spatial.growth")
    scattered = not growth.reason and growth.largest < 0.5
    return (*pair_flags(obs), *(("scattered_new_cells",) if scattered else ()))
