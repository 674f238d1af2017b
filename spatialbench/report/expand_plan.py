"""The plan of an expansion: cells kept, new and lost, the expansion location and the way there; forward (+Y) up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from spatialbench.report.images import png_uri
from spatialbench.report.map import nice_length
from spatialbench.report.svg import num, points, tag, text_of
from spatialbench.report.text import number
from spatialbench.types.grid import PlanGrid

__all__ = ["LEGEND", "GrowthPlan", "growth_cells", "growth_map", "legend_swatch"]

KEPT, NEW, LOST = 1, 2, 3
_COLORS = {KEPT: (128, 138, 152, 150), NEW: (38, 150, 104, 235), LOST: (206, 82, 52, 235)}
LEGEND = {"kept": KEPT, "new": NEW, "lost": LOST}
_SIDE, _MAX_CELLS, _MARGIN = 720.0, 1400, 0.4


@dataclass(eq=False)
class GrowthPlan:
    """What the plan shows.

    Attributes
    ----------
    before, after : footprints; None for an empty one.
    centroid : [2] of the new cells, or None. location : [2] where the cameras stand, or None.
    """

    before: PlanGrid | None
    after: PlanGrid | None
    centroid: tuple[float, float] | None = None
    location: tuple[float, float] | None = None


def growth_cells(before: PlanGrid | None, after: PlanGrid | None) -> tuple[NDArray[np.uint8], int, int, float] | None:
    """Codes [NX,NY] (0 nothing, 1 kept, 2 new, 3 lost) of the union of both extents, its first indices and the cell;
    None when neither has a cell."""
    grids = [g for g in (before, after) if g is not None and g.mask.size]
    if not grids:
        return None
    low = np.min([[g.i0, g.j0] for g in grids], axis=0)
    high = np.max([[g.i0 + g.mask.shape[0], g.j0 + g.mask.shape[1]] for g in grids], axis=0)
    extent = PlanGrid(np.zeros(tuple((high - low).tolist()), bool), int(low[0]), int(low[1]), grids[0].cell)
    old, new = (extent.mask if g is None else g.aligned_to(extent).mask for g in (before, after))
    codes = np.where(old & new, KEPT, np.where(new, NEW, np.where(old, LOST, 0))).astype(np.uint8)
    return codes, extent.i0, extent.j0, extent.cell


def growth_map(plan: GrowthPlan) -> Markup | None:
    """The drawing; None when there is no cell."""
    found = growth_cells(plan.before, plan.after)
    if found is None:
        return None
    codes, i0, j0, cell = found
    step = max(1, -(-max(codes.shape) // _MAX_CELLS))
    codes = _shrunk(codes, step)
    size = np.array(codes.shape) * step * cell
    spots = np.array([(0.0, 0.0), *(p for p in (plan.centroid, plan.location) if p is not None)])
    corner = np.array([i0, j0]) * cell
    x0, y0 = (np.minimum(corner, spots.min(axis=0)) - _MARGIN).tolist()
    x1, y1 = (np.maximum(corner + size, spots.max(axis=0)) + _MARGIN).tolist()
    scale = _SIDE / max(x1 - x0, y1 - y0)

    def at(x: float, y: float) -> tuple[float, float]:
        return (x - x0) * scale, (y1 - y) * scale

    rgba = np.zeros((*codes.shape, 4), np.uint8)
    for code, color in _COLORS.items():
        rgba[codes == code] = color
    left, top = at(float(corner[0]), float(corner[1] + size[1]))
    layers = [
        tag("title", Markup.escape(_words(plan))),
        tag("image", href=png_uri(np.ascontiguousarray(rgba.transpose(1, 0, 2)[::-1])), x=left, y=top,
            width=float(size[0]) * scale, height=float(size[1]) * scale, preserveAspectRatio="none", class_="m-cells")]
    camera = at(0.0, 0.0)
    if plan.location is not None:
        layers += [tag("polyline", points=points([camera, at(*plan.location)]), class_="m-path"),
                   _circle(at(*plan.location), 8.0, "m-loc m-yes", "expansion location")]
    if plan.centroid is not None and plan.centroid != plan.location:
        layers.append(_circle(at(*plan.centroid), 6.0, "m-loc m-no", "centroid of the new cells"))
    x, y = camera
    layers.append(tag("path", tag("title", Markup("initial camera, looking forward (up on the map)")),
                      d=f"M{num(x)} {num(y - 18)} L{num(x + 8)} {num(y + 8)} L{num(x)} {num(y + 3)} "
                        f"L{num(x - 8)} {num(y + 8)} Z", class_="m-cam"))
    length = nice_length((x1 - x0) / 4)
    base, end = (y1 - y0) * scale - 14, 14 + length * scale
    layers += [tag("path", d=f"M14 {num(base - 6)} V{num(base)} H{num(end)} V{num(base - 6)}", class_="m-scale"),
               text_of(f"{length:g} m", 18.0, base - 8, "t halo")]
    width, height = num((x1 - x0) * scale), num((y1 - y0) * scale)
    return tag("svg", *layers, viewBox=f"0 0 {width} {height}", class_="map", role="img",
               style=f"aspect-ratio:{width}/{height}")


def legend_swatch(kind: str) -> Markup:
    """A legend sign of ``kept``, ``new`` or ``lost`` cells."""
    r, g, b, a = _COLORS[LEGEND[kind]]
    return tag("svg", tag("rect", x=2, y=4, width=16, height=12, style=f"fill:rgb({r} {g} {b} / {a / 255:.2f})"),
               viewBox="0 0 20 20", class_="swatch", aria_hidden="true")


def _words(plan: GrowthPlan) -> str:
    areas = [number(0.0 if g is None else g.area, 1) for g in (plan.before, plan.after)]
    return f"Plan of the expansion: footprint {areas[0]} square metres before, {areas[1]} after"


def _circle(at: tuple[float, float], r: float, class_: str, title: str) -> Markup:
    return tag("circle", tag("title", Markup.escape(title)), cx=at[0], cy=at[1], r=r, class_=class_)


def _shrunk(codes: NDArray[np.uint8], step: int) -> NDArray[np.uint8]:
    """Blocks of cells as one: the most telling code in each."""
    if step == 1:
        return codes
    n = -(-np.array(codes.shape) // step)
    full = np.zeros(n * step, np.uint8)
    full[:codes.shape[0], :codes.shape[1]] = codes
    return np.asarray(full.reshape(n[0], step, n[1], step).max(axis=(1, 3)))
