"""How sure a ranking is: every system on the same resampled cases, again and again."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from spatialbench.aggregate._record import Record
from spatialbench.aggregate._resample import Array, Statistic, Values, case_seed, case_sums, resample, values_by_case
from spatialbench.aggregate.collect import check_measurements, official
from spatialbench.aggregate.groups import Level
from spatialbench.aggregate.intervals import IntervalSettings
from spatialbench.aggregate.joint import level_sample
from spatialbench.aggregate.means import mean
from spatialbench.aggregate.normalization import NormalizationTable, load_normalization
from spatialbench.errors import UsageError
from spatialbench.types import Measurement, MetricSpec

__all__ = ["RankTable", "SystemRank", "rank_systems"]


class SystemRank(Record):
    """The place of one system."""

    system: str
    score: float | None
    """Level: 0 to 100. Metric: its raw mean."""
    rank: int | None
    """1 + the number of systems that are strictly better; None without a score."""
    low: int | None
    high: int | None
    """Narrowest run of ranks that holds the wanted share of the resamples; of equally narrow ones the best."""
    modal: int | None
    """Most frequent rank; of equally frequent ones the best."""
    p_modal: float | None
    p_first: float | None
    """Shares of the resamples; a shared first place is a first place."""
    n_cases: int
    """Cases with a value of this system."""


class RankTable(Record):
    """Systems by rank, those without a score last."""

    target: str
    """``track level``, or a metric."""
    higher_is_better: bool
    level: float
    n_cases: int
    """Cases that were resampled: those with a value of any system."""
    replicates: int
    """Resamples in which every ranked system had a score."""
    seed: int | None
    note: str
    systems: tuple[SystemRank, ...]


def rank_systems(measurements: Iterable[Measurement], specs: Mapping[str, MetricSpec], target: Level | str,
                 normalization: str | NormalizationTable, settings: IntervalSettings | None = None) -> RankTable:
    """Ranks by the score of a level or by the raw mean of a metric, with intervals from a joint bootstrap.

    In each resample the same cases are drawn for every system, so that what is hard for all moves none. Systems that
    were measured on few of the cases are compared on what they have: see ``compare`` for common cases.

    Parameters
    ----------
    target : a level, or the id of a metric (ranked in its own direction).
    normalization : for the metrics of a level.

    Raises
    ------
    ResultError : duplicates, mixed versions, unknown metrics.
    UsageError : no such metric or normalisation.
    """
    settings = settings or IntervalSettings()
    items = list(measurements)
    check_measurements(items, specs)
    wanted = {target} if isinstance(target, str) else set(target.metrics)
    if isinstance(target, str) and target not in specs:
        raise UsageError(f"no metric '{target}'", where="ranks", todo="Name a metric or give a level")
    names = sorted({m.system for m in items})
    records: dict[str, dict[str, list[Measurement]]] = {name: defaultdict(list) for name in names}
    for m in items:
        if m.metric in wanted:
            records[m.system][m.metric].append(m)
    values = [{id: values_by_case(ms) for id, ms in records[name].items() if isinstance(target, str) or official(ms)}
              for name in names]
    statistic, scores, cases = _statistic(values, target, normalization)
    up = not isinstance(target, str) or specs[target].higher_is_better
    ranked = [s for s, x in enumerate(scores) if x is not None]
    place: dict[int, Array] = {}
    note, seed, used = "", None, 0
    if len(cases) < 2:
        note = "one case only" if cases else "nothing was measured"
    elif ranked:
        seed = case_seed(cases)
        found = resample(statistic, len(cases), settings.replicates, seed)[:, ranked]
        found = found[~np.isnan(found).any(axis=1)] * (1 if up else -1)
        used = len(found)
        if 2 * used < settings.replicates:
            note = f"a system was without a score in {settings.replicates - used} of {settings.replicates} resamples"
        else:
            note = f"fewer than {settings.few_cases} cases" if len(cases) < settings.few_cases else ""
            for j, s in enumerate(ranked):
                better = (found > found[:, j:j + 1]).sum(axis=1)
                place[s] = np.bincount(better, minlength=len(ranked)) / used
    rows = [_row(name, scores[s], scores, up, place.get(s), settings.level,
                 len({c for by_case in values[s].values() for c, v in by_case.items() if v}))
            for s, name in enumerate(names)]
    rows.sort(key=lambda r: (math.inf if r.rank is None else r.rank, r.system))
    return RankTable(target=target if isinstance(target, str) else f"{target.track} {target.level}",
                     higher_is_better=up, level=settings.level, n_cases=len(cases), replicates=used, seed=seed,
                     note=note, systems=tuple(rows))


def _statistic(values: list[dict[str, dict[str, list[float]]]], target: Level | str,
               normalization: str | NormalizationTable) -> tuple[Statistic, list[float | None], tuple[str, ...]]:
    """Scores [B,S] of case weights [B,C], the scores as they are, and the cases."""
    if isinstance(target, Level):
        table = load_normalization(normalization) if isinstance(normalization, str) else normalization
        sample = level_sample(target, values, table)
        return sample, [g.score for g in sample.scores], sample.sums.cases
    columns: list[Values] = [v.get(target, {}) for v in values]
    sums = case_sums(columns, [target] * len(columns))
    flat = [[x for v in column.values() for x in v] for column in columns]
    return sums.means, [mean(x) if x else None for x in flat], sums.cases


def _row(system: str, score: float | None, scores: list[float | None], up: bool, share: Array | None, level: float,
         n_cases: int) -> SystemRank:
    rank = None if score is None else 1 + sum(x > score if up else x < score for x in scores if x is not None)
    if share is None:
        return SystemRank(system=system, score=score, rank=rank, low=None, high=None, modal=None, p_modal=None,
                          p_first=None, n_cases=n_cases)
    low, high = narrowest(share, level)
    modal = int(np.argmax(share))
    return SystemRank(system=system, score=score, rank=rank, low=low + 1, high=high + 1, modal=modal + 1,
                      p_modal=float(share[modal]), p_first=float(share[0]), n_cases=n_cases)


def narrowest(share: Array, level: float) -> tuple[int, int]:
    """First and last index of the narrowest run of shares [S] that sums to the level; the first of equal width."""
    total = np.concatenate([[0.0], np.cumsum(share)])
    for width in range(1, len(share)):
        held = total[width:] - total[:-width]
        enough = np.flatnonzero(held >= level - 1e-12)
        if len(enough):
            return int(enough[0]), int(enough[0]) + width - 1
    return 0, len(share) - 1
