"""W3, places by reward: M15, M38 and M39 over the eight-location sampler (spec section 8)."""

from __future__ import annotations

from typing import Any

from spatialbench.metrics.harmonic import inverse_dispersion, place_dispersion, place_f1, place_recall, usable_recall
from spatialbench.metrics.ruling import Ruling
from spatialbench.observe import Observations, Outcome, unavailable
from spatialbench.tracks.spatial.gating import invalidated, world_flags
from spatialbench.tracks.spatial.inventory import spatial_metric
from spatialbench.tracks.spatial.observations import LocationPlan
from spatialbench.tracks.spatial.outcomes import ruled_outcome
from spatialbench.tracks.spatial.quality import lacks
from spatialbench.tracks.spatial.reads import COLLISION, IMAGES
from spatialbench.tracks.spatial.scored import lacking, need, substitutes
from spatialbench.tracks.spatial.scored_views import PlaceRewards

__all__: list[str] = []

_OBSERVED = ("spatial.locations", "spatial.place_rewards")
_READS = (*IMAGES, *COLLISION, "sampler", "usability", "scorers")


@spatial_metric("M15", observations=_OBSERVED, scorers=("hpsv3",), reads=_READS)
def place_hpsv3_std(obs: Observations) -> Outcome:
    """M15, eq. (49): spread of the ring means at the origin and the accepted locations."""
    if none := lacks(obs, "text"):
        return none
    need(obs, "hpsv3")
    origin, means = _means(obs)
    return _outcome(obs, place_dispersion(origin, means), origin=origin, locations=means)


@spatial_metric("M38", observations=_OBSERVED, scorers=("hpsv3",), reads=_READS)
def place_recall_of_world(obs: Observations) -> Outcome:
    """M38, eq. (50)-(51): usable and scored slots of eight; only the geometric part without HPSv3."""
    if blocked := _blocked(obs):
        return blocked
    return _outcome(obs, _recall(obs))


@spatial_metric("M39", observations=_OBSERVED, scorers=("hpsv3",), reads=_READS)
def place_hpsv3_f1(obs: Observations) -> Outcome:
    """M39, eq. (52): harmonic combination of inverse reward spread and place recall."""
    if blocked := _blocked(obs):
        return blocked
    recall = _recall(obs)
    origin, means = _means(obs)
    spread = place_dispersion(origin, means)
    more = {} if spread.value is None else {"precision": inverse_dispersion(spread.value), "spread": spread.value}
    return _outcome(obs, place_f1(spread.value, recall.value), recall=recall.value, **more)


def _blocked(obs: Observations) -> Outcome | None:
    """What the geometry alone says, where no reward can be had; None where it can."""
    if gated := invalidated(obs, ("no_interior",)):
        return gated
    why = lacking(obs, "hpsv3")
    if not why and (none := lacks(obs, "text")) is None:
        return None
    plan: LocationPlan = obs.get("spatial.locations")
    outcome = unavailable(why) if why else none
    assert outcome is not None
    return Outcome(outcome.status, reason=outcome.reason, components=_geometry(plan), counts=_counts(plan),
                   flags=world_flags(obs), geometry=obs.world.seen_geometry)


def _recall(obs: Observations) -> Ruling:
    plan: LocationPlan = obs.get("spatial.locations")
    rewards: PlaceRewards = obs.get("spatial.place_rewards")
    scored = [k in rewards.slots for k in range(len(plan.usable_slots))]
    return place_recall(plan.usable_slots, scored, True, len(scored))


def _means(obs: Observations) -> tuple[float, list[float]]:
    rewards: PlaceRewards = obs.get("spatial.place_rewards")
    return float(rewards.origin.mean()), [float(r.mean()) for r in rewards.locations]


def _geometry(plan: LocationPlan) -> dict[str, Any]:
    slots = plan.usable_slots
    return {"r_usable": usable_recall(slots, len(slots)), "median_depth": plan.median_depth,
            "usable_slots": list(slots)}


def _counts(plan: LocationPlan) -> dict[str, int]:
    return {"usable_locations": sum(plan.usable_slots), "slots": len(plan.usable_slots), "tried": len(plan.tried)}


def _outcome(obs: Observations, ruling: Ruling, **more: Any) -> Outcome:
    plan: LocationPlan = obs.get("spatial.locations")
    return ruled_outcome(ruling, components={**_geometry(plan), **more}, counts=_counts(plan),
                         flags=(*world_flags(obs), *substitutes(obs, "hpsv3")), geometry=obs.world.seen_geometry)
