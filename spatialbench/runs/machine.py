"""What a result was made with: versions and machine, for ``run.json`` (never for scores)."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import spatialbench

__all__ = ["machine_info", "peak_memory_mb", "versions"]

_PACKAGES = ("embreex", "numba", "numpy", "opencv-python-headless", "pillow", "pybullet", "pybullet-arm64",
             "pydantic", "scipy", "shapely", "trimesh", "wasmtime")


def versions() -> dict[str, str]:
    """spatialbench, Python and what the numbers depend on."""
    out = {"spatialbench": spatialbench.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out


def machine_info() -> dict[str, str | int]:
    """System, processor and number of usable cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"system": f"{platform.system()} {platform.release()}", "machine": platform.machine(),
            "processor": _processor(), "cores": cores}


def peak_memory_mb() -> float | None:
    """Highest resident memory of this process so far, MB; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
