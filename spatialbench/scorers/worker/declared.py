"""The scorers that are external workers, and the reference worker's stand-ins for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spatialbench.errors import SpatialbenchError
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.settings import ScorerSettings
from spatialbench.scorers.worker.files import WorkerCommand, command_of

__all__ = ["SPECS", "WORKER_WEIGHTS", "open_worker", "reference_command", "worker_spec"]

WORKER_WEIGHTS: Mapping[str, tuple[str, ...]] = {
    "amt_s": ("amt-s",),
    "depth_anything3": ("da3-giant",),
    "megasam": ("megasam", "depth-anything-l", "unidepth-v2-l"),
    "tapip3d": ("tapip3d",),
}
"""Scorer -> entries of the lock file that its worker is likely to load. They are the worker's: scoring asks for them
only when its command names them as ``{weights:ID}``."""


def open_worker(scorer: str, gives: str, plan: WorkerCommand, device: str = "auto") -> Any:
    """The adapter of a worker that has been started.

    Raises
    ------
    BackendUnavailableError
    """
    from spatialbench.scorers.worker import adapters

    kind = {"tracks": adapters.WorkerTracker, "depth": adapters.WorkerDepth, "frames": adapters.WorkerInterpolator}
    return kind[gives](scorer, plan, device)


def worker_spec(id: str, model: str, gives: Any, role: str) -> ScorerSpec:
    """Declaration of a scorer whose command the user names in the workers file; other distributions may use it too."""
    def ready(settings: ScorerSettings) -> str:
        try:
            command_of(id, settings)
        except SpatialbenchError as error:
            return str(error)
        return ""

    def open(opening: Opening) -> Any:
        return open_worker(id, gives, command_of(id, opening.settings, verify=True), opening.settings.device)

    return ScorerSpec(id, model, gives, role, open, ready=ready)


def reference_command() -> WorkerCommand:
    """How the reference worker is started with the Python that runs."""
    root = str(Path(__file__).resolve().parents[3])
    return WorkerCommand((sys.executable, "-m", "spatialbench.scorers.worker.reference"), env={"PYTHONPATH": root})


def _reference(id: str, model: str, gives: Any, role: str, official: str) -> ScorerSpec:
    open: Callable[[Opening], Any] = lambda opening: open_worker(id, gives, reference_command())  # noqa: E731
    return ScorerSpec(id, model, gives, role, open, stands_in_for=official)


SPECS: tuple[ScorerSpec, ...] = (
    worker_spec("tapip3d", "TAPIP3D", "tracks", "3D point tracks"),
    worker_spec("depth_anything3", "Depth Anything 3", "depth", "depth and poses of clips"),
    worker_spec("megasam", "MegaSaM", "depth", "camera poses of clips"),
    worker_spec("amt_s", "AMT-S", "frames", "frames between frames"),
    _reference("reference_tracks", "reprojection into the given depth", "tracks", "3D point tracks", "tapip3d"),
    _reference("reference_depth", "a plane, and a camera at rest", "depth", "depth and poses of clips",
               "depth_anything3"),
    _reference("reference_poses", "a plane, and a camera at rest", "depth", "camera poses of clips", "megasam"),
    _reference("reference_frames", "linear blend", "frames", "frames between frames", "amt_s"),
)
