"""A hub on loopback: a listing for each repository, files with ranges, redirects, and misbehaviour on order."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

COMMIT = "a" * 40


@dataclass
class Asked:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]


@dataclass
class Hub:
    """``files``: path -> content; those in ``lfs`` are listed with their SHA-256, others with git's hash.

    ``acts``: path -> what is done instead of an honest answer, one after the other; True from an act: it answered.
    """

    files: dict[str, bytes]
    lfs: tuple[str, ...] = ()
    commit: str = COMMIT
    ranges: bool = True
    acts: dict[str, list[Callable[[Answering], bool]]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> Hub:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        self._server.hub = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def listing(self) -> dict[str, Any]:
        siblings = []
        for name, data in self.files.items():
            git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            entry = {"rfilename": name, "size": len(data), "blobId": git}
            if name in self.lfs:
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            siblings.append(entry)
        return {"sha": self.commit, "siblings": siblings}

    def of(self, name: str) -> list[Asked]:
        return [a for a in self.asked if a.path.endswith(name)]


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        return None

    @property
    def hub(self) -> Hub:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    def send(self, code: int, body: bytes = b"", **headers: str) -> bool:
        self.send_response(code)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        return True

    def broken(self, body: bytes, after: int) -> bool:
        """Say the whole length, send a part, hang up."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:after])
        self.close_connection = True
        return True

    def do_GET(self) -> None:
        path = unquote(self.path)
        self.hub.asked.append(Asked(path, dict(self.headers)))
        bare = path.partition("?")[0]
        resolved = bare.partition("/resolve/")[2].partition("/")[2]
        name = resolved or bare.removeprefix("/cdn/")
        acts = self.hub.acts.get(name)
        if acts and acts.pop(0)(self):
            return
        if path.startswith("/api/models/"):
            self.send(200, json.dumps(self.hub.listing()).encode())
        elif name in self.hub.files:
            self._file(self.hub.files[name])
        else:
            self.send(404)

    def _file(self, data: bytes) -> None:
        wanted = self.headers.get("Range")
        if wanted is None or not self.hub.ranges:
            self.send(200, data)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start >= len(data):
            self.send(416)
        else:
            self.send(206, data[start:], Content_Range=f"bytes {start}-{len(data) - 1}/{len(data)}")
