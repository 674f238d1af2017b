"""Releases of a body in PyBullet and what became of each (M25; placement.md sections 1 and 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import UsageError
from spatialbench.physics.placement.diagnostics import release_diagnostics, rest_diagnostics
from spatialbench.physics.placement.objects import lowest_point_of, plate
from spatialbench.physics.placement.outline import Boundary
from spatialbench.physics.placement.release import Release, plate_axis
from spatialbench.physics.placement.session import Motion, open_session
from spatialbench.physics.placement.static_scene import check_mesh, crop_to_plan, with_area
from spatialbench.types.placement import PlacedObject, PlacementSettings, TrialResult
from spatialbench.types.rays import RayCaster

__all__ = ["CROP_MARGIN", "Progress", "near_faces", "run_trials"]

CROP_MARGIN = 1.0
"""Metres of scene kept around the outline and the releases, in plan."""

Progress = Callable[[int, int], None]
"""Called with the trials done and the trials in all."""


def run_trials(vertices: ArrayLike, faces: ArrayLike, releases: Sequence[Release], boundary: Any,
               settings: PlacementSettings, *, placed: PlacedObject | None = None,
               raycaster: RayCaster | None = None, progress: Progress | None = None,
               crop_margin: float | None = CROP_MARGIN, workers: int = 0, record: int = 0) -> list[TrialResult]:
    """Simulate each release on its own in one static scene; the same input gives the same bits.

    Parameters
    ----------
    vertices, faces : [V,3] m, Z up, and [F,3]. Without a face that has an area every trial fails with
        ``no_collision_geometry``; its lengths are then 0 and mean nothing.
    releases : where the body starts.
    boundary : a ``Boundary``, a ``Support``, an outline [N,2], or (outline, holes).
    settings : constants of the protocol.
    placed : the body; the plate of the settings when None.
    raycaster : of the same mesh, for the diagnostics; without it there are none.
    progress : told after every trial.
    crop_margin : simulate only faces so near to the outline or a release, in plan; None for all.
    workers : processes, each with a simulation of its own, in which a crash of PyBullet becomes the ``error`` of the
        trial; with 0 it runs in this process, and a crash ends that. Results are the same bits.
    record : keep the body's pose every so many steps; 0 for none.

    Raises
    ------
    BackendUnavailableError : no PyBullet.
    SimulationError : a mesh that PyBullet cannot be given, or that it crashes on when loading.
    UsageError : an outline without area, a release that is not finite or not a unit quaternion.

    Source: HappyWorld-Bench M25, eq. (43); OPEN-11c to 11e.
    """
    v, f = check_mesh(vertices, faces)
    f = with_area(v, f)
    for release in releases:
        _check_release(release)
    edge = Boundary.of(boundary)
    shape = edge.polygon()
    body = plate(settings) if placed is None else placed
    if len(f) == 0:
        return [_empty(r, reasons=("no_collision_geometry",)) for r in releases]
    if not releases:
        return []
    if crop_margin is not None:
        f = near_faces(v, f, edge, releases, crop_margin)
    if workers:
        from spatialbench.physics.placement.workers import run_in_processes

        motions = run_in_processes(v, f, settings, body, releases, record, workers, progress)
    else:
        motions = []
        with open_session(v, f, settings, body) as session:
            for release in releases:
                motions.append(session.drop(release, record))
                if progress is not None:
                    progress(len(motions), len(releases))
    return [_judge(r, m, shape, settings, body, raycaster) for r, m in zip(releases, motions, strict=True)]


def near_faces(v: NDArray[np.float64], f: NDArray[np.int64], edge: Boundary, releases: Sequence[Release],
               margin: float) -> NDArray[np.int64]:
    """[K,3] faces within ``margin`` of the outline or a release, in plan (m)."""
    return crop_to_plan(v, f, _plan_bounds(edge, releases), margin)


def _judge(r: Release, m: Motion, shape: Any, s: PlacementSettings, placed: PlacedObject,
           rays: RayCaster | None) -> TrialResult:
    """The three rules of failure; all that hold are given."""
    import shapely

    if m.error:
        return _empty(r, error=m.error)
    position, quaternion = m.position, m.quaternion
    axis_z = float(plate_axis(quaternion)[2])
    drop = r.surface_z - lowest_point_of(placed, position[2], quaternion)
    outside = float(shape.distance(shapely.Point(position[0], position[1])))
    reasons = tuple(name for name, failed in (
        ("initial_penetration", m.penetration > s.max_initial_penetration),
        ("dropped", drop > s.max_drop),
        ("outside", outside > s.max_outside)) if failed)
    diagnostics: dict[str, float | bool] = {}
    if rays is not None:
        diagnostics.update(release_diagnostics(r.centre, rays))
        if "dropped" not in reasons:
            diagnostics.update(rest_diagnostics(position, quaternion, placed, rays))
    return TrialResult(
        id=r.id, success=not reasons, reasons=reasons, surface_z=r.surface_z,
        initial_penetration=m.penetration, drop=drop, outside=outside,
        horizontal_displacement=math.hypot(position[0] - r.centre[0], position[1] - r.centre[1]),
        tilt_deg=math.degrees(math.acos(min(1.0, abs(axis_z)))), release_centre=r.centre,
        rest_centre=position, rest_quaternion=quaternion, final_speed=math.hypot(*m.velocity), reference=r.reference,
        diagnostics=diagnostics, release_quaternion=r.quaternion, path=m.path)


def _empty(r: Release, reasons: tuple[str, ...] = (), error: str = "") -> TrialResult:
    return TrialResult(
        id=r.id, success=False, reasons=reasons, surface_z=r.surface_z,
        initial_penetration=0.0, drop=0.0, outside=0.0, horizontal_displacement=0.0, tilt_deg=0.0,
        release_centre=r.centre, rest_centre=r.centre, rest_quaternion=r.quaternion, final_speed=0.0,
        reference=r.reference, release_quaternion=r.quaternion, error=error)


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
