"""One measured (or not measured) value, and the six ways it can have come about."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["Measurement", "Status"]


class Status(str, Enum):
    """Why a value is there, or is not. The six are never mixed in a mean or a table.

    Only ``measured`` carries a value (a zero that a rule gives is ``measured`` with a reason).
    """

    MEASURED = "measured"
    INAPPLICABLE = "inapplicable"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
    UNTESTED = "untested"

    def __str__(self) -> str:
        return self.value


class Measurement(BaseModel):
    """The outcome of one metric for one case, system and (where it has any) object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    """Registry id, e.g. ``M08`` or ``wbench.navscore``."""
    version: int
    """Version of the metric's definition; values of different versions are never averaged."""
    case: str
    system: str
    object: str | None = None
    """Annotated object, trial group or view set, for metrics scored below the case."""
    value: float | None = None
    """Raw value in the metric's own unit and direction; present exactly when ``status`` is measured."""
    status: Status
    reason: str = ""
    """Why there is no value, or which rule gave a zero."""
    components: dict[str, Any] = Field(default_factory=dict)
    """What the value was made from (JSON types only)."""
    counts: dict[str, int] = Field(default_factory=dict)
    """How many frames, trials, locations... entered it."""
    flags: tuple[str, ...] = ()
    """Doubts about the value that do not remove it, e.g. ``facing_disagrees``."""
    geometry: str | None = None
    """Which geometry was measured: ``mesh``, ``splats``, ``fused_mesh``, ``collider``; none for videos."""

    @model_validator(mode="after")
    def _value_only_when_measured(self) -> Measurement:
        if (self.status is Status.MEASURED) != (self.value is not None):
            raise ValueError(f"{self.metric}: a value and the status 'measured' go together, got "
                             f"value={self.value!r} with status={self.status.value}")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"{self.metric}: the value {self.value!r} is not a finite number")
        if self.status is not Status.MEASURED and not self.reason:
            raise ValueError(f"{self.metric}: status {self.status.value} needs a reason")
        return self
