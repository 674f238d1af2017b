"""What of a batch is finished, and what is to be done about the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from spatialbench.errors import ResultError
from spatialbench.observe import REGISTRY
from spatialbench.runs.batch.job import UnitJob, unit_folder
from spatialbench.runs.batch.keys import hash_inputs
from spatialbench.runs.batch.unitfile import UnitFile, check_owner, inputs_digest, read_unit, verify_files
from spatialbench.runs.collector import quiet_collector
from spatialbench.runs.pair import PAIR_LEVEL, runs_kind
from spatialbench.scorers import scorers
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.scorers.judge.settings import judge_settings, same_model
from spatialbench.scorers.settings import ScorerSettings
from spatialbench.types import Status
from spatialbench.types.scoring import substitute_flag

__all__ = ["Decision", "Wanted", "decide_all"]

_AGAIN = ("crash", "time", "memory")


@dataclass(frozen=True)
class Wanted:
    """What decides: the recipes of the protocol by metric, its table, and what the user insists on.

    Recipes say how a metric is made and not whether it can be, so that what is measured stays when a scorer goes. What
    a scorer that has come could change is told by ``here``, against what a unit says that it lacked.

    Attributes
    ----------
    model : the protocol's judge.
    here : scorers that can be used, the judge too.
    came : metrics whose learned scorers, or their ``substitutes``, are all here.
    official : whether the judge that is named is the protocol's.
    """

    recipes: Mapping[str, str]
    normalization: str
    force: bool = False
    retry_failed: bool = False
    settings: ScorerSettings | None = None
    judge: Path | None = None
    substitutes: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    here: frozenset[str] = field(init=False)
    came: frozenset[str] = field(init=False)
    official: bool = field(init=False)

    def __post_init__(self) -> None:
        here = frozenset(s.id for s in scorers(self.settings, self.judge) if s.usable)
        object.__setattr__(self, "here", here)
        object.__setattr__(self, "came", frozenset(
            id for id in self.recipes if (needed := self.needed(id)) and here >= needed))
        said = judge_settings(self.judge) if JUDGE in here else None
        object.__setattr__(self, "official", said is not None and (
            said.model is None or same_model(said.model, self.model)))

    def needed(self, id: str) -> frozenset[str]:
        """Learned scorers that a metric names, or their stand-ins."""
        return frozenset(self.substitutes.get(s, s) for s in REGISTRY.metric(id).spec.scorers)


@dataclass(frozen=True, eq=False)
class Decision:
    """What happens to a unit.

    Attributes
    ----------
    action : ``keep`` what is there, ``run`` all that is asked, ``part`` of it, or ``write`` that there is nothing to
        run.
    why : in words.
    metrics : to be measured.
    keep : metrics to keep from what is there.
    failed : of a unit that is kept: it has failed.
    damaged : what is wrong with the files that are there.
    """

    job: UnitJob
    action: Literal["keep", "run", "part", "write"]
    why: str
    metrics: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    failed: bool = False
    damaged: str = ""


def decide_all(out: Path, jobs: Iterable[UnitJob], wanted: Wanted, threads: int,
               tell: Callable[[int], None] = lambda done: None) -> list[Decision]:
    """A decision for each unit, in order. All bytes of finished units and of their inputs are hashed."""
    every = list(jobs)

    def one(job: UnitJob) -> Decision:
        return decide(unit_folder(out, job.system, job.case_id), job, wanted)

    decisions = []
    with quiet_collector(), ThreadPoolExecutor(max(1, threads)) as pool:
        for decision in pool.map(one, every) if _large(every) else map(one, every):
            decisions.append(decision)
            tell(len(decisions))
    return decisions


def decide(folder: Path, job: UnitJob, wanted: Wanted) -> Decision:
    """Look at one unit's folder."""
    nothing = bool(job.absent or job.unsupported or not runs_kind(job.kind, job.metrics))
    fresh: Literal["run", "write"] = "write" if nothing else "run"
    try:
        unit = read_unit(folder)
        if unit is not None:
            verify_files(folder, unit)
            check_owner(folder, unit, job.system, job.case_id)
    except ResultError as error:
        return Decision(job, fresh, "damaged", job.metrics, damaged=str(error))
    if unit is None:
        return Decision(job, fresh, "not finished" if (folder / "units.jsonl").exists() else "new", job.metrics)
    # Whether there is an output at all, and what is in it:
    inputs = [] if job.absent else hash_inputs(job.roles, job.image, unit.also())
    if nothing:
        same = unit.inputs_sha256 == inputs_digest([], job.case, job.told) and unit.reason == nothing_to_run(job)[2]
    else:
        same = unit.inputs_sha256 == inputs_digest(inputs, job.case, job.told) and unit.outcome not in (
            "missing", "untested", "unsupported")
    if not same:
        return Decision(job, fresh, "its input has changed", job.metrics)
    if nothing or unit.status == "failed":
        return _without_values(job, unit, wanted, fresh)
    return _finished(job, unit, wanted)


def nothing_to_run(job: UnitJob) -> tuple[Literal["failed", "skipped"], Literal["missing", "untested", "unsupported"],
                                          str, Status]:
    """Status, outcome, reason and the metrics' status of a unit of which there is nothing to run."""
    if job.unsupported:
        return "skipped", "unsupported", "the suite says that this system cannot express the case", Status.UNSUPPORTED
    if job.absent:
        return "failed", "missing", job.absent, Status.UNAVAILABLE
    words = ("the protocol has no metric for cases of the kind '{}'" if job.kind in PAIR_LEVEL
             else "cases of the kind '{}' are not run by this version")
    return "skipped", "untested", words.format(job.kind), Status.UNTESTED


def _without_values(job: UnitJob, unit: UnitFile, wanted: Wanted, fresh: Literal["run", "write"]) -> Decision:
    if wanted.force:
        return Decision(job, fresh, "forced", job.metrics)
    if unit.again:
        return Decision(job, fresh, "what it lacked may be there now", job.metrics)
    if wanted.retry_failed and unit.outcome in _AGAIN:
        return Decision(job, fresh, f"failed before ({unit.outcome})", job.metrics)
    if any(unit.recipes.get(id) != wanted.recipes[id] for id in job.metrics):
        every = tuple(id for id in wanted.recipes if id in {*job.metrics, *unit.recipes})
        return Decision(job, fresh, "other metrics or another protocol", every)
    return Decision(job, "keep", f"failed before: {unit.reason}" if unit.status == "failed" else unit.reason,
                    failed=unit.status == "failed")


def _finished(job: UnitJob, unit: UnitFile, wanted: Wanted) -> Decision:
    there: dict[str, Status] = {}
    by_other: set[str] = set()
    for m in unit.measurements:  # of several objects: the one that may get a value later
        if there.get(m.metric) != Status.UNAVAILABLE:
            there[m.metric] = m.status
        if wanted.official and substitute_flag(JUDGE) in m.flags:
            by_other.add(m.metric)
    fresh = tuple(id for id, recipe in wanted.recipes.items() if id in there and unit.recipes.get(id) == recipe)
    if wanted.force:
        why, todo = "forced", set(job.metrics)
    else:
        todo = set(job.metrics) - set(fresh)
        why = "changed" if todo & set(there) else "not measured yet"
        kept = set(fresh) & set(job.metrics)
        could = {id for id in kept if there[id] == Status.UNAVAILABLE
                 and (wanted.retry_failed or _may_change(id, unit, wanted))}
        if (could or by_other & kept) and not todo:
            why = "was unavailable" if could else "was judged by another model"
        todo |= could | (by_other & kept)
    keep = tuple(id for id in fresh if id not in todo)
    if todo:
        metrics = tuple(id for id in wanted.recipes if id in todo)
        return Decision(job, "part" if keep else "run", f"{why}: {', '.join(metrics)}", metrics, keep)
    if unit.normalization != wanted.normalization:
        return Decision(job, "part", "another normalisation", (), fresh)
    return Decision(job, "keep", "finished")


def _large(jobs: list[UnitJob]) -> bool:
    """Whether hashing the worlds takes long enough for threads to pay, by a sample of them."""
    sizes = [os.path.getsize(path) for job in jobs[::max(1, len(jobs) // 50)] for path in job.roles.values()
             if os.path.isfile(path)]
    return bool(sizes) and sum(sizes) > len(sizes) << 20


def _may_change(id: str, unit: UnitFile, wanted: Wanted) -> bool:
    """Whether one of the scorers that an unavailable metric names was lacking, and is here now."""
    if unit.lacking is None:
        return id in wanted.came
    return bool(wanted.needed(id) & wanted.here & set(unit.lacking))
