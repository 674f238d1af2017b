"""Settings and results of placing a plate on a support surface."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["PlacedObject", "PlacementSettings", "PlannedTrial", "Support", "TrialResult"]


class PlacementSettings(BaseModel):
    """Constants of M25 (spec section 7; OPEN-11). Metres, seconds, kilograms."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    trials: int = Field(6, ge=1, le=1000)
    plate_diameter: float = Field(0.22, ge=1e-3, le=10)
    plate_thickness: float = Field(0.02, ge=1e-3, le=10)
    plate_density: float = Field(1800.0, gt=0)
    plate_friction: float = Field(0.5, ge=0)
    scene_friction: float = Field(0.8, ge=0)
    release_height: float = Field(0.01, ge=0, le=100)
    gravity: float = Field(9.81, ge=0)
    steps: int = Field(1200, ge=1, le=1_000_000)
    steps_per_second: int = Field(240, ge=1)
    solver_iterations: int = Field(150, ge=1, le=10_000)
    max_initial_penetration: float = Field(0.002, ge=0)
    max_drop: float = Field(0.10, ge=0)
    max_outside: float = Field(0.02, ge=0)
    reference: str = Field("footprint_median", pattern="^(footprint_median|plane|footprint_max)$")
    """What the plate is released above, and the drop measured from (OPEN-11g)."""
    release: str = Field("level", pattern="^(level|plane_aligned)$")
    """How the plate is held when it is let go."""
    plan_grid: float = Field(0.02, ge=0.001)
    """Spacing of the planner's candidate places."""
    chunk_triangles: int = Field(150_000, ge=1)
    """Triangles in one static PyBullet body."""


@dataclass(frozen=True, eq=False)
class PlacedObject:
    """A rigid body that is put on a support. Its own frame: origin at the centre of mass, Z up, m.

    Attributes
    ----------
    name : what it is called in results.
    shape : ``cylinder`` (axis Z), ``box``, ``sphere`` or ``hull``.
    size : (radius, height), the three edges, (radius,), or () for a hull.
    mass : kilograms. friction : lateral, of the body; the simulator multiplies it with the scene's.
    hull : [N,3] corners of a convex hull; none for the other shapes.
    benchmark : whether it is the benchmark's plate; results of anything else are not M25.
    note : what it was made of, in words.
    """

    name: str
    shape: str
    size: tuple[float, ...]
    mass: float
    friction: float
    hull: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 3)))
    benchmark: bool = False
    note: str = ""


@dataclass(frozen=True, eq=False)
class Support:
    """A surface that things can be put on, world frame (Z up, metres).

    Attributes
    ----------
    id : stable name within the world, ``support_0`` is the largest.
    boundary : [N,2] XY corners of the outline, counter-clockwise, not closed.
    holes : outlines of holes in it, clockwise.
    height : median height of the surface.
    plane : (a, b, c) of z = a x + b y + c fitted to it.
    area : square metres.
    source : ``case``, ``user`` (a polygon given to ``place``) or ``found``.
    confidence : 0 to 1; 1 for a case's or a user's own.
    note : how it was found, in words.
    cells : [K,3] float64: XY centres and height of the grid cells that make it up.
    cell : their spacing, m.
    """

    id: str
    boundary: NDArray[np.float64]
    height: float
    plane: tuple[float, float, float]
    area: float
    source: str
    confidence: float = 1.0
    note: str = ""
    holes: tuple[NDArray[np.float64], ...] = ()
    cells: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 3)))
    cell: float = 0.02


@dataclass(frozen=True)
class PlannedTrial:
    """A place that the planner asks for.

    Attributes
    ----------
    id : 0 to 5.
    x, y : plate centre, m.
    surface : the three reference heights, m: ``footprint_median``, ``plane``, ``footprint_max``.
    kept : whether it is tried; ``reason`` says why not.
    """

    id: int
    x: float
    y: float
    surface: dict[str, float]
    kept: bool = True
    reason: str = ""


@dataclass(frozen=True)
class TrialResult:
    """Outcome of one release.

    Attributes
    ----------
    id : of the planned trial.
    success : none of the failure reasons holds.
    reasons : of ``initial_penetration``, ``dropped``, ``outside``, ``no_collision_geometry``.
    surface_z : reference height the plate was released above and the drop is measured from, m.
    initial_penetration, drop, outside, horizontal_displacement : m (drop: surface minus lowest point).
    tilt_deg : angle of the plate's axis to the vertical at the end.
    release_centre, rest_centre : [3] m; the second is meaningless for a failed trial.
    rest_quaternion : xyzw at the end.
    final_speed : m/s.
    reference : which reference height was used.
    diagnostics : what does not decide the outcome (``physics/placement/diagnostics.py``).
    release_quaternion : xyzw at the start.
    error : what the simulator did instead of an answer (it crashed, or lost the body). Nothing but ``id`` and the
        release holds then; the trial is no success and no failure of the world.
    path : [T] x, y, z and quaternion xyzw at regular steps, where they were asked for.
    """

    id: int
    success: bool
    reasons: tuple[str, ...]
    surface_z: float
    initial_penetration: float
    drop: float
    outside: float
    horizontal_displacement: float
    tilt_deg: float
    release_centre: tuple[float, float, float]
    rest_centre: tuple[float, float, float]
    rest_quaternion: tuple[float, float, float, float]
    final_speed: float
    reference: str = "footprint_median"
    diagnostics: dict[str, float | bool] = field(default_factory=dict)
    release_quaternion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    error: str = ""
    path: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
