"""How fast and how often an endpoint is called: connections that shrink when it says so, and waits between tries."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass

__all__ = ["Limiter", "Retry"]

_GROW_AFTER = 4


@dataclass(frozen=True)
class Retry:
    """Bounded tries; the only layer that repeats a call.

    Attributes
    ----------
    attempts : calls for one question at most, the first included.
    first_wait, longest_wait : of the exponential waits, seconds; each is drawn from the upper half of its length, so
        that clients that failed together do not come back together.
    longest_asked : a longer ``Retry-After`` ends the question instead, seconds.
    """

    attempts: int = 6
    first_wait: float = 1.0
    longest_wait: float = 60.0
    longest_asked: float = 120.0

    def wait(self, attempt: int, asked: float | None) -> float | None:
        """Seconds before the next call after ``attempt`` (from 1) failed; None: no further one."""
        if attempt >= self.attempts or (asked is not None and asked > self.longest_asked):
            return None
        own = min(self.longest_wait, self.first_wait * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
        return max(own, asked) if asked is not None else own


class Limiter:
    """At most so many calls at a time.

    A 429 halves the number, once for all the calls that were under way together; four times as many successes as there
    are connections add one again. Failures of the server change nothing.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._limit, self._active, self._generation, self._good = most, 0, 0, 0
        self._not_before = 0.0
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """Calls allowed at a time now."""
        return self._limit

    def enter(self, stop: threading.Event) -> int | None:
        """Wait for a place; gives what ``leave`` needs, or None once ``stop`` is set."""
        with self._changed:
            while not stop.is_set():
                pause = self._not_before - time.monotonic()
                if self._active < self._limit and pause <= 0:
                    self._active += 1
                    return self._generation
                self._changed.wait(min(0.1, pause) if pause > 0 else 0.1)
        return None

    def leave(self, generation: int, outcome: str, hold: float | None = None) -> None:
        """Give the place back.

        Parameters
        ----------
        outcome : ``good``, ``rate`` or another word.
        hold : seconds for which the endpoint wants nothing from anybody.
        """
        with self._changed:
            self._active -= 1
            if outcome == "rate":
                self._good = 0
                if generation == self._generation:
                    self._limit, self._generation = max(1, self._limit // 2), generation + 1
                if hold is not None:
                    self._not_before = max(self._not_before, time.monotonic() + hold)
            elif outcome == "good":
                self._good += 1
                if self._good >= _GROW_AFTER * self._limit and self._limit < self.most:
                    self._limit, self._good = self._limit + 1, 0
            self._changed.notify_all()
