"""A world before and one after an edit or an expansion, from files to a result folder."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from spatialbench.aggregate import Summary, load_normalization, summarise, summary_json
from spatialbench.errors import ConfigError, UsageError
from spatialbench.observe import REGISTRY, Context, Observations
from spatialbench.observe.evaluate import evaluate
from spatialbench.runs.kept_scoring import KeptScoring
from spatialbench.runs.machine import machine_info, peak_memory_mb, versions
from spatialbench.runs.scoring import (
    LentJudge,
    check_scoring,
    judge_texts,
    named_folder,
    open_judge_of,
    open_scorers,
    scorers_used,
)
from spatialbench.runs.single import RunOptions, by_metric, check_protocol, complete_report, prepare
from spatialbench.runs.store import canonical_json, units_text, write_result
from spatialbench.scene import load_scene
from spatialbench.tracks.spatial.evidence import edit_evidence, evidence_names, expand_evidence
from spatialbench.types import (
    EditCase,
    ExpandCase,
    ImportReport,
    Measurement,
    Protocol,
    World,
    load_any_case,
    load_protocol,
    protocol_hash,
)
from spatialbench.types.case_parts import resolve_reference
from spatialbench.world.second import two_worlds

__all__ = ["PAIR_LEVEL", "PairCase", "PairKind", "PairResult", "measure_pair", "metrics_of", "pair_record", "resolved",
           "run_pair", "runs_kind", "write_pair"]

PairKind = Literal["edit", "expand"]
PairCase = EditCase | ExpandCase
Progress = Callable[[str, int, int], None]
PAIR_LEVEL: dict[str, str] = {"edit": "W4", "expand": "W5"}
"""Level of the metrics that a kind of case with two worlds is scored by."""
ROLES = ("before", "after")


@dataclass(frozen=True, eq=False)
class PairResult:
    """Everything that a run of two worlds gave; fields by role (``before``, ``after``) where there are two."""

    kind: PairKind
    paths: Mapping[str, Path]
    options: RunOptions
    protocol: Protocol
    case: PairCase | None
    case_id: str
    worlds: Mapping[str, World]
    reports: Mapping[str, ImportReport]
    observations: Observations
    measurements: list[Measurement]
    summary: Summary
    created: str
    timings: list[dict[str, Any]]
    warnings: tuple[str, ...] = ()
    """About the pair: other frames, equal files."""
    evidence: Mapping[str, Path] = field(default_factory=dict)
    judge: LentJudge | None = None


def run_pair(kind: PairKind, before: Path, after: Path, options: RunOptions | None = None,
             progress: Progress | None = None) -> PairResult:
    """Import both worlds, put the second into the frame of the first, observe and measure. Nothing is written.

    Raises
    ------
    InputError, UsageError : a world, the case, its evidence or an option is at fault.
    """
    options = options or RunOptions()
    prepare()
    protocol = load_protocol(options.protocol, options.settings)
    check_protocol(protocol)
    check_scoring(options.scoring, protocol)
    case, evidence = (None, {}) if options.case is None else _case(kind, options.case)
    options = replace(options, reading=options.reading.with_case(case, options.case))
    return measure_pair(kind, {"before": before, "after": after}, protocol, case, options, evidence=evidence,
                        progress=progress)


def measure_pair(kind: PairKind, paths: Mapping[str, Path], protocol: Protocol, case: PairCase | None,
                 options: RunOptions, *, evidence: Mapping[str, Path] | None = None, case_id: str = "",
                 metrics: Sequence[str] | None = None,
                 kept: Callable[[Mapping[str, ImportReport]], Mapping[str, Sequence[Measurement]]] | None = None,
                 progress: Progress | None = None) -> PairResult:
    """As :func:`run_pair`, with everything resolved, after ``prepare`` and ``check_protocol``.

    Parameters
    ----------
    evidence : files of the case's evidence, as ``evidence_names`` names them.
    case_id, metrics, kept : as ``measure_world`` has them; ``kept`` is given both reports.

    Raises
    ------
    InputError, UsageError : a world, the case or its evidence is at fault.
    """
    tell = progress or (lambda label, done, total: None)
    wanted_all = metrics_of(kind, protocol.metrics)
    if not wanted_all:
        raise UsageError(f"has no metric of {PAIR_LEVEL[kind]}", where=f"protocol '{protocol.id}'",
                         todo="Choose another with --protocol")
    files = dict(evidence or {})
    tell("reading the evidence", 0, 0)
    given = (edit_evidence(case if isinstance(case, EditCase) else None, files, protocol) if kind == "edit"
             else expand_evidence(case if isinstance(case, ExpandCase) else None, files, protocol))
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    timings: list[dict[str, Any]] = []
    start = time.perf_counter()
    scenes = {}
    for role in ROLES:
        tell(f"reading the world {role}", 0, 0)
        reading = options.reading if role == "before" else replace(options.reading, side_cars=())
        scenes[role] = load_scene(paths[role], **reading.as_arguments())
    start = _lap(timings, "read", start)
    known = {} if kept is None else dict(kept({role: s.report for role, s in scenes.items()}))
    worlds = two_worlds(scenes["before"], scenes["after"], protocol, case, options.frame, tell,
                        collision=kind == "expand")
    start = _lap(timings, "anchor", start)
    reports = {role: complete_report(scenes[role].report, worlds[role]) for role in ROLES}
    shas = [[f.sha256 for f in reports[role].files] for role in ROLES]
    same = bool(shas[0]) and shas[0] == shas[1]

    case_id = case.id if case else case_id or _name_of(paths["after"])
    judge = open_judge_of(options.scoring, protocol)
    observations = Observations(Context(protocol, worlds, case, case_id, options.system, progress=tell, media={
        "pair": kind, "evidence": given, "same_files": same}, scorers=open_scorers(options.scoring), judge=judge))
    REGISTRY.freeze()
    for name in ("spatial.frame_agreement", "spatial.origin_pair"):  # said even when nothing can be measured
        observations.get(name)
    wanted = set(wanted_all if metrics is None else metrics) - set(known)
    made = by_metric(evaluate([id for id in wanted_all if id in wanted], observations))
    measurements = named_folder((m for id in wanted_all for m in made.get(id, known.get(id, ()))), options.scoring)
    timings += [{"stage": name, "seconds": round(s, 4)} for name, s in observations.timings]
    _lap(timings, "measure", start)
    for role in ROLES:
        if observations.made(f"spatial.{role}_renderer"):
            words = observations.get(f"spatial.{role}_renderer").warnings
            warnings = list(dict.fromkeys([*reports[role].warnings, *words]))
            reports[role] = reports[role].model_copy(update={"warnings": warnings})
    summary = summarise(measurements, REGISTRY.specs(protocol.track), load_normalization(protocol.normalization),
                        preview=True)
    return PairResult(kind, dict(paths), options, protocol, case, case_id, worlds, reports, observations, measurements,
                      summary, created, timings, _doubts(observations, same), files,
                      None if isinstance(judge, str) else judge)


def metrics_of(kind: str, metrics: Sequence[str]) -> tuple[str, ...]:
    """Those of a protocol's metrics that a case of this kind is scored by: all but for an edit (W4) or an expansion
    (W5)."""
    level = PAIR_LEVEL.get(kind)
    return tuple(id for id in metrics if level is None or REGISTRY.metric(id).spec.level == level)


def runs_kind(kind: str, metrics: Sequence[str]) -> bool:
    """Whether a case of this kind can be run, and one of the metrics is for it."""
    return kind == "snapshot" or (kind in PAIR_LEVEL and bool(metrics_of(kind, metrics)))


def resolved(case: PairCase, folder: Path, root: Path, where: str) -> dict[str, Path]:
    """Files of the case's evidence, checked to lie in ``root``; they need not be there.

    Raises
    ------
    ConfigError : one leads out of ``root``.
    """
    def there(name: str) -> bool:
        return resolve_reference(name, folder, root, f"{where}, key 'evidence'").is_file()

    return {key: resolve_reference(name, folder, root, f"{where}, key 'evidence.{key.partition('.')[0]}'")
            for key, name in evidence_names(case, there).items()}


def write_pair(result: PairResult, folder: Path, page: str | None = None, kept: KeptScoring | None = None) -> None:
    """Write the same files as for one world (``write_results``); ``import.json`` holds both reports by role.

    Raises
    ------
    UsageError : the folder cannot be made.
    ResultError : the disk refuses.
    """
    timings = [*result.timings, {"stage": "peak_memory_mb", "value": peak_memory_mb()}]
    reports = {role: r.model_dump(mode="json") for role, r in result.reports.items()}
    texts = {
        "timings.jsonl": "".join(canonical_json(t) + "\n" for t in timings),
        "import.json": canonical_json({**reports, "warnings": list(result.warnings)}, indent=1) + "\n",
        "units.jsonl": units_text(result.measurements),
        "summary.json": summary_json(result.summary),
        **judge_texts(result.judge),
        **({} if kept is None else kept.texts(result.judge)),
        **({} if page is None else {"report.html": page}),
        "run.json": canonical_json(pair_record(result, kept), indent=1) + "\n",
    }
    write_result(folder, texts)


def pair_record(result: PairResult, kept: KeptScoring | None = None) -> dict[str, Any]:
    """What ``run.json`` holds: as for one world, with ``worlds`` and inputs by role."""
    p = result.protocol
    used = scorers_used(result.observations.context.scorers, result.judge)
    return {
        "schema": 1,
        "kind": result.kind,
        "created": result.created,
        "case": result.case_id,
        "case_given": result.case is not None,
        "system": result.options.system,
        "worlds": {role: path.name for role, path in result.paths.items()},
        "inputs": [{"role": role, **f.model_dump(mode="json")} for role in ROLES for f in result.reports[role].files],
        "evidence": {key: path.name for key, path in sorted(result.evidence.items())},
        "protocol": p.model_dump(mode="json"),
        "protocol_hash": protocol_hash(p),
        "protocol_fast": p.fast,
        "protocol_overrides": list(result.options.settings),
        "preview": True,
        "seeds": {"footprint": p.footprint.seed, "finding": p.finding.seed},
        "backends": {**({} if kept is None else kept.backends), **backends_of(result)},
        **(used if kept is None else kept.record(used, result.judge)),
        "versions": dict(versions()),
        "machine": machine_info(),
    }


def backends_of(result: PairResult) -> dict[str, str]:
    """Name and version of the renderer of each world."""
    obs = result.observations
    return {f"renderer_{role}": obs.get(f"spatial.{role}_renderer").name_version for role in ROLES
            if obs.made(f"spatial.{role}_renderer")}


def _case(kind: PairKind, path: Path) -> tuple[PairCase, dict[str, Path]]:
    case = load_any_case(path)
    if not isinstance(case, EditCase if kind == "edit" else ExpandCase):
        raise ConfigError(f"is a case of the kind '{case.kind}', and this needs '{kind}'", where=str(path),
                          todo=f"Write 'kind: {kind}', or use another command")
    assert isinstance(case, PairCase)
    return case, resolved(case, path.parent, path.parent, str(path))


def _doubts(obs: Observations, same_files: bool) -> tuple[str, ...]:
    words = []
    if same_files:
        words.append("both worlds are the same files: nothing was changed")
    elif obs.get("spatial.origin_pair").identical:
        words.append("no pixel of the six origin probes differs: the worlds before and after look the same from there")
    if text := obs.get("spatial.frame_agreement").warning():
        words.append(text)
    before, after = obs.context.worlds["before"], obs.context.worlds["after"]
    if before.seen_geometry != after.seen_geometry:
        words.append(f"the world before is drawn of {_many(before)} and the world after of {_many(after)}: images "
                     "differ by that alone")
    return tuple(words)


def _many(world: World) -> str:
    return "a mesh" if world.seen_geometry == "mesh" else "splats"


def _name_of(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.name.split(".")[0]).strip("-._") or "world"


def _lap(timings: list[dict[str, Any]], stage: str, since: float) -> float:
    now = time.perf_counter()
    timings.append({"stage": stage, "seconds": round(now - since, 4)})
    return now
