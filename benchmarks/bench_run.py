"""The main job on one world: wall time, peak memory, and how fast the package and its help start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORLD = "scenes/meshes/office.glb"


def main() -> None:
    """Print the table of the main job; the office of the reference data, or the sample room without it."""
    root = os.environ.get("SPATIALBENCH_TEST_DATA")
    world = Path(root) / WORLD if root else Path("assets/sample_room.glb")
    rows = [("import spatialbench", _best(["-c", "import spatialbench"]) - _best(["-c", "pass"]), 0.3),
            ("spatialbench --help", _best(["-m", "spatialbench", "--help"]), 0.5)]
    with tempfile.TemporaryDirectory() as folder:
        for label in ("first run (may compile)", "second run"):
            out = Path(folder) / "out"
            start = time.perf_counter()
            subprocess.run([sys.executable, "-m", "spatialbench", "run", str(world), "-o", str(out), "-q"], check=True)
            rows.append((f"{world.name}, default protocol, {label}", time.perf_counter() - start, 40.0))
        timings = [json.loads(line) for line in (out / "timings.jsonl").read_text().splitlines()]
    peak = next(t["value"] for t in timings if t["stage"] == "peak_memory_mb")
    print(f"\n{'what':<55} {'seconds':>9} {'limit':>7} {'ratio':>6}")
    for name, seconds, limit in rows:
        print(f"{name:<55} {seconds:>9.2f} {limit:>7.1f} {seconds / limit:>6.2f}")
    print(f"{'peak memory, MB':<55} {peak:>9.0f} {2048:>7} {peak / 2048:>6.2f}")
    for t in timings:
        if "seconds" in t:
            print(f"    {t['stage']:<51} {t['seconds']:>9.2f}")


def _best(arguments: list[str], times: int = 5) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
