"""A worker's process: started once, asked job by job in lines, and ended with all that it started."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.worker.protocol import (
    PROTOCOL,
    Answer,
    Capability,
    Wanted,
    bad_answer,
    plain,
    read_answer,
    read_outputs,
    write_request,
)

__all__ = ["Worker"]

_MOST_LINE = 1 << 16
_TAIL = 4000
_GRACE_S = 10.0
_LOOK_S = 0.5
_FAILURES = 3
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "SYSTEMROOT",
         "USERPROFILE", "LOCALAPPDATA", "APPDATA", "COMSPEC", "PATHEXT")
_KEPT_BEGIN = ("LC_", "CUDA_", "NVIDIA_", "ROCM_", "HIP_", "OMP_", "MKL_", "OPENBLAS_", "XDG_")


class Worker:
    """One scorer's worker.

    Parameters
    ----------
    scorer : its id.
    command : what starts it, without a shell.
    timeout_s : for one job, the start of the process and of its model included.
    env : variables that it gets besides the machine's own; Python's and keys are not handed on.

    Asking raises ``BackendUnavailableError`` when the worker does not start, ends, takes too long or answers something
    that is no answer. It is then ended, and started again for the next job; after three failures in a row no more.
    """

    def __init__(self, scorer: str, command: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> None:
        self.scorer = scorer
        self._command, self._timeout_s, self._env = list(command), timeout_s, dict(env)
        self._running: _Running | None = None
        self._failures = 0
        self._about: Answer | None = None
        self._lock = threading.Lock()

    @property
    def identity(self) -> dict[str, str]:
        """Model, versions and hashes that it has named; empty before its first answer."""
        return {} if self._about is None else self._about.identity

    def ask(self, capability: Capability, arrays: Mapping[str, NDArray[Any]], parameters: Mapping[str, Any],
            wanted: Mapping[str, Wanted]) -> tuple[Answer, dict[str, NDArray[Any]]]:
        """One job: its answer and its arrays."""
        with self._lock, tempfile.TemporaryDirectory(prefix="spatialbench-job-", ignore_cleanup_errors=True) as name:
            if self._failures >= _FAILURES:
                raise BackendUnavailableError(f"the worker failed {_FAILURES} times in a row", where=self.scorer,
                                              todo="Correct it: python -m spatialbench.scorers.worker.check "
                                                   f"{self.scorer} --scorer-workers FILE")
            folder = Path(name)
            write_request(folder, capability, self.scorer, arrays, parameters)
            try:
                if self._running is None:
                    self._running = _Running(self.scorer, self._command, self._env)
                self._running.job(folder, self._timeout_s)
                answer = read_answer(folder, self.scorer)
                if self._about is not None and answer.identity != self._about.identity:
                    raise bad_answer(self.scorer, "it names another model, version or weights than before")
                outputs = read_outputs(folder, wanted, self.scorer) if wanted and answer.status == "ok" else {}
            except BaseException:  # also Ctrl-C: what it answers later would be taken for the next job's
                self._failures += 1
                self._end()
                raise
        self._failures, self._about = 0, answer
        if answer.status != "ok":
            raise BackendUnavailableError(
                f"the worker {'cannot do this' if answer.status == 'unsupported' else 'failed'}: "
                f"{plain(answer.message)[:500] or 'it does not say why'}", where=self.scorer,
                todo="See docs/workers.md" if answer.status == "unsupported" else "Correct what it names")
        return answer, outputs

    def close(self) -> int | None:
        """Let it end by itself, and end it when it does not. Its exit code; None when it was not running or had to be
        ended."""
        with self._lock:
            return self._end(_GRACE_S)

    def _end(self, grace_s: float = 0.0) -> int | None:
        running, self._running = self._running, None
        return None if running is None else running.end(grace_s)


class _Running:
    """A process that runs, with what it prints."""

    def __init__(self, scorer: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._scorer = scorer
        clean = {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith(_KEPT_BEGIN)}
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True, env=clean | dict(env) | {"HF_HUB_OFFLINE": "1", "SPATIALBENCH_OFFLINE": "1"})
        except (OSError, ValueError) as error:
            raise BackendUnavailableError(f"the worker cannot be started ({error})", where=scorer,
                                          todo="Check its command in the workers file") from None
        self._lines: queue.Queue[bytes] = queue.Queue(maxsize=16)
        self._stopped = threading.Event()
        self._tail = bytearray()
        assert self.process.stdout is not None and self.process.stderr is not None
        self._readers = [threading.Thread(target=_read_lines, args=(self.process.stdout, self._lines, self._stopped),
                                          daemon=True),
                         threading.Thread(target=_read_tail, args=(self.process.stderr, self._tail), daemon=True)]
        for reader in self._readers:
            reader.start()
        self._finalizer = weakref.finalize(self, _kill, self.process)

    def job(self, folder: Path, timeout_s: float) -> None:
        """Hand over a folder and wait until it is done with."""
        assert self.process.stdin is not None
        with suppress(OSError):  # it has ended: said below
            self.process.stdin.write(json.dumps({"spatialbench_worker": PROTOCOL, "job": str(folder)}).encode() + b"\n")
            self.process.stdin.flush()
        try:
            line = self._line(timeout_s)
        except queue.Empty:
            self.end()
            raise self._error(f"the worker did not answer within {timeout_s:g} s",
                              "Raise timeout_s in the workers file, or give it a faster device") from None
        if not line:
            self._wait(_GRACE_S)
            code = self.process.poll()
            self.end()
            raise self._error("the worker closed its output" if code is None
                              else f"the worker ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}",
                              "See what it printed")
        try:
            said = json.loads(line)
            right = said == {"spatialbench_worker": PROTOCOL, "job": str(folder), "done": True}
        except (ValueError, RecursionError):
            right = False
        if not right:
            self.end()
            raise self._error(f"the worker printed '{plain(line.decode(errors='replace'))[:120]}' instead of the line "
                              "that says that the job is done",
                              "Print everything else to standard error, as serve() of docs/workers.md does")

    def _line(self, timeout_s: float) -> bytes:
        """What it prints next; nothing when it has ended, also where something that it started keeps its output open.

        Raises
        ------
        queue.Empty : the time is over.
        """
        until = time.monotonic() + timeout_s
        while True:
            ended = self.process.poll() is not None  # before the look at what it had printed
            try:
                return self._lines.get(timeout=max(0.0, min(_GRACE_S if ended else _LOOK_S, until - time.monotonic())))
            except queue.Empty:
                if ended:
                    return b""
                if time.monotonic() >= until:
                    raise

    def end(self, grace_s: float = 0.0) -> int | None:
        """End it and all that it started; wait so long first that it does so by itself, and then say its exit code."""
        with suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        if grace_s:
            self._wait(grace_s)
        code = self.process.poll()
        self._stopped.set()
        self._finalizer()
        for reader in self._readers:
            reader.join(_GRACE_S)
        return code

    def _wait(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def _error(self, what: str, todo: str) -> BackendUnavailableError:
        tail = plain(bytes(self._tail).decode(errors="replace"), lines=True)
        lines = [t for t in tail.splitlines() if t.strip()][-12:]
        return BackendUnavailableError(what, where=self._scorer,
                                       todo=f"{todo}. Its last words: {' | '.join(lines)[-1500:]}" if lines else
                                       todo.replace("See what it printed", "It printed nothing"))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group, and reap it."""
    if hasattr(os, "killpg"):
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(OSError):
        process.kill()
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)


def _read_lines(stream: IO[bytes], lines: queue.Queue[bytes], stopped: threading.Event) -> None:
    """Each line to the queue, then an empty one; until nobody reads it any more."""
    with stream:
        line = b" "
        while line and not stopped.is_set():
            line = stream.readline(_MOST_LINE)
            while not stopped.is_set():
                with suppress(queue.Full):
                    lines.put(line, timeout=0.1)
                    break


def _read_tail(stream: IO[bytes], tail: bytearray) -> None:
    with stream:
        while block := os.read(stream.fileno(), 1 << 16):
            tail.extend(block)
            del tail[:-_TAIL]
