"""Compiled kernels of splats, first half: project them, bin them into tiles. Imported on the first image only.

No kernel spawns threads: each call does its share of chunks or splats and releases the interpreter lock. What a chunk
or a splat gives does not depend on which call does it. Sums may be contracted and reordered by the compiler, alike for
every call, so that images are equal to the bit for any number of threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spatialbench.renderers import _jit, _splat_pack, _splat_table
from spatialbench.renderers._splat_pack import ALPHA_MIN, CHUNK, PackedSplats
from spatialbench.renderers._splat_table import (
    DEPTH,
    HALF_HEIGHT,
    HALF_WIDTH,
    INLINE,
    KERNEL,
    LOWEST,
    OPACITY,
    RED,
    TILE,
    XX,
    XY,
    YY,
    X,
    Y,
    f32,
    u64,
)

__all__ = ["View", "project", "scatter"]

SUM = {**INLINE, "fastmath": {"nsz", "arcp", "contract", "afn", "reassoc"}}

_DILATION = f32(0.3)
"""Square pixels added to both variances of every projected splat."""
_COLOR_MAX = f32(1e30)
"""A splat is no brighter, so that sums stay finite."""

# Real spherical harmonics in the order and with the signs of the splats' training code, from the normalisation
# ((2l+1)/4pi (l-m)!/(l+m)!)^(1/2), times 2^(1/2) for m != 0.
_S0 = f32(math.sqrt(1 / (4 * math.pi)))
_S1 = f32(math.sqrt(3 / (4 * math.pi)))
_S2 = tuple(f32(math.sqrt(k / math.pi)) for k in (15 / 4, 5 / 16, 15 / 16))
_S3 = tuple(f32(math.sqrt(k / math.pi)) for k in (35 / 32, 105 / 4, 21 / 32, 7 / 16, 105 / 16))


class View(NamedTuple):
    """One camera in the splats' frame, all float32.

    Attributes
    ----------
    rotation : [3,3] splats' frame to camera axes.
    position, rest : [3] camera centre; what float32 lost of it.
    lens : fx, fy, cx, cy, width, height.
    near : nearest depth of a centre.
    slopes : x/z (least, most) and y/z (least, most) at which the projection is linearised.
    sides : [4,4] the image's sides: normal in the splats' frame (3), steepness; see ``side_planes``.
    """

    rotation: NDArray[np.float32]
    position: NDArray[np.float32]
    rest: NDArray[np.float32]
    lens: tuple[np.float32, ...]
    near: np.float32
    slopes: tuple[np.float32, ...]
    sides: NDArray[np.float32]


@njit(**SUM)
def _dot(sh: Any, i: int, channel: int, basis: Any, terms: int) -> Any:
    total = f32(0)
    for k in range(u64(terms)):
        total += sh[i, channel, k] * basis[k]
    return total


@njit(**INLINE)
def _basis(x: Any, y: Any, z: Any, terms: int, b: Any) -> None:
    """Set ``b`` [terms] to the spherical harmonics of the unit vector."""
    b[0] = _S0
    if terms > 1:
        b[1], b[2], b[3] = -_S1 * y, _S1 * z, -_S1 * x
    if terms > 4:
        xx, yy, zz = x * x, y * y, z * z
        b[4], b[5], b[7] = _S2[0] * x * y, -_S2[0] * y * z, -_S2[0] * x * z
        b[6] = _S2[1] * (f32(2) * zz - xx - yy)
        b[8] = _S2[2] * (xx - yy)
        if terms > 9:
            b[9] = -_S3[0] * y * (f32(3) * xx - yy)
            b[10] = _S3[1] * x * y * z
            b[11] = -_S3[2] * y * (f32(4) * zz - xx - yy)
            b[12] = _S3[3] * z * (f32(2) * zz - f32(3) * (xx + yy))
            b[13] = -_S3[2] * x * (f32(4) * zz - xx - yy)
            b[14] = _S3[4] * z * (xx - yy)
            b[15] = -_S3[0] * x * (xx - f32(3) * yy)


@njit(**INLINE)
def _tiles(out: Any, i: int, tiles_x: int, tiles_y: int) -> tuple[int, int, int, int]:
    """First and last tile column and row of the box around a splat."""
    per = f32(1 / TILE)
    x, y, w, h = out[i, X], out[i, Y], out[i, HALF_WIDTH], out[i, HALF_HEIGHT]
    return (int(max((x - w) * per, f32(0))), int(min((x + w) * per, f32(tiles_x - 1))),
            int(max((y - h) * per, f32(0))), int(min((y + h) * per, f32(tiles_y - 1))))


@njit(**INLINE)
def _touches(out: Any, i: int, tile_x: int, tile_y: int) -> bool:
    """Whether alpha may reach ``ALPHA_MIN`` within the rectangle of the tile's pixel centres.

    The exponent's maximum over a rectangle without the centre is on a side that faces the centre.
    """
    left, top = f32(tile_x * TILE) + f32(0.5) - out[i, X], f32(tile_y * TILE) + f32(0.5) - out[i, Y]
    right, bottom = left + f32(TILE - 1), top + f32(TILE - 1)
    out_x, out_y = left > f32(0) or right < f32(0), top > f32(0) or bottom < f32(0)
    if not out_x and not out_y:
        return True
    xx, xy, yy = out[i, XX], out[i, XY], out[i, YY]
    floor = out[i, LOWEST] * f32(1.001) - f32(1e-4)
    if out_x:
        dx = left if left > f32(0) else right
        dy = min(max(f32(-0.5) * xy * dx / yy, top), bottom)
        if (xx * dx + xy * dy) * dx + yy * dy * dy >= floor:
            return True
    if out_y:
        dy = top if top > f32(0) else bottom
        dx = min(max(f32(-0.5) * xy * dy / xx, left), right)
        if (xx * dx + xy * dy) * dx + yy * dy * dy >= floor:
            return True
    return False


@njit(**KERNEL)
def project(splats: PackedSplats, view: View, first: int, step: int, terms: int, compensate: bool, tiles_x: int,
            tiles_y: int, out: Any, found: Any, total: Any) -> int:
    """Project the splats of every ``step``-th chunk; count and list those that touch the image.

    Sets their rows of ``out`` [n,COLUMNS], lists them at the front of ``found``, and adds to ``total`` [tiles]
    how many touch each tile. ``terms`` is the number of spherical harmonics used, 0 to leave colours as they are;
    ``compensate`` dims splats by what the dilation adds to their area.
    """
    shape, sides = splats.shape, view.sides
    fx, fy, cx, cy, width, height = view.lens
    x_least, x_most, y_least, y_most = view.slopes
    p0, p1, p2 = view.position[0], view.position[1], view.position[2]
    q0, q1, q2 = view.rest[0], view.rest[1], view.rest[2]
    r = view.rotation
    r00, r01, r02, r10, r11, r12 = r[0, 0], r[0, 1], r[0, 2], r[1, 0], r[1, 1], r[1, 2]
    r20, r21, r22 = r[2, 0], r[2, 1], r[2, 2]
    s0, s1, s2, s3 = sides[0, 3], sides[1, 3], sides[2, 3], sides[3, 3]
    basis = np.zeros(16, np.float32)
    n, listed = len(shape), 0
    for c in range(first, len(splats.boxes), step):
        m0, m1, m2 = splats.boxes[c, 0] - p0, splats.boxes[c, 1] - p1, splats.boxes[c, 2] - p2
        h0, h1, h2 = splats.boxes[c, 3], splats.boxes[c, 4], splats.boxes[c, 5]
        reach = splats.boxes[c, 6]
        if r20 * m0 + r21 * m1 + r22 * m2 + abs(r20) * h0 + abs(r21) * h1 + abs(r22) * h2 < view.near:
            continue
        seen = True
        for k in range(4):
            g0, g1, g2 = sides[k, 0], sides[k, 1], sides[k, 2]
            if g0 * m0 + g1 * m1 + g2 * m2 - abs(g0) * h0 - abs(g1) * h1 - abs(g2) * h2 > reach * sides[k, 3]:
                seen = False
        if not seen:
            continue
        for i in range(u64(c * CHUNK), u64(min(n, c * CHUNK + CHUNK))):
            # The camera's rounding is taken off after the difference, which is exact nearby.
            d0, d1, d2 = (shape[i, 0] - p0) - q0, (shape[i, 1] - p1) - q1, (shape[i, 2] - p2) - q2
            z = r20 * d0 + r21 * d1 + r22 * d2
            if not (z >= view.near and z < np.inf):
                continue
            reach = shape[i, 13]
            if sides[0, 0] * d0 + sides[0, 1] * d1 + sides[0, 2] * d2 > reach * s0 or \
               sides[1, 0] * d0 + sides[1, 1] * d1 + sides[1, 2] * d2 > reach * s1 or \
               sides[2, 0] * d0 + sides[2, 1] * d1 + sides[2, 2] * d2 > reach * s2 or \
               sides[3, 0] * d0 + sides[3, 1] * d1 + sides[3, 2] * d2 > reach * s3:
                continue
            x, y = r00 * d0 + r01 * d1 + r02 * d2, r10 * d0 + r11 * d1 + r12 * d2
            near = f32(1) / z
            slope_x, slope_y = min(max(x * near, x_least), x_most), min(max(y * near, y_least), y_most)
            jx, jy = fx * near, fy * near
            # Rows of Jacobian x rotation, then times the splat's axes: two vectors u, v of the image's axes.
            a0, a1, a2 = jx * (r00 - slope_x * r20), jx * (r01 - slope_x * r21), jx * (r02 - slope_x * r22)
            b0, b1, b2 = jy * (r10 - slope_y * r20), jy * (r11 - slope_y * r21), jy * (r12 - slope_y * r22)
            u0 = a0 * shape[i, 3] + a1 * shape[i, 4] + a2 * shape[i, 5]
            u1 = a0 * shape[i, 6] + a1 * shape[i, 7] + a2 * shape[i, 8]
            u2 = a0 * shape[i, 9] + a1 * shape[i, 10] + a2 * shape[i, 11]
            v0 = b0 * shape[i, 3] + b1 * shape[i, 4] + b2 * shape[i, 5]
            v1 = b0 * shape[i, 6] + b1 * shape[i, 7] + b2 * shape[i, 8]
            v2 = b0 * shape[i, 9] + b1 * shape[i, 10] + b2 * shape[i, 11]
            xx, xy, yy = u0 * u0 + u1 * u1 + u2 * u2, u0 * v0 + u1 * v1 + u2 * v2, v0 * v0 + v1 * v1 + v2 * v2
            # The determinant as |u x v|^2: never negative, and without cancellation for thin splats.
            w0, w1, w2 = u1 * v2 - u2 * v1, u2 * v0 - u0 * v2, u0 * v1 - u1 * v0
            area = w0 * w0 + w1 * w1 + w2 * w2
            whole = area + _DILATION * (xx + yy + _DILATION)
            xx += _DILATION
            yy += _DILATION
            opacity = shape[i, 12]
            if compensate:
                opacity *= math.sqrt(area / whole)
                if opacity < f32(ALPHA_MIN):
                    continue
            lowest = -math.log(opacity * f32(255)) * f32(0.125)
            if not whole < np.inf:
                continue
            # A little wider than where alpha reaches ALPHA_MIN, so that rounding here decides nothing.
            extent = math.sqrt(f32(-16.01) * min(lowest, f32(0)) + f32(1e-3))
            half_width, half_height = extent * math.sqrt(xx), extent * math.sqrt(yy)
            at_x, at_y = fx * x * near + cx, fy * y * near + cy
            if not (at_x + half_width > f32(0) and at_x - half_width < width and
                    at_y + half_height > f32(0) and at_y - half_height < height):
                continue
            if terms > 0:
                length = f32(1) / math.sqrt(d0 * d0 + d1 * d1 + d2 * d2)
                _basis(d0 * length, d1 * length, d2 * length, terms, basis)
                for k in range(3):
                    # Written so that what is not a number, from coefficients near the largest, becomes 0.
                    color = f32(0.5) + _dot(splats.sh, i, k, basis, terms)
                    out[i, RED + k] = min(color, _COLOR_MAX) if color > f32(0) else f32(0)
            scale = f32(-0.0625) / whole
            out[i, X], out[i, Y], out[i, DEPTH] = at_x, at_y, z
            out[i, XX], out[i, XY], out[i, YY] = scale * yy, f32(-2) * scale * xy, scale * xx
            out[i, LOWEST], out[i, OPACITY] = lowest, opacity
            out[i, HALF_WIDTH], out[i, HALF_HEIGHT] = half_width, half_height
            x0, x1, y0, y1 = _tiles(out, i, tiles_x, tiles_y)
            single = x0 == x1 and y0 == y1
            for tile_y in range(y0, y1 + 1):
                for tile_x in range(x0, x1 + 1):
                    if single or _touches(out, i, tile_x, tile_y):
                        total[tile_y * tiles_x + tile_x] += 1
            found[listed] = i
            listed += 1
    return listed


@njit(**KERNEL)
def scatter(out: Any, found: Any, tiles_x: int, tiles_y: int, top: int, bottom: int, at: Any, lists: Any) -> None:
    """Write the splats in ``found`` to the lists of the tiles in the rows ``top`` to ``bottom`` - 1.

    ``at`` [tiles] is where each tile's next one goes.

    An entry is the depth (high word; the bits of positive float32 sort like the numbers) and the row of ``out``.
    """
    bits = out.view(np.uint32)
    for s in range(len(found)):
        i = u64(found[s])
        key = (u64(bits[i, DEPTH]) << u64(32)) | i
        x0, x1, y0, y1 = _tiles(out, i, tiles_x, tiles_y)
        single = x0 == x1 and y0 == y1
        for y in range(max(y0, top), min(y1, bottom - 1) + 1):
            for x in range(x0, x1 + 1):
                if single or _touches(out, i, x, y):
                    t = y * tiles_x + x
                    lists[at[t]] = key
                    at[t] += 1


_jit.watch((project, scatter), (_jit, _splat_pack, _splat_table))
