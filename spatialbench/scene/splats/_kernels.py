"""Compiled loops over splats; loaded on first use, as importing numba takes a while.

Rows ``start`` to ``stop`` are worked on and written to, so that blocks may run side by side. Nothing is checked here.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spatialbench.scene.splats.raw import SH_C0

__all__ = ["cells", "compressed", "distances", "dotsplat", "ends", "every", "harmonics", "judge", "largest", "marked",
           "outside", "sphere_sums"]

_CHUNK = 256
_SHARE_11, _SHARE_10, _SHARE_8 = (np.arange(1 << bits) / ((1 << bits) - 1) for bits in (11, 10, 8))
_HALF = 2**0.5
_TURN_NOT_FINITE, _NO_TURN, _NO_OPACITY = 5, 6, 7  # of judge._FAULTS

I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]


@njit(cache=True, nogil=True)
def compressed(words: U32, low: F64, high: F64, start: int, means: F32, log_scales: F64, quaternions: F32,
               opacities: F32, colors: F32) -> None:
    """Unpack rows of a compressed PLY from ``start`` on, a multiple of the chunk's length.

    ``words`` [n,4]: position, rotation, scale, colour; ``low`` and ``high`` [chunks,9] bounds of the whole file. Into
    ``log_scales`` [n,3] and into rows from ``start`` of the others: means [N,3], wxyz [N,4], opacities [N] and the
    first three of ``colors`` [N,3K].
    """
    for i in range(len(words)):
        row = start + i
        chunk = row // _CHUNK
        for kind in range(2):
            word = words[i, 2 * kind]
            for k in range(3):
                if k == 0:
                    share = _SHARE_11[word >> np.uint32(21)]
                elif k == 1:
                    share = _SHARE_10[(word >> np.uint32(11)) & np.uint32(1023)]
                else:
                    share = _SHARE_11[word & np.uint32(2047)]
                value = (1.0 - share) * low[chunk, 3 * kind + k] + share * high[chunk, 3 * kind + k]
                if kind == 0:
                    means[row, k] = value
                else:
                    log_scales[i, k] = value
        word = words[i, 3]
        for k in range(3):
            share = _SHARE_8[(word >> np.uint32(24 - 8 * k)) & np.uint32(255)]
            value = (1.0 - share) * low[chunk, 6 + k] + share * high[chunk, 6 + k]
            colors[row, k] = (value - 0.5) / SH_C0
        opacities[row] = _SHARE_8[word & np.uint32(255)]
        word = words[i, 1]
        x = (_SHARE_10[(word >> np.uint32(20)) & np.uint32(1023)] - 0.5) * _HALF
        y = (_SHARE_10[(word >> np.uint32(10)) & np.uint32(1023)] - 0.5) * _HALF
        z = (_SHARE_10[word & np.uint32(1023)] - 0.5) * _HALF
        rest = math.sqrt(max(0.0, 1.0 - ((x * x + z * z) + y * y)))
        left_out = word >> np.uint32(30)
        quaternions[row, 0] = rest if left_out == 0 else x
        quaternions[row, 1] = rest if left_out == 1 else x if left_out == 0 else y
        quaternions[row, 2] = rest if left_out == 2 else z if left_out == 3 else y
        quaternions[row, 3] = rest if left_out == 3 else z


@njit(cache=True, nogil=True)
def harmonics(rows: U8, columns: NDArray[np.int64], table: F32, start: int, stop: int, sh: F32) -> None:
    """Fill in ``sh`` [N,3K] behind its first three from bytes [N,P] by a table [256]; ``columns`` [3K - 3] are the
    places of each in a row."""
    for n in range(start, stop):
        for k in range(len(columns)):
            sh[n, 3 + k] = table[rows[n, columns[k]]]


@njit(cache=True, nogil=True)
def dotsplat(records: F32, codes: U8, shade: F32, share: F32, turn: F32, start: int, stop: int, means: F32,
             scales: F32, quaternions: F32, opacities: F32, sh: F32) -> None:
    """Unpack records of .splat [N,8], the same ones as bytes [N,32], by tables [256]."""
    for n in range(start, stop):
        for k in range(3):
            means[n, k] = records[n, k]
            scales[n, k] = records[n, 3 + k]
            sh[n, 0, k] = shade[codes[n, 24 + k]]
        opacities[n] = share[codes[n, 27]]
        for k in range(4):
            quaternions[n, k] = turn[codes[n, 28 + k]]


@njit(cache=True, nogil=True)
def _fault(mean: F32, scale: F32, turn: int, opacity: np.float32) -> int:
    finite, number, bounded, positive = True, True, True, True
    for k in range(3):
        finite = finite and math.isfinite(mean[k])
        number = number and not math.isnan(scale[k])
        bounded = bounded and not math.isinf(scale[k])
        positive = positive and scale[k] >= 0
    sound = (finite, number, bounded, positive)
    for code in range(len(sound)):
        if not sound[code]:
            return code + 1
    return turn if turn else _NO_OPACITY if math.isnan(opacity) else 0


@njit(cache=True, nogil=True, error_model="numpy")
def judge(means: F32, scales: F32, quaternions: F32, opacities: F32, start: int, stop: int, fault: U8, flat: Mask
          ) -> None:
    """Give quaternions [N,4] the length 1, and tell the first fault of each splat (numbered as in ``judge._FAULTS``; 0:
    none) and whether its smallest scale is 0.

    Lengths are taken in float64, where no square of a float32 overflows or vanishes, and no sum of a few either.
    """
    for n in range(start, stop):
        w, x, y, z = (np.float64(quaternions[n, 0]), np.float64(quaternions[n, 1]), np.float64(quaternions[n, 2]),
                      np.float64(quaternions[n, 3]))
        length = math.sqrt((w * w + y * y) + (x * x + z * z))
        fault[n] = _NO_TURN if length == 0 else 0 if math.isfinite(length) else _TURN_NOT_FINITE
        quaternions[n, 0], quaternions[n, 1] = w / length, x / length
        quaternions[n, 2], quaternions[n, 3] = y / length, z / length
    for n in range(start, stop):
        a, b, c = scales[n, 0], scales[n, 1], scales[n, 2]
        smallest = min(min(a, b), c)
        flat[n] = smallest == 0
        whole = (np.float64(means[n, 0]) + np.float64(means[n, 1]) + np.float64(means[n, 2]) + np.float64(a)
                 + np.float64(b) + np.float64(c) + np.float64(opacities[n]))
        if fault[n] or not (math.isfinite(whole) and smallest >= 0):
            fault[n] = _fault(means[n], scales[n], fault[n], opacities[n])


@njit(cache=True, nogil=True)
def outside(means: F32, scales: F32, chosen: Mask, low: F64, high: F64, size: np.float32, start: int, stop: int,
            far: Mask, huge: Mask, ends: F32) -> None:
    """Whether a splat lies beyond a box, and whether its largest scale is more than ``size``; widen the boxes
    ``ends`` [2,2,3] to hold the ``chosen`` ones, and those that are neither."""
    a, b, c, p, q, r = np.inf, np.inf, np.inf, -np.inf, -np.inf, -np.inf
    for n in range(start, stop):
        x, y, z = means[n, 0], means[n, 1], means[n, 2]
        away = x < low[0] or x > high[0] or y < low[1] or y > high[1] or z < low[2] or z > high[2]
        far[n] = away
        wide = max(max(scales[n, 0], scales[n, 1]), scales[n, 2]) > size
        huge[n] = wide
        if chosen[n]:
            if away or wide:
                for k in range(3):
                    ends[0, 0, k] = min(ends[0, 0, k], means[n, k])
                    ends[0, 1, k] = max(ends[0, 1, k], means[n, k])
            else:
                a, b, c = min(a, x), min(b, y), min(c, z)
                p, q, r = max(p, x), max(q, y), max(r, z)
    for kind in range(2):
        for k, (least, most) in enumerate(((a, p), (b, q), (c, r))):
            ends[kind, 0, k] = min(ends[kind, 0, k], least)
            ends[kind, 1, k] = max(ends[kind, 1, k], most)


@njit(cache=True, nogil=True)
def largest(scales: F32, start: int, stop: int, out: F32) -> None:
    """The largest scale of each splat."""
    for n in range(start, stop):
        out[n] = max(max(scales[n, 0], scales[n, 1]), scales[n, 2])


@njit(cache=True, nogil=True)
def ends(means: F32, chosen: Mask, out: F32) -> None:
    """Widen the box [2,3] to hold the ``chosen`` of the means."""
    a, b, c = out[0]  # in registers
    p, q, r = out[1]
    for n in range(len(means)):
        if chosen[n]:
            x, y, z = means[n, 0], means[n, 1], means[n, 2]
            a, b, c = min(a, x), min(b, y), min(c, z)
            p, q, r = max(p, x), max(q, y), max(r, z)
    out[0, 0], out[0, 1], out[0, 2] = a, b, c
    out[1, 0], out[1, 1], out[1, 2] = p, q, r


@njit(cache=True, nogil=True)
def distances(points: F64, middle: F64, out: F64) -> None:
    """Distance [N] of each point from a place [3]."""
    for n in range(len(points)):
        x, y, z = points[n, 0] - middle[0], points[n, 1] - middle[1], points[n, 2] - middle[2]
        out[n] = math.sqrt(x * x + y * y + z * z)


@njit(cache=True, nogil=True)
def sphere_sums(points: F64, middle: F64, distance: F64, least: float, size: float, square: F64, right: F64) -> int:
    """Sums of the normal equations [4,4], [4] of the sphere through the points farther than ``least`` from a place:
    2 c.p + d = |p|^2 with p = (point - middle) / size; how many points these are."""
    count = 0
    row = np.ones(4)
    for n in range(len(points)):
        if distance[n] > least:
            count += 1
            length = 0.0
            for k in range(3):
                p = (points[n, k] - middle[k]) / size
                row[k] = 2 * p
                length += p * p
            for i in range(4):
                for j in range(i, 4):
                    square[i, j] += row[i] * row[j]
                right[i] += row[i] * length
    for i in range(4):
        for j in range(i):
            square[i, j] = square[j, i]
    return count


@njit(cache=True, nogil=True)
def every(chosen: Mask, step: int, out: NDArray[np.int64]) -> None:
    """Places of every ``step``-th of the chosen, from the first on."""
    left, k = 1, 0
    for n in range(len(chosen)):
        if chosen[n]:
            left -= 1
            if left == 0:
                out[k] = n
                left, k = step, k + 1


@njit(cache=True, nogil=True)
def cells(means: F32, chosen: Mask, low: F64, high: F64, scale: np.float32, shape: NDArray[np.int64], start: int,
          stop: int, cell: I32, count: I32) -> None:
    """Flat number [N] of the cell of each mean in a box, -1 where it lies outside; count the ``chosen`` ones in each
    cell, of which none lies outside."""
    a, b, c = low[0], low[1], low[2]
    p, q, r = high[0], high[1], high[2]
    i, j, k = np.float32(a), np.float32(b), np.float32(c)
    u, v, w = np.float32(shape[0] - 1), np.float32(shape[1] - 1), np.float32(shape[2] - 1)
    ny, nz = shape[1], shape[2]
    for n in range(start, stop):
        x, y, z = means[n, 0], means[n, 1], means[n, 2]
        number = -1
        if a <= x <= p and b <= y <= q and c <= z <= r:
            number = (np.int32(min((x - i) * scale, u)) * ny + np.int32(min((y - j) * scale, v))) * nz + np.int32(
                min((z - k) * scale, w))
            if chosen[n]:
                count[number] += 1
        cell[n] = number


@njit(cache=True, nogil=True)
def marked(means: F32, chosen: Mask, cell: I32, there: Mask, start: int, stop: int, out: Mask, ends: F32) -> None:
    """Whether the cell of each is marked; one that lies outside (-1) is not. Widen ``ends`` [2,3] to hold the
    ``chosen`` ones in cells that are not."""
    a, b, c = ends[0]
    p, q, r = ends[1]
    for n in range(start, stop):
        out[n] = cell[n] >= 0 and there[cell[n]]
        if chosen[n] and not out[n]:
            x, y, z = means[n, 0], means[n, 1], means[n, 2]
            a, b, c = min(a, x), min(b, y), min(c, z)
            p, q, r = max(p, x), max(q, y), max(r, z)
    ends[0, 0], ends[0, 1], ends[0, 2] = a, b, c
    ends[1, 0], ends[1, 1], ends[1, 2] = p, q, r
