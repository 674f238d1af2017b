"""Where a world stands, how long its metre is, and whether it can be judged: all that comes before simulators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.load import TOO_LONG
from spatialbench.scene.splats.ply import LOOKS_ACTIVATED
from spatialbench.types import (
    Decision,
    Gate,
    GaussianSplats,
    ImportReport,
    Protocol,
    ScaleRecord,
    Scene,
    SnapshotCase,
    TriangleMesh,
)
from spatialbench.world.anchor import similarity
from spatialbench.world.camera import InitialCamera, given_camera
from spatialbench.world.decide import FrameOverrides, decide_unit, decide_up, level_rotation, named_profile
from spatialbench.world.estimates import estimates_json, unit_warning
from spatialbench.world.gates import check_gates
from spatialbench.world.opacity import decide_opacity
from spatialbench.world.probe import level_percentile, level_ranges, nine_rays
from spatialbench.world.profile_check import checked_up, profile_camera
from spatialbench.world.scale import ground_height, ring_depths, scale_decision, scale_world
from spatialbench.world.sidecar_check import checked_camera, side_car_words
from spatialbench.world.start import start
from spatialbench.world.subject import Subject, subject_of
from spatialbench.world.up import UpEstimate

__all__ = ["Anchoring", "Progress", "anchor_world", "collision_source", "gates_json", "reader_warnings", "scale_json"]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Anchoring:
    """A scene in the world frame, without collision mesh, footprint and supports.

    ``x_world = factor * rotation @ (x_source - camera.position)``.

    Attributes
    ----------
    scene : as it was read, opacities as they were meant.
    subject : what rays and images show of it, source frame.
    rotation : [3,3] source frame to X right, Y forward, Z up.
    camera : initial camera, source frame.
    scale : how metres were fixed.
    factor : metres per source unit: the scale's, else the decided unit, else 1.
    ray_points : [K,3] where the nine rays down end, of those that meet something, world frame.
    ground_z, ground_assumed : height of the floor, m, and whether no ray saw one.
    decisions : frame, up, unit, camera, scale, and what the reader decided.
    gates : in the order of ``Gate.name``'s list.
    estimates : candidates for up and camera, JSON types.
    warnings : for people, in the order in which they came up.
    unit_warning : that the world's size asks for another unit; None when it does not. Said after all others.
    """

    scene: Scene
    subject: Subject
    rotation: NDArray[np.float64]
    camera: InitialCamera
    scale: ScaleRecord
    factor: float
    ray_points: NDArray[np.float64]
    ground_z: float
    ground_assumed: bool
    decisions: dict[str, Decision]
    gates: tuple[Gate, ...]
    estimates: dict[str, Any]
    warnings: tuple[str, ...] = ()
    unit_warning: str | None = None

    @property
    def transform(self) -> NDArray[np.float64]:
        """[4,4] source to world (similarity)."""
        return similarity(self.rotation, self.camera.position, self.factor)

    def seen(self) -> TriangleMesh | GaussianSplats:
        """What images are drawn of, world frame; made anew at each call."""
        return self.subject.anchored(self.rotation, self.camera.position, self.factor)


def anchor_world(scene: Scene, protocol: Protocol, case: SnapshotCase | None = None,
                 overrides: FrameOverrides | None = None, progress: Progress | None = None) -> Anchoring:
    """Decide frame, up, unit, opacity, initial camera and scale, and put the gates (design section 7; real-worlds.md
    sections 4 to 7).

    Parameters
    ----------
    scene : what was read, source frame.
    protocol : ``scale``, ``finding``, ``gates`` and ``views`` are read here.
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
    profile = named_profile(case, overrides)
    scene, opacity, opacity_words = decide_opacity(scene, case, overrides)
    up, up_decision = decide_up(scene, case, overrides)
    unit, unit_decision = decide_unit(scene, case, overrides)
    subject = subject_of(scene, up)

    tell("looking for the initial camera", 0, 0)
    up, up_decision, profile_words = checked_up(scene, subject, up, up_decision, unit, protocol)
    if profile_words:
        subject = subject_of(scene, up)
    camera, warnings = given_camera(scene, case, overrides, up)
    camera, side_words = checked_camera(camera, subject, up, unit, protocol)
    warnings += [*side_words, *profile_words, *opacity_words]
    if camera is None and profile is not None:
        camera, words = profile_camera(profile, subject, up, unit, protocol)
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
    warnings += side_car_words(scene, up, camera, rays)
    record = scale_world(rays, lambda: ring_depths(subject.anchored(rotation, camera.position, 1.0), protocol),
                         protocol, overrides.scale)
    scale_by, scale_warnings = scale_decision(record, protocol)
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
    decisions = {**scene.report.decisions, **opacity, "frame": Decision(
        value="X right, Y forward, Z up, metres, origin at the initial camera", source="rule"),
        "up": _with_estimate(up_decision, first.estimate, protocol), "unit": unit_decision,
        "camera": camera.decision(), "scale": scale_by}
    estimates = estimates_json(first.estimate, first.interior, first.unit_m, protocol)
    estimates["level_depth"] = near
    return Anchoring(scene, subject, rotation, camera, record, factor, _ray_points(record, factor, protocol), ground,
                     assumed, decisions, gates, estimates, (*warnings, *scale_warnings),
                     unit_warning(first.interior, unit, first.unit_m, extent, any(g.raised for g in gates)))


def collision_source(scene: Scene) -> str:
    """What simulators get of a scene: its ``mesh``, the ``collider`` beside its splats, or else a ``fused_mesh``."""
    if scene.mesh is None:
        return "fused_mesh"
    return "mesh" if scene.splats is None else "collider"


def reader_warnings(report: ImportReport, decisions: Mapping[str, Decision]) -> list[str]:
    """What the reader warned of; that a world is too long for metres only where nobody has said the unit or scale, and
    that opacities look activated only where they were not taken for that."""
    said = any(decisions[k].source in ("user", "case") for k in ("unit", "scale") if k in decisions)
    taken = "opacity" in decisions and decisions["opacity"].value == "activated"
    settled = [*([TOO_LONG] if said else []), *([LOOKS_ACTIVATED] if taken else [])]
    return [w for w in report.warnings if not any(words in w for words in settled)]


def gates_json(gates: tuple[Gate, ...]) -> list[dict[str, Any]]:
    """For the report."""
    return [{"name": g.name, "raised": g.raised, "value": g.value, "threshold": g.threshold, "note": g.note}
            for g in gates]


def scale_json(record: ScaleRecord) -> dict[str, Any]:
    """For the report; distances are in the source unit."""
    return {"branch": record.branch, "factor": record.factor, "ray_distances": list(record.ray_distances),
            "percentile_depth": record.percentile_depth, "protocol": record.protocol}


def _ray_points(record: ScaleRecord, factor: float, protocol: Protocol) -> NDArray[np.float64]:
    from spatialbench.renderers.trajectories import down_rays

    rays = zip(down_rays(protocol.scale.ray_tilt), record.ray_distances, strict=True)
    ends = [r / -r[2] * d * factor for r, d in rays if d is not None]
    return np.array(ends).reshape(-1, 3)


def _with_estimate(decision: Decision, estimate: UpEstimate, protocol: Protocol) -> Decision:
    """The decision with what the estimate thinks of it."""
    if estimate.agrees is None:
        words = "the surface shows no floor under any axis"
    else:
        ratio = "" if estimate.ratio is None else f" (E1/E2 {estimate.ratio:.2f})"
        words = f"the estimate {'agrees' if estimate.agrees else 'disagrees'}{ratio}; it only warns, above " \
                f"{protocol.finding.warn_ratio:g} times the evidence"
    return decision.model_copy(update={"note": f"{decision.note}; {words}" if decision.note else words})
