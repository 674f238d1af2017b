"""Releases of a plate in PyBullet and what became of each (M25; placement.md sections 1 and 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spatialbench.errors import SimulationError, UsageError
from spatialbench.physics.placement.backend import bullet_client
from spatialbench.physics.placement.diagnostics import release_diagnostics, rest_diagnostics
from spatialbench.physics.placement.outline import Boundary
from spatialbench.physics.placement.plate import Release, lowest_point, plate_axis, plate_mass
from spatialbench.physics.placement.static_scene import add_static_scene, check_mesh, crop_to_plan, with_area
from spatialbench.types.placement import PlacementSettings, TrialResult
from spatialbench.types.rays import RayCaster

__all__ = ["CROP_MARGIN", "Progress", "run_trials"]

CROP_MARGIN = 1.0
"""Metres of scene kept around the outline and the releases, in plan."""

Progress = Callable[[int, int], None]
"""Called with the trials done and the trials in all."""


def run_trials(vertices: ArrayLike, faces: ArrayLike, releases: Sequence[Release], boundary: Any,
               settings: PlacementSettings, *, raycaster: RayCaster | None = None,
               progress: Progress | None = None,
               crop_margin: float | None = CROP_MARGIN) -> list[TrialResult]:
    """Simulate each release on its own in one static scene; the same input gives the same bits.

    Parameters
    ----------
    vertices, faces : [V,3] m, Z up, and [F,3]. Without a face that has an area every trial fails with
        ``no_collision_geometry``; its lengths are then 0 and mean nothing.
    releases : where the plate starts.
    boundary : a ``Boundary``, a ``Support``, an outline [N,2], or (outline, holes).
    settings : constants of the protocol.
    raycaster : of the same mesh, for the diagnostics; without it there are none.
    progress : told after every trial.
    crop_margin : simulate only faces so near to the outline or a release, in plan; None for all.

    Raises
    ------
    BackendUnavailableError : no PyBullet.
    SimulationError : a mesh that PyBullet cannot be given, or a plate that it loses.
    UsageError : an outline without area, a release that is not finite or not a unit quaternion.

    Source: HappyWorld-Bench M25, eq. (43); OPEN-11c to 11e.
    """
    v, f = check_mesh(vertices, faces)
    f = with_area(v, f)
    for release in releases:
        _check_release(release)
    edge = Boundary.of(boundary)
    shape = edge.polygon()
    out: list[TrialResult] = []
    if len(f) == 0:
        out = [_no_geometry(r) for r in releases]
    elif releases:
        if crop_margin is not None:
            f = crop_to_plan(v, f, _plan_bounds(edge, releases), crop_margin)
        with bullet_client() as (p, client):
            _configure(p, client, settings)
            scene = add_static_scene(p, client, v, f, settings.chunk_triangles, settings.scene_friction)
            for release in releases:
                out.append(_trial(p, client, scene, release, shape, settings, raycaster))
                if progress is not None:
                    progress(len(out), len(releases))
    return out


def _configure(p: Any, client: int, s: PlacementSettings) -> None:
    p.setGravity(0, 0, -s.gravity, physicsClientId=client)
    # The contact threshold is global to the process: another user of PyBullet may have changed it.
    p.setPhysicsEngineParameter(fixedTimeStep=1.0 / s.steps_per_second, numSubSteps=0,
                                numSolverIterations=s.solver_iterations, contactBreakingThreshold=0.02,
                                physicsClientId=client)


def _trial(p: Any, client: int, scene: list[int], r: Release, shape: Any, s: PlacementSettings,
           rays: RayCaster | None) -> TrialResult:
    _configure(p, client, s)
    plate = _add_plate(p, client, r, s)
    try:
        p.performCollisionDetection(physicsClientId=client)
        # Points with a positive distance (not yet touching) are listed too.
        distances = [c[8] for body in scene
                     for c in p.getContactPoints(plate, body, physicsClientId=client)]
        penetration = max(0.0, -min(distances, default=0.0))
        for _ in range(s.steps):
            p.stepSimulation(physicsClientId=client)
        position, quaternion = p.getBasePositionAndOrientation(plate, physicsClientId=client)
        velocity, _ = p.getBaseVelocity(plate, physicsClientId=client)
    finally:
        p.removeBody(plate, physicsClientId=client)
    if not np.isfinite([*position, *quaternion, *velocity]).all():
        raise SimulationError("PyBullet lost the plate (its position is not finite)",
                              where=f"placement, trial {r.id}",
                              todo="Look for degenerate faces near the support")
    return _judge(r, tuple(position), tuple(quaternion), math.hypot(*velocity), penetration, shape, s, rays)


def _add_plate(p: Any, client: int, r: Release, s: PlacementSettings) -> int:
    shape = p.createCollisionShape(p.GEOM_CYLINDER, radius=s.plate_diameter / 2, height=s.plate_thickness,
                                   physicsClientId=client)
    plate = p.createMultiBody(plate_mass(s), shape, -1, r.centre, r.quaternion, physicsClientId=client)
    p.changeDynamics(plate, -1, lateralFriction=s.plate_friction, physicsClientId=client)
    return int(plate)


def _judge(r: Release, position: tuple[float, float, float],
           quaternion: tuple[float, float, float, float], speed: float, penetration: float, shape: Any,
           s: PlacementSettings, rays: RayCaster | None) -> TrialResult:
    """The three rules of failure; all that hold are given."""
    import shapely

    axis_z = float(plate_axis(quaternion)[2])
    drop = r.surface_z - lowest_point(position[2], axis_z, s)
    outside = float(shape.distance(shapely.Point(position[0], position[1])))
    reasons = tuple(name for name, failed in (
        ("initial_penetration", penetration > s.max_initial_penetration),
        ("dropped", drop > s.max_drop),
        ("outside", outside > s.max_outside)) if failed)
    diagnostics: dict[str, float | bool] = {}
    if rays is not None:
        diagnostics.update(release_diagnostics(r.centre, rays))
        if "dropped" not in reasons:
            diagnostics.update(rest_diagnostics(position, quaternion, s, rays))
    return TrialResult(
        id=r.id, success=not reasons, reasons=reasons, surface_z=r.surface_z,
        initial_penetration=penetration, drop=drop, outside=outside,
        horizontal_displacement=math.hypot(position[0] - r.centre[0], position[1] - r.centre[1]),
        tilt_deg=math.degrees(math.acos(min(1.0, abs(axis_z)))), release_centre=r.centre,
        rest_centre=position, rest_quaternion=quaternion, final_speed=speed, reference=r.reference,
        diagnostics=diagnostics, release_quaternion=r.quaternion)


def _no_geometry(r: Release) -> TrialResult:
    return TrialResult(
        id=r.id, success=False, reasons=("no_collision_geometry",), surface_z=r.surface_z,
        initial_penetration=0.0, drop=0.0, outside=0.0, horizontal_displacement=0.0, tilt_deg=0.0,
        release_centre=r.centre, rest_centre=r.centre, rest_quaternion=r.quaternion, final_speed=0.0,
        reference=r.reference, release_quaternion=r.quaternion)


def _check_release(r: Release) -> None:
    numbers = [*r.centre, *r.quaternion, r.surface_z]
    if len(numbers) != 8 or not np.isfinite(numbers).all():
        raise UsageError("a release is a finite centre, quaternion and surface height",
                         where=f"placement, trial {r.id}", todo="Correct the release")
    if abs(math.hypot(*r.quaternion) - 1.0) > 1e-6:
        raise UsageError(f"the quaternion {r.quaternion} is not of unit length",
                         where=f"placement, trial {r.id}", todo="Give it as x, y, z, w and normalised")


def _plan_bounds(edge: Boundary, releases: Sequence[Release]) -> tuple[float, float, float, float]:
    centres = np.array([r.centre[:2] for r in releases])
    x0, y0, x1, y1 = edge.bounds()
    (a0, b0), (a1, b1) = centres.min(axis=0), centres.max(axis=0)
    return min(x0, float(a0)), min(y0, float(b0)), max(x1, float(a1)), max(y1, float(b1))
