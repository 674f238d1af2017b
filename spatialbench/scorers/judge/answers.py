"""What is done with answers: coverage, agreement of repeats, doubts, files, and giving recorded answers again."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spatialbench.errors import MissingInputError, ResultError
from spatialbench.scorers.judge.contract import Answer, Question, Reply
from spatialbench.scorers.judge.messages import OTHER_QUESTION, read_reply
from spatialbench.scorers.judge.prompts import canonical, sha256_of

__all__ = ["Agreement", "Coverage", "RecordedJudge", "agreement", "answers_text", "coverage", "doubts", "read_answers",
           "repeated", "timings_text"]

_MANY = 20
_MAX_FILE = 1 << 30
_FLOATING = ("latest", "default", "auto", "preview", "exp")


@dataclass(frozen=True)
class Coverage:
    """How many questions have an answer. ``errors``: asked in vain; ``not_asked``: never asked."""

    answered: int
    errors: int
    not_asked: int
    reasons: tuple[str, ...] = ()
    """Why not, the most frequent first."""

    @property
    def total(self) -> int:
        """All questions."""
        return self.answered + self.errors + self.not_asked

    def lacking(self, least: float) -> str:
        """Why a metric of these questions is unavailable; empty when at least the share ``least`` is answered."""
        if self.answered >= least * self.total - 1e-9:
            return ""
        why = f": {self.reasons[0]}" if self.reasons else ""
        return f"the judge answered {self.answered} of {self.total} questions, at least {least:.0%} are needed{why}"


def coverage(answers: Iterable[Answer]) -> Coverage:
    """Count the statuses."""
    found = list(answers)
    count = Counter(a.status for a in found)
    why = Counter(a.reason for a in found if a.status != "answered")
    return Coverage(count["answered"], count["judge_error"], count["not_asked"],
                    tuple(r for r, _ in sorted(why.items(), key=lambda x: (-x[1], x[0]))))


def repeated(questions: Iterable[Question], repeats: int) -> list[Question]:
    """Each question ``repeats`` times, numbered from 0."""
    return [replace(q, repeat=k) for q in questions for k in range(repeats)]


@dataclass(frozen=True)
class Agreement:
    """What the repeats of one question say together.

    Attributes
    ----------
    value : said by more than half of the answers; None: by no such majority.
    disagreement : share of the answers that say something else than the most frequent one.
    answered : answers among the repeats.
    """

    value: Any
    disagreement: float
    answered: int


def agreement(answers: Iterable[Answer], key: str) -> dict[str, Agreement]:
    """By question id, of one key of the answers. Questions without any answer are left out."""
    said: dict[str, list[Any]] = defaultdict(list)
    for a in answers:
        if a.status == "answered":
            said[a.id].append(a.values[key])
    out = {}
    for id, values in sorted(said.items()):
        (value, n), = Counter(values).most_common(1)
        out[id] = Agreement(value if 2 * n > len(values) else None, 1 - n / len(values), len(values))
    return out


def doubts(answers: Iterable[Answer]) -> list[str]:
    """Warnings for people about a judge: always the same answer, changing servers, a name that may change meaning.

    None of them removes an answer.
    """
    found = [a for a in answers if a.status == "answered"]
    out = []
    by_prompt: dict[str, list[Answer]] = defaultdict(list)
    for a in found:
        by_prompt[str(a.record.get("prompt", ""))].append(a)
    for prompt, same in sorted(by_prompt.items()):
        pictures = {tuple(a.record.get("images") or ()) for a in same}
        said = {canonical([{k: v for k, v in a.values.items() if not isinstance(v, str)}, list(a.items.values())])
                for a in same}
        if len(pictures) >= _MANY and len(said) == 1 and said != {"[{},[]]"}:
            values = {v for v in (*same[0].values.values(), *same[0].items.values()) if not isinstance(v, str)}
            what = str(values.pop()).lower() if len(values) == 1 else "the same"
            out.append(f"all {len(same)} answers to {prompt} are {what} throughout: the judge may not look at the "
                       "pictures")
    for name in ("returned_model", "fingerprint"):
        several = sorted({str(a.record.get(name)) for a in found if a.record.get(name)})
        if len(several) > 1:
            out.append(f"answers come from {len(several)} values of {name}: {', '.join(several[:4])}")
    for model in sorted({str(a.record.get("model", "")) for a in found}):
        parts = model.lower().replace(":", "-").replace("_", "-").replace("/", "-").split("-")
        if any(word in parts for word in _FLOATING):
            out.append(f"'{model}' is a name that may mean another model tomorrow: ask for a dated one")
    return out


def answers_text(answers: Iterable[Answer]) -> str:
    """One JSON object a line, by item id and repeat: raw answers, values, hashes, usage, reasons; no times.

    The same answers give the same bytes, whether they were asked for or came from the cache.
    """
    return "".join(canonical({"id": a.id, "repeat": a.repeat, "status": a.status, "values": dict(a.values),
                              "items": dict(a.items), "reason": a.reason, "record": dict(a.record)}) + "\n"
                   for a in _sorted(answers))


def timings_text(answers: Iterable[Answer]) -> str:
    """What differs between runs, one JSON object a line: seconds, attempts, whether it came from the cache."""
    return "".join(canonical({"id": a.id, "repeat": a.repeat, **a.timing}) + "\n" for a in _sorted(answers))


def _sorted(answers: Iterable[Answer]) -> list[Answer]:
    return sorted(answers, key=lambda a: (a.id, a.repeat))


def read_answers(path: Path) -> list[Answer]:
    """What ``answers_text`` wrote.

    Raises
    ------
    MissingInputError, ResultError
    """
    out: list[Answer] = []
    try:
        if path.stat().st_size > _MAX_FILE:
            raise ResultError("is larger than 1 GiB, which no file of answers is", where=str(path), todo="Split it")
        with path.open(encoding="utf-8") as file:
            for line in file:
                d = json.loads(line, parse_constant=_no_constant)
                if d["status"] not in ("answered", "judge_error", "not_asked") or not all(
                        isinstance(d[k], dict) for k in ("values", "items", "record")):
                    raise ValueError
                out.append(Answer(str(d["id"]), int(d["repeat"]), d["status"], d["values"], d["items"],
                                  str(d["reason"]), d["record"]))
    except FileNotFoundError:
        raise MissingInputError("no such file", where=str(path), todo="Check the path") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ResultError("is no record of a judge's answers", where=f"{path}, line {len(out) + 1}",
                          todo="Give a file as the judge wrote it") from None
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror})", where=str(path), todo="Check its permissions") from None
    return out


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


class RecordedJudge:
    """A ``Judge`` that gives recorded answers and asks nobody: scores are made again from raw answers.

    A recorded answer is given when id, repeat, prompt, schema, pictures and code are those of the question; its raw
    text is read anew. Anything else is ``not_asked``, with the reason.
    """

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._known: Mapping[tuple[str, int], Answer] = {(a.id, a.repeat): a for a in answers}

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """As ``Judge.ask``."""
        return [self._one(q) for q in questions]

    def _one(self, q: Question) -> Answer:
        known = self._known.get((q.id, q.repeat))
        reason = "no answer is recorded"
        if known is not None:
            record = known.record
            schema = sha256_of(q.schema)
            if (record.get("prompt_sha256"), record.get("schema_sha256")) != (q.prompt.sha256, schema):
                reason = "the recorded answer is to another prompt"
            elif record.get("images") != [p.image.sha256 for p in q.pictures]:
                reason = "the recorded answer is about other pictures"
            elif known.status != "answered":
                return known
            else:
                read = read_reply(q, Reply(str(record.get("raw", ""))))
                if not isinstance(read, str):
                    return Answer(q.id, q.repeat, "answered", *read, record=record)
                if read != OTHER_QUESTION:
                    return Answer(q.id, q.repeat, "judge_error", reason=read, record=record)
                reason = "the recorded answer is to another question"
        return Answer(q.id, q.repeat, "not_asked", reason=reason)
