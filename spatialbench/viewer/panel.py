"""The panel's texts as HTML. All that comes from files is escaped: a name in a world must not become markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from spatialbench.report.text import STATUS_WORDS, value
from spatialbench.runs import RunResult
from spatialbench.types import Status
from spatialbench.viewer.layers import Legend
from spatialbench.viewer.scores import Scores

__all__ = ["legend_html", "scores_html", "status_html", "world_html"]

_MOST = 60
_NUMBER = "text-align:right;vertical-align:top;white-space:nowrap"
_SMALL = "font-size:0.8em;line-height:1.35;overflow-wrap:anywhere"


def status_html(text: str, error: bool = False) -> str:
    """One line: what is going on."""
    colour = "color:#ff8a80" if error else "opacity:0.85"
    return f'<div class="sb-status" style="{_SMALL};padding:0.3em 0.9em;{colour}">{escape(text)}</div>'


def legend_html(legends: Iterable[tuple[str, Legend]]) -> str:
    """What is shown: (title, lines) of each layer that is on."""
    out = []
    for title, legend in legends:
        lines = "".join(f"<div>{_swatch(colour)}{escape(text)}</div>" for colour, text in legend)
        out.append(f'<div style="margin-top:0.5em"><b>{escape(title)}</b>{lines}</div>')
    return _box("".join(out))


def scores_html(scores: Scores) -> str:
    """Levels, metrics, gates and warnings."""
    out = []
    if scores.origin:
        out.append(f"<div>Scores {escape(scores.origin)}. One case's preview, not a benchmark result.</div>")
    out += [f'<div style="color:#ffcc80">Note: {escape(n)}</div>' for n in scores.notes]
    if scores.levels:
        rows = "".join(f"<tr><td><b>{escape(a)}</b> {escape(b)}</td><td style='text-align:right'><b>{escape(s)}</b>"
                       f"</td><td>{escape(n)}</td></tr>" for a, b, s, n in scores.levels)
        out.append(f"<table style='width:100%;margin-top:0.4em'>{rows}</table>")
    measured = [m for m in scores.metrics if m.status is Status.MEASURED]
    if measured:
        rows = "".join(f"<tr><td><b>{escape(m.id)}</b> {escape(m.title)}<br><i>{escape(m.note)}</i></td>"
                       f"<td style='{_NUMBER}'>{escape(m.raw)}</td><td style='{_NUMBER}'>{escape(m.normalised)}</td>"
                       "</tr>"
                       for m in measured)
        out.append("<table style='width:100%;margin-top:0.4em'><tr><th style='text-align:left'>metric</th>"
                   f"<th>raw</th><th style='white-space:nowrap'>score</th></tr>{rows}</table>")
    for status in Status:
        ids = [m.id for m in scores.metrics if m.status is status]
        if ids and status is not Status.MEASURED:
            out.append(f"<div title='{escape(STATUS_WORDS[status], quote=True)}'>{status.value}: "
                       f"{escape(', '.join(ids))}</div>")
    out.append(_gates(scores))
    out.append(_list("Warnings", scores.warnings))
    return _box("".join(out))


def world_html(shown: RunResult) -> str:
    """What the world is and how it was anchored."""
    report, world = shown.report, shown.world
    facts = [("file", shown.path.name), ("format", report.format), ("images of", world.seen_geometry),
             ("collision of", world.collision.geometry.replace("_", " ")),
             ("metres a unit", value(world.scale.factor) if world.has_scale else "unknown"),
             ("floor", f"{world.ground_z:.2f} m{' (assumed)' if world.ground_assumed else ''}"),
             ("protocol", shown.protocol.id + (" (fast)" if shown.protocol.fast else ""))]
    facts += [(name, f"{d.source}, confidence {d.confidence:.2f}") for name, d in report.decisions.items()]
    rows = "".join(f"<tr><td style='opacity:0.7'>{escape(k)}</td><td>{escape(str(v))}</td></tr>" for k, v in facts)
    return _box(f"<table>{rows}</table><div>X right (red), Y forward (green), Z up (blue); metres.</div>")


def _gates(scores: Scores) -> str:
    lines = []
    for g in scores.gates:
        up = bool(g.get("raised"))
        words = str(g.get("name", "")).replace("_", " ") + (f": {g['note']}" if up and g.get("note") else "")
        colour, state = ("#ff8a80", "raised") if up else ("#a5d6a7", "clear")
        lines.append(f"<div><span style='color:{colour}'>{state}</span> {escape(words)}</div>")
    return f"<div style='margin-top:0.5em'><b>Gates</b>{''.join(lines)}</div>" if lines else ""


def _list(title: str, texts: Sequence[str]) -> str:
    if not texts:
        return ""
    items = "".join(f"<div style='margin-top:0.25em'>{escape(t)}</div>" for t in texts[:_MOST])
    more = f"<div>and {len(texts) - _MOST} more</div>" if len(texts) > _MOST else ""
    return f"<div style='margin-top:0.5em'><b>{escape(title)}</b>{items}{more}</div>"


def _swatch(colour: tuple[int, int, int] | None) -> str:
    if colour is None:
        return ""
    red, green, blue = (int(v) for v in colour)
    return (f'<span style="display:inline-block;width:0.8em;height:0.8em;margin-right:0.4em;'
            f'background:rgb({red},{green},{blue})"></span>')


def _box(inside: str) -> str:
    return f'<div style="{_SMALL};padding:0.2em 0.9em">{inside}</div>'
