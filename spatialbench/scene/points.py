"""Point clouds: they have no surface to anchor, walk on or score, and are read to say what they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import EmptyWorldError
from spatialbench.scene.draco import read_drc_points
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.gltf import read_gltf_points
from spatialbench.scene.load import PRIORS
from spatialbench.scene.log import ReadLog
from spatialbench.scene.ply_points import read_ply_points
from spatialbench.scene.sniff import sniff
from spatialbench.types import ImportReport, Scene

__all__ = ["PointCloud", "load_points"]

Points = tuple[NDArray[np.float64], NDArray[np.float32] | None]
_READERS: dict[str, tuple[str, Callable[[bytes, WorldFolder, ReadLog, str], Points | None]]] = {
    "points-ply": ("ply", lambda data, folder, log, where: read_ply_points(data, log, where)),
    "drc": ("drc", lambda data, folder, log, where: read_drc_points(data, where)),
    "glb": ("glb", read_gltf_points), "gltf": ("gltf", read_gltf_points)}
"""By what ``sniff`` says: the format, and what gives positions [N,3] and linear RGBA [N,4], or None for no cloud."""


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


def load_points(path: Path) -> PointCloud | None:
    """Read a PLY, a Draco stream or a glTF with points and no faces; None for everything else. Points that are not
    finite are left out.

    Raises
    ------
    MissingInputError : no such file, or one that it refers to.
    CorruptInputError : rows that do not match the header, no coordinates, and the like.
    UnsupportedFormatError : more points than a world may have vertices.
    EmptyWorldError : no finite point.
    """
    kind = sniff(path).kind
    if kind not in _READERS:
        return None
    name, read = _READERS[kind]
    where, log = str(path), ReadLog(format=name)
    folder = WorldFolder(path, log)
    found = read(folder.read_main(), folder, log, where)
    if found is None:
        return None
    positions, colors = found
    finite = np.isfinite(positions).all(axis=1)
    log.repair("points_not_finite", int((~finite).sum()), "dropped")
    if not finite.any():
        raise EmptyWorldError(f"none of its {len(positions):,} points is finite", where=where, todo="Export it again")
    positions, colors = positions[finite], None if colors is None else colors[finite]
    up, unit = PRIORS[name]
    report = ImportReport(
        kind="points", format=name, files=log.files, n_vertices=len(positions), has_color=colors is not None,
        bounds=[positions.min(axis=0).tolist(), positions.max(axis=0).tolist()], repairs=list(log.repairs.values()),
        warnings=log.warnings, details=log.details)
    return PointCloud(Scene(path, None, np.array(up), unit, report), positions, colors)
