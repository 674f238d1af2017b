"""One world, from file to result folder."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from spatialbench.aggregate import Summary, summarise, summary_json
from spatialbench.observe import REGISTRY, Context, Observations
from spatialbench.observe.evaluate import evaluate
from spatialbench.observe.registry import load_plugins
from spatialbench.runs.machine import machine_info, peak_memory_mb, versions
from spatialbench.runs.store import canonical_json, prepare_folder, write_json, write_text, write_units
from spatialbench.scene import load_scene
from spatialbench.tracks import load_tracks
from spatialbench.types import Measurement, Protocol, SnapshotCase, World, load_case, load_protocol, protocol_hash
from spatialbench.types.scene import ImportReport
from spatialbench.world import FrameOverrides, build_world

__all__ = ["RunOptions", "RunResult", "run_world", "write_results"]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class RunOptions:
    """What a user can ask of ``run``.

    Attributes
    ----------
    protocol : a packaged name or a YAML file.
    settings : ``path.to.key=value`` overrides of the protocol.
    case : case file, or None.
    system : name the measurements are filed under.
    frame : overrides of up, unit, scale and camera.
    """

    protocol: str = "happyworld-spatial-1"
    settings: tuple[str, ...] = ()
    case: Path | None = None
    system: str = "local"
    frame: FrameOverrides = field(default_factory=FrameOverrides)


@dataclass(frozen=True, eq=False)
class RunResult:
    """Everything one run gave; the page and the files are made from it."""

    path: Path
    options: RunOptions
    protocol: Protocol
    case: SnapshotCase | None
    case_id: str
    world: World
    report: ImportReport
    observations: Observations
    measurements: list[Measurement]
    summary: Summary
    created: str
    timings: list[dict[str, Any]]


def run_world(path: Path, options: RunOptions | None = None, progress: Progress | None = None) -> RunResult:
    """Import, anchor, observe and measure one world. Nothing is written.

    Raises
    ------
    InputError, UsageError : the world, the case or an option is at fault.
    """
    options = options or RunOptions()
    tell = progress or (lambda label, done, total: None)
    load_tracks()
    load_plugins()
    protocol = load_protocol(options.protocol, options.settings)
    case = None if options.case is None else load_case(options.case)
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    timings: list[dict[str, Any]] = []
    clock = _Clock(timings)

    tell("reading the world", 0, 0)
    scene = load_scene(path)
    clock.lap("read")
    world = build_world(scene, protocol, case, options.frame, progress=lambda label: tell(label, 0, 0))
    clock.lap("anchor")
    report = complete_report(scene.report, world)

    case_id = case.id if case else _name_of(path)
    observations = Observations(Context(protocol, {"main": world}, case, case_id, options.system,
                                        progress=tell))
    REGISTRY.freeze()
    measurements = evaluate(protocol.metrics, observations)
    timings += [{"stage": name, "seconds": round(s, 4)} for name, s in observations.timings]
    clock.lap("measure")
    summary = summarise(measurements, REGISTRY.specs(protocol.track), protocol.normalization, preview=True)
    return RunResult(path, options, protocol, case, case_id, world, report, observations, measurements,
                     summary, created, timings)


def write_results(result: RunResult, folder: Path) -> None:
    """Write ``run.json``, ``import.json``, ``units.jsonl``, ``summary.json`` and ``timings.jsonl``.

    The last one is written first and ``run.json`` last: its presence says that the folder is complete.
    """
    prepare_folder(folder)
    timings = [*result.timings, {"stage": "peak_memory_mb", "value": peak_memory_mb()}]
    write_text(folder / "timings.jsonl", "".join(canonical_json(t) + "\n" for t in timings))
    write_json(folder / "import.json", result.report.model_dump(mode="json"))
    write_units(folder / "units.jsonl", result.measurements)
    write_text(folder / "summary.json", summary_json(result.summary))
    write_json(folder / "run.json", run_record(result))


def run_record(result: RunResult) -> dict[str, Any]:
    """What ``run.json`` holds: inputs with hashes, the resolved protocol and its hash, versions, seeds."""
    p = result.protocol
    return {
        "schema": 1,
        "created": result.created,
        "case": result.case_id,
        "case_given": result.case is not None,
        "system": result.options.system,
        "world": result.path.name,
        "inputs": [f.model_dump(mode="json") for f in result.report.files],
        "protocol": p.model_dump(mode="json"),
        "protocol_hash": protocol_hash(p),
        "protocol_fast": p.fast,
        "protocol_overrides": list(result.options.settings),
        "preview": True,
        "seeds": {"footprint": p.footprint.seed, "finding": p.finding.seed, "planner": 0},
        "backends": backends_used(result),
        "versions": versions(),
        "machine": machine_info(),
    }


def backends_used(result: RunResult) -> dict[str, str]:
    """Name and version of each renderer and simulator that ran."""
    obs, out = result.observations, {}
    if obs.made("spatial.renderer"):
        out["renderer"] = obs.get("spatial.renderer").name_version
    if obs.made("spatial.walkable") and obs.get("spatial.walkable").navmesh is not None:
        out["navmesh"] = obs.get("spatial.walkable").navmesh.backend
    if obs.made("spatial.placement") and obs.get("spatial.placement").results:
        from spatialbench.physics.placement import placement_backend_status

        out["placement"] = placement_backend_status()[1]
    return out


def complete_report(report: ImportReport, world: World) -> ImportReport:
    """The import report with the decisions and warnings of anchoring."""
    warnings = list(dict.fromkeys([*report.warnings, *world.warnings]))
    details = {**report.details, "estimates": world.estimates,
               "transform_source_to_world": world.transform.tolist(),
               "scale": {"branch": world.scale.branch, "factor": world.scale.factor,
                         "ray_distances": list(world.scale.ray_distances),
                         "percentile_depth": world.scale.percentile_depth,
                         "protocol": world.scale.protocol},
               "gates": [{"name": g.name, "raised": g.raised, "value": g.value, "threshold": g.threshold,
                          "note": g.note} for g in world.gates]}
    return report.model_copy(update={"decisions": {**report.decisions, **world.decisions},
                                     "warnings": warnings, "details": details})


def _name_of(path: Path) -> str:
    """A case id from a file name: letters, digits, dot, dash and underscore."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.name.split(".")[0]).strip("-._") or "world"


class _Clock:
    def __init__(self, into: list[dict[str, Any]]) -> None:
        self._into, self._last = into, time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self._into.append({"stage": stage, "seconds": round(now - self._last, 4)})
        self._last = now
