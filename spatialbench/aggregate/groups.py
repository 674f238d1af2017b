"""Scores of levels from scores of metrics: means of what is available, and what is not (eq. 78).

One function serves every track: which metrics a level keeps, how they form dimensions and what these weigh
is data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, Literal

from spatialbench.aggregate._record import Record
from spatialbench.aggregate.intervals import Interval
from spatialbench.aggregate.means import exact_mean, weighted_mean
from spatialbench.aggregate.rounding import Number, exact, half_up
from spatialbench.types import MetricSpec

__all__ = ["Dimension", "DimensionScore", "Gap", "GroupScore", "Level", "Part", "group_score", "levels_from_specs"]


@dataclass(frozen=True)
class Dimension:
    """Metrics that are averaged with equal weights, and the weight of that mean in its level."""

    name: str
    metrics: tuple[str, ...]
    weight: Number = 1


@dataclass(frozen=True)
class Level:
    """What a level's score is made from; a level without metrics is never scored.

    Attributes
    ----------
    track, level : e.g. ``happyworld.spatial`` and ``W2``.
    dimensions : one for a plain mean of metrics; several for a weighted mean of their means.
    combine : ``geometric`` is the product of the dimension means to the power of their weights (which are made to sum
        to 1): 0 when one of them is 0, and no score when one is missing.
    round_dimensions : decimals to which a dimension's mean, 0 to 100, is rounded half up before it enters, where the
        published rule says so; None for no rounding.
    digits : decimals of the score as it is shown.
    """

    track: str
    level: str
    dimensions: tuple[Dimension, ...] = ()
    combine: Literal["arithmetic", "geometric"] = "arithmetic"
    round_dimensions: int | None = None
    digits: int = 2

    def __post_init__(self) -> None:
        ids = self.metrics
        if len(set(ids)) != len(ids):
            raise ValueError(f"level {self.level} names a metric twice: {ids}")

    @property
    def metrics(self) -> tuple[str, ...]:
        """All retained metrics, in order."""
        return tuple(m for d in self.dimensions for m in d.metrics)


class Part(Record):
    """A metric that entered a level's score."""

    metric: str
    normalised: float
    """In [0,1]."""
    coverage: str = ""
    """How many cases or objects its mean stands on, when not all: ``4 of 10``."""


class Gap(Record):
    """A retained metric that could not enter it."""

    metric: str
    why: str


class DimensionScore(Record):
    """Mean of one dimension."""

    name: str
    weight: float
    score: float | None
    n_available: int
    n_retained: int


class GroupScore(Record):
    """Score of one level of one system."""

    _only_if_given: ClassVar[frozenset[str]] = frozenset({"interval"})

    track: str
    level: str
    score: float | None
    """0 to 100; None when none of the retained metrics is available (a dash)."""
    n_available: int
    n_retained: int
    parts: tuple[Part, ...]
    missing: tuple[Gap, ...]
    dimensions: tuple[DimensionScore, ...] = ()
    """Only where the level has more than one."""
    shown: str
    """The score with two decimals, rounded half up, or a dash."""
    note: str
    """``3 of 7 metrics``, and which of them stand on some of their cases only."""
    interval: Interval | None = None
    """Of the score, 0 to 100; only where intervals were asked for."""


def group_score(level: Level, values: Mapping[str, Number | None], *, why: Mapping[str, str] | None = None,
                coverage: Mapping[str, str] | None = None, digits: int | None = None,
                interval: Interval | None = None) -> GroupScore:
    """100 times the mean of the available retained metrics, equal weights whatever their counts.

    With several dimensions: the weighted mean of their means, over the dimensions that have any metric (or their
    weighted geometric mean, see ``Level``).

    Parameters
    ----------
    values : normalised model-level scores in [0,1] by metric id; None or absent where there is none. Decimals and
        fractions stay exact up to ``shown``; floats are taken as the binary numbers that they are.
    why : reasons of the missing ones.
    coverage : counts to be shown with a partly measured metric.
    digits : decimals of ``shown``, when not those of the level.
    interval : of the score, to be kept beside it.

    Raises
    ------
    ValueError : for a value outside [0,1].
    """
    why, coverage = why or {}, coverage or {}
    known = {m: v for m in level.metrics if (v := values.get(m)) is not None}
    for m, v in known.items():
        if not 0 <= v <= 1:
            raise ValueError(f"{m}: the normalised value {v!r} is outside [0,1]")
    means = [(d, exact_mean(known[m] for m in d.metrics if m in known) if any(m in known for m in d.metrics)
              else None) for d in level.dimensions]
    decimal = not any(isinstance(v, float) for v in known.values())
    score = _combined(level, means, decimal)
    partial = [f"{m} on {coverage[m]}" for m in known if coverage.get(m)]
    n, total = len(known), len(level.metrics)
    return GroupScore(
        track=level.track, level=level.level, score=None if score is None else float(score),
        n_available=n, n_retained=total,
        parts=tuple(Part(metric=m, normalised=float(v), coverage=coverage.get(m, "")) for m, v in known.items()),
        missing=tuple(Gap(metric=m, why=why.get(m, "not run")) for m in level.metrics if m not in known),
        dimensions=() if len(means) < 2 else tuple(
            DimensionScore(name=d.name, weight=float(exact(d.weight)), score=None if v is None else float(100 * v),
                           n_available=sum(m in known for m in d.metrics), n_retained=len(d.metrics))
            for d, v in means),
        shown=half_up(score if score is None or decimal else float(score), level.digits if digits is None else digits),
        interval=interval, note="not scored" if total == 0 else "; ".join([f"{n} of {total} metrics", *partial]))


def _combined(level: Level, means: Sequence[tuple[Dimension, Fraction | None]],
              decimal: bool) -> Fraction | None:
    """The score, 0 to 100, from the dimensions' means in [0,1]; ties are seen as in what is shown."""
    if (digits := level.round_dimensions) is not None:
        means = [(d, None if v is None else
                  Fraction(Decimal(half_up(100 * v if decimal else float(100 * v), digits))) / 100) for d, v in means]
    found = [(v, d.weight) for d, v in means if v is not None]
    if not found or (level.combine == "geometric" and len(found) < len(means)):
        return None
    if level.combine == "arithmetic":
        return 100 * weighted_mean(found)
    total = sum(exact(w) for _, w in found)
    return 100 * exact(math.prod(float(v) ** float(exact(w) / total) for v, w in found))


def levels_from_specs(specs: Mapping[str, MetricSpec], unscored: Sequence[str] = ()) -> tuple[Level, ...]:
    """One plain level for every track and level that the metrics declare, sorted.

    A level without a retained metric, and those named in ``unscored`` (for every track), get a dash.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for spec in specs.values():
        metrics = found.setdefault((spec.track, spec.level), [])
        if spec.retained:
            metrics.append(spec.id)
        for name in unscored:
            found.setdefault((spec.track, name), [])
    return tuple(Level(track, level, (Dimension(level, tuple(sorted(ids))),) if ids else ())
                 for (track, level), ids in sorted(found.items()))
