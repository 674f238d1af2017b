"""W3, objects: M16 to M24 (spec section 9). Each gives an outcome for every annotated object; none is ever dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from spatialbench.errors import BackendUnavailableError, SpatialbenchError
from spatialbench.metrics.objects import (
    NOT_LIFTED,
    JudgedObject,
    judged_object,
    object_dispersion,
    object_f1,
    object_recall,
    reward_precision,
    track_accuracy,
)
from spatialbench.metrics.ruling import Ruling, no_value
from spatialbench.observe import Observations, Outcome, invalid, unavailable
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.tracks.spatial.gating import world_flags
from spatialbench.tracks.spatial.inventory import spatial_metric
from spatialbench.tracks.spatial.object_scores import Detections, ObjectRewards, ObjectTracks, ObjectVerdicts
from spatialbench.tracks.spatial.object_views import OBJECT_READS, ObjectTarget, of_object
from spatialbench.tracks.spatial.object_views import objects_of as _objects_of
from spatialbench.tracks.spatial.outcomes import doubts, ruled_outcome
from spatialbench.tracks.spatial.quality import lacks
from spatialbench.tracks.spatial.scored import substitutes
from spatialbench.types import Status

__all__: list[str] = []

_TARGETS, _DETECTIONS = "spatial.object_targets", "spatial.object_detections"
_REWARDS, _TRACKS, _VERDICTS = "spatial.object_rewards", "spatial.object_tracks", "spatial.object_verdicts"


@dataclass
class _Part:
    """A ruling, what it was made from, and who had a part in it."""

    ruling: Ruling
    components: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    scorers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


_Rule = Callable[[Observations, str], _Part]


def _recall(obs: Observations, id: str) -> _Part:
    """M16."""
    seen: Detections | None = of_object(obs, _DETECTIONS, id)
    if seen is None:
        return _Part(object_recall(None))
    ruling = object_recall(seen.detected, obs.protocol.objects.min_detections)
    components: dict[str, Any] = {"detected": [k for k, d in enumerate(seen.detected) if d],
                                  "mask_pixels": [0 if m is None else int(m.sum()) for m in seen.masks]}
    if not seen.given:
        components["best_scores"] = list(seen.scores)
    return _Part(ruling, components, {"views": len(seen.masks), "detected": sum(seen.detected)},
                 () if seen.given else ("sam3",), doubts(given=seen.given, truncated=seen.truncated))


def _dispersion(obs: Observations, id: str) -> _Part:
    """M17."""
    seen = _recall(obs, id)
    found: ObjectRewards | None = of_object(obs, _REWARDS, id)
    if found is None:
        return _Part(object_dispersion(None))
    least = obs.protocol.objects.min_crops
    enough = len(found.views) >= least
    rated = enough and not found.given
    components = {"views": list(found.views), "rewards": list(found.rewards)}
    return _Part(object_dispersion(found.rewards if enough else (), least), components,
                 {**seen.counts, "crops": len(found.views)},
                 (*seen.scorers, *(("hpsv3",) if rated else ())), (*seen.flags, *doubts(given=found.given)))


def _accuracy(obs: Observations, id: str) -> _Part:
    """M19."""
    seen = _recall(obs, id)
    found: ObjectTracks | None = of_object(obs, _TRACKS, id)
    if found is None:
        return _Part(no_value(Status.INVALID, NOT_LIFTED))
    if not found.order:
        return _Part(no_value(Status.INVALID, "no_visible_start"), counts=seen.counts, flags=seen.flags)
    assert found.distance is not None
    components = {"start_view": found.order[0], "tolerance": found.tolerance, "distances": [
        float(d) if np.isfinite(d) else None for d in found.distance]}
    counts = {**seen.counts, "points": len(found.closed), "closed": sum(found.closed),
              "lost": int((~np.isfinite(found.distance)).sum())}
    if not found.given:
        counts["drawn_from"] = found.drawn
    return _Part(track_accuracy(found.closed), components, counts,
                 (*seen.scorers, *(() if found.given else ("tapip3d",))), (*seen.flags, *doubts(given=found.given)))


def _f1(precision: _Rule, name: str, of: Callable[[Ruling], Ruling]) -> _Rule:
    """M18 and M20 of a precision (M17, M19): 0 where the recall is, even if the precision cannot be had."""
    def rule(obs: Observations, id: str) -> _Part:
        recall = _recall(obs, id)
        if recall.ruling.value == 0:
            return replace(recall, ruling=object_f1(no_value(Status.INVALID, "zero_recall"), recall.ruling),
                           components={"recall": 0.0})
        part = precision(obs, id)
        p = of(part.ruling)
        known = {k: v for k, v in ((name, part.ruling.value), ("precision", p.value)) if v is not None}
        return replace(part, ruling=object_f1(p, recall.ruling),
                       components={"recall": recall.ruling.value, **known}, counts={**recall.counts, **part.counts})
    return rule


def _judged(pick: Callable[[JudgedObject], Ruling]) -> _Rule:
    """M21 to M24."""
    def rule(obs: Observations, id: str) -> _Part:
        found: ObjectVerdicts | None = of_object(obs, _VERDICTS, id)
        if found is None:
            return _Part(pick(judged_object(None)))
        said = found.verdicts
        counts = {"views": len(said.views), **said.counts}
        scorers = () if found.given else (JUDGE,)
        if said.lacking:
            return _Part(no_value(Status.UNAVAILABLE, said.lacking), counts=counts, flags=doubts(given=found.given))
        judged = judged_object(said.views)
        parts = {"recall": judged.recall.value, "artifact_free": judged.artifact_free.value,
                 "complete": judged.complete.value, "precision": judged.precision.value}
        components: dict[str, Any] = {k: v for k, v in parts.items() if v is not None}
        components |= {"valid": list(judged.valid), "disagreement": said.disagreement}
        return _Part(pick(judged), components, {**counts, "valid": sum(bool(v) for v in judged.valid)}, scorers,
                     doubts(given=found.given))
    return rule


def _by_object(rule: _Rule) -> Callable[[Observations], Outcome | Mapping[str, Outcome]]:
    def compute(obs: Observations) -> Outcome | Mapping[str, Outcome]:
        return lacks(obs, "objects") or {of.id: _outcome(obs, rule, of.id) for of in _objects_of(obs)}
    return compute


def _outcome(obs: Observations, rule: _Rule, id: str) -> Outcome:
    """As ``evaluate`` does for a metric: an error costs this object's value and no other's."""
    where: dict[str, Any] = {}
    counts: dict[str, int] = {}
    try:
        target: ObjectTarget = of_object(obs, _TARGETS, id)
        where, counts = _where(target), {"lifted_points": target.points}
        part = rule(obs, id)
    except BackendUnavailableError as error:
        return unavailable(str(error), components=where, counts=counts)
    except SpatialbenchError as error:
        return invalid(str(error), components=where, counts=counts)
    scorers = dict.fromkeys((*(("sam3",) if target.source == "sam3" else ()), *part.scorers))
    flags = dict.fromkeys((*doubts(given=target.source == "evidence"), *part.flags))
    return ruled_outcome(part.ruling, components={**part.components, **where}, counts={**counts, **part.counts},
                         flags=(*world_flags(obs), *substitutes(obs, *scorers), *flags),
                         geometry=obs.world.seen_geometry)


def _where(target: ObjectTarget) -> dict[str, Any]:
    out: dict[str, Any] = {"lifted": target.lifted, "place_from": target.source}
    if target.centre is not None:
        out |= {"orbit_centre": target.centre.tolist(), "orbit_radius": target.radius, "box_diagonal": target.diagonal}
    return out if target.score is None else {**out, "place_score": target.score}


_SEEN = (_TARGETS, _DETECTIONS)
for _id, _scorers, _observed, _rule_of in (
        ("M16", ("sam3",), _SEEN, _recall),
        ("M17", ("sam3", "hpsv3"), (*_SEEN, _REWARDS), _dispersion),
        ("M18", ("sam3", "hpsv3"), (*_SEEN, _REWARDS), _f1(_dispersion, "spread", reward_precision)),
        ("M19", ("sam3", "tapip3d"), (*_SEEN, _TRACKS), _accuracy),
        ("M20", ("sam3", "tapip3d"), (*_SEEN, _TRACKS), _f1(_accuracy, "accuracy", lambda r: r)),
        ("M21", (JUDGE,), (_TARGETS, _VERDICTS), _judged(lambda j: j.recall)),
        ("M22", (JUDGE,), (_TARGETS, _VERDICTS), _judged(lambda j: j.artifact_free)),
        ("M23", (JUDGE,), (_TARGETS, _VERDICTS), _judged(lambda j: j.complete)),
        ("M24", (JUDGE,), (_TARGETS, _VERDICTS), _judged(lambda j: j.f1))):
    _reads = (*OBJECT_READS, "judge") if JUDGE in _scorers else OBJECT_READS
    spatial_metric(_id, observations=_observed, scorers=_scorers, reads=_reads)(
        _by_object(_rule_of))
