"""A server on loopback that reads one HTTP request a connection and then does with the socket whatever it is told."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LONG = 300.0
"""Seconds after which a test that hangs gives up; nothing that works ever waits for it."""


class Rogue:
    """``with Rogue(act) as server``; ``act(server, connection, body)`` gets the request's JSON.

    Attributes
    ----------
    requests : heads of the requests, as they came.
    sent : bytes that the other side has taken.
    """

    def __init__(self, act: Callable[[Rogue, socket.socket, dict[str, Any]], None]) -> None:
        self._act, self._over = act, threading.Event()
        self.requests: list[bytes] = []
        self.sent = 0
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Rogue:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self._over.set()
        self._socket.close()

    def hang(self) -> None:
        """Until the test is over."""
        self._over.wait(LONG)

    def pause(self, seconds: float) -> bool:
        """Whether the test goes on."""
        return not self._over.wait(seconds)

    def send(self, connection: socket.socket, data: bytes) -> None:
        connection.sendall(data)
        self.sent += len(data)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(LONG)
        with connection, suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                if not (more := connection.recv(1 << 16)):
                    return
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])  # type: ignore[index]
            while len(body) < length:
                body += connection.recv(1 << 16)
            self.requests.append(head)
            self._act(self, connection, json.loads(body))


def honest(body: dict[str, Any], **more: Any) -> str:
    """A right answer: all true."""
    text = json.dumps(body["messages"])
    code = re.findall(r"The code is ([0-9a-f]{6})\.", text)[-1]
    return json.dumps({"code": code, "reason": "r", "artifact_free": True, "sharp": True, "plausible_layout": True,
                       **more})


def completion(body: dict[str, Any], text: Any = None, **more: Any) -> bytes:
    """A chat completion around it."""
    return json.dumps({"model": body["model"], "choices": [{"message": {"content": honest(body) if text is None else
                                                                         text}, "finish_reason": "stop"}],
                       "usage": {"prompt_tokens": 7, "completion_tokens": 2}, **more}).encode()


def response(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """An HTTP response that closes the connection."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def picture_of(body: dict[str, Any]) -> bytes:
    """The first picture's file."""
    url = next(p["image_url"]["url"] for m in body["messages"] if isinstance(m["content"], list)
               for p in m["content"] if p["type"] == "image_url")
    return base64.b64decode(url.split(",", 1)[1])
