"""3DGS PLY: one row per splat with named columns, text or binary of either byte order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.folder import FileBytes
from spatialbench.scene.log import ReadLog
from spatialbench.scene.ply_header import PlyElement, PlyHeader, parse_ply_header
from spatialbench.scene.ply_rows import read_tables
from spatialbench.scene.splats.blocks import thin, thinned
from spatialbench.scene.splats.compressed import read_compressed
from spatialbench.scene.splats.raw import RawSplats, check_count, dc_of_color, sigmoid
from spatialbench.scene.splats.rows import fixed_rows, is_antialiased, note_comments, read_frame, rest_columns

__all__ = ["LOOKS_ACTIVATED", "read_splat_ply"]

LOOKS_ACTIVATED = "looks already activated"
"""In that warning, which is of no use where somebody has said so."""

_TODO = "Export it again"
_XYZ = ("x", "y", "z")
_RGB = ("red", "green", "blue")
_NORMAL = {"nx", "ny", "nz"}
_OTHER_NAMES = {"rot_": "rotation_", "scale_": "scaling_", "f_dc_": "features_dc_", "f_rest_": "features_rest_"}
"""What some exporters call the columns of a trainer's PLY; the meaning is the same."""


@dataclass(frozen=True)
class _Names:
    """Columns by what they hold; ``rest`` in the order [K,3]; ``plain_color``: bytes from 0 to 255, no harmonics."""

    scale: list[str]
    rotation: list[str]
    color: list[str]
    rest: list[str]
    plain_color: bool = False
    position: Sequence[str] = _XYZ
    opacity: str = "opacity"


def read_splat_ply(data: FileBytes, log: ReadLog, where: str, most: int | None = None) -> RawSplats:
    """Read a 3DGS PLY, columns by name in any order, or a PlayCanvas compressed PLY.

    Scales are stored as logarithms, opacities as logits, ``f_rest`` by channel (all of red first). A file without
    ``scale_2`` holds flat (2DGS) splats. ``most`` is how many splats are read at the most (see ``thinned``).

    Raises
    ------
    CorruptInputError : a column that is missing or a list, a number of ``f_rest`` columns that is no degree
        from 0 to 4, fewer rows than announced. EmptyWorldError : no rows.
    """
    header = parse_ply_header(data, where)
    log.details["encoding"] = {"": "text", "<": "binary, little-endian", ">": "binary, big-endian"}[header.order]
    note_comments(header, log)
    if header.element("chunk"):
        return thin(read_compressed(data, header, log, where), most, log)
    log.details["format_version"] = "3DGS PLY"
    vertex = header.element("vertex")
    if vertex is None:
        raise CorruptInputError("has no element 'vertex'", where=where, todo=_TODO)
    names = _check(vertex, log, where)
    check_count(min(vertex.count, len(data)), where)  # a row takes a byte at the least; reading says what is short
    if header.order:
        fixed_rows(data, header, "vertex", log, where)  # the rows are there, before memory is taken to choose some
    kept = thinned(vertex.count, most, log) if vertex.count <= len(data) else None  # else reading says what is short
    columns = _columns(data, header, vertex, kept, log, where)
    raw = _assemble(columns, vertex.count if kept is None else len(kept), names, log, is_antialiased(header))
    read_frame(header, raw, log)
    return raw


def _check(vertex: PlyElement, log: ReadLog, where: str) -> _Names:
    """Which columns hold what."""
    for p in vertex.properties:
        if p.count_type:
            raise CorruptInputError(f"its vertices have the list property '{p.name}', which splats have not",
                                    where=where, todo=_TODO)
    names = set(vertex.names)
    stem = {usual: usual if f"{usual}0" in names else other if f"{other}0" in names else usual
            for usual, other in _OTHER_NAMES.items()}
    renamed = [f"{other}*" for usual, other in stem.items() if other != usual]
    if renamed:
        log.details["columns_renamed"] = renamed
    scale, rotation, color = ([f"{stem[s]}{i}" for i in range(k)] for s, k in (("scale_", 3), ("rot_", 4),
                                                                              ("f_dc_", 3)))
    plain = not names & set(color) and {p.name for p in vertex.properties if p.type == "u1"} >= {*_RGB}
    if plain:
        color = list(_RGB)
        log.warn("the splats have plain colours (red, green, blue) in place of harmonics")
    missing = [n for n in (*_XYZ, "opacity", *scale[:2], *rotation, *color) if n not in names]
    if missing:
        raise CorruptInputError(f"its splats have no property {', '.join(missing)}", where=where, todo=_TODO)
    if scale[2] not in names:
        scale.pop()
        log.warn("the splats are flat (2DGS, no scale_2): their third axis is taken as 0")
        log.details["flat"] = True
    rest = rest_columns(vertex.names, where, stem["f_rest_"])
    unused = [n for n in vertex.names if n not in {*_XYZ, "opacity", *scale, *rotation, *color, *rest, *_NORMAL}]
    if unused:
        log.details["columns_ignored"] = unused[:20]
    if "filter_3D" in unused:
        log.warn("the column filter_3D (the trainer's smoothing of small splats) is not applied; "
                 "bake it in on export")
    return _Names(scale, rotation, color, rest, plain)


class _Columns:
    """Blocks of named columns out of a matrix [N,P], rows with fields, or separate arrays.

    ``kept`` are the rows that are read, None for all of them.
    """

    def __init__(self, names: list[str], matrix: NDArray | None, fields: dict[str, NDArray],
                 kept: NDArray[np.int64] | None) -> None:
        self._at = {n: i for i, n in enumerate(names)}
        self._matrix, self._fields, self._kept = matrix, fields, kept

    def kind(self, names: Sequence[str]) -> type:
        """float64 where a column has more digits than float32."""
        kinds = [self._matrix.dtype] if self._matrix is not None else [self._fields[n].dtype for n in names]
        return np.float64 if any(k.itemsize > 4 for k in kinds) else np.float32

    def copy(self, names: Sequence[str], part: slice, into: NDArray) -> None:
        """Fill ``into`` [rows of ``part``, len(names)] with the columns."""
        rows: slice | NDArray[np.int64] = part if self._kept is None else self._kept[part]
        if self._matrix is None:
            for i, n in enumerate(names):
                into[:, i] = self._fields[n][rows]
        elif self._matrix.dtype == into.dtype and into.flags.c_contiguous:
            np.take(self._matrix[rows], [self._at[n] for n in names], axis=1, mode="clip", out=into)
        else:
            into[...] = np.take(self._matrix[rows], [self._at[n] for n in names], axis=1)


def _columns(data: FileBytes, header: PlyHeader, vertex: PlyElement, kept: NDArray[np.int64] | None, log: ReadLog,
             where: str) -> _Columns:
    rows = fixed_rows(data, header, "vertex", log, where) if header.order else None
    if rows is None:  # text, or lists of unknown length stand before the splats
        table = read_tables(bytes(data), header, ("vertex",), where)["vertex"]
        return _Columns(vertex.names, None, {n: c.values for n, c in table.columns.items()}, kept)
    if all(p.type == "f4" for p in vertex.properties):
        matrix = rows.view(header.order + "f4").reshape(len(rows), -1)
        return _Columns(vertex.names, matrix, {}, kept)
    return _Columns(vertex.names, None, {n: rows[f"v{i}"] for i, n in enumerate(vertex.names)}, kept)


def _assemble(columns: _Columns, n: int, names: _Names, log: ReadLog, antialiased: bool) -> RawSplats:
    means: NDArray = np.empty((n, 3), dtype=columns.kind(names.position))
    scales, quaternions = np.zeros((n, 3), dtype=np.float32), np.empty((n, 4), dtype=np.float32)
    logits, opacities = np.empty((n, 1), dtype=np.float32), np.empty(n, dtype=np.float32)
    sh = np.empty((n, 1 + len(names.rest) // 3, 3), dtype=np.float32)
    flat = sh.reshape(n, -1)

    def block(part: slice) -> None:
        columns.copy(names.position, part, means[part])
        # In float32 whatever the file has, so that every encoding of the same numbers gives the same bits.
        size = scales[part, :len(names.scale)]
        columns.copy(names.scale, part, size)
        np.exp(size, out=size)
        columns.copy(names.rotation, part, quaternions[part])
        columns.copy([names.opacity], part, logits[part])
        opacities[part] = sigmoid(logits[part, 0])
        columns.copy([*names.color, *names.rest], part, flat[part])

    in_blocks(n, block)
    known = logits[~np.isnan(logits)]
    if len(known) and known.min() >= 0 and 0 < known.max() <= 1:
        log.details["opacity_looks_activated"] = True
        log.warn(f"every opacity lies within [0, 1]: it {LOOKS_ACTIVATED} (no logit). It is read as logits "
                 "all the same, which shows the splats half transparent")
    if names.plain_color:
        sh[:, 0] = dc_of_color(sh[:, 0].astype(np.float64) / 255)
    return RawSplats(means, scales, quaternions, opacities, sh, logit=True, antialiased=antialiased)
