"""Which files make up the world at a path: one, the layers of a folder, or splats with their collider."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from spatialbench.errors import InputError
from spatialbench.scene.folder import WORLD_SUFFIXES
from spatialbench.scene.sniff import sniff
from spatialbench.scene.splats import SPLAT_KINDS

__all__ = ["MESH_KINDS", "FolderWorlds", "WorldFiles", "other_worlds", "world_files"]

MESH_KINDS = ("glb", "gltf", "obj", "ply", "stl", "off", "3mf", "drc", "usd")
_LAYER = re.compile(r"mesh_layer(\d+)(?:[_\-. ].*)?\.(?:ply|drc)", re.IGNORECASE)
_COLLIDER = re.compile(r"(?:(.*)[_\-. ])?collider", re.IGNORECASE)
_MAX_ENTRIES = 20_000


@dataclass(frozen=True)
class WorldFiles:
    """The files of one world.

    Attributes
    ----------
    main : read first; the folder itself where nothing in it could be chosen.
    layers : mesh files of one world, in the order of their numbers; empty for most worlds.
    collider : a mesh that stands for the splats of ``main`` in simulations, by its name; or None.
    left_out : names of other world files in the folder.
    missing : numbers of layers, counted from 0, that are not there though later ones are.
    """

    main: Path
    layers: tuple[Path, ...] = ()
    collider: Path | None = None
    left_out: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class FolderWorlds:
    """World files [N] in a folder by their suffix, in the order of their names; none where there are too many."""

    files: tuple[Path, ...]

    @classmethod
    def of(cls, folder: Path) -> FolderWorlds:
        """List a folder.

        Raises
        ------
        OSError, ValueError : it cannot be listed.
        """
        found = []
        for count, p in enumerate(folder.iterdir()):
            if count >= _MAX_ENTRIES:
                return cls(())
            if p.suffix.lower() in WORLD_SUFFIXES and not p.name.startswith(".") and p.is_file():
                found.append(p)
        return cls(tuple(sorted(found)))

    @cached_property
    def colliders(self) -> dict[str, list[Path]]:
        """By ``=`` and the stem in lower case that they are named after."""
        out: dict[str, list[Path]] = {}
        for p in self.files:
            stem = _collider_of(p.name)
            if stem is not None:
                out.setdefault(stem.lower(), []).append(p)
        return out

    @cached_property
    def layered(self) -> WorldFiles | None:
        """The world of its layers, if there are any.

        A layer that is there as PLY is not read again from its Draco stream, which has lost precision.
        """
        layers = sorted((int(m[1]), p.suffix.lower() == ".drc", p.name, p) for p in self.files
                        if (m := _LAYER.fullmatch(p.name)))
        if not layers:
            return None
        plain = {number for number, packed, _, _ in layers if not packed}
        chosen = tuple(p for number, packed, _, p in layers if not packed or number not in plain)
        taken = set(chosen)
        numbers = {number for number, *_ in layers}
        missing = tuple(k for k in range(min(max(numbers), _MAX_ENTRIES)) if k not in numbers)
        return WorldFiles(chosen[0], chosen, left_out=tuple(p.name for p in self.files if p not in taken),
                          missing=missing)


def world_files(path: Path, listed: Callable[[Path], FolderWorlds] = FolderWorlds.of) -> WorldFiles:
    """What to read for a path that was given.

    A folder is one world if it holds ``meta.json`` (an unbundled SOG), files ``mesh_layer*.ply`` (HunyuanWorld), a
    single world file, or one file of splats and one collider: a mesh whose name is ``collider`` or ends in
    ``_collider``. A file of splats that was given brings its collider where that is named after it
    (``NAME_collider.glb``) or, as ``collider.glb``, where no other world lies in the folder; the first layer of a world
    brings the others. Content decides what is splats and what is a mesh; names only tell colliders and layers. Nothing
    is read here but the first bytes. ``listed`` lists a folder; who asks for many files of one may keep the answer.
    """
    try:
        if path.is_dir():
            return _of_folder(path, listed)
        if path.is_file() and not _collider_of(path.name):
            return _of_file(path, listed)
    except (OSError, ValueError):
        pass  # reading the path says what is wrong
    return WorldFiles(path)


def _of_folder(folder: Path, listed: Callable[[Path], FolderWorlds]) -> WorldFiles:
    if (folder / "meta.json").is_file():
        return WorldFiles(folder / "meta.json")
    found = listed(folder)
    files = found.files
    if found.layered is not None:
        return found.layered
    if len(files) == 1:
        return WorldFiles(files[0])
    if len(files) == 2:
        for main, other in (files, files[::-1]):
            if _collider_of(other.name) and not _collider_of(main.name) and _is_pair(main, other):
                return WorldFiles(main, collider=other)
    return WorldFiles(folder)


def _of_file(path: Path, listed: Callable[[Path], FolderWorlds]) -> WorldFiles:
    if _LAYER.fullmatch(path.name):
        whole = _of_folder(path.parent, listed)
        return whole if whole.main.name == path.name else WorldFiles(path)
    found = listed(path.parent)
    named = found.colliders.get(f"={path.stem.lower()}", [])
    if not named and len(found.files) <= 2:
        others = [p for p in found.files if p.name != path.name]
        named = others if len(others) == 1 and _collider_of(others[0].name) == "=" else []
    if len(named) == 1 and _is_pair(path, named[0]):
        return WorldFiles(path, collider=named[0])
    return WorldFiles(path)


def other_worlds(files: WorldFiles) -> tuple[str, ...]:
    """Names of world files in the folder of ``main`` that are no part of this world, at most eight.

    ``...`` stands for a folder that cannot be listed or holds too much.
    """
    try:
        found = FolderWorlds.of(files.main.parent).files
    except (OSError, ValueError):
        found = ()
    mine = {p.name for p in (files.main, *files.layers, files.collider) if p is not None}
    if not found:
        # A main file of another suffix (meta.json) may be alone; then the folder was listed and is small.
        return () if files.main.suffix.lower() not in WORLD_SUFFIXES else ("...",)
    return tuple(p.name for p in found if p.name not in mine)[:8]


def _collider_of(name: str) -> str | None:
    """``=`` and the stem that a collider is named after; None for a name that is no collider's."""
    found = _COLLIDER.fullmatch(name.rpartition(".")[0])
    return None if found is None else f"={found[1] or ''}"


def _is_pair(main: Path, other: Path) -> bool:
    try:
        return sniff(main).kind in SPLAT_KINDS and sniff(other).kind in MESH_KINDS
    except InputError:
        return False  # each says so itself when it is read
