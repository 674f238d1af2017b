"""A judge behind an endpoint that speaks OpenAI's protocol: vLLM, SGLang, Gemini, Ark, OpenAI."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.judge.contract import BackendFault, Reply, Request, Usage
from spatialbench.scorers.judge.settings import JudgeSettings, judge_key

__all__ = ["OpenAIBackend"]

_MAX_BODY = 8 << 20
_BLOT = "[key]"
_FATAL = {401: "the key is refused", 402: "the account has no credit", 403: "the key may not use this",
          404: "there is no such address or model"}
_REFUSED = (400, 413, 415, 422)


class OpenAIBackend:
    """Chat completions of one model. One call is one HTTP request: nothing is repeated here.

    Parameters
    ----------
    connect : without, neither the package nor the key is needed, and nothing can be asked (for a dry run).

    Raises
    ------
    BackendUnavailableError : the package ``openai`` or the key is missing.
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
        self._sdk: Any = None
        self._client: Any = None
        self._key: str | None = None
        if connect:
            self._connect()

    def _connect(self) -> None:
        try:
            self._sdk = import_module("openai")
        except ImportError:
            raise BackendUnavailableError("the package openai, by which judges are asked, is not installed",
                                          todo='Install it with: pip install "spatialbench[judge]"') from None
        self._key = judge_key(self._settings)
        # A key of another service that happens to be in the environment must not go to this one.
        self._client = self._sdk.OpenAI(base_url=self._settings.base_url, api_key=self._key or "none",
                                        max_retries=0, timeout=self._settings.timeout_s)
        for name in ("organization", "project", "admin_api_key"):
            if hasattr(self._client, name):
                setattr(self._client, name, None)

    def complete(self, request: Request) -> Reply:
        """One call.

        Raises
        ------
        BackendFault
        """
        sdk = self._sdk
        try:
            return self._reply(self._body(self._parameters(request)))
        except BackendFault:
            raise
        except sdk.APIStatusError as error:
            raise self._status_fault(error) from None
        except sdk.APITimeoutError:
            raise BackendFault("transient", f"no answer within {self._settings.timeout_s:g} s", billed=True) from None
        except sdk.APIConnectionError as error:
            cause = error.__cause__ or error
            raise BackendFault("transient", f"no connection ({type(cause).__name__}: {self._safe(cause)})") from None
        except Exception as error:
            # What breaks while the body is read comes from the HTTP library below, whose name differs by version.
            if type(error).__module__.split(".")[0].rstrip("2") in ("httpx", "httpcore", "h11") or isinstance(
                    error, OSError):
                raise BackendFault("transient", f"the answer broke off ({type(error).__name__})", billed=True) from None
            raise

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()

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

    def _body(self, parameters: dict[str, Any]) -> bytes:
        """The response, with a bound on its size and on the time it may take as a whole."""
        end = time.monotonic() + self._settings.timeout_s
        body = bytearray()
        with self._client.chat.completions.with_streaming_response.create(
                **parameters, extra_headers={"Accept-Encoding": "identity"}) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > _MAX_BODY:
                    raise BackendFault("question", f"the answer has more than {_MAX_BODY >> 20} MiB", billed=True)
                if time.monotonic() > end:
                    raise BackendFault("transient", f"no whole answer within {self._settings.timeout_s:g} s",
                                       billed=True)
        return bytes(body)

    def _reply(self, body: bytes) -> Reply:
        try:
            data = json.loads(body)
            choice = data["choices"][0]
            message, usage = choice["message"], data.get("usage") or {}
            text = message.get("content")
            if isinstance(text, list):  # some servers give parts
                text = "".join(p.get("text", "") for p in text)
            if text is not None and not isinstance(text, str):
                raise TypeError
            finish = "refusal" if message.get("refusal") else str(choice.get("finish_reason") or "")
            model, fingerprint = (self._safe(data.get(k) or "")[:200] for k in ("model", "system_fingerprint"))
            return Reply(self._safe(text or ""), model, fingerprint, finish[:40],
                         Usage(_count(usage, "prompt_tokens"), _count(usage, "completion_tokens")))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise BackendFault("transient", "the response is no chat completion", billed=True) from None

    def _status_fault(self, error: Any) -> BackendFault:
        status = int(error.status_code)
        detail = error.body if isinstance(error.body, dict) else {}
        said = f"{self._safe(detail.get('message') or '')}"[:300]
        reason = f"HTTP {status}" + (f": {said}" if said else "")
        if status == 429:
            if "insufficient_quota" in (detail.get("code"), detail.get("type")):
                return BackendFault("fatal", f"the account has no credit ({reason})")
            return BackendFault("rate", reason, retry_after=_retry_after(error.response.headers))
        if status in _FATAL:
            return BackendFault("fatal", f"{_FATAL[status]} ({reason})")
        if status >= 500 or status in (408, 409, 425):
            return BackendFault("transient", reason, retry_after=_retry_after(error.response.headers))
        return BackendFault("question" if status in _REFUSED else "fatal", reason)

    def _safe(self, text: object) -> str:
        """Without the key, whatever the other side sends back."""
        out = str(text).encode("utf-8", "replace").decode()  # JSON can hold halves of surrogate pairs
        return out.replace(self._key, _BLOT) if self._key and len(self._key) >= 8 else out


def _message(role: str, parts: tuple[Any, ...]) -> dict[str, Any]:
    if all(isinstance(p, str) for p in parts):
        return {"role": role, "content": "\n".join(parts)}
    return {"role": role, "content": [
        {"type": "text", "text": p} if isinstance(p, str) else
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(p.png()).decode()}}
        for p in parts]}


def _count(usage: Any, name: str) -> int:
    value = usage.get(name, 0)
    return value if isinstance(value, int) and 0 <= value < 1 << 40 else 0


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from ``retry-after-ms`` or ``Retry-After`` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name, "")
        try:
            seconds = float(text) * unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - time.time()
            except (ValueError, TypeError, IndexError, OverflowError):
                continue
        if seconds == seconds and seconds != float("inf"):
            return max(0.0, seconds)
    return None
