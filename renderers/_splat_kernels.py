"""Compiled kernels of splats: project, bin into tiles, blend. Imported on the first image only.

No kernel spawns threads: each call does its share of chunks, splats or tiles and releases the interpreter lock.
What a chunk, a splat or a tile gives does not depend on which call does it. Sums may be contracted and
reordered by the compiler, alike for every call, so that images are equal to the bit for any number of threads.
They are one module because the compiler's cache does not notice a change in a function of another file.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spatialbench.renderers._splat_pack import ALPHA_MIN, CHUNK, PackedSplats

__all__ = ["COLUMNS", "TILE", "View", "blend", "project", "scatter"]

TILE = 16
"""Side of a tile, pixels."""
COLUMNS = 16
"""Columns of the table of projected splats, by the names below."""

_KERNEL = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"nsz", "arcp", "contract", "afn"}}
_HELPER = {**_KERNEL, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_INLINE = {**_HELPER, "forceinline": True}
_SUM = {**_INLINE, "fastmath": {"nsz", "arcp", "contract", "afn", "reassoc"}}

f32 = np.float32
u64 = np.uint64

_X, _Y, _XX, _XY, _YY, _LOWEST, _OPACITY, _RED, _GREEN, _BLUE, _DEPTH, _HALF_WIDTH, _HALF_HEIGHT = range(13)
# _XX, _XY, _YY: (dx, dy) of the centre -> exponent / 8 is _XX dx^2 + _XY dx dy + _YY dy^2, nowhere positive;
# _LOWEST: that value where alpha is ALPHA_MIN.

_DILATION = f32(0.3)
"""Square pixels added to both variances of every projected splat."""
_ALPHA_MAX = f32(0.999)
_COLOR_MAX = f32(1e30)
"""A splat is no brighter, so that sums stay finite."""
OPAQUE = f32(1e-4)
"""A splat that would leave no more light than this ends the pixel and is not drawn itself."""
_MASK = u64(0xFFFFFFFF)

# Real spherical harmonics in the order and with the signs of the splats' training code, from the normalisation
# ((2l+1)/4pi (l-m)!/(l+m)!)^(1/2), times 2^(1/2) for m != 0.
_S0 = f32(math.sqrt(1 / (4 * math.pi)))
_S1 = f32(math.sqrt(3 / (4 * math.pi)))
_S2 = tuple(f32(math.sqrt(k / math.pi)) for k in (15 / 4, 5 / 16, 15 / 16))
_S3 = tuple(f32(math.sqrt(k / math.pi)) for k in (35 / 32, 105 / 4, 21 / 32, 7 / 16, 105 / 16))

# exp(8 v) = P(v)^8, P of degree 5 with P(0) = 1 and the least largest relative error on [-ln(255)/8, 0] (a linear
# programme): 7e-7 after the power, less than float32's rounding of it, 2e-6.
_P1, _P2, _P3, _P4, _P5 = f32(0.99999498), f32(0.49990302), f32(0.16604358), f32(0.03987623), f32(0.00590289)


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


@njit(**_SUM)
def _dot(sh: Any, i: int, channel: int, basis: Any, terms: int) -> Any:
    total = f32(0)
    for k in range(u64(terms)):
        total += sh[i, channel, k] * basis[k]
    return total


@njit(**_INLINE)
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


@njit(**_INLINE)
def _tiles(out: Any, i: int, tiles_x: int, tiles_y: int) -> tuple[int, int, int, int]:
    """First and last tile column and row of the box around a splat."""
    per = f32(1 / TILE)
    x, y, w, h = out[i, _X], out[i, _Y], out[i, _HALF_WIDTH], out[i, _HALF_HEIGHT]
    return (int(max((x - w) * per, f32(0))), int(min((x + w) * per, f32(tiles_x - 1))),
            int(max((y - h) * per, f32(0))), int(min((y + h) * per, f32(tiles_y - 1))))


@njit(**_INLINE)
def _touches(out: Any, i: int, tile_x: int, tile_y: int) -> bool:
    """Whether alpha may reach ``ALPHA_MIN`` within the rectangle of the tile's pixel centres.

    The exponent's maximum over a rectangle without the centre is on a side that faces the centre.
    """
    left, top = f32(tile_x * TILE) + f32(0.5) - out[i, _X], f32(tile_y * TILE) + f32(0.5) - out[i, _Y]
    right, bottom = left + f32(TILE - 1), top + f32(TILE - 1)
    out_x, out_y = left > f32(0) or right < f32(0), top > f32(0) or bottom < f32(0)
    if not out_x and not out_y:
        return True
    xx, xy, yy = out[i, _XX], out[i, _XY], out[i, _YY]
    floor = out[i, _LOWEST] * f32(1.001) - f32(1e-4)
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


@njit(**_KERNEL)
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
                    out[i, _RED + k] = min(color, _COLOR_MAX) if color > f32(0) else f32(0)
            scale = f32(-0.0625) / whole
            out[i, _X], out[i, _Y], out[i, _DEPTH] = at_x, at_y, z
            out[i, _XX], out[i, _XY], out[i, _YY] = scale * yy, f32(-2) * scale * xy, scale * xx
            out[i, _LOWEST], out[i, _OPACITY] = lowest, opacity
            out[i, _HALF_WIDTH], out[i, _HALF_HEIGHT] = half_width, half_height
            x0, x1, y0, y1 = _tiles(out, i, tiles_x, tiles_y)
            single = x0 == x1 and y0 == y1
            for tile_y in range(y0, y1 + 1):
                for tile_x in range(x0, x1 + 1):
                    if single or _touches(out, i, tile_x, tile_y):
                        total[tile_y * tiles_x + tile_x] += 1
            found[listed] = i
            listed += 1
    return listed


@njit(**_KERNEL)
def scatter(out: Any, found: Any, tiles_x: int, tiles_y: int, top: int, bottom: int, at: Any, lists: Any) -> None:
    """Write the splats in ``found`` to the lists of the tiles in the rows ``top`` to ``bottom`` - 1.

    ``at`` [tiles] is where each tile's next one goes.

    An entry is the depth (high word; the bits of positive float32 sort like the numbers) and the row of ``out``.
    """
    bits = out.view(np.uint32)
    for s in range(len(found)):
        i = u64(found[s])
        key = (u64(bits[i, _DEPTH]) << u64(32)) | i
        x0, x1, y0, y1 = _tiles(out, i, tiles_x, tiles_y)
        single = x0 == x1 and y0 == y1
        for y in range(max(y0, top), min(y1, bottom - 1) + 1):
            for x in range(x0, x1 + 1):
                if single or _touches(out, i, x, y):
                    t = y * tiles_x + x
                    lists[at[t]] = key
                    at[t] += 1


_FEW = 24
"""Entries that are sorted by insertion."""


@njit(**_HELPER)
def _sort(keys: Any, begin: int, end: int, spare: Any, digits: Any) -> None:
    """Sort a stretch of ``keys`` by the high word, stably; ``spare`` has room for it, ``digits`` [4,256]."""
    n = end - begin
    if n <= _FEW:
        for k in range(begin + 1, end):
            key, j = keys[k], k
            while j > begin and keys[j - 1] >> u64(32) > key >> u64(32):
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
        return
    # Loops, as assignments to slices take seconds to compile.
    for b in range(4):
        for d in range(256):
            digits[b, d] = 0
    for k in range(begin, end):
        for b in range(4):
            digits[b, (keys[k] >> u64(32 + 8 * b)) & u64(255)] += 1
    here = True
    for b in range(4):
        shift = u64(32 + 8 * b)
        if digits[b, (keys[begin] >> shift) & u64(255)] == n:
            continue  # one digit for all
        total = 0
        for d in range(256):
            total, digits[b, d] = total + digits[b, d], total
        for k in range(n):
            key = keys[begin + k] if here else spare[k]
            d = (key >> shift) & u64(255)
            if here:
                spare[digits[b, d]] = key
            else:
                keys[begin + digits[b, d]] = key
            digits[b, d] += 1
        here = not here
    if not here:
        for k in range(n):
            keys[begin + k] = spare[k]


@njit(**_HELPER)
def _order(keys: Any, begin: int, end: int, source: Any, spare: Any, digits: Any) -> None:
    """Sort a tile's list by depth, equal depths by index in what was packed."""
    _sort(keys, begin, end, spare, digits)
    k = begin
    while k < end:
        depth, stop = keys[k] >> u64(32), k + 1
        while stop < end and keys[stop] >> u64(32) == depth:
            stop += 1
        if stop > k + 1:
            for j in range(k, stop):
                i = keys[j] & _MASK
                keys[j] = (u64(source[i]) << u64(32)) | i
            _sort(keys, k, stop, spare, digits)
            for j in range(k, stop):
                keys[j] = (depth << u64(32)) | (keys[j] & _MASK)
        k = stop


@njit(**_INLINE)
def _floor(x: Any) -> int:
    """As ``math.floor``, which would be a call."""
    k = int(x)
    return k - (x < f32(k))


@njit(**_INLINE)
def _ceil(x: Any) -> int:
    """As ``math.ceil``."""
    k = int(x)
    return k + (x > f32(k))


_STRIP = 8
"""Columns that are blended together: a tile is stored as two strips, each row by row."""
_N = TILE * TILE
_T, _R, _G, _B, _M, _PX, _PY = (u64(_N * k) for k in range(7))
"""Where a tile's planes begin: light left (negative once the pixel is done), colour, depth; then the place of
each pixel's centre. Unsigned: signed indices would be checked for wrapping, which stops vectorisation."""
_BATCH = 32


@njit(**_INLINE)
def _add(tile: Any, first: Any, last: Any, x: Any, y: Any, xx: Any, xy: Any, yy: Any, lowest: Any, opacity: Any,
         red: Any, green: Any, blue: Any, depth: Any, least: Any) -> None:
    """Blend one splat behind what pixels ``first`` to ``last`` of a tile hold; one that would leave ``least`` of the
    light or less ends the pixel."""
    for p in range(first, last):
        dx, dy = tile[_PX + p] - x, tile[_PY + p] - y
        v = (xx * dx + xy * dy) * dx + yy * dy * dy
        e = f32(1) + v * (_P1 + v * (_P2 + v * (_P3 + v * (_P4 + v * _P5))))
        e *= e
        e *= e
        e *= e
        alpha = opacity * e
        alpha = alpha if alpha < _ALPHA_MAX else _ALPHA_MAX
        alpha = alpha if v >= lowest else f32(0)
        left = tile[_T + p]
        part = left * alpha
        rest = left - part
        goes_on = rest > least
        part = part if goes_on else f32(0)
        # Added to 0, once: keeping the old value would become a masked store, which some CPUs do slowly.
        tile[_M + p] += depth if (left > f32(0.5)) & (rest <= f32(0.5)) else f32(0)
        tile[_T + p] = rest if goes_on else -abs(left)
        tile[_R + p] += part * red
        tile[_G + p] += part * green
        tile[_B + p] += part * blue


@njit(**_KERNEL)
def blend(out: Any, source: Any, lists: Any, starts: Any, tiles_x: int, above: int, first: int, step: int,
          of_depth: bool, of_row: bool, background: Any, ceiling: Any, least: Any, rgb: Any, depth: Any,
          alpha: Any) -> None:
    """Sort the list of every ``step``-th tile and draw it, front to back; ``above`` rows of tiles lie above the first.

    Sets ``rgb`` [H,W,3] over ``background``, at most ``ceiling``; ``alpha`` [H,W] before it; median ``depth``
    [H,W], 0 where alpha is below a half. ``of_depth`` takes each splat's depth for its colour; ``of_row`` sets
    ``depth`` to 1 plus the row of ``out`` that the median depth is of. With ``least`` a half instead of ``OPAQUE``
    only the depth is right, and is there sooner.
    """
    height, width = alpha.shape
    tile = np.empty(_N * 7, np.float32)
    batch = np.empty(_BATCH, np.float32)
    alive = np.empty((TILE // _STRIP, 2), np.int64)
    longest = 0
    for t in range(first, len(starts) - 1, step):
        longest = max(longest, starts[t + 1] - starts[t])
    spare, digits = np.empty(longest, np.uint64), np.empty((4, 256), np.int64)
    for t in range(first, len(starts) - 1, step):
        x0, y0 = t % tiles_x * TILE, (above + t // tiles_x) * TILE
        for p in range(_N):
            strip, row, column = p // (_STRIP * TILE), p // _STRIP % TILE, p % _STRIP
            x, y = x0 + strip * _STRIP + column, y0 + row
            tile[p] = f32(1) if x < width and y < height else f32(-1)
            for k in range(1, 5):
                tile[k * _N + p] = f32(0)
            tile[5 * _N + p], tile[6 * _N + p] = f32(x) + f32(0.5), f32(y) + f32(0.5)
        begin, end = starts[t], starts[t + 1]
        _order(lists, begin, end, source, spare, digits)
        while begin < end:
            # Pairs of rows of each strip in which light is left: the others change no more.
            going = 0
            for strip in range(TILE // _STRIP):
                alive[strip, 0], alive[strip, 1] = TILE, 0
                for pair in range(TILE // 2):
                    at = u64((strip * TILE + 2 * pair) * _STRIP)
                    count = 0
                    for p in range(u64(2 * _STRIP)):
                        count += tile[at + p] > f32(0)
                    if count > 0:
                        alive[strip, 0], alive[strip, 1] = min(alive[strip, 0], 2 * pair), 2 * pair + 2
                        going += count
            if going == 0:
                break
            n = min(_BATCH, end - begin)
            for k in range(n):  # many cache misses at once: each row is one line of the cache
                i = lists[begin + k] & _MASK
                batch[k] = out[i, _DEPTH]
            begin += n
            for k in range(n):
                i = lists[begin + k - n] & _MASK
                x, y, z = out[i, _X], out[i, _Y], batch[k]
                w, h = out[i, _HALF_WIDTH], out[i, _HALF_HEIGHT]
                red, green, blue = out[i, _RED], out[i, _GREEN], out[i, _BLUE]
                if of_depth:
                    red = green = blue = z
                if of_row:
                    z = f32(i + u64(1))
                # Rows whose pixels' centres are within the box.
                top = _ceil(max(y - h - f32(0.5), f32(y0))) - y0
                bottom = _floor(min(y + h - f32(0.5), f32(y0 + TILE - 1))) - y0 + 1
                if top >= bottom:
                    continue
                # Pairs of rows: 16 pixels, so that vectors of 16 leave no rest. More rows change nothing.
                top, bottom = top & ~1, (bottom + 1) & ~1
                for strip in range(TILE // _STRIP):
                    left = f32(x0 + strip * _STRIP)
                    if x - w < left + f32(_STRIP) and x + w > left:
                        first_row, last_row = max(top, alive[strip, 0]), min(bottom, alive[strip, 1])
                        if first_row < last_row:
                            corner = strip * TILE
                            _add(tile, u64((corner + first_row) * _STRIP), u64((corner + last_row) * _STRIP), x, y,
                                 out[i, _XX], out[i, _XY], out[i, _YY], out[i, _LOWEST], out[i, _OPACITY],
                                 red, green, blue, z, least)
        for p in range(_N):
            strip, row, column = p // (_STRIP * TILE), p // _STRIP % TILE, p % _STRIP
            x, y = x0 + strip * _STRIP + column, y0 + row
            if x < width and y < height:
                left = abs(tile[p])
                rgb[y, x, 0] = min(tile[_N + p] + left * background[0], ceiling)
                rgb[y, x, 1] = min(tile[2 * _N + p] + left * background[1], ceiling)
                rgb[y, x, 2] = min(tile[3 * _N + p] + left * background[2], ceiling)
                depth[y, x] = tile[4 * _N + p]
                alpha[y, x] = f32(1) - left
