"""``summarize`` over 10,000 finished units: wall time and peak memory, with all files and intervals."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from spatialbench.types import load_protocol
from tests.runs.fake_results import MEASURED, PROTOCOL, Value, field

SYSTEMS, CASES = 10, 1000
SECONDS, MEMORY, PAGE = 20.0, 1024, 3_000_000
_SIDE_FILES = 20_000
"""Bytes beside each unit's record, as a real one has."""


def main() -> None:
    """Print seconds and megabytes: as many metrics as run without learned models, and all of them."""
    print(f"\n{'summarize, 10 systems x 1000 cases x 39 metrics':<62} {'value':>9} {'limit':>7} {'ratio':>6}")
    for label, measured in (("6 metrics measured", MEASURED), ("39 metrics measured", load_protocol(PROTOCOL).metrics)):
        with tempfile.TemporaryDirectory() as folder:
            out = make(Path(folder) / "results", measured)
            files = ("-o", str(Path(folder) / "tables"))
            for name, more in (("all files", files), ("no intervals", ("--no-intervals",))):
                seconds, megabytes = watch("summarize", str(out), *more)
                _row(f"{label}, {name}, seconds", seconds, SECONDS)
                _row(f"{label}, {name}, peak MB", megabytes, MEMORY)
            _row(f"{label}, page, kB", (Path(folder) / "tables" / "leaderboard.html").stat().st_size / 1e3, PAGE / 1e3)


def make(out: Path, measured: tuple[str, ...], seed: int = 0) -> Path:
    """A batch in which 3 % of the units have no values at all, and another 1 % of values are missing one by one."""
    rng = random.Random(seed)
    broken = {(s, c) for s in range(SYSTEMS) for c in range(CASES) if rng.random() < 0.03}
    systems, cases = [f"system-{i}" for i in range(SYSTEMS)], [f"case-{i:04d}" for i in range(CASES)]

    def value(metric: str, system: str, case: str) -> Value:
        if metric not in measured:
            return ("unavailable", "needs a scorer that is not installed")
        if (int(system[7:]), int(case[5:])) in broken or rng.random() < 0.01:
            return ("invalid", "the camera stands inside a surface")
        return round(min(1.0, max(0.0, rng.gauss(0.4 + 0.02 * int(system[7:]), 0.2))), 6)

    return field(out, systems, cases, value=value, page=True, extra_bytes=_SIDE_FILES)


def watch(*arguments: str) -> tuple[float, float]:
    """Seconds and peak megabytes of a command."""
    start, peak = time.perf_counter(), 0
    process = psutil.Popen([sys.executable, "-m", "spatialbench", *arguments], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            peak = max(peak, process.memory_info().rss)
        except psutil.Error:
            break
        time.sleep(0.02)
    if process.wait():
        raise SystemExit(f"summarize ended with {process.returncode}")
    return time.perf_counter() - start, peak / 2**20


def _row(name: str, value: float, limit: float) -> None:
    print(f"{name:<62} {value:>9.1f} {limit:>7.0f} {value / limit:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
