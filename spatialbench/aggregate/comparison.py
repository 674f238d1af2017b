"""Two systems on the cases that both have: differences with intervals, sign tests, and what was left out."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from spatialbench.aggregate._record import Record
from spatialbench.aggregate._resample import Array
from spatialbench.aggregate.collect import check_measurements, official
from spatialbench.aggregate.groups import Level
from spatialbench.aggregate.intervals import Interval, IntervalSettings, interval_of, mean_interval, no_interval
from spatialbench.aggregate.joint import level_sample
from spatialbench.aggregate.means import exact_mean
from spatialbench.aggregate.normalization import NormalizationTable, load_normalization
from spatialbench.aggregate.significance import holm, sign_test
from spatialbench.errors import UsageError
from spatialbench.types import Measurement, MetricSpec

__all__ = ["Comparison", "LevelComparison", "MetricComparison", "compare", "comparison_json"]

Key = tuple[bool, str]
"""An object of a case; (False, "") for the case itself."""


class MetricComparison(Record):
    """One metric on the pairs (same case, same object) that both systems were measured on.

    Every case that either has a record of is in exactly one of the five counts.
    """

    metric: str
    version: int
    level: str
    higher_is_better: bool
    n_pairs: int
    n_cases: int
    """Cases with a pair."""
    only_system: int
    only_baseline: int
    """Cases in which one has values and the other has none."""
    unmatched: int
    """Cases in which both have values, of different objects."""
    neither: int
    """Cases without a value of either."""
    system: float | None
    baseline: float | None
    """Raw means over the pairs; None without any."""
    difference: float | None
    """System - baseline, raw: where lower is better, a negative one is an improvement."""
    interval: Interval
    """Of the difference; cases are drawn with all their pairs."""
    wins: int
    losses: int
    ties: int
    """Cases by the sum of their differences, a win is for the system, in the metric's direction."""
    p_value: float | None
    """Sign test over cases, two-sided, ties left out; None without a pair."""
    p_holm: float | None
    """Adjusted for all metrics of the comparison."""


class LevelComparison(Record):
    """One level from the pairs alone: each system's score from the same cases and objects."""

    track: str
    level: str
    metrics: tuple[str, ...]
    """Those with a pair; the score is made from these."""
    n_retained: int
    n_cases: int
    system: float | None
    baseline: float | None
    difference: float | None
    """0 to 100; positive: the system is better."""
    interval: Interval


class Comparison(Record):
    """Two systems. Numbers stand on common cases only, and say how many were not common."""

    system: str
    baseline: str
    settings: IntervalSettings
    metrics: tuple[MetricComparison, ...]
    levels: tuple[LevelComparison, ...]


def compare(measurements: Iterable[Measurement], specs: Mapping[str, MetricSpec], system: str, baseline: str, *,
            normalization: str | NormalizationTable | None = None, levels: Sequence[Level] = (),
            settings: IntervalSettings | None = None) -> Comparison:
    """Compare two systems metric by metric and level by level on their common cases.

    Parameters
    ----------
    measurements : of both (others are ignored); each (metric, system, case, object) once.
    specs : declarations of all metrics that occur.
    normalization, levels : what scores of levels are made with; none are compared without them.

    Raises
    ------
    ResultError : duplicates, mixed versions, unknown metrics.
    UsageError : the two are one, or there is no record of one of them; levels without a normalisation.
    """
    settings = settings or IntervalSettings()
    items = list(measurements)
    known = sorted({m.system for m in items})
    if system == baseline:
        raise UsageError(f"'{system}' cannot be compared with itself", where="compare",
                         todo=f"Name two of: {', '.join(known)}")
    for name in (system, baseline):
        if name not in known:
            raise UsageError(f"no system '{name}'", where="compare", todo=f"Known: {', '.join(known)}")
    if levels and normalization is None:
        raise UsageError("levels need a normalisation", where="compare", todo="Name one")
    items = [m for m in items if m.system in (system, baseline)]
    check_measurements(items, specs)
    sides: dict[str, dict[str, _Side]] = defaultdict(lambda: {system: {}, baseline: {}})
    versions: dict[str, int] = {}
    for m in items:
        values = sides[m.metric][m.system].setdefault(m.case, {})
        versions[m.metric] = m.version
        if m.value is not None:
            values[m.object is not None, m.object or ""] = m.value
    pairs = {id: _pairs(sides[id][system], sides[id][baseline]) for id in sorted(sides)}
    rows = [_metric(specs[id], versions[id], sides[id][system], sides[id][baseline], pairs[id], settings)
            for id in sorted(sides)]
    adjusted = holm({r.metric: r.p_value for r in rows})
    table = load_normalization(normalization) if isinstance(normalization, str) else normalization
    scored = {id: p for id, p in pairs.items() if official(m for m in items if m.metric == id)}
    return Comparison(
        system=system, baseline=baseline, settings=settings,
        metrics=tuple(r.model_copy(update={"p_holm": adjusted[r.metric]}) for r in rows),
        levels=() if table is None else tuple(_level(level, scored, table, settings) for level in levels))


def comparison_json(comparison: Comparison) -> str:
    """Canonical text: the same comparison is always the same bytes."""
    return json.dumps(comparison.model_dump(mode="json"), sort_keys=True, indent=1, ensure_ascii=False,
                      allow_nan=False) + "\n"


_Side = dict[str, dict[Key, float]]
_Pairs = dict[str, list[tuple[float, float]]]


def _pairs(a: _Side, b: _Side) -> _Pairs:
    """(system, baseline) values by case; cases without a pair are not in it."""
    found = {case: [(a[case][k], b[case][k]) for k in sorted(a[case].keys() & b[case].keys())]
             for case in sorted(a.keys() & b.keys())}
    return {case: p for case, p in found.items() if p}


def _metric(spec: MetricSpec, version: int, a: _Side, b: _Side, pairs: _Pairs,
            settings: IntervalSettings) -> MetricComparison:
    flat = [p for ps in pairs.values() for p in ps]
    left, right = (exact_mean(x) if flat else None for x in ([p for p, _ in flat], [q for _, q in flat]))
    signs = [_sign(ps) * (1 if spec.higher_is_better else -1) for ps in pairs.values()]
    others = [(bool(a.get(c)), bool(b.get(c))) for c in a.keys() | b.keys() if c not in pairs]
    wins, losses = signs.count(1), signs.count(-1)
    difference = None if left is None or right is None else left - right
    return MetricComparison(
        metric=spec.id, version=version, level=spec.level, higher_is_better=spec.higher_is_better, n_pairs=len(flat),
        n_cases=len(pairs), only_system=others.count((True, False)), only_baseline=others.count((False, True)),
        unmatched=others.count((True, True)), neither=others.count((False, False)), system=_float(left),
        baseline=_float(right), difference=_float(difference),
        interval=mean_interval({c: [x - y for x, y in ps] for c, ps in pairs.items()}, settings),
        wins=wins, losses=losses, ties=signs.count(0), p_value=sign_test(wins, losses) if pairs else None, p_holm=None)


def _level(level: Level, pairs: Mapping[str, _Pairs], table: NormalizationTable,
           settings: IntervalSettings) -> LevelComparison:
    common = {id: ps for id in level.metrics if (ps := pairs.get(id))}
    sample = level_sample(level, [{id: {c: [p[side] for p in ps] for c, ps in by_case.items()}
                                   for id, by_case in common.items()} for side in (0, 1)], table)
    cases = sample.sums.cases
    left, right = (g.score for g in sample.scores)
    alone = [id for id, by_case in common.items() if len(by_case) < 2]
    difference = None if left is None or right is None else float(Fraction(left) - Fraction(right))
    if difference is None:
        interval = no_interval(settings, len(cases), "no common case")
    elif alone:
        interval = no_interval(settings, len(cases), f"one common case only: {', '.join(alone)}")
    else:
        def gap(weight: Array) -> Array:
            both = sample(weight)
            return np.subtract(both[:, 0], both[:, 1])

        interval = interval_of(gap, difference, cases, settings, bounds=(-100.0, 100.0))
    return LevelComparison(track=level.track, level=level.level, metrics=tuple(common), n_retained=len(level.metrics),
                           n_cases=len(cases), system=left, baseline=right, difference=difference, interval=interval)


def _sign(pairs: Sequence[tuple[float, float]]) -> int:
    # fsum rounds once, so the sign of the sum is exact.
    total = math.fsum(x for p, q in pairs for x in (p, -q))
    return (total > 0) - (total < 0)


def _float(x: Fraction | None) -> float | None:
    return None if x is None else float(x)
