"""Anchors a scene: from a file's own frame to X right, Y forward, Z up, metres, origin at the initial camera."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import EmptyWorldError, UnsupportedFormatError
from spatialbench.types import (
    CollisionMesh,
    Decision,
    PlanGrid,
    Protocol,
    RayCaster,
    Scene,
    SnapshotCase,
    Support,
    TriangleMesh,
    World,
)
from spatialbench.world.anchor import anchor_mesh, anchor_points, similarity
from spatialbench.world.camera import InitialCamera, OriginTrial, find_camera, given_camera, try_origin, without_floor
from spatialbench.world.collision import collision_mesh, true_facing
from spatialbench.world.decide import FrameOverrides, decide_unit, decide_up, level_rotation
from spatialbench.world.estimates import estimates_json, unit_warning
from spatialbench.world.gates import check_gates
from spatialbench.world.interior import InteriorAnalysis, analyse_interior
from spatialbench.world.probe import level_percentile, level_ranges, nine_rays
from spatialbench.world.scale import ground_height, ring_depths, scale_decision, scale_world
from spatialbench.world.surfels import Surfels, mesh_surfels
from spatialbench.world.up import UpEstimate, estimate_up

if TYPE_CHECKING:
    from spatialbench.renderers.raycast import MeshRayCaster

__all__ = ["build_world"]


def build_world(scene: Scene, protocol: Protocol, case: SnapshotCase | None = None,
                overrides: FrameOverrides | None = None, progress: Callable[[str], None] | None = None) -> World:
    """Anchor one world (design section 7; spec sections 3 and 4; real-worlds.md sections 4 to 7).

    Every choice about the frame is in ``World.decisions`` with its source. Estimates only warn; the initial
    camera alone is searched for when nothing gives it.

    Parameters
    ----------
    scene : what was read, source frame.
    protocol : fixes every rule; ``scale``, ``crop``, ``footprint``, ``supports``, ``finding`` and ``gates``
        are read here.
    case : what was asked for, or None.
    overrides : the user's own decisions, or None.
    progress : is told what begins, in words.

    Raises
    ------
    UnsupportedFormatError : the scene has no mesh.
    EmptyWorldError : its mesh has no area.
    UsageError : a camera of the user or the case that looks straight up or down.
    ConfigError : a case whose up axis is none.
    """
    tell = progress or (lambda text: None)
    overrides = overrides or FrameOverrides()
    mesh = _surface(scene)
    up, up_decision = decide_up(scene, case, overrides)
    unit, unit_decision = decide_unit(scene, case, overrides)

    tell("looking for the initial camera")
    from spatialbench.renderers.raycast import MeshRayCaster

    caster = MeshRayCaster(mesh.vertices, mesh.faces)
    sight = _Sight(scene, mesh, caster, up, unit, protocol)
    camera, warnings = given_camera(scene, case, overrides, up)
    start = _start(sight, camera, overrides)
    up_words = start.estimate.warning(protocol.finding.warn_ratio)
    warnings += [w for w in (*start.warnings, up_words) if w]
    if start.camera.source == "found":
        place = ", ".join(f"{float(x):.3f}" for x in start.camera.position)
        warnings.append(f"nothing gives the initial camera; one was found at {place} in the file's frame, and every "
                        "score is as seen from there. --camera or a case chooses another")

    tell("fixing the scale")
    camera = start.camera
    rotation = level_rotation(up, camera.forward)
    rays = nine_rays(caster, camera.position, rotation, protocol.scale)
    record = scale_world(rays, lambda: ring_depths(anchor_mesh(mesh, rotation, camera.position, 1.0), protocol),
                         protocol, overrides.scale)
    scale_by, scale_warnings = scale_decision(record, protocol)
    warnings += scale_warnings
    factor = record.factor if record.factor is not None else (unit or 1.0)
    ground, assumed = ground_height(record, protocol)
    world_mesh = anchor_mesh(mesh, rotation, camera.position, factor)

    tell("preparing the collision mesh")
    collision = collision_mesh(world_mesh, ground, protocol.crop)
    warnings += _collision_warnings(collision)
    footprint, area, footprint_warnings = _footprint(collision, protocol)
    warnings += footprint_warnings
    tell("looking for supports")
    anchored = _Anchored(world_mesh, rotation, camera.position, factor)
    supports, support_words = ((), []) if record.factor is None else _supports(anchored, collision, ground, case,
                                                                               protocol)
    warnings += support_words

    near = level_percentile(level_ranges(caster, camera.position, rotation), protocol.gates.level_depth_percentile)
    near = None if near is None else near * factor
    gates = check_gates(enclosure=start.interior.enclosure, level_depth=near, scale=record, unit_m=unit,
                        protocol=protocol)
    extent = float(np.ptp(mesh.bounds(), axis=0).max()) * start.unit_m
    unit_words = unit_warning(start.interior, unit, start.unit_m, extent, any(g.raised for g in gates))
    warnings += [unit_words] if unit_words else []
    decisions = {**scene.report.decisions, "frame": Decision(
        value="X right, Y forward, Z up, metres, origin at the initial camera", source="rule"),
        "up": _with_estimate(up_decision, start.estimate, protocol), "unit": unit_decision,
        "camera": camera.decision(), "scale": scale_by}
    estimates: dict[str, Any] = estimates_json(start.estimate, start.interior, start.unit_m, protocol)
    estimates["level_depth"] = near
    return World(scene=scene, mesh=world_mesh, transform=similarity(rotation, camera.position, factor),
                 scale=record, ground_z=ground, ground_assumed=assumed, collision=collision, footprint=footprint,
                 footprint_area=area, supports=supports,
                 support_annotated=case is not None and case.support is not None,
                 decisions=decisions, gates=gates, estimates=estimates, warnings=tuple(warnings))


def _surface(scene: Scene) -> TriangleMesh:
    if scene.mesh is None:
        if scene.splats is not None:
            raise UnsupportedFormatError("is a world of splats, and splats can be inspected but not yet run",
                                         where=scene.path.name, todo="Give a mesh of the same world")
        raise UnsupportedFormatError(f"a world of {scene.report.kind} without a mesh cannot be anchored",
                                     where=scene.path.name, todo="Give a mesh of the same world")
    if not np.any(scene.mesh.area_vectors()):
        raise EmptyWorldError("no face has an area", where=scene.path.name, todo="Export the world again")
    return scene.mesh


@dataclass(frozen=True, eq=False)
class _Sight:
    """What the camera is looked for with; the caster is in the source frame."""

    scene: Scene
    mesh: TriangleMesh
    caster: RayCaster
    up: NDArray[np.float64]
    unit: float | None
    protocol: Protocol


@dataclass(frozen=True, eq=False)
class _Start:
    """The initial camera and what was learnt while it was looked for.

    ``unit_m`` is what the search took for a unit: the decided one, else the scale that the user gives or
    that the nine rays give at a camera that is known, else 1.
    """

    camera: InitialCamera
    unit_m: float
    estimate: UpEstimate
    interior: InteriorAnalysis
    inside_out: bool = False
    warnings: tuple[str, ...] = ()


def _start(sight: _Sight, camera: InitialCamera | None, overrides: FrameOverrides) -> _Start:
    if camera is not None:
        return _search(sight, camera, None, overrides)
    origin = try_origin(sight.caster, sight.up, sight.unit, sight.protocol)
    if origin.reason:
        return _search(sight, None, origin, overrides)
    if origin.behind:
        # If a room is there by the faces' winding, then it is not the origin that lies in it.
        refused = replace(origin, reason="most of what it sees is seen from behind")
        start = _search(sight, None, refused, overrides)
        if not start.inside_out and start.interior.enclosure >= sight.protocol.gates.min_enclosure:
            return start
    return _search(sight, origin.camera, origin, overrides)


def _search(sight: _Sight, camera: InitialCamera | None, origin: OriginTrial | None, overrides: FrameOverrides
            ) -> _Start:
    """Estimate up and interior; find a camera when there is none yet."""
    protocol, caster, up = sight.protocol, sight.caster, sight.up
    unit = sight.unit or overrides.scale
    if unit is None and camera is not None:
        rays = nine_rays(caster, camera.position, level_rotation(up, camera.forward), protocol.scale)
        valid = [d for d in rays if d is not None]
        unit = protocol.scale.camera_height / statistics.median(valid) if valid else None
    warnings = []
    if unit is None:
        unit = 1.0
        if camera is None:
            warnings.append("nothing gives the file's unit: the camera was looked for as if it were the metre")
    surfels = mesh_surfels(sight.mesh, unit, protocol.finding)
    estimate = estimate_up(surfels, up, protocol.finding)
    interior, inside_out = _either_winding(surfels, estimate.decided, protocol)
    if inside_out:
        warnings.append("an interior is there only when the faces are seen from behind: they seem to be wound "
                        "inside out")
    if camera is None:
        assert origin is not None
        camera = find_camera(interior, caster, unit, protocol, origin.reason)
        if camera is None:
            camera = without_floor(origin, sight.mesh, up, protocol)
            warnings.append(f"the initial camera is a guess: {camera.note}")
    return _Start(camera, unit, estimate, interior, inside_out, tuple(warnings))


def _either_winding(surfels: Surfels, decided: InteriorAnalysis, protocol: Protocol
                    ) -> tuple[InteriorAnalysis, bool]:
    """The interior, and whether it is only there with all normals turned over."""
    least = protocol.gates.min_enclosure
    if decided.enclosure >= least:
        return decided, False
    other = analyse_interior(surfels.flipped(), decided.up, protocol.finding)
    return (decided, False) if other.enclosure < least else (other, True)


def _collision_warnings(collision: CollisionMesh) -> list[str]:
    out = []
    if collision.mesh is None:
        low, high = collision.crop
        out.append(f"nothing is left between {low:.1f} and {high:.1f} m: there is no collision mesh")
    if collision.sky_faces:
        out.append(f"{collision.sky_faces} faces are sky by their material's name and were taken out for navigation")
    if collision.facing_disagrees and collision.facing_share is not None:
        seen = f"{collision.first_hit_share:.0%} of what the camera sees is seen from the front"
        area = f"{collision.facing_share:.0%} of the area faces it"
        out.append(f"M08 may be wrong: the protocol's rule turned all faces over, because only {area}, yet {seen}. "
                   "Agents then walk on undersides. The rule misfires on closed slabs; the file needs no mending"
                   if collision.reversed else
                   f"M08 may be wrong: only {seen}, so faces may be wound inside out; the protocol's rule kept them, "
                   f"because {area}. Turn wrong faces over in the file")
    return out


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


@dataclass(frozen=True, eq=False)
class _Anchored:
    mesh: TriangleMesh
    rotation: NDArray[np.float64]
    camera: NDArray[np.float64]
    scale: float


def _supports(world: _Anchored, collision: CollisionMesh, ground: float, case: SnapshotCase | None,
              protocol: Protocol) -> tuple[tuple[Support, ...], list[str]]:
    """The case's support if it names one, else those that are found; and what to say about it."""
    from spatialbench.renderers.raycast import MeshRayCaster
    from spatialbench.world.support_annotation import annotated_support
    from spatialbench.world.supports import find_supports

    mesh = true_facing(collision)
    if mesh is None:
        return (), []
    rays = MeshRayCaster(mesh.vertices, mesh.faces)
    if case is None or case.support is None:
        radius = protocol.placement.plate_diameter / 2
        return tuple(find_supports(mesh, rays, ground, protocol.supports, radius)), []
    polygon: NDArray[np.float64] | None
    if case.support.polygon is not None:
        polygon = anchor_points(np.array(case.support.polygon), world.rotation, world.camera, world.scale)
    else:
        polygon = _lift(world.mesh, case.support.image_polygon or (), protocol)
    label = case.support.label
    if polygon is None:
        return (), [f"the case's support '{label}' is not there: the view shows nothing where it is marked"]
    support = annotated_support(polygon, label, mesh, rays, protocol.supports)
    return ((), [_missed_support(polygon, label, mesh, rays)]) if support is None else ((support,), [])


def _missed_support(polygon: NDArray[np.float64], label: str, mesh: TriangleMesh, rays: MeshRayCaster) -> str:
    """Where the surface is that a case's polygon does not lie on."""
    x, y, z = polygon.mean(axis=0)
    top = float(mesh.vertices[:, 2].max()) + 1.0
    hits = rays.all_hits([[x, y, top]], [[0.0, 0.0, -1.0]])
    looks_up = mesh.area_vectors()[hits.face, 2] > 0
    heights = top - hits.distance[looks_up]
    if not len(heights):
        return f"the case's support '{label}' is not there: nothing under or over its middle looks up"
    off = float(heights[np.argmin(np.abs(heights - z))] - z)
    return (f"the case's support '{label}' is not there: at its middle the nearest surface that looks up is "
            f"{abs(off):.3f} m {'above' if off > 0 else 'below'} the polygon")


def _lift(mesh: TriangleMesh, image_polygon: tuple[tuple[float, float], ...], protocol: Protocol
          ) -> NDArray[np.float64] | None:
    """A polygon of the first view of the origin ring, on what is seen there."""
    from spatialbench.renderers import render
    from spatialbench.renderers.trajectories import ring
    from spatialbench.world.support_annotation import lift_image_polygon

    lens = protocol.views.lens
    camera = ring(np.zeros(3), protocol.views.ring_frames, lens.width, lens.height, lens.fov_deg)[0]
    depth = render(mesh, [camera], want=("depth",)).depth
    assert depth is not None
    return lift_image_polygon(np.array(image_polygon), camera, depth[0])


def _with_estimate(decision: Decision, estimate: UpEstimate, protocol: Protocol) -> Decision:
    """The decision with what the estimate thinks of it."""
    if estimate.agrees is None:
        words = "the surface shows no floor under any axis"
    else:
        ratio = "" if estimate.ratio is None else f" (E1/E2 {estimate.ratio:.2f})"
        words = f"the estimate {'agrees' if estimate.agrees else 'disagrees'}{ratio}; it only warns, above " \
                f"{protocol.finding.warn_ratio:g} times the evidence"
    return decision.model_copy(update={"note": f"{decision.note}; {words}" if decision.note else words})


