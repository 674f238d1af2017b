"""From a suite's or folder's plan to units, and which of them are wanted."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spatialbench.errors import UsageError
from spatialbench.runs.batch.job import UnitJob, check_unique
from spatialbench.runs.pair import metrics_of
from spatialbench.runs.suite import PlannedWorld, Problem, SuitePlan

__all__ = ["Only", "jobs_of", "parse_only", "parse_shard"]


@dataclass(frozen=True)
class Only:
    """Patterns (``*``, ``?``, ``[...]``) of what is wanted; an empty tuple wants all."""

    metrics: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()

    def unit(self, job: UnitJob) -> bool:
        """Whether a unit is wanted."""
        return _fits(job.case_id, self.cases) and _fits(job.system, self.systems)

    def metric(self, id: str) -> bool:
        """Whether a metric is wanted."""
        return _fits(id, self.metrics)


def jobs_of(plan: SuitePlan, metrics: Sequence[str], told: Mapping[str, Any] | None = None) -> tuple[UnitJob, ...]:
    """The units of a plan, in its order, each with the metrics for its kind of case (all, where there is none for it)
    and what the user says of all worlds (``told``).

    What a folder holds that was meant as a world and is none becomes a unit too: reading it says what is wrong.

    Raises
    ------
    UsageError : two units would share a folder.
    """
    root = plan.root.absolute()
    problems = {(p.system, p.case_id): p for p in reversed(plan.problems) if p.system and p.case_id}
    jobs = [_job(w, problems.get((w.system, w.case_id)), root, metrics_of(w.kind, metrics) or tuple(metrics))
            for w in plan.worlds]
    if plan.suite is None:
        used = {(j.system, j.case_id.lower()) for j in jobs}
        for p in plan.problems:
            if p.kind == "refused" and p.found:
                id = _free_id(Path(p.found[0]).with_suffix("").as_posix(), p.system, used)
                jobs.append(UnitJob(p.system, id, {"main": str(root / p.found[0])}, tuple(metrics), root=str(root)))
    jobs = [replace(job, told=told) for job in jobs] if told else jobs
    check_unique(tuple(jobs))
    return tuple(jobs)


def select(jobs: Iterable[UnitJob], only: Only, shard: tuple[int, int] | None) -> tuple[UnitJob, ...]:
    """The units and metrics that are wanted; of a shard every n-th unit, so that systems spread evenly.

    Raises
    ------
    UsageError : nothing is left.
    """
    everything = tuple(jobs)
    mine = everything if shard is None else everything[shard[0]::shard[1]]
    wanted = []
    for job in mine:
        metrics = tuple(id for id in job.metrics if only.metric(id)) if only.metrics else job.metrics
        if metrics and only.unit(job):
            wanted.append(job if metrics == job.metrics else replace(job, metrics=metrics))
    if not wanted and (shard is None or not any(only.unit(j) and any(map(only.metric, j.metrics))
                                                for j in everything)):
        raise UsageError("leaves nothing to run", where="--only",
                         todo="Patterns fit whole names: metric=M08, case='kitchen*', system=NAME")
    return tuple(wanted)


def parse_only(items: Iterable[str]) -> Only:
    """``metric=M08``, ``case=kitchen*``, ``system=x``, each any number of times.

    Raises
    ------
    UsageError
    """
    found: dict[str, list[str]] = {"metric": [], "case": [], "system": []}
    for item in items:
        key, sep, pattern = item.partition("=")
        if not sep or key not in found or not pattern:
            raise UsageError(f"'{item}' is not of the form metric=M08, case=PATTERN or system=PATTERN", where="--only",
                             todo="Quote patterns with * for the shell")
        found[key].append(pattern)
    return Only(tuple(found["metric"]), tuple(found["case"]), tuple(found["system"]))


def parse_shard(text: str) -> tuple[int, int]:
    """``i/n`` with 0 <= i < n.

    Raises
    ------
    UsageError
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not match or not 0 <= int(match[1]) < int(match[2]):
        raise UsageError(f"'{text}' is not a shard", where="--shard", todo="Write 0/4, 1/4, 2/4 and 3/4 for four parts")
    return int(match[1]), int(match[2])


def _job(world: PlannedWorld, problem: Problem | None, root: Path, metrics: tuple[str, ...]) -> UnitJob:
    case = None
    image = ""
    if world.case is not None:
        case = {**world.case.model_dump(mode="json", exclude_defaults=True), "kind": world.kind}
        if world.case.image is not None and world.case_folder is not None:
            image = str(world.case_folder.absolute() / world.case.image)
    absent = ""
    if world.state == "missing":
        absent = "no output at " + (_said(problem) if problem is not None else "the place that the suite names")
    return UnitJob(world.system, world.case_id, {r: str(p.absolute()) for r, p in world.paths.items()}, metrics, case,
                   str(root), image, absent, world.state == "unsupported")


def _said(problem: Problem) -> str:
    text = f"'{problem.expected}'"
    if problem.kind == "ambiguous":
        return f"{text}: {problem.note}"
    if problem.kind == "misnamed":
        return f"{text}; there is '{problem.found[0]}', which differs in its {problem.note}"
    return text


def _free_id(name: str, system: str, used: set[tuple[str, str]]) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:100] or "world"
    id, number = plain, 2
    while (system, id.lower()) in used:
        id, number = f"{plain}-{number}", number + 1
    used.add((system, id.lower()))
    return id


def _fits(text: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(text, p) for p in patterns)
