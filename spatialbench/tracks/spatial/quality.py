"""W1 by learned scorers and the judge: M01 to M06 and M09 to M11 (spec section 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spatialbench.errors import UsageError
from spatialbench.metrics.quality import cosines, mean_rating, object_coverage, spread_views, top_mean, vlm_score
from spatialbench.observe import Observations, Outcome, inapplicable, measured, unavailable
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.tracks.spatial.gating import world_flags
from spatialbench.tracks.spatial.inventory import spatial_metric
from spatialbench.tracks.spatial.judging import ask_of_views
from spatialbench.tracks.spatial.outcomes import doubts, ruled_outcome
from spatialbench.tracks.spatial.reads import IMAGES
from spatialbench.tracks.spatial.scored import (
    NEEDS,
    case_of,
    checked_ratings,
    directed,
    need,
    rated,
    substitutes,
    the_scorer,
    truncates,
)

__all__: list[str] = []

_READS = (*IMAGES, "scorers")
_FRAMES = ("spatial.origin_frames",)
_VIEWS = 18


def lacks(obs: Observations, *needs: str) -> Outcome | None:
    """Why a metric has nothing to measure: no case, or one that does not say what it is measured against."""
    case = case_of(obs)
    for name in needs:
        if case is None:
            return inapplicable(f"no case was given, and so no {name}")
        given = getattr(case, name)
        if not (given.strip() if isinstance(given, str) else given):
            return inapplicable(NEEDS[name])
    return None


def _rated(id: str, name: str, text: bool = False) -> Callable[[Observations], Outcome]:
    def compute(obs: Observations) -> Outcome:
        if text and (none := lacks(obs, "text")):
            return none
        need(obs, id)
        case = case_of(obs)
        ratings = rated(obs, id, obs.get("spatial.origin_frames"), (case.text or "") if text and case else "")
        return _of_frames(obs, ratings, name, id)
    return compute


def _of_frames(obs: Observations, ratings: np.ndarray, name: str, *ids: str, **more: Any) -> Outcome:
    return measured(mean_rating(ratings), components={
        name: [float(r) for r in ratings], "worst_frame": int(np.argmin(ratings)), **more},
        counts={"frames": len(ratings)}, flags=(*world_flags(obs), *substitutes(obs, *ids)),
        geometry=obs.world.seen_geometry)


for _metric, _scorer, _name, _text in (("M01", "topiq_nr", "frame_quality", False), ("M03", "pi", "frame_pi", False),
                                       ("M04", "q_align", "frame_quality", False),
                                       ("M05", "hpsv3", "frame_rewards", True)):
    spatial_metric(_metric, observations=_FRAMES, scorers=(_scorer,), reads=_READS)(_rated(_scorer, _name, _text))


@spatial_metric("M02", observations=("spatial.clip_vectors",), scorers=("clip_l14", "laion_aes"), reads=_READS)
def laion_aes(obs: Observations) -> Outcome:
    """M02, eq. (32): mean aesthetic rating of the unit CLIP embeddings of the origin ring."""
    need(obs, "clip_l14", "laion_aes")
    vectors = obs.get("spatial.clip_vectors")
    ratings = checked_ratings(obs, "laion_aes", the_scorer(obs, "laion_aes").rate_embeddings(vectors), len(vectors))
    return _of_frames(obs, ratings, "frame_aesthetics", "laion_aes", "clip_l14")


@spatial_metric("M06", observations=_FRAMES, scorers=(JUDGE,), reads=(*IMAGES, "judge"))
def vlm_score_of_world(obs: Observations) -> Outcome:
    """M06, eq. (37): share of yes among three questions about each of 18 views."""
    need(obs, JUDGE)
    frames = obs.get("spatial.origin_frames")
    chosen = spread_views(len(frames), _VIEWS)
    said = ask_of_views(obs, "view-quality-1", [frames[k] for k in chosen], name="M06")
    if said.lacking:
        return unavailable(said.lacking, counts={"views": len(chosen), **said.counts})
    ruling, rates = vlm_score(said.views)
    components = {"views": list(chosen), "rates": rates, "disagreement": said.disagreement,
                  "answers": [None if v is None else dict(v) for v in said.views]}
    return ruled_outcome(ruling, components=components, counts={"views": len(chosen), **said.counts},
                         flags=(*world_flags(obs), *substitutes(obs, JUDGE)), geometry=obs.world.seen_geometry)


@spatial_metric("M09", version=2, observations=("spatial.clip_vectors",), scorers=("clip_l14",), reads=_READS)
def clip_t(obs: Observations) -> Outcome:
    """M09, eq. (39): mean cosine of the views and the scene's text; a text over the limit is cut, and said."""
    if none := lacks(obs, "text"):
        return none
    need(obs, "clip_l14")
    case = case_of(obs)
    assert case is not None and case.text
    try:
        text = the_scorer(obs, "clip_l14").embed_texts([case.text])
    except UsageError as error:  # a stand-in for images only
        return unavailable(str(error))
    similar = cosines(obs.get("spatial.clip_vectors"), directed(obs, "clip_l14", text.vectors)[0])
    outcome = _of_frames(obs, similar, "frame_cosines", "clip_l14", text_truncated=bool(text.truncated[0]))
    return outcome.with_flags(*doubts(truncated=text.truncated[0]))


@spatial_metric("M10", version=2, observations=("spatial.clip_vectors", "spatial.input_image"),
                scorers=("clip_l14",), reads=_READS)
def clip_i(obs: Observations) -> Outcome:
    """M10, eq. (40): mean of the three largest cosines of the views and the input image."""
    if none := lacks(obs, "image"):
        return none
    need(obs, "clip_l14")
    image = directed(obs, "clip_l14", the_scorer(obs, "clip_l14").embed_images([obs.get("spatial.input_image")]))
    similar = cosines(obs.get("spatial.clip_vectors"), image[0])
    best = [int(k) for k in np.argsort(-similar, kind="stable")[:3]]
    return ruled_outcome(top_mean(similar), components={"frame_cosines": [float(s) for s in similar], "best": best},
                         counts={"frames": len(similar)}, flags=(*world_flags(obs), *substitutes(obs, "clip_l14")),
                         geometry=obs.world.seen_geometry)


@spatial_metric("M11", observations=("spatial.origin_faces",), scorers=("sam3",), reads=_READS)
def object_coverage_of_world(obs: Observations) -> Outcome:
    """M11, eq. (41): share of the requested categories that are detected in any of the six origin probes."""
    if none := lacks(obs, "categories"):
        return none
    need(obs, "sam3")
    case, rule = case_of(obs), obs.protocol.scorers
    assert case is not None
    faces, detector = obs.get("spatial.origin_faces"), the_scorer(obs, "sam3")
    seen: dict[str, list[int]] = {}
    scores: dict[str, float] = {}
    # The detector reads letters of both cases and any spaces alike: "Chair" and "chair" are one request.
    wanted: dict[str, str] = {}
    for category in case.categories:
        wanted.setdefault(" ".join(category.lower().split()), category)
    long = any([truncates(detector, c) for c in wanted.values()])
    for category in wanted.values():
        found = detector.detect(faces, category)
        good = [[d for d in ds if d.score >= rule.detection_score and int(d.mask.sum()) >= rule.detection_pixels]
                for ds in found]
        seen[category] = [k for k, ds in enumerate(good) if ds]
        scores[category] = max((d.score for ds in found for d in ds), default=0.0)
        obs.progress(len(seen), len(wanted))
    return ruled_outcome(object_coverage({c: bool(f) for c, f in seen.items()}),
                         components={"faces": seen, "best_scores": scores},
                         counts={"categories": len(seen), "detected": sum(map(bool, seen.values()))},
                         flags=(*world_flags(obs), *substitutes(obs, "sam3"), *doubts(truncated=long)),
                         geometry=obs.world.seen_geometry)
