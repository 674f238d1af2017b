"""Headless Chromium over its debugging pipe: real layout widths, screenshots, and what it tried to load.

A window cannot be made as narrow as a phone, so widths are set as device metrics, not as window sizes.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe")


def find_chromium() -> str:
    """Path of a Chromium; without one the test is skipped, or fails where CI is set."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    if os.environ.get("CI"):
        pytest.fail(f"CI is set and none of {', '.join(NAMES)} is installed")
    pytest.skip(f"none of {', '.join(NAMES)} is installed")


class Browser:
    """One page in one Chromium; use as a context manager."""

    def __init__(self, profile: Path, timeout: float = 60.0) -> None:
        self.timeout, self.profile, self.events = timeout, profile, []
        self._next, self._buffer, self._session = 0, b"", None

    def __enter__(self) -> Browser:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # High numbers first: 3 and 4, which Chromium wants, may be among the four.
        a, b = (fcntl.fcntl(fd, fcntl.F_DUPFD, 40) for fd in (theirs_in, theirs_out))
        command = [find_chromium(), *FLAGS, f"--user-data-dir={self.profile}", "about:blank"]
        self._process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{a} 4>&{b}', "chromium", *command],
                                         pass_fds=(a, b), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (a, b, theirs_in, theirs_out):
            os.close(fd)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *exc: object) -> None:
        for fd in (self._out, self._in):  # Chromium ends when its pipe does.
            os.close(fd)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; events on the way are kept."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data):]
        while True:
            answer = self._read()
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path: Path, width: int, height: int, dark: bool = False) -> None:
        """Load a file at a layout width of exactly ``width`` CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._read())

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, expression: str, expected: Any = True, seconds: float | None = None) -> Any:
        """What an expression gives when it is what is expected; after ``seconds`` (``timeout``) what it gives then."""
        end = time.monotonic() + (self.timeout if seconds is None else seconds)
        while (got := self.evaluate(expression)) != expected and time.monotonic() < end:
            time.sleep(0.05)
        return got

    def screenshot(self, path: Path, clip: tuple[float, float, float, float] | None = None) -> None:
        """PNG of the whole page, or of x, y, width, height in CSS pixels."""
        if clip is None:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = (0, 0, size["width"], size["height"])
        box = dict(zip(("x", "y", "width", "height"), clip, strict=True), scale=1)
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=box)["data"]
        path.write_bytes(base64.b64decode(data))

    def requested(self) -> list[str]:
        """Addresses that the page asked for since it was opened."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Errors in the console or log since the page was opened."""
        out = [e["params"]["entry"]["text"] for e in self.events if e.get("method") == "Log.entryAdded"
               and e["params"]["entry"]["level"] == "error"]
        return out + [str(e["params"]) for e in self.events if e.get("method") == "Runtime.exceptionThrown"]

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + self.timeout
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium said nothing for {self.timeout} s")
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise RuntimeError(f"Chromium ended with {self._process.wait(10)}")
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)
