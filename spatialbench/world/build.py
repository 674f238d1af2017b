"""Anchors a scene: from a file's own frame to X right, Y forward, Z up, metres, origin at the initial camera."""

from __future__ import annotations

from spatialbench.types import CollisionMesh, GaussianSplats, PlanGrid, Protocol, Scene, SnapshotCase, World
from spatialbench.world.anchor import anchor_mesh
from spatialbench.world.anchoring import Progress, anchor_world, collision_source
from spatialbench.world.collision import collision_mesh
from spatialbench.world.decide import FrameOverrides
from spatialbench.world.fused_collision import fused_collision
from spatialbench.world.support_choice import Anchored, supports_of
from spatialbench.world.warn import collision_warnings

__all__ = ["build_world"]


def build_world(scene: Scene, protocol: Protocol, case: SnapshotCase | None = None,
                overrides: FrameOverrides | None = None, progress: Progress | None = None) -> World:
    """Anchor one world (design section 7; spec sections 3 and 4; real-worlds.md sections 2 and 4 to 7).

    Every choice about the frame is in ``World.decisions`` with its source. Estimates only warn; the initial
    camera alone is searched for when nothing gives it. Images are of the splats where there are any; simulators get
    the mesh where there is one, else a mesh that is fused from the splats.

    Parameters
    ----------
    scene : what was read, source frame.
    protocol : fixes every rule; ``scale``, ``crop``, ``footprint``, ``supports``, ``finding``, ``fusion`` and
        ``gates`` are read here.
    case : what was asked for, or None.
    overrides : the user's own decisions, or None.
    progress : is told what begins, in words, and how far it is (0 of 0 where that is unknown).

    Raises
    ------
    UnsupportedFormatError : the scene has neither mesh nor splats.
    EmptyWorldError : its mesh has no area, or none of its splats can be seen.
    UsageError : a camera of the user or the case that looks straight up or down.
    ConfigError : a case whose up axis is none.
    """
    tell: Progress = progress or (lambda label, done, total: None)
    at = anchor_world(scene, protocol, case, overrides, tell)
    rotation, camera, record, ground = at.rotation, at.camera, at.scale, at.ground_z
    warnings = list(at.warnings)
    seen = at.seen()
    mesh = None if scene.mesh is None else anchor_mesh(scene.mesh, rotation, camera.position, at.factor)

    tell("preparing the collision mesh", 0, 0)
    if mesh is None:
        assert isinstance(seen, GaussianSplats)
        collision, words = fused_collision(seen, ground, protocol, tell)
        warnings += words
    else:
        collision = collision_mesh(mesh, ground, protocol.crop, collision_source(scene))
    warnings += collision_warnings(collision)
    footprint, area, footprint_warnings = _footprint(collision, protocol)
    warnings += footprint_warnings
    tell("looking for supports", 0, 0)
    anchored = Anchored(seen, rotation, camera.position, at.factor)
    supports, support_words = ((), []) if record.factor is None else supports_of(anchored, collision, ground, case,
                                                                                 protocol)
    warnings += support_words
    warnings += [at.unit_warning] if at.unit_warning else []
    return World(scene=at.scene, mesh=mesh, splats=seen if isinstance(seen, GaussianSplats) else None,
                 transform=at.transform, scale=record, ground_z=ground, ground_assumed=at.ground_assumed,
                 collision=collision, footprint=footprint, footprint_area=area, supports=supports,
                 support_annotated=case is not None and case.support is not None,
                 decisions=at.decisions, gates=at.gates, estimates=at.estimates, warnings=tuple(warnings))


def _footprint(collision: CollisionMesh, protocol: Protocol) -> tuple[PlanGrid | None, float, list[str]]:
    """The grid (None when there is no geometry, or its cells lie too far apart for one array), and its area."""
    from spatialbench.world.footprint import footprint

    found = None if collision.mesh is None else footprint(collision.mesh, protocol.footprint)
    if found is None:
        return None, 0.0, []
    if found.grid is None:
        return None, found.area, [
            f"the footprint's {found.cells} cells lie too far apart for one plan: is the scale right?"]
    return found.grid, found.area, []
