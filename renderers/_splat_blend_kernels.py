"""Compiled kernels of splats, second half: sort each tile's list by depth, blend it. Imported on the first image only.

No kernel spawns threads: each call does its share of tiles and releases the interpreter lock. What a tile gives does
not depend on which call does it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from spatialbench.renderers import _jit, _splat_table
from spatialbench.renderers._splat_table import (
    BLUE,
    DEPTH,
    GREEN,
    HALF_HEIGHT,
    HALF_WIDTH,
    HELPER,
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

__all__ = ["OPAQUE", "blend"]

_ALPHA_MAX = f32(0.999)
OPAQUE = f32(1e-4)
"""A splat that would leave no more light than this ends the pixel and is not drawn itself."""
_MASK = u64(0xFFFFFFFF)

# exp(8 v) = P(v)^8, P of degree 5 with P(0) = 1 and the least largest relative error on [-ln(255)/8, 0] (a linear
# programme): 7e-7 after the power, less than float32's rounding of it, 2e-6.
_P1, _P2, _P3, _P4, _P5 = f32(0.99999498), f32(0.49990302), f32(0.16604358), f32(0.03987623), f32(0.00590289)

_FEW = 24
"""Entries that are sorted by insertion."""


@njit(**HELPER)
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


@njit(**HELPER)
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


@njit(**INLINE)
def _floor(x: Any) -> int:
    """As ``math.floor``, which would be a call."""
    k = int(x)
    return k - (x < f32(k))


@njit(**INLINE)
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


@njit(**INLINE)
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


@njit(**KERNEL)
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
                batch[k] = out[i, DEPTH]
            begin += n
            for k in range(n):
                i = lists[begin + k - n] & _MASK
                x, y, z = out[i, X], out[i, Y], batch[k]
                w, h = out[i, HALF_WIDTH], out[i, HALF_HEIGHT]
                red, green, blue = out[i, RED], out[i, GREEN], out[i, BLUE]
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
                                 out[i, XX], out[i, XY], out[i, YY], out[i, LOWEST], out[i, OPACITY],
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


_jit.watch((blend,), (_jit, _splat_table))
