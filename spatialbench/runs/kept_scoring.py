"""What an earlier run of a unit says of the scorers and the judge behind the metrics that are kept from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spatialbench.errors import SpatialbenchError
from spatialbench.observe import REGISTRY
from spatialbench.runs.scoring import LentJudge
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.scorers.judge import Answer, answers_text, doubts, load_prompt, prompt_names, read_answers
from spatialbench.types import Protocol

__all__ = ["KeptScoring", "read_kept", "scorers_of"]

_MAX_RECORD = 64 << 20


@dataclass(frozen=True)
class KeptScoring:
    """Goes into the files of the run that keeps the metrics, so that they say the same as of one run of all.

    Attributes
    ----------
    scorers, judge : of the earlier ``run.json``, of the kept metrics alone.
    backends : renderers and simulators of the earlier ``run.json``.
    answers : of the earlier ``judge.jsonl``, but for those of metrics that were measured again.
    """

    scorers: Mapping[str, Any] = field(default_factory=dict)
    judge: Mapping[str, Any] = field(default_factory=dict)
    answers: tuple[Answer, ...] = ()
    backends: Mapping[str, str] = field(default_factory=dict)

    def record(self, used: Mapping[str, Any], judge: LentJudge | None) -> dict[str, Any]:
        """What ``scorers_used`` gives of this run, with what is kept; where both have one and it is not the same, the
        earlier one is in ``scorers_kept`` and ``judge_kept``."""
        now, out = used.get("scorers", {}), dict(used)
        if scorers := {**self.scorers, **now}:
            out["scorers"] = dict(sorted(scorers.items()))
        if other := {id: about for id, about in sorted(self.scorers.items()) if now.get(id, about) != about}:
            out["scorers_kept"] = other
        if self.answers:
            asked = used.get("judge", self.judge)
            if asked:
                out["judge"] = {**asked, "doubts": doubts(self.merged(judge))}
            if self.judge and any(asked.get(k) != self.judge.get(k) for k in ("model", "endpoint")):
                out["judge_kept"] = dict(self.judge)
        return out

    def texts(self, judge: LentJudge | None) -> dict[str, str]:
        """``judge.jsonl`` with the kept answers too; nothing where none are kept."""
        return {"judge.jsonl": answers_text(self.merged(judge))} if self.answers else {}

    def merged(self, judge: LentJudge | None) -> list[Answer]:
        """Answers of this run, and those kept that were not asked for again."""
        now = [] if judge is None else judge.answers
        again = {(a.id, a.repeat) for a in now}
        return [*now, *(a for a in self.answers if (a.id, a.repeat) not in again)]


def read_kept(folder: Path, metrics: Iterable[str], protocol: Protocol) -> KeptScoring:
    """From a unit's folder as it is; what cannot be read is left out.

    Parameters
    ----------
    metrics : that are kept.
    """
    kept = set(metrics)
    needed = {s for id in kept for s in scorers_of(id, protocol)}
    record = _record(folder / "run.json")
    scorers, judge = record.get("scorers"), record.get("judge")
    answers: tuple[Answer, ...] = ()
    if JUDGE in needed:
        try:
            answers = tuple(a for a in read_answers(folder / "judge.jsonl") if _asked_for(a, kept))
        except SpatialbenchError:
            answers = ()
    return KeptScoring(
        {id: about for id, about in scorers.items() if id in needed} if isinstance(scorers, dict) else {},
        judge if isinstance(judge, dict) and answers else {}, answers,
        {str(k): str(v) for k, v in backends.items()} if isinstance(backends := record.get("backends"), dict) else {})


def scorers_of(metric: str, protocol: Protocol) -> list[str]:
    """Scorers, or their stand-ins, that a metric names; the judge is one of them."""
    return [protocol.scorers.substitutes.get(s, s) for s in REGISTRY.metric(metric).spec.scorers]


def _asked_for(answer: Answer, metrics: set[str]) -> bool:
    """Whether an answer is to a prompt of one of the metrics; of a prompt that is not known here it may be."""
    name = answer.record.get("prompt")
    return not (isinstance(name, str) and name in prompt_names()) or bool(metrics & set(load_prompt(name).metrics))


def _record(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_RECORD:
            return {}
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
