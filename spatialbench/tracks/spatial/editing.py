"""W4, controlled editing: M31 to M37 on a world before and one after, from images and the evidence of the case.

What a model is needed for is unavailable, or comes from the files that the case gives in its place; such values have
the flag ``evidence_given``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spatialbench.metrics.editing import (
    background_mean,
    edit_execution,
    edit_score_global,
    edit_score_object,
    frame_mean,
    patch_background,
    patch_distance,
    rmse_of_psnr,
)
from spatialbench.metrics.ruling import Ruling
from spatialbench.observe import Observations, Outcome, inapplicable, unavailable
from spatialbench.tracks.spatial.edit_views import NO_MASKS, PATCHES, EditFrames, EditViews, given
from spatialbench.tracks.spatial.evidence import PROBES
from spatialbench.tracks.spatial.inventory import spatial_metric
from spatialbench.tracks.spatial.learned import lacking
from spatialbench.tracks.spatial.two_worlds import (
    PAIR_READS,
    OriginPair,
    not_of_this_pair,
    pair_case,
    pair_flags,
    pair_worlds,
)
from spatialbench.types import Status

__all__ = ["ruled_outcome"]

_DOUBTS = ("spatial.frame_agreement", "spatial.origin_pair")
_VIEWS = (*_DOUBTS, "spatial.edit_views")
_FRAMES = (*_VIEWS, "spatial.edit_frames")
_GIVEN = ("evidence_given",)
_OBJECT, _GLOBAL = "object", "global"


@spatial_metric("M31", observations=_VIEWS, scorers=("vlm_judge",), reads=PAIR_READS)
def edit_execution_of_case(obs: Observations) -> Outcome:
    """M31, eq. (62): whether any view after the edit satisfies the instruction, by the judge's answers."""
    return _gated(obs, None) or _execution(obs)


@spatial_metric("M32", observations=_FRAMES, reads=PAIR_READS)
def rgb_psnr_bg(obs: Observations) -> Outcome:
    """M32, eq. (63)-(65): mean PSNR of the background over the views that show the target."""
    return _gated(obs, _OBJECT) or _psnr(obs)


@spatial_metric("M33", observations=_VIEWS, scorers=("lpips_vgg",), reads=PAIR_READS)
def lpips_bg(obs: Observations) -> Outcome:
    """M33, eq. (66): mean spatial LPIPS of the background, from the maps of the evidence."""
    return _gated(obs, _OBJECT) or _lpips(obs)


@spatial_metric("M34", observations=_VIEWS, scorers=("dinov2",), reads=PAIR_READS)
def dinov2_bg_distance(obs: Observations) -> Outcome:
    """M34, eq. (67): mean 1 - cos of background patches, from the tokens of the evidence."""
    return _gated(obs, _OBJECT) or _dino(obs)


@spatial_metric("M35", observations=_DOUBTS, reads=PAIR_READS)
def depth_agree_ratio(obs: Observations) -> Outcome:
    """M35, eq. (68)-(69): share of the common pixels of the six origin probes whose depths agree to 5 %.

    Without a case it is measured too: it needs no words.
    """
    return _gated(obs, _GLOBAL, needs_case=False) or _depth(obs)


@spatial_metric("M36", observations=_FRAMES, scorers=("vlm_judge", "lpips_vgg", "dinov2"), reads=PAIR_READS)
def edit_score_object_of_case(obs: Observations) -> Outcome:
    """M36, eq. (70): execution times what the background kept, of one object edit."""
    gated = _gated(obs, _OBJECT)
    if gated:
        return gated
    executed = _execution(obs)
    parts = {"rgb_psnr_bg": _psnr(obs), "lpips_bg": _lpips(obs), "dinov2_bg_distance": _dino(obs)}
    ruling = edit_score_object(_ruling(executed), *(_ruling(p) for p in parts.values()))
    components: dict[str, Any] = {"edit_execution": executed.value, **{k: p.value for k, p in parts.items()}}
    psnr = parts["rgb_psnr_bg"].value
    if psnr is not None:
        components["rmse"] = rmse_of_psnr(psnr)
    return _flagged(obs, ruled_outcome(ruling, components=components), given=True)


@spatial_metric("M37", observations=_VIEWS, scorers=("vlm_judge",), reads=PAIR_READS)
def edit_score_global_of_case(obs: Observations) -> Outcome:
    """M37, eq. (71): execution times depth agreement, of one global edit."""
    gated = _gated(obs, _GLOBAL)
    if gated:
        return gated
    executed, depth = _execution(obs), _depth(obs)
    ruling = edit_score_global(_ruling(executed), _ruling(depth))
    components = {"edit_execution": executed.value, "depth_agree_ratio": depth.value}
    return _flagged(obs, ruled_outcome(ruling, components=components), given=True)


def ruled_outcome(ruling: Ruling, *, components: dict[str, Any] | None = None, counts: dict[str, int] | None = None,
                  flags: tuple[str, ...] = (), geometry: str | None = None) -> Outcome:
    """What the rules gave, as an outcome."""
    return Outcome(ruling.status, ruling.value, ruling.reason, components or {}, counts or {}, flags, geometry)


def _execution(obs: Observations) -> Outcome:
    case, evidence = pair_case(obs), given(obs)
    judge = evidence.judge
    views: EditViews = obs.get("spatial.edit_views")
    count = len(judge.views) if judge is not None else PROBES if case.scope == _GLOBAL else len(views.numbers)
    if case.scope == _OBJECT and views.reason and judge is None:
        return unavailable(f"{lacking(('sam3', 'vlm_judge'))}; or give answers as the case's evidence ('judge')")
    ruling = edit_execution(None if judge is None else judge.after, count)
    if ruling.status is Status.UNAVAILABLE:
        return unavailable(f"{lacking(('vlm_judge',))}; or give its answers as the case's evidence ('judge')")
    components: dict[str, Any] = {"views": list(views.numbers)}
    if judge is not None:
        components |= {"views": list(judge.views), "after": list(judge.after), "before": list(judge.before)}
    return _flagged(obs, ruled_outcome(ruling, components=components, counts={"views": count}), given=True)


def _psnr(obs: Observations) -> Outcome:
    views: EditViews = obs.get("spatial.edit_views")
    if views.reason:
        return unavailable(f"{lacking(('sam3',))}; {_or_give(views)}")
    frames: EditFrames = obs.get("spatial.edit_frames")
    ruling = frame_mean(frames.psnr, why_none=_why_none(frames.background, views))
    components: dict[str, Any] = {
        "views": list(views.numbers), "frame_psnr": list(frames.psnr), "background_pixels": list(frames.background)}
    if ruling.value is not None:
        components["rmse"] = rmse_of_psnr(ruling.value)
    return _flagged(obs, ruled_outcome(ruling, components=components, counts=_counts(frames.psnr, views)), given=True)


def _lpips(obs: Observations) -> Outcome:
    views, maps = obs.get("spatial.edit_views"), given(obs).lpips
    if views.reason or (maps is None and views.numbers):
        return unavailable(f"{lacking(('lpips_vgg',))}; {_or_give(views, 'lpips')}")
    least = obs.protocol.editing.min_pixels
    values = [] if maps is None else [background_mean(maps[k], views.background(k), min_pixels=least)
                                      for k in range(len(views.numbers))]
    return _from_views(obs, values, views, "frame_lpips")


def _dino(obs: Observations) -> Outcome:
    views, tokens, rule = obs.get("spatial.edit_views"), given(obs).dino, obs.protocol.editing
    if views.reason or (tokens is None and views.numbers):
        return unavailable(f"{lacking(('dinov2',))}; {_or_give(views, 'dino')}")
    values = [] if tokens is None else [
        patch_distance(tokens[0][k], tokens[1][k], patch_background(views.background(k), PATCHES),
                       least=rule.patch_background, min_patches=rule.min_patches) for k in range(len(views.numbers))]
    return _from_views(obs, values, views, "frame_distance")


def _depth(obs: Observations) -> Outcome:
    pair: OriginPair = obs.get("spatial.origin_pair")
    ruling = frame_mean(pair.agreement, why_none="no_common_depth")
    counts = {"frames": len(pair.agreement), "valid": sum(a is not None for a in pair.agreement)}
    return _flagged(obs, ruled_outcome(ruling, components={
        "frame_agreement": list(pair.agreement), "common_pixels": list(pair.common)}, counts=counts))


def _from_views(obs: Observations, values: list[float | None], views: EditViews, name: str) -> Outcome:
    pixels = tuple(int(views.background(k).sum()) for k in range(len(views.numbers)))
    ruling = frame_mean(values, why_none=_why_none(pixels, views))
    return _flagged(obs, ruled_outcome(ruling, components={"views": list(views.numbers), name: list(values)},
                                       counts=_counts(values, views)), given=True)


def _gated(obs: Observations, scope: str | None, needs_case: bool = True) -> Outcome | None:
    """Why a metric has nothing to do with this context; None when it has."""
    other = not_of_this_pair(obs, "edit", "an edit")
    if other is not None:
        return other
    case = pair_case(obs)
    if case is None:
        return inapplicable("no case was given, and so no instruction and no target") if needs_case else None
    if scope is not None and case.scope != scope:
        return inapplicable(f"it is scored on {scope} edits, and '{case.category}' is a"
                            f"{'n object' if case.scope == _OBJECT else ' global'} edit")
    return None


def _flagged(obs: Observations, outcome: Outcome, *, given: bool = False) -> Outcome:
    if outcome.value is None and outcome.status is not Status.INVALID:
        return outcome
    outcome = outcome.with_flags(*pair_flags(obs), *(_GIVEN if given else ()))
    return replace(outcome, geometry=pair_worlds(obs)[0].seen_geometry)


def _ruling(outcome: Outcome) -> Ruling:
    return Ruling(outcome.value, outcome.status, outcome.reason)


def _counts(values: list[float | None] | tuple[float | None, ...], views: EditViews) -> dict[str, int]:
    return {"detectable": views.detectable, "frames": len(values), "valid": sum(v is not None for v in values)}


def _why_none(pixels: tuple[int, ...], views: EditViews) -> str:
    if not views.numbers:
        return "no_object_view"
    return "empty_background" if not any(pixels) else "no_valid_frame"


def _or_give(views: EditViews, key: str = "") -> str:
    if not views.reason:
        return f"or give it as the case's evidence ('{key}')"
    return views.reason if not views.reason.startswith(NO_MASKS) else f"or give them: {views.reason}"
