"""The top-down map: cells as a picture, everything else as SVG over it, forward (+Y) up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from spatialbench.report.data import MapData
from spatialbench.report.images import png_uri
from spatialbench.report.raster import (
    AREA_COLORS,
    FOOTPRINT_COLOR,
    Component,
    Window,
    action_window,
    components,
    label_place,
    paint_cells,
    whole_window,
)
from spatialbench.report.svg import num, points, tag, text_of
from spatialbench.report.text import cause_words, number

__all__ = ["MapView", "map_views", "nice_length", "swatch"]

_At = Callable[[float, float], tuple[float, float]]
"""Metres to drawing units."""

_SIDE = 720.0
_LABELS = 5
_CLOSE_UP = 2.2
"""A second, closer map is drawn when the first is this many times as wide or high."""


@dataclass(frozen=True)
class MapView:
    """One drawing with its caption."""

    svg: Markup
    caption: str


def map_views(data: MapData) -> list[MapView]:
    """The whole world, and a close-up of where things happened if they would be too small on it."""
    whole, close = whole_window(data), action_window(data)
    parts = components(data)
    far = max(whole[1] - whole[0], whole[3] - whole[2]) > _CLOSE_UP * max(close[1] - close[0], close[3] - close[2])
    views = [MapView(_draw(data, whole, parts, "Top-down map of the world", close if far else None),
                     f"Seen from above, forward is up; {number(whole[1] - whole[0], 1)} m by "
                     f"{number(whole[3] - whole[2], 1)} m.{' The frame is the close-up.' if far else ''}")]
    if far:
        views.append(MapView(_draw(data, close, parts, "Close-up of the top-down map"),
                             f"Close-up around the camera, {number(close[1] - close[0], 1)} m wide."))
    return views


def swatch(kind: str) -> Markup:
    """A legend sign: ``footprint``, ``largest``, ``other``, ``path``, ``oob``, ``accepted``, ``rejected``,
    ``support``, ``plate-ok``, ``plate-bad`` or ``camera``."""
    c = 10.0
    shapes = {
        "footprint": [tag("rect", x=2, y=4, width=16, height=12, style=_fill(FOOTPRINT_COLOR))],
        "largest": [tag("rect", x=2, y=4, width=16, height=12, style=_fill(AREA_COLORS[0]))],
        "other": [tag("rect", x=2 + 5.4 * i, y=4, width=5.4, height=12, style=_fill(col))
                  for i, col in enumerate(AREA_COLORS[1:])],
        "path": [tag("line", x1=1, y1=10, x2=19, y2=10, class_="m-path"), _dot(c, c, 3, "m-step")],
        "oob": [_cross(c, c, 5.5)],
        "accepted": [_dot(c, c, 6, "m-loc m-yes")],
        "rejected": [_dot(c, c, 6, "m-loc m-no")],
        "support": [tag("rect", x=2, y=4, width=16, height=12, class_="m-support m-chosen")],
        "plate-ok": [_plate(c, c, 6.5, True)],
        "plate-bad": [_plate(c, c, 6.5, False)],
        "camera": [tag("path", d="M10 2 L16 17 L10 13.5 L4 17 Z", class_="m-cam")],
    }
    return tag("svg", *shapes[kind], viewBox="0 0 20 20", class_="swatch", aria_hidden="true")


def _fill(rgba: tuple[int, int, int, int]) -> str:
    return f"fill:rgb({rgba[0]} {rgba[1]} {rgba[2]} / {rgba[3] / 255:.2f})"


def _draw(data: MapData, window: Window, parts: list[Component], title: str,
          frame: Window | None = None) -> Markup:
    """One map; with a ``frame`` only that is drawn over the cells, what happened is left to the close-up."""
    x0, x1, y0, y1 = window
    scale = _SIDE / max(x1 - x0, y1 - y0)
    width, height = (x1 - x0) * scale, (y1 - y0) * scale

    def at(x: float, y: float) -> tuple[float, float]:
        return (x - x0) * scale, (y1 - y) * scale

    layers = [tag("title", Markup.escape(f"{title}: {_in_words(data, parts)}"))]
    rgba, (cx0, cx1, cy0, cy1) = paint_cells(data, window)
    if rgba.size:
        px, py = at(cx0, cy1)
        layers.append(tag("image", href=png_uri(rgba), x=px, y=py, width=(cx1 - cx0) * scale,
                          height=(cy1 - cy0) * scale, preserveAspectRatio="none", class_="m-cells"))
    if frame is None:
        layers += [*_supports(data, at), *_path(data, at), *_locations(data, at), *_plates(data, at, scale)]
        layers.append(_camera(*at(*data.camera)))
    else:
        left, top = at(frame[0], frame[3])
        layers.append(tag("rect", x=left, y=top, width=(frame[1] - frame[0]) * scale,
                          height=(frame[3] - frame[2]) * scale, class_="m-frame"))
    for p in parts[:_LABELS]:
        x, y = label_place(data, p.label)
        if x0 < x < x1 and y0 < y < y1:
            layers.append(text_of(f"{number(p.area, 1)}\u00a0m²", *at(x, y), class_="t halo strong",
                                  anchor="middle"))
    layers += _scale_bar(x1 - x0, scale, height)
    return tag("svg", *layers, viewBox=f"0 0 {num(width)} {num(height)}", class_="map", role="img",
               style=f"aspect-ratio:{num(width)}/{num(height)}")


def _in_words(data: MapData, parts: list[Component]) -> str:
    words = [f"footprint {number(data.footprint.area, 1)} square metres"]
    if parts:
        words.append(f"{len(parts)} walkable areas, the largest {number(parts[0].area, 1)} square metres")
    if data.path is not None and data.path_oob is not None:
        words.append(f"{int(np.sum(data.path_oob))} of {len(data.path_oob)} path samples out of bounds")
    if data.locations:
        words.append(f"{sum(p.accepted for p in data.locations)} of {len(data.locations)} probed locations "
                     "accepted")
    if data.trials:
        words.append(f"{sum(t[2] for t in data.trials)} of {len(data.trials)} plates stayed")
    return ", ".join(words)


def _supports(data: MapData, at: _At) -> list[Markup]:
    return [tag("polygon", tag("title", Markup.escape(s.id)), points=points(at(x, y) for x, y in s.outline),
                class_=f"m-support {'m-chosen' if s.chosen else ''}".strip()) for s in data.supports]


def _path(data: MapData, at: _At) -> list[Markup]:
    if data.path is None or not len(data.path):
        return []
    xy = [at(float(x), float(y)) for x, y in data.path]
    bad = np.zeros(len(xy), dtype=bool) if data.path_oob is None else np.asarray(data.path_oob, dtype=bool)
    line = tag("polyline", points=points(xy), class_="m-path")
    good = [_dot(*p, 3.0, "m-step") for p, b in zip(xy, bad, strict=True) if not b]
    return [line, *good, *(_cross(*p, 5.5) for p, b in zip(xy, bad, strict=True) if b)]


def _locations(data: MapData, at: _At) -> list[Markup]:
    out = []
    for p in data.locations:
        if not (math.isfinite(p.x) and math.isfinite(p.y)):
            continue
        x, y = at(p.x, p.y)
        label = f"location {p.slot}" if p.slot is not None else "location"
        cause = "accepted" if p.accepted else f"rejected: {cause_words(p.cause) or 'no reason given'}"
        out.append(tag("circle", tag("title", Markup.escape(f"{label}, {cause}")), cx=x, cy=y, r=8.0,
                       class_=f"m-loc {'m-yes' if p.accepted else 'm-no'}"))
        if p.slot is not None:
            out.append(text_of(str(p.slot), x, y, "t tiny m-slot", "middle"))
    return out


def _plates(data: MapData, at: _At, scale: float) -> list[Markup]:
    radius = max(5.0, 0.11 * scale)  # the plate's own size where that can be seen
    out = []
    for i, (x, y, ok) in enumerate(data.trials):
        px, py = at(x, y)
        name = data.trial_ids[i] if i < len(data.trial_ids) else i
        label = f"plate {name} {'stayed' if ok else 'failed'}"
        out.append(_plate(px, py, radius, ok, tag("title", Markup.escape(label))))
        if radius >= 10:
            out.append(text_of(str(name), px, py, "t tiny m-slot on-plate", "middle"))
    return out


def _plate(x: float, y: float, r: float, ok: bool, *inside: Markup) -> Markup:
    """A disc if it stayed, else a diamond: told apart without colours."""
    if ok:
        return tag("circle", *inside, cx=x, cy=y, r=r, class_="m-plate m-ok")
    k = 1.3 * r
    corners = points([(x, y - k), (x + k, y), (x, y + k), (x - k, y)])
    return tag("polygon", *inside, points=corners, class_="m-plate m-bad")


def _camera(x: float, y: float) -> Markup:
    arrow = tag("path", d=f"M{num(x)} {num(y - 30)} L{num(x + 7)} {num(y - 14)} H{num(x + 2)} V{num(y)} "
                f"H{num(x - 2)} V{num(y - 14)} H{num(x - 7)} Z", class_="m-cam")
    return tag("g", tag("title", Markup("initial camera, looking forward (up on the map)")), arrow,
               _dot(x, y, 6.0, "m-cam"))


def _scale_bar(metres_wide: float, scale: float, height: float) -> list[Markup]:
    length = nice_length(metres_wide / 4)
    y, x = height - 14, 14.0
    end = x + length * scale
    label = f"{length:g} m"
    return [tag("path", d=f"M{num(x)} {num(y - 6)} V{num(y)} H{num(end)} V{num(y - 6)}", class_="m-scale"),
            text_of(label, x + 4, y - 8, "t halo")]


def nice_length(limit: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above ``limit``."""
    power = 10.0 ** math.floor(math.log10(limit))
    return max(f * power for f in (1, 2, 5) if f * power <= limit * (1 + 1e-9))


def _dot(x: float, y: float, r: float, class_: str) -> Markup:
    return tag("circle", cx=float(x), cy=float(y), r=float(r), class_=class_)


def _cross(x: float, y: float, r: float) -> Markup:
    a, b, c, d = num(x - r), num(x + r), num(y - r), num(y + r)
    return tag("path", d=f"M{a} {c} L{b} {d} M{a} {d} L{b} {c}", class_="m-oob")
