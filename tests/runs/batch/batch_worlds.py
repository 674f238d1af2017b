"""Small worlds, a quick protocol, and what of a result folder must not depend on how a batch went."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from spatialbench.types import level_pose
from tests.analytic import EYE, box_room, write_glb
from tests.command import spatialbench

EXACT = ("units.jsonl", "import.json", "summary.json", "unit.json", "batch.json")
"""Byte-equal however a batch was run; ``run.json`` and ``timings.jsonl`` hold times."""
METRICS = ("M01", "M07", "M12", "M13", "M14")
_QUICK = """\
extends: happyworld-spatial-1-fast
id: quick
metrics: [M01, M07, M12, M13, M14]
views: {ring_frames: 4, lens: {width: 32, height: 32, fov_deg: 75.0}, probe_size: 16}
finding: {min_surfels: 2000, max_surfels: 2000, surfels_per_m2: 50, voxel: 0.3}
footprint: {max_samples: 20000, samples_per_cell: 4}
"""


def quick_protocol_file(folder: Path) -> Path:
    path = folder / "quick.yaml"
    path.write_text(_QUICK)
    return path


def make_world(path: Path, size: float = 4.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_glb(path, box_room(size, 4.0, 2.6, hole=0.1), level_pose(EYE))


def make_worlds(folder: Path, n: int) -> Path:
    """Rooms of different lengths, so that no two results are equal."""
    for i in range(n):
        make_world(folder / f"room{i}.glb", 4.0 + 0.3 * i)
    return folder


def exact_files(out: Path) -> dict[str, bytes]:
    """Everything that must be byte-equal, by path."""
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.name in EXACT}


def attempts(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "attempts.jsonl").read_text().splitlines() if line]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "spatialbench", "batch", *map(str, arguments)]


def batch(*arguments: object) -> subprocess.CompletedProcess[str]:
    """In this process; its workers are processes as always."""
    return spatialbench("batch", *arguments)


def batch_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300, check=False)


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONUNBUFFERED": "1"})
