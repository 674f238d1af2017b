"""Reads what a case gives of its objects: where each is, masks, answers, rewards, tracks; nothing is trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import ConfigError, CorruptInputError
from spatialbench.metrics.object_pixels import fitted_mask, polygon_mask
from spatialbench.tracks.spatial.evidence_files import (
    Mask,
    Masks,
    check_present,
    open_npz,
    read_array,
    read_json,
    read_mask,
    read_masks,
    view_numbers,
    view_paths,
)
from spatialbench.types import Protocol, SnapshotCase
from spatialbench.types.object_case import ObjectAnnotation

__all__ = ["ANSWERS", "Answers", "ObjectGiven", "object_evidence", "object_files"]

ANSWERS = ("inside_scene", "target_visible", "artifact_free", "complete")
"""Keys of an answer about one view, as in the prompt ``object-view-1``."""
Answers = tuple["Mapping[str, bool] | None", ...]
_MAX_PIXELS = 1 << 26
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, eq=False)
class ObjectGiven:
    """What the case gives of one object, checked against the protocol.

    Attributes
    ----------
    place : [H,W] its pixels in the first view of the origin ring; None where it is not said, or (``sought``) not seen.
    source : what says so: ``image_polygon``, ``mask``, ``evidence``, or nothing.
    masks : one for each orbit view, None where it is not seen; or None.
    answers : for each orbit view, None without one; or None.
    rewards : views [V] and rewards [V] of their crops, or None.
    tracks : views [T] and points [T,K,3] (world frame, m), or None.
    """

    place: Mask | None = None
    source: str = ""
    masks: Masks | None = None
    answers: Answers | None = None
    rewards: tuple[tuple[int, ...], NDArray[np.float64]] | None = None
    tracks: tuple[tuple[int, ...], NDArray[np.float64]] | None = None


def object_files(case: SnapshotCase | None, there: Callable[[str], bool]) -> dict[str, str]:
    """Key -> path relative to the case file: number of the object in the case and what it is, as ``00.mask``,
    ``01.judge``, ``01.masks.07`` (only views whose file is ``there``)."""
    out: dict[str, str] = {}
    for number, of in enumerate(case.objects if case is not None else ()):
        given = of.evidence
        paths = {"mask": of.mask, **({} if given is None else {k: getattr(given, k) for k in type(given).model_fields})}
        for key, path in sorted(paths.items()):
            if path is not None:
                out |= view_paths(f"{number:02d}.{key}", path, there)
    return out


def object_evidence(case: SnapshotCase | None, files: Mapping[str, Path], protocol: Protocol
                    ) -> dict[str, ObjectGiven]:
    """By object id, in the order of the case; ``files`` as :func:`object_files`, resolved.

    Raises
    ------
    MissingInputError : a file is not there.
    UnsupportedFormatError, CorruptInputError : what it holds is not what it should be, or of other views.
    ConfigError : a polygon without any pixel.
    """
    out = {}
    for number, of in enumerate(case.objects if case is not None else ()):
        prefix = f"{number:02d}."
        own = {name.removeprefix(prefix): path for name, path in files.items() if name.startswith(prefix)}
        out[of.id] = _of_object(of, own, protocol)
    return out


def _of_object(of: ObjectAnnotation, files: Mapping[str, Path], protocol: Protocol) -> ObjectGiven:
    lens, orbit = protocol.views.lens, protocol.editing.orbit_views
    place, source = None, ""
    if of.image_polygon is not None:
        place, source = polygon_mask(of.image_polygon, lens.width, lens.height), "image_polygon"
        if not place.any():
            raise ConfigError("the polygon has no pixel in it", where=f"objects, '{of.id}', image_polygon",
                              todo="Give its corners in order, x to the right and y down, each in [0,1]")
    elif "mask" in files:
        place, source = _annotated(files["mask"], lens.width, lens.height), "mask"
    elif "probe_mask" in files:
        place, source = read_mask(files["probe_mask"], (lens.height, lens.width)), "evidence"
    masks = read_masks(files, "masks", orbit, (lens.height, lens.width))
    answers = rewards = tracks = None
    if "judge" in files:
        answers = _answers(files["judge"], orbit)
    if "rewards" in files:
        rewards = _array(files["rewards"], "rewards", orbit, (None,))
        if not np.isfinite(rewards[1]).all():
            raise CorruptInputError("holds rewards that are not finite", where=f"{files['rewards']}, rewards",
                                    todo="Give a number for each view")
    if "tracks" in files:
        tracks = _array(files["tracks"], "tracks", orbit, (orbit + 1, protocol.objects.track_points, 3))
    return ObjectGiven(place, source, masks, answers, rewards, tracks)


def _annotated(path: Path, width: int, height: int) -> NDArray[np.bool_]:
    """A mask of the first view that may have another size."""
    check_present(path)
    with path.open("rb") as file:
        head = file.read(24)
    if len(head) < 24 or not head.startswith(_PNG) or head[12:16] != b"IHDR":
        raise CorruptInputError("is no PNG that can be read", where=str(path), todo="Write the mask again")
    w, h = (int.from_bytes(head[k:k + 4], "big") for k in (16, 20))
    if not 0 < w * h <= _MAX_PIXELS or abs(w * height - h * width) > max(width, height):
        raise CorruptInputError(f"is {w}x{h}, and the view {width}x{height}", where=str(path),
                                todo="Give it the view's shape, at most 64 megapixels")
    mask = read_mask(path, (h, w))
    mask = None if mask is None else fitted_mask(mask, width, height)
    if mask is None or not mask.any():
        raise CorruptInputError("has no pixel on the object", where=str(path), todo="Paint the object white")
    return mask


def _answers(path: Path, orbit: int) -> Answers:
    data = read_json(path)
    if not isinstance(data, dict) or set(data) != {"views", *ANSWERS}:
        raise CorruptInputError(f"must hold views, {', '.join(ANSWERS)}", where=str(path),
                                todo='Write {"views": [0, 1], "inside_scene": [true, true], ...}')
    views = view_numbers(data["views"], path, orbit)
    for key in ANSWERS:
        said = data[key]
        if not isinstance(said, list) or len(said) != len(views) or any(type(a) is not bool for a in said):
            raise CorruptInputError("must be true or false for each of the views", where=f"{path}, {key}",
                                    todo="Correct it")
    out: list[Mapping[str, bool] | None] = [None] * orbit
    for k, view in enumerate(views):
        out[view] = {key: data[key][k] for key in ANSWERS}
    return tuple(out)


def _array(path: Path, name: str, orbit: int, shape: tuple[int | None, ...]
           ) -> tuple[tuple[int, ...], NDArray[np.float64]]:
    with open_npz(path) as archive:
        said = read_array(archive, path, "views", (None,), "iu").tolist()
        views = tuple(said) if name == "tracks" else view_numbers(said, path, orbit)
        return views, read_array(archive, path, name, (len(views), *shape[1:]), "f").astype(np.float64)
