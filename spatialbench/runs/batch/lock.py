"""One batch at a time in a folder, or the shards of one; the system lets go of it when a process dies."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spatialbench.errors import ResultError, UsageError

__all__ = ["hold"]


@contextmanager
def hold(out: Path, shard: tuple[int, int] | None, *, plan_is: Callable[[], bool],
         write_plan: Callable[[], None]) -> Iterator[str]:
    """Hold ``out`` for a whole batch (``shard`` None) or for one shard of it, and bring its plan up to date.

    A shard shares the folder with other shards of as many parts, as long as all have one plan: ``plan_is`` says
    whether the plan that is written down is ours, ``write_plan`` replaces it, which only happens while nobody else
    is there. Gives a warning where the file system knows no locks; empty otherwise.

    Raises
    ------
    UsageError : another batch holds the folder; the message names its process.
    ResultError : the disk refuses.
    """
    try:
        import fcntl
    except ImportError:
        if not plan_is():
            write_plan()
        yield "this system knows no file locks: do not start two batches into one folder"
        return
    with contextlib.ExitStack() as stack:
        def opened(name: str) -> int:
            try:
                handle = os.open(out / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise ResultError(f"cannot be opened: {error.strerror}", where=str(out / name),
                                  todo="Choose another folder with -o") from error
            stack.callback(os.close, handle)
            return handle

        start, whole = opened(".lock-start"), opened(".lock")
        own = None if shard is None else opened(f".lock-{shard[0]}-of-{shard[1]}")
        try:
            fcntl.flock(start, fcntl.LOCK_EX)  # for the moment of starting only
        except OSError:
            if not plan_is():
                write_plan()
            yield "this file system knows no locks: do not start two batches into one folder"
            return
        if own is not None:
            _take(fcntl, own, fcntl.LOCK_EX, out, f"shard {shard[0]}/{shard[1]} of this batch" if shard else "")
        if shard is None or not plan_is():
            _take(fcntl, whole, fcntl.LOCK_EX, out,
                  "another batch" if shard is None else "a batch or shard with other options")
            if not plan_is():
                write_plan()
        if shard is not None:
            _no_other_split(fcntl, out, shard[1])
            _take(fcntl, whole, fcntl.LOCK_SH, out, "another batch")
        for handle in (whole, own):
            if handle is not None:
                _sign(handle)
        fcntl.flock(start, fcntl.LOCK_UN)
        yield ""


def _take(fcntl: Any, handle: int, how: int, out: Path, who: str) -> None:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except OSError:
        pid = os.pread(handle, 32, 0).split(b"\n")[0].decode("ascii", "replace")
        said = f" (process {pid})" if pid.isdecimal() else ""
        raise UsageError(f"{who} is working in this folder{said}", where=str(out),
                         todo="Wait for it, stop it, or choose another folder with -o") from None


def _no_other_split(fcntl: Any, out: Path, parts: int) -> None:
    """Refuse while a shard of another number of parts runs: both would have some units."""
    for path in sorted(out.glob(".lock-*-of-*")):
        if path.name.endswith(f"-of-{parts}"):
            continue
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                _take(fcntl, handle, fcntl.LOCK_EX, out, f"a shard of another split ({path.name[6:]})")
            finally:
                os.close(handle)  # and with it the lock


def _sign(handle: int) -> None:
    """Who holds it, for the message to others only: the lock itself is the system's."""
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
