"""From what the rules of a metric gave to an outcome, and the flags of what it rests on."""

from __future__ import annotations

from typing import Any

from spatialbench.metrics.ruling import Ruling
from spatialbench.observe import Outcome

__all__ = ["doubts", "ruled_outcome"]


def doubts(*, given: bool = False, truncated: bool = False) -> tuple[str, ...]:
    """Flags of a value that rests on files of the case, or on the beginning of a text only."""
    return (*(("evidence_given",) if given else ()), *(("text_truncated",) if truncated else ()))


def ruled_outcome(ruling: Ruling, *, components: dict[str, Any] | None = None, counts: dict[str, int] | None = None,
                  flags: tuple[str, ...] = (), geometry: str | None = None) -> Outcome:
    """What the rules gave, as an outcome."""
    return Outcome(ruling.status, ruling.value, ruling.reason, components or {}, counts or {}, flags, geometry)
