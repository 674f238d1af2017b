"""PlayCanvas compressed PLY: chunks of 256 splats, each splat four 32-bit words between its chunk's bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.folder import FileBytes
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.ply_header import PlyElement, PlyHeader
from spatialbench.scene.splats.raw import RawSplats, check_count
from spatialbench.scene.splats.rows import fixed_rows, is_antialiased, rest_columns

__all__ = ["CHUNK", "read_compressed"]

CHUNK = 256
_TODO = "Export it again"
_PACKED = ["packed_position", "packed_rotation", "packed_scale", "packed_color"]


@dataclass(frozen=True, eq=False)
class _Rest:
    """Harmonics as they are stored: rows of bytes [N,P], and the place in a row of each of the result [K,3] behind the
    constants."""

    rows: NDArray[np.uint8]
    columns: NDArray[np.int64]


def read_compressed(data: FileBytes, header: PlyHeader, log: ReadLog, where: str) -> RawSplats:
    """Read a compressed PLY: elements ``chunk``, ``vertex`` and perhaps ``sh``.

    Positions and log scales have 11, 10 and 11 bits, colours and opacity 8 each, the rotation three components of
    10 bits and the index of the one left out (wxyz). Opacity is stored activated. Harmonics are bytes from -4 to 4.

    Raises
    ------
    CorruptInputError : columns or chunks missing, fewer rows than announced. EmptyWorldError : no rows.
    """
    log.details["format_version"] = "PlayCanvas compressed PLY"
    chunk, vertex, sh = header.element("chunk"), header.element("vertex"), header.element("sh")
    if not header.order:
        raise CorruptInputError("is a compressed PLY in text, which no program writes", where=where, todo=_TODO)
    if chunk is None or vertex is None:
        raise CorruptInputError("lacks one of the elements 'chunk' and 'vertex'", where=where, todo=_TODO)
    count = vertex.count
    check_count(min(count, len(data)), where)
    _need(vertex, _PACKED, "u4", where)
    bounds = _bounds(chunk, where)
    if chunk.count < -(-count // CHUNK):
        raise CorruptInputError(f"has {plural(chunk.count, 'chunk')} for {plural(count, 'splat')}, which need "
                                f"{-(-count // CHUNK):,}", where=where, todo=_TODO)
    names = _harmonics(sh, count, where) if sh else []
    chunks = _table(data, header, chunk, log, where)
    words = _words(_rows(data, header, vertex, log, where), tuple(vertex.names))
    low, high = (np.stack([chunks[n].astype(np.float64) if n else np.full(chunk.count, float(default))
                           for n in names_], axis=1) for names_, default in zip(bounds, (0, 1), strict=True))
    rest = _rest(_rows(data, header, sh, log, where), sh, names) if sh and names else None
    out = _decode(words, low, high, rest)
    out.antialiased = is_antialiased(header)
    return out


def _need(element: PlyElement, names: list[str], kind: str, where: str) -> None:
    types = {p.name: p.type for p in element.properties if not p.count_type}
    wrong = [n for n in names if types.get(n) != kind]
    if wrong:
        raise CorruptInputError(f"its element '{element.name}' has no property {', '.join(wrong[:4])} of type "
                                f"{'uint' if kind == 'u4' else 'float' if kind == 'f4' else 'uchar'}",
                                where=where, todo=_TODO)


def _bounds(chunk: PlyElement, where: str) -> tuple[list[str], list[str]]:
    """Names of the nine lower and upper bounds; older files have none for colours, which then run from 0 to 1."""
    axes = ["x", "y", "z", "scale_x", "scale_y", "scale_z"]
    rgb = ["r", "g", "b"] if "min_r" in chunk.names else []
    names = [f"{side}_{a}" for side in ("min", "max") for a in axes + rgb]
    _need(chunk, names, "f4", where)
    half = len(names) // 2
    pad = [""] * (3 - len(rgb))
    return names[:half] + pad, names[half:] + pad


def _harmonics(sh: PlyElement, count: int, where: str) -> list[str]:
    """Columns of the element ``sh`` in the order [K,3]; they are stored by channel."""
    names = rest_columns(sh.names, where)
    if names and sh.count != count:
        raise CorruptInputError(f"has {count:,} splats but {plural(sh.count, 'row')} of 'sh'", where=where, todo=_TODO)
    _need(sh, names, "u1", where)
    return names


def _rows(data: FileBytes, header: PlyHeader, element: PlyElement, log: ReadLog, where: str) -> NDArray:
    rows = fixed_rows(data, header, element.name, log, where)
    if rows is None:
        raise CorruptInputError("has list properties, which a compressed PLY has not", where=where, todo=_TODO)
    return rows


def _table(data: FileBytes, header: PlyHeader, element: PlyElement, log: ReadLog, where: str) -> dict[str, NDArray]:
    rows = _rows(data, header, element, log, where)
    return {name: rows[f"v{i}"] for i, name in enumerate(element.names)}


def _rest(rows: NDArray, element: PlyElement, names: list[str]) -> _Rest:
    places = dict(zip(element.names, np.cumsum([0, *(np.dtype(p.type).itemsize for p in element.properties)]).tolist(),
                      strict=False))
    return _Rest(rows.view(np.uint8).reshape(len(rows), -1), np.array([places[n] for n in names], np.int64))


def _words(rows: NDArray, names: tuple[str, ...]) -> NDArray[np.uint32]:
    """[N,4] the packed words in their order; in place where they stand so in the file."""
    if list(names) == _PACKED and rows.dtype.itemsize == 16 and rows.dtype["v0"] == np.uint32:
        return rows.view(np.uint32).reshape(-1, 4)
    out = np.empty((len(rows), 4), np.uint32)
    for k, name in enumerate(_PACKED):
        out[:, k] = rows[f"v{names.index(name)}"]
    return out


def _decode(words: NDArray[np.uint32], low: NDArray, high: NDArray, rest: _Rest | None) -> RawSplats:
    """``words`` [N,4]; ``low`` and ``high`` [chunks, 9] are the bounds."""
    from spatialbench.scene.splats import _kernels as kernels

    n = len(words)
    means, scales = np.empty((n, 3), np.float32), np.empty((n, 3), np.float32)
    quaternions, opacities = np.empty((n, 4), np.float32), np.empty(n, np.float32)
    sh = np.empty((n, 1 if rest is None else len(rest.columns) // 3 + 1, 3), np.float32)
    flat = sh.reshape(n, -1)
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    table = (np.arange(256) / 32 + (1 / 64 - 4)).astype(np.float32)  # (byte + 0.5) / 32 - 4, exact

    def block(part: slice) -> None:
        packed = words[part].copy()  # aligned, so that one compiled loop serves all files
        logs = np.empty((len(packed), 3))
        kernels.compressed(packed, low, high, part.start, means, logs, quaternions, opacities, flat)
        scales[part] = np.exp(logs, out=logs)
        if rest is not None:
            kernels.harmonics(rest.rows, rest.columns, table, part.start, part.stop, flat)

    in_blocks(n, block)
    return RawSplats(means, scales, quaternions, opacities, sh, finite_sh=bool(np.isfinite(low).all()
                                                                             and np.isfinite(high).all()))
