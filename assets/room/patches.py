"""Rectangular patches of surface, from which every object of the room is put together.

A patch is a grid of points with a material. It becomes triangles, and one rectangle of the texture atlas
whose left edge is u = 0 and whose bottom edge is v = 0. Patches are wound so that du x dv points to the
side from which they are seen. Frame: X right, Y forward, Z up, metres.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["SIDES", "Patch", "box", "lines", "place", "rect", "revolve", "rounded_box"]

SIDES = "xXyYzZ"
"""Sides of a box: lower and upper end of each axis."""


@dataclass(frozen=True, eq=False)
class Patch:
    """A grid of points on a surface.

    Attributes
    ----------
    grid : [NU+1,NV+1,3] float64 points.
    u, v : [NU+1], [NV+1] places of the grid lines in the patch's rectangle, 0 to 1.
    size : metres across u and v, for patterns and for the size of the rectangle.
    material : name in ``materials.MATERIALS``.
    tag : object that it belongs to.
    density : texels per metre, relative.
    seed : makes one plank or book differ from the next.
    origin : metres added to the pattern's coordinates, so that patterns go on across patches.
    keep : [NU,NV,2] bool, triangles that exist (lower right, upper left half of each cell); None: all.
    wrap : the last column of points is the first one again.
    emit : RGB radiance of its own, linear.
    """

    grid: NDArray[np.float64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]
    size: tuple[float, float]
    material: str
    tag: str = ""
    density: float = 1.0
    seed: int = 0
    origin: tuple[float, float] = (0.0, 0.0)
    keep: NDArray[np.bool_] | None = None
    wrap: bool = False
    emit: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def cells(self) -> tuple[int, int]:
        """NU, NV."""
        return self.grid.shape[0] - 1, self.grid.shape[1] - 1

    def triangles(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """[F,3] indices into the grid's points in row-major order, and [F] the cell of each.

        Triangles that ``keep`` leaves out or that have no area are not there.
        """
        nu, nv = self.cells
        i, j = (a.ravel() for a in np.meshgrid(np.arange(nu), np.arange(nv), indexing="ij"))
        a = i * (nv + 1) + j
        b, c, d = a + nv + 1, a + nv + 2, a + 1
        faces = np.stack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)], axis=1)
        p = self.grid.reshape(-1, 3)[faces]
        area = np.linalg.norm(np.cross(p[..., 1, :] - p[..., 0, :], p[..., 2, :] - p[..., 0, :]), axis=-1)
        keep = area > 1e-9
        if self.keep is not None:
            keep &= self.keep.reshape(-1, 2)
        cell = np.repeat(np.arange(nu * nv), 2).reshape(-1, 2)
        return faces[keep], cell[keep]

    def at(self, u: NDArray[np.float64], v: NDArray[np.float64]) -> tuple[NDArray[np.float64],
                                                                          NDArray[np.float64]]:
        """Points and unit normals [len(u),len(v),3] at the places u by v, interpolated in the grid."""
        normal = self._normals()
        i, fu = _locate(self.u, u)
        j, fv = _locate(self.v, v)
        wu, wv = fu[:, None, None], fv[None, :, None]

        def mix(a: NDArray[np.float64]) -> NDArray[np.float64]:
            lower = a[i][:, j] * (1 - wu) + a[i + 1][:, j] * wu
            upper = a[i][:, j + 1] * (1 - wu) + a[i + 1][:, j + 1] * wu
            return lower * (1 - wv) + upper * wv

        return mix(self.grid), _unit(mix(normal))

    def _normals(self) -> NDArray[np.float64]:
        """[NU+1,NV+1,3] smooth normals at the grid's points."""
        g, nu = self.grid, self.cells[0]
        if self.wrap and nu > 1:
            g = np.concatenate([g[-2:-1], g, g[1:2]], axis=0)
        step_v = _slope(g, 1)
        n = np.cross(_slope(g, 0), step_v)
        if self.wrap and nu > 1:
            n = n[1:-1]
        flat = np.linalg.norm(n, axis=-1) < 1e-12  # poles: take the ring beside them
        for j in (0, n.shape[1] - 1):
            beside = 1 if j == 0 else n.shape[1] - 2
            n[flat[:, j], j] = n[flat[:, j], beside].mean(axis=0) if flat[:, j].any() else 0
        return _unit(n)


def _slope(g: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Central differences of the points along an axis, one-sided at the ends."""
    d = np.diff(g, axis=axis)
    first, last = np.take(d, [0], axis=axis), np.take(d, [-1], axis=axis)
    return np.concatenate([first, d], axis=axis) + np.concatenate([d, last], axis=axis)


def _unit(a: NDArray[np.float64]) -> NDArray[np.float64]:
    return a / np.maximum(np.linalg.norm(a, axis=-1, keepdims=True), 1e-12)


def _locate(grid: NDArray[np.float64], x: NDArray[np.float64]) -> tuple[NDArray[np.int64],
                                                                        NDArray[np.float64]]:
    i = np.clip(np.searchsorted(grid, x, side="right") - 1, 0, len(grid) - 2)
    return i, np.clip((x - grid[i]) / (grid[i + 1] - grid[i]), 0.0, 1.0)


def lines(length: float, step: float, at: tuple[float, ...] = ()) -> NDArray[np.float64]:
    """Places 0 to ``length``, at most ``step`` apart, that go through each of ``at``."""
    stops = sorted({0.0, length, *at})
    parts = [np.linspace(a, b, max(1, math.ceil((b - a) / step - 1e-9)) + 1)[:-1]
             for a, b in itertools.pairwise(stops)]
    return np.append(np.concatenate(parts), length)


def rect(corner: ArrayLike, du: ArrayLike, dv: ArrayLike, material: str, *, step: float = 0.3,
         at_u: tuple[float, ...] = (), at_v: tuple[float, ...] = (), **more: Any) -> Patch:
    """Flat rectangle from ``corner`` along ``du`` and ``dv``; ``at_u``, ``at_v`` are forced lines, metres."""
    c, a, b = (np.asarray(x, dtype=np.float64) for x in (corner, du, dv))
    w, h = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    u, v = lines(w, step, at_u) / w, lines(h, step, at_v) / h
    grid = c + u[:, None, None] * a + v[None, :, None] * b
    return Patch(grid, u, v, (w, h), material, **more)


def box(lo: ArrayLike, hi: ArrayLike, material: str, *, skip: str = "", step: float = 0.35,
        **more: Any) -> list[Patch]:
    """Outward sides of a box, but for those in ``skip``; ``v`` is up on its walls."""
    (x0, y0, z0), (x1, y1, z1) = np.asarray(lo, float), np.asarray(hi, float)
    dx, dy, dz = (x1 - x0, 0, 0), (0, y1 - y0, 0), (0, 0, z1 - z0)
    minus = {k: tuple(-np.asarray(k)) for k in (dx, dy)}
    sides = {"x": ((x0, y1, z0), minus[dy], dz), "X": ((x1, y0, z0), dy, dz),
             "y": ((x0, y0, z0), dx, dz), "Y": ((x1, y1, z0), minus[dx], dz),
             "z": ((x0, y1, z0), dx, minus[dy]), "Z": ((x0, y0, z1), dx, dy)}
    return [rect(*sides[k], material, step=step, **more) for k in SIDES if k not in skip]


def rounded_box(size: ArrayLike, radius: float, material: str, *, crown: float = 0.0, arc: int = 2,
                middle: int = 2, **more: Any) -> list[Patch]:
    """Closed cushion of ``size`` centred on the origin: edges of ``radius``, faces raised by ``crown``."""
    half = np.asarray(size, dtype=np.float64) / 2
    r = min(radius, float(half.min()) * 0.98)
    out = []
    for axis in range(3):
        a, b = (axis + 1) % 3, (axis + 2) % 3
        for sign in (-1.0, 1.0):
            first, second = (a, b) if sign > 0 else (b, a)
            lu, lv = (_cushion_lines(half[k], r, arc, middle) for k in (first, second))
            p = np.zeros((len(lu), len(lv), 3))
            p[..., first], p[..., second] = lu[:, None], lv[None, :]
            p[..., axis] = sign * half[axis]
            inner = np.clip(p, r - half, half - r)
            p = inner + r * _unit(p - inner)
            q = p / half
            for k in range(3):
                others = [m for m in range(3) if m != k]
                bulge = crown * (1 - q[..., others[0]] ** 2) * (1 - q[..., others[1]] ** 2)
                p[..., k] += bulge * q[..., k]
            w, h = 2 * half[first], 2 * half[second]
            out.append(Patch(p, (lu + half[first]) / w, (lv + half[second]) / h, (float(w), float(h)),
                             material, **more))
    return out


def _cushion_lines(half: float, r: float, arc: int, middle: int) -> NDArray[np.float64]:
    """Grid lines from -half to half that turn a rounded edge in equal angles."""
    t = half - r + r * np.tan(np.linspace(0, math.pi / 4, arc + 1))
    inside = np.linspace(r - half, half - r, middle + 1)[1:-1]
    return np.concatenate([-t[::-1], inside, t])


def revolve(profile: ArrayLike, material: str, *, turns: int = 20, **more: Any) -> Patch:
    """Surface around the Z axis from a profile [K,2] of radius and height, seen from its right side.

    A profile that goes up is seen from outside, one that goes down from inside.
    """
    p = np.asarray(profile, dtype=np.float64)
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(p, axis=0), axis=1))])
    angle = 2 * math.pi * np.arange(turns + 1) / turns
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    ring[-1] = ring[0]
    grid = np.concatenate([p[None, :, :1] * ring[:, None, :],
                           np.broadcast_to(p[None, :, 1:], (turns + 1, len(p), 1))], axis=2)
    around = 2 * math.pi * float(p[:, 0].max())
    return Patch(grid, np.linspace(0, 1, turns + 1), length / length[-1], (around, float(length[-1])),
                 material, wrap=True, **more)


def place(patches: list[Patch], x: float = 0.0, y: float = 0.0, z: float = 0.0, yaw_deg: float = 0.0,
          tag: str = "") -> list[Patch]:
    """The patches turned about Z (counter-clockwise seen from above) and moved."""
    c, s = math.cos(math.radians(yaw_deg)), math.sin(math.radians(yaw_deg))
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    return [replace(p, grid=p.grid @ turn.T + [x, y, z], tag=tag or p.tag) for p in patches]
