"""How metrics ask the judge: one prompt, many views, repeats by majority, and too few answers are no value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.observe import Observations
from spatialbench.scorers.judge import Picture, Question, agreement, coverage, judge_image, load_prompt, repeated

__all__ = ["Verdicts", "ask_of_views", "recorded"]


@dataclass(frozen=True)
class Verdicts:
    """What the judge says of some views.

    Attributes
    ----------
    views : for each view its answers by key, by majority of the repeats; None: no usable answer.
    lacking : why they are too few for a value; empty when they are enough.
    counts : questions answered, in error and not asked.
    disagreement : largest share of the repeats of one question that say something else than most; 0 without repeats.
    """

    views: tuple[Mapping[str, bool] | None, ...]
    lacking: str
    counts: Mapping[str, int]
    disagreement: float


def ask_of_views(obs: Observations, prompt: str, images: Sequence[NDArray[np.uint8]], *, name: str,
                 fields: Mapping[str, str] | None = None) -> Verdicts:
    """Ask one packaged prompt about each image by itself.

    Parameters
    ----------
    images : [H,W,3] uint8 each.
    name : of the views, part of the question's id, unique within a case.

    Raises
    ------
    BackendUnavailableError : there is no judge, or it cannot be used.
    """
    judge: Any = obs.context.judge
    if isinstance(judge, str):
        raise BackendUnavailableError(f"needs a judge: {judge}")
    rules, asked = obs.protocol.judge, load_prompt(prompt)
    keys = [k for k, p in asked.answer.items() if p.type == "boolean"]
    questions = [Question(f"{name}.{k:02d}", asked, (Picture(judge_image(image, asked.pictures.max_side)),),
                          fields or {}) for k, image in enumerate(images)]
    answers = judge.ask(repeated(questions, rules.repeats))
    found, said = coverage(answers), {key: agreement(answers, key) for key in keys}
    views: list[Mapping[str, bool] | None] = []
    for question in questions:
        verdict = {key: by_id[question.id].value for key, by_id in said.items() if question.id in by_id}
        usable = len(verdict) == len(keys) and None not in verdict.values()  # None: as many say yes as no
        views.append({key: bool(value) for key, value in verdict.items()} if usable else None)
    lacks = found.lacking(rules.min_coverage) or _few(views, rules.min_coverage, "the judge's repeats agree on")
    most = max((a.disagreement for by_id in said.values() for a in by_id.values()), default=0.0)
    return Verdicts(tuple(views), lacks, {"answered": found.answered, "judge_errors": found.errors,
                                          "not_asked": found.not_asked}, most)


def recorded(views: Sequence[Mapping[str, bool] | None], least: float) -> Verdicts:
    """Answers that the case gives, None for a view without one; as those of a judge, a share ``least`` is needed."""
    known = sum(v is not None for v in views)
    return Verdicts(tuple(views), _few(views, least, "the evidence answers"),
                    {"answered": known, "judge_errors": 0, "not_asked": len(views) - known}, 0.0)


def _few(views: Sequence[object], least: float, who: str) -> str:
    """Why there are too few answers; empty when there are enough. Shares such as 0.56 of 25 are not exact in binary."""
    known = sum(v is not None for v in views)
    if known >= least * len(views) - 1e-9:
        return ""
    return f"{who} {known} of {len(views)} views, at least {least:.0%} are needed"
