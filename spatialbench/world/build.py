"""Anchors a scene: from a file's own frame to X right, Y forward, Z up, metres, origin at the initial camera."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spatialbench.types import CollisionMesh, Decision, GaussianSplats, PlanGrid, Protocol, Scene, SnapshotCase, World
from spatialbench.world.anchor import anchor_mesh, similarity
from spatialbench.world.camera import given_camera
from spatialbench.world.collision import collision_mesh
from spatialbench.world.decide import FrameOverrides, decide_unit, decide_up, level_rotation
from spatialbench.world.estimates import estimates_json, unit_warning
from spatialbench.world.fused_collision import fused_collision
from spatialbench.world.gates import check_gates
from spatialbench.world.opacity import decide_opacity
from spatialbench.world.probe import level_percentile, level_ranges, nine_rays
from spatialbench.world.profile_check import checked_up, profile_camera
from spatialbench.world.scale import ground_height, ring_depths, scale_decision, scale_world
from spatialbench.world.start import start
from spatialbench.world.subject import subject_of
from spatialbench.world.support_choice import Anchored, supports_of
from spatialbench.world.up import UpEstimate
from spatialbench.world.warn import collision_warnings

__all__ = ["build_world"]

Progress = Callable[[str, int, int], None]


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
    overrides = overrides or FrameOverrides()
    scene, opacity, opacity_words = decide_opacity(scene, overrides)
    up, up_decision = decide_up(scene, case, overrides)
    unit, unit_decision = decide_unit(scene, case, overrides)
    subject = subject_of(scene, up)

    tell("looking for the initial camera", 0, 0)
    up, up_decision, profile_words = checked_up(scene, subject, up, up_decision, unit, protocol)
    if profile_words:
        subject = subject_of(scene, up)
    camera, warnings = given_camera(scene, case, overrides, up)
    warnings += [*profile_words, *opacity_words]
    if camera is None and overrides.profile is not None:
        camera, words = profile_camera(overrides.profile, subject, up, unit, protocol)
        warnings += words
    first = start(subject, up, unit, camera, protocol, overrides.scale)
    up_words = first.estimate.warning(protocol.finding.warn_ratio)
    warnings += [w for w in (*first.warnings, up_words) if w]
    camera = first.camera
    if camera.source == "found":
        place = ", ".join(f"{float(x):.3f}" for x in camera.position)
        warnings.append(f"nothing gives the initial camera; one was found at {place} in the file's frame, and every "
                        "score is as seen from there. --camera or a case chooses another")

    tell("fixing the scale", 0, 0)
    rotation = level_rotation(up, camera.forward)
    rays = nine_rays(subject.sight, camera.position, rotation, protocol.scale)
    record = scale_world(rays, lambda: ring_depths(subject.anchored(rotation, camera.position, 1.0), protocol),
                         protocol, overrides.scale)
    scale_by, scale_warnings = scale_decision(record, protocol)
    warnings += scale_warnings
    factor = record.factor if record.factor is not None else (unit or 1.0)
    ground, assumed = ground_height(record, protocol)
    near = level_percentile(level_ranges(subject.sight, camera.position, rotation),
                            protocol.gates.level_depth_percentile)
    near = None if near is None else near * factor
    # A floor below gives a scale that blur can be judged by; a guess from depths does not.
    metre = factor if record.branch in ("floor", "user") else (unit or 1.0)
    places = first.interior.places
    gates = check_gates(enclosure=first.interior.enclosure, floor=places[0].area if places else 0.0,
                        level_depth=near, scale=record, unit_m=unit, protocol=protocol, blur=subject.blur(metre))
    low, high = subject.box(np.eye(3))
    extent = float((high - low).max()) * first.unit_m
    seen = subject.anchored(rotation, camera.position, factor)
    mesh = None if scene.mesh is None else anchor_mesh(scene.mesh, rotation, camera.position, factor)

    tell("preparing the collision mesh", 0, 0)
    if mesh is None:
        assert isinstance(seen, GaussianSplats)
        collision, words = fused_collision(seen, ground, protocol, tell)
        warnings += words
    else:
        collision = collision_mesh(mesh, ground, protocol.crop, "mesh" if scene.splats is None else "collider")
    warnings += collision_warnings(collision)
    footprint, area, footprint_warnings = _footprint(collision, protocol)
    warnings += footprint_warnings
    tell("looking for supports", 0, 0)
    anchored = Anchored(seen, rotation, camera.position, factor)
    supports, support_words = ((), []) if record.factor is None else supports_of(anchored, collision, ground, case,
                                                                                 protocol)
    warnings += support_words

    unit_words = unit_warning(first.interior, unit, first.unit_m, extent, any(g.raised for g in gates))
    warnings += [unit_words] if unit_words else []
    decisions = {**scene.report.decisions, **opacity, "frame": Decision(
        value="X right, Y forward, Z up, metres, origin at the initial camera", source="rule"),
        "up": _with_estimate(up_decision, first.estimate, protocol), "unit": unit_decision,
        "camera": camera.decision(), "scale": scale_by}
    estimates: dict[str, Any] = estimates_json(first.estimate, first.interior, first.unit_m, protocol)
    estimates["level_depth"] = near
    return World(scene=scene, mesh=mesh, splats=seen if isinstance(seen, GaussianSplats) else None,
                 transform=similarity(rotation, camera.position, factor),
                 scale=record, ground_z=ground, ground_assumed=assumed, collision=collision, footprint=footprint,
                 footprint_area=area, supports=supports,
                 support_annotated=case is not None and case.support is not None,
                 decisions=decisions, gates=gates, estimates=estimates, warnings=tuple(warnings))


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


def _with_estimate(decision: Decision, estimate: UpEstimate, protocol: Protocol) -> Decision:
    """The decision with what the estimate thinks of it."""
    if estimate.agrees is None:
        words = "the surface shows no floor under any axis"
    else:
        ratio = "" if estimate.ratio is None else f" (E1/E2 {estimate.ratio:.2f})"
        words = f"the estimate {'agrees' if estimate.agrees else 'disagrees'}{ratio}; it only warns, above " \
                f"{protocol.finding.warn_ratio:g} times the evidence"
    return decision.model_copy(update={"note": f"{decision.note}; {words}" if decision.note else words})


