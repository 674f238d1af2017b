"""W4, controlled editing: M31 to M37 on a world before and one after, from images, models, and the case's evidence.

What the case gives in the place of a model comes before the model; such values have the flag ``evidence_given``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from spatialbench.errors import BackendUnavailableError, SpatialbenchError
from spatialbench.metrics.editing import (
    edit_execution,
    edit_score_global,
    edit_score_object,
    frame_mean,
    rmse_of_psnr,
)
from spatialbench.metrics.ruling import Ruling
from spatialbench.observe import Observations, Outcome, inapplicable, invalid, unavailable
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.tracks.spatial.edit_said import EditDistances, EditVerdicts
from spatialbench.tracks.spatial.edit_views import EDIT_READS, NO_MASKS, EditFrames, EditViews, given
from spatialbench.tracks.spatial.inventory import spatial_metric
from spatialbench.tracks.spatial.outcomes import doubts, ruled_outcome
from spatialbench.tracks.spatial.scored import lacking, substitutes
from spatialbench.tracks.spatial.two_worlds import (
    PAIR_READS,
    OriginPair,
    not_of_this_pair,
    pair_case,
    pair_flags,
    pair_worlds,
)
from spatialbench.types import Status

__all__: list[str] = []

_DOUBTS = ("spatial.frame_agreement", "spatial.origin_pair")
_VIEWS = (*_DOUBTS, "spatial.edit_views")
_FRAMES = (*_VIEWS, "spatial.edit_frames")
_JUDGED = (*_VIEWS, "spatial.edit_verdicts")
_LPIPS, _DINO = "spatial.edit_lpips", "spatial.edit_dino"
_OBJECT, _GLOBAL = "object", "global"
_JUDGE_READS = (*EDIT_READS, "judge")


@spatial_metric("M31", observations=_JUDGED, scorers=(JUDGE, "sam3"), reads=_JUDGE_READS)
def edit_execution_of_case(obs: Observations) -> Outcome:
    """M31, eq. (62): whether any view after the edit satisfies the instruction, by the judge's answers."""
    return _gated(obs, None) or _execution(obs)


@spatial_metric("M32", version=2, observations=_FRAMES, scorers=("sam3",), reads=EDIT_READS)
def rgb_psnr_bg(obs: Observations) -> Outcome:
    """M32, eq. (63)-(65): mean PSNR of the background over the views that show the target."""
    return _gated(obs, _OBJECT) or _psnr(obs)


@spatial_metric("M33", observations=(*_VIEWS, _LPIPS), scorers=("sam3", "lpips_vgg"), reads=EDIT_READS)
def lpips_bg(obs: Observations) -> Outcome:
    """M33, eq. (66): mean spatial LPIPS of the background."""
    return _gated(obs, _OBJECT) or _lpips(obs)


@spatial_metric("M34", version=3, observations=(*_VIEWS, _DINO), scorers=("sam3", "dinov2"), reads=EDIT_READS)
def dinov2_bg_distance(obs: Observations) -> Outcome:
    """M34, eq. (67): mean 1 - cos of background patches."""
    return _gated(obs, _OBJECT) or _dino(obs)


@spatial_metric("M35", observations=_DOUBTS, reads=PAIR_READS)
def depth_agree_ratio(obs: Observations) -> Outcome:
    """M35, eq. (68)-(69): share of the common pixels of the six origin probes whose depths agree to 5 %.

    Without a case it is measured too: it needs no words.
    """
    return _gated(obs, _GLOBAL, needs_case=False) or _depth(obs)


@spatial_metric("M36", version=3, observations=(*_JUDGED, "spatial.edit_frames", _LPIPS, _DINO),
                scorers=(JUDGE, "sam3", "lpips_vgg", "dinov2"), reads=_JUDGE_READS)
def edit_score_object_of_case(obs: Observations) -> Outcome:
    """M36, eq. (70): execution times what the background kept, of one object edit."""
    gated = _gated(obs, _OBJECT)
    if gated:
        return gated
    executed = _settled(_execution, obs)
    parts = {"rgb_psnr_bg": _settled(_psnr, obs), "lpips_bg": _settled(_lpips, obs),
             "dinov2_bg_distance": _settled(_dino, obs)}
    ruling = edit_score_object(_ruling(executed), *(_ruling(p) for p in parts.values()))
    components: dict[str, Any] = {"edit_execution": executed.value, **{k: p.value for k, p in parts.items()}}
    psnr = parts["rgb_psnr_bg"].value
    if psnr is not None:
        components["rmse"] = rmse_of_psnr(psnr)
    return _joint(obs, ruled_outcome(ruling, components=components), executed, *parts.values())


@spatial_metric("M37", observations=_JUDGED, scorers=(JUDGE,), reads=_JUDGE_READS)
def edit_score_global_of_case(obs: Observations) -> Outcome:
    """M37, eq. (71): execution times depth agreement, of one global edit."""
    gated = _gated(obs, _GLOBAL)
    if gated:
        return gated
    executed, depth = _settled(_execution, obs), _depth(obs)
    ruling = edit_score_global(_ruling(executed), _ruling(depth))
    components = {"edit_execution": executed.value, "depth_agree_ratio": depth.value}
    return _joint(obs, ruled_outcome(ruling, components=components), executed, depth)


def _execution(obs: Observations) -> Outcome:
    case, judge = pair_case(obs), given(obs).judge
    views: EditViews | None = obs.get("spatial.edit_views") if case.scope == _OBJECT and judge is None else None
    if views is not None:
        _raise_error(views)
        if not views.known:
            return unavailable(f"{lacking(obs, 'sam3', JUDGE)}; or give answers as the case's evidence ('judge')")
        if not views.numbers:
            return _flagged(obs, ruled_outcome(edit_execution(None, 0), components={"views": []}, counts={"views": 0}),
                            *_of_views(obs, views))
    said: EditVerdicts = obs.get("spatial.edit_verdicts")
    counts = {"views": len(said.views), **said.counts}
    if said.lacking:
        return unavailable(said.lacking, counts=counts)
    known = [a for a in said.after if a is not None]
    components: dict[str, Any] = {"views": list(said.views), "after": list(said.after), "before": list(said.before)}
    if said.disagreement is not None:
        components["disagreement"] = said.disagreement
    flags = [*doubts(given=said.given), *(() if views is None else _of_views(obs, views)),
             *(() if said.given else substitutes(obs, JUDGE))]
    before = [a for a in said.before if a is not None]
    if before and all(before) and any(known):  # nothing was left to do, or the judge says yes to everything
        flags.append("satisfied_before")
    return _flagged(obs, ruled_outcome(edit_execution(known, len(known)), components=components, counts=counts), *flags)


def _psnr(obs: Observations) -> Outcome:
    views = _masked(obs)
    if views.reason:
        return _no_masks(obs, views)
    frames: EditFrames = obs.get("spatial.edit_frames")
    ruling = frame_mean(frames.psnr, why_none=_why_none(frames.background, views))
    components: dict[str, Any] = {
        "views": list(views.numbers), "frame_psnr": list(frames.psnr), "background_pixels": list(frames.background)}
    if ruling.value is not None:
        components["rmse"] = rmse_of_psnr(ruling.value)
    return _flagged(obs, ruled_outcome(ruling, components=components, counts=_counts(frames.psnr, views)),
                    *_of_views(obs, views))


def _lpips(obs: Observations) -> Outcome:
    views = _masked(obs)
    if views.reason:
        return _no_masks(obs, views, *(() if given(obs).lpips is not None else ("lpips_vgg",)))
    return _distance(obs, views, _LPIPS, "lpips_vgg", "frame_lpips")


def _dino(obs: Observations) -> Outcome:
    views = _masked(obs)
    if views.reason:
        return _no_masks(obs, views, *(() if given(obs).dino is not None else ("dinov2",)))
    return _distance(obs, views, _DINO, "dinov2", "frame_distance")


def _depth(obs: Observations) -> Outcome:
    pair: OriginPair = obs.get("spatial.origin_pair")
    ruling = frame_mean(pair.agreement, why_none="no_common_depth")
    counts = {"frames": len(pair.agreement), "valid": sum(a is not None for a in pair.agreement)}
    return _flagged(obs, ruled_outcome(ruling, components={
        "frame_agreement": list(pair.agreement), "common_pixels": list(pair.common)}, counts=counts))


def _distance(obs: Observations, views: EditViews, name: str, scorer: str, component: str) -> Outcome:
    said: EditDistances = obs.get(name) if views.numbers else EditDistances(())
    pixels = tuple(int(views.background(k).sum()) for k in range(len(views.numbers)))
    ruling = frame_mean(said.values, why_none=_why_none(pixels, views))
    flags = (*_of_views(obs, views), *doubts(given=said.given),
             *(() if said.given or not views.numbers else substitutes(obs, scorer)))
    return _flagged(obs, ruled_outcome(ruling, components={"views": list(views.numbers), component: list(said.values)},
                                       counts=_counts(said.values, views)), *flags)


def _masked(obs: Observations) -> EditViews:
    views: EditViews = obs.get("spatial.edit_views")
    _raise_error(views)
    return views


def _raise_error(views: EditViews) -> None:
    """What the detector ended with; a background that it was to find is unavailable, or invalid, by that."""
    if views.error is not None:
        raise views.error


def _no_masks(obs: Observations, views: EditViews, *ids: str) -> Outcome:
    give = f"or give them: {views.reason}" if views.reason.startswith(NO_MASKS) else views.reason
    return unavailable(f"{lacking(obs, 'sam3', *ids)}; {give}")


def _settled(part: Callable[[Observations], Outcome], obs: Observations) -> Outcome:
    """A part of a joint score; what it ends with costs the score only where the score needs it."""
    try:
        return part(obs)
    except BackendUnavailableError as error:
        return unavailable(str(error))
    except SpatialbenchError as error:
        return invalid(str(error))


def _joint(obs: Observations, outcome: Outcome, executed: Outcome, *parts: Outcome) -> Outcome:
    """Flags of all that the score rests on: where nothing was executed, of that alone."""
    return _flagged(obs, outcome, *executed.flags, *(f for p in parts if executed.value for f in p.flags))


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


def _flagged(obs: Observations, outcome: Outcome, *flags: str) -> Outcome:
    if outcome.value is None and outcome.status is not Status.INVALID:
        return outcome
    return replace(outcome.with_flags(*pair_flags(obs), *flags), geometry=pair_worlds(obs)[0].seen_geometry)


def _of_views(obs: Observations, views: EditViews) -> tuple[str, ...]:
    """Flags of what says where the target is."""
    return (*doubts(given=views.given, truncated=views.truncated),
            *(substitutes(obs, "sam3") if views.detected else ()))


def _ruling(outcome: Outcome) -> Ruling:
    return Ruling(outcome.value, outcome.status, outcome.reason)


def _counts(values: list[float | None] | tuple[float | None, ...], views: EditViews) -> dict[str, int]:
    return {"detectable": views.detectable, "frames": len(values), "valid": sum(v is not None for v in values)}


def _why_none(pixels: tuple[int, ...], views: EditViews) -> str:
    if not views.numbers:
        return "no_object_view"
    return "empty_background" if not any(pixels) else "no_valid_frame"
