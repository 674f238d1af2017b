"""UASTC blocks to pixels, compiled. The tables come as arguments; every index into them is masked or checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["decode_blocks"]

_TEXELS = 16
_KERNEL = {"cache": True, "nogil": True, "error_model": "numpy"}
_HELPER = {**_KERNEL, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_SOLID, _LUMINANCE = 8, 2
_TRITS = 3


@njit(**_HELPER)
def _bits(raw: NDArray[np.uint8], block: int, at: int, n: int) -> Any:
    """``n`` bits, at most eight, from bit ``at`` of a block."""
    byte = block + (at >> 3)
    value = np.int64(raw[byte])
    if (at & 7) + n > 8 and byte + 1 < len(raw):
        value |= np.int64(raw[byte + 1]) << 8
    return (value >> (at & 7)) & ((1 << n) - 1)


@njit(**_HELPER)
def _read_points(raw: NDArray[np.uint8], block: int, at: int, n: int, bits: int, kind: int, table: NDArray[np.int64],
                 out: NDArray[np.int64]) -> int:
    """``n`` end points in 0 to 255: packed trits or quints of all first, then the bits of each. Where it ends."""
    for i in range(n):
        out[i] = 0
    if kind:
        group = 5 if kind == _TRITS else 3
        first = 0
        while first < n:
            count = min(group, n - first)
            most = 1
            for _ in range(count):
                most *= kind
            width = 0
            while (1 << width) < most:
                width += 1
            packed = _bits(raw, block, at, width)
            at += width
            for i in range(count):
                out[first + i] = (packed % kind) << bits
                packed //= kind
            first += count
    for i in range(n):
        out[i] = table[(out[i] | _bits(raw, block, at, bits)) & 255]
        at += bits
    return at


@njit(**_KERNEL)
def decode_blocks(raw: NDArray[np.uint8], modes: NDArray[np.int64], first: NDArray[np.int64],
                  points: NDArray[np.int64], weights: NDArray[np.int64], patterns: NDArray[np.int64],
                  out: NDArray[np.uint8]) -> int:
    """Fill ``out`` [H,W,4] from ``raw`` [16 * blocks]; the first block that is not valid, or -1.

    See :func:`spatialbench.scene.ktx2.uastc._tables` for the tables.
    """
    height, width = out.shape[0], out.shape[1]
    columns, rows = (width + 3) // 4, (height + 3) // 4
    ends = np.zeros(18, np.int64)
    low, high = np.zeros((3, 4), np.int64), np.zeros((3, 4), np.int64)
    subset = np.zeros(_TEXELS, np.int64)
    weight = np.zeros((_TEXELS, 2), np.int64)
    for index in range(columns * rows):
        block = 16 * index
        mode = first[np.int64(raw[block]) & 127]
        if mode < 0:
            return index
        y0, x0 = 4 * (index // columns), 4 * (index % columns)
        y1, x1 = min(y0 + 4, height), min(x0 + 4, width)
        at = modes[mode, 0]
        if mode == _SOLID:
            for c in range(4):
                value = _bits(raw, block, at + 8 * c, 8)
                for y in range(y0, y1):
                    for x in range(x0, x1):
                        out[y, x, c] = value
            continue
        table, pattern_bits, planes = modes[mode, 1], modes[mode, 2], modes[mode, 3]
        parts, subsets, weight_bits = modes[mode, 4], modes[mode, 5], modes[mode, 6]
        for i in range(_TEXELS):
            subset[i] = 0
        if pattern_bits:
            pattern = _bits(raw, block, at, pattern_bits)
            at += pattern_bits
            if patterns[table, pattern, 0] < 0:
                return index
            for i in range(_TEXELS):
                subset[i] = patterns[table, pattern, i]
        second = -1  # the channel that the second plane of weights is for
        if planes == 2:
            second = 3
            if parts > _LUMINANCE:
                second = _bits(raw, block, at, 2)
                at += 2
        at = _read_points(raw, block, at, 2 * parts * subsets, modes[mode, 7], modes[mode, 8], points[mode], ends)
        for s in range(subsets):
            for c in range(4):
                part = c
                if parts == _LUMINANCE:
                    part = 1 if c == 3 else 0
                if part < parts:
                    low[s, c], high[s, c] = ends[2 * (s * parts + part)], ends[2 * (s * parts + part) + 1]
                else:
                    low[s, c], high[s, c] = 255, 255
        seen = 0  # subsets whose first texel has come: its weight lacks the highest bit
        for i in range(_TEXELS):
            short = (seen >> subset[i]) & 1 == 0
            seen |= 1 << subset[i]
            for p in range(planes):
                n = weight_bits - 1 if short else weight_bits
                weight[i, p] = weights[weight_bits, _bits(raw, block, at, n)]
                at += n
        for y in range(y0, y1):
            for x in range(x0, x1):
                i = 4 * (y - y0) + x - x0
                s = subset[i]
                for c in range(4):
                    w = weight[i, 1] if c == second else weight[i, 0]
                    value = (257 * (low[s, c] * (64 - w) + high[s, c] * w) + 32) >> 6
                    out[y, x, c] = value >> 8
    return -1
