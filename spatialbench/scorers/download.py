"""One file from the web: continued where it was broken off, hashed while it streams, renamed only when it is right."""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.web import Web, retried, shown

__all__ = ["Expected", "Received", "download", "git_blob_sha1"]

_BLOCK = 1 << 20

Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Expected:
    """What is known of a file before it is there; nothing known is None or empty.

    Attributes
    ----------
    bytes, sha256 : its size and hash.
    git : SHA-1 of the git blob, which the hub gives for small files.
    """

    bytes: int | None = None
    sha256: str = ""
    git: str = ""

    @property
    def known(self) -> str:
        """Something that names the content, so that a part of it can be continued."""
        return self.sha256 or self.git


@dataclass(frozen=True)
class Received:
    """A file that arrived: its size and SHA-256."""

    bytes: int
    sha256: str


def download(url: str, to: Path, web: Web, expected: Expected, tell: Tell = lambda done, total: None) -> Received:
    """Fetch ``url`` to ``to``. Until it is whole and right it is ``NAME.XXXXXXXXXXXX.part`` beside it, which the next
    call continues when the content is known by a hash; Ctrl-C leaves it.

    Raises
    ------
    BackendUnavailableError : it cannot be fetched, is not what is expected, or the disk is full.
    """
    to.parent.mkdir(parents=True, exist_ok=True)
    path = to.with_name(f"{to.name}.{expected.known[:12] or 'unknown'}.part")
    with _alone(path):
        part = _Part(path)
        if not expected.known:
            part.drop()
        retried(url, lambda: part.receive(url, web, expected, tell), lambda: part.size)
        received = part.check(url, expected)
        os.replace(path, to)
    for old in to.parent.iterdir():  # of other versions
        if re.fullmatch(r"(?:[0-9a-f]{12}|unknown)\.part", old.name.removeprefix(f"{to.name}.")):
            old.unlink(missing_ok=True)
    return received


def git_blob_sha1(path: Path) -> str:
    """Name that git gives to a file's content."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as f:
        while block := f.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class _Part:
    """A file on its way, with the hash of what is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version = ""
        self._digest = hashlib.sha256()
        self._hashed = 0

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)

    def receive(self, url: str, web: Web, expected: Expected, tell: Tell) -> None:
        """One request for what lacks; raises what ``retried`` knows when it is not whole afterwards."""
        have = self.size
        if have and not (expected.known or self._version):
            self.drop()  # nothing says that what lacks is of the same file
            have = 0
        if expected.bytes is not None and have >= expected.bytes:
            if have == expected.bytes and have:
                return
            self.drop()
            have = 0
        try:
            with web.open(url, self._continued(have, expected)) as response:
                start = _start(response, have)
                self._version = _strong(response.headers.get("ETag", ""))
                total = start + _length(url, response)
                if expected.bytes is not None and total != expected.bytes:
                    self.drop()
                    raise BackendUnavailableError(
                        f"has {total:,} bytes, and {expected.bytes:,} are expected", where=shown(url),
                        todo="The file was changed at its source: do not use it, and report it")
                self._append(response, start, total, tell)
        except urllib.error.HTTPError as error:
            if error.code != 416:
                raise
            error.close()
            self.drop()
            raise http.client.HTTPException("there is nothing from that byte on") from None

    def _continued(self, have: int, expected: Expected) -> dict[str, str]:
        """Headers that ask for what lacks; of a file of which no hash is known, if it is still the same."""
        if not have:
            return {}
        return {"Range": f"bytes={have}-"} | ({} if expected.known else {"If-Range": self._version})

    def check(self, url: str, expected: Expected) -> Received:
        """Whether it is what is expected; thrown away when not."""
        self._hash_up_to(self.size)
        found = self._digest.hexdigest()
        wrong = (f"the SHA-256 {found} instead of {expected.sha256}" if expected.sha256 and found != expected.sha256
                 else f"another git hash than {expected.git}"
                 if expected.git and git_blob_sha1(self.path) != expected.git else "")
        if wrong:
            self.drop()
            raise BackendUnavailableError(f"what was sent has {wrong}; it is thrown away", where=shown(url),
                                          todo="Try again; if it stays so, the file was changed at its source: do not "
                                               "use it, and report it")
        return Received(self.size, found)

    def _append(self, response: Any, start: int, total: int, tell: Tell) -> None:
        done = start
        try:
            with self.path.open("r+b" if start else "wb") as f:
                f.truncate(start)
                f.seek(start)
                self._hash_up_to(start)
                while block := response.read(_BLOCK):
                    f.write(block)
                    self._digest.update(block)
                    self._hashed = done = done + len(block)
                    tell(done, total)
                f.flush()
                os.fsync(f.fileno())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise BackendUnavailableError("the disk is full", where=str(self.path),
                                          todo=f"Free {total - done:,} bytes; the same command continues") from None
        if done != total:
            raise http.client.HTTPException(f"the connection ended after {done:,} of {total:,} bytes")

    def _hash_up_to(self, end: int) -> None:
        if self._hashed == end:
            return
        self._digest, self._hashed = hashlib.sha256(), 0
        with self.path.open("rb") as f:
            while self._hashed < end and (block := f.read(min(_BLOCK, end - self._hashed))):
                self._digest.update(block)
                self._hashed += len(block)


def _start(response: Any, have: int) -> int:
    """Byte that the body begins with."""
    if response.status != 206:
        return 0
    named = str(response.headers.get("Content-Range", "")).removeprefix("bytes ").partition("-")[0]
    if named != str(have):
        raise http.client.HTTPException("it sends another part than was asked for")
    return have


def _strong(tag: str) -> str:
    """A tag that names the very bytes, or nothing."""
    return tag if re.fullmatch(r'"[\x21\x23-\x7e]{1,500}"', tag) else ""


def _length(url: str, response: Any) -> int:
    length = str(response.headers.get("Content-Length", ""))
    if response.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
        raise BackendUnavailableError("the server sends something packed, which was not asked for", where=shown(url),
                                      todo="Fetch it by hand, and copy it there")
    if not re.fullmatch("[0-9]{1,15}", length):
        raise BackendUnavailableError("the server does not say how long the file is", where=shown(url),
                                      todo="Fetch it by hand, and copy it there")
    return int(length)


def _is_at(file: Any, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Nobody else fills the part meanwhile."""
    try:
        import fcntl
    except ImportError:  # Windows: an open file cannot be replaced there
        yield
        return
    name = part.with_name(f".{part.name[:-len('.part')]}.lock")
    with name.open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_at(lock, name):  # its former owner has just removed it
                raise BlockingIOError(errno.EAGAIN, "")
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                yield  # a file system without locks
                return
            raise BackendUnavailableError("is being fetched by another process", where=str(part),
                                          todo="Wait for it") from None
        try:
            yield
        finally:
            with suppress(OSError):
                name.unlink()
