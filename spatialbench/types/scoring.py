"""What a protocol fixes about its learned scorers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["SUBSTITUTE", "ScorerRules", "substitute_flag"]

SUBSTITUTE = "substitute:"
"""Prefix of the flag of a measurement that a stand-in had a part in."""


class ScorerRules(BaseModel):
    """Part of the result's definition. Where weights lie and which device computes is the user's."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    substitutes: dict[str, str] = Field(default_factory=dict)
    """Official scorer -> the stand-in to use in its place. What it gives is flagged and stays out of all scores."""
    detection_score: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Least score of a detection (OPEN-8, OPEN-18)."""
    detection_pixels: Annotated[int, Field(ge=0)] = 64
    """Least mask of a requested category in a probe (OPEN-8), and of a scored crop (M17), pixels."""


def substitute_flag(scorer: str) -> str:
    """The flag of a measurement that a stand-in had a part in."""
    return f"{SUBSTITUTE}{scorer}"
