"""The coordinator's side of the scorer service: whether there is one, its start and end, what follows a crash."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.connection import arbitrary_address  # type: ignore[attr-defined]
from pathlib import Path

from spatialbench.errors import ResultError
from spatialbench.observe import REGISTRY
from spatialbench.runs.scorer_service.client import ServiceTicket, is_served
from spatialbench.runs.scoring import Scoring
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.scorers.registry import scorer_specs, scorer_status
from spatialbench.types import Protocol

__all__ = ["ScorerService", "served_scorers", "wants_service"]

SERVER = "spatialbench.runs.scorer_service.server"
_MOST_STARTS = 6
_GRACE = 5.0
_LONGEST = 70
"""Of the temporary folder's path: a socket's has at most 103 characters on some systems."""
_GPUS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


class ScorerService:
    """Starts the service when it is first asked for, and again when it has ended. Use it from one thread, which must
    outlive it.

    Parameters
    ----------
    log : file for what libraries print.
    scoring : of the batch.
    env : variables that a worker is given beside the environment's own.
    module : whose ``main()`` is the service.
    """

    def __init__(self, log: Path, scoring: Scoring, env: dict[str, str], module: str = SERVER) -> None:
        self._log, self._scoring, self._env, self._module = log, scoring, env, module
        self._token = secrets.token_hex(32)
        self._folder: Path | None = None
        self._address = ""
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Of the process, while it runs."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def ticket(self) -> ServiceTicket:
        """For the next unit; starts the service if it does not run.

        Raises
        ------
        ResultError : its log cannot be written.
        """
        self.look(start=True)
        ended = ""
        if self.pid is None:
            ended = f"the scorer service has ended {self.starts} times, and {self._log.name} may say why"
        return ServiceTicket(self._address, self._token, self.starts, ended)

    def look(self, start: bool = False) -> None:
        """Start it again if it was started and has ended, but not for ever."""
        if self.pid is None and (start or self.starts) and self.starts < _MOST_STARTS:
            self._end()
            self._start()

    def stop(self) -> None:
        """End it, with all that it has started. Safe to repeat."""
        self._end()
        self.starts = _MOST_STARTS if self.starts else 0
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _start(self) -> None:
        if not self._address:
            if os.name == "nt":
                self._address = str(arbitrary_address("AF_PIPE"))
            else:
                long = len(tempfile.gettempdir()) > _LONGEST
                self._folder = Path(tempfile.mkdtemp(prefix="spatialbench-", dir="/tmp" if long else None))
                self._address = str(self._folder / "scorers")
        with suppress(OSError):
            os.unlink(self._address)
        self.starts += 1
        code = f"import sys; sys.path[:] = {sys.path!r}; from {self._module} import main; main()"
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with open(self._log, "ab") as log:
                self._process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                                                 stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
                                                 env={**self._env, **os.environ, "PYTHONUNBUFFERED": "1"})
        except OSError as error:
            raise ResultError(f"cannot be written: {error.strerror}", where=str(self._log),
                              todo="Free some space or choose another folder with -o") from error
        order = {"address": self._address, "token": self._token, "scoring": self._scoring.sent()}
        assert self._process.stdin is not None
        with suppress(OSError):  # one that is dead already is noticed later
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError, ValueError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE if process.poll() is None else 0)
        with suppress(OSError):  # what it has started, and itself if it does not end
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()


def wants_service(protocol: Protocol, scoring: Scoring, workers: int, asked: bool) -> bool:
    """Whether a local batch has a scorer service: when it is asked for, and when a scorer that the protocol's metrics
    need would compute on a GPU; never for one worker on a CPU, which opens each scorer once anyway."""
    if not asked and not served_scorers(protocol, scoring):
        return False
    return _on_gpu(scoring) or (asked and workers > 1)


def served_scorers(protocol: Protocol, scoring: Scoring) -> list[str]:
    """Scorers that the protocol's metrics need, or their stand-ins, that can be used here and would be served."""
    needed = {protocol.scorers.substitutes.get(id, id) for metric in protocol.metrics
              for id in REGISTRY.metric(metric).spec.scorers if id != JUDGE}
    settings = scoring.settings
    return [id for id, spec in scorer_specs().items()
            if id in needed and is_served(spec) and not scorer_status(id, settings)]


def _on_gpu(scoring: Scoring) -> bool:
    """Whether scorers would compute on a GPU. torch, which is slow to import, is only asked where there may be one."""
    device = scoring.settings.device
    if device != "auto":
        return device.startswith("cuda")
    if find_spec("torch") is None or (sys.platform == "linux" and not any(map(os.path.exists, _GPUS))):
        return False
    import torch

    return bool(torch.cuda.is_available())
