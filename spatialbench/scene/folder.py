"""The folder of a world: the only place from which files are read, each with its hash."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import posixpath
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from spatialbench.errors import CorruptInputError, MissingInputError
from spatialbench.scene.log import ReadLog
from spatialbench.types import InputFile

__all__ = ["WORLD_SUFFIXES", "FileBytes", "WorldFolder", "check_given_path"]

WORLD_SUFFIXES = (".glb", ".gltf", ".obj", ".ply", ".stl", ".spz", ".sog", ".splat", ".ksplat", ".off", ".3mf", ".drc",
                  ".usd", ".usda", ".usdc", ".usdz")
FileBytes = bytes | mmap.mmap
"""All of a file: read, or mapped where it is large."""
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]*:")
_CONTROL = re.compile(r"[\x00-\x1f]")
_MAPPED = 16 << 20
"""Bytes from which a file is mapped rather than read."""
_PART = 1 << 20


def check_given_path(path: Path) -> None:
    """The path is a file with at least one byte.

    Raises
    ------
    MissingInputError : no such file, or a folder (the message lists the world files in it).
    CorruptInputError : an empty file.
    """
    where = str(path)
    try:
        if path.is_dir():
            found = sorted(p.name for p in path.iterdir() if p.suffix.lower() in WORLD_SUFFIXES)
            some = ", ".join(found[:8]) + (", ..." if len(found) > 8 else "")
            raise MissingInputError("is a folder, not a file", where=where,
                                    todo=f"Give one of the files in it: {some}" if found
                                    else "It holds no world file; give a .glb, .gltf, .obj, .ply or .stl file")
        if not path.is_file():
            raise MissingInputError("no such file", where=where, todo="Check the path")
        if path.stat().st_size == 0:
            raise CorruptInputError("is empty (0 bytes)", where=where, todo="Download or export it again")
    except (OSError, ValueError) as e:
        raise MissingInputError(f"cannot be read ({_reason(e)})", where=where,
                                todo="Check the path and its permissions") from None


class WorldFolder:
    """Reads the world's own file and those it refers to by relative names.

    A reference must stay inside the folder of the file that was given; a link is followed where its
    target lies in that folder, or in the folder where the given file itself really lies.
    """

    def __init__(self, path: Path, log: ReadLog) -> None:
        self.path = path
        self._log = log
        self._data: dict[str, bytes] = {}

    def read_main(self) -> bytes:
        """All bytes of the file that was given."""
        return self._read(self.path, self.path.name)

    @contextlib.contextmanager
    def mapped_main(self) -> Iterator[Callable[[], FileBytes]]:
        """What gives the bytes of the file, in place where there are many; who no longer needs them lets go of them.

        Such a file is hashed meanwhile in another thread, and known to be read at the end.

        Raises
        ------
        MissingInputError : it is not there or cannot be read.
        """
        try:
            file = self.path.open("rb") if self.path.stat().st_size >= _MAPPED else None
        except (OSError, ValueError):
            file = None  # reading it says why
        if file is None:
            yield self.read_main
            return

        def mapped() -> FileBytes:
            try:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError):  # reading it can do without
                return self.path.read_bytes()

        with file:
            hashing = _Hashing(file)
            try:
                yield mapped
            finally:
                hashing.join()
        if hashing.failure is not None:
            raise MissingInputError(f"the file '{self.path.name}' cannot be read ({_reason(hashing.failure)})",
                                    where=str(self.path), todo="Check the disk and copy the file again")
        self._log.files.append(InputFile(name=self.path.name, bytes=hashing.size,
                                         sha256=hashing.digest.hexdigest()))

    def read(self, reference: str, *, encoded: bool = False, needed_by: str = "") -> bytes:
        """The bytes of a file that the world refers to.

        Parameters
        ----------
        reference : relative path as written in the file.
        encoded : percent-encoded, as in glTF.
        needed_by : where it is referred to, for the message.

        Raises
        ------
        CorruptInputError : the reference leaves the world's folder.
        MissingInputError : the file is not there or cannot be read.
        """
        name = self.locate(reference, encoded=encoded, needed_by=needed_by)
        if name not in self._data:
            self._data[name] = self._read(self.path.parent / name, name, needed_by)
        return self._data[name]

    def locate(self, reference: str, *, encoded: bool = False, needed_by: str = "") -> str:
        """The reference as a clean relative name with forward slashes, checked to stay in the folder."""
        where = f"{self.path}, {needed_by}" if needed_by else str(self.path)
        shown = reference if len(reference) <= 80 else reference[:77] + "..."
        text = (unquote(reference) if encoded else reference).replace("\\", "/").strip()
        name = posixpath.normpath(text) if text else ""
        if _SCHEME.match(text) or text.startswith("/"):
            raise CorruptInputError(f"refers to '{shown}', an absolute or network address", where=where,
                                    todo="Put the file beside the world and refer to it by a relative name")
        if not name or name == "." or _CONTROL.search(name):
            raise CorruptInputError(f"refers to {shown!r}, which is no file name", where=where,
                                    todo="Export it again")
        if name == ".." or name.startswith("../") or not self._inside(name):
            raise CorruptInputError(f"refers to '{shown}', which is outside its folder", where=where,
                                    todo="Put the file into the world's folder")
        return name

    def has(self, name: str) -> bool:
        """Whether a file of that relative name is in the folder (and may be read)."""
        try:
            return self._inside(name) and (self.path.parent / name).is_file()
        except (OSError, ValueError):
            return False

    def _inside(self, name: str) -> bool:
        try:
            target = (self.path.parent / name).resolve()
            homes = (self.path.parent.resolve(), self.path.resolve().parent)
        except (OSError, ValueError, RuntimeError):
            return False
        return any(target.is_relative_to(home) for home in homes)

    def _read(self, path: Path, name: str, needed_by: str = "") -> bytes:
        by = f" (needed by {needed_by})" if needed_by else ""
        try:
            if not path.is_file():
                raise MissingInputError(f"the file '{name}' is not there{by}", where=str(self.path),
                                        todo="Copy it beside the world with the same relative path")
            data = path.read_bytes()
        except (OSError, ValueError) as e:
            raise MissingInputError(f"the file '{name}' cannot be read ({_reason(e)}){by}", where=str(self.path),
                                    todo="Check the path and its permissions") from None
        self._log.files.append(InputFile(name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest()))
        return data


class _Hashing(threading.Thread):
    """Hashes a file from its start, by reading: what others have mapped of it is not held."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self.digest, self.size = hashlib.sha256(), 0
        self.failure: OSError | None = None
        self._file = file
        self.start()

    def run(self) -> None:
        try:
            while part := self._file.read(_PART):
                self.digest.update(part)
                self.size += len(part)
        except OSError as e:
            self.failure = e


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
