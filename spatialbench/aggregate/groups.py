"""Scores of levels from scores of metrics: means of what is available, and what is not (eq. 78).

One function serves every track: which metrics a level keeps, how they form dimensions and what these weigh
is data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from spatialbench.aggregate.means import exact_mean, weighted_mean
from spatialbench.aggregate.rounding import Number, exact, half_up
from spatialbench.types import MetricSpec

__all__ = ["Dimension", "Gap", "GroupScore", "Level", "Part", "group_score", "levels_from_specs"]


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
    """

    track: str
    level: str
    dimensions: tuple[Dimension, ...] = ()

    def __post_init__(self) -> None:
        ids = self.metrics
        if len(set(ids)) != len(ids):
            raise ValueError(f"level {self.level} names a metric twice: {ids}")

    @property
    def metrics(self) -> tuple[str, ...]:
        """All retained metrics, in order."""
        return tuple(m for d in self.dimensions for m in d.metrics)


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Part(_Record):
    """A metric that entered a level's score."""

    metric: str
    normalised: float
    """In [0,1]."""
    coverage: str = ""
    """How many cases or objects its mean stands on, when not all: ``4 of 10``."""


class Gap(_Record):
    """A retained metric that could not enter it."""

    metric: str
    why: str


class DimensionScore(_Record):
    """Mean of one dimension."""

    name: str
    weight: float
    score: float | None
    n_available: int
    n_retained: int


class GroupScore(_Record):
    """Score of one level of one system."""

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


def group_score(level: Level, values: Mapping[str, Number | None], *, why: Mapping[str, str] | None = None,
                coverage: Mapping[str, str] | None = None, digits: int = 2) -> GroupScore:
    """100 times the mean of the available retained metrics, equal weights whatever their counts.

    With several dimensions: the weighted mean of their means, over the dimensions that have any metric.

    Parameters
    ----------
    values : normalised model-level scores in [0,1] by metric id; None or absent where there is none. Decimals and
        fractions stay exact up to ``shown``; floats are taken as the binary numbers that they are.
    why : reasons of the missing ones.
    coverage : counts to be shown with a partly measured metric.
    digits : decimals of ``shown``.

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
    available = [(v, d.weight) for d, v in means if v is not None]
    score = 100 * weighted_mean(available) if available else None
    decimal = not any(isinstance(v, float) for v in known.values())
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
        shown=half_up(score if score is None or decimal else float(score), digits),
        note="not scored" if total == 0 else "; ".join([f"{n} of {total} metrics", *partial]))


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
