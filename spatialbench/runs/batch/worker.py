"""The worker process: jobs come in as lines of JSON, progress and results go out as lines of JSON.

``-> {"job": n, ...}``; ``<- {"ready": true}``, ``{"job": n, "at": label, "done": i, "total": k}``,
``{"job": n, "end": "done" | "failed" | "error" | "memory" | "disk", ...}``. What libraries print goes to standard
error, which the parent has pointed at a log. A worker ends when its standard input does: no parent, no work.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, TextIO

from spatialbench.errors import ResultError
from spatialbench.runs.batch.job import Work
from spatialbench.runs.batch.measure import MakePage, Measured, measure_unit
from spatialbench.runs.single import prepare

__all__ = ["DISK_ERRORS", "die_with_parent", "serve", "take_over"]

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""After one of these no further unit can be written either."""
_EVERY = 0.25
Measure = Callable[[Work, "MakePage | None", Callable[[str, int, int], None]], Measured]


def serve(page: MakePage | None = None, measure: Measure = measure_unit) -> None:
    """Work until standard input ends.

    Parameters
    ----------
    page : makes the page of a unit that wants one.
    measure : does a unit (tests give others).
    """
    jobs, channel = take_over()
    die_with_parent()
    faulthandler.enable()
    incoming: queue.Queue[dict[str, Any] | None] = queue.Queue()
    open_jobs = _Count()
    threading.Thread(target=_listen, args=(jobs, incoming, open_jobs), daemon=True).start()
    prepare()
    _send(channel, {"ready": True})
    while (data := incoming.get()) is not None:
        number, work = data.pop("job"), Work.read(data)
        print(f"== {work.system}/{work.case_id}", file=sys.stderr, flush=True)  # noqa: T201 (a log)
        _send(channel, {"job": number, **_one(work, page, measure, _teller(channel, number))})
        open_jobs.add(-1)


class _Count:
    """Jobs that came in and are not answered."""

    def __init__(self) -> None:
        self.value, self._lock = 0, threading.Lock()

    def add(self, n: int) -> None:
        with self._lock:
            self.value += n


def _one(work: Work, page: MakePage | None, measure: Measure, tell: Callable[[str, int, int], None]) -> dict[str, Any]:
    try:
        m = measure(work, page, tell)
        return {"end": m.status, "reason": m.reason, "measured": list(m.measured), "note": m.note,
                **({} if m.judge is None else {"judge": dict(m.judge)})}
    except MemoryError:
        return {"end": "memory", "reason": "it asked for more memory than there is"}
    except ResultError as error:
        return {"end": "disk", "reason": str(error)}
    except BaseException as error:
        traceback.print_exc()
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            return {"end": "disk", "reason": f"{error.filename or 'the disk'}: {error.strerror}"}
        return {"end": "error", "reason": f"internal error: {type(error).__name__}: {error}"}


def take_over() -> tuple[TextIO, TextIO]:
    """Standard input and output for ourselves; what anything else reads is empty, what it prints is logged."""
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace", newline="\n")
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return jobs, channel


def _listen(jobs: TextIO, incoming: queue.Queue[dict[str, Any] | None], open_jobs: _Count) -> None:
    with contextlib.suppress(ValueError, OSError):
        for line in jobs:
            open_jobs.add(1)
            incoming.put(json.loads(line))
    if open_jobs.value:
        os._exit(3)  # the parent is gone: nobody would take the result, and another run may be at this folder soon
    incoming.put(None)


def _send(channel: TextIO, message: dict[str, Any]) -> None:
    try:
        channel.write(json.dumps(message) + "\n")
        channel.flush()
    except OSError:
        os._exit(3)


def _teller(channel: TextIO, number: int) -> Callable[[str, int, int], None]:
    last: tuple[str, float] = ("", 0.0)

    def tell(label: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if label != last[0] or now - last[1] >= _EVERY:
            last = (label, now)
            _send(channel, {"job": number, "at": label, "done": done, "total": total})
    return tell


def die_with_parent() -> None:
    """Ask Linux to kill this process with its parent, so that not even a hung one outlives it; and let the system
    take a worker before the coordinator when memory runs out."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as f:
        f.write("500")
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
