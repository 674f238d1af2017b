"""3DGS PLY: one row per splat with named columns, text or binary of either byte order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.log import ReadLog
from spatialbench.scene.ply_header import PlyElement, PlyHeader, parse_ply_header
from spatialbench.scene.ply_rows import read_tables
from spatialbench.scene.splats.compressed import read_compressed
from spatialbench.scene.splats.raw import BLOCK, RawSplats, check_count, sigmoid
from spatialbench.scene.splats.rows import fixed_rows, is_antialiased, note_comments, rest_columns

__all__ = ["read_splat_ply"]

_TODO = "Export it again"
_XYZ = ["x", "y", "z"]
_ROTATION = ["rot_0", "rot_1", "rot_2", "rot_3"]
_SCALE = ["scale_0", "scale_1", "scale_2"]
_COLOR = ["f_dc_0", "f_dc_1", "f_dc_2"]
_NORMAL = {"nx", "ny", "nz"}


def read_splat_ply(data: bytes, log: ReadLog, where: str) -> RawSplats:
    """Read a 3DGS PLY, columns by name in any order, or a PlayCanvas compressed PLY.

    Scales are stored as logarithms, opacities as logits, ``f_rest`` by channel (all of red first). A file without
    ``scale_2`` holds flat (2DGS) splats.

    Raises
    ------
    CorruptInputError : a column that is missing or a list, a number of ``f_rest`` columns that is no degree
        from 0 to 4, fewer rows than announced. EmptyWorldError : no rows.
    """
    header = parse_ply_header(data, where)
    log.details["encoding"] = {"": "text", "<": "binary, little-endian", ">": "binary, big-endian"}[header.order]
    note_comments(header, log)
    if header.element("chunk"):
        return read_compressed(data, header, log, where)
    log.details["format_version"] = "3DGS PLY"
    vertex = header.element("vertex")
    if vertex is None:
        raise CorruptInputError("has no element 'vertex'", where=where, todo=_TODO)
    rest, scale = _check(vertex, log, where)
    check_count(min(vertex.count, len(data)), where)  # a row takes a byte at the least; reading says what is short
    columns = _columns(data, header, vertex, log, where)
    return _assemble(columns, vertex.count, rest, scale, log, is_antialiased(header))


def _check(vertex: PlyElement, log: ReadLog, where: str) -> tuple[list[str], list[str]]:
    """The columns of harmonics in the order [K,3], and those of scales."""
    for p in vertex.properties:
        if p.count_type:
            raise CorruptInputError(f"its vertices have the list property '{p.name}', which splats have not",
                                    where=where, todo=_TODO)
    names = set(vertex.names)
    missing = [n for n in (*_XYZ, "opacity", *_SCALE[:2], *_ROTATION, *_COLOR) if n not in names]
    if missing:
        raise CorruptInputError(f"its splats have no property {', '.join(missing)}", where=where, todo=_TODO)
    scale = _SCALE if "scale_2" in names else _SCALE[:2]
    if len(scale) == 2:
        log.warn("the splats are flat (2DGS, no scale_2): their third axis is taken as 0")
        log.details["flat"] = True
    rest = rest_columns(vertex.names, where)
    used = {*_XYZ, "opacity", *scale, *_ROTATION, *_COLOR, *rest, *_NORMAL}
    unused = [n for n in vertex.names if n not in used]
    if unused:
        log.details["columns_ignored"] = unused[:20]
    if "filter_3D" in unused:
        log.warn("the column filter_3D (the trainer's smoothing of small splats) is not applied; "
                 "bake it in on export")
    return rest, scale


class _Columns:
    """Blocks of named columns out of a matrix [N,P], rows with fields, or separate arrays."""

    def __init__(self, names: list[str], matrix: NDArray | None, fields: dict[str, NDArray]) -> None:
        self._at = {n: i for i, n in enumerate(names)}
        self._matrix, self._fields = matrix, fields

    def kind(self, names: Sequence[str]) -> type:
        """float64 where a column has more digits than float32."""
        kinds = [self._matrix.dtype] if self._matrix is not None else [self._fields[n].dtype for n in names]
        return np.float64 if any(k.itemsize > 4 for k in kinds) else np.float32

    def take(self, names: Sequence[str], start: int, stop: int) -> NDArray:
        """[stop - start, len(names)] as float32, or float64 where the file has more digits."""
        if self._matrix is not None:
            at = [self._at[n] for n in names]
            return np.take(self._matrix[start:stop], at, axis=1, mode="clip").astype(np.float32, copy=False)
        kind = self.kind(names)
        return np.stack([self._fields[n][start:stop].astype(kind) for n in names], axis=1)


def _columns(data: bytes, header: PlyHeader, vertex: PlyElement, log: ReadLog, where: str) -> _Columns:
    rows = fixed_rows(data, header, "vertex", log, where) if header.order else None
    if rows is None:  # text, or lists of unknown length stand before the splats
        table = read_tables(data, header, ("vertex",), where)["vertex"]
        return _Columns(vertex.names, None, {n: c.values for n, c in table.columns.items()})
    if all(p.type == "f4" for p in vertex.properties):
        return _Columns(vertex.names, rows.view(header.order + "f4").reshape(len(rows), -1), {})
    return _Columns(vertex.names, None, {n: rows[f"v{i}"] for i, n in enumerate(vertex.names)})


def _assemble(columns: _Columns, n: int, rest: list[str], scale: list[str], log: ReadLog,
              antialiased: bool) -> RawSplats:
    harmonics = [*_COLOR, *rest]
    means: NDArray = np.zeros((n, 3), dtype=columns.kind(_XYZ))
    scales = np.zeros((n, 3), dtype=np.float32)
    quaternions = np.zeros((n, 4), dtype=np.float32)
    logits = np.zeros(n, dtype=np.float32)
    sh = np.zeros((n, len(harmonics)), dtype=np.float32)
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        means[start:stop] = columns.take(_XYZ, start, stop)
        # In float32 whatever the file has, so that every encoding of the same numbers gives the same bits.
        scales[start:stop, :len(scale)] = np.exp(columns.take(scale, start, stop).astype(np.float32, copy=False))
        quaternions[start:stop] = columns.take(_ROTATION, start, stop)
        logits[start:stop] = columns.take(["opacity"], start, stop)[:, 0]
        sh[start:stop] = columns.take(harmonics, start, stop)
    known = logits[~np.isnan(logits)]
    if len(known) and known.min() >= 0 and 0 < known.max() <= 1:
        log.details["opacity_looks_activated"] = True
        log.warn("every opacity lies within [0, 1]: it looks already activated (no logit). It is read as logits "
                 "all the same, which shows the splats half transparent")
    return RawSplats(means, scales, quaternions, sigmoid(logits), sh.reshape(n, -1, 3), logit=True,
                     antialiased=antialiased)
