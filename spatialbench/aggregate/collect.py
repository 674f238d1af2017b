"""Measurements of one metric and system to its model-level summary (spec section 12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from spatialbench.aggregate._record import Record
from spatialbench.aggregate._resample import values_by_case
from spatialbench.aggregate.intervals import Interval, IntervalSettings, mean_interval
from spatialbench.aggregate.means import mean, population_std
from spatialbench.aggregate.normalization import NormalizationTable, normalise
from spatialbench.aggregate.rounding import DASH, half_up, percent
from spatialbench.errors import ResultError
from spatialbench.types import Measurement, MetricSpec, Status
from spatialbench.types.scoring import SUBSTITUTE

__all__ = ["MetricSummary", "Reason", "check_measurements", "official", "summarise_metric"]


class Reason(Record):
    """A reason that measurements gave, and how often."""

    status: Status
    reason: str
    count: int


class MetricSummary(Record):
    """One metric of one system over all its cases and objects."""

    _only_if_given: ClassVar[frozenset[str]] = frozenset({"interval", "score_interval"})

    metric: str
    version: int
    track: str
    level: str
    retained: bool
    n_measured: int
    """Values that entered the mean, zeros by rule included."""
    n_applicable: int
    """All but the inapplicable: what could have been measured."""
    n_total: int
    """All records, of any status."""
    statuses: dict[str, int]
    """Records of each of the six statuses."""
    mean: float | None
    """Raw, in the metric's own unit and direction; None when nothing was measured."""
    std: float | None
    """Over cases or objects, population (ddof 0)."""
    normalised: float | None
    """In [0,1], higher is better; None without a mean or without a rule."""
    coverage: str
    """``4 of 10``: measured of applicable; ``stand-in only (4 of 10)``, or ``4 of 10, 1 by a stand-in``, where one had
    a part in all or some of them, and there is no score."""
    shown_raw: str
    shown_score: str
    """100 times the normalised value with its coverage, for people; a dash without one."""
    reasons: tuple[Reason, ...] = ()
    flags: dict[str, int] = Field(default_factory=dict)
    geometry: dict[str, int] = Field(default_factory=dict)
    interval: Interval | None = None
    """Of the raw mean; only where intervals were asked for."""
    score_interval: Interval | None = None
    """The same ends normalised, in [0,1]."""

    @property
    def partial(self) -> bool:
        """Some of what could have been measured was not."""
        return self.n_measured < self.n_applicable


def check_measurements(measurements: Iterable[Measurement], specs: Mapping[str, MetricSpec]) -> None:
    """Refuse what must not be averaged: duplicates, mixed versions, metrics without a declaration.

    Raises
    ------
    ResultError
    """
    seen: set[tuple[str, str, str, str | None]] = set()
    versions: dict[str, int] = {}
    for m in measurements:
        if m.metric not in specs:
            raise ResultError(f"no metric '{m.metric}' is known", where=_where(m),
                              todo="Install what declares it, or leave its results out")
        key = (m.metric, m.system, m.case, m.object)
        if key in seen:
            raise ResultError("the same measurement is there twice", where=_where(m),
                              todo="Give each result folder once")
        seen.add(key)
        version = versions.setdefault(m.metric, m.version)
        if version != m.version:
            low, high = sorted((version, m.version))
            raise ResultError(f"versions {low} and {high} of metric {m.metric} cannot be averaged",
                              where=f"metric {m.metric}", todo="Run the older results again")


def summarise_metric(measurements: Sequence[Measurement], spec: MetricSpec, table: NormalizationTable,
                     intervals: IntervalSettings | None = None) -> MetricSummary:
    """Mean over cases or objects, equal weights; only ``measured`` enters. At least one measurement.

    A retained metric needs a rule in ``table``; others are left without a normalised value.
    """
    values = [m.value for m in measurements if m.value is not None]
    raw = mean(values) if values else None
    ruled = (spec.retained or table.covers(spec.id)) and official(measurements)
    score = normalise(spec.id, raw, table) if raw is not None and ruled else None
    interval = None if intervals is None else mean_interval(values_by_case(measurements), intervals)
    score_interval = interval if ruled else None
    if score_interval is not None and score_interval.low is not None and score_interval.high is not None:
        score_interval = score_interval.mapped(*(normalise(spec.id, x, table) for x in
                                                 (score_interval.low, score_interval.high)))
    counts = Counter(m.status for m in measurements)
    n, total = len(values), len(measurements)
    applicable = total - counts[Status.INAPPLICABLE]
    coverage = _coverage(measurements, n, applicable)
    reasons = Counter((m.status, m.reason) for m in measurements if m.reason)
    order = list(Status)
    return MetricSummary(
        metric=spec.id, version=measurements[0].version, track=spec.track, level=spec.level,
        retained=spec.retained, n_measured=n, n_applicable=applicable, n_total=total,
        statuses={s.value: counts[s] for s in Status}, mean=raw, std=population_std(values) if values else None,
        normalised=score, coverage=coverage, shown_raw=half_up(raw, 4),
        shown_score=DASH if score is None else f"{percent(score)} ({coverage})",
        reasons=tuple(Reason(status=s, reason=r, count=c) for (s, r), c in
                      sorted(reasons.items(), key=lambda kv: (order.index(kv[0][0]), kv[0][1]))),
        flags=dict(sorted(Counter(f for m in measurements for f in m.flags).items())),
        geometry=dict(sorted(Counter(m.geometry for m in measurements if m.geometry).items())),
        interval=interval, score_interval=score_interval)


def official(measurements: Iterable[Measurement]) -> bool:
    """Whether no stand-in for a frozen scorer had a part in any value; else they are shown, and enter no score."""
    return not any(f.startswith(SUBSTITUTE) for m in measurements if m.value is not None for f in m.flags)


def _coverage(measurements: Iterable[Measurement], n: int, applicable: int) -> str:
    """How many of what could have been measured, and whether by stand-ins."""
    by_other = sum(not official([m]) for m in measurements)
    if not by_other:
        return f"{n} of {applicable}"
    return f"stand-in only ({n} of {applicable})" if by_other == n else f"{n} of {applicable}, {by_other} by a stand-in"


def why_missing(summary: MetricSummary | None) -> str:
    """In words why a metric has no score."""
    if summary is None:
        return "untested: no record"
    if summary.n_measured:
        stand_ins = [f.partition(":")[2] for f in summary.flags if f.startswith(SUBSTITUTE)]
        return f"{summary.coverage}: {', '.join(stand_ins)}" if stand_ins else "no normalisation rule"
    said = [f"{r.status} ({r.count}): {r.reason}" for r in summary.reasons]
    return "; ".join(said[:3]) + (f"; and {len(said) - 3} more reasons" if len(said) > 3 else "")


def _where(m: Measurement) -> str:
    return f"metric {m.metric}, system {m.system}, case {m.case}" + (f", object {m.object}" if m.object else "")
