"""Loops of the meshopt decoders, compiled; every read is checked, as compiled code does not check by itself.

The streams are those of ``EXT_meshopt_compression`` (appendix A of its specification) and version 1 of the vertex
codec, which ``KHR_meshopt_compression`` adds. Each function returns False for a stream that breaks off or runs over.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["decode_sequence", "decode_triangles", "decode_vertices"]

_GROUP = 16


@njit(cache=True)
def _byte_group(data: NDArray[np.uint8], at: int, end: int, bits: int, out: NDArray[np.uint8], first: int) -> int:
    """Sixteen values of ``bits`` bits; the largest value means that a whole byte follows after all of them."""
    if bits == 0:
        for i in range(_GROUP):
            out[first + i] = 0
        return at
    if bits == 8:
        if at + _GROUP > end:
            return -1
        for i in range(_GROUP):
            out[first + i] = data[at + i]
        return at + _GROUP
    fixed = 2 * bits
    if at + fixed > end:
        return -1
    more = at + fixed
    largest = (1 << bits) - 1
    each = 8 // bits
    for i in range(_GROUP):
        byte = np.int64(data[at + i // each])
        place = i % each
        shift = place if bits == 1 else 8 - bits * (place + 1)  # single bits lie the other way round
        value = (byte >> shift) & largest
        if value == largest:
            if more >= end:
                return -1
            value = np.int64(data[more])
            more += 1
        out[first + i] = value
    return more


@njit(cache=True)
def _bytes(data: NDArray[np.uint8], at: int, end: int, widths: NDArray[np.int64], out: NDArray[np.uint8], n: int
           ) -> int:
    """``n`` values, a multiple of sixteen; two bits for each sixteen say which of ``widths`` they have."""
    groups = n // _GROUP
    head = at
    at += (groups + 3) // 4
    if at > end:
        return -1
    for g in range(groups):
        pick = (np.int64(data[head + g // 4]) >> (g % 4 * 2)) & 3
        at = _byte_group(data, at, end, widths[pick], out, g * _GROUP)
        if at < 0:
            return -1
    return at


@njit(cache=True)
def decode_vertices(data: NDArray[np.uint8], count: int, stride: int, out: NDArray[np.uint8]) -> bool:
    """``out`` [count, stride] of a stream of attributes."""
    size = len(data)
    if size < 1 or (data[0] & 0xF0) != 0xA0:
        return False
    version = np.int64(data[0]) & 15
    if version > 1:
        return False
    tail = stride + (stride // 4 if version else 0)
    padded = max(tail, 24 if version else 32)
    if size < 1 + padded:
        return False
    end = size - padded
    last = data[size - tail:size - tail + stride].copy()
    channels = data[size - tail + stride:size]
    block = min(8192 // stride // _GROUP * _GROUP, 256)
    buffer = np.zeros((4, 256), np.uint8)
    widths = np.zeros((3, 4), np.int64)
    widths[0] = np.array([0, 2, 4, 8])
    widths[1] = np.array([0, 1, 2, 4])
    widths[2] = np.array([1, 2, 4, 8])
    at = 1
    for start in range(0, count, block):
        n = min(block, count - start)
        whole = (n + _GROUP - 1) // _GROUP * _GROUP
        control = at
        if version:
            at += stride // 4
            if at > end:
                return False
        for k in range(0, stride, 4):
            for j in range(4):
                how = np.int64(0)
                if version:
                    how = (np.int64(data[control + k // 4]) >> (j * 2)) & 3
                if how == 3:
                    if at + n > end:
                        return False
                    for i in range(n):
                        buffer[j, i] = data[at + i]
                    at += n
                elif how == 2:
                    buffer[j, :] = 0
                else:
                    at = _bytes(data, at, end, widths[1 + how if version else 0], buffer[j], whole)
                    if at < 0:
                        return False
            channel = np.int64(channels[k // 4]) if version else np.int64(0)
            if not _deltas(buffer, n, channel, last, out, start, k):
                return False
    return at == end


@njit(cache=True)
def _deltas(buffer: NDArray[np.uint8], n: int, channel: int, last: NDArray[np.uint8], out: NDArray[np.uint8],
            start: int, k: int) -> bool:
    """Four bytes of each vertex from differences to the vertex before: of bytes, of 16 bits, or turned and xor."""
    kind = channel & 3
    if kind == 3:
        return False
    if kind == 2:
        turn = (32 - (channel >> 4)) & 31
        before = np.int64(0)
        for j in range(4):
            before |= np.int64(last[k + j]) << (8 * j)
        for i in range(n):
            v = np.int64(0)
            for j in range(4):
                v |= np.int64(buffer[j, i]) << (8 * j)
            before ^= ((v << turn) | (v >> (32 - turn))) & 0xFFFFFFFF
            for j in range(4):
                out[start + i, k + j] = (before >> (8 * j)) & 255
    elif kind == 1:
        for j in range(0, 4, 2):
            value = np.int64(last[k + j]) | (np.int64(last[k + j + 1]) << 8)
            for i in range(n):
                d = np.int64(buffer[j, i]) | (np.int64(buffer[j + 1, i]) << 8)
                value = (value + ((d >> 1) ^ -(d & 1))) & 65535
                out[start + i, k + j] = value & 255
                out[start + i, k + j + 1] = value >> 8
    else:
        for j in range(4):
            value = np.int64(last[k + j])
            for i in range(n):
                d = np.int64(buffer[j, i])
                value = (value + ((d >> 1) ^ -(d & 1))) & 255
                out[start + i, k + j] = value
    for j in range(4):
        last[k + j] = out[start + n - 1, k + j]
    return True


@njit(cache=True)
def _varint(data: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """Seven bits a byte, five bytes at most; place -1 when it breaks off."""
    value = 0
    for i in range(5):
        if at >= end:
            return 0, -1
        byte = int(data[at])
        at += 1
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            break
    return value & 0xFFFFFFFF, at


@njit(cache=True)
def decode_triangles(data: NDArray[np.uint8], count: int, out: NDArray[np.int64]) -> bool:
    """``out`` [count] vertex indices of a stream of triangles."""
    size = len(data)
    if count % 3 or size < 17 + count // 3 or (data[0] & 0xF0) != 0xE0 or (data[0] & 15) > 1:
        return False
    most = 13 if (data[0] & 15) == 1 else 15
    edges, vertices = np.zeros((16, 2), np.int64), np.zeros(16, np.int64)
    e = v = fresh = last = 0
    at, end = 1 + count // 3, size - 16
    for t in range(count // 3):
        code = int(data[1 + t])
        if code < 0xF0:
            a, b = edges[(e - 1 - (code >> 4)) & 15]
            low = code & 15
            if low < most:
                if low == 0:
                    c = fresh
                    fresh += 1
                else:
                    c = vertices[(v - 1 - low) & 15]
                push = low == 0
            else:
                if low != 15:
                    c = last + (low - (low ^ 3))
                else:
                    d, at = _varint(data, at, end)
                    if at < 0:
                        return False
                    c = last + ((d >> 1) ^ -(d & 1))
                c &= 0xFFFFFFFF
                last = c
                push = True
            if push:
                vertices[v] = c
                v = (v + 1) & 15
            edges[e, 0], edges[e, 1] = c, b
            e = (e + 1) & 15
            edges[e, 0], edges[e, 1] = a, c
            e = (e + 1) & 15
        else:
            if code < 0xFE:
                aux, first = np.int64(data[end + (code & 15)]), 0
            else:
                if at >= end:
                    return False
                aux, first = np.int64(data[at]), (0 if code == 0xFE else 15)
                at += 1
                if aux == 0:
                    fresh = 0
            second, third = aux >> 4, aux & 15
            a = b = c = 0
            if first == 0:
                a = fresh
                fresh += 1
            if second == 0:
                b = fresh
                fresh += 1
            else:
                b = vertices[(v - second) & 15]
            if third == 0:
                c = fresh
                fresh += 1
            else:
                c = vertices[(v - third) & 15]
            if code >= 0xFE:
                if first == 15:
                    d, at = _varint(data, at, end)
                    if at < 0:
                        return False
                    a = last = (last + ((d >> 1) ^ -(d & 1))) & 0xFFFFFFFF
                if second == 15:
                    d, at = _varint(data, at, end)
                    if at < 0:
                        return False
                    b = last = (last + ((d >> 1) ^ -(d & 1))) & 0xFFFFFFFF
                if third == 15:
                    d, at = _varint(data, at, end)
                    if at < 0:
                        return False
                    c = last = (last + ((d >> 1) ^ -(d & 1))) & 0xFFFFFFFF
            vertices[v] = a
            v = (v + 1) & 15
            if second == 0 or (code >= 0xFE and second == 15):
                vertices[v] = b
                v = (v + 1) & 15
            if third == 0 or (code >= 0xFE and third == 15):
                vertices[v] = c
                v = (v + 1) & 15
            for x, y in ((b, a), (c, b), (a, c)):
                edges[e, 0], edges[e, 1] = x, y
                e = (e + 1) & 15
        out[3 * t], out[3 * t + 1], out[3 * t + 2] = a, b, c
    return at == end


@njit(cache=True)
def decode_sequence(data: NDArray[np.uint8], count: int, out: NDArray[np.int64]) -> bool:
    """``out`` [count] indices of a stream of plain indices, each a difference to one of two before it."""
    size = len(data)
    if size < 5 + count or (data[0] & 0xF0) != 0xD0 or (data[0] & 15) > 1:
        return False
    last = np.zeros(2, np.int64)
    at, end = 1, size - 4
    for i in range(count):
        d, at = _varint(data, at, end)
        if at < 0:
            return False
        which = d & 1
        d >>= 1
        last[which] = (last[which] + ((d >> 1) ^ -(d & 1))) & 0xFFFFFFFF
        out[i] = last[which]
    return at == end
