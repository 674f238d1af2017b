"""Two systems side by side: what may be said of each difference, in words, as tables and as JSON."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import spatialbench
from spatialbench.aggregate import (
    DASH,
    Comparison,
    IntervalSettings,
    LevelComparison,
    MetricComparison,
    Table,
    compare,
    half_up,
    sign_test,
)
from spatialbench.aggregate.markup import markdown_cell
from spatialbench.report.leaderboard.data import Reading, plan_of
from spatialbench.report.leaderboard.tables import Rows, line, print_rows
from spatialbench.report.text import value
from spatialbench.runs.gather import Gathered

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Versus", "level_verdict", "make_versus", "metric_verdict", "print_versus", "versus_json",
           "versus_markdown"]

NONE, FEW = "no difference shown", "not enough cases"
_CASES = 20


@dataclass(frozen=True, eq=False)
class Versus:
    """A comparison and what kept cases out of it.

    Attributes
    ----------
    only_a, only_b : cases that only one side was asked for.
    kept_out : metric -> (side, status, reason) and the cases without a pair of which it is why, most frequent first.
    """

    gathered: Gathered
    reading: Reading
    comparison: Comparison
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    kept_out: dict[str, list[tuple[str, str, str, int]]]

    @property
    def alpha(self) -> float:
        """Error rate of verdicts: what the level of the intervals leaves."""
        return round(1 - self.comparison.settings.level, 12)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences to be read with the numbers."""
        return (*self.gathered.marks, *self.gathered.warnings, *self.reading.notes)


def make_versus(gathered: Gathered, a: str, b: str, settings: IntervalSettings | None = None,
                aggregation: str | None = None) -> Versus:
    """Compare system ``a`` with ``b`` on the cases that both were measured on.

    Raises
    ------
    ResultError, UsageError : as ``compare`` and ``plan_of``.
    """
    reading = plan_of(gathered, aggregation)
    comparison = compare(gathered.measurements, reading.specs, a, b, normalization=reading.table,
                         levels=reading.levels, settings=settings)
    asked = {name: {u.case for u in gathered.units if u.system == name} for name in (a, b)}
    return Versus(gathered, reading, comparison, tuple(sorted(asked[a] - asked[b])),
                  tuple(sorted(asked[b] - asked[a])), _kept_out(gathered, a, b))


def metric_verdict(m: MetricComparison, a: str, b: str, alpha: float) -> str:
    """In words. A system is better when the adjusted sign test says so and the difference of the means agrees.

    There are not enough cases when not even a win in every one of them could be told from chance.
    """
    if m.n_cases == 0 or sign_test(m.n_cases, 0) > alpha:
        return FEW
    if m.p_holm is None or m.difference is None or m.p_holm > alpha:
        return NONE
    sign = m.difference if m.higher_is_better else -m.difference
    wins = m.wins - m.losses
    if sign > 0 and wins > 0:
        return f"{a} better"
    return f"{b} better" if sign < 0 and wins < 0 else NONE


def level_verdict(g: LevelComparison, a: str, b: str) -> str:
    """In words: a system is better when the interval of the difference leaves out zero."""
    if g.interval.low is None or g.interval.high is None:
        return FEW
    return f"{a} better" if g.interval.low > 0 else f"{b} better" if g.interval.high < 0 else NONE


def level_rows(v: Versus) -> Rows:
    """A header and one row a level that either has a score of."""
    c = v.comparison
    rows: Rows = [("level", c.system, c.baseline, "difference", "interval", "metrics", "cases", "verdict")]
    for g in c.levels:
        if g.system is not None or g.baseline is not None:
            rows.append((g.level, half_up(g.system), half_up(g.baseline), _signed(half_up(g.difference)),
                         g.interval.shown(), f"{len(g.metrics)} of {g.n_retained}", str(g.n_cases),
                         level_verdict(g, c.system, c.baseline)))
    return rows


def metric_rows(v: Versus) -> Rows:
    """A header and one row for each metric with a pair."""
    c = v.comparison
    rows: Rows = [("metric", c.system, c.baseline, "difference", "interval", "better/equal/worse", "p", "p (Holm)",
                   "cases", "verdict")]
    for m in c.metrics:
        if m.n_pairs:
            spec = v.reading.specs[m.metric]
            ends = DASH if m.interval.low is None or m.interval.high is None \
                else f"[{value(m.interval.low)}, {value(m.interval.high)}]"
            rows.append((f"{m.metric} {spec.title} ({'higher' if m.higher_is_better else 'lower'} is better)",
                         value(m.system), value(m.baseline), _signed(value(m.difference)), ends,
                         f"{m.wins}/{m.ties}/{m.losses}", _p(m.p_value), _p(m.p_holm), f"{m.n_cases} of {_total(m)}",
                         metric_verdict(m, c.system, c.baseline, v.alpha)))
    return rows


def notes(v: Versus) -> list[str]:
    """Sentences below the tables: cases of one side, what kept cases out, how verdicts come about."""
    c, out = v.comparison, []
    for name, cases in ((c.system, v.only_a), (c.baseline, v.only_b)):
        if cases:
            more = f" and {len(cases) - _CASES} more" if len(cases) > _CASES else ""
            out.append(f"Only {name} was asked for {len(cases)} of the cases: {', '.join(cases[:_CASES])}{more}.")
    for m in c.metrics:
        found = v.kept_out.get(m.metric, [])
        if m.n_pairs and found:
            said = "; ".join(f"{side} {status} in {n}: {reason}" if reason else f"{side} {status} in {n}"
                             for side, status, reason, n in found[:4])
            out.append(f"{m.metric}: {_total(m) - m.n_cases} of {_total(m)} cases out ({said}"
                       + (f"; and {len(found) - 4} more reasons)." if len(found) > 4 else ")."))
    empty: dict[str, list[str]] = defaultdict(list)
    for m in c.metrics:
        if not m.n_pairs:
            counts = Counter[str]()
            for _, status, _, n in v.kept_out.get(m.metric, []):
                counts[status] += n
            empty[", ".join(f"{n} {s}" for s, n in sorted(counts.items()))].append(m.metric)
    out += [f"Without a common case: {', '.join(ids)} ({said}{' each' if len(ids) > 1 else ''})."
            for said, ids in empty.items()]
    out.append(f"A difference is {c.system} minus {c.baseline}, on common cases only, with intervals of "
               f"{c.settings.level * 100:g} %. Metrics: sign test over cases, adjusted for all metrics (Holm), at "
               f"{v.alpha:g}; the mean must agree. Levels: the interval of the difference leaves out zero.")
    return out


def print_versus(v: Versus, console: Console) -> None:
    """Both tables and the notes."""
    for rows in (level_rows(v), metric_rows(v)):
        if len(rows) > 1:
            print_rows(rows, console, left=1)
    if len(metric_rows(v)) == 1:
        line("No metric was measured on a common case.", console)
    for text in notes(v):
        line(text, console)


def versus_markdown(v: Versus) -> str:
    """Both tables and the notes."""
    c = v.comparison
    parts = [f"# {markdown_cell(c.system)} and {markdown_cell(c.baseline)}\n\nProtocol "
             f"{markdown_cell(str(v.gathered.protocol.get('id')))}, hash `{v.gathered.protocol_hash}`.\n\n"]
    parts += [f"> **{markdown_cell(w)}**\n\n" for w in v.warnings]
    for title, rows in (("Levels", level_rows(v)), ("Metrics", metric_rows(v))):
        if len(rows) > 1:
            empty = tuple(("",) * len(rows[0]) for _ in rows[1:])
            parts.append(f"## {title}\n\n{Table(rows[0], tuple(rows[1:]), empty).to_markdown()}\n")
    parts += [f"- {markdown_cell(text)}\n" for text in notes(v)]
    return "".join(parts)


def versus_json(v: Versus) -> str:
    """Canonical text; without paths and times."""
    c, g = v.comparison, v.gathered
    data: dict[str, Any] = {
        "schema": 1, "version": spatialbench.__version__,
        "protocol": {"id": g.protocol.get("id"), "hash": g.protocol_hash, "fast": bool(g.protocol.get("fast")),
                     "overrides": list(g.settings)},
        "normalization": v.reading.table.id, "aggregation": v.reading.aggregation, "alpha": v.alpha,
        "comparison": c.model_dump(mode="json"), "warnings": list(v.warnings),
        "verdicts": {"levels": {x.level: level_verdict(x, c.system, c.baseline) for x in c.levels},
                     "metrics": {m.metric: metric_verdict(m, c.system, c.baseline, v.alpha) for m in c.metrics}},
        "cases_of_one_side": {c.system: list(v.only_a), c.baseline: list(v.only_b)},
        "kept_out": {id: [{"system": side, "status": status, "reason": reason, "cases": n}
                          for side, status, reason, n in rows] for id, rows in v.kept_out.items()}}
    return json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _kept_out(gathered: Gathered, a: str, b: str) -> dict[str, list[tuple[str, str, str, int]]]:
    sides: dict[str, dict[str, dict[str, list[tuple[str | None, str, str]]]]] = \
        defaultdict(lambda: {a: defaultdict(list), b: defaultdict(list)})
    for m in gathered.measurements:
        if m.system in (a, b):
            sides[m.metric][m.system][m.case].append((m.object if m.value is not None else "", str(m.status), m.reason))
    out = {}
    for id, by_side in sorted(sides.items()):
        counts: Counter[tuple[str, str, str]] = Counter()
        for case in by_side[a].keys() | by_side[b].keys():
            values = [{o for o, status, _ in by_side[s].get(case, ()) if status == "measured"} for s in (a, b)]
            if values[0] & values[1]:
                continue
            for side, own in zip((a, b), values, strict=True):
                records = by_side[side].get(case, [])
                if not records:
                    counts[side, "not asked", ""] += 1
                elif not own:
                    counts.update({(side, status, reason) for _, status, reason in records})
                elif all(values):
                    counts[side, "measured", "of other objects"] += 1
        if counts:
            out[id] = [(*key, n) for key, n in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))]
    return out


def _total(m: MetricComparison) -> int:
    return m.n_cases + m.only_system + m.only_baseline + m.unmatched + m.neither


def _signed(text: str) -> str:
    return text if text[:1] in "-<>–" or not text.strip("0.") else f"+{text}"


def _p(p: float | None) -> str:
    return "< 0.0001" if p is not None and p < 1e-4 else half_up(p, 4)


