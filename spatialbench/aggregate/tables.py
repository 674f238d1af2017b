"""Tables of many systems, and levels from columns that are normalised already (such as published ones)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from spatialbench.aggregate.groups import GroupScore, Level, group_score
from spatialbench.aggregate.rounding import DASH, Number, exact
from spatialbench.aggregate.summary import Summary

__all__ = ["Table", "level_table", "metric_table", "scores_from_columns"]


@dataclass(frozen=True)
class Table:
    """Text as it is printed: a header and one row a system.

    ``notes`` [rows][columns] hold what stands beside a number, e.g. ``4 of 10``; empty where there is nothing to say.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[tuple[str, ...], ...]


def scores_from_columns(rows: Mapping[str, Mapping[str, Number | None]], level: Level,
                        digits: int = 2) -> dict[str, GroupScore]:
    """A level's score of each system from its metrics' displayed scores, 0 to 100.

    Parameters
    ----------
    rows : system -> column -> score, None for a dash; the columns are the metric ids of ``level``. Give Decimals to
        get the exact mean of what is printed.
    digits : decimals of ``GroupScore.shown``.
    """
    def share(x: Number) -> Number:
        return x / 100 if isinstance(x, (float, Decimal)) else exact(x) / 100

    return {system: group_score(level, {m: None if v is None else share(v) for m, v in row.items()}, digits=digits)
            for system, row in rows.items()}


def level_table(summary: Summary) -> Table:
    """Systems by levels; beside every score its count of metrics and of cases, where they are not all."""
    keys = [(g.track, g.level) for g in summary.systems[0].groups] if summary.systems else []
    tracks = {t for t, _ in keys}
    columns = tuple(level if len(tracks) == 1 else f"{track} {level}" for track, level in keys)
    return Table(("system", *columns),
                 tuple((s.system, *(g.shown for g in s.groups)) for s in summary.systems),
                 tuple(("", *(g.note for g in s.groups)) for s in summary.systems))


def metric_table(summary: Summary, level: str, track: str | None = None) -> Table:
    """Systems by the metrics of one level, as normalised scores; beside each ``n of m`` cases or objects."""
    ids = sorted({m.metric for s in summary.systems for m in s.metrics
                  if m.level == level and track in (None, m.track)})
    found = [(s.system, [s.metric(id) for id in ids]) for s in summary.systems]
    return Table(("system", *ids),
                 tuple((name, *(DASH if m is None else m.shown_score for m in ms)) for name, ms in found),
                 tuple(("", *("no record" if m is None else m.coverage for m in ms)) for name, ms in found))
