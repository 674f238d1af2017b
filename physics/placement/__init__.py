"""Placing a plate, or another body, on a support surface, in PyBullet (M25)."""

from spatialbench.physics.placement.backend import placement_backend_status
from spatialbench.physics.placement.heights import REFERENCES
from spatialbench.physics.placement.objects import BUILT_IN, built_in, hull_object, plate
from spatialbench.physics.placement.outline import Boundary
from spatialbench.physics.placement.planner import plan_trials, run_plan
from spatialbench.physics.placement.plate import Release, release_over
from spatialbench.physics.placement.simulate import run_trials

__all__ = ["BUILT_IN", "REFERENCES", "Boundary", "Release", "built_in", "hull_object", "placement_backend_status",
           "plan_trials", "plate", "release_over", "run_plan", "run_trials"]
