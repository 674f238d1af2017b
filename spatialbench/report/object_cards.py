"""Cards of annotated objects for a page: orbit views with masks, rewards and verdicts, and the nine values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import SpatialbenchError
from spatialbench.observe import Observations
from spatialbench.report.data import ObjectCard, ObjectView, Picture
from spatialbench.report.edit_pictures import marked
from spatialbench.report.text import metres, number, value
from spatialbench.tracks.spatial.object_views import ObjectOrbits, ObjectTarget, objects_of
from spatialbench.types import Measurement, Status

__all__ = ["object_cards"]

_SIDE = 160
_MOST = 8
_METRICS = {"M16": "detected", "M17": "reward spread", "M18": "reward F1", "M19": "points that close",
            "M20": "track F1", "M21": "judged valid", "M22": "artifact-free", "M23": "complete", "M24": "judge F1"}
_SOURCES = {"image_polygon": "the case's polygon", "mask": "the case's mask", "evidence": "the case's evidence",
            "sam3": "its text, in the first view"}


def object_cards(obs: Observations, measurements: Sequence[Measurement]) -> list[ObjectCard]:
    """A card for each object of the case that was looked for in this run, the first eight with pictures.

    Views that no model looked at are drawn now.
    """
    if not obs.made("spatial.object_targets"):
        return []
    rows = {(m.object, m.metric): m for m in measurements if m.object is not None}
    return [_card(obs, of.id, of.text, [(k, m) for k in _METRICS if (m := rows.get((of.id, k))) is not None], n < _MOST)
            for n, of in enumerate(objects_of(obs))]


def _card(obs: Observations, id: str, text: str, rows: list[tuple[str, Measurement]], drawn: bool) -> ObjectCard:
    scores = [(f"{k} {_METRICS[k]}", _in_words(m)) for k, m in rows]
    target: ObjectTarget | SpatialbenchError = obs.get("spatial.object_targets")[id]
    if isinstance(target, SpatialbenchError):
        return ObjectCard(id, text, scores, note="It was not looked for: see the metrics' reasons.")
    source = _SOURCES.get(target.source, target.source)
    if target.centre is None:
        why = "it was not found there" if not target.pixels else "nothing with depth is there"
        return ObjectCard(id, text, scores, [("sought by", source)],
                          note=f"There is no orbit around it: {why}. What counts how often it is seen is 0.")
    x, y, z = target.centre.tolist()
    facts = [("found by", source), ("middle", f"({number(x)}, {number(y)}, {number(z)}) m from the initial camera"),
             ("diagonal of its box", metres(target.diagonal)), ("radius of the orbit", metres(target.radius))]
    if not drawn:
        return ObjectCard(id, text, scores, facts, note=f"Pictures are of the first {_MOST} objects only.")
    return ObjectCard(id, text, scores, facts, _views(obs, id))


def _views(obs: Observations, id: str) -> list[ObjectView]:
    seen, rated, judged = (_found(obs, f"spatial.object_{name}", id) for name in ("detections", "rewards", "verdicts"))
    orbits: ObjectOrbits = obs.get("spatial.object_orbits")
    images = orbits.views(id).images
    rewards = {} if rated is None else dict(zip(rated.views, rated.rewards, strict=False))
    out = []
    for k, image in enumerate(images):
        picture = _small(image)
        notes, state = [], ""
        if seen is not None:
            mask = seen.masks[k]
            state = "good" if mask is not None else "bad"
            notes.append("seen" if mask is not None else "not seen")
            if mask is not None:
                picture = marked(picture, mask)
        if k in rewards:
            notes.append(f"reward {number(rewards[k])}")
        if judged is not None:
            words, valid = _verdict(judged.verdicts.views[k])
            notes.append(words)
            state = "" if valid is None else "good" if valid and state != "bad" else "bad"
        out.append(ObjectView(f"{number(360.0 * k / len(images), 0)}°", picture, notes, state))
    return out


def _verdict(said: Any) -> tuple[str, bool | None]:
    if said is None:
        return "no answer", None
    if not said["inside_scene"]:
        return "outside of the scene", False
    if not said["target_visible"]:
        return "hidden or absent", False
    faults = [w for k, w in (("artifact_free", "artifacts"), ("complete", "incomplete")) if not said[k]]
    return ", ".join(["valid", *faults]), True


def _found(obs: Observations, name: str, id: str) -> Any:
    found = obs.get(name)[id] if obs.made(name) else None
    return None if isinstance(found, SpatialbenchError) else found


def _in_words(m: Measurement) -> str:
    if m.status is not Status.MEASURED:
        return m.status.value
    return value(m.value) if not m.reason else f"{value(m.value)} ({m.reason.replace('_', ' ')})"


def _small(image: NDArray[np.uint8]) -> Picture:
    from PIL import Image

    height, width = image.shape[:2]
    k = min(1.0, _SIDE / max(height, width))
    size = (max(1, round(width * k)), max(1, round(height * k)))
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BOX))
