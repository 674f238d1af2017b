"""What the judge, LPIPS and DINOv2 say of the views of an edit; the evidence of the case comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, CorruptInputError
from spatialbench.metrics.editing import background_mean, patch_background, patch_distance
from spatialbench.observe import Observations, observation
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.tracks.spatial.edit_views import EDIT_READS, PATCHES, EditFrames, EditViews, given
from spatialbench.tracks.spatial.judging import Verdicts, ask_of_views
from spatialbench.tracks.spatial.scored import VERIFY, need, the_scorer
from spatialbench.tracks.spatial.two_worlds import PAIR, drawn_of, origin_cameras, pair_case
from spatialbench.types import EditCase

__all__ = ["EditDistances", "EditVerdicts"]

_PROMPT, _KEY = "edit-execution-1", "satisfied"
_VIEWS, _FRAMES = "spatial.edit_views", "spatial.edit_frames"
_GIVE = "Or give {} as the case's evidence ('{}')"


@dataclass(frozen=True, eq=False)
class EditVerdicts:
    """Whether each view shows what the instruction asks for.

    Attributes
    ----------
    views : orbit views, or origin probes.
    after, before : an answer for each, None without a usable one; those before are kept and gate nothing.
    lacking : why the answers after are too few for a value; empty when they are enough.
    counts : of the questions about views after.
    disagreement : of the judge's repeats there.
    """

    views: tuple[int, ...]
    after: tuple[bool | None, ...]
    before: tuple[bool | None, ...] = ()
    lacking: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    disagreement: float | None = None
    given: bool = False


@dataclass(frozen=True)
class EditDistances:
    """How far the backgrounds of each view are apart; None where there is too little of it."""

    values: tuple[float | None, ...]
    given: bool = False


@observation("spatial.edit_verdicts", label="judging the edit", reads=(*EDIT_READS, "judge"),
             needs=(_VIEWS, _FRAMES, *PAIR))
def _edit_verdicts(obs: Observations) -> EditVerdicts:
    """Of the orbit views of an object edit, or of the six origin probes of a global one (OPEN-21)."""
    case, judged = pair_case(obs), given(obs).judge
    assert isinstance(case, EditCase)
    if judged is not None:
        return EditVerdicts(judged.views, judged.after, judged.before, given=True)
    need(obs, JUDGE, todo=_GIVE.format("its answers", "judge"))
    if case.scope == "global":
        cameras = origin_cameras(obs.protocol.views.probe_size)
        numbers = tuple(range(len(cameras)))
        before, after = (drawn_of(obs, role, cameras) for role in ("before", "after"))
    else:
        views: EditViews = obs.get(_VIEWS)
        frames: EditFrames = obs.get(_FRAMES)
        numbers, before, after = views.numbers, list(frames.before), list(frames.after)
    said = _ask(obs, case, after, "after")
    try:
        earlier = _answers(_ask(obs, case, before, "before"))
    except BackendUnavailableError:  # what is said of the world before gates nothing
        earlier = (None,) * len(before)
    return EditVerdicts(numbers, _answers(said), earlier, said.lacking, said.counts, said.disagreement)


@observation("spatial.edit_lpips", label="comparing the backgrounds by LPIPS", reads=EDIT_READS,
             needs=(_VIEWS, _FRAMES))
def _edit_lpips(obs: Observations) -> EditDistances:
    views: EditViews = obs.get(_VIEWS)
    evidence, least = given(obs), obs.protocol.editing.min_pixels
    if evidence.lpips is not None:
        _same_views(evidence.lpips_views, views, "lpips")
        maps: Sequence[NDArray[np.floating[Any]]] = list(evidence.lpips)
    else:
        need(obs, "lpips_vgg", todo=_GIVE.format("it", "lpips"))
        frames: EditFrames = obs.get(_FRAMES)
        maps = [np.asarray(m) for m in the_scorer(obs, "lpips_vgg").difference_maps(frames.before, frames.after)]
        sizes = [(c.height, c.width) for c in views.cameras]
        if [m.shape for m in maps] != sizes or not all(np.isfinite(m).all() and (m >= 0).all() for m in maps):
            raise BackendUnavailableError("lpips_vgg gave maps of another size, or distances that are negative or not "
                                          "finite", todo=VERIFY)
    return EditDistances(tuple(background_mean(m, views.background(k), min_pixels=least) for k, m in enumerate(maps)),
                         given=evidence.lpips is not None)


@observation("spatial.edit_dino", label="comparing the backgrounds by DINOv2", reads=EDIT_READS,
             needs=(_VIEWS, _FRAMES))
def _edit_dino(obs: Observations) -> EditDistances:
    views: EditViews = obs.get(_VIEWS)
    tokens, rule, grid = given(obs).dino, obs.protocol.editing, PATCHES
    if tokens is not None:
        _same_views(given(obs).dino_views, views, "dino")
        before, after = tokens
    else:
        need(obs, "dinov2", todo=_GIVE.format("it", "dino"))
        frames: EditFrames = obs.get(_FRAMES)
        scorer, n = the_scorer(obs, "dinov2"), len(views.numbers)
        found = np.asarray(scorer.patch_tokens([*frames.before, *frames.after]), dtype=np.float32)
        grid = found.shape[1] if found.ndim == 4 else 0
        if not grid or found.shape[:3] != (2 * n, grid, grid) or not _long(found):
            raise BackendUnavailableError(f"dinov2 gave tokens of the shape {found.shape}, or one that is zero or not "
                                          "finite", todo=VERIFY)
        found = found.reshape(2 * n, grid * grid, -1)
        before, after = found[:n], found[n:]
    return EditDistances(tuple(
        patch_distance(before[k], after[k], patch_background(views.background(k), grid), least=rule.patch_background,
                       min_patches=rule.min_patches) for k in range(len(views.numbers))), given=tokens is not None)


def _ask(obs: Observations, case: EditCase, images: list[NDArray[np.uint8]], when: str) -> Verdicts:
    return ask_of_views(obs, _PROMPT, images, name=f"edit.{when}", fields={"instruction": case.instruction})


def _answers(said: Verdicts) -> tuple[bool | None, ...]:
    return tuple(None if v is None else v[_KEY] for v in said.views)


def _long(tokens: NDArray[np.float32]) -> bool:
    lengths = np.linalg.norm(tokens, axis=-1)
    return bool((np.isfinite(lengths) & (lengths > 0)).all())


def _same_views(said: tuple[int, ...], views: EditViews, key: str) -> None:
    """Where the detector chose the views, they are only known now."""
    if said != views.numbers:
        raise CorruptInputError(f"is of the views {list(said)}, and {list(views.numbers)} are looked at",
                                where=f"evidence, '{key}'", todo="Give it for these views, in this order")
