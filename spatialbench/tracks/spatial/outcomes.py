"""From what the rules of a metric gave to an outcome."""

from __future__ import annotations

from typing import Any

from spatialbench.metrics.ruling import Ruling
from spatialbench.observe import Outcome

__all__ = ["ruled_outcome"]


def ruled_outcome(ruling: Ruling, *, components: dict[str, Any] | None = None, counts: dict[str, int] | None = None,
                  flags: tuple[str, ...] = (), geometry: str | None = None) -> Outcome:
    """What the rules gave, as an outcome."""
    return Outcome(ruling.status, ruling.value, ruling.reason, components or {}, counts or {}, flags, geometry)
