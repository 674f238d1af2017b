"""Every learned scorer that the metrics name, and whether it can be used on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spatialbench.errors import UsageError
from spatialbench.scorers.judge.open import judge_status
from spatialbench.scorers.registry import scorer_specs, scorer_status
from spatialbench.scorers.settings import ScorerSettings

__all__ = ["JUDGE", "ScorerInfo", "scorer", "scorers"]

JUDGE = "vlm_judge"
"""The model that answers questions about pictures; it is named by the user (``scorers.judge``)."""


@dataclass(frozen=True)
class ScorerInfo:
    """A frozen model that scores, detects or judges.

    Attributes
    ----------
    id : what metrics name.
    model : what it is.
    gives : what it is used for.
    usable : whether it can be used here.
    reason : why not, and what to do; of a judge, which one is used.
    stands_in_for : the official scorer that it may replace when asked; empty for an official one.
    """

    id: str
    model: str
    gives: str
    usable: bool
    reason: str
    stands_in_for: str = ""


def scorers(settings: ScorerSettings | None = None, judge: Path | None = None) -> list[ScorerInfo]:
    """All known scorers, by id; the judge is that of the file ``judge``, or the environment's."""
    out = []
    for spec in scorer_specs().values():
        why = scorer_status(spec.id, settings)
        out.append(ScorerInfo(spec.id, spec.model, spec.role, not why, why, spec.stands_in_for))
    usable, words = judge_status(judge)
    out.append(ScorerInfo(JUDGE, "Qwen3-VL", "yes/no judgments of views", usable, words))
    return sorted(out, key=lambda s: s.id)


def scorer(id: str, settings: ScorerSettings | None = None) -> ScorerInfo:
    """One scorer.

    Raises
    ------
    UsageError : unknown id.
    """
    for info in scorers(settings):
        if info.id == id:
            return info
    raise UsageError(f"no scorer '{id}'", todo=f"Known: {', '.join(s.id for s in scorers(settings))}")
