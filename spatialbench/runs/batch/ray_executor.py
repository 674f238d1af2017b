"""Units on the nodes of a Ray cluster: one actor for each unit that runs, each with a worker process of its own.

Ray places the actors and says when one is gone; a unit that was in it runs again elsewhere, which is not counted as
its own failure. Only JSON text goes through Ray; results go to the result folder, which every node mounts.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import spatialbench
from spatialbench.errors import SpatialbenchError
from spatialbench.runs.batch.executor import Event, Task
from spatialbench.runs.batch.local import WORKER
from spatialbench.runs.batch.ray_actor import UnitRunner, event_of
from spatialbench.runs.batch.ray_cluster import RayOptions, capacity, connect, work_failed
from spatialbench.runs.batch.remote import RemoteWorlds
from spatialbench.runs.store import write_text

__all__ = ["DEFAULT_MEMORY", "RayExecutor"]

DEFAULT_MEMORY = 4 * 10**9
"""Bytes for a unit."""
LOSSES = 3
"""So often a unit is begun again elsewhere after its node, or Ray's process there, was lost."""
_STEP = 1.0
_LOOK = 5.0
_PATIENCE = 900.0
"""Seconds without one node that could hold a unit, for clusters that grow when there is work."""
_BAD_STARTS = 5
_FAREWELL = 5.0


@dataclass(eq=False)
class _Slot:
    """An actor, and what is asked of it: ``ref`` is the one call under way."""

    number: int
    actor: Any
    ref: Any
    ready: bool = False
    node: str = ""
    task: Task | None = None


@dataclass(eq=False)
class RayExecutor:
    """The executor of a Ray cluster.

    Parameters
    ----------
    out : result folder, absolute; on a file system that all nodes share.
    ray : address and what a unit keeps of a node.
    workers : most units at a time; with None as many as the nodes hold. A number is asked of the cluster in any case,
        so that one that grows by itself does.
    memory_limit : bytes of resident memory of a worker; what a unit keeps when None.
    time_limit : seconds for a unit.
    module, log_suffix : as of ``LocalExecutor``.
    remote : where the worlds are when not on a file system; their paths in tasks are those of its stand-ins.
    """

    out: Path
    options: RayOptions
    workers: int | None = None
    memory_limit: int | None = None
    time_limit: float = 1800.0
    module: str = WORKER
    log_suffix: str = ""
    remote: RemoteWorlds | None = None
    _ray: Any = None
    _ours: bool = False
    _units: int = 0
    _finished: set[str] = field(default_factory=set)
    _slots: dict[int, _Slot] = field(default_factory=dict)
    _pending: deque[Task] = field(default_factory=deque)
    _sure: set[str] = field(default_factory=set)
    _lost: Counter[str] = field(default_factory=Counter)
    _lost_on: dict[str, str] = field(default_factory=dict)
    _token: str = ""
    _looked: float = 0.0
    _room: int = 0
    _had_room: float = 0.0
    _bad_starts: int = 0
    _quiet: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def start(self, units: int) -> None:
        """Connect, and ask for as many actors as there is work and room for.

        Raises
        ------
        BackendUnavailableError, UsageError : no cluster. SpatialbenchError : none of its nodes can hold a unit.
        ResultError : the result folder cannot be written.
        """
        # Ray prints what happens to nodes on standard output, which is for our results.
        self._quiet.enter_context(contextlib.redirect_stdout(sys.stderr))
        self._ray, self._ours = connect(self.options.address)
        self._units, self._had_room = units, time.monotonic()
        self._token = secrets.token_hex(16)
        write_text(self.out / self._mark, self._token)
        self._grow()
        if self._room == 0 and self.workers is None:
            raise SpatialbenchError(f"no node of the cluster has {self._asked()} for a unit", where="--executor ray",
                                    todo="Ask for less with --unit-cpus, --unit-memory and --unit-gpus, or give "
                                         "--workers to wait for nodes that come when there is work")

    def free(self) -> int:
        return max(0, sum(s.ready and s.task is None for s in self._slots.values()) - len(self._pending))

    def places(self) -> int:
        return max(1, len(self._slots))

    def submit(self, task: Task) -> None:
        """Start one, or keep it until there is a place."""
        self._finished.discard(task.unit)
        self._pending.append(task)
        self._assign()

    def poll(self, timeout: float) -> list[Event]:
        events: list[Event] = []
        end = time.monotonic() + timeout
        while not events:
            self._grow()
            self._assign()
            left = max(0.0, end - time.monotonic())
            waiting = {s.ref: s for s in self._slots.values() if s.ref is not None}
            if not waiting:
                time.sleep(min(left, 0.2))
            else:
                done, _ = self._ray.wait(list(waiting), num_returns=1, timeout=left)
                if done:  # and what else has come by now
                    done, _ = self._ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
                for ref in done:
                    self._take(waiting[ref], events)
            if time.monotonic() >= end:
                break
        return events

    def stop(self) -> None:
        with self._quiet:
            self._stop()

    def _stop(self) -> None:
        if self._ray is None:
            return
        ray, self._ray = self._ray, None
        slots, self._slots = list(self._slots.values()), {}
        with contextlib.suppress(Exception):
            asked = [s.actor.stop.remote() for s in slots]
            ray.wait(asked, num_returns=len(asked), timeout=_FAREWELL) if asked else None
        for slot in slots:
            with contextlib.suppress(Exception):
                ray.kill(slot.actor)
        if self._ours:
            with contextlib.suppress(Exception):
                ray.shutdown()
        with contextlib.suppress(OSError):
            (self.out / self._mark).unlink(missing_ok=True)

    @property
    def _mark(self) -> str:
        return f".ray{self.log_suffix}-{os.getpid()}"

    @property
    def _memory(self) -> int:
        """Bytes that a unit keeps."""
        return self.options.unit_memory or self.memory_limit or DEFAULT_MEMORY

    def _grow(self) -> None:
        """Actors for the places and work that there are, now and then; a node that joins is used."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            o = self.options
            self._room = capacity(self._ray.nodes(), {"CPU": o.unit_cpus, "memory": self._memory, "GPU": o.unit_gpus})
            if self._room or any(s.ready for s in self._slots.values()):
                self._had_room = now
            elif now - self._had_room > _PATIENCE:
                raise SpatialbenchError(f"for {_PATIENCE / 60:.0f} minutes no node of the cluster had {self._asked()} "
                                        "for a unit", where="--executor ray", todo="Start nodes; the same command "
                                        "continues")
            want = min(self._units - len(self._finished), self._room if self.workers is None else self.workers)
            number = 1
            while len(self._slots) < want:
                if number not in self._slots:
                    self._slots[number] = self._new(number)
                number += 1
        left = self._units - len(self._finished)
        if len(self._slots) > left:
            for slot in [s for s in self._slots.values() if s.task is None][:len(self._slots) - max(1, left)]:
                self._drop(slot)  # others may use its place

    def _new(self, number: int) -> _Slot:
        o = self.options
        settings = {
            "out": str(self.out), "mark": self._mark, "token": self._token, "version": spatialbench.__version__,
            "memory_limit": self.memory_limit or self._memory, "limit_is_firm": self.memory_limit is not None,
            "time_limit": self.time_limit, "module": self.module, "threads": o.unit_cpus,
            "log_suffix": f"{self.log_suffix}-ray{number}",
            "not_a_path": "" if {"", os.getcwd()} & set(sys.path) else os.getcwd()}
        actor = self._ray.remote(UnitRunner).options(
            num_cpus=o.unit_cpus, num_gpus=o.unit_gpus, memory=self._memory, max_restarts=0, max_task_retries=0,
            scheduling_strategy="SPREAD").remote(json.dumps(settings))
        return _Slot(number, actor, actor.hello.remote())

    def _drop(self, slot: _Slot) -> None:
        del self._slots[slot.number]
        with contextlib.suppress(Exception):
            self._ray.kill(slot.actor)

    def _assign(self) -> None:
        for slot in self._slots.values():
            if not self._pending:
                return
            if slot.ready and slot.task is None:
                slot.task = self._pending.popleft()
                self._begin(slot)

    def _begin(self, slot: _Slot) -> None:
        assert slot.task is not None
        t = slot.task
        data = {"unit": t.unit, "message": t.message, "memory_limit": t.memory_limit, "sure": t.unit in self._sure,
                "fetch": None if self.remote is None else self.remote.needs(t.message["roles"])}
        slot.ref = slot.actor.step.remote(json.dumps(data), _STEP)

    def _take(self, slot: _Slot, events: list[Event]) -> None:
        ref, slot.ref = slot.ref, None
        try:
            reply: dict[str, Any] = json.loads(self._ray.get(ref))
        except self._ray.exceptions.RayTaskError as error:
            raise work_failed(error) from None
        except self._ray.exceptions.RayError as error:
            self._gone(slot, error, events)
            return
        if "error" in reply:
            raise SpatialbenchError(**{k: str(v) for k, v in reply["error"].items()})
        if not slot.ready:
            slot.ready, slot.node, self._bad_starts = True, str(reply["node"]), 0
            return
        assert slot.task is not None
        if "blind" in reply:
            if os.path.exists(reply["blind"]):
                raise SpatialbenchError(f"'{reply['blind']}' is not there", where=f"node {slot.node}",
                                        todo="Give --worlds on a file system that every node mounts at the same path")
            self._sure.add(slot.task.unit)
            self._begin(slot)
            return
        data = reply["event"]
        if data is not None:
            unit = slot.task.unit
            note = f"was begun again, for {self._lost_on[unit]} was lost" if unit in self._lost_on else ""
            events.append(event_of(data, str(slot.number), note))
            if data["kind"] != "at":
                if self.remote is not None:
                    self.remote.learn((str(n), int(size), str(sha)) for n, size, sha in reply["fetched"])
                self._end(slot.task)
                slot.task = None
                return
        slot.ref = slot.actor.step.remote("", _STEP)

    def _end(self, task: Task) -> None:
        self._finished.add(task.unit)
        self._lost_on.pop(task.unit, None)

    def _gone(self, slot: _Slot, error: Exception, events: list[Event]) -> None:
        """The actor is lost, or cannot be reached, which comes to the same."""
        task, self._looked = slot.task, 0.0
        self._drop(slot)
        if not slot.ready:
            self._bad_starts += 1
            if self._bad_starts > _BAD_STARTS + 2 * len(self._slots):
                raise work_failed(error)
        if task is None:
            return
        self._lost[task.unit] += 1
        where = f"the node {slot.node}, or Ray's process there,"
        if self._lost[task.unit] > LOSSES:
            self._end(task)
            events.append(Event("crash", task.unit, where=str(slot.number),
                                reason=f"{where} was lost while it ran, after {LOSSES} times elsewhere"))
            return
        self._lost_on[task.unit] = f"{where[:-1]}"
        events.append(Event("at", task.unit, label="its node was lost; it waits for another", where=str(slot.number)))
        self._pending.appendleft(task)

    def _asked(self) -> str:
        o = self.options
        gpus = f" and {o.unit_gpus:g} GPUs" if o.unit_gpus else ""
        return f"{o.unit_cpus} CPUs, {self._memory / 1e9:.1f} GB of memory{gpus}"
