"""A batch: what it adds to each unit, two workers against one, and ten thousand finished units resumed and read.

``BENCH_BATCH_WORLDS`` and ``BENCH_BATCH_FINISHED`` make it smaller than 200 worlds and 10,000 units.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

_FAST = "happyworld-spatial-1-fast"
_QUICK = ("finding.min_surfels=2000", "finding.max_surfels=2000", "finding.surfels_per_m2=50", "finding.voxel=0.3",
          "views.ring_frames=4", "views.lens={width: 32, height: 32, fov_deg: 75.0}", "views.probe_size=16",
          "footprint.max_samples=20000", "footprint.samples_per_cell=4")
_READ = """
import json, resource, sys, time
from pathlib import Path
from spatialbench.aggregate import summarise
from spatialbench.observe import REGISTRY
from spatialbench.runs.batch import read_batch, read_finished
from spatialbench.runs.single import prepare
prepare()
out = Path(sys.argv[1])
start = time.perf_counter()
rows = [m for r in read_finished(out) for m in r.measurements]
read = time.perf_counter() - start
protocol = read_batch(out).protocol
summarise(rows, REGISTRY.specs(protocol["track"]), protocol["normalization"])
print(json.dumps([len(rows), read, time.process_time(), time.perf_counter() - start,
                  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def main() -> None:
    """Print the table."""
    n = int(os.environ.get("BENCH_BATCH_WORLDS", "200"))
    finished = int(os.environ.get("BENCH_BATCH_FINISHED", "10000"))
    rows: list[tuple[str, float, float | None]] = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        _worlds(place / "worlds", n)
        walls = {}
        for workers in (1, 2):
            out = place / f"out{workers}"
            start = time.perf_counter()
            _batch(place / "worlds", out, "--workers", workers, "--no-pages", "--only", "metric=M07", "--only",
                   "metric=M13")
            walls[workers] = time.perf_counter() - start
            if workers == 1:
                overhead, work = _overhead(out)
        _worlds(place / "one", 1)
        start = time.perf_counter()
        _batch(place / "one", place / "out0", "--workers", 1, "--no-pages", "--only", "metric=M07", "--only",
               "metric=M13")
        ends = time.perf_counter() - start - work - overhead
        rows += [(f"work of a unit, one worker, one thread ({n} worlds), s", work, None),
                 ("overhead of a unit beside it, s", overhead, 0.1),
                 ("wall of one worker, with start and end, s", walls[1], None),
                 ("wall of two workers, s", walls[2], None),
                 ("start and end alone (one world, its work taken off), s", ends, None),
                 ("times faster on two workers, start and end included", walls[1] / walls[2], None),
                 ("times faster on two workers (one thread each)", (walls[1] - ends) / (walls[2] - ends), 1.8)]
        _finished(place, finished)
        start, cpu = time.perf_counter(), _cpu()
        done = _batch(place / "many", place / "done", "--workers", 1)
        resumed, cpu = time.perf_counter() - start, _cpu() - cpu
        assert done["kept"] == finished, done
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        count, read, summed_cpu, summed, memory = json.loads(subprocess.run(
            [sys.executable, "-c", _READ, str(place / "done")], check=True, capture_output=True, text=True).stdout)
        rows += [(f"{finished} finished units resumed (nothing to do), s", resumed, None),
                 (f"... read and verified ({count:,} measurements), s", read, 10.0),
                 ("... read and summarised, s", summed, None),
                 ("resumed and summarised, s", resumed + summed, 20.0),
                 ("... of which the processor worked, starts included, s", cpu + summed_cpu, None),
                 ("memory of reading and summarising, MB", memory, 1000.0),
                 ("largest memory of any process before it, MB", peak, None)]
    print(f"\n{'what':<60} {'value':>9} {'goal':>7}")
    for label, value, goal in rows:
        print(f"{label:<60} {value:>9.3f} {'' if goal is None else f'{goal:g}':>7}")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _batch(worlds: Path, out: Path, *options: object) -> dict[str, Any]:
    settings = [part for s in _QUICK for part in ("--set", s)]
    done = subprocess.run([sys.executable, "-m", "spatialbench", "batch", "--worlds", str(worlds), "-o", str(out),
                           "--protocol", _FAST, *settings, "--json", *map(str, options)], check=True,
                          capture_output=True, text=True, env={**os.environ, "SPATIALBENCH_THREADS": "1"})
    return json.loads(done.stdout)


def _worlds(folder: Path, n: int) -> None:
    from spatialbench.types import level_pose
    from tests.analytic import EYE, box_room, write_glb

    folder.mkdir()
    for i in range(n):
        write_glb(folder / f"room{i:03d}.glb", box_room(4.0 + 0.01 * i, 4.0, 2.6, hole=0.1), level_pose(EYE))


def _overhead(out: Path) -> tuple[float, float]:
    """Seconds from one unit's end to the next's, without reading, anchoring and measuring; and those."""
    units = sorted(out.glob("units/*/*/unit.json"), key=lambda p: p.stat().st_mtime_ns)
    spent, work = [], []
    for before, after in pairwise(units):
        lines = [json.loads(t) for t in (after.parent / "timings.jsonl").read_text().splitlines()]
        stages = sum(t["seconds"] for t in lines if t["stage"] in ("read", "anchor", "measure"))
        work.append(stages)
        spent.append((after.stat().st_mtime_ns - before.stat().st_mtime_ns) / 1e9 - stages)
    return sum(spent) / len(spent), sum(work) / len(work)


def _finished(place: Path, n: int) -> None:
    """Worlds and a result folder as a batch would leave them: a real unit with all 39 metrics, under n names."""
    from spatialbench.runs.batch import unitfile
    from spatialbench.runs.batch.keys import digest

    world = sorted((place / "worlds").iterdir())[0].read_bytes()
    (place / "many").mkdir()
    (place / "many" / "w00000.glb").write_bytes(world)
    _batch(place / "many", place / "done", "--workers", 1, "--no-pages")
    first = place / "done" / "units" / "local" / "w00000"
    texts = {p.name: p.read_text() for p in first.iterdir() if p.suffix in (".json", ".jsonl")}
    for i in range(1, n):
        name = f"w{i:05d}"
        (place / "many" / f"{name}.glb").write_bytes(world)
        folder = first.parent / name
        folder.mkdir()
        own = {k: t.replace("w00000", name) for k, t in texts.items()}
        unit = json.loads(own.pop(unitfile.NAME))
        del unit["sha256"]
        unit["files"] = {k: hashlib.sha256(own[k].encode()).hexdigest() for k in unit["files"]}
        unit["inputs_sha256"] = digest({"files": unit["inputs"], "case": None})
        for k, t in own.items():
            (folder / k).write_text(t)
        body = json.dumps(unit, sort_keys=True, ensure_ascii=False, separators=(",", ":"))[:-1]
        (folder / unitfile.NAME).write_text(f'{body},"sha256":"{hashlib.sha256(body.encode()).hexdigest()}"}}\n')


if __name__ == "__main__":
    main()
