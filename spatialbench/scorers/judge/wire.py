"""HTTP requests to an endpoint within bounds: time as a whole, size, this host only, this key only.

The client of the package ``openai`` runs on an event loop in a thread of its own, since only there a request can be
ended at any point: while a name is looked up, while headers come a byte at a time, when the process is interrupted.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
import zlib
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from spatialbench.scorers.judge.contract import BackendFault

__all__ = ["RefusedResponse", "Wire"]

_MAX_BODY = 8 << 20
_MAX_ERROR = 1 << 16
_ZLIB = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_HEADERS = ("host", "accept", "connection", "user-agent", "content-type", "content-length", "transfer-encoding",
            "x-stainless-raw-response")
"""What is sent of the client's own (by the last it knows how to give back a response); it would also send what other
services have in the environment."""


class RefusedResponse(Exception):
    """A response whose status is no success; ``body`` holds its first 64 KiB, decompressed."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status, self.headers, self.body = status, headers, body


class Wire:
    """Posts chat completions to one endpoint, from any number of threads. One call is one HTTP request.

    Parameters
    ----------
    sdk : the module ``openai``, 2 or 3.
    key : None: the endpoint takes none.
    timeout : of a whole request, seconds.

    Raises
    ------
    Exception : the client cannot be made: an address or proxy that is none, certificates that cannot be read.
    """

    def __init__(self, sdk: Any, base_url: str, key: str | None, timeout: float) -> None:
        self._timeout = timeout
        authorization = f"Bearer {key or 'none'}"

        async def on_request(request: Any) -> None:
            for name in [n for n in request.headers if n.lower() not in _HEADERS]:
                del request.headers[name]
            request.headers["authorization"] = authorization
            request.headers["accept-encoding"] = "identity"

        # Redirects would take the pictures to another host. The time is kept in ``post``.
        http = sdk.DefaultAsyncHttpxClient(follow_redirects=False, timeout=None, event_hooks={
            "request": [on_request], "response": [_on_response]})
        self._client = sdk.AsyncOpenAI(base_url=base_url, api_key=key or "none", max_retries=0, timeout=None,
                                       http_client=http)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="judge-wire", daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, _finish, self._loop, self._client)

    def post(self, parameters: Mapping[str, Any]) -> bytes:
        """The body of a successful response, at most 8 MiB.

        Raises
        ------
        BackendFault : too large, too slow, in a coding that is not read, or the wire was closed.
        RefusedResponse : another status.
        Exception : of the client or what is below it: no connection, no HTTP.
        """
        if not self._end.alive:
            raise BackendFault("transient", "the connection was closed")
        arrived = threading.Event()
        future = asyncio.run_coroutine_threadsafe(
            asyncio.wait_for(self._post(dict(parameters), arrived), self._timeout), self._loop)
        try:
            return future.result()
        except (asyncio.TimeoutError, TimeoutError):
            whole = "whole " if arrived.is_set() else ""
            raise BackendFault("transient", f"no {whole}answer within {self._timeout:g} s", billed=True) from None
        except CancelledError:
            raise BackendFault("transient", "the connection was closed", billed=True) from None
        except BaseException:
            future.cancel()
            raise

    async def _post(self, parameters: dict[str, Any], arrived: threading.Event) -> bytes:
        async with self._client.chat.completions.with_streaming_response.create(**parameters) as response:
            arrived.set()
            body, whole = await _read(response.http_response, _MAX_BODY)
            if not whole:
                raise BackendFault("question", f"the answer has more than {_MAX_BODY >> 20} MiB", billed=True)
            return body

    def close(self) -> None:
        """End requests under way, in whichever threads, and close the connections."""
        self._end()
        if threading.current_thread() is not self._thread:
            self._thread.join(5.0)


async def _on_response(response: Any) -> None:
    if response.status_code >= 300:
        try:
            body, _ = await _read(response, _MAX_ERROR)
        except Exception:  # what is wrong is said by the status
            body = b""
        raise RefusedResponse(response.status_code, response.headers, body)


async def _read(response: Any, most: int) -> tuple[bytes, bool]:
    """The body, decompressed as far as its bound allows, and whether it is all of it."""
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", *_ZLIB):
        raise BackendFault("transient", f"the answer is coded as '{coding[:40]}', which was not asked for", billed=True)
    unpack = zlib.decompressobj(_ZLIB[coding]) if coding in _ZLIB else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk if unpack is None else unpack.decompress(chunk, most + 1 - len(body))
        if len(body) > most:
            return bytes(body[:most]), False
    return bytes(body), True


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


_ENDING: set[Any] = set()
"""Tasks that end their loop; without it nothing would hold them."""


def _finish(loop: asyncio.AbstractEventLoop, client: Any) -> None:
    """Ask the loop to end all there is and itself. Does not wait: it may be called in any thread, the loop's too."""
    async def end() -> None:
        try:
            if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks, timeout=2.0)
            await asyncio.wait_for(client.close(), 2.0)
        except Exception:  # what cannot be closed is left to the system
            pass
        finally:
            loop.stop()

    def start() -> None:
        task = loop.create_task(end())
        _ENDING.add(task)
        task.add_done_callback(_ENDING.discard)

    with suppress(RuntimeError):  # the process ends, and the loop is gone
        loop.call_soon_threadsafe(start)
