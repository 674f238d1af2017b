"""The main job on a mesh and on splats: wall time, peak memory, and how fast the package and its help start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORLDS = (("scenes/meshes/office.glb", "assets/sample_room.glb", 40.0),
          ("scenes/splats/marble_kitchen/scene.spz", "assets/sample_room_splats.ply", 30.0))
"""In the reference data, else in the repository; limit in seconds on two cores, once everything is compiled."""
MEMORY = 2048


def main() -> None:
    """Print a table of each world; those of the reference data, or the sample rooms without it."""
    print(f"\n{'what':<62} {'seconds':>9} {'limit':>7} {'ratio':>6}")
    _row("import spatialbench", _best(["-c", "import spatialbench"]) - _best(["-c", "pass"]), 0.3)
    _row("spatialbench --help", _best(["-m", "spatialbench", "--help"]), 0.5)
    root = os.environ.get("SPATIALBENCH_TEST_DATA")
    for real, sample, limit in WORLDS:
        _world(Path(root) / real if root else Path(sample), limit)


def _world(world: Path, limit: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for label in ("first run (may compile)", "second run"):
            out = Path(folder) / "out"
            start = time.perf_counter()
            subprocess.run([sys.executable, "-m", "spatialbench", "run", str(world), "-o", str(out), "-q"], check=True)
            _row(f"{world.parent.name}/{world.name}, default protocol, {label}", time.perf_counter() - start, limit)
        timings = [json.loads(line) for line in (out / "timings.jsonl").read_text().splitlines()]
    peak = next(t["value"] for t in timings if t["stage"] == "peak_memory_mb")
    print(f"    {'peak memory, MB':<58} {peak:>9.0f} {MEMORY:>7} {peak / MEMORY:>6.2f}")
    for t in timings:
        if "seconds" in t:
            print(f"    {t['stage']:<58} {t['seconds']:>9.2f}")


def _row(name: str, seconds: float, limit: float) -> None:
    print(f"{name:<62} {seconds:>9.2f} {limit:>7.1f} {seconds / limit:>6.2f}", flush=True)


def _best(arguments: list[str], times: int = 5) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
