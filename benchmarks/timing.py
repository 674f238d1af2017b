"""What the benchmarks of renderers share: times of wall and CPU, processes of their own, one table."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from spatialbench.renderers._threads import thread_count

__all__ = ["Row", "Taken", "bandwidth", "fresh", "once", "peak", "print_table", "timed"]

ROUNDS = 15
T = TypeVar("T")
UNITS = {"ms": 1e3, "s": 1.0, "GiB": 1.0, "times": 1.0}


@dataclass(frozen=True)
class Taken:
    """Seconds of several rounds: median and least of wall time, least of CPU time over the CPUs."""

    median: float
    least: float
    cpu: float

    def ratio(self, other: Taken) -> float:
        """How many times as long this took, by CPU time: other processes take nothing from that."""
        return self.cpu / other.cpu


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    work : what was done.
    goal : at most, or with ``least`` at least; seconds, GiB or times; None for none.
    unit : a key of ``UNITS``.
    taken : times; else
    value : of another kind.
    """

    work: str
    goal: float | None
    unit: str
    taken: Taken | None = None
    value: float = np.nan
    least: bool = False

    def __str__(self) -> str:
        k = UNITS[self.unit]
        goal = "" if self.goal is None else f"{'>=' if self.least else '<='} {self.goal * k:.3g} {self.unit}"
        if self.taken is None:
            figures, best = f"{'':>9} {self.value * k:>9.2f} {'':>9}", self.value
        else:
            figures = " ".join(f"{v * k:>9.1f}" for v in (self.taken.median, self.taken.least, self.taken.cpu))
            best = min(self.taken.least, self.taken.cpu)
        met = "" if self.goal is None else "yes" if (best >= self.goal if self.least else best <= self.goal) else "NO"
        return f"{self.work:<58} {goal:>12} {figures} {met:>4}"


def timed(*draws: Callable[[], Any], rounds: int = ROUNDS) -> list[Taken]:
    """Times of each, taken in turn so that a busy machine is busy for all; one round before is not counted."""
    taken = np.zeros((len(draws), rounds, 2))
    for k in range(-1, rounds):
        for d, draw in enumerate(draws):
            wall, cpu = time.perf_counter(), time.process_time()
            draw()
            taken[d, max(k, 0)] = time.perf_counter() - wall, time.process_time() - cpu
    return [Taken(float(np.median(t[:, 0])), float(t[:, 0].min()), float(t[:, 1].min()) / thread_count())
            for t in taken]


def once(work: Callable[[], T]) -> tuple[Taken, T]:
    """Times of one call, and what it gives."""
    wall, cpu = time.perf_counter(), time.process_time()
    out = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Taken(wall, wall, cpu / thread_count()), out


def bandwidth(megabytes: int = 128) -> float:
    """GB/s of copying arrays with as many threads as the renderers use: bytes read plus bytes written, best of 8."""
    from concurrent.futures import ThreadPoolExecutor

    threads = thread_count()
    source = [np.ones(megabytes * 2**20 // 8) for _ in range(threads)]
    target = [np.empty_like(s) for s in source]
    best = np.inf
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(8):
            start = time.perf_counter()
            list(pool.map(np.copyto, target, source))
            best = min(best, time.perf_counter() - start)
    return 2 * sum(s.nbytes for s in source) / best / 1e9


def peak() -> int:
    """Bytes of memory that this process had at most (Linux)."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))


def fresh(script: str, *arguments: str, **variables: str) -> str:
    """What a Python process of its own prints; it can import the benchmarks."""
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run([sys.executable, "-c", script, *arguments], cwd=root, check=True, capture_output=True,
                          text=True, env={**os.environ, **variables})
    return done.stdout.strip()


def print_table(title: str, rows: Iterable[Row]) -> None:
    """Print rows as they come, the machine's memory bandwidth before and after them."""
    before = bandwidth()
    print(f"\n{title}; {thread_count()} CPUs")
    print(f"{'work':<58} {'goal':>12} {'median':>9} {'least':>9} {'CPU/CPUs':>9} {'met':>4}")
    for row in rows:
        print(row, flush=True)
    print(f"memory bandwidth (copy, read + write): {before:.1f} GB/s before, {bandwidth():.1f} after. "
          "A goal counts as met by the least wall time, or by the CPU time where others use the machine.")
