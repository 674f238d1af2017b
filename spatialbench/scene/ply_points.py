"""Points of a PLY without faces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.log import MAX_VERTICES, ReadLog
from spatialbench.scene.ply import linear_colors
from spatialbench.scene.ply_header import parse_ply_header
from spatialbench.scene.ply_rows import read_tables

__all__ = ["read_ply_points"]


def read_ply_points(data: bytes, log: ReadLog, where: str) -> tuple[NDArray[np.float64], NDArray[np.float32] | None]:
    """Positions [N,3] and linear RGBA [N,4], or None without colours.

    Raises
    ------
    CorruptInputError : rows that do not match the header, or no coordinates.
    UnsupportedFormatError : more points than a world may have vertices.
    """
    header = parse_ply_header(data, where)
    vertex = header.element("vertex")
    if vertex is None or any(c not in vertex.names for c in "xyz") or any(p.count_type for p in vertex.properties):
        raise CorruptInputError("its vertices are no points with x, y and z", where=where, todo="Export it again")
    if len(data) >= vertex.count > MAX_VERTICES:
        raise UnsupportedFormatError(f"has {vertex.count:,} points, more than {MAX_VERTICES:,}", where=where,
                                     todo="Thin it out")
    log.details["encoding"] = {"": "text", "<": "binary, little-endian", ">": "binary, big-endian"}[header.order]
    table = read_tables(data, header, ("vertex",), where)["vertex"]
    positions = np.stack([np.asarray(table.columns[c].values, dtype=np.float64) for c in "xyz"], axis=1)
    return positions, linear_colors(table, lambda rows: rows)
