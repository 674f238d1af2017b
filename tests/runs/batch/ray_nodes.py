"""A real Ray cluster on this machine, its nodes told apart by their loopback addresses."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import psutil

_RAY = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
_ENV = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}


class TestCluster:
    """Nodes with one CPU each; ``close`` leaves no process, whatever has happened."""

    __test__ = False

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="sbray")  # short: the paths of sockets are made from it
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{s.getsockname()[1]}"
        self._seen: dict[int, psutil.Process] = {}

    def start(self, number: int) -> None:
        """Node 1 is the head, the one that the batch itself runs on."""
        where = (["--head", f"--port={self.address.rpartition(':')[2]}", "--include-dashboard=false",
                  "--disable-usage-stats", f"--temp-dir={self.folder}"] if number == 1
                 else [f"--address={self.address}"])
        with open(os.path.join(self.folder, f"start{number}.log"), "wb") as log:
            started = subprocess.run([*_RAY, "start", *where, f"--node-ip-address=127.0.0.{number}", "--num-cpus=1",
                                      "--object-store-memory=80000000"], env=_ENV, stdout=log, stderr=log,
                                     timeout=120, check=False)
        with open(log.name, encoding="utf-8", errors="replace") as text:
            assert started.returncode == 0, text.read()

    def raylet(self, number: int) -> psutil.Process:
        """The process that is a node."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for p in self._processes():
                line = _line(p)
                if "raylet" in line and f"--node_ip_address=127.0.0.{number}" in line:
                    return p
            time.sleep(0.2)
        raise AssertionError(f"node {number} does not run")

    def kill(self, number: int) -> None:
        """All of a node at once, as when its power fails."""
        raylet = self.raylet(number)
        raylet.suspend()  # so that it starts nothing while its children are looked for
        _kill([raylet, *raylet.children(recursive=True)])

    def close(self) -> None:
        for _ in range(3):
            _kill(list(self._processes()))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _processes(self) -> list[psutil.Process]:
        """What belongs to this cluster now, or did when it was last looked at."""
        for p in psutil.process_iter():
            if self.folder in _line(p):
                for q in (p, *_children(p)):
                    self._seen[q.pid] = q
        return [p for p in self._seen.values() if p.is_running()]


def _line(p: psutil.Process) -> str:
    try:
        return " ".join(p.cmdline())
    except psutil.Error:
        return ""


def _children(p: psutil.Process) -> list[psutil.Process]:
    try:
        return p.children(recursive=True)
    except psutil.Error:
        return []


def _kill(processes: list[psutil.Process]) -> None:
    for p in processes:
        try:
            p.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(processes, timeout=10)
