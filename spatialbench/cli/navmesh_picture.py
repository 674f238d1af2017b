"""The top-down picture of a navigation mesh: footprint, components, path or its ends, scale bar and legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from spatialbench.report.data import MapData
from spatialbench.report.map import nice_length
from spatialbench.report.raster import AREA_COLORS, FOOTPRINT_COLOR, paint_cells
from spatialbench.types import PlanGrid
from spatialbench.world.collision import FAR_GAP, FAR_SHARE

if TYPE_CHECKING:
    from spatialbench.cli.navmesh import Walk

__all__ = ["picture"]

_SIDE = 1000
_MARGIN = 24
_PAPER, _INK, _PATH = (250, 250, 248), (40, 42, 46), (30, 60, 200)
_LISTED = len(AREA_COLORS)
"""Components with a colour and a line of the legend of their own."""
_SMALLER = (92, 98, 110, 235)
"""All other components."""
_LEGEND = 360


def picture(walk: Walk) -> Image.Image:
    """Seen from above: x to the right; y up the page, or z down it for a Y-up mesh. A grid where nothing is: blank."""
    cells, labels, left_out = _near(*_common(walk))
    rgba, (x0, x1, y0, y1) = _painted(cells, labels)
    if rgba.size == 0:
        rgba, (x0, x1, y0, y1) = np.zeros((1, 1, 4), np.uint8), (0.0, cells.cell, 0.0, cells.cell)
    if walk.up == "y":
        rgba = rgba[::-1]
    per_pixel = max(x1 - x0, y1 - y0) / _SIDE
    size = max(round((x1 - x0) / per_pixel), 1), max(round((y1 - y0) / per_pixel), 1)
    drawn = Image.fromarray(np.ascontiguousarray(rgba)).resize(size, Image.Resampling.NEAREST)
    sheet = Image.new("RGB", (size[0] + 3 * _MARGIN + _LEGEND, max(size[1] + 2 * _MARGIN + 50, 420)), _PAPER)
    sheet.paste(drawn, (_MARGIN, _MARGIN), drawn)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(15)
    line = [(_MARGIN + (x - x0) / per_pixel, _MARGIN + (y - y0 if walk.up == "y" else y1 - y) / per_pixel)
            for x, y in _way(walk)]
    if walk.path is not None and len(walk.path.points):
        draw.line(line, fill=_PATH, width=3, joint="curve")
    shown = [0 <= x - _MARGIN <= size[0] and 0 <= y - _MARGIN <= size[1] for x, y in line]
    ends = [(name, line[k], shown[k], fill) for name, k, fill in (("start", 0, _PAPER), ("goal", -1, _PATH)) if line]
    for _, (x, y), inside, fill in ends:
        if inside:
            draw.ellipse((x - 6, y - 6, x + 6, y + 6), fill=fill, outline=_PATH, width=3)
    _scale_bar(draw, font, per_pixel, size[0], _MARGIN + size[1] + 16)
    _legend(draw, font, walk, size[0] + 2 * _MARGIN, left_out * cells.cell**2,
            [name for name, _, inside, _ in ends if not inside])
    return sheet


def _painted(cells: PlanGrid, labels: NDArray[np.int32]) -> tuple[NDArray[np.uint8], tuple[float, float, float, float]]:
    """RGBA [H,W,4] and the metres that it covers; components beyond the listed ones in one colour, under the others."""
    listed, window = paint_cells(MapData(cells, np.where(labels > _LISTED, 0, labels)), cells.extent, _SIDE)
    nothing = PlanGrid(np.zeros_like(cells.mask), cells.i0, cells.j0, cells.cell)
    smaller, _ = paint_cells(MapData(nothing, (labels > _LISTED).astype(np.int32)), cells.extent, _SIDE)
    free = (listed[..., 3] == 0) | (listed == np.array(FOOTPRINT_COLOR, np.uint8)).all(axis=-1)
    listed[free & (smaller[..., 3] > 0)] = _SMALLER
    return listed, window


def _way(walk: Walk) -> list[tuple[float, float]]:
    """The path in plan; without one the two points that were asked for, or nothing."""
    if walk.path is not None and len(walk.path.points):
        at = walk.path.points[:, [0, 1] if walk.up == "z" else [0, 2]]
        return [(float(x), float(y)) for x, y in at]
    return [] if walk.ends is None else list(walk.ends)


def _common(walk: Walk) -> tuple[PlanGrid, NDArray[np.int32]]:
    """Footprint and components in arrays of one extent."""
    grids = [g for g in (walk.footprint, walk.plan) if g is not None and g.mask.size]
    if not grids:
        return PlanGrid(np.zeros((0, 0), bool), 0, 0, walk.plan.cell), np.zeros((0, 0), np.int32)
    i0, j0 = min(g.i0 for g in grids), min(g.j0 for g in grids)
    i1, j1 = max(g.i0 + g.mask.shape[0] for g in grids), max(g.j0 + g.mask.shape[1] for g in grids)
    mask, labels = np.zeros((i1 - i0, j1 - j0), bool), np.zeros((i1 - i0, j1 - j0), np.int32)
    if walk.footprint is not None:
        f = walk.footprint
        mask[f.i0 - i0:f.i0 - i0 + f.mask.shape[0], f.j0 - j0:f.j0 - j0 + f.mask.shape[1]] = f.mask
    if walk.plan.mask.size:
        p = walk.plan
        labels[p.i0 - i0:p.i0 - i0 + p.mask.shape[0], p.j0 - j0:p.j0 - j0 + p.mask.shape[1]] = walk.labels
    return PlanGrid(mask, i0, j0, walk.plan.cell), labels


def _near(cells: PlanGrid, labels: NDArray[np.int32]) -> tuple[PlanGrid, NDArray[np.int32], int]:
    """Without stray cells far from the rest, beside which nothing else could be seen; and how many these are.

    The rule is that for stray faces: beyond 10 m of nothing along an axis, and under 1 % of all.
    """
    marked = cells.mask | (labels > 0)
    total = int(marked.sum())
    parts = []
    for axis in (1, 0):
        counts = marked.sum(axis=axis)
        at = np.flatnonzero(counts)
        if len(at) == 0:
            return cells, labels, 0
        part = np.cumsum(np.diff(at, prepend=at[0]) > FAR_GAP / cells.cell)
        share = np.bincount(part, weights=counts[at])
        kept = at[((share >= FAR_SHARE * total) | (share == share.max()))[part]]
        parts.append(slice(int(kept[0]), int(kept[-1]) + 1))
    inside = parts[0], parts[1]
    left_out = total - int(marked[inside].sum())
    if left_out == 0:
        return cells, labels, 0
    near = PlanGrid(cells.mask[inside], cells.i0 + parts[0].start, cells.j0 + parts[1].start, cells.cell)
    return near, labels[inside], left_out


def _scale_bar(draw: ImageDraw.ImageDraw, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, per_pixel: float,
               width: int, y: int) -> None:
    length = nice_length(max(width * per_pixel * 0.4, 1e-3))
    end = _MARGIN + length / per_pixel
    draw.line([(_MARGIN, y), (end, y)], fill=_INK, width=3)
    for x in (_MARGIN, end):
        draw.line([(x, y - 6), (x, y + 6)], fill=_INK, width=2)
    draw.text((_MARGIN, y + 8), f"{length:g} m", fill=_INK, font=font)


def _legend(draw: ImageDraw.ImageDraw, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, walk: Walk, x: int,
            left_out: float, outside: list[str]) -> None:
    rows: list[tuple[tuple[int, ...] | None, str]] = []
    for k, area in enumerate(walk.areas[:_LISTED]):
        rows.append((AREA_COLORS[k], f"{'largest component' if k == 0 else f'component {k + 1}'}: {area:.3f} m2"))
    if len(walk.areas) > _LISTED:
        rows.append((_SMALLER, f"{len(walk.areas) - _LISTED} smaller: {sum(walk.areas[_LISTED:]):.3f} m2"))
    rows.append((FOOTPRINT_COLOR, f"footprint: {walk.footprint_area:.2f} m2"))
    if left_out > 0:
        rows.append((None, f"{left_out:.3f} m2 lie far outside of the picture"))
    if walk.path is not None:
        length = walk.path.length
        rows.append((_PATH, f"{'no path' if length is None else f'path: {length:.2f} m'} (start white, goal blue)"))
    rows += [(None, f"the {name} lies outside of the picture") for name in outside]
    n = walk.navmesh
    y = _MARGIN
    for colour, text in rows:
        if colour is not None:
            draw.rectangle((x, y + 2, x + 22, y + 16), fill=_on_paper(colour), outline=_INK)
        draw.text((x + 32, y), text, fill=_INK, font=font)
        y += 26
    y += 10
    cell = "no voxel size" if n.cell_size is None else f"{n.cell_size:g} m voxels"
    axes = "x right, y up" if walk.up == "z" else "x right, z down"
    ratio = "navigable ratio: none" if walk.ratio is None else f"navigable ratio: {walk.ratio:.4f}"
    for text in (ratio, *_wrapped(walk.reason), f"{len(n.polygons)} polygons, {cell}", n.profile,
                 *_wrapped(n.backend), f"seen from above: {axes}"):
        draw.text((x, y), text, fill=_INK, font=font)
        y += 22


def _wrapped(text: str, width: int = 44) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)[:6]


def _on_paper(colour: tuple[int, ...]) -> tuple[int, ...]:
    alpha = colour[3] / 255 if len(colour) == 4 else 1.0
    return tuple(round(alpha * c + (1 - alpha) * p) for c, p in zip(colour[:3], _PAPER, strict=True))
