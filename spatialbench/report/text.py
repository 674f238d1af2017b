"""Numbers and statuses as people read them, and the table of the command line."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spatialbench.aggregate.rounding import DASH, half_up
from spatialbench.report.data import GroupRow, MetricRow
from spatialbench.types.measurement import Status
from spatialbench.types.scoring import SUBSTITUTE
from spatialbench.types.words import one_line

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["DASH", "STATUS_WORDS", "cause_words", "component_text", "degrees", "file_size", "flag_words", "metres",
           "number", "percent", "plain_words", "reason_words", "status_counts", "terminal_table", "value"]

STATUS_WORDS = {
    Status.MEASURED: "a value was measured",
    Status.INAPPLICABLE: "there is nothing to measure in this case",
    Status.INVALID: "the input leaves the value undefined",
    Status.UNAVAILABLE: "a model or a run that it needs is missing",
    Status.UNSUPPORTED: "the system lacks the interface that it needs",
    Status.UNTESTED: "it was not run",
}
_CAUSES = {
    "hole": "too many holes",
    "outside_footprint": "too many holes, outside the footprint",
    "not_free": "too close to a surface",
    "initial_penetration": "in the surface at the start",
    "outside": "ended outside the support",
    "no_collision_geometry": "no collision geometry",
}
_MAX_TEXT = 160


def number(x: float | None, digits: int = 2) -> str:
    """Fixed decimals, halves away from zero as the published tables do; a dash for no number.

    >>> number(0.125), number(2.675), number(-0.001), number(None)
    ('0.13', '2.68', '0.00', '–')
    """
    return DASH if x is None or not math.isfinite(x) else half_up(float(x), digits)


def value(x: float | None) -> str:
    """Two decimals, more where those would hide a small value; what is not zero never reads as zero.

    >>> value(0.4391), value(0.0042), value(0.0), value(1e-7)
    ('0.44', '0.0042', '0.00', '< 0.0001')
    """
    if x is None or not math.isfinite(x):
        return DASH
    if x == 0 or abs(x) >= 0.1:
        return number(x, 2)
    if abs(x) < 1e-4:
        return "< 0.0001" if x > 0 else "> -0.0001"
    return number(x, 3 if abs(x) >= 0.01 else 4)


def percent(x: float | None) -> str:
    """A share in [0,1] as per cent, finer below one per cent."""
    if x is None or not math.isfinite(x):
        return DASH
    p = 100 * x
    if p == 0 or p == 100 or 1 <= p < 99.5:
        return f"{number(p, 0)} %"
    if p >= 99.5:
        return f"{number(p, 1)} %" if p < 99.95 else "> 99.9 %"
    return f"{number(p, 1)} %" if p >= 0.05 else "< 0.1 %"


def metres(x: float | None) -> str:
    """A length: millimetres below 10 cm, metres above."""
    if x is None or not math.isfinite(x):
        return DASH
    return f"{number(1000 * x, 1)} mm" if abs(x) < 0.1 else f"{number(x, 2)} m"


def degrees(x: float | None) -> str:
    """An angle with one decimal."""
    return DASH if x is None or not math.isfinite(x) else f"{number(x, 1)}\u00b0"


def file_size(n: int) -> str:
    """Bytes in powers of 1024."""
    size, units = float(n), ["B", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{n} B" if units[0] == "B" else f"{number(size, 1)} {units[0]}"


def plain_words(name: str) -> str:
    """An identifier as words: ``footprint_median`` reads ``footprint median``."""
    return name.replace("_", " ").strip()


def flag_words(name: str) -> str:
    """A flag of a measurement as words; of a stand-in its id stays as it is written in a protocol."""
    if name.startswith(SUBSTITUTE):
        return f"stand-in {name.removeprefix(SUBSTITUTE)}"
    return plain_words(name)


def reason_words(reason: str) -> str:
    """A reason of a measurement: a sentence as it is, a code such as ``no_view_satisfies`` as words."""
    return plain_words(reason) if reason.strip().isidentifier() else reason.strip()


def cause_words(name: str) -> str:
    """Why a place is not usable or a plate failed, for people; an unknown cause as its own words."""
    return _CAUSES.get(name, plain_words(name))


def component_text(x: Any) -> str:
    """A component of a measurement in one line; long lists and texts are cut."""
    if x is None:
        return DASH
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, int):
        return str(x)
    if isinstance(x, float):
        return value(x)
    if isinstance(x, dict):
        text = ", ".join(f"{plain_words(str(k))}: {component_text(v)}" for k, v in x.items())
    elif isinstance(x, (list, tuple)):
        text = ", ".join(component_text(v) for v in x) if len(x) <= 12 else f"{len(x)} values"
    else:
        text = str(x)
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT - 1].rstrip() + "\u2026"


def status_counts(metrics: Sequence[MetricRow]) -> list[tuple[Status, int]]:
    """How many rows have each status, in the order of ``Status``; those that occur."""
    seen = Counter(m.status for m in metrics)
    return [(s, seen[s]) for s in Status if seen[s]]


def terminal_table(headline: Sequence[GroupRow], metrics: Sequence[MetricRow], console: Console) -> None:
    """Print level scores, measured metrics and the count of the others to ``console`` (a rich Console).

    On a terminal these are rich tables; anywhere else plain aligned lines that are never wrapped.
    """
    groups: list[tuple[str, ...]] = [("", "level", "score", "metrics", "missing")]
    groups += [(g.level, g.name, number(g.score), f"{g.n} of {g.m}", ", ".join(g.missing)) for g in headline]
    rows: list[tuple[str, ...]] = [("", "metric", "raw", "normalised", "notes")]
    for m in metrics:
        if m.status is Status.MEASURED:
            unit = f" {m.unit}" if m.unit else ""
            notes = [] if m.retained else ["not in the score"]
            notes += [m.reason] if m.reason else []
            rows.append((m.id, m.title, f"{value(m.raw)}{unit} ({'higher' if m.higher_is_better else 'lower'}"
                         " is better)", number(m.normalised), "; ".join([*notes, *m.flags])))
    for table in (groups, rows):
        if len(table) > 1:
            _print(table, console)
    others = [f"{n} {s.value}" for s, n in status_counts(metrics) if s is not Status.MEASURED]
    if others:
        _line(f"Without a value: {', '.join(others)}.", console)
    _line("Preview of one case, not a benchmark result.", console)


def _print(rows: list[tuple[str, ...]], console: Console) -> None:
    right = (False, False, rows[0][1] == "level", True, False)
    if console.is_terminal:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="dim")
        for i, (name, r) in enumerate(zip(rows[0], right, strict=True)):
            table.add_column(name, justify="right" if r else "left", style="bold" if i == 0 else None,
                             overflow="fold")
        for row in rows[1:]:
            table.add_row(*(Text(one_line(cell)) for cell in row))
        console.print(table)
        console.print()
        return
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(right))]
    for line in cells:
        parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        _line("  ".join(parts).rstrip(), console)
    _line("", console)


def _line(text: str, console: Console) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
