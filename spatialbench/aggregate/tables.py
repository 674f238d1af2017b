"""Tables of many systems, and levels from columns that are normalised already (such as published ones)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from spatialbench.aggregate.comparison import Comparison
from spatialbench.aggregate.groups import GroupScore, Level, group_score
from spatialbench.aggregate.intervals import Interval
from spatialbench.aggregate.markup import csv_text, latex_cell, markdown_cell
from spatialbench.aggregate.ranks import RankTable
from spatialbench.aggregate.rounding import DASH, Number, exact, half_up, percent
from spatialbench.aggregate.summary import Summary, SystemSummary
from spatialbench.errors import UsageError

__all__ = ["Table", "comparison_table", "leaderboard", "level_table", "metric_table", "rank_table",
           "scores_from_columns"]

Ends = tuple[str, str]


@dataclass(frozen=True)
class Table:
    """Text as it is printed: a header and one row a system (or a metric).

    ``notes`` [rows][columns] hold what stands beside a number, e.g. ``4 of 10``; ``intervals``, of the same shape,
    the two ends of its interval. Either is empty where there is nothing to say.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[tuple[str, ...], ...]
    intervals: tuple[tuple[Ends | None, ...], ...] = ()

    def to_csv(self) -> str:
        """For programs and spreadsheets: notes and ends of intervals in columns of their own, a dash as no text."""
        header, kinds = [], []
        for j, column in enumerate(self.columns):
            has_ends = any(row[j] for row in self.intervals)
            has_note = any(row[j] for row in self.notes)
            header += [column, *([f"{column} low", f"{column} high"] if has_ends else []),
                       *([f"{column} n"] if has_note else [])]
            kinds.append((has_ends, has_note))
        body = []
        for i, row in enumerate(self.rows):
            line: list[str] = []
            for j, (has_ends, has_note) in enumerate(kinds):
                line += [row[j], *((self._ends(i, j) or ("", "")) if has_ends else ()),
                         *([self.notes[i][j]] if has_note else [])]
            body.append(line)
        return csv_text([header, *body])

    def to_markdown(self) -> str:
        """A table of GitHub's Markdown."""
        lines = [[markdown_cell(c) for c in self.columns], ["---", *["---:"] * (len(self.columns) - 1)],
                 *([markdown_cell(self._cell(i, j)) for j in range(len(self.columns))] for i in range(len(self.rows)))]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)

    def to_latex(self) -> str:
        """A ``tabular``; it needs no package."""
        lines = [[latex_cell(c) for c in self.columns],
                 *([latex_cell(self._cell(i, j)) for j in range(len(self.columns))] for i in range(len(self.rows)))]
        text = [" & ".join(line) + r" \\" for line in lines]
        return "\n".join([rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}", r"\hline", text[0], r"\hline",
                          *text[1:], r"\hline", r"\end{tabular}"]) + "\n"

    def to_json(self) -> str:
        """A list of rows: column -> ``{"text", "note", "low", "high"}``, all text as it is shown."""
        rows = [{c: {"text": row[j], "note": self.notes[i][j],
                     **dict(zip(("low", "high"), self._ends(i, j) or (), strict=False))}
                 for j, c in enumerate(self.columns)} for i, row in enumerate(self.rows)]
        return json.dumps({"columns": list(self.columns), "rows": rows}, ensure_ascii=False, indent=1) + "\n"

    def _ends(self, i: int, j: int) -> Ends | None:
        return self.intervals[i][j] if self.intervals else None

    def _cell(self, i: int, j: int) -> str:
        ends, note = self._ends(i, j), self.notes[i][j]
        return self.rows[i][j] + (f" [{ends[0]}, {ends[1]}]" if ends else "") + (f" ({note})" if note else "")


def scores_from_columns(rows: Mapping[str, Mapping[str, Number | None]], level: Level,
                        digits: int | None = None) -> dict[str, GroupScore]:
    """A level's score of each system from its metrics' displayed scores, 0 to 100.

    Parameters
    ----------
    rows : system -> column -> score, None for a dash; the columns are the metric ids of ``level``. Give Decimals to
        get the exact mean of what is printed.
    digits : decimals of ``GroupScore.shown``, when not those of the level.
    """
    def share(x: Number) -> Number:
        return x / 100 if isinstance(x, (float, Decimal)) else exact(x) / 100

    return {system: group_score(level, {m: None if v is None else share(v) for m, v in row.items()}, digits=digits)
            for system, row in rows.items()}


def level_table(summary: Summary) -> Table:
    """Systems by levels; beside every score its count of metrics and of cases, where they are not all."""
    return leaderboard(summary, metrics=False, n_cases=False)


def metric_table(summary: Summary, level: str, track: str | None = None) -> Table:
    """Systems by the metrics of one level, as normalised scores; beside each ``n of m`` cases or objects."""
    ids = sorted({m.metric for s in summary.systems for m in s.metrics
                  if m.level == level and track in (None, m.track)})
    found = [(s.system, [s.metric(id) for id in ids]) for s in summary.systems]
    return Table(("system", *ids),
                 tuple((name, *(DASH if m is None else m.shown_score for m in ms)) for name, ms in found),
                 tuple(("", *("no record" if m is None else m.coverage for m in ms)) for name, ms in found))


def leaderboard(summary: Summary, *, track: str | None = None, levels: Sequence[str] | None = None,
                metrics: bool = True, n_cases: bool = True, sort_by: str | None = None) -> Table:
    """Systems by levels, each followed by its retained metrics; every score with its counts and interval.

    Parameters
    ----------
    track, levels : only this track, only these levels (in this order).
    metrics : give the metrics' columns too: normalised, 0 to 100, with ``n of N`` cases or objects.
    n_cases : give the number of cases of each system.
    sort_by : a level; the best comes first, those without a score last. By name when left out.

    Raises
    ------
    UsageError : no such track or level.
    """
    keys = list(dict.fromkeys((g.track, g.level) for s in summary.systems for g in s.groups
                              if track in (None, g.track)))
    if summary.systems:
        names = [level for _, level in keys]
        if track is not None and not keys:
            known = sorted({g.track for s in summary.systems for g in s.groups})
            raise UsageError(f"no track '{track}'", where="leaderboard", todo=f"Known: {', '.join(known)}")
        for level in [*(levels or ()), *([sort_by] if sort_by is not None else [])]:
            if level not in names:
                raise UsageError(f"no level '{level}'", where="leaderboard", todo=f"Known: {', '.join(names)}")
        if levels is not None:
            keys = sorted((k for k in keys if k[1] in levels), key=lambda k: list(levels).index(k[1]))
    several = len({t for t, _ in keys}) > 1
    systems = list(summary.systems)
    if sort_by is not None:
        systems.sort(key=lambda s: (-_score(s, sort_by, track), s.system))
    kept = {key: _retained(summary, key) if metrics else [] for key in keys}
    columns = ["system", *(["cases"] if n_cases else [])]
    for key in keys:
        columns += [f"{key[0]} {key[1]}" if several else key[1], *kept[key]]
    rows, notes, ends = [], [], []
    for s in systems:
        row = [s.system, *([str(s.n_cases)] if n_cases else [])]
        note = [""] * len(row)
        end: list[Ends | None] = [None] * len(row)
        for key in keys:
            group = next((g for g in s.groups if (g.track, g.level) == key), None)
            row.append(DASH if group is None else group.shown)
            note.append("" if group is None else group.note)
            end.append(None if group is None else _ends(group.interval))
            for id in kept[key]:
                m = s.metric(id)
                row.append(DASH if m is None else percent(m.normalised))
                note.append("no record" if m is None else m.coverage)
                end.append(None if m is None else _ends(m.score_interval, 100))
        rows.append(tuple(row))
        notes.append(tuple(note))
        ends.append(tuple(end))
    return Table(tuple(columns), tuple(rows), tuple(notes), tuple(ends) if any(e for r in ends for e in r) else ())


def comparison_table(comparison: Comparison) -> Table:
    """One row a level, then one a metric: both means on common cases, the difference, wins, p-values, counts."""
    rows, notes, ends = [], [], []
    for g in comparison.levels:
        rows.append((f"{g.track} {g.level}", half_up(g.system), half_up(g.baseline), half_up(g.difference), DASH, DASH,
                     DASH, str(g.n_cases)))
        notes.append(("", "", "", "", "", "", "", f"{len(g.metrics)} of {g.n_retained} metrics"))
        ends.append((*[None] * 3, _ends(g.interval), *[None] * 4))
    for m in comparison.metrics:
        total = m.n_cases + m.only_system + m.only_baseline + m.unmatched + m.neither
        rows.append((m.metric, half_up(m.system, 4), half_up(m.baseline, 4), half_up(m.difference, 4),
                     f"{m.wins}/{m.ties}/{m.losses}", _p(m.p_value), _p(m.p_holm), str(m.n_cases)))
        notes.append(("" if m.higher_is_better else "lower is better", "", "", "", "", "", "",
                      f"of {total}; {m.only_system} only {comparison.system}, {m.only_baseline} only "
                      f"{comparison.baseline}"))
        ends.append((*[None] * 3, _ends(m.interval, digits=4), *[None] * 4))
    return Table(("metric", comparison.system, comparison.baseline, "difference", "wins/ties/losses", "p", "p (Holm)",
                  "common cases"), tuple(rows), tuple(notes), tuple(ends))


def rank_table(ranks: RankTable) -> Table:
    """Systems by rank: score, interval of the rank, most frequent rank and its share."""
    return Table(("rank", "system", ranks.target, "modal rank", "p (modal)", "p (first)", "cases"),
                 tuple((DASH if r.rank is None else str(r.rank), r.system, half_up(r.score, 4),
                        DASH if r.modal is None else str(r.modal), half_up(r.p_modal), half_up(r.p_first),
                        str(r.n_cases)) for r in ranks.systems),
                 tuple(("",) * 6 + (f"of {ranks.n_cases}",) for r in ranks.systems),
                 tuple((None if r.low is None else (str(r.low), str(r.high)), *[None] * 6) for r in ranks.systems))


def _p(p: float | None) -> str:
    return "< 0.0001" if p is not None and p < 1e-4 else half_up(p, 4)


def _score(system: SystemSummary, level: str, track: str | None) -> float:
    score = next((g.score for g in system.groups if g.level == level and track in (None, g.track)), None)
    return -1.0 if score is None else score


def _retained(summary: Summary, key: tuple[str, str]) -> list[str]:
    """Ids of a level's metrics, sorted: which of them a system has must not move its columns."""
    groups = [g for s in summary.systems for g in s.groups if (g.track, g.level) == key]
    return sorted({p.metric for g in groups for p in g.parts} | {x.metric for g in groups for x in g.missing})


def _ends(interval: Interval | None, scale: int = 1, digits: int = 2) -> Ends | None:
    if interval is None or interval.low is None or interval.high is None:
        return None
    low, high = (half_up(Decimal(repr(x)) * scale, digits) for x in (interval.low, interval.high))
    return low, high
