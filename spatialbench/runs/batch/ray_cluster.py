"""The way to a Ray cluster, and how much of it there is for units."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spatialbench.errors import BackendUnavailableError, SpatialbenchError, UsageError

__all__ = ["RayOptions", "capacity", "connect", "work_failed"]

_ANSWER = 5.0
_SETTINGS = b"\4"
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + b"\0\0\0\0\0"
"""What opens HTTP/2, on which gRPC rests (RFC 9113, 3.4); a server's first frame has the same type."""


@dataclass(frozen=True)
class RayOptions:
    """What a user can ask of ``--executor ray``.

    Attributes
    ----------
    address : ``host:port`` of the cluster; the one that this machine is part of when None.
    unit_cpus : CPUs that each unit keeps, and its threads.
    unit_memory : bytes that each unit keeps; the memory limit, or 4 GB, when None.
    unit_gpus : GPUs that each unit keeps; a part of one lets units share it. 0 while no metric has a scorer that
        uses one; later the scorers that a protocol's metrics declare say it.
    """

    address: str | None = None
    unit_cpus: int = 1
    unit_memory: int | None = None
    unit_gpus: float = 0.0


def connect(address: str | None) -> tuple[Any, bool]:
    """The module ``ray``, connected, and whether it was this call that connected it.

    Raises
    ------
    BackendUnavailableError : Ray is not installed, or no cluster answers.
    UsageError : the address is none.
    """
    try:
        import ray
    except ImportError:
        raise BackendUnavailableError("the package 'ray' is not installed", where="--executor ray",
                                      todo='Install it: pip install "spatialbench[ray]"') from None
    if ray.is_initialized():
        return ray, False
    address = address or os.environ.get("RAY_ADDRESS") or "auto"
    if address != "auto":
        _probe(address)
    # The cluster's logs have what workers print; a batch's own are in its folder.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        with _own_sigterm():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    except ConnectionError as error:
        if address == "auto":
            raise BackendUnavailableError(
                "no Ray cluster runs on this machine", where="--executor ray",
                todo="Start one with 'ray start --head', or give --address HOST:PORT on one of its nodes") from None
        raise _no_cluster(address, _first_line(error)) from None
    except Exception as error:  # of many kinds, by version: other Ray or Python, no raylet here, wrong password
        raise _no_cluster(address, _first_line(error)) from None
    return ray, True


def capacity(nodes: list[dict[str, Any]], per_unit: Mapping[str, float]) -> int:
    """How many units fit into the nodes that are alive, if nothing else ran there.

    Parameters
    ----------
    nodes : as ``ray.nodes()`` gives them.
    per_unit : resource -> amount; zeros are not looked at.
    """
    needed = {k: v for k, v in per_unit.items() if v > 0}
    return sum(int(min(math.floor(n["Resources"].get(k, 0.0) / v + 1e-9) for k, v in needed.items()))
               for n in nodes if n["Alive"])


def _probe(address: str) -> None:
    if address.startswith("ray://"):
        raise UsageError("addresses of Ray's client server are not taken", where=f"--address {address}",
                         todo="Run the batch on a node of the cluster and give HOST:PORT, such as 10.0.0.1:6379")
    match = re.fullmatch(r"\[?([A-Za-z0-9_.:-]+?)\]?:(\d{1,5})", address)
    if not match or not 0 < int(match[2]) < 65536:
        raise UsageError("is not of the form HOST:PORT", where=f"--address {address}",
                         todo="'ray start --head' prints it, such as 10.0.0.1:6379")
    try:
        with socket.create_connection((match[1], int(match[2])), timeout=_ANSWER) as s:
            s.settimeout(_ANSWER)
            s.sendall(_HELLO)
            answer = s.recv(9)
    except OSError as error:
        raise _no_cluster(address, error.strerror or str(error)) from None
    # Ray itself would try for minutes. (With TLS there is no answer to this.)
    if answer[3:4] != _SETTINGS and os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        raise _no_cluster(address, "something else listens there")


def _no_cluster(address: str, why: str) -> BackendUnavailableError:
    return BackendUnavailableError(f"no Ray cluster can be used at this address ({why})", where=f"--address {address}",
                                   todo="Start one with 'ray start --head', and the batch on one of its nodes")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")


@contextlib.contextmanager
def _own_sigterm() -> Any:
    """Ray puts its own handler in the place of ours."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def work_failed(error: Exception) -> SpatialbenchError:
    """Words for what Ray says when work on a node fails."""
    text = str(error)
    if "No module named 'spatialbench" in text or "failed to be imported" in text or "failed to import" in text:
        return SpatialbenchError("spatialbench is not installed on a node of the cluster", where="--executor ray",
                                 todo="Install the same version on every node, in the Python that runs Ray there")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return SpatialbenchError(f"the work on a node failed: {lines[-1] if lines else type(error).__name__}",
                             where="--executor ray", todo="The logs of Ray on that node say more")
