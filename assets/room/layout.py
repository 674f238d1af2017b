"""Where everything stands: the shell with its openings, the furniture, the lights, and the flaws.

Room frame: origin in the middle of the floor, X right (east), Y forward (north), Z up, metres.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.assets.room import furniture as fu
from spatialbench.assets.room import objects as ob
from spatialbench.assets.room.light import Lights
from spatialbench.assets.room.noise import smooth
from spatialbench.assets.room.patches import Patch, box, place, rect

__all__ = ["CAMERA", "CEILING_GAP", "DOOR", "NOOK", "PASSAGE", "ROOM", "TABLE", "WALL_GAP", "all_patches", "lights"]

Array = NDArray[np.float64]
Corners = tuple[tuple[float, float], ...]

ROOM = ((-2.3, 2.3), (-3.2, 3.2), (0.0, 2.7))
"""Extent in X, Y and Z."""
CAMERA = (-0.94, -1.05, 1.6)
"""Initial camera; level, looks along +Y."""
DOOR = (-1.45, -0.65, 2.03)
"""Flaw: doorway in the west wall from y to y, and its height; there is nothing behind it."""
WALL_GAP: Corners = ((-2.3, 2.7), (-2.3, 1.95), (-2.08, 2.02), (-1.93, 1.88), (-1.74, 2.08), (-1.62, 2.33),
                     (-1.66, 2.52), (-1.47, 2.7))
"""Flaw: missing piece of the south wall (x, z)."""
CEILING_GAP: Corners = ((0.55, 1.62), (0.86, 1.50), (1.22, 1.63), (1.48, 1.93), (1.33, 2.28), (0.97, 2.39),
                        (0.58, 2.14))
"""Flaw: missing piece of the ceiling (x, y)."""
PASSAGE = (0.62, 0.77, -1.92, -1.60)
"""Flaw: a gap of 0.15 m (x to x, y to y) is the only way into the nook."""
NOOK = (0.62, 2.3, -3.2, -1.92)
"""The corner (x to x, y to y) behind it."""
TABLE = (1.25, -0.50, 1.5, 0.85, 0.75)
"""Dining table: centre x, y; length along Y, width along X, height."""

_WINDOW = (-0.60, 1.30, 0.95, 2.30)
_PANE_Y = 3.36


def all_patches() -> list[Patch]:
    """The whole room."""
    return [*_shell(), *_trim(), *_window(), *_living(), *_dining(), *_kitchen(), *_corner(), *_walls()]


def lights() -> Lights:
    """Daylight from the window, and two lamps."""
    x0, x1, z0, z1 = _WINDOW
    pane = (np.array([x0, _PANE_Y - 0.005, z0]), np.array([x1 - x0, 0, 0]), np.array([0, 0, z1 - z0]))
    sun = np.array([0.34, 1.0, 0.78])
    lx, ly = _LAMP
    return Lights(pane=pane, sky=np.array([7.6, 8.6, 9.9]), sun_direction=sun / np.linalg.norm(sun),
                  sun=np.array([7.0, 5.9, 4.3]),
                  lamps=((np.array([lx, ly, 1.42]), 0.05, np.array([0.50, 0.34, 0.19])),
                         (np.array([TABLE[0], TABLE[1], 1.86]), 0.05, np.array([0.62, 0.43, 0.25]))),
                  outside=np.array([0.42, 0.44, 0.48]), transparent=("pane", "lampshade"))


def table_warp(x: Array, y: Array) -> Array:
    """Flaw: the table's south-west corner is bent up. Metres over the level top, in the table's own frame."""
    r = np.hypot(x + 0.75, y - 0.425)
    return 0.042 * (1.0 - smooth(r, 0.10, 0.46))


def _inside(points: Array, corners: Corners) -> NDArray[np.bool_]:
    """Whether each point [...,2] lies in a polygon, by crossing number."""
    odd = np.zeros(points.shape[:-1], dtype=bool)
    for (x0, y0), (x1, y1) in zip(corners, (*corners[1:], corners[0]), strict=True):
        x, y = points[..., 0], points[..., 1]
        if y0 != y1:
            odd ^= ((y0 > y) != (y1 > y)) & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
    return odd


def _without(p: Patch, axes: tuple[int, int], corners: Corners, snap: bool = False) -> Patch:
    """The patch without the triangles whose centre lies in a polygon of two of the axes.

    ``snap`` moves the points along the cut onto the polygon's outline.
    """
    a, b, c, d = p.grid[:-1, :-1], p.grid[1:, :-1], p.grid[1:, 1:], p.grid[:-1, 1:]
    middle = np.stack([(a + b + c) / 3, (a + c + d) / 3], axis=2)
    gone = _inside(middle[..., list(axes)], corners)
    out = replace(p, keep=~gone if p.keep is None else p.keep & ~gone)
    if not snap:
        return out
    touches = {True: np.zeros(p.grid.shape[:2], bool), False: np.zeros(p.grid.shape[:2], bool)}
    for half, at in ((0, ((0, 0), (1, 0), (1, 1))), (1, ((0, 0), (1, 1), (0, 1)))):
        for state in (True, False):
            i, j = np.nonzero(gone[..., half] == state)
            for di, dj in at:
                touches[state][i + di, j + dj] = True
    edge = touches[True] & touches[False]
    edge[[0, -1]] = edge[:, [0, -1]] = False  # the patch's own border stays
    grid = p.grid.copy()
    points = grid[edge]
    points[:, list(axes)] = _onto(points[:, list(axes)], corners)
    grid[edge] = points
    return replace(out, grid=grid)


def _onto(points: Array, corners: Corners) -> Array:
    """The nearest place on a polygon's outline for each point [N,2]."""
    best, distance = points.copy(), np.full(len(points), np.inf)
    for a, b in zip(np.array(corners), np.array((*corners[1:], corners[0])), strict=True):
        t = np.clip((points - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
        q = a + t[:, None] * (b - a)
        r = np.linalg.norm(points - q, axis=1)
        best[r < distance], distance = q[r < distance], np.minimum(r, distance)
    return best


def _rectangle(x0: float, x1: float, z0: float, z1: float) -> Corners:
    return ((x0, z0), (x1, z0), (x1, z1), (x0, z1))


def _shell() -> list[Patch]:
    (x0, x1), (y0, y1), (_, h) = ROOM
    w, d = x1 - x0, y1 - y0
    fine = tuple(np.linspace(0, 1, 11)[1:-1])
    floor = rect((x0, y0, 0), (w, 0, 0), (0, d, 0), "planks", step=0.25, tag="floor", origin=(x0, y0), density=1.25)
    ceiling = rect((x0, y1, h), (w, 0, 0), (0, -d, 0), "ceiling", step=0.25, tag="ceiling", density=0.45,
                   at_u=tuple(2.85 + 0.95 * k for k in fine), at_v=tuple(0.8 + 0.9 * k for k in fine))
    a, b, z0, z1 = _WINDOW
    north = rect((x0, y1, 0), (w, 0, 0), (0, 0, h), "accent", at_u=(a - x0, b - x0), at_v=(z0, z1), tag="north")
    south = rect((x1, y0, 0), (-w, 0, 0), (0, 0, h), "wall", at_u=tuple(w - 0.85 * k for k in fine),
                 at_v=tuple(h - 0.85 * k for k in fine), tag="south")
    west = rect((x0, y0, 0), (0, d, 0), (0, 0, h), "wall", at_u=(DOOR[0] - y0, DOOR[1] - y0), at_v=(DOOR[2],),
                tag="west")
    east = rect((x1, y1, 0), (0, -d, 0), (0, 0, h), "wall", tag="east")
    return [floor, _without(ceiling, (0, 1), CEILING_GAP, snap=True),
            _without(north, (0, 2), _rectangle(*_WINDOW)),
            _without(south, (0, 2), WALL_GAP, snap=True),
            _without(west, (1, 2), _rectangle(DOOR[0], DOOR[1], 0.0, DOOR[2])), east]


def _trim() -> list[Patch]:
    """Skirting, door casing, and the thickness of the wall in the doorway."""
    (x0, x1), (y0, y1), _ = ROOM
    s, h, f = 0.015, 0.09, 0.07
    out = box((x0, y1 - s, 0), (x1, y1, h), "white", skip="zYxX")
    out += box((x1 - s, NOOK[2], 0), (x1, y1, h), "white", skip="zXyY")
    out += box((NOOK[0], y0, 0), (x1, y0 + s, h), "white", skip="zyxX")
    out += box((x0, y0, 0), (x0 + s, DOOR[0] - f, h), "white", skip="zxyY")
    out += box((x0, DOOR[1] + f, 0), (x0 + s, y1, h), "white", skip="zxyY")
    for a, b, top in ((DOOR[0] - f, DOOR[0], DOOR[2] + f), (DOOR[1], DOOR[1] + f, DOOR[2] + f)):
        out += box((x0, a, 0), (x0 + 0.02, b, top), "white", skip="zx")
    out += box((x0, DOOR[0], DOOR[2]), (x0 + 0.02, DOOR[1], DOOR[2] + f), "white", skip="xyY")
    t, w = x0 - 0.07, DOOR[1] - DOOR[0]
    out += [rect((t, DOOR[0], 0), (0.07, 0, 0), (0, w, 0), "oak_t"),
            rect((t, DOOR[1], DOOR[2]), (0.07, 0, 0), (0, -w, 0), "white"),
            rect((t, DOOR[1], 0), (0.07, 0, 0), (0, 0, DOOR[2]), "white"),
            rect((x0, DOOR[0], 0), (-0.07, 0, 0), (0, 0, DOOR[2]), "white")]
    return [replace(p, tag="trim") for p in out]


def _window() -> list[Patch]:
    x0, x1, z0, z1 = _WINDOW
    y, w, h = ROOM[1][1], x1 - x0, z1 - z0
    deep = _PANE_Y - y
    out = [rect((x0, y, z0), (w, 0, 0), (0, deep, 0), "white"),
           rect((x0, _PANE_Y, z1), (w, 0, 0), (0, -deep, 0), "white"),
           rect((x0, y, z0), (0, deep, 0), (0, 0, h), "white"),
           rect((x1, _PANE_Y, z0), (0, -deep, 0), (0, 0, h), "white")]
    f, front = 0.045, _PANE_Y - 0.05
    for a, b, c, d in ((x0, x1, z0, z0 + f), (x0, x1, z1 - f, z1), (x0, x0 + f, z0 + f, z1 - f),
                       (x1 - f, x1, z0 + f, z1 - f), ((x0 + x1 - f) / 2, (x0 + x1 + f) / 2, z0 + f, z1 - f)):
        out += box((a, front, c), (b, _PANE_Y, d), "white", skip="Y")
    for a, b in ((x0 + f, (x0 + x1 - f) / 2), ((x0 + x1 + f) / 2, x1 - f)):
        out += box((a, front + 0.012, z1 - 0.42), (b, _PANE_Y, z1 - 0.39), "white", skip="YxX")
    out += box((x0 - 0.06, y - 0.10, z0 - 0.035), (x1 + 0.06, y, z0), "white", skip="Y")
    pane = rect((x0, _PANE_Y - 0.004, z0), (w, 0, 0), (0, 0, h), "view", tag="pane", emit=(1.0, 1.0, 1.0), density=1.0)
    out = [replace(p, tag="window") for p in out] + [pane]
    for x, k in ((x0 - 0.42, 0), (x1 - 0.02, 1)):
        out += place(ob.curtain(0.44, 2.36, 6, k), x, y - 0.16, 0.08, tag="curtain")
    return out + box((x0 - 0.5, y - 0.17, 2.45), (x1 + 0.5, y - 0.15, 2.47), "iron", skip="", tag="curtain")


_LAMP = (1.78, 2.72)


def _living() -> list[Patch]:
    x = 0.35
    out = box((x - 1.2, 0.38, 0.0), (x + 1.2, 2.10, 0.012), "rug", skip="z", tag="rug", density=1.1)
    out += place(fu.sofa(), x, 2.46, 0, tag="sofa")
    out += place(fu.coffee_table(1.0, 0.55, 0.42), x, 1.24, 0, 3, tag="coffee table")
    top = 0.42
    out += place(ob.flat_book(0.29, 0.21, 0.028, 3), x - 0.30, 1.20, top, 12, tag="books")
    out += place(ob.flat_book(0.25, 0.18, 0.022, 1), x - 0.30, 1.20, top + 0.028, -6, tag="books")
    out += place(ob.bowl(0.14), x + 0.22, 1.30, top, tag="bowl")
    for k, (dx, dy, kind) in enumerate(((0.0, 0.045, "apple"), (0.04, -0.03, "fruit"), (-0.045, -0.02, "apple"))):
        out += place(ob.fruit(0.038, kind), x + 0.22 + dx, 1.30 + dy, top + 0.016, 40 * k, tag="fruit")
    out += place(ob.mug(), x + 0.02, 1.07, top, 200, tag="mug")
    out += place(ob.floor_lamp(), *_LAMP, tag="floor lamp")
    out += place(ob.plant(), -1.80, 2.68, 0, tag="plant")
    return out + place(fu.bookshelf(), ROOM[0][0] + 0.165, 1.30, 0, 90, tag="bookshelf")


def _dining() -> list[Patch]:
    x, y, length, width, top = TABLE
    out = place(fu.table(length, width, top, table_warp), x, y, 0, 90, tag="dining table")
    for k, (cx, cy, yaw) in enumerate(((0.70, y - 0.34, -90), (0.53, y + 0.42, -72), (1.82, y - 0.36, 90),
                                       (1.80, y + 0.36, 95))):
        out += place(fu.chair(k), cx, cy, 0, yaw, tag="chair")
    out += place(ob.vase(), x + 0.02, y + 0.16, top, tag="vase")
    out += place(ob.mug("clay"), x + 0.27, y - 0.20, top, 120, tag="mug")
    out += place(ob.flat_book(0.23, 0.16, 0.024, 4), x + 0.16, y + 0.56, top, 75, tag="book")
    return out + place(ob.pendant(1.78, ROOM[2][1]), x, y, 0, tag="pendant")


def _kitchen() -> list[Patch]:
    """Counter along the south wall, front to the north."""
    x, y, w = -1.10, ROOM[1][0], 1.8
    out = place(fu.cabinet(w, 0.54, 0.90, "cabinet", 4, top="stone"), x, y + 0.27, 0, 180, tag="counter")
    out.append(rect((x + w / 2, y + 0.008, 0.90), (-w, 0, 0), (0, 0, 0.54), "tiles", tag="tiles", density=1.1))
    out += place(ob.kettle(), x + 0.55, y + 0.30, 0.90, 30, tag="kettle")
    for k, (dx, r, h) in enumerate(((-0.78, 0.06, 0.20), (-0.64, 0.055, 0.16), (-0.51, 0.05, 0.12))):
        out += place(ob.jar(r, h, ("cream", "glaze", "clay")[k]), x + dx, y + 0.13, 0.90, tag="jar")
    board = box((-0.15, -0.009, 0), (0.15, 0.009, 0.36), "walnut_t", seed=5)
    return out + place(board, x + 0.10, y + 0.045, 0.90, tag="board")


def _corner() -> list[Patch]:
    """Wardrobe and sideboard that leave only the narrow passage to the nook."""
    a, b, c, d = PASSAGE
    east, south = ROOM[0][1], ROOM[1][0]
    deep, length = d - south, 0.40
    out = place(fu.cabinet(deep, length, 2.0, "white", 3, back=True), a - length / 2, (south + d) / 2, 0, -90,
                tag="wardrobe")
    w = east - b
    out += place(fu.cabinet(w, 0.35, 0.92, "oak", 3, top="oak", back=True), (b + east) / 2, c + 0.175, 0, 180,
                 tag="sideboard")
    out += place(ob.bowl(0.12, "glaze"), b + 0.32, c + 0.19, 0.92, tag="bowl")
    out += place(fu.books(0.42, 0.20, 0.26, 5, 0.99), east - 0.12, c + 0.28, 0.92, 180, tag="books")
    return out + box((1.20, -3.02, 0), (1.80, -2.10, 0.006), "mat", skip="z", tag="mat")


def _walls() -> list[Patch]:
    (x0, x1), (y0, y1), _ = ROOM
    out = place(ob.picture(0.52, 0.70, "abstract", "oak"), -1.62, y1, 1.62, 0, tag="picture")
    out += place(ob.picture(0.95, 0.62, "picture"), x1, -0.42, 1.62, -90, tag="picture")
    out += place(ob.picture(0.50, 0.66, "abstract", "iron"), x0, 0.02, 1.58, 90, tag="picture")
    return out + place(ob.picture(0.60, 0.44, "picture", "oak"), 1.50, y0, 1.60, 180, tag="picture")
