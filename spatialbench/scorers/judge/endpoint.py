"""A judge behind an endpoint that speaks OpenAI's protocol: vLLM, SGLang, Gemini, Ark, OpenAI."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Mapping
from datetime import timezone
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.judge.contract import BackendFault, Reply, Request, Usage
from spatialbench.scorers.judge.messages import plain
from spatialbench.scorers.judge.settings import JudgeSettings, judge_key
from spatialbench.scorers.judge.wire import RefusedResponse, Wire

__all__ = ["OpenAIBackend"]

_BLOT = "[key]"
_FATAL = {401: "the key is refused", 402: "the account has no credit", 403: "the key may not use this",
          404: "there is no such address or model"}
_REFUSED = (400, 413, 415, 422)
_BELOW = ("httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "ssl", "openai", "zlib")
"""Where exceptions come from that a server or a line can cause."""


class OpenAIBackend:
    """Chat completions of one model. One call is one HTTP request: nothing is repeated here.

    Parameters
    ----------
    connect : without, neither the package nor the key is needed, and nothing can be asked (for a dry run).

    Raises
    ------
    BackendUnavailableError : the package ``openai`` or the key is missing, or no client can be made.
    ConfigError : the key cannot be one.
    """

    provider = "openai"

    def __init__(self, settings: JudgeSettings, model: str, *, connect: bool = True) -> None:
        assert settings.base_url is not None
        self._settings, self.model, self.concurrency = settings, model, settings.max_connections
        self.endpoint = settings.cache_as or settings.base_url
        self.options: Mapping[str, Any] = {
            "structured": settings.structured, "send_seed": settings.send_seed,
            "send_temperature": settings.send_temperature, "token_limit": settings.token_limit,
            "extra_body": settings.extra_body}
        self._wire: Wire | None = None
        self._key: re.Pattern[str] | None = None
        if connect:
            self._connect()

    def _connect(self) -> None:
        try:
            sdk = import_module("openai")
        except ImportError:
            raise BackendUnavailableError("the package openai, by which judges are asked, is not installed",
                                          todo='Install it with: pip install "spatialbench[judge]"') from None
        key = judge_key(self._settings)
        if key is not None and len(key) >= 8:  # as it is, and as JSON may spell it
            self._key = re.compile("".join(rf"(?:\\?{re.escape(c)}|\\u00{ord(c):02x})" for c in key), re.IGNORECASE)
        try:
            self._wire = Wire(sdk, str(self._settings.base_url), key, self._settings.timeout_s)
        except Exception as error:  # of the libraries below, each its own
            raise BackendUnavailableError(
                f"no client for the judge can be made ({type(error).__name__}: {self._safe(error)[:200]})",
                where=self.endpoint, todo="Check 'base_url', and the proxies and certificates that the environment "
                                          "names") from None

    def complete(self, request: Request) -> Reply:
        """One call.

        Raises
        ------
        BackendFault
        """
        assert self._wire is not None
        try:
            return self._reply(self._wire.post(self._parameters(request)))
        except BackendFault:
            raise
        except Exception as error:
            # Version 2 of the client wraps whatever it meets; the cause says more.
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            if isinstance(cause, BackendFault):
                raise cause from None
            if isinstance(cause, RefusedResponse):
                raise self._status_fault(cause) from None
            name = type(cause).__name__
            if isinstance(cause, OSError) or name in ("ConnectError", "ProxyError"):
                raise BackendFault("transient", f"no connection ({name}: {self._safe(cause)[:200]})") from None
            if type(cause).__module__.split(".")[0] in _BELOW:
                raise BackendFault("transient", f"the answer broke off ({name}: {self._safe(cause)[:200]})",
                                   billed=True) from None
            raise

    def close(self) -> None:
        """End calls under way and close the connections."""
        if self._wire is not None:
            self._wire.close()

    def _parameters(self, request: Request) -> dict[str, Any]:
        s = self._settings
        out: dict[str, Any] = {"model": self.model, s.token_limit: request.max_tokens,
                               "messages": [_message(m.role, m.parts) for m in request.messages]}
        if s.send_temperature:
            out["temperature"] = request.temperature
        if s.send_seed:
            out["seed"] = request.seed
        if s.structured == "json_schema":
            out["response_format"] = {"type": "json_schema", "json_schema": {
                "name": request.name, "strict": True, "schema": dict(request.schema)}}
        elif s.structured == "json_object":
            out["response_format"] = {"type": "json_object"}
        if s.extra_body:
            out["extra_body"] = dict(s.extra_body)
        return out

    def _reply(self, body: bytes) -> Reply:
        try:
            data = json.loads(body)
            if "error" in data and "choices" not in data:  # some gateways say so with status 200
                said = self._safe(_detail(body).get("message") or "")[:300]
                raise BackendFault("transient", "the response is an error" + (f": {said}" if said else ""))
            choice = data["choices"][0]
            message, usage = choice["message"], data.get("usage") or {}
            text = message.get("content")
            if isinstance(text, list):  # some servers give parts
                text = "".join(p.get("text", "") for p in text)
            if text is not None and not isinstance(text, str):
                raise TypeError
            finish = "refusal" if message.get("refusal") else str(choice.get("finish_reason") or "")
            model, fingerprint = (plain(self._safe(data.get(k) or ""))[:200] for k in ("model", "system_fingerprint"))
            return Reply(self._safe(text or ""), model, fingerprint, plain(self._safe(finish))[:40],
                         Usage(_count(usage, "prompt_tokens"), _count(usage, "completion_tokens")))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise BackendFault("transient", "the response is no chat completion", billed=True) from None

    def _status_fault(self, refused: RefusedResponse) -> BackendFault:
        status, headers = refused.status, refused.headers
        detail = _detail(refused.body)
        said = self._safe(detail.get("message") or "")[:300]
        reason = f"HTTP {status}" + (f": {said}" if said else "")
        if status < 400:
            to = urlsplit(self._safe(headers.get("location", ""))[:300])
            return BackendFault("fatal", f"the endpoint sends us elsewhere ({reason}, to {to.hostname or 'nowhere'}), "
                                         "and pictures go to no address but 'base_url'")
        if status == 429:
            if "insufficient_quota" in (detail.get("code"), detail.get("type")):
                return BackendFault("fatal", f"the account has no credit ({reason})")
            return BackendFault("rate", reason, retry_after=_retry_after(headers))
        if status in _FATAL:
            return BackendFault("fatal", f"{_FATAL[status]} ({reason})")
        if status >= 500 or status in (408, 409, 425):
            return BackendFault("transient", reason, retry_after=_retry_after(headers))
        return BackendFault("question" if status in _REFUSED else "fatal", reason)

    def _safe(self, text: object) -> str:
        """Without the key, whatever the other side sends back."""
        out = str(text).encode("utf-8", "replace").decode()  # JSON can hold halves of surrogate pairs
        return out if self._key is None else self._key.sub(_BLOT, out)


def _detail(body: bytes) -> dict[str, Any]:
    """What a server says of an error, in one of the forms that are about."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    inner = data.get("error", data.get("detail")) if isinstance(data, dict) else None
    found = inner if isinstance(inner, dict) else {"message": inner} if isinstance(inner, str) else data
    return {k: plain(found[k]) for k in ("message", "code", "type") if isinstance(found.get(k), str)} if isinstance(
        found, dict) else {}


def _message(role: str, parts: tuple[Any, ...]) -> dict[str, Any]:
    if all(isinstance(p, str) for p in parts):
        return {"role": role, "content": "\n".join(parts)}
    return {"role": role, "content": [
        {"type": "text", "text": p} if isinstance(p, str) else
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(p.png()).decode()}}
        for p in parts]}


def _count(usage: Any, name: str) -> int:
    value = usage.get(name, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else 0


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from ``retry-after-ms`` or ``Retry-After`` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name, "")
        try:
            seconds = float(text) * unit
        except ValueError:
            try:
                when = parsedate_to_datetime(text)
                seconds = when.replace(tzinfo=when.tzinfo or timezone.utc).timestamp() - time.time()
            except (ValueError, TypeError, IndexError, OverflowError):
                continue
        if seconds == seconds and seconds != float("inf"):
            return max(0.0, seconds)
    return None
