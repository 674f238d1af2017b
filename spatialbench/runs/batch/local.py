"""Long-lived worker processes on this machine, watched for time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from spatialbench.errors import ResultError, SpatialbenchError
from spatialbench.runs.batch.executor import Event, Task

__all__ = ["ONE_THREAD", "LocalExecutor", "cpu_count", "memory_total"]

WORKER = "spatialbench.cli.batch_worker"
_LOOK = 0.2
_CHILDREN = 1.0
_LONGEST_LINE = 1 << 20
_START_LIMIT = 300.0
_FAILED_STARTS = 3


ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TBB_NUM_THREADS")}
"""For libraries with threads of their own: in several workers they would only take CPUs from each other, and their
number could show in the last bits. What the environment says stands."""


@dataclass(eq=False)
class _Slot:
    """One place for a worker, whatever process is in it now."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    watched: psutil.Process | None = None
    generation: int = 0
    task: Task | None = None
    job: int = 0
    began: float = 0.0
    ready: bool = False
    peak: int = 0
    looked: float = 0.0
    children: list[psutil.Process] = field(default_factory=list)
    looked_for_children: float = 0.0


class LocalExecutor:
    """The executor of one machine. Use it from one thread, which must outlive the workers.

    Parameters
    ----------
    workers : processes.
    logs : folder for what libraries print.
    memory_limit : bytes of resident memory of a worker and its children.
    time_limit : seconds for a unit.
    module : whose ``main()`` is the worker.
    log_suffix : tells the logs of shards apart.
    """

    def __init__(self, workers: int, logs: Path, *, memory_limit: int, time_limit: float, module: str = WORKER,
                 log_suffix: str = "") -> None:
        self._slots = [_Slot(i + 1) for i in range(workers)]
        self._logs, self._memory, self._time = logs, memory_limit, time_limit
        self._module, self._suffix = module, log_suffix
        self._lines: queue.Queue[tuple[_Slot, int, bytes]] = queue.Queue()
        self._jobs = self._failed_starts = 0

    def start(self, units: int) -> None:
        """Start as many workers as there is work for."""
        self._slots = self._slots[:max(1, min(len(self._slots), units))]
        try:
            self._logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultError(f"cannot be made: {error.strerror}", where=str(self._logs),
                              todo="Free some space or choose another folder with -o") from error
        for slot in self._slots:
            self._spawn(slot)

    def free(self) -> int:
        return sum(s.task is None for s in self._slots)

    def places(self) -> int:
        return len(self._slots)

    def submit(self, task: Task) -> None:
        slot = next(s for s in self._slots if s.task is None)
        if slot.process is None:
            self._spawn(slot)
        self._jobs += 1
        slot.task, slot.job = task, self._jobs
        self._give(slot)

    def poll(self, timeout: float) -> list[Event]:
        events: list[Event] = []
        end = time.monotonic() + timeout
        while True:
            wait = min(_LOOK, max(0.0, end - time.monotonic()))
            try:
                slot, generation, line = self._lines.get(timeout=wait) if wait else self._lines.get_nowait()
                if generation == slot.generation:
                    self._take(slot, line, events)
            except queue.Empty:
                pass
            for slot in self._slots:
                self._watch(slot, events)
            if (events and self._lines.empty()) or time.monotonic() >= end:
                return events

    def stop(self) -> None:
        for slot in self._slots:
            self._kill(slot)

    def _give(self, slot: _Slot) -> None:
        assert slot.process is not None and slot.process.stdin is not None and slot.task is not None
        slot.began, slot.peak = time.monotonic(), 0
        # A dead worker is noticed when its output ends.
        with contextlib.suppress(OSError):
            slot.process.stdin.write(json.dumps({"job": slot.job, **slot.task.message}).encode() + b"\n")
            slot.process.stdin.flush()

    def _spawn(self, slot: _Slot) -> None:
        # The path of modules is the parent's: `-m` would put the current folder first, and with it any file there.
        code = f"import sys; sys.path[:] = {sys.path!r}; from {self._module} import main; main()"
        env = {**ONE_THREAD, **os.environ, "PYTHONUNBUFFERED": "1"}
        env.setdefault("SPATIALBENCH_THREADS", str(max(1, cpu_count() // len(self._slots))))
        with open(self._log(slot), "ab") as log:
            slot.process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log, env=env, start_new_session=True)
        slot.generation += 1
        slot.ready, slot.children, slot.looked_for_children = False, [], 0.0
        slot.watched = psutil.Process(slot.process.pid)
        threading.Thread(target=self._read, args=(slot, slot.generation, slot.process.stdout), daemon=True).start()

    def _log(self, slot: _Slot) -> Path:
        return self._logs / f"worker{self._suffix}-{slot.number}.log"

    def _read(self, slot: _Slot, generation: int, stream: Any) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := stream.readline(_LONGEST_LINE):
                self._lines.put((slot, generation, line))
            stream.close()
        self._lines.put((slot, generation, b""))

    def _take(self, slot: _Slot, line: bytes, events: list[Event]) -> None:
        if not line:
            self._ended(slot, events)
            return
        try:
            data = json.loads(line)
            if data.get("ready"):
                slot.ready, self._failed_starts = True, 0
                if slot.task is not None:
                    slot.began = time.monotonic()  # a worker's own start is not the unit's time
                return
            if slot.task is None or data["job"] != slot.job:
                return
            if "at" in data:
                events.append(Event("at", slot.task.unit, label=str(data["at"]), step=int(data["done"]),
                                    steps=int(data["total"]), where=str(slot.number)))
                return
            end, reason = str(data["end"]), str(data["reason"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._fail(slot, "crash", "the worker sent something that is no message", events)
            return
        if end in ("done", "failed", "disk"):
            self._look_at_memory(slot)
            judge = data.get("judge")
            self._finish(slot, end, reason, events, measured=tuple(data.get("measured", ())),
                         note=str(data.get("note", "")), judge=judge if isinstance(judge, dict) else None)
            if slot.peak > self._memory // 2 and self._resident(slot) > self._memory // 2:
                self._kill(slot)  # what the last unit left behind would count against the next
        else:
            self._fail(slot, "memory" if end == "memory" else "crash", reason, events)

    def _ended(self, slot: _Slot, events: list[Event]) -> None:
        code = slot.process.wait() if slot.process else 0
        text = f"the worker ended by itself (exit code {code})"
        if code < 0:
            with contextlib.suppress(ValueError):
                text = f"the worker was killed by {signal.Signals(-code).name}"
        if slot.ready and slot.task is not None:
            self._fail(slot, "crash", text, events)
            return
        self._kill(slot)
        if not slot.ready:
            self._failed_starts += 1
            if self._failed_starts >= _FAILED_STARTS:
                raise SpatialbenchError(f"workers do not start: {text}", where=str(self._log(slot)),
                                        todo="Its last lines say why; 'spatialbench doctor' may help")
            self._spawn(slot)
            if slot.task is not None:
                self._give(slot)

    def _watch(self, slot: _Slot, events: list[Event]) -> None:
        now = time.monotonic()
        if slot.task is None or now - slot.looked < _LOOK:
            return
        slot.looked = now
        self._look_at_memory(slot)
        limit = slot.task.memory_limit or self._memory
        if slot.peak > limit:
            self._fail(slot, "memory", f"it took more than the memory limit of {limit / 1e6:.0f} MB", events)
        elif now - slot.began > (self._time if slot.ready else self._time + _START_LIMIT):
            self._fail(slot, "time", f"it took longer than the time limit of {self._time:g} s", events)

    def _look_at_memory(self, slot: _Slot) -> None:
        slot.peak = max(slot.peak, self._resident(slot))

    def _resident(self, slot: _Slot) -> int:
        """Bytes of the worker and what it has started."""
        if slot.watched is None:
            return 0
        now, total = time.monotonic(), 0
        with contextlib.suppress(psutil.Error):
            if now - slot.looked_for_children > _CHILDREN:
                slot.looked_for_children, slot.children = now, slot.watched.children(recursive=True)
            total = slot.watched.memory_info().rss
        for child in slot.children:
            with contextlib.suppress(psutil.Error):
                total += child.memory_info().rss
        return total

    def _fail(self, slot: _Slot, kind: str, reason: str, events: list[Event]) -> None:
        self._kill(slot)
        self._finish(slot, kind, reason, events)

    def _finish(self, slot: _Slot, kind: str, reason: str, events: list[Event], *, measured: Sequence[str] = (),
                note: str = "", judge: Mapping[str, Any] | None = None) -> None:
        assert slot.task is not None
        events.append(Event(kind, slot.task.unit, reason=reason, measured=tuple(measured), note=note, judge=judge,
                            seconds=time.monotonic() - slot.began, peak_bytes=slot.peak, where=str(slot.number)))
        slot.task = None

    def _kill(self, slot: _Slot) -> None:
        """End the process with all that it started; the next task gets a fresh one."""
        process, slot.process, slot.watched = slot.process, None, None
        slot.generation += 1
        if process is None:
            return
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()
        if process.stdin is not None:  # its reader closes the other end
            with contextlib.suppress(OSError, ValueError):
                process.stdin.close()


def cpu_count() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def memory_total() -> int:
    """Bytes of memory of this machine, or of the container."""
    total = int(psutil.virtual_memory().total)
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            total = min(total, int(Path(name).read_text(encoding="ascii")))
    return total
