"""The loop of a batch: gives out units, counts attempts, records what cannot be measured, and stops cleanly."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from spatialbench.errors import ResultError
from spatialbench.runs.batch.decide import Decision, nothing_to_run
from spatialbench.runs.batch.executor import Event, Executor, Task
from spatialbench.runs.batch.job import unit_folder
from spatialbench.runs.batch.keys import hash_inputs
from spatialbench.runs.batch.measure import kept_rows, write_without_values
from spatialbench.runs.batch.planfile import BatchPlan
from spatialbench.runs.batch.spending import Spending
from spatialbench.runs.batch.unitfile import inputs_digest
from spatialbench.runs.scorer_service.service import ScorerService
from spatialbench.types import Status

__all__ = ["Board", "EngineOptions", "Running", "Watcher", "run_units"]

_POLL = 1.0
_SHOWN = 1000


@dataclass(frozen=True)
class EngineOptions:
    """How units are run; nothing of it changes a result.

    Attributes
    ----------
    retries : further attempts, in a fresh worker, after a crash or a limit.
    alone_limit : bytes for the retry of a unit that took too much memory, when nothing else runs.
    pages : write ``report.html`` for each unit.
    scoring : ``Scoring.sent``, for every worker.
    spending : what the judge costs; None: it is not counted.
    service : that workers ask for learned scorers; None: each opens its own.
    """

    retries: int = 1
    alone_limit: int | None = None
    pages: bool = True
    scoring: Mapping[str, Any] = field(default_factory=dict)
    service: ScorerService | None = None
    spending: Spending | None = None


@dataclass(eq=False)
class Running:
    """What one worker does."""

    unit: str
    label: str
    step: int
    steps: int
    since: float


@dataclass(eq=False)
class Board:
    """Where a batch stands. ``done`` and ``failed`` count what this call has run, ``kept`` what was there."""

    total: int
    kept: int = 0
    kept_failed: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0
    measured: int = 0
    began: float = field(default_factory=time.monotonic)
    running: dict[str, Running] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)
    stopped: str = ""

    @property
    def left(self) -> int:
        """Units that are not finished."""
        return self.total - self.kept - self.done - self.failed - self.skipped

    @property
    def seconds_left(self) -> float | None:
        """By the pace so far; None before the first unit is done."""
        finished = self.done + self.failed
        return (time.monotonic() - self.began) / finished * self.left if finished else None


class Watcher(Protocol):
    """Is told how a batch goes."""

    def update(self, board: Board) -> None:
        """Something has moved."""

    def say(self, text: str) -> None:
        """A sentence worth reading now."""


@dataclass(eq=False)
class _Loop:
    out: Path
    plan: BatchPlan
    executor: Executor
    options: EngineOptions
    watcher: Watcher
    board: Board
    waiting: deque[Decision] = field(default_factory=deque)
    alone: deque[Decision] = field(default_factory=deque)
    running: dict[str, Decision] = field(default_factory=dict)
    attempts: dict[str, list[str]] = field(default_factory=dict)

    def run(self) -> None:
        log = _Attempts(self.out / "attempts.jsonl")
        try:
            while (self.waiting or self.alone or self.running) and not self.board.stopped:
                self._give_out()
                for event in self.executor.poll(_POLL):
                    self._take(event, log)
                    if self.board.stopped:
                        return
                if self.options.service is not None:
                    self.options.service.look()
                self.watcher.update(self.board)
        finally:
            log.close()

    def _give_out(self) -> None:
        while self.waiting and self.executor.free():
            self._submit(self.waiting.popleft(), None)
        if self.alone and not self.waiting and not self.running:
            self._submit(self.alone.popleft(), self.options.alone_limit)

    def _submit(self, d: Decision, memory: int | None) -> None:
        folder = unit_folder(self.out, d.job.system, d.job.case_id)
        service = self.options.service
        served: dict[str, Any] = {} if service is None else {"service": service.ticket().sent()}
        if (spending := self.options.spending) is not None:
            served |= spending.lend(d.job.unit, self.executor.places())
        message = d.job.message(self.plan.protocol, folder.absolute(), metrics=d.metrics, keep=d.keep,
                                settings=self.plan.settings, page=self.options.pages,
                                scoring={**self.options.scoring, **served})
        self.running[d.job.unit] = d
        self.executor.submit(Task(d.job.unit, message, memory))

    def _take(self, event: Event, log: _Attempts) -> None:
        if event.kind == "at":
            now = self.board.running.get(event.where)
            since = now.since if now is not None and now.unit == event.unit else time.monotonic()
            self.board.running[event.where] = Running(event.unit, event.label, event.step, event.steps, since)
            return
        self.board.running.pop(event.where, None)
        d = self.running.pop(event.unit)
        if self.options.spending is not None:
            self.options.spending.settle(event.unit, event.kind, event.judge)
        if event.kind == "disk":
            self.board.stopped = event.reason
            return
        before = self.attempts.setdefault(event.unit, [])
        log.add(event, len(before) + 1)
        if event.note:
            self.watcher.say(f"{event.unit}: {event.note}")
        if event.kind in ("done", "failed"):
            del self.attempts[event.unit]
            self.board.measured += len(event.measured)
            self._count(event.kind, event.unit, event.reason)
            return
        before.append(f"{event.kind}: {event.reason}")
        if len(before) <= self.options.retries:
            self.watcher.say(f"{event.unit}: {event.reason}; it is tried again")
            (self.alone if event.kind == "memory" else self.waiting).append(d)
            return
        self._give_up(d, event)

    def _give_up(self, d: Decision, event: Event) -> None:
        tried = tuple(self.attempts.pop(d.job.unit))
        folder = unit_folder(self.out, d.job.system, d.job.case_id)
        inputs = hash_inputs(d.job.roles, d.job.image, {})
        reason = f"{event.reason}, in each of {len(tried)} attempts" if len(tried) > 1 else event.reason
        write_without_values(d.job, folder, self.plan.protocol, d.metrics, status="failed", outcome=event.kind,
                             reason=reason, of_metrics=Status.UNAVAILABLE, inputs=inputs,
                             inputs_sha256=inputs_digest(inputs, d.job.case, d.job.told), attempts=tried,
                             kept=kept_rows(folder, d.keep))
        self._count("failed", d.job.unit, reason)

    def _count(self, kind: str, unit: str, reason: str) -> None:
        if kind == "done":
            self.board.done += 1
            return
        self.board.failed += 1
        _remember(self.board, unit, reason)
        self.watcher.say(f"{unit} failed: {reason}")


def run_units(out: Path, plan: BatchPlan, decisions: Iterable[Decision], executor: Callable[[], Executor],
              options: EngineOptions, watcher: Watcher) -> Board:
    """Do what was decided. Each unit ends with its ``unit.json``; a disk that refuses ends the batch, which the board
    says in ``stopped``. However it ends, no worker is left.

    Parameters
    ----------
    executor : makes one, which is only called when there is something to measure.

    Raises
    ------
    SpatialbenchError : workers do not start.
    KeyboardInterrupt : passed on.
    """
    every = list(decisions)
    board = Board(len(every))
    todo: deque[Decision] = deque()
    try:
        for d in every:
            if d.damaged:
                watcher.say(f"{d.job.unit}: {d.damaged}")
            if d.action == "keep":
                board.kept += 1
                if d.failed:
                    board.kept_failed += 1
                    _remember(board, d.job.unit, d.why.removeprefix("failed before: "))
            elif d.action == "write":
                _write_nothing(out, plan, d, board, watcher)
            else:
                todo.append(d)
        watcher.update(board)
        if todo:
            board.began = time.monotonic()
            pool = executor()
            try:
                pool.start(len(todo))
                _Loop(out, plan, pool, options, watcher, board, todo).run()
            finally:
                pool.stop()
                if options.service is not None:
                    options.service.stop()
                if options.spending is not None:
                    options.spending.close()
    except ResultError as error:
        board.stopped = str(error)
    except OSError as error:
        board.stopped = f"{error.filename or out}: {error.strerror or error}"
    return board


def _write_nothing(out: Path, plan: BatchPlan, d: Decision, board: Board, watcher: Watcher) -> None:
    status, outcome, reason, of_metrics = nothing_to_run(d.job)
    write_without_values(d.job, unit_folder(out, d.job.system, d.job.case_id), plan.protocol, d.metrics, status=status,
                         outcome=outcome, reason=reason, of_metrics=of_metrics, inputs=[],
                         inputs_sha256=inputs_digest([], d.job.case, d.job.told))
    if status == "skipped":
        board.skipped += 1
        return
    board.failed += 1
    _remember(board, d.job.unit, reason)
    watcher.say(f"{d.job.unit} failed: {reason}")


def _remember(board: Board, unit: str, reason: str) -> None:
    if len(board.failures) < _SHOWN:
        board.failures.append((unit, reason))


class _Attempts:
    """``attempts.jsonl``: one line for each attempt, with times; grows, and is never read back."""

    def __init__(self, path: Path) -> None:
        cut = path.exists() and path.stat().st_size > 0
        if cut:
            with open(path, "rb") as f:
                f.seek(-1, 2)
                cut = f.read(1) != b"\n"  # a line that a killed batch has not finished
        self._file = open(path, "a", encoding="utf-8", newline="\n")  # noqa: SIM115
        if cut:
            self._file.write("\n")

    def add(self, event: Event, number: int) -> None:
        line: dict[str, Any] = {
            "time": datetime.now(timezone.utc).isoformat(timespec="seconds"), "unit": event.unit, "attempt": number,
            "end": event.kind, "seconds": round(event.seconds, 3), "peak_mb": round(event.peak_bytes / 1e6, 1),
            "worker": event.where, "metrics": list(event.measured)}
        if event.reason:
            line["reason"] = event.reason
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
