"""The drawings of a leaderboard: radar charts of levels, and strips of one dot a case. No scripts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from spatialbench.aggregate import half_up
from spatialbench.report.svg import num, tag, text_of

__all__ = ["N_STYLES", "Axis", "Dot", "Series", "choose", "histogram", "marker", "radar", "strip"]

N_STYLES = 8
"""Colours and shapes; the next systems begin again."""
_WIDTH, _TALL, _RADIUS = 330.0, 300.0, 122.0
_HEIGHT = 30.0
_BINS = 50
_OFFSETS = (0, -1, 1, -2, 2, -3, 3)
"""Rows of dots at one place, up and down in turn; with more they begin again."""


@dataclass(frozen=True)
class Axis:
    """One level: its short name, and whether any system has a score of it."""

    name: str
    known: bool = True


@dataclass(frozen=True)
class Series:
    """One system: scores 0 to 100 in the order of the axes, None where there is none."""

    name: str
    style: int
    scores: Sequence[float | None]


@dataclass(frozen=True)
class Dot:
    """One case: value, words for the tip, and where its page is (percent-encoded), if anywhere."""

    value: float
    tip: str
    href: str = ""


def radar(axes: Sequence[Axis], series: Sequence[Series]) -> Markup:
    """Scores on three axes or more. A score that is not there is a dash on its axis and a gap in the line."""
    if len(axes) < 3:
        raise ValueError(f"a radar chart needs three axes, got {len(axes)}")
    cx, cy = _WIDTH / 2, _TALL / 2

    def at(k: int, share: float) -> tuple[float, float]:
        a = 2 * math.pi * k / len(axes) - math.pi / 2
        return cx + _RADIUS * share * math.cos(a), cy + _RADIUS * share * math.sin(a)

    names = ", ".join(s.name for s in series)
    out = [tag("title", escape(f"Scores of levels: {names}"))]
    for share in (0.25, 0.5, 0.75, 1.0):
        ring = " ".join(f"{num(x)},{num(y)}" for x, y in (at(k, share) for k in range(len(axes))))
        out.append(tag("polygon", points=ring, class_="r-grid"))
    for k, axis in enumerate(axes):
        x, y = at(k, 1.0)
        out.append(tag("line", x1=cx, y1=cy, x2=x, y2=y, class_="r-axis" if axis.known else "r-axis r-none"))
        if not axis.known:
            x, y = at(k, 0.5)
            out.append(tag("g", tag("line", x1=x - 6, x2=x + 6, y1=y, y2=y, class_="r-nobody"),
                           tag("title", escape(f"{axis.name}: no score"))))
        lx, ly = at(k, 1.12)
        anchor = "middle" if abs(lx - cx) < 12 else "start" if lx > cx else "end"
        out.append(text_of(axis.name, lx, ly + 5, "t strong", anchor))
    out += [text_of("100", cx + 4, cy - _RADIUS + 15, "t halo"), text_of("50", cx + 4, cy - _RADIUS / 2 + 5, "t halo")]
    n = len(axes)
    lacking: dict[int, int] = {}
    for s in series:
        known = [v is not None for v in s.scores]
        spots = [at(k, min(1.0, max(0.0, (v or 0.0) / 100))) for k, v in enumerate(s.scores)]
        layer: list[Markup] = []
        if all(known):
            layer.append(tag("polygon", points=" ".join(f"{num(x)},{num(y)}" for x, y in spots), class_="r-area"))
        for k in range(n):
            j = (k + 1) % n
            if known[k] and known[j]:
                layer.append(tag("line", x1=spots[k][0], y1=spots[k][1], x2=spots[j][0], y2=spots[j][1],
                                 class_="r-line"))
        for k, v in enumerate(s.scores):
            if v is not None:
                tip = tag("title", escape(f"{s.name}, {axes[k].name}: {half_up(v)}"))
                layer.append(tag("g", shape(s.style, *spots[k]), tip))
            elif axes[k].known:
                lacking[k] = lacking.get(k, 0) + 1
                x, y = at(k, 0.12 + 0.09 * (lacking[k] - 1) if lacking[k] < 9 else 0.9)
                layer.append(tag("g", tag("line", x1=x - 5, x2=x + 5, y1=y, y2=y, class_="r-dash"),
                                 tag("title", escape(f"{s.name}, {axes[k].name}: no score"))))
        out.append(tag("g", *layer, class_=f"s{s.style % N_STYLES}"))
    return tag("svg", *out, viewBox=f"0 0 {num(_WIDTH)} {num(_TALL)}", class_="radar", role="img")


def shape(style: int, x: float, y: float, r: float = 5.0) -> Markup:
    """A mark of a system: the shape tells it apart where its colour does not."""
    kind = style % N_STYLES
    if kind == 0:
        return tag("circle", cx=x, cy=y, r=r, class_="r-dot")
    corners: dict[int, Callable[[], list[tuple[float, float]]]] = {
        1: lambda: [(-1, -1), (1, -1), (1, 1), (-1, 1)],
        2: lambda: [(0, -1.3), (1.2, 0.9), (-1.2, 0.9)],
        3: lambda: [(0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)],
        4: lambda: [(0, 1.3), (1.2, -0.9), (-1.2, -0.9)],
        5: lambda: [(math.cos(a), math.sin(a)) for a in (math.pi * (0.4 * i - 0.5) for i in range(5))],
        6: lambda: [(-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2),
                    (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)],
        7: lambda: [(-1.3, -0.7), (1.3, -0.7), (1.3, 0.7), (-1.3, 0.7)],
    }
    return tag("polygon", points=" ".join(f"{num(x + r * a)},{num(y + r * b)}" for a, b in corners[kind]()),
               class_="r-dot")


def marker(style: int) -> Markup:
    """A system's mark for a legend."""
    return tag("svg", tag("g", shape(style, 8.0, 8.0), class_=f"s{style % N_STYLES}"), viewBox="0 0 16 16",
               class_="mark", aria_hidden="true")


def choose(n: int, most: int) -> list[int]:
    """Indices of at most ``most`` of n values in order of size: evenly spaced by rank, both ends among them."""
    if n <= most:
        return list(range(n))
    if most < 2:
        return [n // 2] * most
    return [round(i * (n - 1) / (most - 1)) for i in range(most)]


def strip(dots: Sequence[Dot], low: float, high: float, *, mean: float, ends: tuple[float, float] | None,
          style: int, bins: Sequence[int] = (), quartiles: tuple[float, float] | None = None,
          label: str = "") -> Markup:
    """One system's values of one metric on an axis from ``low`` to ``high``.

    Widths are in per cent, so that a strip has any width and its dots stay round.

    Parameters
    ----------
    dots : those that are drawn, by size.
    ends : of the mean's interval.
    bins : counts of all values in equal parts of the axis, drawn behind when not all are dots.
    quartiles : of all values, drawn with ``bins``.
    """
    span = (high - low) or 1.0

    def x(v: float) -> str:
        return f"{num(100 * min(1.0, max(0.0, (v - low) / span)))}%"

    middle = _HEIGHT / 2
    out = [tag("title", escape(label)),
           tag("line", x1="0", x2="100%", y1=middle, y2=middle, class_="p-axis")]
    if bins:
        top = max(bins) or 1
        w = 100 / len(bins)
        path = "".join(f"M{num(i * w)} {num(_HEIGHT)}h{num(w)}v{num(-(_HEIGHT - 2) * b / top)}h{num(-w)}z"
                       for i, b in enumerate(bins) if b)
        out.append(tag("svg", tag("path", d=path, class_="p-bins"), viewBox=f"0 0 100 {num(_HEIGHT)}",
                       preserveAspectRatio="none", width="100%", height=num(_HEIGHT)))
    if quartiles is not None:
        out.append(tag("line", x1=x(quartiles[0]), x2=x(quartiles[1]), y1=_HEIGHT - 2, y2=_HEIGHT - 2,
                       class_="p-quart"))
    if ends is not None:
        width = num(100 * max(0.0, min(1.0, (ends[1] - low) / span) - max(0.0, min(1.0, (ends[0] - low) / span))))
        out.append(tag("rect", x=x(ends[0]), y=2.0, width=f"{width}%", height=_HEIGHT - 4, class_="p-ends"))
    rows: dict[int, int] = {}
    for dot in dots:
        spot = round(100 * (dot.value - low) / span)
        k = rows.get(spot, 0)
        rows[spot] = k + 1
        y = middle + 3.5 * _OFFSETS[k % len(_OFFSETS)]
        circle = tag("circle", tag("title", escape(dot.tip)), cx=x(dot.value), cy=y, r="3.4")
        out.append(Markup('<a href="{}" tabindex="-1">{}</a>').format(dot.href, circle) if dot.href else circle)
    out.append(tag("line", x1=x(mean), x2=x(mean), y1=0.0, y2=_HEIGHT, class_="p-mean"))
    return tag("svg", *out, class_=f"dots s{style % N_STYLES}", width="100%", height=num(_HEIGHT), role="img",
               aria_label=label)


def histogram(values: Sequence[float], low: float, high: float, bins: int = _BINS) -> list[int]:
    """Counts in equal parts of [low, high]; the last part holds its upper end."""
    out = [0] * bins
    span = (high - low) or 1.0
    for v in values:
        out[min(bins - 1, max(0, int(bins * (v - low) / span)))] += 1
    return out
