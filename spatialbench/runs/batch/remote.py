"""Worlds at a URL (object stores and whatever else ``fsspec`` reads): listed here, fetched where a unit runs.

For planning, each file is stood for by a *stand-in* in a temporary folder: its name and length, and as much of its
content as it takes to tell what it is. A suite or folder is planned on these as on real files, so cases get the same
ids. A unit's own files are fetched by the node that runs it, which gives back their hashes; these are kept in
``OUT/fetched.jsonl``, and hold as long as the store gives the file the same length and mark.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import posixpath
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spatialbench.errors import BackendUnavailableError, InputError, ResultError, SpatialbenchError, UsageError
from spatialbench.runs.batch.keys import KNOWN
from spatialbench.scene.sidecar_names import side_car_names

__all__ = ["RemoteWorlds", "fetch", "is_url", "open_remote"]

NAME = "fetched.jsonl"
_MAX_ENTRIES = 200_000
_MAX_UNIT = 64 << 30
_HEAD, _JSON_HEAD, _TAIL, _BLOCK = 1 << 20, 4 << 20, 1 << 20, 1 << 20
_THREADS = 8
_ALONE = (".glb", ".spz", ".splat", ".sog", ".stl")
"""Of worlds that are one file; of any other the side files in its folder are fetched too."""
_SIDE = (".bin", ".mtl", ".png", ".jpg", ".jpeg", ".webp", ".ktx2", ".dds", ".tga", ".tif", ".tiff", ".exr", ".hdr",
         ".stage_config.json")
_MARKS = ("ETag", "etag", "md5Hash", "content_md5", "generation", "LastModified", "last_modified", "updated", "mtime")


@dataclass(frozen=True)
class _File:
    """``size`` in bytes; ``mark`` is what the store says of the content: a hash, a generation or a time."""

    size: int
    mark: str


class RemoteWorlds:
    """What is at a URL, with its stand-ins in ``root``, which lives as long as this does."""

    def __init__(self, url: str, files: Mapping[str, _File], notes: tuple[str, ...]) -> None:
        self.url, self.files, self.notes = url, dict(files), notes
        self.root = Path(tempfile.mkdtemp(prefix="spatialbench-")).resolve()
        self._out: Path | None = None
        paths = [str(self.root / n) for n in self.files]
        KNOWN.update(dict.fromkeys(paths))
        weakref.finalize(self, _forget, self.root, paths)

    def attach(self, out: Path) -> None:
        """Take what ``OUT/fetched.jsonl`` knows of files that are still the same."""
        self._out = out
        with contextlib.suppress(OSError), open(out / NAME, encoding="utf-8") as lines:
            for line in lines:
                with contextlib.suppress(ValueError, TypeError, KeyError):  # one cut off by a kill
                    data = json.loads(line)
                    if self.files.get(data["name"]) == _File(data["size"], data["mark"]):
                        self._know(data["name"], data["size"], str(data["sha256"]))

    def needs(self, roles: Mapping[str, str]) -> dict[str, Any]:
        """For ``fetch``: the files of a unit, whose ``roles`` are paths of stand-ins."""
        names: dict[str, None] = {}
        for path in roles.values():
            main = os.path.relpath(path, self.root).replace(os.sep, "/")
            folder = main.rpartition("/")[0]
            inside = folder + "/" if folder else ""
            beside = [inside + n for n in side_car_names(posixpath.basename(main))]
            names |= dict.fromkeys(n for n in (main, *beside) if n in self.files)
            if not main.lower().endswith(_ALONE):
                names |= dict.fromkeys(n for n in self.files if n.startswith(inside) and n.lower().endswith(_SIDE))
        return {"url": self.url, "root": str(self.root), "files": [[n, self.files[n].size] for n in names]}

    def learn(self, fetched: Iterable[tuple[str, int, str]]) -> None:
        """Keep the hashes of what a node has fetched.

        Raises
        ------
        ResultError : the disk refuses.
        """
        new = [(n, size, sha) for n, size, sha in fetched if n in self.files and self.files[n].size == size
               and KNOWN.get(str(self.root / n)) != (size, sha)]
        for name, size, sha in new:
            self._know(name, size, sha)
        if self._out is None or not new:
            return
        text = "".join(json.dumps({"name": n, "size": size, "mark": self.files[n].mark, "sha256": sha},
                                  sort_keys=True) + "\n" for n, size, sha in new)
        try:
            with open(self._out / NAME, "a", encoding="utf-8", newline="\n") as f:
                f.write(text)
        except OSError as error:
            raise ResultError(f"cannot be written: {error.strerror}", where=str(self._out / NAME),
                              todo="Free some space") from error

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Errors name the URL, and not the folder of stand-ins."""
        try:
            yield
        except (UsageError, InputError) as error:
            what, where = (t.replace(str(self.root), self.url.rstrip("/")) for t in (error.what, error.where))
            raise type(error)(what, where=where, todo=error.todo) from None

    def _know(self, name: str, size: int, sha: str) -> None:
        KNOWN[str(self.root / name)] = (size, sha)


def is_url(text: str) -> bool:
    """Whether this is a URL and no path."""
    return "://" in text


def open_remote(url: str) -> RemoteWorlds:
    """List what is at a URL and make the stand-ins; reads the first MiB of each file that may be a world.

    Hidden files and links are left out, as in a folder.

    Raises
    ------
    BackendUnavailableError : ``fsspec``, or its package for this kind of store, is not installed.
    UsageError : it is no such URL, or holds more than 200,000 files. InputError : it cannot be read.
    """
    fs, root = _store(url)
    notes: list[str] = []
    files: dict[str, _File] = {}
    try:
        _list(fs, root, root, files, notes)
        remote = RemoteWorlds(url, dict(sorted(files.items())), tuple(notes))
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda n: _stand_in(fs, f"{root}/{n}", remote.root / n, remote.files[n].size), remote.files))
    except SpatialbenchError:
        raise
    except Exception as error:  # of the store's own package
        raise InputError(f"cannot be read: {type(error).__name__}: {error}", where=url,
                         todo="Check the URL and the access to it") from None
    return remote


def fetch(needs: Mapping[str, Any], into: Path) -> list[tuple[str, int, str]]:
    """Bring the files that ``RemoteWorlds.needs`` names below the folder ``into``; name, bytes and SHA-256 of each.

    Raises
    ------
    BackendUnavailableError, UsageError : as ``open_remote``.
    InputError : too large for this node, or not what was listed. Exception : of the store's own package.
    """
    fs, root = _store(needs["url"])
    total = sum(size for _, size in needs["files"])
    if total > min(_MAX_UNIT, shutil.disk_usage(into).free * 0.9):
        raise InputError(f"has {total:,} bytes, more than the temporary folder can take", where=needs["url"],
                         todo="Point TMPDIR on the nodes to a larger disk")
    out = []
    for name, size in needs["files"]:
        if not _safe(name):
            raise InputError(f"'{name[:80]}' is no name of a file in a folder", where=needs["url"], todo="Rename it")
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        sha, have = hashlib.sha256(), 0
        with fs.open(f"{root}/{name}", "rb") as source, open(path, "xb") as target:
            while have <= size and (block := source.read(_BLOCK)):
                have += len(block)
                sha.update(block)
                target.write(block)
        if have != size:
            raise InputError(f"has another length than the {size:,} bytes that were listed",
                             where=f"{needs['url'].rstrip('/')}/{name}", todo="Start the batch again when it is quiet")
        out.append((name, size, sha.hexdigest()))
    return out


def _forget(root: Path, paths: list[str]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    for path in paths:
        KNOWN.pop(path, None)


def _store(url: str) -> tuple[Any, str]:
    if "::" in url:
        raise UsageError("chained URLs are not taken", where=url, todo="Give the URL of a folder")
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-not-found]
    except ImportError:
        raise BackendUnavailableError("worlds at a URL need the package 'fsspec', which is not installed", where=url,
                                      todo="Install it with the package for the store, such as s3fs") from None
    try:
        fs, root = url_to_fs(url)
    except ImportError as error:
        raise BackendUnavailableError(f"the package for this kind of store is not installed ({error})", where=url,
                                      todo="Install it on every node") from None
    except ValueError as error:
        raise UsageError(f"is no URL of a store: {error}", where=url, todo="Such as s3://BUCKET/FOLDER") from None
    return fs, str(root).rstrip("/")


def _list(fs: Any, root: str, folder: str, files: dict[str, _File], notes: list[str]) -> None:
    fs.invalidate_cache()
    for info in sorted(fs.ls(folder, detail=True), key=lambda i: str(i["name"])):
        full = str(info["name"]).rstrip("/")
        name = full[len(root) + 1:]
        last = name.rpartition("/")[2]
        if full in (root, folder) or last.startswith(".") or last == "__MACOSX":
            continue
        if not full.startswith(root + "/") or not _safe(name):
            notes.append(f"'{full[:80]}' is no name of a file in this folder, and was left out")
        elif info.get("islink"):
            notes.append(f"'{name}' is a link, and was not followed")
        elif info["type"] == "directory":
            _list(fs, root, full, files, notes)
        elif info["type"] == "file" and isinstance(info.get("size"), int):
            files[name] = _File(info["size"], next((str(info[k]) for k in _MARKS if info.get(k)), ""))
            if len(files) > _MAX_ENTRIES:
                raise UsageError(f"holds more than {_MAX_ENTRIES:,} files", where=root,
                                 todo="Give the folder of the worlds themselves")


def _safe(name: str) -> bool:
    return (0 < len(name) < 1000 and not name.startswith("/") and "\\" not in name and "\0" not in name
            and not any(part in ("", ".", "..") for part in name.split("/")))


def _stand_in(fs: Any, name: str, path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "xb") as f:
        if size and not name.lower().endswith(_SIDE):
            head = fs.cat_file(name, start=0, end=min(size, _HEAD))
            if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and size > _HEAD:
                head = fs.cat_file(name, start=0, end=min(size, _JSON_HEAD))
            f.write(head[:size])
            if head.startswith(b"PK") and size > len(head):  # the directory of an archive is at its end
                start = max(len(head), size - _TAIL)
                f.seek(start)
                f.write(fs.cat_file(name, start=start, end=size)[:size - start])
        f.truncate(size)
