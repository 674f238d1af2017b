"""Where the objects of a case are in this world, and the orbit that is laid around each (spec section 9; OPEN-17)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import SpatialbenchError
from spatialbench.metrics.object_pixels import lifted
from spatialbench.observe import Observations, observation
from spatialbench.tracks.spatial.cameras import orbit_around, origin_ring, placed
from spatialbench.tracks.spatial.object_evidence import ObjectGiven
from spatialbench.tracks.spatial.reads import IMAGES
from spatialbench.tracks.spatial.scored import case_of, need, the_scorer
from spatialbench.types import Camera, to_uint8
from spatialbench.types.object_case import ObjectAnnotation

__all__ = ["OBJECT_READS", "Mask", "ObjectOrbits", "ObjectTarget", "ObjectViews", "best_instance", "each_object",
           "given_of", "objects_of", "of_object"]

OBJECT_READS = (*IMAGES, "editing", "objects", "scorers")
"""Protocol keys that bear on every object metric."""
Mask = NDArray[np.bool_]
_KEPT = 4
"""Objects whose 24 images and depths are kept in memory; some 100 MB each."""
_SAM3 = "sam3"
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ObjectTarget:
    """Where an object is, world frame, m.

    Attributes
    ----------
    source : what says so: ``image_polygon``, ``mask``, ``evidence`` or ``sam3``.
    centre : [3] median of the lifted points; None where nothing could be lifted: no pixel of it, or none with depth.
    diagonal : b_o of the box around them (OPEN-20c).
    radius : of the orbit in plan.
    points : how many were lifted, of ``pixels`` in the mask.
    score : of the detection, the best one when there is none that counts; None without a detector.
    """

    source: str
    centre: NDArray[np.float64] | None
    diagonal: float = 0.0
    radius: float = 0.0
    points: int = 0
    pixels: int = 0
    score: float | None = None

    @property
    def lifted(self) -> bool:
        """Whether there is an orbit."""
        return self.centre is not None


@dataclass(frozen=True, eq=False)
class ObjectViews:
    """The orbit views of one object: ``images`` [V,H,W,3] uint8 and ``depth`` [V,H,W] m, 0 where there is none or the
    opacity is too low."""

    images: NDArray[np.uint8]
    depth: NDArray[np.float32]


@dataclass(eq=False)
class ObjectOrbits:
    """Cameras of each object that was lifted, and their images, drawn when they are first asked for.

    The images of the last four objects are kept.
    """

    cameras: dict[str, tuple[Camera, ...]]
    _draw: Callable[[tuple[Camera, ...]], ObjectViews]
    _views: dict[str, ObjectViews] = field(default_factory=dict)

    def views(self, id: str) -> ObjectViews:
        """Of the object ``id``."""
        if id not in self._views:
            while len(self._views) >= _KEPT:
                del self._views[next(iter(self._views))]
            self._views[id] = self._draw(self.cameras[id])
        return self._views[id]


def objects_of(obs: Observations) -> tuple[ObjectAnnotation, ...]:
    """The objects of the case."""
    case = case_of(obs)
    return case.objects if case is not None else ()


def given_of(obs: Observations, id: str) -> ObjectGiven:
    """What the case says and gives of an object; empty when that is nothing."""
    found = obs.context.media.get("objects")
    given = found.get(id) if isinstance(found, Mapping) else None
    return given if isinstance(given, ObjectGiven) else ObjectGiven()


def each_object(obs: Observations, make: Callable[[ObjectAnnotation], T]) -> dict[str, T | SpatialbenchError]:
    """What ``make`` gives for each object, or the error that it ended with: one object never costs another."""
    out: dict[str, T | SpatialbenchError] = {}
    for of in objects_of(obs):
        try:
            out[of.id] = make(of)
        except SpatialbenchError as error:
            out[of.id] = error
    return out


def of_object(obs: Observations, name: str, id: str) -> Any:
    """What an observation has of one object; raises the error that it ended with."""
    found = obs.get(name)[id]
    if isinstance(found, SpatialbenchError):
        raise found
    return found


def best_instance(found: tuple[Any, ...], least: float) -> tuple[Mask | None, float | None]:
    """Mask of the best detection with a score of at least ``least`` and any pixel (OPEN-18), and the best score."""
    ranked = sorted((d for d in found if d.mask.any()), key=lambda d: -d.score)
    if not ranked:
        return None, None
    best = ranked[0]
    return (best.mask if best.score >= least else None), float(best.score)


@observation("spatial.object_targets", label="locating the annotated objects", reads=OBJECT_READS,
             needs=("spatial.renderer",))
def _object_targets(obs: Observations) -> dict[str, ObjectTarget | SpatialbenchError]:
    """From the place that the case gives in the first view of the origin ring, else from SAM3 there."""
    camera = origin_ring(obs.protocol)[0]
    frames = obs.get("spatial.renderer").render([camera], want=("rgb", "depth", "alpha"))
    usable = (frames.depth[0] > 0) & (frames.alpha[0] >= obs.protocol.editing.min_alpha)

    def locate(of: ObjectAnnotation) -> ObjectTarget:
        given, score = given_of(obs, of.id), None
        mask, source = given.place, given.source
        if not source:
            need(obs, _SAM3, todo="Or say in the case where the object is ('image_polygon' or 'mask')")
            source = _SAM3
            found = the_scorer(obs, _SAM3).detect([to_uint8(frames.rgb[0])], of.text)[0]
            mask, score = best_instance(found, obs.protocol.scorers.detection_score)
        pixels = 0 if mask is None else int(mask.sum())
        points = np.zeros((0, 3)) if mask is None else lifted(np.argwhere(mask & usable), frames.depth[0], camera)
        at = placed(obs.protocol, points)
        if at is None:
            return ObjectTarget(source, None, pixels=pixels, score=score)
        return ObjectTarget(source, at.centre, at.diagonal, at.radius, len(points), pixels, score)
    return each_object(obs, locate)


@observation("spatial.object_orbits", label="laying orbits around the objects", reads=OBJECT_READS,
             needs=("spatial.renderer", "spatial.object_targets"))
def _object_orbits(obs: Observations) -> ObjectOrbits:
    """24 views of a fixed radius; azimuth 0 is on the side of the initial camera (OPEN-17b, 17c)."""
    rule, lens, renderer = obs.protocol.editing, obs.protocol.views.lens, obs.get("spatial.renderer")
    targets: dict[str, ObjectTarget | SpatialbenchError] = obs.get("spatial.object_targets")
    cameras = {id: tuple(orbit_around(obs.protocol, t.centre, t.radius)) for id, t in targets.items()
               if isinstance(t, ObjectTarget) and t.centre is not None}

    def draw(cameras: tuple[Camera, ...]) -> ObjectViews:
        images = np.empty((len(cameras), lens.height, lens.width, 3), np.uint8)
        depth = np.empty((len(cameras), lens.height, lens.width), np.float32)
        k = 0
        for frames in renderer.stream(list(cameras), want=("rgb", "depth", "alpha")):
            n = len(frames.rgb)
            images[k:k + n] = [to_uint8(rgb) for rgb in frames.rgb]
            depth[k:k + n] = np.where(frames.alpha >= rule.min_alpha, frames.depth, 0.0)
            k += n
            obs.progress(k, len(cameras))
        return ObjectViews(images, depth)
    return ObjectOrbits(cameras, draw)
