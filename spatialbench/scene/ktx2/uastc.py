"""UASTC LDR 4x4 to RGBA: tables of the format, and the check of what the kernel found.

Source: the public domain specification "UASTC LDR 4x4 Texture Specification" of Basis Universal (modes, patterns,
bit layout), and the Khronos data format specification 1.3, section 23 (ASTC: end points, weights).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.ktx2.container import TODO

__all__ = ["BLOCK_BYTES", "MODES", "decode_uastc"]

BLOCK_BYTES = 16
_NONE, _TRITS, _QUINTS = 0, 3, 5

MODES = (
    # code, its bits; bits before what follows; pattern table, its bits; planes, components, subsets; weight bits;
    # bits of an end point and what they go with
    (0x01, 4, 19, 0, 0, 1, 3, 1, 4, 6, _TRITS), (0x35, 6, 21, 0, 0, 1, 3, 1, 2, 8, _NONE),
    (0x1D, 5, 20, 0, 5, 1, 3, 2, 3, 4, _NONE), (0x03, 5, 20, 1, 4, 1, 3, 3, 2, 2, _TRITS),
    (0x13, 5, 20, 0, 5, 1, 3, 2, 2, 3, _QUINTS), (0x0B, 5, 20, 0, 0, 1, 3, 1, 3, 8, _NONE),
    (0x1B, 5, 20, 0, 0, 2, 3, 1, 2, 5, _QUINTS), (0x07, 5, 20, 2, 5, 1, 3, 2, 2, 3, _QUINTS),
    (0x17, 5, 5, 0, 0, 0, 4, 0, 0, 8, _NONE), (0x0F, 5, 28, 0, 5, 1, 4, 2, 2, 4, _NONE),
    (0x02, 3, 20, 0, 0, 1, 4, 1, 4, 4, _TRITS), (0x00, 2, 19, 0, 0, 2, 4, 1, 2, 4, _TRITS),
    (0x06, 3, 20, 0, 0, 1, 4, 1, 3, 6, _TRITS), (0x1F, 5, 28, 0, 0, 2, 4, 1, 1, 8, _NONE),
    (0x0D, 5, 28, 0, 0, 1, 4, 1, 2, 8, _NONE), (0x05, 7, 30, 0, 0, 1, 2, 1, 4, 8, _NONE),
    (0x15, 6, 29, 0, 5, 1, 2, 2, 2, 8, _NONE), (0x25, 6, 29, 0, 0, 2, 2, 1, 2, 8, _NONE),
    (0x09, 4, 19, 0, 0, 1, 3, 1, 5, 5, _NONE))
"""The modes 0 to 18; 8 is a single colour."""

_PATTERNS = (
    "0011001100110011 0001000100010001 1000100010001000 0001001100110111 1111111011101100 0011011101111111 "
    "1110110010000000 1111111011001000 0000000000010011 1100100000000000 0000000101111111 1111111111101000 "
    "1110100000000000 1111111100000000 0000111111111111 1111111111110000 1000111011111111 1111111101110001 "
    "0111001100010000 0011000100000000 0000100011001110 1111111101110011 1000110011001110 0011000100010000 "
    "1111011101110011 0110011001100110 1111000000001111 1010101010101010 1111000011110000 1001001101101100",
    "0000000011221122 1111111100002222 1111000000002222 1111222200000000 1120112011201120 0112011201120112 "
    "0211021102110211 2000200021112111 2012201220122012 1111000022221111 0022001100110022",
    "0000111100000000 0010001000100010 1100110010000000 0000000100110011 1111111100001111 0100010001000100 "
    "0001001111111111 0111001100110011 1100000000111100 0111011100000000 0000000011101110 1100000000001100 "
    "0111001100000000 0000000111111111 1111111111110110 1100110011001000 1111111110001000 0011011011001000 "
    "1111011100000000")
"""Subset of each of 16 texels: patterns of two subsets, of three, and of two in mode 7."""

_SCALE = {_TRITS: (0, 204, 93, 44, 22, 11, 5), _QUINTS: (0, 113, 54, 26, 13, 6)}
_SPREAD = {_TRITS: ("", "", "b000b0bb0", "cb000cbcb", "dcb000dcb", "edcb000ed", "fedcb000f"),
           _QUINTS: ("", "", "b0000bb00", "cb0000cbc", "dcb0000dc", "edcb0000e")}


@cache
def _tables() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64],
                       NDArray[np.int64]]:
    """Modes [19,9]; mode of the lowest seven bits [128]; end points [19,256]; weights [6,32]; patterns [3,32,16]."""
    modes = np.array([m[2:] for m in MODES], np.int64)
    first = np.full(128, -1, np.int64)
    for mode, (code, bits, *_) in enumerate(MODES):
        first[code::1 << bits] = mode
    points = np.zeros((len(MODES), 256), np.int64)
    for mode, m in enumerate(MODES):
        levels = max(m[10], 1) << m[9]
        points[mode, :levels] = [_end_point(v, m[9], m[10]) for v in range(levels)]
    weights = np.zeros((6, 32), np.int64)
    for bits in range(1, 6):
        weights[bits, :1 << bits] = [_weight(v, bits) for v in range(1 << bits)]
    patterns = np.full((3, 32, 16), -1, np.int64)
    for table, text in zip(patterns, _PATTERNS, strict=True):
        rows = [[int(c) for c in word] for word in text.split()]
        table[:len(rows)] = rows
    for table in (modes, first, points, weights, patterns):
        table.setflags(write=False)
    return modes, first, points, weights, patterns


def _replicated(value: int, bits: int, to: int) -> int:
    """The bits over and over, from the top of ``to`` bits."""
    out, have = 0, 0
    while have < to:
        out, have = out << bits | value, have + bits
    return out >> (have - to)


def _end_point(value: int, bits: int, kind: int) -> int:
    """An end point in 0 to 255: a trit or quint above ``bits`` bits, spread as ASTC does it (KDF table 23.23)."""
    if kind == _NONE:
        return _replicated(value, bits, 8)
    low, digit = value & ((1 << bits) - 1), value >> bits
    mask = 511 if low & 1 else 0
    spread = 0
    for letter in _SPREAD[kind][bits]:
        spread = spread << 1 | (low >> ("abcdef".index(letter)) & 1 if letter != "0" else 0)
    t = (digit * _SCALE[kind][bits] + spread) ^ mask
    return mask & 128 | t >> 2


def _weight(value: int, bits: int) -> int:
    """A weight in 0 to 64."""
    w = _replicated(value, bits, 6)
    return w + (w > 32)


def decode_uastc(raw: NDArray[np.uint8], width: int, height: int, where: str) -> NDArray[np.uint8]:
    """Pixels [H,W,4] of blocks of 16 bytes in rows from the top left, cut to the image.

    End points are widened as for a linear image whatever the transfer function, as the reference transcoder does.

    Raises
    ------
    CorruptInputError : a block of no mode, or of a pattern that is not in the format's tables.
    """
    from spatialbench.scene.ktx2 import _uastc_kernels as kernels

    out = np.empty((height, width, 4), np.uint8)
    bad = kernels.decode_blocks(raw, *_tables(), out)
    if bad >= 0:
        raise CorruptInputError(f"its block {bad:,} is none that UASTC knows", where=where, todo=TODO)
    return out
