"""From the bytes of a splat file to a scene."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from spatialbench.scene.checks import check_splats
from spatialbench.scene.folder import FileBytes, WorldFolder
from spatialbench.scene.log import ReadLog
from spatialbench.scene.sidecar import read_side_car
from spatialbench.scene.splats.blocks import thin
from spatialbench.scene.splats.dotsplat import read_dotsplat
from spatialbench.scene.splats.judge import judge, report_splats
from spatialbench.scene.splats.ksplat import read_ksplat
from spatialbench.scene.splats.ply import read_splat_ply
from spatialbench.scene.splats.raw import RawSplats
from spatialbench.scene.splats.sog import read_sog
from spatialbench.scene.splats.spz import read_spz
from spatialbench.types import Scene, SideCar

__all__ = ["SPLAT_KINDS", "load_splats"]

SPLAT_KINDS: dict[str, tuple[float, float, float]] = {
    "splat-ply": (0.0, -1.0, 0.0), "splat": (0.0, -1.0, 0.0), "ksplat": (0.0, -1.0, 0.0), "sog": (0.0, -1.0, 0.0),
    "spz": (0.0, 1.0, 0.0)}
"""Kinds that are read, with the up axis that the convention of each gives (design, section 7); none gives a unit."""

_IN_PLACE = ("splat-ply", "splat", "ksplat")
"""Kinds whose files are mapped; the others are packed."""


def load_splats(kind: str, path: Path, folder: WorldFolder, log: ReadLog, most: int | None = None,
                drop_outliers: bool = False) -> Scene:
    """Read splats of one of ``SPLAT_KINDS`` in their source frame, activated, without rows that cannot be drawn.

    ``most`` is how many are read at the most (see ``thinned``).

    Raises
    ------
    As :func:`spatialbench.scene.load_scene`.
    """
    where = str(path)
    with folder.mapped_main() if kind in _IN_PLACE else nullcontext(folder.read_main) as give:
        raw = _read(kind, give(), folder, log, where, most)
        side = _side(raw, read_side_car(folder, raw.cameras, log))
        splats = check_splats(judge(raw, log, where), log, drop_outliers, where)
        del raw
    return Scene(path=path, mesh=None, prior_up=np.array(SPLAT_KINDS[kind]), prior_unit_m=None,
                 report=report_splats(splats, log), side=side, splats=splats)


def _side(raw: RawSplats, side: SideCar) -> SideCar:
    """What the side-car says, filled up by what the file itself does."""
    if raw.up is not None and side.up is None:
        side = replace(side, up=raw.up, up_source="file")
    if raw.unit_m is not None and side.unit_m is None:
        side = replace(side, unit_m=raw.unit_m, unit_source="file")
    return side


def _read(kind: str, data: FileBytes, folder: WorldFolder, log: ReadLog, where: str, most: int | None) -> RawSplats:
    """Apart, so that the file is let go of before its splats are looked at."""
    if kind == "splat-ply":
        return read_splat_ply(data, log, where, most)
    if kind in ("splat", "ksplat"):
        return thin((read_dotsplat if kind == "splat" else read_ksplat)(data, log, where), most, log)
    assert isinstance(data, bytes)
    return thin(read_spz(data, log, where) if kind == "spz" else read_sog(data, folder, log, where), most, log)
