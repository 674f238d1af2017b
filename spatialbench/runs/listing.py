"""The files below a folder: listed once, matched with patterns, told by their content."""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import unquote

from spatialbench.errors import InputError, MissingInputError, UsageError
from spatialbench.runs.names import nearest
from spatialbench.scene import Sniffed, sniff
from spatialbench.scene.folder import WORLD_SUFFIXES
from spatialbench.scene.sniff import READABLE
from spatialbench.scene.splats import SPLAT_KINDS
from spatialbench.scene.world_files import FolderWorlds, world_files

__all__ = ["Contents", "Listing", "list_files", "matcher", "nearest"]

_MAX_ENTRIES = 200_000
_SIDE_SUFFIXES = (".bin", ".mtl", ".png", ".jpg", ".jpeg", ".webp", ".ktx2", ".dds", ".tga", ".tif", ".tiff", ".exr",
                  ".hdr", ".txt", ".md", ".csv", ".yaml", ".yml", ".html", ".jsonl", ".log", ".py")
"""Of files that belong to a world, or tell of it, and are none, whatever their bytes look like."""
_MAX_JSON = 64 << 20
"""Bytes of a glTF whose references are looked at: most of a larger one is data, and the listing stays small."""


@dataclass(frozen=True, eq=False)
class Listing:
    """``files`` are relative, with forward slashes, sorted; ``notes`` say what was not followed."""

    root: Path
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


def list_files(root: Path, *, links: bool = True) -> Listing:
    """All files below ``root`` but hidden ones.

    A link is followed where it leads to something in ``root`` that is not a folder above it, with ``links`` only;
    never out of ``root``.

    Raises
    ------
    MissingInputError : no such folder.
    UsageError : it holds more than 200,000 entries.
    """
    root = Path(root)
    if not root.is_dir():
        raise MissingInputError("no such folder", where=str(root), todo="Check the path")
    walk = _Walk(root, root.resolve(), links)
    walk.into(root, "", (walk.real,))
    return Listing(root, tuple(sorted(walk.files)), tuple(walk.notes))


@dataclass(eq=False)
class _Walk:
    root: Path
    real: Path
    links: bool
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    entries: int = 0

    def into(self, folder: Path, prefix: str, above: tuple[Path, ...]) -> None:
        try:
            with os.scandir(folder) as found:
                inside = sorted(found, key=lambda e: e.name)
        except OSError as error:
            self.notes.append(f"'{prefix or '.'}' cannot be listed ({error.strerror})")
            return
        for entry in inside:
            if entry.name.startswith(".") or entry.name == "__MACOSX":
                continue
            self.entries += 1
            if self.entries > _MAX_ENTRIES:
                raise UsageError(f"holds more than {_MAX_ENTRIES:,} files", where=str(self.root),
                                 todo="Give the folder of the worlds themselves")
            name = prefix + entry.name
            try:
                if entry.is_symlink():
                    self._link(entry, name, above)
                elif entry.is_dir():
                    self.into(Path(entry.path), name + "/", (*above, Path(entry.path).resolve()))
                elif entry.is_file():
                    self.files.append(name)
            except (OSError, RuntimeError):
                self.notes.append(f"'{name}' cannot be looked at")

    def _link(self, entry: os.DirEntry[str], name: str, above: tuple[Path, ...]) -> None:
        target = Path(entry.path).resolve()
        if not target.is_relative_to(self.real):
            self.notes.append(f"'{name}' is a link that leads out of the folder, and was not followed")
        elif not self.links:
            return
        elif target.is_file():
            self.files.append(name)
        elif target.is_dir() and target not in above:
            self.into(target, name + "/", (*above, target))


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a relative path matches: ``*`` and ``?`` within a name, ``**`` for any folders.

    Takes time of the order of the pattern times the path, whatever they hold.
    """
    parts = pattern.split("/")

    def fits(path: str) -> bool:
        names = path.split("/")
        row = [True] + [False] * len(names)  # whether the parts so far match the first k names
        for part in parts:
            if part == "**":
                row = [any(row[:k + 1]) for k in range(len(row))]
            else:
                row = [False, *(before and _fits(part, name) for before, name in zip(row, names, strict=False))]
        return row[-1]

    return fits


def _fits(pattern: str, name: str) -> bool:
    """Greedy: only the last ``*`` ever needs to take more."""
    p = n = 0
    star, taken = -1, 0
    while n < len(name):
        if p < len(pattern) and pattern[p] == "*":
            star, taken, p = p, n, p + 1
        elif p < len(pattern) and pattern[p] in ("?", name[n]):
            p, n = p + 1, n + 1
        elif star >= 0:
            taken += 1
            p, n = star + 1, taken
        else:
            return False
    return not pattern[p:].strip("*")


class Contents:
    """What the files of a listing are, by their bytes; each is looked at once, and none is loaded."""

    def __init__(self, listing: Listing) -> None:
        self._root, self._files = listing.root, frozenset(listing.files)
        self._look = cache(self._sniff)
        self._folder = cache(FolderWorlds.of)

    def accepts(self, name: str, clip: bool) -> bool:
        """Whether it is a video, or else a world that can be read."""
        found = None if name.lower().endswith(_SIDE_SUFFIXES) else self._look(name)
        if not isinstance(found, Sniffed):
            return False
        return found.kind == "video" if clip else found.kind in READABLE

    def refusal(self, name: str, clip: bool) -> str:
        """Why it is not accepted, in words; empty when it is."""
        found = self._look(name)
        if isinstance(found, Sniffed):
            good = found.kind == "video" if clip else found.kind in READABLE
            what = found.label + (f". {found.todo}" if found.todo else "")
            return "" if good else f"is {what}"
        return f"{found.what}. {found.todo}"

    def looks_like_a_world(self, name: str) -> bool:
        """Whether someone may have meant it as a world, readable or not."""
        if name.lower().endswith(_SIDE_SUFFIXES):
            return False
        found = self._look(name)
        return name.lower().endswith(WORLD_SUFFIXES) or (isinstance(found, Sniffed) and found.kind in (
            *READABLE, "points-ply", "spz4", "ksplat", "usd", "fbx", "blend", "drc", "off", "collada", "3mf", "lfs"))

    def parts_of(self, name: str) -> Iterator[str]:
        """Names of the files that are read with a world: those that a glTF in JSON refers to, the collider of splats
        and the further layers of a world by the rule of :func:`~spatialbench.scene.world_files.world_files`.

        Of the references of a glTF none out of its folder, and none that is surely a world (a .splat has no mark), so
        that no file hides another's worlds.
        """
        found = self._look(name)
        if not isinstance(found, Sniffed):
            return
        if found.kind == "gltf":
            yield from self._references(name)
        elif self._may_bring_others(name, found.kind):
            files = world_files(self._root / name, self._folder)
            others = (*files.layers, *(() if files.collider is None else (files.collider,)))
            inside = (posixpath.join(posixpath.dirname(name), p.name) for p in others if p != files.main)
            yield from (other for other in inside if other in self._files)

    def _may_bring_others(self, name: str, kind: str) -> bool:
        """A look at names alone, which spares most files the listing of their folder."""
        folder, base = posixpath.split(name.lower())
        if base.startswith("mesh_layer"):
            return kind in ("ply", "drc")
        stem = posixpath.splitext(base)[0]
        return kind in SPLAT_KINDS and any(
            c == "collider" or c.startswith(stem) for c in self._colliders.get(folder, ()))

    @cached_property
    def _colliders(self) -> dict[str, list[str]]:
        """Stems that end in ``collider``, by folder; all in lower case."""
        out: dict[str, list[str]] = {}
        for name in self._files:
            folder, base = posixpath.split(name.lower())
            stem = posixpath.splitext(base)[0]
            if stem.endswith("collider"):
                out.setdefault(folder, []).append(stem)
        return out

    def _references(self, name: str) -> Iterator[str]:
        try:
            if (self._root / name).stat().st_size > _MAX_JSON:
                return
            data = json.loads((self._root / name).read_bytes())
            uris = [x.get("uri") for key in ("buffers", "images") for x in data.get(key, ())]
        except (OSError, ValueError, RecursionError, AttributeError, TypeError, MemoryError):
            return  # its reader says so
        folder = posixpath.dirname(name)
        for uri in uris:
            if isinstance(uri, str) and not uri.startswith("data:"):
                part = posixpath.normpath(unquote(uri))
                other = posixpath.join(folder, part)
                if not part.startswith(("../", "/")) and other in self._files and not self._surely(other):
                    yield other

    def _surely(self, name: str) -> bool:
        found = self._look(name)
        return isinstance(found, Sniffed) and found.kind in READABLE and found.kind != "splat"

    def _sniff(self, name: str) -> Sniffed | InputError:
        try:
            return sniff(self._root / name)
        except InputError as error:
            return error
