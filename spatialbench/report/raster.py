"""The cells of the top-down map as one picture, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.report.data import MapData
from spatialbench.types.grid import PlanGrid

__all__ = ["AREA_COLORS", "FOOTPRINT_COLOR", "Component", "Window", "action_window", "components", "label_place",
           "paint_cells", "whole_window"]

FOOTPRINT_COLOR = (128, 138, 152, 120)
AREA_COLORS = ((38, 150, 104, 230), (232, 146, 44, 235), (206, 82, 52, 235), (176, 120, 30, 235))
"""Largest walkable component, then the others in turn."""

Window = tuple[float, float, float, float]
"""x0, x1, y0, y1 in metres."""


@dataclass(frozen=True)
class Component:
    """A walkable component: its label and its area in square metres."""

    label: int
    area: float


def components(data: MapData) -> list[Component]:
    """Walkable components in the order of their labels (1 is the largest)."""
    if data.nav_labels is None:
        return []
    grid, labels = data.footprint, np.asarray(data.nav_labels)
    if labels.shape != grid.mask.shape:
        raise ValueError(f"labels {labels.shape} and footprint {grid.mask.shape} are of different extent")
    counts = np.bincount(np.maximum(labels, 0).ravel(), minlength=1)
    return [Component(int(k), int(counts[k]) * grid.cell**2) for k in np.flatnonzero(counts) if k > 0]


def label_place(data: MapData, label: int) -> tuple[float, float]:
    """A point [x, y] well inside a component and away from whatever is drawn on it."""
    from scipy.ndimage import distance_transform_edt

    grid, inside = data.footprint, np.asarray(data.nav_labels) == label
    ij = np.argwhere(inside)
    lo, hi = ij.min(axis=0), ij.max(axis=0) + 1
    step = max(1, int((hi - lo).max()) // 400)
    part = np.pad(inside[lo[0]:hi[0]:step, lo[1]:hi[1]:step], 1)
    room = distance_transform_edt(part)[1:-1, 1:-1] * step * grid.cell
    at = np.argwhere(room > 0)
    if not len(at):  # thinner than the step: any of its cells
        return _centre(grid, ij[len(ij) // 2])
    xy = (at * step + lo + 0.5 + [grid.i0, grid.j0]) * grid.cell
    free = room[tuple(at.T)]
    for spot in np.concatenate([np.array([data.camera], dtype=np.float64), *_shapes(data)]):
        free = np.minimum(free, np.hypot(*(xy - spot).T))
    return _centre(grid, at[free.argmax()] * step + lo)


def whole_window(data: MapData, margin: float = 0.4) -> Window:
    """Everything that is on the map."""
    grid = data.footprint
    cells = grid.mask | (np.asarray(data.nav_labels) > 0) if data.nav_labels is not None else grid.mask
    ij = np.argwhere(cells)
    spots = [np.asarray([data.camera], dtype=np.float64), *_shapes(data)]
    if len(ij):
        corner = np.array([grid.i0, grid.j0])
        spots.append((np.stack([ij.min(axis=0), ij.max(axis=0) + 1]) + corner) * grid.cell)
    return _box(spots, margin)


def action_window(data: MapData, margin: float = 1.2) -> Window:
    """Camera, path, locations, supports and plates, at least 3 m wide."""
    x0, x1, y0, y1 = _box([np.asarray([data.camera], dtype=np.float64), *_shapes(data)], margin)
    gx, gy = max(0.0, 3 - (x1 - x0)) / 2, max(0.0, 3 - (y1 - y0)) / 2
    return x0 - gx, x1 + gx, y0 - gy, y1 + gy


def paint_cells(data: MapData, window: Window, max_side: int = 1400) -> tuple[NDArray[np.uint8], Window]:
    """Cells within ``window`` as RGBA [H,W,4], +Y up, with the metres that the picture covers.

    Blocks of cells are joined where the picture would be larger than ``max_side``: a block shows the most
    telling cell in it (largest component, other components, footprint).
    """
    grid = data.footprint
    lo = np.floor(np.array([window[0], window[2]]) / grid.cell)
    hi = np.ceil(np.array([window[1], window[3]]) / grid.cell)
    # Only cells that exist: a window may be far larger than the array, and than what integers can count.
    first, end = np.array([grid.i0, grid.j0]), np.array([grid.i0, grid.j0]) + grid.mask.shape
    lo = np.clip(lo, first, end).astype(int)
    hi = np.clip(hi, lo, end).astype(int)
    cut = tuple(slice(a - o, b - o) for a, b, o in zip(lo, hi, (grid.i0, grid.j0), strict=True))
    kind = grid.mask[cut].astype(np.int32) * 10**6  # lower is more telling, 0 is nothing
    if data.nav_labels is not None:
        labels = np.asarray(data.nav_labels)[cut]
        kind = np.where(labels > 0, labels, kind)
    step = max(1, -(-max(kind.shape, default=1) // max_side))
    kind = _shrink(kind, step)
    rgba = np.zeros((*kind.shape, 4), dtype=np.uint8)
    rgba[kind == 10**6] = FOOTPRINT_COLOR
    rgba[kind == 1] = AREA_COLORS[0]
    other = (kind > 1) & (kind < 10**6)
    rgba[other] = np.array(AREA_COLORS[1:], dtype=np.uint8)[(kind[other] - 2) % (len(AREA_COLORS) - 1)]
    size = np.array(kind.shape) * step * grid.cell
    x0, y0 = (lo * grid.cell).tolist()
    covered = (x0, x0 + float(size[0]), y0, y0 + float(size[1]))
    return np.ascontiguousarray(rgba.transpose(1, 0, 2)[::-1]), covered


def _centre(grid: PlanGrid, ij: NDArray[Any]) -> tuple[float, float]:
    x, y = ((ij + 0.5 + [grid.i0, grid.j0]) * grid.cell).tolist()
    return x, y


def _shrink(kind: NDArray[np.int32], step: int) -> NDArray[np.int32]:
    if step == 1 or 0 in kind.shape:
        return kind
    n = -(-np.array(kind.shape) // step)
    full = np.zeros(n * step, dtype=np.int32)
    full[:kind.shape[0], :kind.shape[1]] = kind
    full[full == 0] = np.iinfo(np.int32).max
    least: NDArray[np.int32] = full.reshape(n[0], step, n[1], step).min(axis=(1, 3))
    least[least == np.iinfo(np.int32).max] = 0
    return least


def _shapes(data: MapData) -> list[NDArray[Any]]:
    """[N,2] points of everything but cells, finite ones only."""
    out = [np.asarray(s.outline, dtype=np.float64).reshape(-1, 2) for s in data.supports]
    if data.path is not None:
        out.append(np.asarray(data.path, dtype=np.float64).reshape(-1, 2))
    out.append(np.array([[p.x, p.y] for p in data.locations], dtype=np.float64).reshape(-1, 2))
    out.append(np.array([[t[0], t[1]] for t in data.trials], dtype=np.float64).reshape(-1, 2))
    return [a[np.isfinite(a).all(axis=1)] for a in out]


def _box(spots: list[NDArray[Any]], margin: float) -> Window:
    all_spots = np.concatenate(spots)
    (x0, y0), (x1, y1) = all_spots.min(axis=0) - margin, all_spots.max(axis=0) + margin
    return float(x0), float(x1), float(y0), float(y1)
