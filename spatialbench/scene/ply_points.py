"""Point clouds in PLY: they have no surface to anchor, walk on or score, and are read to say what they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, EmptyWorldError, UnsupportedFormatError
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.load import PRIORS
from spatialbench.scene.log import MAX_VERTICES, ReadLog
from spatialbench.scene.ply import linear_colors
from spatialbench.scene.ply_header import parse_ply_header
from spatialbench.scene.ply_rows import read_tables
from spatialbench.types import ImportReport, Scene

__all__ = ["PointCloud", "load_points"]

_TODO = "Export it again"


@dataclass(frozen=True, eq=False)
class PointCloud:
    """A cloud as a scene without geometry, and its points.

    Attributes
    ----------
    scene : its report is of the kind ``points``; ``n_vertices`` counts the points.
    positions : [N,3] source frame, finite.
    colors : [N,4] linear RGBA, or None.
    """

    scene: Scene
    positions: NDArray[np.float64]
    colors: NDArray[np.float32] | None


def load_points(path: Path) -> PointCloud:
    """Read a PLY of points without faces. Points that are not finite are left out.

    Raises
    ------
    MissingInputError : no such file.
    CorruptInputError : rows that do not match the header, or no coordinates.
    UnsupportedFormatError : more points than a world may have vertices.
    EmptyWorldError : no finite point.
    """
    where, log = str(path), ReadLog(format="ply")
    folder = WorldFolder(path, log)
    data = folder.read_main()
    header = parse_ply_header(data, where)
    vertex = header.element("vertex")
    if vertex is None or any(c not in vertex.names for c in "xyz") or any(p.count_type for p in vertex.properties):
        raise CorruptInputError("its vertices are no points with x, y and z", where=where, todo=_TODO)
    if len(data) >= vertex.count > MAX_VERTICES:
        raise UnsupportedFormatError(f"has {vertex.count:,} points, more than {MAX_VERTICES:,}", where=where,
                                     todo="Thin it out")
    log.details["encoding"] = {"": "text", "<": "binary, little-endian", ">": "binary, big-endian"}[header.order]
    table = read_tables(data, header, ("vertex",), where)["vertex"]
    positions = np.stack([np.asarray(table.columns[c].values, dtype=np.float64) for c in "xyz"], axis=1)
    colors = linear_colors(table, lambda rows: rows)
    finite = np.isfinite(positions).all(axis=1)
    log.repair("points_not_finite", int((~finite).sum()), "dropped")
    if not finite.any():
        raise EmptyWorldError(f"none of its {len(positions):,} points is finite", where=where, todo=_TODO)
    positions, colors = positions[finite], None if colors is None else colors[finite]
    up, unit = PRIORS["ply"]
    report = ImportReport(
        kind="points", format="ply", files=log.files, n_vertices=len(positions), has_color=colors is not None,
        bounds=[positions.min(axis=0).tolist(), positions.max(axis=0).tolist()], repairs=list(log.repairs.values()),
        warnings=log.warnings, details=log.details)
    return PointCloud(Scene(path, None, np.array(up), unit, report), positions, colors)
