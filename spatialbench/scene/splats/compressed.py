"""PlayCanvas compressed PLY: chunks of 256 splats, each splat four 32-bit words between its chunk's bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.folder import FileBytes
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.ply_header import PlyElement, PlyHeader
from spatialbench.scene.splats.raw import RawSplats, check_count, dc_of_color, smallest_three
from spatialbench.scene.splats.rows import fixed_rows, is_antialiased, rest_columns

__all__ = ["CHUNK", "read_compressed"]

CHUNK = 256
_ROWS = 256 * CHUNK
_TODO = "Export it again"
_PACKED = ["packed_position", "packed_rotation", "packed_scale", "packed_color"]


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
    chunks, words = (_table(data, header, e, log, where) for e in (chunk, vertex))
    low, high = (np.stack([chunks[n].astype(np.float64) if n else np.full(chunk.count, float(default))
                           for n in names_], axis=1) for names_, default in zip(bounds, (0, 1), strict=True))
    out = _decode(words, low, high, len(names))
    if sh and names:
        bytes_ = _table(data, header, sh, log, where)
        steps = ((np.arange(256) + 0.5) / 32 - 4).astype(np.float32)
        for i, name in enumerate(names):
            out.sh[:, 1 + i // 3, i % 3] = steps[bytes_[name]]
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


def _table(data: FileBytes, header: PlyHeader, element: PlyElement, log: ReadLog, where: str) -> dict[str, NDArray]:
    rows = fixed_rows(data, header, element.name, log, where)
    if rows is None:
        raise CorruptInputError("has list properties, which a compressed PLY has not", where=where, todo=_TODO)
    return {name: rows[f"v{i}"] for i, name in enumerate(element.names)}


def _decode(words: dict[str, NDArray], low: NDArray, high: NDArray, n_rest: int) -> RawSplats:
    position, rotation, scale, color = (words[n].astype(np.uint32) for n in _PACKED)
    n = len(position)
    means, scales = np.zeros((n, 3), np.float32), np.zeros((n, 3), np.float32)
    quaternions, opacities = np.zeros((n, 4), np.float32), np.zeros(n, np.float32)
    sh = np.zeros((n, 1 + n_rest // 3, 3), np.float32)
    for start in range(0, n, _ROWS):
        part = slice(start, min(start + _ROWS, n))
        of = np.arange(part.start, part.stop) // CHUNK
        share = np.concatenate([_bits(position[part], (21, 11, 0), (11, 10, 11)),
                                _bits(scale[part], (21, 11, 0), (11, 10, 11)),
                                _bits(color[part], (24, 16, 8), (8, 8, 8))], axis=1)
        values = low[of] * (1 - share) + high[of] * share
        means[part], scales[part] = values[:, :3], np.exp(values[:, 3:6])
        sh[part, 0] = dc_of_color(values[:, 6:])
        opacities[part] = _bits(color[part], (0,), (8,))[:, 0]
        three = (_bits(rotation[part], (20, 10, 0), (10, 10, 10)) - 0.5) * 2**0.5
        quaternions[part] = smallest_three(three, rotation[part] >> 30)
    return RawSplats(means, scales, quaternions, opacities, sh)


def _bits(words: NDArray, shifts: tuple[int, ...], widths: tuple[int, ...]) -> NDArray[np.float64]:
    """Bit fields as shares of their largest value, [N, fields]."""
    return np.stack([((words >> s) & ((1 << w) - 1)) / ((1 << w) - 1) for s, w in zip(shifts, widths, strict=True)],
                    axis=1)
