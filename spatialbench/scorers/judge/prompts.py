"""Prompts as versioned files: what is asked, about how many pictures, and what an answer must look like.

A prompt never changes: another wording is another version, in another file (``configs/prompts/ID-VERSION.yaml``).
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spatialbench.configs import config_names, config_path
from spatialbench.errors import UsageError
from spatialbench.types.strict import load_strict

__all__ = ["CODE", "Prompt", "Property", "answer_schema", "canonical", "load_prompt", "prompt_names", "sha256_of"]

CODE = "code"
"""Property that repeats the question's code, in prompts with ``echo``."""
_NAME = r"^[a-z][a-z0-9_]{0,39}$"


def canonical(data: Any) -> str:
    """JSON with sorted keys and no spaces; the same data gives the same bytes."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_of(data: Any) -> str:
    """Of the canonical JSON."""
    return hashlib.sha256(canonical(data).encode("utf-8", "surrogatepass")).hexdigest()


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Property(_Strict):
    """One key of an answer, in the words of JSON Schema."""

    type: Literal["boolean", "integer", "string"]
    description: str = Field(min_length=1, max_length=400)
    enum: tuple[str, ...] | None = None
    """Of a string: what it may be."""
    minimum: int | None = None
    maximum: int | None = None

    @model_validator(mode="after")
    def _fits(self) -> Property:
        if self.enum is not None and (self.type != "string" or not self.enum or len(set(self.enum)) < len(self.enum)):
            raise ValueError("'enum' lists different words, for a string")
        bounds = (self.minimum, self.maximum)
        if bounds != (None, None) and (self.type != "integer" or None in bounds
                                       or self.minimum > self.maximum):  # type: ignore[operator]
            raise ValueError("'minimum' and 'maximum' come together, in this order, for an integer")
        return self


class Pictures(_Strict):
    """How many pictures a question has, and their longest side in pixels."""

    least: int = Field(1, ge=0, le=64)
    most: int = Field(1, ge=0, le=64)
    max_side: int = Field(768, ge=16, le=4096)

    @model_validator(mode="after")
    def _order(self) -> Pictures:
        if self.least > self.most:
            raise ValueError("'least' is more than 'most'")
        return self


class Prompt(_Strict):
    """What a judge is asked. Its sha256 is of these values, not of the file's spelling."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]{0,59}$")
    version: int = Field(ge=1)
    metrics: tuple[str, ...] = ()
    """Who asks it."""
    source: str
    """Where what is asked comes from."""
    system: str = Field(min_length=1, max_length=8000)
    text: str = Field(min_length=1, max_length=8000)
    """Follows the pictures. ``$name`` stands for a field, ``$items`` for the numbered list of items."""
    pictures: Pictures = Pictures()
    fields: dict[str, int] = {}
    """Texts that a question brings, with the most characters each may have."""
    answer: dict[str, Property] = Field(alias="schema", min_length=0)
    """Keys that an answer has, all of them and no other."""
    items: Property | None = None
    """What is answered for each item of a checklist; its keys are ``i1``, ``i2``..."""
    most_items: int = Field(64, ge=1, le=256)
    echo: bool = True
    """Whether an answer repeats the question's code, so that one meant for another question is told."""
    max_tokens: int = Field(300, ge=1, le=32768)
    """Of an answer."""

    @model_validator(mode="after")
    def _consistent(self) -> Prompt:
        for name in (*self.fields, *self.answer):
            if not re.match(_NAME, name) or re.match(r"^i\d+$", name) or name in (CODE, "items"):
                raise ValueError(f"'{name[:60]}' is no name for a field or a key of an answer")
        if not self.answer and self.items is None:
            raise ValueError("an answer needs 'schema' or 'items'")
        template = string.Template(self.text)
        found = [m["named"] or m["braced"] for m in template.pattern.finditer(self.text) if not m["escaped"]]
        wanted = {*self.fields, *(("items",) if self.items else ())}
        if None in found or set(found) != wanted:
            raise ValueError(f"'text' must name each of {', '.join('$' + w for w in sorted(wanted)) or 'no field'}")
        return self

    @property
    def name(self) -> str:
        """``ID-VERSION``, by which it is loaded."""
        return f"{self.id}-{self.version}"

    @cached_property
    def sha256(self) -> str:
        """Of everything in it that is not a default, so that a prompt keeps its hash when prompts can say more."""
        return sha256_of(self.model_dump(mode="json", by_alias=True, exclude_defaults=True))


def answer_schema(prompt: Prompt, n_items: int = 0) -> dict[str, Any]:
    """JSON Schema of an answer: one flat object, every key required, nothing else allowed.

    Parameters
    ----------
    n_items : length of the question's checklist.
    """
    properties = {name: _schema(p) for name, p in prompt.answer.items()}
    if prompt.items is not None:
        properties |= {f"i{k}": _schema(prompt.items) for k in range(1, n_items + 1)}
    if prompt.echo:
        properties = {CODE: {"type": "string", "description": "The code given in the question"}, **properties}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _schema(p: Property) -> dict[str, Any]:
    return p.model_dump(mode="json", exclude_none=True)


def prompt_names() -> list[str]:
    """Those that come with the package, as ``ID-VERSION``."""
    return config_names("prompts")


def load_prompt(name: str) -> Prompt:
    """A packaged prompt by name, or one from a YAML file.

    Raises
    ------
    UsageError : no such prompt.
    ConfigError : an unknown key or a wrong value.
    """
    is_file = "/" in name or name.endswith((".yaml", ".yml"))
    if not is_file and name not in prompt_names():
        raise UsageError(f"no prompt '{name[:80]}'", todo=f"Known: {', '.join(prompt_names())}; or give a YAML file")
    return load_strict(Prompt, Path(name) if is_file else config_path("prompts", name))
