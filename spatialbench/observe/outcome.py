"""What a metric function returns: a value, or the status and reason for not having one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from spatialbench.types import Measurement, MetricSpec, Status

__all__ = ["Outcome", "inapplicable", "invalid", "measured", "unavailable", "untested"]


@dataclass(frozen=True)
class Outcome:
    """A measurement before it is tied to a metric, a case and a system (fields as in ``Measurement``)."""

    status: Status
    value: float | None = None
    reason: str = ""
    components: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    geometry: str | None = None

    def with_flags(self, *flags: str) -> Outcome:
        """The same with more flags, each once, in order."""
        return replace(self, flags=tuple(dict.fromkeys((*self.flags, *flags))))

    def as_measurement(self, spec: MetricSpec, case: str, system: str,
                       object: str | None = None) -> Measurement:
        """Tie it to a metric, a case and a system."""
        return Measurement(metric=spec.id, version=spec.version, case=case, system=system, object=object,
                           value=self.value, status=self.status, reason=self.reason,
                           components=self.components, counts=self.counts, flags=self.flags,
                           geometry=self.geometry)


def measured(value: float, reason: str = "", *, components: dict[str, Any] | None = None,
             counts: dict[str, int] | None = None, flags: tuple[str, ...] = (),
             geometry: str | None = None) -> Outcome:
    """A value; ``reason`` names the rule when the value is a zero that a rule gives."""
    return Outcome(Status.MEASURED, float(value), reason, components or {}, counts or {}, flags, geometry)


def inapplicable(reason: str, **kw: Any) -> Outcome:
    """There is nothing to measure."""
    return Outcome(Status.INAPPLICABLE, reason=reason, **kw)


def invalid(reason: str, **kw: Any) -> Outcome:
    """The input makes the value undefined."""
    return Outcome(Status.INVALID, reason=reason, **kw)


def unavailable(reason: str, **kw: Any) -> Outcome:
    """A scorer, a backend or a run is missing."""
    return Outcome(Status.UNAVAILABLE, reason=reason, **kw)


def untested(reason: str, **kw: Any) -> Outcome:
    """It was not run."""
    return Outcome(Status.UNTESTED, reason=reason, **kw)
