"""Threads that work on one list of questions: what stops them, and what an interruption leaves whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Run", "in_threads", "uninterrupted"]

_GRACE = 2.0
"""Seconds that an interruption waits for calls under way."""


@dataclass
class Run:
    """What the threads that work on one list of questions share.

    Attributes
    ----------
    stop : set when nothing more is to be asked.
    failure : why the judge cannot be used.
    reason : why it was stopped otherwise.
    bad_in_a_row : questions without a reply of the right model, since the last that had one.
    """

    stop: threading.Event = field(default_factory=threading.Event)
    reason: str = ""
    failure: str = ""
    bad_in_a_row: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: threading.Condition = field(default_factory=threading.Condition)
    _keeping: int = 0
    _closed: bool = False

    def end(self, *, failure: str = "", reason: str = "") -> None:
        """Stop; the first to say why is right."""
        with self.lock:
            self.failure, self.reason = self.failure or failure, self.reason or reason
            self.stop.set()

    @contextmanager
    def keeping(self) -> Iterator[bool]:
        """Around all that is done with a reply: whether it may be done. ``close`` waits for its end."""
        with self._kept:
            may = not self._closed
            self._keeping += may
        try:
            yield may
        finally:
            with self._kept:
                self._keeping -= may
                self._kept.notify_all()

    def close(self) -> None:
        """Nothing is done with replies that come from now on; returns when nothing is being done with any."""
        with self._kept:
            self._closed = True
            while self._keeping:
                self._kept.wait(1.0)


def in_threads(work: Callable[[], None], n: int, run: Run) -> None:
    """Do ``work`` in ``n`` threads that do not keep the process alive.

    An interruption waits for calls under way, but not for long, and then for answers that have come until they are
    kept; a second one does not wait.
    """
    threads = [threading.Thread(target=work, name=f"judge-{k}", daemon=True) for k in range(n)]
    try:
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            for t in threads:
                t.join(0.05)
    except BaseException:
        run.stop.set()
        try:
            end = time.monotonic() + _GRACE
            for t in threads:
                if t.ident is not None:
                    t.join(max(0.0, end - time.monotonic()))
        finally:
            run.close()
        raise


def uninterrupted(act: Callable[[], None]) -> None:
    """Do it to its end, whatever interrupts the thread that wants it; a second interruption does not wait."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="judge-keep")
    try:
        thread.start()
        thread.join()
    except BaseException:
        if thread.ident is not None:
            thread.join()
        raise
    if errors:
        raise errors[0]
