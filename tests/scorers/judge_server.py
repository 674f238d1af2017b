"""A server on loopback that speaks the protocol of chat completions, answers by what it sees, and misbehaves on order.

An honest answer depends on the picture that arrives: a boolean is true when the picture's mean is at least 128, an
integer is its minimum plus one when it is, an enum its first word when it is and its last when not.
"""

from __future__ import annotations

import base64
import io
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from PIL import Image

MODEL = "Qwen/Qwen3-VL-8B-Instruct"


@dataclass
class Call:
    """A request as it arrived; ``number`` counts from 1."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    start: float = field(default_factory=time.monotonic)

    @property
    def texts(self) -> list[str]:
        out = []
        for m in self.body["messages"]:
            out += [m["content"]] if isinstance(m["content"], str) else [
                p["text"] for p in m["content"] if p["type"] == "text"]
        return out

    @property
    def images(self) -> list[np.ndarray]:
        return [np.array(Image.open(io.BytesIO(base64.b64decode(p["image_url"]["url"].split(",", 1)[1]))))
                for m in self.body["messages"] if isinstance(m["content"], list)
                for p in m["content"] if p["type"] == "image_url"]

    @property
    def code(self) -> str:
        found = re.findall(r"The code is ([0-9a-f]{6})\.", "\n".join(self.texts))
        return found[-1] if found else ""

    def honest(self, bright: bool | None = None) -> dict[str, Any]:
        if bright is None:
            bright = bool(self.images) and float(np.mean(self.images[0])) >= 128
        out: dict[str, Any] = {}
        for name, p in self.body["response_format"]["json_schema"]["schema"]["properties"].items():
            if name == "code":
                out[name] = self.code
            elif "enum" in p:
                out[name] = p["enum"][0 if bright else -1]
            elif p["type"] == "integer":
                out[name] = p.get("minimum", 0) + bright
            else:
                out[name] = bright if p["type"] == "boolean" else "seen"
        return out


@dataclass
class Act:
    """What the server does: a status with a body, the text of a completion, or something worse."""

    text: str | None = None
    status: int = 200
    body: dict[str, Any] | bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    model: str | None = None
    finish: str = "stop"
    truncate: bool = False
    drop: bool = False
    usage: dict[str, int] | None = None


class JudgeServer:
    """``with JudgeServer(behave) as server``; ``behave`` says what to do with each call, None: answer honestly."""

    def __init__(self, behave: Callable[[Call], Act | None] = lambda call: None, *, seconds: float = 0.0) -> None:
        self.calls: list[Call] = []
        self.peak = self._now = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args: Any) -> None: ...

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    call = Call(len(outer.calls) + 1, self.path,
                                {k.lower(): v for k, v in self.headers.items()}, body)
                    outer.calls.append(call)
                    outer._now += 1
                    outer.peak = max(outer.peak, outer._now)
                try:
                    time.sleep(seconds)
                    outer._answer(self, call, behave(call) or Act())
                except OSError:
                    self.close_connection = True
                finally:
                    with outer._lock:
                        outer._now -= 1

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *args: Any) -> None: ...

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> JudgeServer:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, h: BaseHTTPRequestHandler, call: Call, act: Act) -> None:
        if act.drop:
            h.connection.shutdown(socket.SHUT_RDWR)
            h.close_connection = True
            return
        if act.body is not None:
            data = act.body if isinstance(act.body, bytes) else json.dumps(act.body).encode()
        elif act.status != 200:
            data = json.dumps({"error": {"message": f"told to say {act.status}", "type": "test"}}).encode()
        else:
            text = json.dumps(call.honest()) if act.text is None else act.text
            data = json.dumps({
                "id": f"c{call.number}", "object": "chat.completion", "created": 0,
                "model": call.body["model"] if act.model is None else act.model, "system_fingerprint": "fp_1",
                "choices": [{"index": 0, "finish_reason": act.finish, "message": {"role": "assistant",
                                                                                  "content": text}}],
                "usage": act.usage or {"prompt_tokens": 700, "completion_tokens": 20, "total_tokens": 720}}).encode()
        h.send_response(act.status)
        h.send_header("Content-Type", "application/json")
        h.send_header("Content-Length", str(len(data)))
        for name, value in act.headers.items():
            h.send_header(name, value)
        h.end_headers()
        if act.truncate:
            h.wfile.write(data[:len(data) // 2])
            h.wfile.flush()
            h.connection.shutdown(socket.SHUT_RDWR)
            h.close_connection = True
        else:
            h.wfile.write(data)


def flat(value: int, size: int = 32) -> np.ndarray:
    """A picture of one gray, [size,size,3] uint8."""
    return np.full((size, size, 3), value, np.uint8)
