"""``spatialbench batch``: many worlds, from files to a folder of results."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from spatialbench.cli.options import export_options, thinning_options
from spatialbench.cli.scoring_options import scoring_options

if TYPE_CHECKING:
    from spatialbench.runs.batch import Batch, Board
    from spatialbench.runs.batch.decide import Decision
    from spatialbench.runs.batch.spending import Spending
    from spatialbench.runs.scoring import Scoring
    from spatialbench.scorers.judge import JudgeSession
    from spatialbench.types.profile import ExporterProfile

__all__ = ["batch"]

_SHOWN = 20
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def read_bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """``800M``, ``4G``, ``2.5GB``."""
    if value is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)B?\s*", value, re.IGNORECASE)
    if not match or float(match[1]) <= 0:
        raise click.BadParameter(f"'{value}' is no amount of memory such as 4G or 800M")
    return int(float(match[1]) * _UNITS[match[2].upper()])


@click.command()
@click.argument("suite", required=False, type=click.Path(path_type=Path))
@click.option("--worlds", metavar="FOLDER|URL",
              help="Folder of the worlds [default: that of the suite]; with --executor ray also s3://... and the like.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Result folder.")
@click.option("--protocol", help="Packaged protocol or YAML file [default: the suite's, or happyworld-spatial-1].")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override one key of the protocol.")
@click.option("--by-folder", is_flag=True, help="Without a suite: the first folder of a path is the system.")
@click.option("--only", multiple=True, metavar="KIND=PATTERN",
              help="Only metric=M08, case='kitchen*', system=NAME; repeatable.")
@click.option("--shard", metavar="I/N", help="Only the I-th of N parts (from 0), for N machines and one folder.")
@export_options
@thinning_options
@scoring_options
@click.option("--force", is_flag=True, help="Run what is finished again.")
@click.option("--retry-failed", is_flag=True,
              help="Run again what crashed or met a limit, and metrics that were unavailable.")
@click.option("--retries", type=click.IntRange(0, 10), default=1, show_default=True,
              help="Further attempts after a crash or a limit, in a fresh worker.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Worker processes [default: half the CPUs].")
@click.option("--memory-limit", callback=read_bytes, metavar="SIZE",
              help="Memory of each worker, such as 4G [default: its part of 90 % of the memory].")
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), default=1800.0, show_default=True,
              metavar="SECONDS", help="For one unit.")
@click.option("--executor", default="local", show_default=True, metavar="local|ray",
              help="Where units run: on this machine, or on the nodes of a Ray cluster (docs/cluster.md).")
@click.option("--address", metavar="HOST:PORT", help="Of the Ray cluster [default: the one that this machine is in].")
@click.option("--unit-cpus", type=click.IntRange(1, 1024),
              help="CPUs that a unit keeps in the cluster, and its threads [default: 1].")
@click.option("--unit-memory", callback=read_bytes, metavar="SIZE",
              help="Memory that a unit keeps in the cluster [default: --memory-limit, or 4G].")
@click.option("--unit-gpus", type=click.FloatRange(min=0), help="GPUs that a unit keeps in the cluster [default: 0].")
@click.option("--scorer-service", is_flag=True,
              help="One process opens the learned scorers for all workers, also where they compute on the CPU; on a "
                   "GPU it always does.")
@click.option("--no-pages", is_flag=True, help="Skip report.html.")
@click.option("--dry-run", is_flag=True, help="Say what would run and why, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON and nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def batch(suite: Path | None, worlds: str | None, out: Path, protocol: str | None, settings: tuple[str, ...],
          by_folder: bool, only: tuple[str, ...], shard: str | None, profile: ExporterProfile | None,
          opacity: Literal["logit", "activated"] | None, max_splats: int | None, drop_outliers: bool,
          scoring: Scoring, force: bool, retry_failed: bool, retries: int, workers: int | None,
          memory_limit: int | None, time_limit: float, executor: str, address: str | None, unit_cpus: int | None,
          unit_memory: int | None, unit_gpus: float | None, scorer_service: bool, no_pages: bool, dry_run: bool,
          as_json: bool, quiet: bool) -> int:
    """Score all worlds of SUITE, or every world in the folder that --worlds names.

    Can be stopped at any moment; the same command continues. What is finished is only run again when its input, or
    what the protocol says about a metric, has changed.
    """
    from spatialbench.cli.batch_display import watching
    from spatialbench.runs.batch import BatchOptions, open_batch, parse_only, parse_shard
    from spatialbench.runs.batch.ray_cluster import RayOptions
    from spatialbench.runs.batch.remote import is_url

    url = worlds if worlds is not None and is_url(worlds) else ""
    given = {k: v for k, v in (("address", address), ("unit_cpus", unit_cpus), ("unit_memory", unit_memory),
                               ("unit_gpus", unit_gpus)) if v is not None}
    options = BatchOptions(
        out=out, worlds=None if worlds is None or url else Path(worlds), worlds_url=url, suite=suite,
        protocol=protocol, settings=settings, by_folder=by_folder,
        only=parse_only(only), shard=None if shard is None else parse_shard(shard), profile=profile,
        opacity=opacity, max_splats=max_splats, drop_outliers=drop_outliers, scoring=scoring, force=force,
        scorer_service=scorer_service,
        retry_failed=retry_failed, retries=retries, workers=workers, memory_limit=memory_limit, time_limit=time_limit,
        pages=not no_pages, executor=executor, ray=RayOptions(**given) if given else None)  # type: ignore[arg-type]
    with _stoppable():
        work = open_batch(options)
        if dry_run:
            _say_plan(work, work.decide(), as_json, quiet)
            return 0
        try:
            with watching(quiet or as_json) as watcher:
                for note in work.notes:
                    watcher.say(note)
                board = work.run(watcher)
        except KeyboardInterrupt:
            click.echo("interrupted: what is finished stays, and the same command continues", err=True)
            if not (quiet or as_json):
                _say_judge(work.spending, err=True)
            return 130
    _say_end(work, board, as_json, quiet)
    return 1 if board.stopped or board.failed or board.kept_failed else 0


@contextmanager
def _stoppable() -> Iterator[None]:
    """A request to end is treated as Ctrl-C, so that workers end with us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say_plan(work: Batch, decisions: list[Decision], as_json: bool, quiet: bool) -> None:
    if as_json:
        click.echo(json.dumps([{"unit": d.job.unit, "action": d.action, "why": d.damaged or d.why,
                                "metrics": list(d.metrics)} for d in decisions]))
        return
    if quiet:
        return
    for note in work.notes:
        click.echo(note, err=True)
    for d in decisions:
        if d.action != "keep":
            click.echo(f"{d.job.unit}: {_ACTIONS[d.action]}: {d.damaged or d.why}")
    count = Counter(d.action for d in decisions)
    failed = sum(d.failed for d in decisions)
    said = f" ({failed} of them failed; --retry-failed or --force runs them again)" if failed else ""
    click.echo(f"{len(decisions)} units: {count['run'] + count['part']} to run, {count['write']} without anything to "
               f"run, {count['keep']} finished{said}")


_ACTIONS = {"run": "run", "part": "run in part", "write": "nothing to run"}


def _say_end(work: Batch, board: Board, as_json: bool, quiet: bool) -> None:
    out = work.options.out
    data: dict[str, Any] = {
        "out": str(out), "units": board.total, "done": board.done, "failed": board.failed, "skipped": board.skipped,
        "kept": board.kept, "kept_failed": board.kept_failed, "left": board.left, "stopped": board.stopped,
        "failures": [{"unit": unit, "reason": reason} for unit, reason in board.failures],
        "judge": [{"model": use.model, "endpoint": use.endpoint, **vars(use.tally), "doubts": dict(use.doubts)}
                  for use in work.spending.uses], "judge_spent": work.spending.spent}
    if as_json:
        click.echo(json.dumps(data))
        return
    if board.stopped:
        click.echo(f"error: stopped, with {board.left} units left: {board.stopped}. Then give the same command again, "
                   "which continues", err=True)
    if quiet:
        return
    for unit, reason in board.failures[:_SHOWN]:
        click.echo(f"failed: {unit}: {reason}")
    more = board.failed + board.kept_failed - min(len(board.failures), _SHOWN)
    if more > 0:
        click.echo(f"failed: and {more} more")
    skipped = f", {board.skipped} skipped" if board.skipped else ""
    click.echo(f"{board.done} done, {board.failed} failed{skipped}, {board.kept} kept from before"
               + (f" ({board.kept_failed} of them failed)" if board.kept_failed else ""))
    if board.kept_failed:
        click.echo("run failed ones again with --retry-failed (crashes and limits) or --force")
    _say_judge(work.spending)
    click.echo(f"results: {out}")
    if not board.stopped:
        click.echo(f"tables:  spatialbench summarize {out}")


def _say_judge(spending: Spending, err: bool = False) -> None:
    """What all workers together have asked, as ``run`` says it of a world; and what is spent of a cap."""
    from spatialbench.cli.judge import describe

    for use in spending.uses:
        # A session is more than is needed here: it names the model and its place by ``backend``.
        click.echo(describe(use.tally, cast("JudgeSession", SimpleNamespace(backend=use))), err=err)
        for doubt, units in sorted(use.doubts.items()):
            click.echo(f"warning: {doubt} (in {units} unit{'s' * (units != 1)})", err=err)
    if spending.most is not None and spending.uses:
        click.echo(f"spent so far in this folder: {spending.spent:.4f} of {spending.most:g}", err=err)
