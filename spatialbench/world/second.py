"""Two worlds in one frame: the world after an edit or expansion is put where the world before stands."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import (
    CollisionMesh,
    Decision,
    EditCase,
    ExpandCase,
    GaussianSplats,
    PlanGrid,
    Protocol,
    ScaleRecord,
    Scene,
    World,
)
from spatialbench.world.anchor import anchor_mesh, similarity
from spatialbench.world.anchoring import Anchoring, Progress, anchor_world, collision_source
from spatialbench.world.collision import collision_mesh
from spatialbench.world.decide import FrameOverrides, default_forward, level_rotation
from spatialbench.world.fused_collision import fused_collision
from spatialbench.world.opacity import decide_opacity
from spatialbench.world.probe import nine_rays
from spatialbench.world.subject import Subject, subject_of
from spatialbench.world.warn import collision_warnings

__all__ = ["two_worlds"]

_SAME = 1e-6


@dataclass(frozen=True, eq=False)
class _Frame:
    """``x_world = factor * rotation @ (x_source - camera)``."""

    rotation: NDArray[np.float64]
    camera: NDArray[np.float64]
    factor: float


def two_worlds(before: Scene, after: Scene, protocol: Protocol, case: EditCase | ExpandCase | None = None,
               overrides: FrameOverrides | None = None, progress: Progress | None = None, *,
               collision: bool = True) -> dict[str, World]:
    """``before`` anchored by the rules of a single world, and ``after`` under the same transform, scale and ground
    (spec section 3); it is not anchored anew.

    Where both files, or both formats, say different up axes or units, the world after is first turned and scaled
    from its convention into that of the world before, which is said.

    Parameters
    ----------
    collision : also make collision meshes and footprints, on one grid (cells are fixed to the world's origin).

    Returns
    -------
    ``before`` and ``after``. Neither has supports; gates are those of the world before. ``scale.ray_distances`` are
    each world's own, in its own unit.

    Raises
    ------
    As ``anchor_world``, for either world.
    """
    tell: Progress = progress or (lambda label, done, total: None)
    snapshot = None if case is None else case.snapshot()
    at = anchor_world(before, protocol, snapshot, overrides, tell)
    frame = _Frame(at.rotation, at.camera.position, at.factor)
    words = [*at.warnings, *([at.unit_warning] if at.unit_warning else [])]
    first = _world(at.scene, at.subject, frame, at, protocol, tell, collision, at.scale, at.decisions, words)

    scene, opacity, opacity_words = decide_opacity(after, snapshot, overrides or FrameOverrides())
    turn, unit, said = _convention(before, scene)
    frame = _Frame(at.rotation @ turn, turn.T @ at.camera.position / unit, at.factor * unit)
    if not said:
        frame = replace(frame, rotation=at.rotation, camera=at.camera.position)  # not a bit may change
    subject = subject_of(scene, turn.T @ at.rotation[2])
    rays = nine_rays(subject.sight, frame.camera, frame.rotation, protocol.scale)
    record = ScaleRecord(at.scale.branch, None if at.scale.factor is None else frame.factor, rays,
                         protocol=at.scale.protocol)
    rule = Decision(value="that of the world before", source="rule", note=said)
    second = _world(scene, subject, frame, at, protocol, tell, collision, record,
                    {**scene.report.decisions, **opacity, "frame": rule}, [*([said] if said else []), *opacity_words])
    return {"before": first, "after": second}


def _world(scene: Scene, subject: Subject, frame: _Frame, at: Anchoring, protocol: Protocol, tell: Progress,
           collide: bool, record: ScaleRecord, decisions: dict[str, Decision], warnings: list[str]) -> World:
    seen = subject.anchored(frame.rotation, frame.camera, frame.factor)
    mesh = None if scene.mesh is None else anchor_mesh(scene.mesh, frame.rotation, frame.camera, frame.factor)
    crop = (at.ground_z - protocol.crop.below_ground, at.ground_z + protocol.crop.above_ground)
    collision = CollisionMesh(None, collision_source(scene), None, None, False, False, 0, 0, crop)
    footprint: PlanGrid | None = None
    area = 0.0
    if collide:
        tell("preparing the collision mesh", 0, 0)
        if mesh is None:
            assert isinstance(seen, GaussianSplats)
            collision, words = fused_collision(seen, at.ground_z, protocol, tell)
            warnings = [*warnings, *words]
        else:
            collision = collision_mesh(mesh, at.ground_z, protocol.crop, collision_source(scene))
        footprint, area, words = _footprint(collision, protocol)
        warnings = [*warnings, *collision_warnings(collision), *words]
    return World(scene=scene, mesh=mesh, splats=seen if isinstance(seen, GaussianSplats) else None,
                 transform=similarity(frame.rotation, frame.camera, frame.factor), scale=record,
                 ground_z=at.ground_z, ground_assumed=at.ground_assumed, collision=collision, footprint=footprint,
                 footprint_area=area, supports=(), support_annotated=False, decisions=decisions, gates=at.gates,
                 estimates=at.estimates, warnings=tuple(warnings))


def _footprint(collision: CollisionMesh, protocol: Protocol) -> tuple[PlanGrid | None, float, list[str]]:
    from spatialbench.world.footprint import footprint

    found = None if collision.mesh is None else footprint(collision.mesh, protocol.footprint)
    if found is None:
        return None, 0.0, []
    words = [] if found.grid is not None else [
        f"the footprint's {found.cells} cells lie too far apart for one plan: is the scale right?"]
    return found.grid, found.area, words


def _convention(before: Scene, after: Scene) -> tuple[NDArray[np.float64], float, str]:
    """Rotation [3,3] and factor from the axes and unit of the file after to those of the file before, and what was
    done in words (empty for nothing). What a file says is only compared with what a file says."""
    ups = [before.prior_up, after.prior_up]
    if before.side.up is not None and after.side.up is not None:
        ups = [before.side.up, after.side.up]
    units = [before.prior_unit_m, after.prior_unit_m]
    if before.side.unit_m is not None and after.side.unit_m is not None:
        units = [before.side.unit_m, after.side.unit_m]
    turn, factor, said = np.eye(3), 1.0, []
    u0, u1 = (np.asarray(u, dtype=np.float64) / np.linalg.norm(u) for u in ups)
    if np.abs(u0 - u1).max() > _SAME:
        turn = level_rotation(u0, default_forward(u0)).T @ level_rotation(u1, default_forward(u1))
        said.append(f"turned from up {_axis(u1)} to up {_axis(u0)}")
    if units[0] is not None and units[1] is not None and abs(units[1] / units[0] - 1) > _SAME:
        factor = units[1] / units[0]
        said.append(f"scaled by {factor:g}, as its unit is {units[1]:g} m and that of the other {units[0]:g} m")
    words = f"the world after was {' and '.join(said)}, the conventions of the two files" if said else ""
    return turn, factor, words


def _axis(up: NDArray[np.float64]) -> str:
    k = int(np.argmax(np.abs(up)))
    return f"{'+' if up[k] > 0 else '-'}{'XYZ'[k]}"
