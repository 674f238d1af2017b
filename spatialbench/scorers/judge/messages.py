"""From a question to what is sent, and from what came back to an answer. Frozen: it is part of every prompt."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from spatialbench.scorers.judge.contract import Message, Question, Reply, Request
from spatialbench.scorers.judge.images import JudgeImage
from spatialbench.scorers.judge.prompts import CODE, Prompt, Property
from spatialbench.types.judge import JudgeRules

__all__ = ["OTHER_QUESTION", "ask_again", "build_request", "plain", "read_reply"]

OTHER_QUESTION = "the answer repeats the code of another question"
_MAX_ANSWER = 1 << 18
_FENCE = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\n")

_LONE = re.compile("[\ud800-\udfff]")


def build_request(question: Question, rules: JudgeRules) -> Request:
    """What is sent for a question: the system text, then pictures with their labels, then the text.

    Texts of the case are sent as JSON strings, so that it is plain where they end.
    """
    prompt = question.prompt
    listed = "\n".join(f"i{k}: {_quoted(text)}" for k, text in enumerate(question.items.values(), 1))
    fields = {name: _quoted(text) for name, text in question.fields.items()}
    text = string.Template(prompt.text).substitute(fields, **({"items": "\n" + listed} if listed else {}))
    schema = question.schema
    text += f"\n\nAnswer with one JSON object and nothing else. Its keys, all required: {_keys(schema)}."
    if prompt.echo:
        text += f" The code is {question.code}."
    parts: list[str | JudgeImage] = []
    for k, picture in enumerate(question.pictures, 1):
        if picture.label:
            parts.append(f"Picture {k}: {picture.label}")
        elif len(question.pictures) > 1:
            parts.append(f"Picture {k}")
        parts.append(picture.image)
    return Request((Message("system", (prompt.system,)), Message("user", (*parts, text))), prompt.id.replace("-", "_"),
                   schema, rules.temperature, rules.seed + question.repeat, prompt.max_tokens)


def _quoted(text: str) -> str:
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)


def _keys(schema: Mapping[str, Any]) -> str:
    out = []
    for name, p in schema["properties"].items():
        kind = " | ".join(_quoted(e) for e in p["enum"]) if "enum" in p else p["type"]
        if "minimum" in p:
            kind += f" from {p['minimum']} to {p['maximum']}"
        out.append(f"{name} ({kind}: {p['description']})")
    return "; ".join(out)


def read_reply(question: Question, reply: Reply) -> tuple[dict[str, Any], dict[str, Any]] | str:
    """The values and items of an answer, or in words what is wrong with it.

    A thought in ``<think>`` before the answer and one ``` fence around it are taken off. Nothing else is: prose that
    holds an answer is no answer.
    """
    text = reply.text.strip()
    if len(text) > _MAX_ANSWER:
        return f"the answer has {len(text):,} characters"
    if text.startswith("<think>"):
        _, closed, text = text.partition("</think>")
        if not closed:
            return "the answer is a thought without an end"
        text = text.strip()
    if (opened := _FENCE.match(text)) and text.endswith("```") and opened.end() <= len(text) - 3:
        text = text[opened.end():-3].strip()
    if not text:
        return "the answer is empty"
    try:
        data = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        cut = " (cut off at max_tokens)" if reply.finish == "length" else ""
        return f"the answer is not JSON{cut}"
    if not isinstance(data, dict):
        return f"the answer is a JSON {type(data).__name__}, not an object"
    try:
        values = _model(question.prompt, len(question.items)).model_validate(data).model_dump(by_alias=True)
    except ValidationError as error:
        first = error.errors()[0]
        return f"the answer's key '{plain('.'.join(str(x) for x in first['loc'])[:60])}': {plain(first['msg'])}"
    if any(isinstance(v, str) and _LONE.search(v) for v in values.values()):
        return "the answer holds half of a surrogate pair"
    if question.prompt.echo and values.pop(CODE) != question.code:
        return OTHER_QUESTION
    items = {id: values.pop(f"i{k}") for k, id in enumerate(question.items, 1)}
    return values, items


def plain(text: str) -> str:
    """For messages: what cannot be printed (control characters, halves of surrogate pairs) as a replacement mark."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a key is there twice")
    return out


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def ask_again(request: Request, reply: Reply, problem: str) -> Request:
    """The same conversation, continued by the unusable answer and what was wrong with it."""
    more = (Message("assistant", (reply.text[:4000] or "(empty)",)),
            Message("user", (f"That cannot be used: {problem}. Answer again with one JSON object that has exactly the "
                             "keys asked for, and nothing else.",)))
    return Request(request.messages + more, request.name, request.schema, request.temperature, request.seed,
                   request.max_tokens)


_MODELS: dict[tuple[str, int], type[BaseModel]] = {}


def _model(prompt: Prompt, n_items: int) -> type[BaseModel]:
    """The strict model of an answer. Fields are numbered, as a key of an answer may be a word pydantic uses."""
    key = prompt.sha256, n_items
    model = _MODELS.get(key)
    if model is None:  # threads may make one twice
        properties = dict(prompt.answer)
        if prompt.items is not None:
            properties |= {f"i{k}": prompt.items for k in range(1, n_items + 1)}
        types = {name: _type(p) for name, p in properties.items()} | ({CODE: str} if prompt.echo else {})
        fields: dict[str, Any] = {f"f{k}": (kind, Field(alias=name)) for k, (name, kind) in enumerate(types.items())}
        if len(_MODELS) >= 256:
            _MODELS.clear()
        model = _MODELS[key] = create_model("Answer", __config__=ConfigDict(extra="forbid", strict=True), **fields)
    return model


def _type(p: Property) -> Any:
    if p.enum is not None:
        return Literal[p.enum]
    if p.type == "integer":
        return Annotated[int, Field(ge=p.minimum, le=p.maximum)] if p.minimum is not None else int
    return bool if p.type == "boolean" else str
