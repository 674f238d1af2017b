"""Files beside a world that say something about its frame: found, read, weighed and merged (docs/sidecars.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, InputError, MissingInputError, UnsupportedFormatError, UsageError
from spatialbench.scene.cameras.colmap import parse_colmap
from spatialbench.scene.cameras.files import MAX_JSON, MAX_TEXT, parse_camera_json, parse_json, recognise
from spatialbench.scene.cameras.listed import CameraList
from spatialbench.scene.cameras.nerfstudio import in_capture_frame, in_training_frame, parse_dataparser
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.sidecar_habitat import is_habitat, parse_habitat
from spatialbench.scene.sidecar_marble import marble_metadata, parse_marble
from spatialbench.scene.sidecar_names import CAMERAS, CAPTURE, COLMAP, DATAPARSER, SEMANTICS, SHARED, own_names
from spatialbench.scene.sidecar_says import SideCarSays
from spatialbench.types import Pose, SideCar

__all__ = ["FAR_DIAGONALS", "WorldBox", "read_side_car", "read_side_cars"]

_SMALL = 1 << 20
"""Bytes of a file that holds some values, not a list."""
FAR_DIAGONALS = 2.0
"""Cameras farther from the world's box than so many of its diagonals are in another frame; half may be."""
_Y = (0.0, 1.0, 0.0)
_TODO = "Give a side-car of Marble, nerfstudio, 3DGS, COLMAP, habitat or spatialbench (docs/sidecars.md)"


@dataclass(frozen=True, eq=False)
class WorldBox:
    """What gives the ends [3], [3] of the bulk of a world in its source frame, asked only where cameras are weighed;
    and whether it is a world of splats."""

    ends: Callable[[], tuple[NDArray[np.float64], NDArray[np.float64]]]
    splats: bool

    def holds(self, cameras: CameraList) -> bool:
        """Whether at least half of the cameras stand in the box or not far from it."""
        at = np.array([c.pose.position for c in cameras.cameras])
        low, high = self.ends()
        reach = FAR_DIAGONALS * float(np.linalg.norm(high - low))
        near = ((at >= low - reach) & (at <= high + reach)).all(axis=1)
        return bool(near.mean() >= 0.5)


def read_side_car(folder: WorldFolder, cameras: tuple[Pose, ...], log: ReadLog) -> SideCar:
    """The file's own cameras; what lies beside it is read by :func:`read_side_cars`."""
    return SideCar(cameras=cameras, cameras_source="file" if cameras else "none")


def read_side_cars(world: Path, side: SideCar, box: WorldBox, log: ReadLog, *,
                   others: Callable[[], Sequence[str]] = tuple, given: Sequence[Path] = ()) -> SideCar:
    """What side-cars say, filled up by what the world's file says itself.

    Those that are given stand in for the search; else the names of ``sidecar_names`` are looked for. The first that
    says something is taken for it: up, unit and floor above those of the file, cameras below them unless given. A
    side-car that was found and cannot be used is a warning that names file and field. Files that were read are in
    ``log.files``, what each says in ``log.details["side_cars"]``.

    Parameters
    ----------
    side : of the file itself.
    others : gives the other worlds in the folder; names that do not say whose they are then do not count. Asked
        only where such a name is there.
    given : files, or folders with COLMAP's text model.

    Raises
    ------
    InputError : a given one cannot be used. UsageError : its cameras stand far outside of the world.
    """
    told: list[dict[str, Any]] = []
    if given:
        says = [s for path in given for s in _given(Path(path), world, box, log, told)]
        side = replace(side, cameras=(), cameras_source="none") if any(s.lists for s in says) else side
    else:
        says = list(_found(world, box, log, others, told, cameras=not side.cameras))
    if told:
        log.details["side_cars"] = told
    return _merged(side, says)


def _merged(side: SideCar, says: Sequence[SideCarSays]) -> SideCar:
    notes: list[str] = []
    up, unit = (next((s for s in says if getattr(s, k) is not None), None) for k in ("up", "unit_m"))
    if up is not None:
        side = replace(side, up=up.up, up_source=up.up_source)
    if unit is not None:
        side = replace(side, unit_m=unit.unit_m, unit_source="side-car")
        if unit.ground_m is not None:
            side = replace(side, ground_m=unit.ground_m, ground_axis=np.array(_Y))
    for s in says:
        notes += s.notes
        if s.lists and not side.cameras:
            ordered = s.lists[0][1].ordered()
            side = replace(side, cameras=tuple(c.pose for c in ordered), cameras_source="side-car",
                           camera_names=tuple(c.name for c in ordered))
    return replace(side, notes=(*side.notes, *notes))


def _given(path: Path, world: Path, box: WorldBox, log: ReadLog, told: list[dict[str, Any]]) -> list[SideCarSays]:
    """One side-car that the user names. Companions (``cameras.txt``, dataparser_transforms.json) lie beside it."""
    own = ReadLog()
    path = path / "images.txt" if path.is_dir() else path.parent / "images.txt" if path.name == "cameras.txt" else path
    folder = WorldFolder(path, own)
    said = _weighed(_parsed(_Beside(folder, str(path)), path.name, None, world, box), box, str(path))
    try:
        inside = path.parent.resolve().relative_to(world.parent.resolve()).as_posix()
    except ValueError:
        inside = "."
    prefix = "" if inside == "." else f"{inside}/"
    log.files += [f.model_copy(update={"name": prefix + f.name}) for f in own.files]
    _tell(said, prefix + path.name, log, told)
    return [said]


def _found(world: Path, box: WorldBox, log: ReadLog, others: Callable[[], Sequence[str]], told: list[dict[str, Any]], *,
           cameras: bool) -> Iterator[SideCarSays]:
    """Side-cars by name, in order; of the lists of cameras only the first that can be used, and none if not wanted."""
    folder = WorldFolder(world, log)
    config, plain, listed = own_names(world.name)
    wanted = {config: "habitat", plain: "", SEMANTICS: "marble", listed: "cameras", CAMERAS: "cameras",
              CAPTURE: "nerfstudio", COLMAP[0]: "colmap"}
    for name, kind in wanted.items():
        if name == world.name or not folder.has(name) or (
                kind in ("cameras", "nerfstudio", "colmap") and not cameras):
            continue
        if name in SHARED and (more := others()):
            named = {"cameras": f"name it '{listed}', or ", "marble": f"name it '{plain}', or "}.get(kind, "")
            log.warn(f"'{name}' is not used, as it may belong to another world in the folder ({', '.join(more)}): "
                     f"{named}give it with --sidecar")
            continue
        try:
            said = _weighed(_parsed(_Beside(folder, name), name, kind, world, box), box, name)
        except _NotOneError:
            continue
        except (InputError, UsageError) as e:
            log.warn(f"the side-car {e.where} {e.what}; it is not used")
            continue
        _tell(said, name, log, told)
        cameras = cameras and not said.lists
        yield said


class _NotOneError(Exception):
    """A file under a name that promises nothing is no side-car."""


def _tell(said: SideCarSays, name: str, log: ReadLog, told: list[dict[str, Any]]) -> None:
    for words in said.warnings:
        log.warn(words)
    told.append({"name": name, "kind": said.kind, "says": list(said.notes)})


class _Beside:
    """Reads a side-car and its companions with bounds; errors name ``where``."""

    def __init__(self, folder: WorldFolder, where: str) -> None:
        self.folder, self.where = folder, where

    def has(self, name: str) -> bool:
        return self.folder.has(name)

    def read(self, name: str, most: int = MAX_JSON) -> bytes:
        try:
            size = (self.folder.path.parent / name).stat().st_size
            if size > most:
                raise CorruptInputError(f"has {size:,} bytes, at most {most:,} are read", where=self.where, todo=_TODO)
            return self.folder.read(name)
        except (OSError, ValueError) as e:
            why = getattr(e, "strerror", None) or str(e)
            raise MissingInputError(f"cannot be read ({why})", where=self.where, todo="Check the path") from None


def _parsed(beside: _Beside, name: str, kind: str | None, world: Path, box: WorldBox) -> SideCarSays:
    """Read one side-car. ``kind`` is what its name promises: empty for nothing, None for a file that is given.

    Raises
    ------
    InputError : it cannot be used. _NotOneError : it promises nothing and is none.
    """
    where = beside.where
    if kind == "colmap" or (kind is None and name == "images.txt"):
        at = name[:-len("images.txt")]
        lenses = beside.read(f"{at}cameras.txt") if beside.has(f"{at}cameras.txt") else None
        listed = parse_colmap(beside.read(name, MAX_TEXT), lenses, where[:-len("images.txt")])
        return _listed(listed, (("the reconstruction's frame", listed),))
    if kind is None and name.endswith(".bin"):
        raise UnsupportedFormatError("looks like a binary model of COLMAP", where=where,
                                     todo="Write it as text: colmap model_converter --output_type TXT")
    try:
        value = parse_json(beside.read(name, _SMALL if kind in ("", "habitat", "marble") else MAX_JSON), where)
    except InputError:
        if kind == "":
            raise _NotOneError from None
        raise
    if kind == "habitat":
        return parse_habitat(value, where, world.name)
    meta = marble_metadata(value)
    if kind in (None, "", "marble") and meta is not None:
        return parse_marble(meta, where, splats=box.splats)
    of = recognise(value)
    if of is not None and (kind in (None, of) or (kind == "cameras" and of in ("inria", "spatialbench"))):
        return _frames(parse_camera_json(value, where), beside, name, where)
    if kind is None and is_habitat(value):
        return parse_habitat(value, where, world.name)
    if kind == "":
        raise _NotOneError
    raise UnsupportedFormatError("does not hold what its name says" if kind else "is no side-car that is known",
                                 where=where, todo=_TODO)


def _frames(cameras: CameraList, beside: _Beside, name: str, where: str) -> SideCarSays:
    """A list with the frames that its world may be in, likeliest first."""
    if cameras.format == "spatialbench":
        if not cameras.frame.lower().startswith("source"):
            raise UnsupportedFormatError(f"has cameras in the frame '{cameras.frame[:80]}', not in the file's",
                                         where=where, todo="Write them in the frame of the file ('source: ...')")
        return _listed(cameras, (("the file's frame", cameras),))
    if cameras.format != "nerfstudio":
        return _listed(cameras, (("the trainer's frame", cameras),))
    lists = []
    other = f"{name[:-len(os.path.basename(name))]}{DATAPARSER}"
    if beside.has(other):
        inner = _Beside(beside.folder, other)
        lists.append(("nerfstudio's training frame", in_training_frame(
            cameras, parse_dataparser(parse_json(inner.read(other), other), other))))
    lists.append(("the frame of the poses as written", cameras))
    if cameras.applied is not None:
        lists.append(("the capture's frame", in_capture_frame(cameras)))
    return _listed(cameras, tuple(lists))


def _listed(cameras: CameraList, lists: tuple[tuple[str, CameraList], ...]) -> SideCarSays:
    return SideCarSays(cameras.format, lists=lists, notes=cameras.notes)


def _weighed(said: SideCarSays, box: WorldBox, where: str) -> SideCarSays:
    """The same with its cameras in the first frame in which they stand at the world, and a note that says so.

    Raises
    ------
    UsageError : there is none.
    """
    if not said.lists:
        return said
    for words, cameras in said.lists:
        if box.holds(cameras):
            first = cameras.ordered()[0].name
            note = f"{plural(len(cameras), 'camera')} in {words}" + (f", first '{first[:80]}'" if first else "")
            return replace(said, lists=((words, cameras),), notes=(note, *said.notes))
    raise UsageError("has cameras that stand far outside of the world, so in another frame", where=where,
                     todo="Give cameras in the frame of the world's file")
