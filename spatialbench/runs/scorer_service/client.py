"""What a worker's metrics see of the scorer service: scorers that forward what they are asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Client, Connection
from typing import Any

from spatialbench.errors import BackendUnavailableError
from spatialbench.runs.scorer_service.wire import MOST_BYTES, WireError, error_of, pack, unpack
from spatialbench.scorers.registry import ScorerBox, ScorerSpec, scorer_spec

__all__ = ["ServedScorers", "ServiceTicket", "is_served"]

_START_LIMIT = 120.0
_LOOK = 0.05
_WORKERS = ("tracks", "depth", "frames")
_AGAIN = "Run its metrics again with --retry-failed"


@dataclass(frozen=True)
class ServiceTicket:
    """How a worker reaches the service.

    Attributes
    ----------
    address : of the socket.
    token : that is asked for there.
    generation : how often the service was started.
    ended : why it is not started any more; empty while it is.
    """

    address: str
    token: str
    generation: int = 1
    ended: str = ""

    def sent(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)


def is_served(spec: ScorerSpec) -> bool:
    """Whether the service is asked for a scorer: those on torch, and those that are processes of their own. The others
    are small, compute on the CPU, and stay in each worker."""
    return "torch" in spec.packages or spec.gives in _WORKERS


class ServedScorers:
    """A ``ScorerAccess``, as ``ScorerBox`` is one.

    A scorer that was being asked when the service ended is lost to the unit; others are asked of the service that is
    started in its place.

    Parameters
    ----------
    ticket : of the service.
    local : opens what is not served.
    """

    def __init__(self, ticket: ServiceTicket, local: ScorerBox) -> None:
        self._ticket, self._local = ticket, local
        self._connection: Connection | None = None
        self._gone = ticket.ended
        self._lost: dict[str, str] = {}
        self._open: dict[str, _Served] = {}
        self._identity: dict[str, dict[str, str]] = {}
        self._lock = threading.RLock()

    def renew(self) -> None:
        """Another unit begins: what was lost may be asked again."""
        self._lost.clear()

    def lacking(self, id: str) -> str:
        """Why a scorer cannot be used, or nothing; loads nothing."""
        if not is_served(scorer_spec(id)):
            return self._local.lacking(id)
        if id in self._lost:
            return self._lost[id]
        try:
            return str(self._ask(id, {"op": "lacking"}))
        except BackendUnavailableError as error:
            return str(error)

    def get(self, id: str) -> Any:
        """The scorer, opened by the service if it has not been.

        Raises
        ------
        BackendUnavailableError : it cannot be used; says why and what to do.
        UsageError : no such scorer.
        """
        if not is_served(scorer_spec(id)):
            return self._local.get(id)
        if id not in self._open:
            methods, identity = self._ask(id, {"op": "open"})
            self._open[id], self._identity[id] = _Served(self, id, frozenset(methods)), dict(identity)
        return self._open[id]

    @property
    def identity(self) -> dict[str, dict[str, str]]:
        """As ``ScorerBox.identity``, of those that this worker has used."""
        return dict(sorted({**self._local.identity, **{k: dict(v) for k, v in self._identity.items()}}.items()))

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, id: str, method: str, *arguments: Any, **named: Any) -> Any:
        """Ask a scorer.

        Raises
        ------
        SpatialbenchError : the scorer's own.
        BackendUnavailableError : the service ended, or does not run.
        """
        return self._ask(id, {"op": "call", "method": method, "args": arguments, "named": named})

    def _ask(self, id: str, message: Mapping[str, Any]) -> Any:
        try:
            blob = pack({**message, "id": id})
        except WireError as error:
            raise BackendUnavailableError(f"{id} cannot be asked: {error}") from None
        with self._lock:
            if id in self._lost:
                raise BackendUnavailableError(self._lost[id], todo=_AGAIN)
            connection = self._connected()
            try:
                connection.send_bytes(blob)
                reply = unpack(connection.recv_bytes(MOST_BYTES))
            except (OSError, EOFError, WireError) as error:
                self.close()
                why = f"; {error}" if isinstance(error, WireError) else ""
                self._lost[id] = f"the scorer service ended while it was asked for {id}{why}"
                raise BackendUnavailableError(self._lost[id], todo=_AGAIN) from None
        if "error" in reply:
            raise error_of(reply["error"])
        if "fault" in reply:
            raise RuntimeError(f"the scorer service: {reply['fault']}")
        return reply["value"]

    def _connected(self) -> Connection:
        """A connection that lives; waits for a service that is being started."""
        if self._connection is not None and _ended(self._connection):
            self.close()
        if self._connection is not None:
            return self._connection
        end = time.monotonic() + _START_LIMIT
        while not self._gone:
            try:
                connection = Client(self._ticket.address)
            except OSError as error:
                if time.monotonic() > end:
                    self._gone = f"the scorer service does not answer ({error.strerror or error})"
                time.sleep(_LOOK)
                continue
            with suppress(OSError, EOFError, WireError):
                connection.send_bytes(pack({"token": self._ticket.token}))
                if unpack(connection.recv_bytes(1 << 10)).get("value") is True:
                    self._connection = connection
                    return connection
            connection.close()
            time.sleep(_LOOK)
            if time.monotonic() > end:
                self._gone = "the scorer service refuses this worker"
        raise BackendUnavailableError(self._gone, todo=_AGAIN)


class _Served:
    """One scorer: has the methods that the service's has."""

    def __init__(self, box: ServedScorers, id: str, methods: frozenset[str]) -> None:
        self._box, self._id, self._methods = box, id, methods

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._methods:
            raise AttributeError(f"the scorer '{self._id}' has no '{name}'")
        return partial(self._box.call, self._id, name)


def _ended(connection: Connection) -> bool:
    """Whether the other side has hung up: nothing is sent but what was asked for."""
    try:
        return connection.poll(0)
    except (OSError, EOFError):
        return True
