"""How many threads the renderers may use, and work in chunks whose results do not depend on that number."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from spatialbench.errors import UsageError

__all__ = ["THREADS_VARIABLE", "in_chunks", "thread_count"]

THREADS_VARIABLE = "SPATIALBENCH_THREADS"
"""Environment variable that limits the threads of one process (worker pools set it)."""

R = TypeVar("R")


def thread_count() -> int:
    """Threads to use: ``SPATIALBENCH_THREADS``, else the CPUs that this process may run on.

    Raises
    ------
    UsageError : the variable is not a positive integer.
    """
    text = os.environ.get(THREADS_VARIABLE, "")
    if text:
        if not text.isdecimal() or int(text) < 1:
            raise UsageError(f"{THREADS_VARIABLE}={text!r} is not a positive integer", where="environment",
                             todo="Set it to a number of threads or unset it")
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def in_chunks(work: Callable[[int, int], R], n: int, chunk: int, threads: int) -> Sequence[R]:
    """``work(start, stop)`` over consecutive chunks of ``n`` items, results in order.

    The chunks depend on ``n`` and ``chunk`` alone, so that no result can depend on ``threads``. ``work``
    must release the interpreter lock for the threads to be of use.
    """
    spans = [(a, min(n, a + chunk)) for a in range(0, n, chunk)]
    if threads == 1 or len(spans) < 2:
        return [work(a, b) for a, b in spans]
    with ThreadPoolExecutor(min(threads, len(spans))) as pool:
        return list(pool.map(lambda span: work(*span), spans))
