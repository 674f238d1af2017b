"""What the importer sees of a file and decides about it, without measuring anything."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import (
    BackendUnavailableError,
    CorruptInputError,
    InputError,
    SpatialbenchError,
    UnsupportedFormatError,
)
from spatialbench.scene import load_scene
from spatialbench.scene.points import PointCloud, load_points
from spatialbench.scene.reading import ReadOptions
from spatialbench.scene.world_files import world_files
from spatialbench.types import Decision, Protocol, Scene, SnapshotCase
from spatialbench.world import Anchoring, FrameOverrides, anchor_world
from spatialbench.world.anchoring import collision_source, gates_json, reader_warnings, scale_json
from spatialbench.world.camera import given_camera
from spatialbench.world.decide import decide_unit, decide_up
from spatialbench.world.opacity import decide_opacity, opacity_by_format

__all__ = ["Inspection", "inspect_world"]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Inspection:
    """What is known of one file.

    Attributes
    ----------
    scene : as it was read, opacities as they were meant.
    decisions : frame, up, unit, opacity, camera and scale, in this order; ``none`` decides what is not known.
    up : decided axis [3], source frame.
    anchoring : None where the file cannot be anchored; ``warnings`` then say why.
    points : of a point cloud, else None.
    refusal : what a run would end with, of a world that is inspected as far as it goes; else None.
    """

    scene: Scene
    decisions: dict[str, Decision]
    up: NDArray[np.float64]
    anchoring: Anchoring | None
    points: PointCloud | None
    warnings: tuple[str, ...]
    refusal: SpatialbenchError | None = None

    def as_json(self) -> dict[str, Any]:
        """JSON types: the import report, and of an anchored world its box in metres, rays, gates and candidates."""
        report, at, refusal = self.scene.report, self.anchoring, self.refusal
        out: dict[str, Any] = {
            **({} if refusal is None else {"error": {"class": type(refusal).__name__, "message": str(refusal),
                                                     "where": refusal.where}}),
            "kind": report.kind, "format": report.format, "n_splats": report.n_splats, "sh_degree": report.sh_degree,
            "n_vertices": report.n_vertices, "n_faces": report.n_faces, "n_materials": report.n_materials,
            "n_textures": report.n_textures, "bounds": report.bounds,
            "decisions": {k: d.model_dump(mode="json") for k, d in self.decisions.items()},
            "repairs": [r.model_dump(mode="json") for r in report.repairs], "warnings": list(self.warnings),
            "files": [f.model_dump(mode="json") for f in report.files], "details": report.details,
            "world": None, "scale": None, "gates": [], "estimates": {}, "collision": None}
        if at is not None:
            out.update(world=_world_json(at), scale=_scale_json(at), gates=gates_json(at.gates),
                       estimates=at.estimates, collision=_collision_json(self.scene))
        return out


def inspect_world(path: Path, protocol: Protocol, case: SnapshotCase | None = None,
                  overrides: FrameOverrides | None = None, reading: ReadOptions | None = None,
                  progress: Progress | None = None) -> Inspection:
    """Read a file and anchor it by the protocol, as a run does before it prepares the collision mesh.

    A point cloud, and a world that cannot be anchored, are inspected as far as they go.

    Raises
    ------
    InputError : the file cannot be read.
    UsageError : a camera of the user or the case that looks straight up or down.
    ConfigError : a case whose up axis is none.
    """
    tell = progress or (lambda label, done, total: None)
    overrides = overrides or FrameOverrides()
    tell("reading the world", 0, 0)
    try:
        scene = load_scene(path, **(reading or ReadOptions()).as_arguments())
    except UnsupportedFormatError as error:
        files = world_files(Path(path))
        points = None if files.layers else load_points(files.main)
        if points is None:
            raise
        return _partly(points.scene, points, case, overrides, error,
                       "a cloud of points has no surface to stand on or to draw")
    try:
        at = anchor_world(scene, protocol, case, overrides, tell)
    except (InputError, BackendUnavailableError) as error:
        return _partly(scene, None, case, overrides, error, error.what)
    decisions = {"opacity": opacity_by_format(at.scene), **at.decisions, "scale": _known_scale(at)}
    words = [*at.warnings, *([at.unit_warning] if at.unit_warning else []),
             *reader_warnings(scene.report, at.decisions)]
    return Inspection(at.scene, _in_order(decisions), at.rotation[2], at, None, tuple(dict.fromkeys(words)))


def _partly(scene: Scene, points: PointCloud | None, case: SnapshotCase | None, overrides: FrameOverrides,
            refusal: SpatialbenchError, why: str) -> Inspection:
    """What can be said of a world that is not anchored."""
    words = [f"not anchored, so frame, camera and scale are unknown: {why}"]
    scene, opacity, said = decide_opacity(scene, case, overrides)
    words += said
    nothing = Decision(value=None, source="none", confidence=0.0, note="not anchored")
    decisions = {"opacity": opacity_by_format(scene), **scene.report.decisions, **opacity, "frame": nothing,
                 "camera": nothing, "scale": nothing}
    try:
        up, decisions["up"] = decide_up(scene, case, overrides)
    except CorruptInputError as error:
        up = scene.prior_up
        decisions["up"] = nothing.model_copy(update={"note": error.what})
    _, decisions["unit"] = decide_unit(scene, case, overrides)
    try:
        camera, said = given_camera(scene, case, overrides, up)
    except SpatialbenchError as error:
        camera, said = None, [error.what]
    words += said
    if camera is not None:
        decisions["camera"] = camera.decision()
    if overrides.scale is not None:
        decisions["scale"] = Decision(value=overrides.scale, source="user")
    return Inspection(scene, _in_order(decisions), np.asarray(up), None, points,
                      tuple(dict.fromkeys([*words, *reader_warnings(scene.report, decisions)])), refusal)


def _known_scale(at: Anchoring) -> Decision:
    """The decision ``scale``, or nobody's where the rule only gives back what the search for a camera has assumed."""
    scale, unit = at.decisions["scale"], at.decisions["unit"]
    if unit.value is not None or scale.source != "rule" or at.camera.source not in ("found", "none"):
        return scale
    return Decision(value=scale.value, source="none", confidence=0.0,
                    note=f"{scale.note}; but nothing says how long a unit is, and the camera was looked for as if it "
                         "were the metre: the rule gives little more than that back")


def _in_order(decisions: dict[str, Decision]) -> dict[str, Decision]:
    first = ("frame", "up", "unit", "opacity", "camera", "scale")
    return {k: decisions[k] for k in (*first, *(k for k in decisions if k not in first))}


def _world_json(at: Anchoring) -> dict[str, Any]:
    """The box of all geometry in the world frame, m, and how it got there."""
    scene = at.scene
    splats, parts = scene.splats, [] if scene.mesh is None else [scene.mesh.vertices]
    if splats is not None:
        parts.append(splats.means.astype(np.float64) + (0.0 if splats.offset is None else splats.offset))
    ends = []
    for points in parts:
        level = (points - at.camera.position) @ at.rotation.T * at.factor
        ends.append(np.stack([level.min(axis=0), level.max(axis=0)]))
    low, high = np.min([e[0] for e in ends], axis=0), np.max([e[1] for e in ends], axis=0)
    return {"bounds": [low.tolist(), high.tolist()], "size": (high - low).tolist(), "ground_z": at.ground_z,
            "ground_assumed": at.ground_assumed, "transform_source_to_world": at.transform.tolist()}


def _scale_json(at: Anchoring) -> dict[str, Any]:
    valid = [d for d in at.scale.ray_distances if d is not None]
    return {**scale_json(at.scale), "rays_hit": len(valid),
            "median_distance": statistics.median(valid) if valid else None, "ray_points": at.ray_points.tolist()}


def _collision_json(scene: Scene) -> dict[str, Any]:
    """Which geometry simulators would get; a fused mesh is not made here, so its faces are not known."""
    faces = None if scene.mesh is None else len(scene.mesh.faces)
    return {"geometry": collision_source(scene), "faces": faces}
