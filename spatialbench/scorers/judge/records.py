"""From what came of asking to a record and an answer, and from a record to the same answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spatialbench.scorers.judge.contract import Answer, Backend, Question, Reply, Request, Usage
from spatialbench.scorers.judge.messages import read_reply
from spatialbench.scorers.judge.prompts import sha256_of

__all__ = ["Item", "Talk", "answer_of", "not_asked", "record_of", "usage_of"]


@dataclass
class Item:
    """A question on its way, with the key of its answer in the cache."""

    question: Question
    request: Request
    key: str
    answer: Answer | None = None
    attempts: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Talk:
    """What came of asking: ``problem`` says why it is no answer, ``broken`` that it is the endpoint's fault."""

    reply: Reply | None
    used: Usage
    rejected: dict[str, Any] | None
    problem: str
    broken: bool


def record_of(backend: Backend, item: Item, talk: Talk) -> dict[str, Any]:
    """Of a call, JSON types only: the same on every replay."""
    prompt, request, reply = item.question.prompt, item.request, talk.reply
    return {
        "key": item.key, "prompt": prompt.name, "prompt_sha256": prompt.sha256,
        "schema_sha256": sha256_of(dict(request.schema)), "images": [i.sha256 for i in request.images()],
        "provider": backend.provider, "endpoint": backend.endpoint, "model": backend.model,
        "temperature": request.temperature, "seed": request.seed, "max_tokens": request.max_tokens,
        "returned_model": reply.model if reply else "", "fingerprint": reply.fingerprint if reply else "",
        "finish": reply.finish if reply else "", "raw": reply.text if reply else "", "rejected": talk.rejected,
        "usage": {"input": talk.used.input, "output": talk.used.output}}


def answer_of(item: Item, record: dict[str, Any], timing: dict[str, Any]) -> Answer | None:
    """From a record; None where its raw text is no usable answer (any more)."""
    raw = record.get("raw")
    read = read_reply(item.question, Reply(raw)) if isinstance(raw, str) else ""
    if isinstance(read, str):
        return None
    return Answer(item.question.id, item.question.repeat, "answered", *read, record=record, timing=timing)


def not_asked(item: Item, reason: str) -> Answer:
    """An answer that was not asked for, and why."""
    return Answer(item.question.id, item.question.repeat, "not_asked", reason=reason, record={"key": item.key})


def usage_of(record: dict[str, Any]) -> Usage:
    """Tokens that the endpoint counted for it."""
    usage = record.get("usage")
    counts = [usage.get(k) for k in ("input", "output")] if isinstance(usage, dict) else []
    return Usage(*(n if isinstance(n, int) and n >= 0 else 0 for n in counts))
