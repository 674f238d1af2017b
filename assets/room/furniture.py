"""Furniture in its own frame: origin on the floor below its middle, front towards -Y unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spatialbench.assets.room.noise import hash01
from spatialbench.assets.room.patches import Patch, box, lines, place, rect, rounded_box

__all__ = ["books", "bookshelf", "cabinet", "chair", "coffee_table", "sofa", "table"]

Array = NDArray[np.float64]


def slab(w: float, d: float, z0: float, z1: float, material: str,
         warp: Callable[[Array, Array], Array] | None = None, step: float = 0.3) -> list[Patch]:
    """Closed board whose upper side may be warped: ``warp(x, y)`` is added to ``z1``."""
    xs, ys = lines(w, step) - w / 2, lines(d, step) - d / 2

    def top(x: Array, y: Array) -> Array:
        return np.full(np.broadcast(x, y).shape, z1) + (0.0 if warp is None else warp(x, y))

    x, y = np.meshgrid(xs, ys, indexing="ij")
    u, v = (xs + w / 2) / w, (ys + d / 2) / d
    out = [Patch(np.stack([x, y, top(x, y)], axis=2), u, v, (w, d), material, density=1.4)]
    out += box((-w / 2, -d / 2, z0), (w / 2, d / 2, z1), material, skip="xXyYZ")
    for px, py in ((xs, np.full_like(xs, -d / 2)), (np.full_like(ys, w / 2), ys),
                   (xs[::-1], np.full_like(xs, d / 2)), (np.full_like(ys, -w / 2), ys[::-1])):
        run = np.hypot(px - px[0], py - py[0])
        grid = np.stack([np.stack([px, py, np.full_like(px, z0)], 1), np.stack([px, py, top(px, py)], 1)], axis=1)
        out.append(Patch(grid, run / run[-1], np.array([0.0, 1.0]), (float(run[-1]), z1 - z0), material))
    return out


def table(w: float, d: float, h: float, warp: Callable[[Array, Array], Array] | None = None) -> list[Patch]:
    """Dining table: long side along X, oak."""
    out = slab(w, d, h - 0.035, h, "oak", warp, step=0.07 if warp else 0.3)
    for i, (sx, sy) in enumerate(((-1, -1), (1, -1), (-1, 1), (1, 1))):
        x, y = sx * (w / 2 - 0.075), sy * (d / 2 - 0.075)
        out += box((x - 0.03, y - 0.03, 0), (x + 0.03, y + 0.03, h - 0.035), "oak_t", skip="zZ", seed=i)
    rail = h - 0.035
    for sy in (-1, 1):
        y = sy * (d / 2 - 0.075)
        out += box((-w / 2 + 0.105, y - 0.012, rail - 0.08), (w / 2 - 0.105, y + 0.012, rail), "oak", skip="xXZ")
    for sx in (-1, 1):
        x = sx * (w / 2 - 0.075)
        out += box((x - 0.012, -d / 2 + 0.105, rail - 0.08), (x + 0.012, d / 2 - 0.105, rail), "oak", skip="yYZ")
    return out


def coffee_table(w: float, d: float, h: float) -> list[Patch]:
    """Low table of walnut with a shelf."""
    out = slab(w, d, h - 0.03, h, "walnut")
    out += box((-w / 2 + 0.08, -d / 2 + 0.06, 0.13), (w / 2 - 0.08, d / 2 - 0.06, 0.15), "walnut", seed=3)
    for i, (sx, sy) in enumerate(((-1, -1), (1, -1), (-1, 1), (1, 1))):
        x, y = sx * (w / 2 - 0.05), sy * (d / 2 - 0.05)
        out += box((x - 0.02, y - 0.02, 0), (x + 0.02, y + 0.02, h - 0.03), "walnut_t", skip="zZ", seed=i)
    return out


def chair(seed: int = 0) -> list[Patch]:
    """Chair, 0.42 m square, seat at 0.45 m, back at -Y and 0.86 m high, front towards +Y."""
    a = 0.21
    out = place(rounded_box((2 * a, 2 * a, 0.045), 0.02, "linen", crown=0.006, arc=2, middle=2), z=0.447)
    out += box((-a + 0.01, -a + 0.01, 0.395), (a - 0.01, a - 0.01, 0.426), "chair", skip="Z", seed=seed)
    for x in (-1, 1):
        for y, top in ((-1, 0.86), (1, 0.395)):
            cx, cy = x * (a - 0.025), y * (a - 0.025)
            out += box((cx - 0.018, cy - 0.018, 0), (cx + 0.018, cy + 0.018, top), "chair",
                       skip="z" if y < 0 else "zZ", seed=seed + 1)
    for z in (0.56, 0.67, 0.78):
        out += box((-a + 0.043, -a + 0.014, z), (a - 0.043, -a + 0.032, z + 0.065), "oak", skip="xX", seed=seed)
    return out


def sofa(w: float = 1.78, d: float = 0.84) -> list[Patch]:
    """Sofa for two: seat at 0.44 m, arms at 0.58 m, back at 0.80 m."""
    arm, back, seat_w = 0.17, 0.16, (w - 0.34) / 2
    out = box((-w / 2 + 0.03, -d / 2 + 0.05, 0.10), (w / 2 - 0.03, d / 2 - 0.03, 0.27), "sofa", skip="Z")
    for sx in (-1, 1):
        out += place(rounded_box((arm, d, 0.48), 0.06, "sofa", crown=0.008, seed=2 + sx),
                     sx * (w / 2 - arm / 2), 0, 0.34)
        out += place(rounded_box((seat_w - 0.008, d - back - 0.02, 0.18), 0.05, "sofa", crown=0.018, seed=5 + sx),
                     sx * seat_w / 2, -back / 2 - 0.02, 0.345)
        out += place(rounded_box((seat_w - 0.02, 0.18, 0.42), 0.07, "sofa", crown=0.03, seed=8 + sx),
                     sx * seat_w / 2, d / 2 - back - 0.07, 0.62)
        for y in (-d / 2 + 0.09, d / 2 - 0.09):
            x = sx * (w / 2 - 0.1)
            out += box((x - 0.02, y - 0.02, 0), (x + 0.02, y + 0.02, 0.10), "walnut_t", skip="zZ")
    out += place(rounded_box((w - 2 * arm, back, 0.66), 0.05, "sofa", seed=11), 0, d / 2 - back / 2, 0.47)
    for x, yaw, colour in ((-0.52, 14, "mustard"), (0.55, -11, "striped")):
        out += place(rounded_box((0.40, 0.13, 0.38), 0.055, colour, crown=0.04, density=1.2),
                     x, 0.06, 0.64, yaw)
    return out


def books(width: float, depth: float, height: float, seed: int, fill: float = 0.9) -> list[Patch]:
    """A row of upright books between x = 0 and ``width``, spines at y = 0, standing on z = 0."""
    out: list[Patch] = []
    x, k = 0.0, 0
    while True:
        r = [float(hash01(seed, 10 * k + m, 77)) for m in range(5)]
        w, h, d = 0.018 + 0.030 * r[0], height * (0.62 + 0.33 * r[1]), depth * (0.70 + 0.25 * r[2])
        if x + w > width * fill:
            return out
        colour, front = int(100 * r[3]), 0.02 * r[4]
        out += box((x, front, 0), (x + w, front + d, h), "book", skip="xXYzZ", seed=colour, density=1.7)
        out += box((x, front, 0), (x + w, front + d, h), "cover", skip="yYzZ", seed=colour, density=0.3)
        out += box((x, front, 0), (x + w, front + d, h), "pages", skip="xXyYz", seed=k)
        x, k = x + w + 0.0015, k + 1


def bookshelf(w: float = 1.2, d: float = 0.32, h: float = 2.0, boards: int = 5) -> list[Patch]:
    """Open shelf of oak with books and a few things; front towards -Y."""
    t = 0.022
    out = box((-w / 2, -d / 2, 0), (-w / 2 + t, d / 2, h), "oak_t", skip="z", seed=1)
    out += box((w / 2 - t, -d / 2, 0), (w / 2, d / 2, h), "oak_t", skip="z", seed=2)
    out += [rect((-w / 2 + t, d / 2 - 0.01, 0), (w - 2 * t, 0, 0), (0, 0, h), "oak_t", seed=3),
            rect((w / 2, d / 2, 0), (-w, 0, 0), (0, 0, h), "oak_t", seed=3, density=0.2)]
    gap = (h - 0.07 - t) / (boards - 1)
    for k in range(boards):
        z = 0.07 + k * gap
        out += box((-w / 2 + t, -d / 2 + 0.005, z), (w / 2 - t, d / 2 - 0.01, z + t), "oak", skip="xXY", seed=4 + k)
        if k < boards - 1:
            fill = (0.95, 0.62, 0.80, 0.55)[k % 4]
            row = books(w - 2 * t - 0.01, d - 0.09, gap - t, seed=31 + k, fill=fill)
            out += place(row, -w / 2 + t + 0.005, -d / 2 + 0.035, z + t)
    return out


def cabinet(w: float, d: float, h: float, material: str, doors: int, top: str = "", plinth: float = 0.07,
            back: bool = False) -> list[Patch]:
    """Cupboard with ``doors`` side by side on its front; ``top`` names the material of an overhanging top."""
    t = 0.035 if top else 0.0
    skip = "z" if back else "zY"
    out = box((-w / 2 + 0.01, -d / 2 + 0.05, 0), (w / 2 - 0.01, d / 2, plinth), "iron", skip=skip + "Z")
    out += box((-w / 2, -d / 2 + 0.02, plinth), (w / 2, d / 2, h - t), material,
               skip=skip.replace("z", "") + ("Z" if top else ""), seed=1)
    each = w / doors
    for k in range(doors):
        x0, x1 = -w / 2 + k * each + 0.004, -w / 2 + (k + 1) * each - 0.004
        out += box((x0, -d / 2, plinth + 0.006), (x1, -d / 2 + 0.02, h - t - 0.008), material, skip="Y", seed=2 + k)
        hx = x1 - 0.045 if k % 2 == 0 else x0 + 0.03
        hz = min(h - t - 0.22, 1.05)
        out += box((hx, -d / 2 - 0.022, hz), (hx + 0.014, -d / 2, hz + 0.13), "steel", skip="Y")
    if top:
        out += box((-w / 2 - 0.005, -d / 2 - 0.015, h - t), (w / 2 + 0.005, d / 2, h), top,
                   skip="" if back else "Y", density=1.2)
    return out
