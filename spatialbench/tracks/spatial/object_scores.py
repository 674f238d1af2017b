"""What learned scorers and the judge say of each object's orbit views; the evidence of the case comes first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, CorruptInputError, SpatialbenchError
from spatialbench.metrics.object_pixels import lifted, object_crop
from spatialbench.metrics.objects import closed_points, start_points, track_order
from spatialbench.observe import Observations, observation
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.tracks.spatial.judging import Verdicts, ask_of_views, recorded
from spatialbench.tracks.spatial.object_views import (
    OBJECT_READS,
    Mask,
    ObjectOrbits,
    ObjectTarget,
    ObjectViews,
    best_instance,
    each_object,
    given_of,
    of_object,
)
from spatialbench.tracks.spatial.scored import need, rated, the_scorer, truncates
from spatialbench.types.object_case import ObjectAnnotation

__all__ = ["Detections", "ObjectRewards", "ObjectTracks", "ObjectVerdicts"]

_TARGETS, _ORBITS = "spatial.object_targets", "spatial.object_orbits"
_DETECTIONS = "spatial.object_detections"
_SEEN = (_TARGETS, _ORBITS, _DETECTIONS)
_PROMPT = "object-view-1"
_AT_ONCE = 8
_GIVE = "Or give it as the object's evidence ('{}')"


@dataclass(frozen=True, eq=False)
class Detections:
    """The object in each orbit view.

    Attributes
    ----------
    masks : [H,W] each, None where it is not detected.
    scores : best score of each view, whether it counts or not; None without any instance, and of evidence.
    given : from the evidence of the case.
    truncated : its text was longer than the detector reads.
    """

    masks: tuple[Mask | None, ...]
    scores: tuple[float | None, ...]
    given: bool = False
    truncated: bool = False

    @property
    def detected(self) -> tuple[bool, ...]:
        """d_t."""
        return tuple(m is not None for m in self.masks)

    def scored(self, least: int) -> tuple[int, ...]:
        """Views whose mask has at least ``least`` pixels, and so whose crop is rated (M17)."""
        return tuple(k for k, m in enumerate(self.masks) if m is not None and int(m.sum()) >= least)


@dataclass(frozen=True, eq=False)
class ObjectRewards:
    """Rewards of the scored crops, by view."""

    views: tuple[int, ...]
    rewards: tuple[float, ...]
    given: bool = False


@dataclass(frozen=True, eq=False)
class ObjectTracks:
    """Points that were followed once around the object and back to where they began.

    Attributes
    ----------
    order : views in the order they were looked at, the first one again at the end; empty when none shows the object.
    closed, distance : [K] whether each point closes, and how far it ends from its start, m (NaN where it was lost).
    tolerance : m.
    drawn : pixels of the first view that points were drawn from.
    """

    order: tuple[int, ...]
    closed: tuple[bool, ...] = ()
    distance: NDArray[np.float64] | None = None
    tolerance: float = 0.0
    drawn: int = 0
    given: bool = False


@dataclass(frozen=True, eq=False)
class ObjectVerdicts:
    """The judge's answers, of the evidence where ``given``."""

    verdicts: Verdicts
    given: bool = False


@observation(_DETECTIONS, label="detecting the objects around them", reads=OBJECT_READS, needs=(_TARGETS, _ORBITS))
def _object_detections(obs: Observations) -> dict[str, Detections | SpatialbenchError | None]:
    """None for an object that could not be lifted, here and below."""
    def detect(of: ObjectAnnotation) -> Detections | None:
        if not _is_lifted(obs, of):
            return None
        given = given_of(obs, of.id).masks
        if given is not None:
            return Detections(given, (None,) * len(given), given=True)
        need(obs, "sam3", todo=_GIVE.format("masks"))
        detector, images = the_scorer(obs, "sam3"), _views(obs, of).images
        best: list[tuple[Mask | None, float | None]] = []
        for k in range(0, len(images), _AT_ONCE):  # an image may have hundreds of instances, each with a mask
            found = detector.detect(list(images[k:k + _AT_ONCE]), of.text)
            best += [best_instance(f, obs.protocol.scorers.detection_score) for f in found]
            obs.progress(len(best), len(images))
        return Detections(tuple(m for m, _ in best), tuple(s for _, s in best),
                          truncated=truncates(detector, of.text))
    return each_object(obs, detect)


@observation("spatial.object_rewards", label="rating the objects' crops", reads=OBJECT_READS, needs=_SEEN)
def _object_rewards(obs: Observations) -> dict[str, ObjectRewards | SpatialbenchError | None]:
    rule = obs.protocol.objects

    def rate(of: ObjectAnnotation) -> ObjectRewards | None:
        seen: Detections | None = of_object(obs, _DETECTIONS, of.id)
        if seen is None:
            return None
        views, given = seen.scored(obs.protocol.scorers.detection_pixels), given_of(obs, of.id).rewards
        if given is not None:
            if given[0] != views:
                raise CorruptInputError(f"the rewards are of the views {list(given[0])}, and the crops of {list(views)}"
                                        " are scored", where=f"objects, '{of.id}', evidence.rewards",
                                        todo="Give one for each of these views, in this order")
            return ObjectRewards(views, tuple(given[1].tolist()), given=True)
        if len(views) < rule.min_crops:  # too few for a spread, whoever rates them
            return ObjectRewards(views, ())
        need(obs, "hpsv3", todo=_GIVE.format("rewards"))
        images = _views(obs, of).images
        crops = [object_crop(images[k], m, rule.crop_padding, rule.crop_side) for k in views
                 if (m := seen.masks[k]) is not None]
        return ObjectRewards(views, tuple(rated(obs, "hpsv3", crops, of.text).tolist()))
    return each_object(obs, rate)


@observation("spatial.object_tracks", label="following points around the objects", reads=OBJECT_READS, needs=_SEEN)
def _object_tracks(obs: Observations) -> dict[str, ObjectTracks | SpatialbenchError | None]:
    rule = obs.protocol.objects

    def follow(of: ObjectAnnotation) -> ObjectTracks | None:
        seen: Detections | None = of_object(obs, _DETECTIONS, of.id)
        if seen is None:
            return None
        target: ObjectTarget = of_object(obs, _TARGETS, of.id)
        order = track_order(seen.detected)
        if not order:
            return ObjectTracks(())
        tolerance = rule.track_tolerance * target.diagonal
        given = given_of(obs, of.id).tracks
        if given is not None:
            if given[0] != order:
                raise CorruptInputError(f"the tracks are of the views {list(given[0])}, and {list(order)} are followed",
                                        where=f"objects, '{of.id}', evidence.tracks",
                                        todo="Begin with the first view that shows the object, and end with it again")
            return _ends(order, given[1], tolerance, 0, given=True)
        need(obs, "tapip3d", todo=_GIVE.format("tracks"))
        views, cameras, mask = _views(obs, of), _orbits(obs).cameras[of.id], seen.masks[order[0]]
        assert mask is not None
        usable = mask & (views.depth[order[0]] > 0)
        pixels = start_points(usable, rule.track_points, rule.track_seed)
        if not len(pixels):
            raise BackendUnavailableError(f"no pixel of the object has depth in the view {order[0]:02d}, and so there "
                                          "is no point to follow")
        tracks = the_scorer(obs, "tapip3d").track([views.images[k] for k in order], views.depth[list(order)],
                                                  [cameras[k] for k in order],
                                                  lifted(pixels, views.depth[order[0]], cameras[order[0]]))
        tracks = np.asarray(tracks, dtype=np.float64)
        if tracks.shape != (len(order), len(pixels), 3):
            raise BackendUnavailableError(f"tapip3d gave tracks of the shape {tracks.shape}",
                                          todo="Verify its installation: spatialbench weights verify")
        return _ends(order, tracks, tolerance, int(usable.sum()))
    return each_object(obs, follow)


@observation("spatial.object_verdicts", label="judging the objects' views", reads=(*OBJECT_READS, "judge"),
             needs=(_TARGETS, _ORBITS))
def _object_verdicts(obs: Observations) -> dict[str, ObjectVerdicts | SpatialbenchError | None]:
    def judge(of: ObjectAnnotation) -> ObjectVerdicts | None:
        if not _is_lifted(obs, of):
            return None
        given = given_of(obs, of.id).answers
        if given is not None:
            return ObjectVerdicts(recorded(given, obs.protocol.judge.min_coverage), given=True)
        need(obs, JUDGE, todo=_GIVE.format("judge"))
        return ObjectVerdicts(ask_of_views(obs, _PROMPT, list(_views(obs, of).images), name=f"object.{of.id}",
                                           fields={"target": of.text}))
    return each_object(obs, judge)


def _ends(order: tuple[int, ...], tracks: NDArray[np.float64], tolerance: float, drawn: int, given: bool = False
          ) -> ObjectTracks:
    closed, distance = closed_points(tracks, tolerance)
    return ObjectTracks(order, tuple(closed.tolist()), distance, tolerance, drawn, given)


def _is_lifted(obs: Observations, of: ObjectAnnotation) -> bool:
    target: ObjectTarget = of_object(obs, _TARGETS, of.id)
    return target.lifted


def _orbits(obs: Observations) -> ObjectOrbits:
    found: ObjectOrbits = obs.get(_ORBITS)
    return found


def _views(obs: Observations, of: ObjectAnnotation) -> ObjectViews:
    return _orbits(obs).views(of.id)
