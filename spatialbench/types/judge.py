"""What a protocol fixes about its judge: which model answers, how it decodes, how many answers there must be."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["JudgeRules"]


class JudgeRules(BaseModel):
    """Part of the result's definition. Where the model runs and who pays is the user's: ``scorers.judge.settings``.

    happyworld-spatial OPEN-6e and OPEN-25.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    model: str = Field("Qwen/Qwen3-VL-8B-Instruct", min_length=1, max_length=200)
    """Identity of the frozen model; an endpoint may serve it under another name."""
    temperature: float = Field(0.0, ge=0, le=2)
    seed: int = Field(0, ge=0, le=2**31 - 1)
    """Sent with the first answer to a question; repeat k sends ``seed + k``. Endpoints obey it as well as they can."""
    repeats: int = Field(1, ge=1, le=9)
    """Answers asked for each question; more than one are combined by majority."""
    min_coverage: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of a metric's questions that must be answered for it to have a value."""
