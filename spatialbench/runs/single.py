"""One world, from file to result folder."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

from spatialbench.aggregate import Summary, load_normalization, summarise
from spatialbench.errors import ConfigError, MissingInputError
from spatialbench.observe import REGISTRY, Context, Observations
from spatialbench.observe.evaluate import evaluate
from spatialbench.observe.registry import load_plugins
from spatialbench.runs.cache import ensure_kernel_cache
from spatialbench.runs.scoring import (
    LentJudge,
    Scoring,
    check_scoring,
    check_substitutes,
    named_folder,
    open_judge_of,
    open_scorers,
)
from spatialbench.scene import load_scene
from spatialbench.scene.reading import ReadOptions
from spatialbench.tracks import load_tracks
from spatialbench.tracks.spatial.object_evidence import object_evidence, object_files
from spatialbench.types import Measurement, Protocol, SnapshotCase, World, load_case, load_protocol
from spatialbench.types.case_parts import resolve_reference
from spatialbench.types.scene import ImportReport
from spatialbench.world import FrameOverrides, build_world
from spatialbench.world.anchoring import gates_json, reader_warnings, scale_json

__all__ = ["RunOptions", "RunResult", "by_metric", "check_protocol", "measure_world", "prepare", "resolved_objects",
           "run_world"]

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
    reading : how the world is read.
    scoring : learned scorers and the judge.
    """

    protocol: str = "happyworld-spatial-1"
    settings: tuple[str, ...] = ()
    case: Path | None = None
    system: str = "local"
    frame: FrameOverrides = field(default_factory=FrameOverrides)
    reading: ReadOptions = field(default_factory=ReadOptions)
    scoring: Scoring = field(default_factory=Scoring)


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
    judge: LentJudge | None = None
    evidence: Mapping[str, Path] = field(default_factory=dict)


def run_world(path: Path, options: RunOptions | None = None, progress: Progress | None = None) -> RunResult:
    """Import, anchor, observe and measure one world. Nothing is written.

    Raises
    ------
    InputError, UsageError : the world, the case or an option is at fault.
    """
    options = options or RunOptions()
    prepare()
    protocol = load_protocol(options.protocol, options.settings)
    check_protocol(protocol)
    check_scoring(options.scoring, protocol)
    case = None if options.case is None else load_case(options.case)
    image = case.image if case is not None else None
    evidence = {}
    if options.case is not None:
        evidence = resolved_objects(case, options.case.parent, options.case.parent, str(options.case))
    at = None if options.case is None or image is None else options.case.parent / image
    if at is not None and not at.is_file():
        raise MissingInputError("the input image is not there, or is no file", where=str(at),
                                todo="Correct 'image' of the case, or take it out")
    options = replace(options, reading=options.reading.with_case(case, options.case))
    return measure_world(path, protocol, case, options, progress=progress, evidence=evidence, image=at)


def resolved_objects(case: SnapshotCase | None, folder: Path, root: Path, where: str) -> dict[str, Path]:
    """Files that the case gives of its objects, checked to lie in ``root``; they need not be there.

    Raises
    ------
    ConfigError : one leads out of ``root``.
    """
    def at(name: str) -> Path:
        return resolve_reference(name, folder, root, f"{where}, key 'objects'")

    return {key: at(name) for key, name in object_files(case, lambda name: at(name).is_file()).items()}


def prepare() -> None:
    """Fill the registry with all tracks and plugins, and give compiled loops a place. Once is enough for a process."""
    ensure_kernel_cache()
    load_tracks()
    load_plugins()


def measure_world(path: Path, protocol: Protocol, case: SnapshotCase | None, options: RunOptions, *,
                  case_id: str = "", image: Path | None = None, evidence: Mapping[str, Path] | None = None,
                  metrics: Sequence[str] | None = None,
                  kept: Callable[[ImportReport], Mapping[str, Sequence[Measurement]]] | None = None,
                  progress: Progress | None = None) -> RunResult:
    """As :func:`run_world`, with everything resolved, after :func:`prepare` and :func:`check_protocol`.

    Parameters
    ----------
    case_id : when there is no case; of the file's name when empty.
    image : the case's input image.
    evidence : files of the case's objects, as ``object_files`` names them.
    metrics : only these of the protocol; all when None.
    kept : gives, from the report of what was read, measurements that are known already and are not made again.

    Raises
    ------
    InputError, UsageError : the world or the case is at fault.
    """
    tell = progress or (lambda label, done, total: None)
    table = _table(protocol.normalization)
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    timings: list[dict[str, Any]] = []
    clock = _Clock(timings)

    files = dict(evidence or {})
    objects = object_evidence(case, files, protocol)
    tell("reading the world", 0, 0)
    scene = load_scene(path, **options.reading.as_arguments())
    clock.lap("read")
    known = {} if kept is None else dict(kept(scene.report))
    world = build_world(scene, protocol, case, options.frame, progress=tell)
    clock.lap("anchor")
    report = complete_report(scene.report, world)

    case_id = case.id if case else case_id or _name_of(path)
    judge = open_judge_of(options.scoring, protocol)
    observations = Observations(Context(protocol, {"main": world}, case, case_id, options.system, progress=tell,
                                        media={"objects": objects, **({} if image is None else {"image": image})},
                                        scorers=open_scorers(options.scoring), judge=judge))
    REGISTRY.freeze()
    wanted = set(protocol.metrics if metrics is None else metrics) - set(known)
    made = by_metric(evaluate([id for id in protocol.metrics if id in wanted], observations))
    measurements = named_folder((m for id in protocol.metrics for m in made.get(id, known.get(id, ()))),
                                options.scoring)
    timings += [{"stage": name, "seconds": round(s, 4)} for name, s in observations.timings]
    clock.lap("measure")
    if observations.made("spatial.renderer") and (words := observations.get("spatial.renderer").warnings):
        report = report.model_copy(update={"warnings": list(dict.fromkeys([*report.warnings, *words]))})
    summary = summarise(measurements, REGISTRY.specs(protocol.track), table, preview=True)
    return RunResult(path, options, protocol, case, case_id, world, report, observations, measurements,
                     summary, created, timings, None if isinstance(judge, str) else judge, files)


def complete_report(report: ImportReport, world: World) -> ImportReport:
    """The import report with the decisions and warnings of anchoring."""
    warnings = list(dict.fromkeys([*world.warnings, *reader_warnings(report, world.decisions)]))
    details = {**report.details, "estimates": world.estimates,
               "transform_source_to_world": world.transform.tolist(),
               "scale": scale_json(world.scale), "gates": gates_json(world.gates)}
    return report.model_copy(update={"decisions": {**report.decisions, **world.decisions},
                                     "warnings": warnings, "details": details})


def check_protocol(protocol: Protocol) -> None:
    """What would only come out after the world has been looked at: metrics or a table that are none, NavMesh settings.

    Raises
    ------
    UsageError
    """
    from spatialbench.physics.navmesh import check_settings

    for id in protocol.metrics:
        track = REGISTRY.metric(id).spec.track
        if track != protocol.track:
            raise ConfigError(f"the metric {id} is of the track '{track}', not of '{protocol.track}'",
                              where=f"protocol '{protocol.id}'", todo="Correct 'track' or 'metrics'")
    load_normalization(protocol.normalization)
    check_settings(protocol.navmesh)
    check_substitutes(protocol)


def by_metric(measurements: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """In order; several of one metric are of several objects."""
    out: dict[str, list[Measurement]] = {}
    for m in measurements:
        out.setdefault(m.metric, []).append(m)
    return out


def _name_of(path: Path) -> str:
    """A case id from a file name: letters, digits, dot, dash and underscore."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.name.split(".")[0]).strip("-._") or "world"


_table = lru_cache(maxsize=4)(load_normalization)  # a worker measures many worlds, and these do not change


class _Clock:
    def __init__(self, into: list[dict[str, Any]]) -> None:
        self._into, self._last = into, time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self._into.append({"stage": stage, "seconds": round(now - self._last, 4)})
        self._last = now
