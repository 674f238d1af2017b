"""All patches as one surface that is looked up by patch and place, and the means of what is painted on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.assets.room.patches import Patch

__all__ = ["AtlasMeans", "Surface"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Rectangle = tuple[int, int, int, int]


class Surface:
    """Points of many patches by patch [N] and place u, v [N] in it; on the same triangles as the mesh.

    Attributes
    ----------
    wraps : [P] bool, patches whose left and right border are one line.
    holed : [P] bool, patches that lack triangles.
    """

    def __init__(self, patches: list[Patch]) -> None:
        self._points = np.concatenate([p.grid.reshape(-1, 3) for p in patches])
        self._nu, self._nv = (np.array([p.cells[k] for p in patches]) for k in (0, 1))
        self._u, self._first_u = _lines([p.u for p in patches])
        self._v, self._first_v = _lines([p.v for p in patches])
        self._first = np.cumsum((self._nu + 1) * (self._nv + 1)) - (self._nu + 1) * (self._nv + 1)
        keeps = [np.ones((*p.cells, 2), bool) if p.keep is None else p.keep for p in patches]
        self._keep = np.concatenate([k.reshape(-1, 2) for k in keeps])
        real = np.concatenate([_with_area(p) for p in patches])
        self._lame: NDArray[np.bool_] = ~np.all(real, axis=1)  # at poles and where points were moved onto an outline
        self._keep &= real
        self._keep[self._lame] = np.any(self._keep[self._lame], axis=1)[:, None]
        self._first_cell = np.cumsum(self._nu * self._nv) - self._nu * self._nv
        self.holed = np.array([p.keep is not None for p in patches])
        self.wraps = np.array([p.wrap for p in patches])

    def at(self, patch: Index, u: Array, v: Array) -> tuple[Array, NDArray[np.bool_]]:
        """[N,3] points and [N] whether there is a triangle."""
        i, fu = self._locate(self._u, self._first_u[patch], self._nu[patch], patch, u)
        j, fv = self._locate(self._v, self._first_v[patch], self._nv[patch], patch, v)
        a = self._first[patch] + i * (self._nv[patch] + 1) + j
        b, d = a + self._nv[patch] + 1, a + 1
        lower = fu >= fv  # the half with the corner b; the other one has d
        cell = self._first_cell[patch] + i * self._nv[patch] + j
        start, right, up, end = (self._points[k] for k in (a, b, d, b + 1))
        first, second = (np.where(lower, x, y)[:, None] for x, y in ((fu, fv), (fv, fu)))
        corner = np.where(lower[:, None], right, up)
        point = start + first * (corner - start) + second * (end - corner)
        # A cell with one half of no area is a triangle, which bilinear interpolation covers.
        s, t = fu[:, None], fv[:, None]
        mixed = (1 - t) * (start + s * (right - start)) + t * (up + s * (end - up))
        return np.where(self._lame[cell, None], mixed, point), self._keep[cell, np.where(lower, 0, 1)]

    def lengths(self, patch: Index, u: tuple[Array, Array], v: tuple[Array, Array], steps: int = 8) -> Array:
        """[N] lengths of the lines from (u[0], v[0]) to (u[1], v[1]), as polylines of ``steps`` pieces."""
        total = np.zeros(len(patch))
        before = self.at(patch, u[0], v[0])[0]
        for k in range(1, steps + 1):
            f = k / steps
            after = self.at(patch, u[0] + f * (u[1] - u[0]), v[0] + f * (v[1] - v[0]))[0]
            total += np.linalg.norm(after - before, axis=1)
            before = after
        return total

    @staticmethod
    def _locate(lines: Array, first: Index, count: Index, patch: Index, x: Array) -> tuple[Index, Array]:
        at = np.clip(np.searchsorted(lines, x + 2.0 * patch, side="right") - 1, first, first + count - 1)
        low = lines[at] - 2.0 * patch
        return at - first, np.clip((x - low) / (lines[at + 1] - 2.0 * patch - low), 0.0, 1.0)


def _with_area(p: Patch) -> NDArray[np.bool_]:
    """[cells,2] whether each half is a triangle with area."""
    g = p.grid
    a, b, c, d = g[:-1, :-1], g[1:, :-1], g[1:, 1:], g[:-1, 1:]
    halves = np.stack([np.cross(b - a, c - a), np.cross(c - a, d - a)], axis=2)
    return np.asarray(np.linalg.norm(halves, axis=-1).reshape(-1, 2) > 1e-9)


def _lines(of_patches: list[Array]) -> tuple[Array, Index]:
    """Lines of all patches in one ascending list, two apart for each patch, and where those of each start."""
    sizes = np.array([len(x) for x in of_patches])
    return np.concatenate([x + 2.0 * k for k, x in enumerate(of_patches)]), np.cumsum(sizes) - sizes


class AtlasMeans:
    """Means of an atlas [H,W,3] uint8 over parts of its rectangles, exact for fractions of texels; 0 to 1."""

    def __init__(self, atlas: NDArray[np.uint8], rectangles: list[Rectangle]) -> None:
        colour = atlas.astype(np.float64) / 255
        square = np.einsum("ijk,ijk->ij", colour, colour)[..., None]
        self._sums = np.pad(np.concatenate([colour, square], axis=2), ((1, 0), (1, 0), (0, 0)))
        self._sums = self._sums.cumsum(axis=0).cumsum(axis=1)
        self._rectangles = np.array(rectangles, dtype=np.float64)

    def __call__(self, patch: Index, u0: Array, u1: Array, v0: Array, v1: Array) -> Array:
        """[N,3] means over u0 to u1 and v0 to v1, at least a texel wide and high."""
        return np.clip(self._means(patch, u0, u1, v0, v1)[:, :3], 0.0, 1.0)

    def variance(self, patch: Index, u0: Array, u1: Array, v0: Array, v1: Array) -> Array:
        """[N] variance of the colour there, summed over RGB."""
        m = self._means(patch, u0, u1, v0, v1)
        return np.maximum(m[:, 3] - np.einsum("ij,ij->i", m[:, :3], m[:, :3]), 0.0)

    def _means(self, patch: Index, u0: Array, u1: Array, v0: Array, v1: Array) -> Array:
        x, y, w, h = self._rectangles[patch].T
        left, right = _widen(x + u0 * w, x + u1 * w)
        top, bottom = _widen(y + (1 - v1) * h, y + (1 - v0) * h)
        total = self._sum(right, bottom) - self._sum(left, bottom) - self._sum(right, top) + self._sum(left, top)
        return np.asarray(total / ((right - left) * (bottom - top))[:, None])

    def _sum(self, x: Array, y: Array) -> Array:
        i = np.clip(np.floor(x).astype(np.int64), 0, self._sums.shape[1] - 2)
        j = np.clip(np.floor(y).astype(np.int64), 0, self._sums.shape[0] - 2)
        fx, fy = (x - i)[:, None], (y - j)[:, None]
        s = self._sums
        return np.asarray((s[j, i] * (1 - fx) + s[j, i + 1] * fx) * (1 - fy)
                          + (s[j + 1, i] * (1 - fx) + s[j + 1, i + 1] * fx) * fy)


def _widen(low: Array, high: Array) -> tuple[Array, Array]:
    """To a texel at the least; rectangles have a border that repeats their own."""
    extra = np.maximum(1.0 - (high - low), 0.0) / 2
    return low - extra, high + extra
