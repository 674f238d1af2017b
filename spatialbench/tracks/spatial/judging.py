"""How metrics ask the judge: one prompt, many views, repeats by majority, and too few answers are no value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.observe import Observations
from spatialbench.scorers.judge import Picture, Question, coverage, judge_image, load_prompt, repeated

__all__ = ["Verdicts", "ask_of_views"]


@dataclass(frozen=True)
class Verdicts:
    """What the judge says of some views.

    Attributes
    ----------
    views : for each view its answers by key, by majority of the repeats; None: no usable answer.
    lacking : why they are too few for a value; empty when they are enough.
    counts : questions answered, in error and not asked.
    disagreement : largest share of repeats that say something else than most; 0 without repeats.
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
    found = coverage(answers)
    views: list[Mapping[str, bool] | None] = []
    most = 0.0
    for question in questions:
        said = [a.values for a in answers if a.id == question.id and a.status == "answered"]
        verdict: dict[str, bool] | None = {}
        for key in keys:
            yes = sum(bool(v[key]) for v in said)
            if 2 * yes == len(said):  # nothing was said, or no majority
                verdict = None
                break
            most = max(most, min(yes, len(said) - yes) / len(said))
            assert verdict is not None
            verdict[key] = 2 * yes > len(said)
        views.append(verdict)
    lacks = found.lacking(rules.min_coverage)
    known = sum(v is not None for v in views)
    if not lacks and known < rules.min_coverage * len(views):
        lacks = (f"the judge's repeats agree on {known} of {len(views)} views, at least {rules.min_coverage:.0%} are "
                 "needed")
    return Verdicts(tuple(views), lacks, {"answered": found.answered, "judge_errors": found.errors,
                                          "not_asked": found.not_asked}, most)
