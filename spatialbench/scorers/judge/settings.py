"""Where the judge runs and whose key pays: the user's part of the configuration, in one YAML file or the environment.

The protocol says which model answers and how (``types.judge.JudgeRules``); nothing here changes what is asked. The key
itself is only ever in an environment variable, whose name is here.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from spatialbench.errors import BackendUnavailableError, ConfigError
from spatialbench.scorers.judge.prompts import canonical
from spatialbench.types.strict import read_yaml, validate_strict

__all__ = ["FILE_VARIABLE", "KEY_VARIABLE", "MODEL_VARIABLE", "PRICES_VARIABLE", "URL_VARIABLE", "JudgeSettings",
           "judge_key", "judge_settings", "same_model"]

FILE_VARIABLE = "SPATIALBENCH_JUDGE"
URL_VARIABLE = "SPATIALBENCH_JUDGE_URL"
MODEL_VARIABLE = "SPATIALBENCH_JUDGE_MODEL"
KEY_VARIABLE = "SPATIALBENCH_JUDGE_KEY"
PRICES_VARIABLE = "SPATIALBENCH_JUDGE_PRICES"
_RELEASE = re.compile(r"[-_@:](?:\d{3,8}|\d{2}-\d{2}|\d{2}-\d{4}|\d{4}-\d{2}(?:-\d{2})?)(?:-v\d{1,2}(?::\d{1,2})?)?")
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_OWN_PARAMETERS = ("messages", "model", "response_format", "temperature", "seed", "max_tokens",
                   "max_completion_tokens", "stream", "n")


class JudgeSettings(BaseModel):
    """The keys of a judge file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    provider: Literal["openai", "transformers"] = "openai"
    """An endpoint that speaks OpenAI's protocol, or a model in this process."""
    base_url: str | None = None
    """Of the endpoint, with its version: ``http://localhost:8000/v1``."""
    model: str | None = Field(None, min_length=1, max_length=200)
    """As the endpoint names it [default: the protocol's model]."""
    key_env: str | None = Field(None, pattern=_VARIABLE)
    """Environment variable that holds the key [default: SPATIALBENCH_JUDGE_KEY; none if that is not set]."""
    cache_as: str | None = Field(None, min_length=1, max_length=200)
    """Stands for the endpoint in cache keys, where its address changes from day to day [default: ``base_url``]."""
    accept_models: tuple[str, ...] = ()
    """Names, beside the one asked for, under which the endpoint may say that the same model answered."""
    max_connections: int = Field(8, ge=1, le=256)
    timeout_s: float = Field(120.0, gt=0, le=3600)
    """For a whole call."""
    attempts: int = Field(6, ge=1, le=20)
    """Calls for one question at most."""
    structured: Literal["json_schema", "json_object", "none"] = "json_schema"
    """What the endpoint can be told about the form of an answer. The answer is checked in any case."""
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of that parameter at the endpoint."""
    send_seed: bool = True
    send_temperature: bool = True
    """Some endpoints refuse these parameters."""
    extra_body: dict[str, Any] = {}
    """Further parameters, sent as they are and part of the cache key. No place for secrets."""
    prices: Path | None = None
    """Own price file, relative to this one."""
    weights: Path | None = None
    """Folder with the weights of ``provider: transformers``, relative to this file."""
    device: str = "cuda"
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"

    @field_validator("base_url")
    @classmethod
    def _no_secret(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or parts.port == 0:
            raise ValueError("is no http or https address")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("must hold no user, password, query or fragment: a key belongs in an environment variable")
        return url.rstrip("/")

    @field_validator("extra_body")
    @classmethod
    def _json(cls, data: dict[str, Any]) -> dict[str, Any]:
        # YAML has dates, numbers that are none and keys that are no texts.
        try:
            if json.loads(json.dumps(data, allow_nan=False)) == data:
                canonical(data).encode()
                return data
        except (TypeError, ValueError, RecursionError):
            pass
        raise ValueError("holds something that JSON cannot: use texts for keys, and texts, numbers, lists and maps")

    @model_validator(mode="after")
    def _complete(self) -> JudgeSettings:
        if self.provider == "openai" and self.base_url is None:
            raise ValueError("'base_url' is missing: the address of the endpoint, such as http://localhost:8000/v1")
        if self.provider == "transformers" and self.weights is None:
            raise ValueError("'weights' is missing: the folder with the model's weights")
        taken = sorted(set(self.extra_body) & set(_OWN_PARAMETERS))
        if taken:
            raise ValueError(f"'extra_body' must not hold '{taken[0]}', which the protocol or another key fixes")
        return self


def judge_settings(file: Path | None = None) -> JudgeSettings | None:
    """What the user says: ``file``, else the file in ``SPATIALBENCH_JUDGE``, else ``SPATIALBENCH_JUDGE_URL`` and
    ``SPATIALBENCH_JUDGE_MODEL``; None when nothing is said. A file stands alone: it is not mixed with the others.

    Raises
    ------
    MissingInputError, ConfigError
    """
    named = os.environ.get(FILE_VARIABLE)
    prices = os.environ.get(PRICES_VARIABLE)
    if file is None and named:
        file = Path(named)
    if file is not None:
        data = read_yaml(file)
        _check_secrets(data, str(file))
        settings = validate_strict(JudgeSettings, data, str(file))
        at = {k: file.parent / v for k in ("prices", "weights") if (v := getattr(settings, k)) is not None}
        settings = settings.model_copy(update=at)
    else:
        url = os.environ.get(URL_VARIABLE)
        if not url:
            return None
        data = {"base_url": url, **({"model": m} if (m := os.environ.get(MODEL_VARIABLE)) else {})}
        try:
            settings = validate_strict(JudgeSettings, data, f"{URL_VARIABLE}, {MODEL_VARIABLE}")
        except ConfigError:
            raise ConfigError(f"is no address without user, password and query, or {MODEL_VARIABLE} no name",
                              where=URL_VARIABLE, todo="Set it to something like http://localhost:8000/v1") from None
    if settings.prices is None and prices:
        settings = settings.model_copy(update={"prices": Path(prices)})
    return settings


def _check_secrets(data: dict[str, Any], where: str) -> None:
    """What people may have put a key or password into is refused here, since other refusals repeat what was given."""
    for name, good, what in (
            ("base_url", _is_address, "must be an http or https address without user, password, query or fragment"),
            ("key_env", re.compile(_VARIABLE).fullmatch, "must be the NAME of the environment variable that holds the "
                                                         "key, never the key")):
        value = data.get(name)
        if value is not None and not (isinstance(value, str) and good(value)):
            raise ConfigError(f"key '{name}' {what}", where=where, todo="Correct the value (it is not shown here, as "
                                                                         "it may hold a secret)")


def _is_address(url: str) -> bool:
    try:
        JudgeSettings(base_url=url)
    except ValueError:
        return False
    return True


def judge_key(settings: JudgeSettings) -> str | None:
    """The key, from its environment variable; None: there is none, as at most local endpoints.

    Raises
    ------
    BackendUnavailableError : a variable is named and not set.
    ConfigError : the key is in the settings themselves, or no header can hold it.
    """
    variable = settings.key_env or KEY_VARIABLE
    key = (os.environ.get(variable) or "").strip()
    if not key:
        if settings.key_env:
            # A key itself may have been written there; names of variables are short or in capitals.
            name = variable if len(variable) < 20 or variable.isupper() else "that 'key_env' names"
            raise BackendUnavailableError(f"the environment variable {name}, which holds the judge's key, is not set",
                                          todo="Set it, for example: export "
                                               f"{name if name == variable else 'NAME'}=...")
        return None
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise ConfigError(f"the key in {variable} has characters that no key has", todo="Set it again, without quotes")
    if len(key) >= 8 and key in settings.model_dump_json():
        raise ConfigError(f"the key in {variable} is also written in the judge's configuration",
                          todo="Take it out of there: it belongs in the environment only")
    return key


def same_model(name: str, other: str) -> bool:
    """Whether two names may mean one model: the organisation is left out, and one may end in a date or the number of a
    release (three digits and more: a shorter number, or one after a point, is another model).

    >>> same_model("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl-8b-instruct-20251015")
    True
    >>> same_model("qwen3-vl-8b-instruct", "qwen3-vl-32b-instruct")
    False
    >>> same_model("gemini-2", "gemini-2.5")
    False
    """
    a, b = sorted((n.rstrip("/").rsplit("/", 1)[-1].lower() for n in (name, other)), key=len)
    return b == a != "" or (b.startswith(a) and _RELEASE.fullmatch(b[len(a):]) is not None)
