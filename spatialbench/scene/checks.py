"""What is done with every world once its rows are judged: sky, topology, outliers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.log import ReadLog
from spatialbench.scene.outliers import check_mesh_outliers, check_splat_outliers
from spatialbench.scene.sky import flag_sky, flag_splat_sky
from spatialbench.scene.topology import report_topology
from spatialbench.scene.weld import Welded
from spatialbench.types import GaussianSplats, TriangleMesh

__all__ = ["check_mesh", "check_splats"]


def check_mesh(mesh: TriangleMesh, log: ReadLog, drop_outliers: bool = False, where: str = "",
               area: NDArray[np.float64] | None = None, welded: Welded | None = None) -> TriangleMesh:
    """Flag the sky, count the topology, look for outliers; nothing is dropped unless it is asked for.

    ``area`` [F] and ``welded`` are what is known of its faces already.

    Raises
    ------
    EmptyWorldError : outliers are to be dropped and nothing would be left.
    """
    mesh = flag_sky(mesh, log)
    return check_mesh_outliers(mesh, report_topology(mesh, log, welded), log, drop_outliers, where, area)


def check_splats(splats: GaussianSplats, log: ReadLog, drop_outliers: bool = False, where: str = "") -> GaussianSplats:
    """Flag the sky, look for outliers; nothing is dropped unless it is asked for.

    Raises
    ------
    EmptyWorldError : outliers are to be dropped and nothing would be left.
    """
    return check_splat_outliers(flag_splat_sky(splats, log), log, drop_outliers, where)
