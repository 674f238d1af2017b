"""Reads what a case gives in place of a model: masks, judge answers, feature maps, rewards; nothing is trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.metrics.editing import Operation, chosen_views
from spatialbench.tracks.spatial.evidence_files import (
    Masks,
    npz_members,
    open_npz,
    read_array,
    read_json,
    read_masks,
    view_numbers,
    view_paths,
)
from spatialbench.types import EditCase, ExpandCase, Protocol

__all__ = ["PROBES", "EditGiven", "ExpandGiven", "Judged", "Masks", "edit_evidence", "evidence_names",
           "expand_evidence", "located_in", "target_views"]

PROBES = 6
"""Origin probes: the six cube faces."""
_REWARDS = ("junction_after", "origin_before", "origin_after", "path_before", "path_after")


@dataclass(frozen=True)
class Judged:
    """Answers of a judge, one a view: whether it satisfies the instruction. ``before`` is kept and gates nothing."""

    views: tuple[int, ...]
    after: tuple[bool, ...]
    before: tuple[bool, ...] = ()


@dataclass(frozen=True, eq=False)
class EditGiven:
    """Evidence of an edit, checked against the protocol and the views that it is of.

    Attributes
    ----------
    box : centre [3] and size [3] of the target, source frame and unit of the world before; or None.
    probe_masks : six, of the world that the target is sought in, None where it is not seen; or None.
    before, after : a mask for each orbit view [H,W], None where the target is not seen; or None.
    judge, lpips [V,H,W], dino ([V,P,D], [V,P,D]) : of the chosen views, in order; or None. Without masks that say which
        these are, they are any orbit views.
    lpips_views, dino_views : the views that those two are of.
    """

    box: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    probe_masks: Masks | None = None
    before: Masks | None = None
    after: Masks | None = None
    judge: Judged | None = None
    lpips: NDArray[np.float32] | None = None
    dino: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
    lpips_views: tuple[int, ...] = ()
    dino_views: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class ExpandGiven:
    """Rewards by frame set: ``junction_after`` [T] and so on; those that the file has."""

    rewards: dict[str, NDArray[np.float64]] = field(default_factory=dict)


def located_in(operation: Operation | Literal["global"]) -> Literal["before", "after"]:
    """The world in which the target is sought: ``after`` for additions and replacements, else ``before``."""
    return "after" if operation in ("addition", "replacement") else "before"


def evidence_names(case: EditCase | ExpandCase | None, there: Callable[[str], bool]) -> dict[str, str]:
    """Key -> path relative to the case file: ``judge``, ``masks_before.07`` (only views whose file is ``there``)."""
    if case is None or case.evidence is None:
        return {}
    out: dict[str, str] = {}
    for key in sorted(type(case.evidence).model_fields):
        path = getattr(case.evidence, key)
        if isinstance(path, str):
            out |= view_paths(key, path, there)
    return out


def edit_evidence(case: EditCase | None, files: Mapping[str, Path], protocol: Protocol) -> EditGiven:
    """Read the evidence of an edit; ``files`` as :func:`evidence_names`, resolved.

    Raises
    ------
    MissingInputError : a file is not there, or there is not one mask.
    UnsupportedFormatError, CorruptInputError : what it holds is not what it should be, or of other views.
    """
    if case is None or case.evidence is None:
        return EditGiven()
    given, rule, lens = case.evidence, protocol.editing, protocol.views.lens
    box = None
    if given.target_box is not None:
        low, high = np.array(given.target_box.low), np.array(given.target_box.high)
        box = ((low + high) / 2, high - low)
    probe = protocol.views.probe_size
    probes = read_masks(files, "probe_masks", PROBES, (probe, probe))
    before = read_masks(files, "masks_before", rule.orbit_views, (lens.height, lens.width))
    after = read_masks(files, "masks_after", rule.orbit_views, (lens.height, lens.width))
    views: tuple[int, ...] | None = tuple(range(PROBES))
    if case.operation != "global":
        located = before if located_in(case.operation) == "before" else after
        views = None if located is None else target_views(located, rule.views)
    judge = lpips = dino = None
    lpips_views: tuple[int, ...] = ()
    dino_views: tuple[int, ...] = ()
    if "judge" in files:
        judge = _judge(files["judge"], views, protocol)
    if "lpips" in files:
        lpips_views = _array_views(files["lpips"], views, protocol)
        lpips = _of_views(files["lpips"], "maps", lpips_views, (lens.height, lens.width)).astype(np.float32)
        if not ((lpips >= 0) & np.isfinite(lpips)).all():
            raise CorruptInputError("holds distances that are negative or not finite", where=f"{files['lpips']}, maps",
                                    todo="Give spatial LPIPS maps")
    if "dino" in files:
        dino_views = _array_views(files["dino"], views, protocol)
        dino = (_tokens(files["dino"], "before", dino_views), _tokens(files["dino"], "after", dino_views))
        if dino[0].shape != dino[1].shape:
            raise CorruptInputError(f"'before' is {dino[0].shape} and 'after' {dino[1].shape}",
                                    where=str(files["dino"]), todo="Take both from one model")
    return EditGiven(box, probes, before, after, judge, lpips, dino, lpips_views, dino_views)


def target_views(masks: Masks, most: int) -> tuple[int, ...]:
    """The orbit views that are looked at: up to ``most`` of those in which the target is seen (OPEN-21)."""
    return chosen_views([m is not None and bool(m.any()) for m in masks], most)


def expand_evidence(case: ExpandCase | None, files: Mapping[str, Path], protocol: Protocol) -> ExpandGiven:
    """Read the evidence of an expansion; raises as :func:`edit_evidence`."""
    if case is None or "rewards" not in files:
        return ExpandGiven()
    path, rewards = files["rewards"], {}
    with open_npz(path) as archive:
        names = npz_members(archive)
        unknown = sorted(set(names) - set(_REWARDS))
        if unknown:
            raise CorruptInputError(f"holds '{unknown[0]:.60}', which no metric reads", where=str(path),
                                    todo=f"Known: {', '.join(_REWARDS)}")
        for name in names:
            frames = protocol.expansion.path_frames if name.startswith("path") else protocol.views.ring_frames
            array = read_array(archive, path, name, (frames,), "f").astype(np.float64)
            if not np.isfinite(array).all():
                raise CorruptInputError("holds rewards that are not finite", where=f"{path}, {name}",
                                        todo="Give a number for each frame")
            rewards[name] = array
    for a, b in (("origin_before", "origin_after"), ("path_before", "path_after")):
        if (a in rewards) != (b in rewards):
            raise CorruptInputError(f"holds only one of '{a}' and '{b}'", where=str(path), todo="Give both or neither")
    return ExpandGiven(rewards)


def _judge(path: Path, views: tuple[int, ...] | None, protocol: Protocol) -> Judged:
    data = read_json(path)
    keys = ("views", "before", "after")
    if not isinstance(data, dict) or set(data) - set(keys) or not {"views", "after"} <= set(data):
        raise CorruptInputError(f"must hold {', '.join(keys)} ('before' may be left out)", where=str(path),
                                todo='Write {"views": [0, 4], "after": [true, false]}')
    if views is None:
        views = _some_views(data["views"], path, protocol)
    _same_views(data["views"], views, path)
    for key in keys[1:]:
        answers = data.get(key, [])
        if not isinstance(answers, list) or any(type(a) is not bool for a in answers):
            raise CorruptInputError("must be a list of true and false", where=f"{path}, {key}", todo="Correct it")
        if key in data and len(answers) != len(views):
            raise CorruptInputError(f"has {len(answers)} answers for {len(views)} views", where=f"{path}, {key}",
                                    todo="Give one for each view")
    return Judged(views, tuple(data["after"]), tuple(data.get("before", ())))


def _some_views(said: object, path: Path, protocol: Protocol) -> tuple[int, ...]:
    """Orbit views that were looked at elsewhere, where no masks say which these had to be."""
    return view_numbers(said, path, protocol.editing.orbit_views, protocol.editing.views)


def _array_views(path: Path, views: tuple[int, ...] | None, protocol: Protocol) -> tuple[int, ...]:
    """The views that a file says its arrays are of: those that are looked at, or any where these are not known yet."""
    with open_npz(path) as archive:
        said = read_array(archive, path, "views", (None,), "iu").tolist()
    views = _some_views(said, path, protocol) if views is None else views
    _same_views(said, views, path)
    return views


def _of_views(path: Path, name: str, views: tuple[int, ...], shape: tuple[int | None, ...]) -> NDArray[Any]:
    with open_npz(path) as archive:
        return read_array(archive, path, name, (len(views), *shape), "f")


def _tokens(path: Path, name: str, views: tuple[int, ...]) -> NDArray[np.float32]:
    from spatialbench.tracks.spatial.edit_views import PATCHES

    tokens = _of_views(path, name, views, (PATCHES, PATCHES, None)).astype(np.float32)
    lengths = np.linalg.norm(tokens.astype(np.float64), axis=-1)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise CorruptInputError("holds a token that is zero or not finite", where=f"{path}, {name}",
                                todo="Give the last layer's patch tokens")
    return tokens.reshape(len(views), PATCHES * PATCHES, tokens.shape[-1])


def _same_views(said: object, views: tuple[int, ...], path: Path) -> None:
    if said != list(views):
        raise CorruptInputError(f"is of the views {said}, and {list(views)} are looked at", where=str(path),
                                todo="Give it for these views, in this order")


