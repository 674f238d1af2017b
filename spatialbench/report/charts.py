"""Bars of scores, and what happens along the action path, as HTML and SVG without scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from spatialbench.report.data import PathChart
from spatialbench.report.svg import num, points, tag, text_of
from spatialbench.report.text import number, percent

__all__ = ["consistency_chart", "hole_chart", "score_bar"]

_W, _H = 520.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 10.0, 14.0, 34.0
_INNER_W, _INNER_H = _W - _LEFT - _RIGHT, _H - _TOP - _BOTTOM


def score_bar(share: float | None, label: str, incomplete: bool = False) -> Markup:
    """A bar filled to ``share`` of its length; None is drawn as a dashed outline, never as an empty bar.

    ``incomplete`` stripes it: not everything that belongs to the score was measured.
    """
    if share is None or not np.isfinite(share):
        return Markup('<span class="bar none" role="img" aria-label="{}: no score"></span>').format(label)
    part = min(1.0, max(0.0, float(share)))
    kind, length = " part" if incomplete else "", 100 * part
    return Markup('<span class="bar{}" role="img" aria-label="{}: {} of 100"><span style="width:{}%"></span></span>'
                  ).format(kind, label, number(length, 0), num(length))


def hole_chart(chart: PathChart) -> Markup:
    """Hole rate of the six probes (and share of close pixels) per path sample, against the threshold."""
    values = list(chart.hole_rate)
    tops = [*values, *(chart.close_share or ()), (chart.threshold or 0.0) * 1.4, 0.05]
    top = min(1.0, _ceiling(max(float(v) for v in tops if np.isfinite(v))))
    frame, x, y = _axes(chart, top, "hole rate along the path", as_percent=True)
    layers = [*frame, *_bands(chart, x)]
    if chart.close_share is not None:
        layers.append(_line(chart.times, chart.close_share, x, y, "c-line c-b"))
    layers.append(_line(chart.times, values, x, y, "c-line c-a"))
    if chart.threshold is not None:
        h = y(chart.threshold)
        layers.append(tag("line", x1=_LEFT, x2=_W - _RIGHT, y1=h, y2=h, class_="c-limit"))
        layers.append(text_of(f"threshold {percent(chart.threshold)}", _W - _RIGHT - 4, h - 5, "t halo c-limit-t",
                              "end"))
    return _svg(layers)


def consistency_chart(chart: PathChart) -> Markup:
    """Scores in [0,1] of each path frame's brightness (M13) and hue (M14) against the first frame."""
    frame, x, y = _axes(chart, 1.0, "brightness and hue consistency along the path", as_percent=False)
    layers = [*frame, *_bands(chart, x)]
    if chart.brightness is not None:
        layers.append(_line(chart.times, chart.brightness, x, y, "c-line c-a"))
    if chart.hue is not None:
        layers.append(_line(chart.times, chart.hue, x, y, "c-line c-b"))
    return _svg(layers)


class _Linear:
    """Maps [a, b] to [c, d], clamped."""

    def __init__(self, a: float, b: float, c: float, d: float) -> None:
        self.a, self.k, self.c, self.lo, self.hi = a, (d - c) / ((b - a) or 1.0), c, min(c, d), max(c, d)

    def __call__(self, v: float) -> float:
        return min(self.hi, max(self.lo, self.c + (float(v) - self.a) * self.k))


def _axes(chart: PathChart, top: float, title: str, *, as_percent: bool
          ) -> tuple[list[Markup], _Linear, _Linear]:
    times = [float(t) for t in chart.times] or [0.0]
    x = _Linear(times[0], times[-1], _LEFT, _W - _RIGHT)
    y = _Linear(0.0, top, _H - _BOTTOM, _TOP)
    out = [tag("title", Markup.escape(title))]
    for i in range(3):
        v = top * i / 2
        label = percent(v) if as_percent else number(v, 1)
        out.append(tag("line", x1=_LEFT, x2=_W - _RIGHT, y1=y(v), y2=y(v), class_="c-grid"))
        out.append(text_of(label, _LEFT - 8, y(v) + 4, "t", "end"))
    step = _tick(times[-1] - times[0])
    for i in range(int((times[-1] - times[0]) / step + 1e-9) + 1):
        t = times[0] + i * step
        # Ends are anchored inwards, so that no label leaves the drawing.
        at_end = x(t) > _W - _RIGHT - 20
        out.append(text_of(f"{t:g} s", x(t), _H - _BOTTOM + 20, "t", "end" if at_end else "middle"))
    return out, x, y


def _bands(chart: PathChart, x: _Linear) -> list[Markup]:
    """Each out-of-bounds step as a band with a cross above it."""
    times = [float(t) for t in chart.times]
    half = (times[-1] - times[0]) / max(1, len(times) - 1) / 2 if times else 0.0
    out = []
    for t, bad in zip(times, chart.oob, strict=False):
        if bad:
            a, b, m = x(t - half), x(t + half), x(t)
            out.append(tag("rect", x=a, y=_TOP, width=b - a, height=_INNER_H, class_="c-band"))
            out.append(tag("path", d=f"M{num(m - 3)} {num(_TOP - 9)} l6 6 m0 -6 l-6 6", class_="c-cross"))
    return out


def _line(times: Sequence[float], values: Sequence[float], x: _Linear, y: _Linear, class_: str) -> Markup:
    """A line that is broken where there is no value."""
    runs: list[list[tuple[float, float]]] = [[]]
    for t, v in zip(times, values, strict=False):
        if v is None or not np.isfinite(v):
            runs.append([])
        else:
            runs[-1].append((x(t), y(v)))
    return tag("g", *(tag("polyline", points=points(r), class_=class_) for r in runs if r))


def _tick(span: float) -> float:
    """The smallest nice step that makes six parts at most."""
    least = max(span, 1e-3) / 6
    power = 10.0 ** math.floor(math.log10(least))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= least * (1 - 1e-9))


def _ceiling(v: float) -> float:
    for c in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
        if v <= c:
            return c
    return 1.0


def _svg(layers: list[Markup]) -> Markup:
    return tag("svg", *layers, viewBox=f"0 0 {num(_W)} {num(_H)}", class_="chart", role="img")
