"""The leaderboard as text: for the terminal, CSV, Markdown and LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spatialbench.aggregate import DASH, GroupScore, Interval, RankTable, Table, half_up, leaderboard
from spatialbench.aggregate.markup import latex_cell, markdown_cell
from spatialbench.report.leaderboard.data import Board
from spatialbench.report.text import value
from spatialbench.types.words import one_line

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["csv_text", "latex_text", "level_rows", "markdown_text", "metric_rows", "print_board", "print_rows",
           "scored_levels"]

Rows = list[tuple[str, ...]]
_LEAST = 12
"""Characters that a column of text keeps beside numbers."""


def scored_levels(board: Board) -> list[tuple[str, str]]:
    """(level, track) of the levels that any system has a score of, in order."""
    found: dict[tuple[str, str], None] = {}
    for s in board.summary.systems:
        for g in s.groups:
            if g.score is not None:
                found[g.level, g.track] = None
    order = [(lv.level, lv.track) for lv in board.reading.levels]
    return sorted(found, key=lambda k: order.index(k) if k in order else len(order))


def level_rows(board: Board) -> Rows:
    """A header and one row a system: cases, then score, interval, count of metrics and rank for each scored level."""
    levels = scored_levels(board)
    head = ["system", "cases"]
    for level, _ in levels:
        head += [level, "metrics", *(["rank"] if level in board.ranks else [])]
    rows: Rows = [tuple(head)]
    for s in board.summary.systems:
        row = [s.system, str(s.n_cases)]
        for level, track in levels:
            g = s.group(level, track)
            row += [with_interval(g.shown, g.interval), f"{g.n_available} of {g.n_retained}",
                    *([rank_of(board.ranks[level], s.system)] if level in board.ranks else [])]
        rows.append(tuple(row))
    return rows


def metric_rows(board: Board) -> Rows:
    """A header and one row for each shown metric with a value and each system."""
    specs = board.reading.specs
    several = len(board.summary.systems) > 1
    rows: Rows = [("metric", "system", "mean", "interval", "score", "n", *(["rank"] if board.metric_ranks else []))]
    for id in board.shown:
        if not board.values.get(id):
            continue
        for i, s in enumerate(board.summary.systems):
            m = s.metric(id)
            first = i == 0 or not several
            name = f"{id} {specs[id].title} ({'higher' if specs[id].higher_is_better else 'lower'} is better)"
            rank = [rank_of(board.metric_ranks[id], s.system)] if id in board.metric_ranks else []
            rows.append((name if first else "", s.system, value(m.mean) if m else DASH,
                         "" if m is None or m.interval is None or m.interval.low is None
                         else f"[{value(m.interval.low)}, {value(m.interval.high)}]",
                         DASH if m is None or m.normalised is None else half_up(m.normalised * 100),
                         m.coverage if m else "no record", *rank))
    return rows


def rank_of(table: RankTable, system: str) -> str:
    """``2 [1, 3]``: rank with its interval; a dash without one."""
    row = next((r for r in table.systems if r.system == system), None)
    if row is None or row.rank is None:
        return DASH
    return f"{row.rank}" + ("" if row.low is None else f" [{row.low}, {row.high}]")


def with_interval(shown: str, interval: Interval | None) -> str:
    """A number and, where there is one, its interval."""
    return shown if interval is None or interval.low is None else f"{shown} {interval.shown()}"


def without_score(board: Board) -> list[str]:
    """Levels that no system has a score of, with what is missing."""
    scored = {level for level, _ in scored_levels(board)}
    out: list[str] = []
    if board.summary.systems:
        for g in board.summary.systems[0].groups:
            if g.level not in scored:
                out.append(f"{g.level} ({_lack(g)})")
    return out


def _lack(g: GroupScore) -> str:
    return "not scored" if g.n_retained == 0 else f"0 of {g.n_retained} metrics"


def without_value(board: Board) -> list[str]:
    """Shown metrics without any value, those with the same counts of statuses together."""
    found: dict[str, list[str]] = {}
    for id in board.shown:
        if not board.values.get(id):
            counts = ", ".join(f"{n} {s.value}" for s, n in board.statuses(id).items() if n)
            found.setdefault(counts, []).append(id)
    return [f"{', '.join(ids)} ({counts}{' each' if len(ids) > 1 else ''})" for counts, ids in found.items()]


def print_board(board: Board, console: Console) -> None:
    """Both tables and what must be read with them; rich tables on a terminal, plain aligned lines elsewhere."""
    print_rows(level_rows(board), console, left=1)
    missing = without_score(board)
    if missing:
        line(f"No system has a score of {', '.join(missing)}.", console)
        line("", console)
    rows = metric_rows(board)
    if len(rows) > 1:
        print_rows(rows, console, left=2)
    empty = without_value(board)
    if empty:
        line(f"Without a value: {'; '.join(empty)}.", console)
    line(method_text(board), console)


def method_text(board: Board) -> str:
    """How intervals and ranks were made, in words."""
    if board.settings is None:
        return "n: values of what could have been measured. Intervals were not asked for."
    s = board.settings
    text = (f"n: values of what could have been measured. Intervals hold {s.level * 100:g} %: bootstrap over cases "
            f"({s.replicates} resamples), Student's t below {s.few_cases} cases.")
    if board.ranks:
        text += " Ranks with the narrowest interval of a joint bootstrap on the same cases."
    return text


def csv_text(board: Board) -> str:
    """Systems by levels and their metrics, with ends of intervals and counts in columns of their own."""
    return leaderboard(board.summary).to_csv()


def markdown_text(board: Board) -> str:
    """Both tables, what lacks, and how it was made."""
    p = board.gathered.protocol
    parts = ["# Leaderboard\n\n", f"Protocol {markdown_cell(str(p.get('id')))}, hash `{board.gathered.protocol_hash}`; "
             f"{len(board.gathered.units)} units.\n\n"]
    parts += [f"> **{markdown_cell(w)}**\n>\n" for w in board.warnings]
    if board.warnings:
        parts[-1] = parts[-1].removesuffix(">\n") + "\n"
    parts.append(_table(level_rows(board)).to_markdown())
    missing = without_score(board)
    if missing:
        parts.append(f"\nNo system has a score of {markdown_cell(', '.join(missing))}.\n")
    rows = metric_rows(board)
    if len(rows) > 1:
        parts += ["\n## Metrics\n\n", _table(rows).to_markdown()]
    empty = without_value(board)
    if empty:
        parts.append(f"\nWithout a value: {markdown_cell('; '.join(empty))}.\n")
    parts.append(f"\n{markdown_cell(method_text(board))}\n")
    return "".join(parts)


def latex_text(board: Board) -> str:
    """Two ``tabular``, with what must be read with them as comments."""
    head = [f"% {latex_cell(w)}" for w in (f"protocol {board.gathered.protocol.get('id')}, hash "
                                           f"{board.gathered.protocol_hash}", *board.warnings, method_text(board))]
    rows = metric_rows(board)
    return "\n".join([*head, _table(level_rows(board)).to_latex(),
                      *([_table(rows).to_latex()] if len(rows) > 1 else [])])


def _table(rows: Rows) -> Table:
    return Table(rows[0], tuple(rows[1:]), tuple(("",) * len(rows[0]) for _ in rows[1:]))


def print_rows(rows: Rows, console: Console, left: int = 1) -> None:
    """A table; the first ``left`` columns are text, the others stand to the right. On a terminal too narrow for its
    numbers the lines are plain, and wrap: a number that is cut is another number."""
    texts = [[one_line(c) for c in row] for row in rows]
    widths = [max(len(cells[j]) for cells in texts) for j in range(len(rows[0]))]
    least = sum(min(w, _LEAST) if j < left else w for j, w in enumerate(widths)) + 2 * (len(widths) - 1)
    if console.is_terminal and least <= console.width:
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=None, pad_edge=False, header_style="dim")
        for j, name in enumerate(rows[0]):
            table.add_column(Text(one_line(name)), justify="left" if j < left else "right",
                             style="bold" if j == 0 else None, overflow="fold", no_wrap=j >= left)
        for row in rows[1:]:
            table.add_row(*(Text(one_line(cell)) for cell in row))
        console.print(table)
        console.print()
        return
    for cells in texts:
        line("  ".join(c.ljust(w) if j < left else c.rjust(w)
                       for j, (c, w) in enumerate(zip(cells, widths, strict=True))).rstrip(), console)
    line("", console)


def line(text: str, console: Console) -> None:
    """One line that is never wrapped, marked up or able to steer the terminal."""
    console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)
