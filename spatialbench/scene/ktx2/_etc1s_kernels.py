"""Huffman tables, codebooks and slices of BasisLZ, compiled; every read and every index is checked.

A stream is bytes with four more behind it, which the look ahead may touch. What is read from it gives the bit where
it ended, or -1. Codebooks and slices give 0, or what is wrong: 1 a code or the end, 2 a reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["draw_slice", "read_endpoints", "read_number", "read_selectors", "read_table"]

_KERNEL = {"cache": True, "nogil": True, "error_model": "numpy"}
_HELPER = {**_KERNEL, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_PAD = 4
_MAX_BITS = 16
_ORDER = np.array([17, 18, 19, 20, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15, 16], np.int64)
_REPEAT_PREDICTION = 256
_RUN_MORE = 63
_STREAM, _REFERENCE = 1, 2


@njit(**_HELPER)
def _peek(data: NDArray[np.uint8], at: int) -> Any:
    """The next 16 bits, lowest first; ``at`` is not behind the end."""
    i = at >> 3
    return ((np.int64(data[i]) | np.int64(data[i + 1]) << 8 | np.int64(data[i + 2]) << 16) >> (at & 7)) & 0xFFFF


@njit(**_HELPER)
def _take(data: NDArray[np.uint8], at: int, n: int) -> tuple[int, int]:
    """A number of ``n`` bits, at most 16."""
    if at < 0 or at + n > 8 * (len(data) - _PAD):
        return 0, -1
    return _peek(data, at) & ((1 << n) - 1), at + n


@njit(**_HELPER)
def _symbol(data: NDArray[np.uint8], at: int, table: NDArray[np.int32]) -> tuple[int, int]:
    """A Huffman symbol."""
    if at < 0 or at > 8 * (len(data) - _PAD):
        return 0, -1
    entry: Any = np.int64(table[_peek(data, at) & (len(table) - 1)])
    n = entry & 31
    if n == 0 or at + n > 8 * (len(data) - _PAD):
        return 0, -1
    return entry >> 5, at + n


@njit(**_HELPER)
def _chunks(data: NDArray[np.uint8], at: int, n: int) -> tuple[int, int]:
    """A number in chunks of ``n`` bits and one that says whether another follows; at most 35 bits."""
    value, shift = 0, 0
    while True:
        part, at = _take(data, at, n + 1)
        if at < 0:
            return 0, -1
        value |= (part & ((1 << n) - 1)) << shift
        shift += n
        if part >> n == 0:
            return value, at
        if shift >= 32:
            return 0, -1


@njit(**_HELPER)
def _lookup(sizes: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Canonical code (RFC 1951, section 3.2.2) as a table of symbol << 5 | bits; empty where it is no code."""
    counts = np.zeros(_MAX_BITS + 1, np.int64)
    for i in range(len(sizes)):
        counts[sizes[i]] += 1
    counts[0] = 0
    longest, used, filled = 0, 0, 0
    following = np.zeros(_MAX_BITS + 2, np.int64)
    for n in range(1, _MAX_BITS + 1):
        following[n + 1] = (following[n] + counts[n]) << 1
        filled += counts[n] << (_MAX_BITS - n)
        used += counts[n]
        if counts[n]:
            longest = n
    if used == 0 or (filled != 1 << _MAX_BITS and used != 1):
        return np.zeros(0, np.int32)
    table = np.zeros(1 << longest, np.int32)
    for symbol in range(len(sizes)):
        size = np.int64(sizes[symbol])
        if size == 0:
            continue
        code = following[size]
        following[size] += 1
        turned = 0
        for _ in range(size):
            turned = turned << 1 | code & 1
            code >>= 1
        for place in range(turned, 1 << longest, 1 << size):
            table[place] = symbol << 5 | size
    return table


@njit(**_KERNEL)
def read_number(data: NDArray[np.uint8], at: int, n: int) -> tuple[int, int]:
    """A number of ``n`` bits, at most 16."""
    return _take(data, at, n)


@njit(**_KERNEL)
def read_table(data: NDArray[np.uint8], at: int) -> tuple[NDArray[np.int32], int]:
    """A compressed Huffman table. One of no symbols may be there, and none can then be read with it."""
    none = np.zeros(1, np.int32)
    n_symbols, at = _take(data, at, 14)
    if at < 0 or n_symbols == 0:
        return none, at
    n_sizes, at = _take(data, at, 5)
    if at < 0 or n_sizes < 1 or n_sizes > len(_ORDER):
        return none, -1
    inner = np.zeros(len(_ORDER), np.uint8)
    for i in range(n_sizes):
        size, at = _take(data, at, 3)
        inner[_ORDER[i]] = size
    table = _lookup(inner)
    if at < 0 or len(table) == 0:
        return none, -1
    sizes = np.zeros(n_symbols, np.uint8)
    i = 0
    while i < n_symbols:
        symbol, at = _symbol(data, at, table)
        if at < 0:
            return none, -1
        if symbol <= _MAX_BITS:
            sizes[i] = symbol
            i += 1
            continue
        value = np.uint8(0)
        if symbol == 17:
            run, at = _take(data, at, 3)
            run += 3
        elif symbol == 18:
            run, at = _take(data, at, 7)
            run += 11
        else:
            run, at = _take(data, at, 2 if symbol == 19 else 7)
            run += 3 if symbol == 19 else 7
            if i == 0 or sizes[i - 1] == 0:
                return none, -1
            value = sizes[i - 1]
        if at < 0 or i + run > n_symbols:
            return none, -1
        for _ in range(run):
            sizes[i] = value
            i += 1
    table = _lookup(sizes)
    if len(table) == 0:
        return none, -1
    return table, at


@njit(**_KERNEL)
def read_endpoints(data: NDArray[np.uint8], at: int, low: NDArray[np.int32], middle: NDArray[np.int32],
                   top: NDArray[np.int32], intensity: NDArray[np.int32], count: int) -> tuple[NDArray[np.uint8], int]:
    """Colours in five bits and the intensity table of each, [count,4]; steps by the size of what they start from."""
    out = np.zeros((count, 4), np.uint8)
    grey, at = _take(data, at, 1)
    last = np.array([16, 16, 16, 0], np.int64)
    for i in range(count):
        delta, at = _symbol(data, at, intensity)
        if at < 0:
            return out, _STREAM
        last[3] = (last[3] + delta) & 7
        for c in range(1 if grey else 3):
            table = low if last[c] <= 9 else middle if last[c] <= 21 else top
            delta, at = _symbol(data, at, table)
            if at < 0:
                return out, _STREAM
            last[c] = (last[c] + delta) & 31
        if grey:
            last[1] = last[2] = last[0]
        for c in range(4):
            out[i, c] = last[c]
    return out, 0


@njit(**_KERNEL)
def read_selectors(data: NDArray[np.uint8], at: int, plain: bool, table: NDArray[np.int32], count: int
                   ) -> tuple[NDArray[np.uint8], int]:
    """Rows of four selectors of two bits, the left one lowest, [count,4]; all plain, or steps from the one before."""
    out = np.zeros((count, 4), np.uint8)
    for i in range(count):
        for row in range(4):
            if plain or i == 0:
                value, at = _take(data, at, 8)
            else:
                value, at = _symbol(data, at, table)
                value ^= np.int64(out[i - 1, row])
            if at < 0 or value > 255:
                return out, _STREAM
            out[i, row] = value
    return out, 0


@njit(**_HELPER)
def _paint(out: NDArray[np.uint8], y0: int, x0: int, end: NDArray[np.uint8], rows: NDArray[np.uint8],
           modifiers: NDArray[np.int64], alpha: bool) -> None:
    """One block; its green goes to alpha, or its colour to colour."""
    for y in range(y0, min(y0 + 4, out.shape[0])):
        for x in range(x0, min(x0 + 4, out.shape[1])):
            change = modifiers[end[3], (np.int64(rows[y - y0]) >> 2 * (x - x0)) & 3]
            for c in range(3):
                if not alpha or c == 1:
                    base = np.int64(end[c])
                    value = min(max((base << 3 | base >> 2) + change, 0), 255)
                    out[y, x, 3 if alpha else c] = value


@njit(**_KERNEL)
def draw_slice(data: NDArray[np.uint8], predictions: NDArray[np.int32], steps: NDArray[np.int32],
               selector_codes: NDArray[np.int32], run_codes: NDArray[np.int32], n_history: int,
               endpoints: NDArray[np.uint8], selectors: NDArray[np.uint8], modifiers: NDArray[np.int64], alpha: bool,
               out: NDArray[np.uint8]) -> int:
    """Decode a slice block by block into ``out`` [H,W,4]: its colours, or alpha from its green."""
    columns, rows = (out.shape[1] + 3) // 4, (out.shape[0] + 3) // 4
    above = np.zeros((2, columns), np.int64)  # endpoints of this row and of the one above, by the row's parity
    kept = np.zeros((columns + 1) // 2, np.int64)  # predictions of the odd row, which come with the even one
    history = np.zeros(n_history, np.int64)
    oldest = n_history // 2
    at, endpoint, bits = 0, 0, 0
    last_prediction, repeats, run = 0, 0, 0
    for by in range(rows):
        for bx in range(columns):
            if bx & 1 == 0:
                if by & 1:
                    bits = kept[bx >> 1]
                else:
                    if repeats:
                        repeats -= 1
                        bits = last_prediction
                    else:
                        bits, at = _symbol(data, at, predictions)
                        if at < 0 or bits > _REPEAT_PREDICTION:
                            return _STREAM
                        if bits == _REPEAT_PREDICTION:
                            repeats, at = _chunks(data, at, 4)
                            if at < 0:
                                return _STREAM
                            repeats += 2
                            bits = last_prediction
                        last_prediction = bits
                    kept[bx >> 1] = bits >> 4
            how = bits & 3
            bits >>= 2
            if (how == 0 and bx == 0) or (how == 1 and by == 0) or (how == 2 and (bx == 0 or by == 0)):
                return _REFERENCE
            if how == 1:
                endpoint = above[(by & 1) ^ 1, bx]
            elif how == 2:
                endpoint = above[(by & 1) ^ 1, bx - 1]
            elif how == 3:
                step, at = _symbol(data, at, steps)
                if at < 0:
                    return _STREAM
                endpoint += step
                if endpoint >= len(endpoints):
                    endpoint -= len(endpoints)
                if endpoint >= len(endpoints):
                    return _REFERENCE
            above[by & 1, bx] = endpoint
            place = 0  # in the history, of the selector that was used last
            selector = len(selectors)
            if run > 0:
                run -= 1
            else:
                selector, at = _symbol(data, at, selector_codes)
                if at < 0:
                    return _STREAM
                if selector == len(selectors) + n_history:
                    run, at = _symbol(data, at, run_codes)
                    if at >= 0 and run == _RUN_MORE:
                        run, at = _chunks(data, at, 7)
                    if at < 0:
                        return _STREAM
                    run += 3
                    if run > columns * rows:
                        return _REFERENCE
                    run -= 1
                    selector = len(selectors)
            if selector >= len(selectors):
                place = selector - len(selectors)
                if place >= n_history:
                    return _REFERENCE
                selector = history[place]
                if place:
                    history[place], history[place // 2] = history[place // 2], history[place]
            elif n_history:
                history[oldest] = selector
                oldest += 1
                if oldest == n_history:
                    oldest = n_history // 2
            _paint(out, 4 * by, 4 * bx, endpoints[endpoint], selectors[selector], modifiers, alpha)
    return 0
