"""From the bytes of a splat file to a scene."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.log import ReadLog
from spatialbench.scene.sidecar import read_side_car
from spatialbench.scene.splats.dotsplat import read_dotsplat
from spatialbench.scene.splats.judge import judge, report
from spatialbench.scene.splats.ply import read_splat_ply
from spatialbench.scene.splats.raw import RawSplats
from spatialbench.scene.splats.sog import read_sog
from spatialbench.scene.splats.spz import read_spz
from spatialbench.types import Scene

__all__ = ["SPLAT_KINDS", "load_splats"]

SPLAT_KINDS: dict[str, tuple[float, float, float]] = {
    "splat-ply": (0.0, -1.0, 0.0), "splat": (0.0, -1.0, 0.0), "sog": (0.0, -1.0, 0.0), "spz": (0.0, 1.0, 0.0)}
"""Kinds that are read, with the up axis that the convention of each gives (design, section 7); none gives a unit."""


def load_splats(kind: str, path: Path, folder: WorldFolder, log: ReadLog) -> Scene:
    """Read splats of one of ``SPLAT_KINDS`` in their source frame, activated, without rows that cannot be drawn.

    Raises
    ------
    As :func:`spatialbench.scene.load_scene`.
    """
    where = str(path)
    raw = _read(kind, folder, log, where)
    side = read_side_car(folder, (), log)
    if raw.up is not None and side.up is None:
        side = replace(side, up=raw.up, up_source="file")
    splats = judge(raw, log, where)
    return Scene(path=path, mesh=None, prior_up=np.array(SPLAT_KINDS[kind]), prior_unit_m=None,
                 report=report(splats, log), side=side, splats=splats)


def _read(kind: str, folder: WorldFolder, log: ReadLog, where: str) -> RawSplats:
    data = folder.read_main()
    if kind == "spz":
        return read_spz(data, log, where)
    if kind == "splat":
        return read_dotsplat(data, log, where)
    if kind == "sog":
        return read_sog(data, folder, log, where)
    return read_splat_ply(data, log, where)
