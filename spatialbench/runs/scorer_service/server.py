"""The scorer service: one process, one thread that computes, one connection for each worker.

Standard input brings one line of JSON (``address``, ``token``, ``scoring``) and ends with the batch, and so does this.
A connection begins with the token; then each request is answered before the next is read. What computes is done one
request at a time, in the order in which requests came in, in the main thread, with as many threads of torch as a worker
has (one, unless the environment says otherwise), so that results are those of a worker of its own.
"""

from __future__ import annotations

import faulthandler
import hmac
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Listener
from typing import Any

from spatialbench.errors import SpatialbenchError
from spatialbench.runs.scorer_service.wire import MOST_BYTES, WireError, error_value, pack, unpack

__all__ = ["METHODS", "main", "serve"]

METHODS = frozenset({
    "between", "detect", "difference_maps", "distances", "embed_images", "embed_texts", "estimate", "flow", "follow",
    "patch_tokens", "rate", "rate_embeddings", "segment", "track", "transitions", "truncates"})
"""All that can be asked of a scorer: the methods of ``scorers.contract``, and whether a detector cuts a text."""
_HELLO_BYTES, _HELLO_SECONDS = 1 << 10, 30.0
_GRACE = 2.0
_LOOK, _STUCK = 5.0, 60.0
_MOST_WORKERS = 2048


@dataclass(eq=False)
class _Request:
    connection: Connection
    message: Mapping[str, Any]
    answer: bytes = b""
    begun: bool = False
    answered: threading.Event = field(default_factory=threading.Event)


def main() -> None:
    """Serve until standard input ends."""
    from spatialbench.runs.batch.worker import die_with_parent, take_over

    told, _ = take_over()
    die_with_parent()
    faulthandler.enable()
    order = json.loads(told.readline())
    listener = Listener(order["address"], backlog=_MOST_WORKERS)  # before what takes long
    requests: queue.Queue[_Request | None] = queue.Queue()

    def watch() -> None:
        while told.readline():
            pass
        requests.put(None)
        threading.Event().wait(_GRACE)
        os._exit(3)  # in the middle of something

    threading.Thread(target=watch, daemon=True).start()
    from spatialbench.runs.scoring import Scoring
    from spatialbench.runs.single import prepare
    from spatialbench.scorers.registry import ScorerBox

    prepare()
    box = ScorerBox(Scoring.received(order["scoring"]).settings)
    serve(box, listener, str(order["token"]), requests)
    box.close()
    listener.close()


def serve(box: Any, listener: Listener, token: str, requests: queue.Queue[_Request | None]) -> None:
    """Compute what is asked for until ``None`` is in the queue.

    Parameters
    ----------
    box : a ``ScorerBox``.
    listener : bound; workers connect to it.
    """
    threading.Thread(target=_accept, args=(box, listener, token, requests), daemon=True).start()
    while (request := requests.get()) is not None:
        if not _hung_up(request.connection):
            request.begun = True
            request.answer = _answer(lambda m=request.message: _done(box, m))  # type: ignore[misc]
        request.message = {}
        request.answered.set()


def _accept(box: Any, listener: Listener, token: str, requests: queue.Queue[_Request | None]) -> None:
    while True:
        try:
            connection = listener.accept()
        except OSError:
            return
        threading.Thread(target=_converse, args=(box, connection, token, requests), daemon=True).start()


def _converse(box: Any, connection: Connection, token: str, requests: queue.Queue[_Request | None]) -> None:
    """With one worker, until either side hangs up."""
    with suppress(OSError, EOFError, WireError), connection:
        if not connection.poll(_HELLO_SECONDS):
            return
        hello = unpack(connection.recv_bytes(_HELLO_BYTES))
        if not isinstance(hello, dict) or not hmac.compare_digest(str(hello.get("token")), token):
            return
        connection.send_bytes(pack({"value": True}))
        while True:
            message = unpack(connection.recv_bytes(MOST_BYTES))
            if message["op"] == "lacking":  # needs no turn: nothing is computed
                connection.send_bytes(_answer(lambda m=message: box.lacking(m["id"])))  # type: ignore[misc]
                continue
            request = _Request(connection, message)
            requests.put(request)
            del message
            _wait_for(request)
            connection.send_bytes(request.answer)


def _wait_for(request: _Request) -> None:
    """Until it is answered. What still computes a minute after its worker was ended, for taking too long, may hang, and
    holds up all others in any case: then the process ends, and the coordinator starts another."""
    gone = 0.0
    while not request.answered.wait(_LOOK):
        gone = gone + _LOOK if request.begun and _hung_up(request.connection) else 0.0
        if gone >= _STUCK:
            print(f"stuck in {request.message.get('id')}", file=sys.stderr, flush=True)  # noqa: T201 (a log)
            os._exit(4)


def _done(box: Any, message: Mapping[str, Any]) -> Any:
    scorer = box.get(message["id"])
    if message["op"] == "open":
        return [sorted(m for m in METHODS if callable(getattr(scorer, m, None))), box.identity.get(message["id"], {})]
    if message["op"] != "call" or message["method"] not in METHODS:
        raise ValueError(f"no request: {message['op']!r:.40}, {message.get('method')!r:.40}")
    return getattr(scorer, message["method"])(*message["args"], **message["named"])


def _answer(work: Callable[[], Any]) -> bytes:
    """What ``work`` gives, or the error that it ends with, as a message."""
    try:
        return pack({"value": work()})
    except SpatialbenchError as error:
        return pack({"error": error_value(error)})
    except MemoryError:
        return pack({"error": ["BackendUnavailableError", "the scorer service has too little memory", "",
                               "Give fewer --workers, or a machine with more memory"]})
    except Exception as error:
        traceback.print_exc()
        sys.stderr.flush()
        return pack({"fault": f"{type(error).__name__}: {error}"[:1000]})


def _hung_up(connection: Connection) -> bool:
    """Nothing comes while an answer is waited for, but the end."""
    try:
        return connection.closed or connection.poll(0)
    except (OSError, EOFError):
        return True
