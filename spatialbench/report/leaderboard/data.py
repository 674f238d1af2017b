"""Everything that a leaderboard says, from gathered measurements alone: the same results give the same bytes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import spatialbench
from spatialbench.aggregate import (
    IntervalSettings,
    Level,
    NormalizationTable,
    RankTable,
    Summary,
    levels_from_specs,
    load_aggregation,
    load_normalization,
    rank_systems,
    summarise,
)
from spatialbench.configs import config_names
from spatialbench.errors import ResultError
from spatialbench.observe import REGISTRY
from spatialbench.runs.gather import Gathered
from spatialbench.types import Measurement, MetricSpec, Status

__all__ = ["Board", "Reading", "board_json", "make_board", "plan_of"]

@dataclass(frozen=True, eq=False)
class Reading:
    """How measurements become scores.

    Attributes
    ----------
    specs : declarations of the metrics of the track.
    table : for their means.
    levels : what a level is made of.
    aggregation : id of the file that says so; empty for plain means by the metrics' own declarations.
    notes : what does not fit, in words.
    """

    specs: Mapping[str, MetricSpec]
    table: NormalizationTable
    levels: tuple[Level, ...]
    aggregation: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Board:
    """A leaderboard.

    Attributes
    ----------
    ranks : level -> ranks of systems; metric_ranks : the same by metric. Empty with one system or without intervals.
    values : metric -> system -> measurements with a value, by (value, case, object).
    shown : metrics that tables of metrics show.
    """

    gathered: Gathered
    reading: Reading
    summary: Summary
    settings: IntervalSettings | None
    ranks: Mapping[str, RankTable] = field(default_factory=dict)
    metric_ranks: Mapping[str, RankTable] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, Sequence[Measurement]]] = field(default_factory=dict)
    shown: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences to be read with the numbers."""
        one = ("One case only: a preview, not a benchmark result.",) if self.summary.n_cases == 1 else ()
        return (*one, *self.gathered.marks, *self.gathered.warnings, *self.reading.notes)

    def statuses(self, metric: str) -> dict[Status, int]:
        """Records of each status, of all systems together."""
        total: Counter[str] = Counter()
        for s in self.summary.systems:
            found = s.metric(metric)
            total.update(found.statuses if found else {})
        return {s: total[s.value] for s in Status}

    def reasons(self, metric: str) -> list[tuple[Status, str, int]]:
        """Status, reason and count over all systems: by status, then the most frequent first."""
        total: Counter[tuple[Status, str]] = Counter()
        for s in self.summary.systems:
            found = s.metric(metric)
            for r in found.reasons if found else ():
                total[r.status, r.reason] += r.count
        order = list(Status)
        ordered = sorted(total.items(), key=lambda kv: (order.index(kv[0][0]), -kv[1], kv[0][1]))
        return [(s, r, n) for (s, r), n in ordered]


def plan_of(gathered: Gathered, aggregation: str | None = None) -> Reading:
    """How these results are read: the protocol's track and normalisation, and the track's own way to levels.

    Parameters
    ----------
    aggregation : a packaged file's name, or a file; the track's only one when None.

    Raises
    ------
    ResultError : a metric that nobody declares, or a protocol without a track.
    UsageError, ConfigError : the normalisation or aggregation.
    """
    track, name = gathered.protocol.get("track"), gathered.protocol.get("normalization")
    if not isinstance(track, str) or not isinstance(name, str):
        raise ResultError("the protocol of the results names no track or normalisation", where="protocol",
                          todo="Run them again with this version")
    specs = REGISTRY.specs(track)
    found: dict[str, int] = {}
    for m in gathered.measurements:
        found.setdefault(m.metric, m.version)
    unknown = sorted(found.keys() - specs.keys())
    if unknown:
        raise ResultError(f"no metric '{unknown[0]}' of the track '{track}' is known", where="results",
                          todo="Install what declares it")
    notes = tuple(f"{id}: the results are of version {v} of the metric, this program has {specs[id].version}: its "
                  "direction and level may have changed" for id, v in sorted(found.items()) if v != specs[id].version)
    table = load_normalization(name)
    if aggregation is not None:
        chosen = load_aggregation(aggregation)
    else:
        plans = [load_aggregation(n) for n in config_names("aggregation")]
        fitting = [p for p in plans if p.track == track and not p.per_level]
        if len(fitting) != 1:
            return Reading(specs, table, levels_from_specs(specs), "", notes)
        chosen = fitting[0]
    return Reading(specs, table, chosen.plan, chosen.id, notes)


def make_board(gathered: Gathered, settings: IntervalSettings | None = None, *, aggregation: str | None = None,
               metrics: Sequence[str] = ()) -> Board:
    """Means, scores, intervals and ranks.

    Parameters
    ----------
    settings : of intervals; none are made when None.
    aggregation : as in :func:`plan_of`.
    metrics : ids that tables of metrics show; all with a record when empty. Scores of levels always stand on all.

    Raises
    ------
    ResultError, UsageError, ConfigError : as :func:`plan_of` and ``summarise``.
    """
    reading = plan_of(gathered, aggregation)
    summary = summarise(gathered.measurements, reading.specs, reading.table, levels=reading.levels,
                        cases=gathered.cases, intervals=settings)
    by_metric: dict[str, list[Measurement]] = defaultdict(list)
    for m in gathered.measurements:
        by_metric[m.metric].append(m)
    ranks: dict[str, RankTable] = {}
    metric_ranks: dict[str, RankTable] = {}
    if settings is not None and len(summary.systems) > 1:
        for id, records in sorted(by_metric.items()):
            if any(m.value is not None for m in records):
                metric_ranks[id] = rank_systems(records, reading.specs, id, reading.table, settings)
        for level in reading.levels:
            records = [m for id in level.metrics for m in by_metric.get(id, ())]
            if any(m.value is not None for m in records):
                ranks[level.level] = rank_systems(records, reading.specs, level, reading.table, settings)
    values: dict[str, dict[str, list[Measurement]]] = {}
    for id, records in sorted(by_metric.items()):
        rows: dict[str, list[Measurement]] = defaultdict(list)
        for m in records:
            if m.value is not None:
                rows[m.system].append(m)
        values[id] = {s: sorted(ms, key=lambda m: (m.value, m.case, m.object or "")) for s, ms in sorted(rows.items())}
    known = sorted(by_metric)
    return Board(gathered, reading, summary, settings, ranks, metric_ranks, values,
                 tuple(id for id in known if id in metrics) if metrics else tuple(known))


def board_json(board: Board) -> str:
    """Canonical text of all of it. It holds no path and no time: the same results give it byte by byte."""
    g = board.gathered
    data: dict[str, Any] = {
        "schema": 1,
        "version": spatialbench.__version__,
        "protocol": {"id": g.protocol.get("id"), "hash": g.protocol_hash, "fast": bool(g.protocol.get("fast")),
                     "overrides": list(g.settings)},
        "aggregation": board.reading.aggregation,
        "intervals": None if board.settings is None else board.settings.model_dump(mode="json"),
        "units": {"planned": len(g.units), **g.counts,
                  "not_done": [{"system": u.system, "case": u.case, "status": u.status}
                               for u in g.units if u.status != "done"],
                  "stale": [{"system": s, "case": c, "metrics": list(ms)} for (s, c), ms in g.stale.items()]},
        "warnings": list(board.warnings),
        "summary": board.summary.model_dump(mode="json"),
        "ranks": {"levels": {k: r.model_dump(mode="json") for k, r in board.ranks.items()},
                  "metrics": {k: r.model_dump(mode="json") for k, r in board.metric_ranks.items()}}}
    return json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
