"""A worker that fails as a case's name says: by a signal, by hanging, by eating memory, by a fault of the code."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable

from spatialbench.runs.batch.job import Work
from spatialbench.runs.batch.measure import MakePage, Measured, measure_unit
from spatialbench.runs.batch.worker import serve


def measure(work: Work, page: MakePage | None, tell: Callable[[str, int, int], None]) -> Measured:
    how = work.case_id.partition("-")[0]
    marks = work.folder.parents[2]
    tell(f"about to {how}", 0, 0)
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "once" and not (marks / "once").exists():
        (marks / "once").write_text("")
        os._exit(7)
    if how == "hang":
        ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock, as a library might
    if how == "wait":
        time.sleep(600)
    if how == "eat" or (how == "greedy" and not (marks / "greedy").exists()):
        (marks / "greedy").write_text("")
        held = []
        while True:
            held.append(b"x" * (32 << 20))
            time.sleep(0.02)
    if how == "bug":
        raise KeyError("no such thing")
    if how == "chatty":
        os.write(1, b"a library that prints\n" * 20000)
        print('{"job": 1, "end": "done", "reason": ""}', flush=True)
    return measure_unit(work, page, tell)


def main() -> None:
    serve(None, measure)
