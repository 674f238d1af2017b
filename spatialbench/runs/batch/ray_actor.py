"""What stands on a node of a Ray cluster: the local executor with one worker process, driven through lines of JSON.

The worker, its limits and its log are those of a local batch, so a unit that crashes costs neither the actor nor the
node, and its files are the same bytes. Nothing here needs Ray.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import spatialbench
from spatialbench.errors import SpatialbenchError
from spatialbench.runs.batch.executor import Event, Task
from spatialbench.runs.batch.local import LocalExecutor, memory_total
from spatialbench.runs.batch.remote import fetch

__all__ = ["NODE_SHARE", "UnitRunner"]

NODE_SHARE = 0.9
"""Of a node's memory, for a unit that runs alone."""
_LATE = 10.0
"""Seconds in which a network file system may hide a new file."""


class UnitRunner:
    """Runs one unit at a time. All methods are called from one thread, take and give JSON, and raise nothing that a
    user could act on: that is in the reply, as ``error``.

    Parameters
    ----------
    settings : JSON object: ``out`` (result folder), ``mark`` and ``token`` (a file there, and what is in it),
        ``memory_limit`` (bytes), ``limit_is_firm``, ``time_limit`` (seconds), ``module``, ``log_suffix``, ``threads``,
        ``not_a_path`` (folder that the cluster has put before the modules), ``version``.
    """

    def __init__(self, settings: str) -> None:
        self._settings: dict[str, Any] = json.loads(settings)
        self._node = platform.node()
        self._executor: LocalExecutor | None = None
        self._folder: Path | None = None
        self._fetched: list[tuple[str, int, str]] = []

    def hello(self) -> str:
        """Start the worker. ``{"node": name}``."""
        s = self._settings
        try:
            self._check()
            sys.path[:] = modules_path(sys.path, s["not_a_path"])
            os.environ["SPATIALBENCH_THREADS"] = str(s["threads"])
            out = Path(s["out"])
            self._executor = LocalExecutor(1, out / "logs", memory_limit=s["memory_limit"],
                                           time_limit=s["time_limit"], module=s["module"], log_suffix=s["log_suffix"])
            self._executor.start(1)
            with open(out / "logs" / f"worker{s['log_suffix']}-1.log", "a", encoding="utf-8") as log:
                log.write(f"== node {self._node}\n")
        except (SpatialbenchError, OSError) as error:
            return self._error(error)
        return json.dumps({"node": self._node})

    def step(self, task: str, seconds: float) -> str:
        """Begin a unit (``{"unit", "message", "memory_limit", "sure", "fetch"}``; empty: go on with the one that
        runs), and wait for its end, but not longer than ``seconds``. ``{"event": fields or null}``: the end, or where
        it is; with the end of a unit whose files were fetched ``"fetched"``, as ``remote.fetch`` gives it.

        A file that is not there is said as ``{"blind": path}`` and the unit is not begun, unless ``sure``.
        """
        assert self._executor is not None
        try:
            if task:
                data = json.loads(task)
                if data["fetch"] is not None:
                    failed = self._fetch(data)
                    if failed is not None:
                        return json.dumps({"event": asdict(failed), "fetched": []})
                message = data["message"]
                gone = [p for p in (*message["roles"].values(), message["image"]) if p and not os.path.exists(p)]
                if gone and not data["sure"]:
                    return json.dumps({"blind": gone[0], "node": self._node})
                self._executor.submit(Task(data["unit"], message, self._limit(data["memory_limit"])))
            event = self._wait(seconds)
            if event is None or event["kind"] == "at":
                return json.dumps({"event": event})
            self._clear()
            return json.dumps({"event": event, "fetched": self._fetched})
        except (SpatialbenchError, OSError) as error:
            return self._error(error)

    def stop(self) -> str:
        """End the worker."""
        if self._executor is not None:
            self._executor.stop()
        self._clear()
        return "{}"

    def _fetch(self, data: dict[str, Any]) -> Event | None:
        """Bring a unit's files here, and put their paths into its message; how it ended when that fails."""
        self._clear()
        needs, message, began = data["fetch"], data["message"], time.monotonic()
        self._folder = Path(tempfile.mkdtemp(prefix="spatialbench-")).resolve()
        try:
            self._fetched = fetch(needs, self._folder)
        except Exception as error:  # of the store's own package, too
            self._clear()
            return Event("crash", data["unit"], reason=f"its files cannot be fetched: {error}",
                         seconds=time.monotonic() - began)
        message["roles"] = {  # a case's side-cars lie in the suite's folder, as its image does
            role: path if role.startswith("sidecar.") else str(self._folder / os.path.relpath(path, needs["root"]))
            for role, path in message["roles"].items()}
        message["root"] = str(self._folder)
        return None

    def _clear(self) -> None:
        """Remove what was fetched."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _wait(self, seconds: float) -> dict[str, Any] | None:
        assert self._executor is not None
        end, last = time.monotonic() + seconds, None
        while (left := end - time.monotonic()) > 0:
            for event in self._executor.poll(left):
                if event.kind != "at":
                    return asdict(event)
                last = event
        return None if last is None else asdict(last)

    def _limit(self, given: int | None) -> int | None:
        """A unit that runs alone may take this node, whatever the coordinator's own memory is."""
        if given is None or self._settings["limit_is_firm"]:
            return given
        return max(int(memory_total() * NODE_SHARE), self._settings["memory_limit"])

    def _check(self) -> None:
        s = self._settings
        if s["version"] != spatialbench.__version__:
            raise SpatialbenchError(f"spatialbench {spatialbench.__version__} is installed, and the batch is run by "
                                    f"{s['version']}", where=f"node {self._node}",
                                    todo="Install the same version on every node")
        end = time.monotonic() + _LATE
        while True:
            try:
                if Path(s["out"], s["mark"]).read_text(encoding="ascii") == s["token"]:
                    return
            except (OSError, ValueError):
                pass
            if time.monotonic() > end:
                raise SpatialbenchError(f"the result folder '{s['out']}' is not the same folder there",
                                        where=f"node {self._node}",
                                        todo="Give a folder on a file system that every node mounts at the same path")
            time.sleep(0.5)

    def _error(self, error: SpatialbenchError | OSError) -> str:
        if isinstance(error, SpatialbenchError):
            what, where, todo = error.what, error.where, error.todo
        else:
            what, where, todo = error.strerror or str(error), str(error.filename or ""), "Check the disk"
        name = f"node {self._node}"
        where = where if where.startswith(name) else f"{name}, {where}" if where else name
        return json.dumps({"error": {"what": what, "where": where, "todo": todo}})


def modules_path(path: list[str], not_a_path: str) -> list[str]:
    """``sys.path`` without what the cluster has added: the packages that Ray brings for itself, and the folder that the
    batch was started in. A worker must see the modules that a local one sees."""
    ray = getattr(sys.modules.get("ray"), "__file__", None)
    inside = os.path.dirname(ray) + os.sep if ray else ""
    return [p for p in path if not (inside and p.startswith(inside)) and p != (not_a_path or None)]


def event_of(data: dict[str, Any], where: str, note: str = "") -> Event:
    """An event as it came, in a slot of the coordinator."""
    notes = "; ".join(filter(None, (str(data["note"]), note if data["kind"] != "at" else "")))
    return Event(**{**data, "measured": tuple(data["measured"]), "where": where, "note": notes})
