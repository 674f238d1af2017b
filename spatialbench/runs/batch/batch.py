"""A whole batch: what is asked, what of it is there, and the run of the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from spatialbench.errors import UsageError
from spatialbench.runs.batch.decide import Decision, Wanted, decide_all
from spatialbench.runs.batch.engine import Board, EngineOptions, Watcher, run_units
from spatialbench.runs.batch.executor import Executor
from spatialbench.runs.batch.job import UnitJob
from spatialbench.runs.batch.keys import recipes
from spatialbench.runs.batch.local import ONE_THREAD, WORKER, LocalExecutor, cpu_count, memory_total
from spatialbench.runs.batch.lock import hold
from spatialbench.runs.batch.plan import Only, jobs_of, select
from spatialbench.runs.batch.planfile import BatchPlan
from spatialbench.runs.batch.ray_cluster import RayOptions
from spatialbench.runs.batch.ray_executor import RayExecutor
from spatialbench.runs.batch.remote import RemoteWorlds, open_remote
from spatialbench.runs.batch.spending import Spending
from spatialbench.runs.folder_plan import plan_folder
from spatialbench.runs.scorer_service.service import ScorerService, wants_service
from spatialbench.runs.scoring import Scoring, check_scoring
from spatialbench.runs.single import check_protocol, prepare
from spatialbench.runs.store import check_folder, prepare_folder
from spatialbench.runs.suite import plan_suite
from spatialbench.types import load_protocol
from spatialbench.types.profile import ExporterProfile
from spatialbench.types.suite import load_suite

__all__ = ["EXECUTORS", "Batch", "BatchOptions", "open_batch"]

DEFAULT_PROTOCOL = "happyworld-spatial-1"
_SHARE = 0.9
_BESIDE = {"image": "input image", "sidecar": "side-car"}


@dataclass(frozen=True)
class BatchOptions:
    """What a user can ask of ``batch``.

    Attributes
    ----------
    out : result folder.
    worlds : folder of the outputs; with a suite, its own folder when None.
    suite : suite file; every world of the folder when None.
    protocol : the suite's own, or the default, when None.
    by_folder : without a suite, the first folder of a path is the system.
    only, shard : which units and metrics.
    profile, opacity : what the user says of the program that wrote all the worlds; above what cases and systems say.
    max_splats, drop_outliers : how all worlds are read, above what cases say.
    force : run what is finished again. retry_failed: what has crashed or met a limit, and metrics that were
        unavailable.
    workers : half the CPUs when None. memory_limit : bytes for each; its part of 90 % of the memory when None.
    time_limit : seconds for a unit.
    executor, ray : where units run; the latter for ``ray`` only.
    worlds_url, remote : of worlds that are no files (``ray`` only), and what is there, filled in by ``open_batch``.
    module : of the worker.
    scoring : learned scorers and the judge, as every worker is told.
    scorer_service : one process opens the scorers for all workers, also on a CPU (``local`` only).
    """

    out: Path
    worlds: Path | None = None
    suite: Path | None = None
    protocol: str | None = None
    settings: tuple[str, ...] = ()
    by_folder: bool = False
    only: Only = field(default_factory=Only)
    shard: tuple[int, int] | None = None
    profile: ExporterProfile | None = None
    opacity: Literal["logit", "activated"] | None = None
    max_splats: int | None = None
    drop_outliers: bool = False
    force: bool = False
    retry_failed: bool = False
    retries: int = 1
    workers: int | None = None
    memory_limit: int | None = None
    time_limit: float = 1800.0
    pages: bool = True
    executor: str = "local"
    ray: RayOptions | None = None
    worlds_url: str = ""
    remote: RemoteWorlds | None = None
    module: str = WORKER
    scoring: Scoring = field(default_factory=Scoring)
    scorer_service: bool = False

    @property
    def told(self) -> dict[str, Any]:
        """``UnitJob.told``."""
        profile = None if self.profile is None else self.profile.model_dump(mode="json", exclude_defaults=True)
        said = (("profile", profile), ("opacity", self.opacity), ("max_splats", self.max_splats),
                ("drop_outliers", self.drop_outliers or None))
        return {k: v for k, v in said if v is not None}

    @property
    def worker_count(self) -> int:
        """Workers, as asked or by the CPUs."""
        return self.workers if self.workers is not None else max(1, cpu_count() // 2)


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch that was checked: its plan, the units that this call is for, what is to be said about it, and what its
    judge is asked and costs."""

    options: BatchOptions
    plan: BatchPlan
    jobs: tuple[UnitJob, ...]
    notes: tuple[str, ...]
    spending: Spending

    def decide(self, tell: Callable[[int], None] = lambda done: None) -> list[Decision]:
        """What would be done with each unit. Nothing is written."""
        o = self.options
        return decide_all(o.out, self.jobs, Wanted(self.plan.recipes, self.plan.protocol.normalization, o.force,
                                                   o.retry_failed, o.scoring.settings, o.scoring.judge,
                                                   self.plan.protocol.scorers.substitutes,
                                                   self.plan.protocol.judge.model), cpu_count(), tell)

    def run(self, watcher: Watcher, tell: Callable[[int], None] = lambda done: None) -> Board:
        """Take the folder, and do all that is to be done.

        Raises
        ------
        UsageError : another batch is working in the folder, or it cannot be made.
        SpatialbenchError : workers do not start. ResultError : the plan cannot be written.
        KeyboardInterrupt : what was finished stays, and the same call continues.
        """
        o = self.options
        prepare_folder(o.out)
        with hold(o.out, o.shard, plan_is=lambda: self.plan.is_written(o.out),
                  write_plan=lambda: self.plan.write(o.out)) as warning:
            if warning:
                watcher.say(warning)
            limit = int(memory_total() * _SHARE)
            self.spending.start()
            engine = EngineOptions(o.retries, o.memory_limit or limit, o.pages, o.scoring.sent(), self.service(),
                                   self.spending)
            return run_units(o.out, self.plan, self.decide(tell), lambda: EXECUTORS[o.executor](o), engine, watcher)

    def service(self) -> ScorerService | None:
        """The process that opens learned scorers for all workers; None where each opens its own. Starts nothing."""
        o = self.options
        if o.executor != "local" or not wants_service(self.plan.protocol, o.scoring, o.worker_count, o.scorer_service):
            return None
        return ScorerService(o.out / "logs" / f"scorers{_suffix(o)}.log", o.scoring, ONE_THREAD)


def open_batch(options: BatchOptions) -> Batch:
    """Check everything that can be before the first unit is run.

    Raises
    ------
    UsageError, InputError : an option, the suite, the protocol or the folder of worlds is at fault.
    """
    if options.executor not in EXECUTORS:
        raise UsageError(f"no executor '{options.executor}'", where="--executor",
                         todo=f"Known: {', '.join(EXECUTORS)}")
    if options.scoring.judge_dry_run:
        raise UsageError("a dry run of the judge is of one world: a batch would keep that nothing was asked",
                         where="--judge-dry-run", todo="Try a world alone (spatialbench run WORLD --case CASE "
                                                       "--judge-dry-run) and count its cases")
    if options.ray is not None and options.executor != "ray":
        raise UsageError("--address and --unit-... are for --executor ray", where=f"--executor {options.executor}",
                         todo="Leave them out, or choose that executor")
    if options.worlds_url and options.executor != "ray":
        raise UsageError("worlds at a URL are fetched by the nodes of --executor ray only", where="--worlds",
                         todo="Copy them, or mount the store, and give the folder")
    if options.scorer_service and options.executor != "local":
        raise UsageError("a scorer service is for the workers of one machine", where=f"--executor {options.executor}",
                         todo="Leave out --scorer-service: each worker of the cluster opens its own scorers")
    check_folder(options.out)
    prepare()
    if options.worlds_url:
        remote = open_remote(options.worlds_url)
        remote.attach(options.out)
        with remote.named():
            return _open(replace(options, worlds=remote.root, remote=remote))
    return _open(options)


def _open(options: BatchOptions) -> Batch:
    suite = None if options.suite is None else load_suite(options.suite)
    if suite is None and options.worlds is None:
        raise UsageError("neither a suite nor a folder of worlds was given", where="batch",
                         todo="Write: spatialbench batch --worlds FOLDER -o RESULTS")
    name = options.protocol or (suite.protocol if suite is not None else DEFAULT_PROTOCOL)
    protocol = load_protocol(name, options.settings)
    check_protocol(protocol)
    if options.executor == "local":  # the nodes of a cluster have other folders
        check_scoring(options.scoring, protocol)
    if suite is not None:
        found = plan_suite(suite, options.worlds)
    else:
        assert options.worlds is not None
        found = plan_folder(options.worlds, by_folder=options.by_folder)
    jobs = jobs_of(found, protocol.metrics, options.told)
    plan = BatchPlan(jobs, protocol, options.settings, recipes(protocol, protocol.metrics),
                     "" if suite is None else suite.id, 0 if suite is None else suite.version, options.told)
    notes = [*(() if options.remote is None else options.remote.notes), *found.notes,
             *(f"the {_BESIDE[p.role]} of case '{p.case_id}' is not there: {p.expected}" for p in found.problems
               if p.role in _BESIDE),
             *(f"'{name}' is claimed by no case" for name in found.extra[:20])]
    return Batch(options, plan, select(jobs, options.only, options.shard), tuple(notes),
                 Spending(options.out, options.scoring.max_cost, _suffix(options)))


def local(options: BatchOptions) -> Executor:
    """Worker processes on this machine."""
    workers = options.worker_count
    return LocalExecutor(workers, options.out / "logs",
                         memory_limit=options.memory_limit or int(memory_total() * _SHARE / workers),
                         time_limit=options.time_limit, module=options.module, log_suffix=_suffix(options))


def ray(options: BatchOptions) -> Executor:
    """Worker processes on the nodes of a Ray cluster."""
    return RayExecutor(options.out.absolute(), options.ray or RayOptions(), options.workers, options.memory_limit,
                       options.time_limit, options.module, _suffix(options), options.remote)


def _suffix(options: BatchOptions) -> str:
    """Tells the logs of shards apart."""
    return "" if options.shard is None else f"-{options.shard[0]}of{options.shard[1]}"


EXECUTORS: dict[str, Callable[[BatchOptions], Executor]] = {"local": local, "ray": ray}
"""By name of ``--executor``; a module for another one adds itself here."""
