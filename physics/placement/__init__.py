"""Placing a plate, or another body, on a support surface, in PyBullet (M25).

Names are loaded when they are asked for: a worker process needs few of them, and starting one would otherwise cost
more than a trial.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spatialbench.physics.placement.backend import placement_backend_status
    from spatialbench.physics.placement.heights import REFERENCES
    from spatialbench.physics.placement.objects import BUILT_IN, built_in, hull_object, plate
    from spatialbench.physics.placement.outline import Boundary
    from spatialbench.physics.placement.planner import plan_trials, run_plan
    from spatialbench.physics.placement.release import Release, release_over
    from spatialbench.physics.placement.simulate import run_trials

__all__ = ["BUILT_IN", "REFERENCES", "Boundary", "Release", "built_in", "hull_object", "placement_backend_status",
           "plan_trials", "plate", "release_over", "run_plan", "run_trials"]

_HOMES = {"BUILT_IN": "objects", "REFERENCES": "heights", "Boundary": "outline", "Release": "release",
          "built_in": "objects", "hull_object": "objects", "placement_backend_status": "backend",
          "plan_trials": "planner", "plate": "objects", "release_over": "release", "run_plan": "planner",
          "run_trials": "simulate"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
