"""What a judge is asked and what it gives back, and what a backend has to do.

``Judge`` is what metrics see. ``JudgeSession`` is the one that asks a model, through a ``Backend``: an endpoint, or
a model in this process. ``RecordedJudge`` gives answers that were recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from spatialbench.errors import UsageError
from spatialbench.scorers.judge.images import JudgeImage, Picture
from spatialbench.scorers.judge.prompts import Prompt, answer_schema, sha256_of

__all__ = ["Answer", "Backend", "BackendFault", "Judge", "Message", "Question", "Reply", "Request", "Usage"]


@dataclass(frozen=True)
class Question:
    """A prompt about some pictures.

    Attributes
    ----------
    id : what it is about, unique with ``repeat`` within what is asked together; never sent.
    pictures : in the order in which they are shown.
    fields : the texts that the prompt asks for, by name.
    items : checklist, id to text; ids are never sent.
    repeat : from 0; repeats of one question are asked separately and never share an answer.

    Raises
    ------
    UsageError : not what the prompt asks for: number or size of pictures, fields, items, length of a text.
    """

    id: str
    prompt: Prompt
    pictures: tuple[Picture, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    items: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 0

    def __post_init__(self) -> None:
        p = self.prompt
        problem = ""
        if not p.pictures.least <= len(self.pictures) <= p.pictures.most:
            problem = f"has {len(self.pictures)} pictures, {p.pictures.least} to {p.pictures.most} are asked for"
        elif any(max(x.image.size) > p.pictures.max_side for x in self.pictures):
            problem = f"has a picture with a side over {p.pictures.max_side} pixels"
        elif set(self.fields) != set(p.fields):
            problem = f"has the fields {sorted(self.fields)}, asked for are {sorted(p.fields)}"
        elif any(len(text) > p.fields[name] for name, text in self.fields.items()):
            name = next(n for n, text in self.fields.items() if len(text) > p.fields[n])
            problem = f"has {len(self.fields[name]):,} characters of '{name}', at most {p.fields[name]:,} are asked for"
        elif bool(self.items) != (p.items is not None) or len(self.items) > p.most_items:
            problem = f"has {len(self.items)} items, {f'1 to {p.most_items}' if p.items else 'none'} are asked for"
        elif any(len(text) > 2000 for text in self.items.values()):
            problem = "has an item of more than 2,000 characters"
        elif self.repeat < 0:
            problem = f"is repeat {self.repeat}; they count from 0"
        if problem:
            raise UsageError(f"question '{self.id[:80]}' for prompt {p.name} {problem}",
                             todo=f"See what it asks for: spatialbench judge prompts {p.name}")

    @cached_property
    def code(self) -> str:
        """Six hexadecimal digits that depend on all that is asked, but not on the id; an answer repeats them."""
        return sha256_of([self.prompt.sha256, [[p.image.sha256, p.label] for p in self.pictures], dict(self.fields),
                          list(self.items.values()), self.repeat])[:6]

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its answer."""
        return answer_schema(self.prompt, len(self.items))


@dataclass(frozen=True)
class Usage:
    """Tokens as the model's server counts them; 0 where it does not say."""

    input: int = 0
    output: int = 0


@dataclass(frozen=True)
class Answer:
    """What became of a question.

    Attributes
    ----------
    status : ``answered``; ``judge_error``: the judge was asked and gave no usable answer; ``not_asked``: a limit,
        a dry run or an earlier failure came first. The last two are excluded and counted, never taken as a no.
    values : the prompt's keys, when answered.
    items : by item id, when answered.
    reason : why there is no answer.
    record : of the call, JSON types only, the same on every replay: key, prompt, hashes, raw text, usage.
    timing : of the call, what differs between runs: seconds, attempts, cached.
    """

    id: str
    repeat: int
    status: Literal["answered", "judge_error", "not_asked"]
    values: Mapping[str, Any] = field(default_factory=dict)
    items: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    timing: Mapping[str, Any] = field(default_factory=dict, compare=False)


class Judge(Protocol):
    """Anything that answers questions."""

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """One answer for each question, in the same order.

        Raises
        ------
        UsageError : two questions with one id and repeat.
        BackendUnavailableError : the model cannot be used: no answer to any question can be had from it.
        """
        ...


@dataclass(frozen=True)
class Message:
    """A turn of the conversation: texts and pictures in order."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[str | JudgeImage, ...]


@dataclass(frozen=True)
class Request:
    """Everything that a backend sends."""

    messages: tuple[Message, ...]
    name: str
    """Of the schema."""
    schema: Mapping[str, Any]
    temperature: float
    seed: int
    max_tokens: int

    def canonical(self) -> dict[str, Any]:
        """JSON types, pictures by their identity."""
        return {"messages": [{"role": m.role, "parts": [p if isinstance(p, str) else {
            "sha256": p.sha256, "size": list(p.size)} for p in m.parts]} for m in self.messages],
            "schema": dict(self.schema), "name": self.name,
            "generation": {"temperature": self.temperature, "seed": self.seed, "max_tokens": self.max_tokens}}

    def images(self) -> list[JudgeImage]:
        """All pictures, in order."""
        return [p for m in self.messages for p in m.parts if not isinstance(p, str)]


@dataclass(frozen=True)
class Reply:
    """What a backend gives back for one call.

    Attributes
    ----------
    text : as it came, but for the key, which is blotted out should it be in there.
    model : that the server says has answered; empty when it does not say.
    fingerprint : of the server's configuration, where it gives one.
    finish : ``stop``, ``length``, ``content_filter``...
    """

    text: str
    model: str = ""
    fingerprint: str = ""
    finish: str = "stop"
    usage: Usage = Usage()


class BackendFault(Exception):
    """A call that gave no reply; caught by the session and never seen outside of it.

    Parameters
    ----------
    kind : ``rate``: asked to slow down; ``transient``: worth another try; ``question``: this question is refused;
        ``fatal``: every question would be.
    retry_after : seconds that the server asks to wait.
    billed : whether the provider may have done the work all the same.
    """

    def __init__(self, kind: Literal["rate", "transient", "question", "fatal"], reason: str, *,
                 retry_after: float | None = None, billed: bool = False) -> None:
        super().__init__(reason)
        self.kind, self.reason, self.retry_after, self.billed = kind, reason, retry_after, billed


class Backend(Protocol):
    """A model that can be called. ``complete`` is called by at most ``concurrency`` threads at a time."""

    provider: str
    """``openai``, ``transformers``."""
    endpoint: str
    """What stands for the place in cache keys; never holds a secret."""
    model: str
    """As it is asked for."""
    options: Mapping[str, Any]
    """Whatever else bears on an answer, JSON types only; part of the cache key."""
    concurrency: int

    def complete(self, request: Request) -> Reply:
        """One call, no retries.

        Raises
        ------
        BackendFault
        """
        ...

    def close(self) -> None:
        """Let go of connections or memory."""
        ...
