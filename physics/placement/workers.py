"""Trials in worker processes, one PyBullet client each, where a crash of it costs one trial.

The checked mesh goes through NumPy files in a temporary folder, releases and motions as lines of JSON (whose numbers
keep every bit) through pipes. Which worker makes a trial has no influence on its result.
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, SimulationError
from spatialbench.physics.placement.backend import load_pybullet
from spatialbench.physics.placement.release import Release
from spatialbench.physics.placement.session import Motion
from spatialbench.types.placement import PlacedObject, PlacementSettings

__all__ = ["WORKER", "end_words", "run_in_processes", "start_process", "write_job"]

WORKER = "spatialbench.physics.placement.worker"
_STARTS = 2
"""A worker that ends before it is ready is started again once."""
ALONE = 0.6
"""Seconds that the first worker is alone with few releases: light ones are done before others have started."""
_FEW = 24
Progress = Any


def write_job(folder: Path, v: NDArray[np.float64], f: NDArray[np.int64], settings: PlacementSettings,
              placed: PlacedObject, **more: Any) -> None:
    """Put what a worker needs into an empty folder."""
    np.save(folder / "vertices.npy", v, allow_pickle=False)
    np.save(folder / "faces.npy", f, allow_pickle=False)
    body = {**asdict(placed), "hull": placed.hull.tolist()}
    (folder / "job.json").write_text(json.dumps({"settings": settings.model_dump(mode="json"), "placed": body, **more}),
                                     encoding="utf-8")


def start_process(module: str, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A fresh interpreter with this one's module path, that runs ``module.main()`` on a folder."""
    # `-m` would put the current folder first, and with it any file there.
    code = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, str(folder), *arguments], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def end_words(code: int) -> str:
    """What an exit code says, in words."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended by itself (exit code {code})"


def run_in_processes(v: NDArray[np.float64], f: NDArray[np.int64], settings: PlacementSettings, placed: PlacedObject,
                     releases: Sequence[Release], record: int, workers: int, progress: Progress | None = None, *,
                     module: str = "") -> list[Motion]:
    """A motion for every release, in order; that of a crash has an ``error``.

    Parameters
    ----------
    v, f : checked mesh, as :func:`~spatialbench.physics.placement.session.open_session` takes it.
    workers : processes at most; where few releases are asked for, the others start when the first is not done soon.
    module : whose ``main()`` is the worker; our own when empty.

    Raises
    ------
    BackendUnavailableError : no PyBullet.
    SimulationError : the mesh is refused, or workers end while they load it.
    """
    load_pybullet()  # a missing one is said here, not by every worker
    module = module or WORKER
    with tempfile.TemporaryDirectory(prefix="spatialbench-place-") as name:
        folder = Path(name)
        write_job(folder, v, f, settings, placed, record=record)
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for k in range(len(releases)):
            todo.put(k)
        done: queue.SimpleQueue[tuple[int, Motion] | Exception] = queue.SimpleQueue()
        stop = threading.Event()
        drivers = [_Driver(folder, module, releases, todo, done, stop)
                   for _ in range(max(1, min(workers, len(releases))))]
        threads = [threading.Thread(target=d.run, daemon=True) for d in drivers]
        started: list[threading.Thread] = []
        until = time.monotonic() + (ALONE if len(releases) <= _FEW else 0.0)
        try:
            out: dict[int, Motion] = {}
            while len(out) < len(releases):
                while len(started) < (len(threads) if time.monotonic() >= until else 1):
                    started.append(threads[len(started)])
                    started[-1].start()
                try:
                    news = done.get(timeout=None if len(started) == len(threads) else
                                    max(0.0, until - time.monotonic()))
                except queue.Empty:
                    continue
                if isinstance(news, Exception):
                    raise news
                out[news[0]] = news[1]
                if progress is not None:
                    progress(len(out), len(releases))
        finally:
            stop.set()
            for d in drivers:
                d.kill()
            for t in started:
                t.join()
    return [out[k] for k in range(len(releases))]


@dataclass(eq=False)
class _Driver:
    """Gives one worker its releases, one at a time, and starts another when it has crashed."""

    folder: Path
    module: str
    releases: Sequence[Release]
    todo: queue.SimpleQueue[int]
    done: queue.SimpleQueue[tuple[int, Motion] | Exception]
    stop: threading.Event
    process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                try:
                    k = self.todo.get_nowait()
                except queue.Empty:
                    return
                self.done.put((k, self._one(self.releases[k])))
        except Exception as error:
            self.done.put(error)
        finally:
            self.kill()

    def _one(self, release: Release) -> Motion:
        process = self._ready()
        assert process.stdin is not None and process.stdout is not None
        line = json.dumps({"centre": release.centre, "quaternion": release.quaternion, "id": release.id})
        try:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = b""
        if answer:
            return _motion(json.loads(answer))
        words = end_words(process.wait())
        self.kill()
        return Motion(error=f"PyBullet crashed in this trial: its process {words}")

    def _ready(self) -> subprocess.Popen[bytes]:
        """The worker, with its scene loaded."""
        words = ""
        for _ in range(_STARTS):
            if self.process is None:
                self.process = start_process(self.module, self.folder)
                assert self.process.stdout is not None
                line = self.process.stdout.readline()
                if not line:
                    words = end_words(self.process.wait())
                    self.kill()
                    continue
                said = json.loads(line)
                if "refused" in said:
                    kind = BackendUnavailableError if said["unavailable"] else SimulationError
                    raise kind(said["refused"], where=said["where"], todo=said["todo"])
            return self.process
        raise SimulationError(f"PyBullet's process {words} while it loaded the mesh", where="placement",
                              todo="Look at the mesh with 'spatialbench inspect', and at the free memory")

    def kill(self) -> None:
        """End the worker, if there is one."""
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.close()


def _motion(data: dict[str, Any]) -> Motion:
    def three(key: str) -> tuple[float, float, float]:
        x, y, z = data[key]
        return x, y, z

    x, y, z, w = data["quaternion"]
    return Motion(three("position"), (x, y, z, w), three("velocity"), data["penetration"],
                  tuple(tuple(p) for p in data["path"]), data["error"])
