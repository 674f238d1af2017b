"""The leaderboard as one HTML page: it loads nothing, and its one script (sorting) is allowed by its hash."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

import spatialbench
from spatialbench.aggregate import DASH, Interval, MetricSummary, half_up
from spatialbench.report.charts import score_bar
from spatialbench.report.collect import LEVELS
from spatialbench.report.leaderboard import svg
from spatialbench.report.leaderboard.data import Board
from spatialbench.report.leaderboard.tables import method_text, rank_of, scored_levels
from spatialbench.report.text import STATUS_WORDS, value
from spatialbench.types import Measurement, Status

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render_board"]

_DOTS_PER_STRIP, _DOTS, _FEWEST = 200, 6000, 12
_STRIPS = 400
_WORLDS = 3000
_NAMED = 3
_REASONS = 6
_TOGETHER = 5
_RADARS = 24
_TEMPLATES = Path(__file__).parents[1] / "templates"


def render_board(board: Board, folder: Path) -> str:
    """The page.

    Parameters
    ----------
    folder : where it will be: links to the pages of worlds are relative to it.
    """
    script = (_TEMPLATES / "leaderboard.js").read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = _environment().get_template("leaderboard.html.j2").render(
        {**_view(board, folder), "script": Markup(script), "script_hash": digest})
    return text.encode("utf-8", "replace").decode("utf-8")


def _view(board: Board, folder: Path) -> dict[str, Any]:
    systems = [s.system for s in board.summary.systems]
    pages = _pages(board, folder)
    style = {name: i for i, name in enumerate(systems)}
    g = board.gathered
    with_values = [id for id in board.shown if board.values.get(id)]
    return {
        "board": board, "protocol": g.protocol, "hash": g.protocol_hash, "n_units": len(g.units),
        "done": g.counts.get("done", 0), "cases": len(g.cases), "systems": systems, "style": style,
        "version": spatialbench.__version__, "warnings": board.warnings, "method": method_text(board),
        "levels": [_level_head(board, level, track) for level, track in scored_levels(board)],
        "unscored": _unscored(board), "rows": _level_rows(board), "radars": _radars(board), "marker": svg.marker,
        "matrices": _matrices(board, with_values), "strips": _strips(board, with_values, pages),
        "statuses": list(Status), "status_words": STATUS_WORDS,
        "status_rows": [_status_row(board, id) for id in board.shown],
        "reasons": [r for r in (_reasons(board, id) for id in board.shown) if r["rows"]],
        "worlds": _worlds(board, pages), "worlds_cut": len(g.units) > _WORLDS, "score_bar": score_bar, "dash": DASH,
        "linked": bool(pages),
    }


def _pages(board: Board, folder: Path) -> dict[tuple[str, str], str]:
    """(system, case) -> link to its page, for those that have one."""
    base = os.path.abspath(folder)
    relative: dict[Path, str] = {}
    out = {}
    for u in board.gathered.units:
        if u.folder.parent not in relative:
            try:
                relative[u.folder.parent] = Path(os.path.relpath(u.folder.parent.absolute(), base)).as_posix()
            except ValueError:  # another drive
                relative[u.folder.parent] = ""
        if relative[u.folder.parent] and os.path.isfile(u.folder / "report.html"):
            path = f"{relative[u.folder.parent]}/{u.folder.name}/report.html"
            out[u.system, u.case] = quote(path.encode("utf-8", "surrogateescape"), safe="/")
    return out


def _level_head(board: Board, level: str, track: str) -> dict[str, Any]:
    return {"id": level, "name": LEVELS.get(level, "") if track.startswith("happyworld") else "",
            "ranked": level in board.ranks}


def _unscored(board: Board) -> list[dict[str, Any]]:
    scored = {level for level, _ in scored_levels(board)}
    return [{"id": lv.level, "n": len(lv.metrics)} for lv in board.reading.levels if lv.level not in scored]


def _level_rows(board: Board) -> list[dict[str, Any]]:
    out = []
    for s in board.summary.systems:
        cells = []
        for level, track in scored_levels(board):
            group = s.group(level, track)
            cells.append({"score": group.score, "shown": group.shown, "interval": _ends(group.interval),
                          "why": _why_none(group.interval), "n": group.n_available, "of": group.n_retained,
                          "note": group.note, "level": level,
                          "rank": rank_of(board.ranks[level], s.system) if level in board.ranks else ""})
        out.append({"system": s.system, "cases": s.n_cases, "cells": cells})
    return out


def _ends(interval: Interval | None, metric: bool = False) -> str:
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return f"[{value(interval.low)}, {value(interval.high)}]" if metric else interval.shown()


def _why_none(interval: Interval | None) -> str:
    return "" if interval is None or interval.low is not None else interval.note


def _radars(board: Board) -> list[dict[str, Any]]:
    levels = [(lv.level, lv.track) for lv in board.reading.levels]
    if len(levels) < 3:
        return []
    scored = set(scored_levels(board))
    axes = [svg.Axis(level, (level, track) in scored) for level, track in levels]
    series = [svg.Series(s.system, i, [s.group(*key).score for key in levels])
              for i, s in enumerate(board.summary.systems)]
    out = []
    if 2 <= len(series) <= _TOGETHER:
        out.append({"name": "", "svg": svg.radar(axes, series), "style": 0})
    out += [{"name": s.name, "svg": svg.radar(axes, [s]), "style": s.style} for s in series[:_RADARS]]
    return out


def _matrices(board: Board, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Systems by metrics, for each level."""
    by_level: dict[str, list[str]] = {}
    for id in ids:
        by_level.setdefault(board.reading.specs[id].level, []).append(id)
    order = [lv.level for lv in board.reading.levels]
    out = []
    for level in sorted(by_level, key=lambda k: (order.index(k) if k in order else len(order), k)):
        heads = [{"id": id, "title": board.reading.specs[id].title, "up": board.reading.specs[id].higher_is_better,
                  "unit": board.reading.specs[id].unit, "retained": board.reading.specs[id].retained}
                 for id in by_level[level]]
        rows = [{"system": s.system, "cells": [_metric_cell(board, s.metric(id), s.system, id)
                                               for id in by_level[level]]} for s in board.summary.systems]
        out.append({"level": level, "name": LEVELS.get(level, ""), "heads": heads, "rows": rows})
    return out


def _metric_cell(board: Board, m: MetricSummary | None, system: str, id: str) -> dict[str, Any]:
    if m is None:
        return {"id": id, "mean": None, "shown": DASH, "coverage": "no record", "interval": "", "score": "", "rank": "",
                "why": ""}
    return {"id": id, "mean": m.mean, "shown": value(m.mean), "coverage": m.coverage, "partial": m.partial,
            "interval": _ends(m.interval, metric=True), "why": _why_none(m.interval),
            "score": "" if m.normalised is None else half_up(100 * m.normalised),
            "rank": rank_of(board.metric_ranks[id], system) if id in board.metric_ranks else ""}


def _strips(board: Board, ids: Sequence[str], pages: Mapping[tuple[str, str], str]) -> list[dict[str, Any]]:
    systems = [s.system for s in board.summary.systems]
    most = max(8, _STRIPS // max(1, len(ids)))
    rows = max(1, len(ids) * min(most, len(systems)))
    dots = max(_FEWEST, min(_DOTS_PER_STRIP, _DOTS // rows))
    return [_strip(board, id, systems, most, dots, pages) for id in ids]


def _strip(board: Board, id: str, systems: Sequence[str], most: int, dots: int,
           pages: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    spec, values = board.reading.specs[id], board.values[id]
    flat = [m.value for ms in values.values() for m in ms if m.value is not None]
    low, high = (0.0, 1.0) if spec.range in ("[0,1]", "{0,1}", "[1/T,1]") else (min(flat), max(flat))
    if low == high:
        low, high = low - 0.5, high + 0.5
    rows = []
    shown = _first(board, id, systems, most)
    for name in shown:
        m, own = board.summary.system(name).metric(id), values.get(name, ())
        if m is None or m.mean is None or not own:
            rows.append({"system": name, "style": systems.index(name), "svg": None,
                         "n": m.coverage if m else "no record"})
            continue
        numbers = [x.value for x in own if x.value is not None]
        picked = svg.choose(len(own), dots)
        cut = len(picked) < len(own)
        marks = [svg.Dot(numbers[i], _tip(own[i]), pages.get((name, own[i].case), "")) for i in picked]
        ends = None if m.interval is None or m.interval.low is None or m.interval.high is None \
            else (m.interval.low, m.interval.high)
        n = len(numbers)
        drawn = svg.strip(marks, low, high, mean=m.mean, ends=ends, style=systems.index(name),
                          bins=svg.histogram(numbers, low, high) if cut else (),
                          quartiles=(numbers[(n - 1) // 4], numbers[3 * (n - 1) // 4]) if cut else None,
                          label=f"{name}, {id}: mean {value(m.mean)} over {m.coverage}")
        worst = own if spec.higher_is_better else own[::-1]
        rows.append({"system": name, "style": systems.index(name), "svg": drawn, "mean": value(m.mean), "n": m.coverage,
                     "interval": _ends(m.interval, metric=True), "cut": cut, "dots": len(picked), "all": n,
                     "worst": [_named(x, pages) for x in worst[:_NAMED]],
                     "best": [_named(x, pages) for x in reversed(worst[-_NAMED:])] if n > _NAMED else []})
    return {"id": id, "title": spec.title, "name": spec.name, "up": spec.higher_is_better, "unit": spec.unit,
            "retained": spec.retained, "low": value(low), "high": value(high), "rows": rows,
            "hidden": len(systems) - len(shown), "cut": any(r.get("cut") for r in rows)}


def _first(board: Board, id: str, systems: Sequence[str], most: int) -> list[str]:
    """At most so many systems, in the order of the table: where not all fit, the best by this metric."""
    if len(systems) <= most:
        return list(systems)
    sign = -1 if board.reading.specs[id].higher_is_better else 1

    def key(name: str) -> tuple[bool, float, str]:
        m = board.summary.system(name).metric(id)
        return m is None or m.mean is None, 0.0 if m is None or m.mean is None else sign * m.mean, name

    best = set(sorted(systems, key=key)[:most])
    return [s for s in systems if s in best]


def _tip(m: Measurement) -> str:
    return f"{_short(m.case)}{f' / {_short(m.object)}' if m.object else ''}: {value(m.value)}"


def _named(m: Measurement, pages: Mapping[tuple[str, str], str]) -> dict[str, str]:
    return {"text": _tip(m), "href": pages.get((m.system, m.case), "")}


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[:most - 1] + "…"


def _status_row(board: Board, id: str) -> dict[str, Any]:
    counts = board.statuses(id)
    return {"id": id, "title": board.reading.specs[id].title, "counts": [counts[s] for s in Status],
            "total": sum(counts.values())}


def _reasons(board: Board, id: str) -> dict[str, Any]:
    found = board.reasons(id)
    return {"id": id, "title": board.reading.specs[id].title, "more": max(0, len(found) - _REASONS),
            "rows": [(status, _short(reason, 300), n) for status, reason, n in found[:_REASONS]]}


def _worlds(board: Board, pages: Mapping[tuple[str, str], str]) -> list[dict[str, Any]]:
    """Units by system; what is not done comes first where not all fit."""
    by_system: dict[str, list[Any]] = {s.system: [] for s in board.summary.systems}
    for u in board.gathered.units:
        by_system.setdefault(u.system, []).append(u)
    share = max(10, _WORLDS // max(1, len(by_system)))
    out = []
    for name, units in by_system.items():
        kept = sorted(sorted(units, key=lambda u: u.status == "done")[:share], key=lambda u: u.case)
        out.append({"system": name, "total": len(units), "hidden": len(units) - len(kept),
                    "not_done": sum(u.status != "done" for u in units),
                    "units": [{"case": _short(u.case), "href": pages.get((u.system, u.case), ""),
                               "status": "" if u.status == "done" else u.status, "reason": _short(u.reason, 200)}
                              for u in kept]})
    return out


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
                       trim_blocks=True, lstrip_blocks=True)
