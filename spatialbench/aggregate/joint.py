"""Metric means and level scores of many systems on the same resampled cases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spatialbench.aggregate._resample import Array, CaseSums, Statistic, Values, case_sums
from spatialbench.aggregate.groups import GroupScore, Level, group_score
from spatialbench.aggregate.intervals import Interval, IntervalSettings, interval_of, no_interval
from spatialbench.aggregate.means import mean
from spatialbench.aggregate.normalization import NormalizationTable, normalise
from spatialbench.aggregate.rounding import exact

__all__ = ["LevelSample", "level_interval", "level_sample"]


@dataclass(frozen=True)
class LevelSample:
    """One level of S systems as a function of case weights.

    A system's score is made from the metrics that it has values of, in every resample the same ones; a resample that
    leaves one of them without a value leaves the score undefined.

    Attributes
    ----------
    level : its definition.
    table : normalisation of the means.
    sums : columns of all systems, over the union of their cases.
    columns : for each system, its column of each available metric.
    scores : the S scores on the cases as they are.
    """

    level: Level
    table: NormalizationTable
    sums: CaseSums
    columns: tuple[Mapping[str, int], ...]
    scores: tuple[GroupScore, ...]

    def __call__(self, weight: Array) -> Array:
        """Weights [B,C] to scores [B,S], 0 to 100; dimensions are not rounded on the way."""
        means = self.sums.means(weight)
        out = np.full((len(weight), len(self.columns)), np.nan)
        for s, columns in enumerate(self.columns):
            score = _combined(self.level, {m: self._normalised(m, means[:, k]) for m, k in columns.items()})
            if score is not None:
                out[:, s] = score
        return out

    def of(self, system: int) -> Statistic:
        """The statistic of one of the systems."""
        return lambda weight: self(weight)[:, system]

    def _normalised(self, metric: str, means: Array) -> Array:
        out = np.full(len(means), np.nan)
        known = ~np.isnan(means)
        out[known] = self.table.rule(metric).many(means[known].tolist())
        return out


def level_sample(level: Level, systems: Sequence[Mapping[str, Values]], table: NormalizationTable) -> LevelSample:
    """Gather a level's metrics.

    Parameters
    ----------
    systems : for each of them, values by case of each metric (those of other levels are left aside).

    Raises
    ------
    UsageError : the table has no rule for a metric.
    """
    columns: list[Values] = []
    family: list[str] = []
    index: list[dict[str, int]] = []
    scores = []
    for values in systems:
        own: dict[str, int] = {}
        points: dict[str, float] = {}
        for metric in level.metrics:
            flat = [x for v in values.get(metric, {}).values() for x in v]
            if flat:
                own[metric] = len(columns)
                columns.append(values[metric])
                family.append(metric)
                points[metric] = normalise(metric, mean(flat), table)
        index.append(own)
        scores.append(group_score(level, points))
    return LevelSample(level, table, case_sums(columns, family), tuple(index), tuple(scores))


def level_interval(level: Level, values: Mapping[str, Values], table: NormalizationTable,
                   settings: IntervalSettings) -> Interval:
    """Interval of one system's score of a level, 0 to 100: the cases of all its metrics are drawn together."""
    sample = level_sample(level, [values], table)
    cases, score = sample.sums.cases, sample.scores[0].score
    if score is None:
        return no_interval(settings, len(cases), "there is no score")
    alone = [m for m, k in sample.columns[0].items() if np.count_nonzero(sample.sums.count[:, k]) < 2]
    if alone:
        return no_interval(settings, len(cases), f"measured on one case only: {', '.join(alone)}")
    return interval_of(sample.of(0), score, cases, settings, bounds=(0.0, 100.0))


def _combined(level: Level, known: Mapping[str, Array]) -> Array | None:
    """The level's rule on arrays [B] of normalised values."""
    found = [(sum(known[m] for m in d.metrics if m in known) / n, float(exact(d.weight)))
             for d in level.dimensions if (n := sum(m in known for m in d.metrics))]
    if not found or (level.combine == "geometric" and len(found) < len(level.dimensions)):
        return None
    total = sum(w for _, w in found)
    if level.combine == "geometric":
        return np.asarray(100 * math.prod(v ** (w / total) for v, w in found), np.float64)
    return np.asarray(100 * sum(v * w for v, w in found) / total, np.float64)
