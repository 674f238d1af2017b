"""ETC1S under BasisLZ to RGBA: the parts of the global data, and what the kernels say of them.

Source: KTX file format specification, version 2, appendices "BasisLZ Global Data" and "BasisLZ/ETC1S Bitstream
Specification"; the Khronos data format specification 1.3, section 21.1 (intensity modifiers).
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.ktx2.container import TODO, Container

__all__ = ["decode_etc1s"]

_HEAD = struct.Struct("<2H4I")
_IMAGE = struct.Struct("<5I")
_P_FRAME = 2
_PAD = 4
"""Bytes of nothing behind each stream, as the kernels look 16 bits ahead."""
_MODIFIERS = np.array([[-8, -2, 2, 8], [-17, -5, 5, 17], [-29, -9, 9, 29], [-42, -13, 13, 42], [-60, -18, 18, 60],
                       [-80, -24, 24, 80], [-106, -33, 33, 106], [-183, -47, 47, 183]], np.int64)
_WRONG = {1: "breaks off, or holds a code that is not in its table",
          2: "refers to an entry or a block that is not there"}


def decode_etc1s(c: Container, where: str) -> NDArray[np.uint8]:
    """Pixels [H,W,4]; alpha is the second slice's green, or 255.

    Raises
    ------
    CorruptInputError : a part that lies outside of the file, breaks off, or refers to what is not there.
    """
    from spatialbench.scene.ktx2 import _etc1s_kernels as kernels

    at = _HEAD.size + _IMAGE.size * c.n_levels
    if at > len(c.shared):
        raise _broken(f"its global data of {len(c.shared):,} bytes breaks off", where)
    n_endpoints, n_selectors, *sizes = _HEAD.unpack_from(c.shared)
    flags, *slices = _IMAGE.unpack_from(c.shared, _HEAD.size)
    if at + sum(sizes) > len(c.shared) or not n_endpoints or not n_selectors:
        raise _broken(f"its global data of {len(c.shared):,} bytes cannot hold {n_endpoints:,} endpoints and "
                      f"{n_selectors:,} selectors in {at + sum(sizes):,}", where)
    if flags & _P_FRAME:
        raise _broken("its image builds on one before it, and there is none", where)
    parts = []
    for size in sizes[:3]:
        parts.append(_padded(c.shared[at:at + size]))
        at += size
    endpoints = _endpoints(parts[0], n_endpoints, where)
    selectors = _selectors(parts[1], n_selectors, where)
    tables, at = _tables(parts[2], 0, 4, "Huffman part", where)
    history, at = kernels.read_number(parts[2], at, 13)
    _check(at < 0, "Huffman part", where)
    out = np.empty((c.height, c.width, 4), np.uint8)
    out[..., 3] = 255
    for k, name in ((0, "colour slice"), (2, "alpha slice")):
        first, size = slices[k:k + 2]
        if k and not size:
            break
        if first + size > len(c.level) or not size:
            raise _broken(f"its {name} lies at bytes {first:,} to {first + size:,} of {len(c.level):,}", where)
        wrong = kernels.draw_slice(_padded(c.level[first:first + size]), *tables, history, endpoints, selectors,
                                   _MODIFIERS, k > 0, out)
        _check(wrong, name, where)
    return out


def _endpoints(part: NDArray[np.uint8], count: int, where: str) -> NDArray[np.uint8]:
    """Red, green and blue in five bits and the row of intensity modifiers, [count,4]."""
    from spatialbench.scene.ktx2 import _etc1s_kernels as kernels

    tables, at = _tables(part, 0, 4, "endpoint codebook", where)
    out, wrong = kernels.read_endpoints(part, at, *tables, count)
    _check(wrong, "endpoint codebook", where)
    return out


def _selectors(part: NDArray[np.uint8], count: int, where: str) -> NDArray[np.uint8]:
    """Four rows of four selectors, [count,4]."""
    from spatialbench.scene.ktx2 import _etc1s_kernels as kernels

    kind, at = kernels.read_number(part, 0, 3)
    _check(at < 0, "selector codebook", where)
    if kind & 3:
        raise _broken(f"its selector codebook is of the kind {kind & 3}, which the format does not have", where)
    table = np.zeros(1, np.int32)
    if not kind:
        (table,), at = _tables(part, at, 1, "selector codebook", where)
    out, wrong = kernels.read_selectors(part, at, bool(kind), table, count)
    _check(wrong, "selector codebook", where)
    return out


def _tables(part: NDArray[np.uint8], at: int, count: int, name: str, where: str) -> tuple[list[NDArray[np.int32]], int]:
    """Huffman tables one behind the other, and the bit where they end."""
    from spatialbench.scene.ktx2 import _etc1s_kernels as kernels

    out = []
    for k in range(count):
        table, at = kernels.read_table(part, at)
        if at < 0:
            raise _broken(f"its {name} has a Huffman table, number {k}, that is none", where)
        out.append(table)
    return out, at


def _padded(part: memoryview) -> NDArray[np.uint8]:
    return np.frombuffer(bytes(part) + bytes(_PAD), np.uint8)


def _broken(what: str, where: str) -> CorruptInputError:
    return CorruptInputError(what, where=where, todo=TODO)


def _check(wrong: int, part: str, where: str) -> None:
    if wrong:
        raise _broken(f"its {part} {_WRONG[wrong]}", where)
