"""A collision mesh out of anything that renders depth (real-worlds.md section 2; OPEN-3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types import TriangleMesh
from spatialbench.types.protocol_rules import Fusion
from spatialbench.types.world import FusionQuality
from spatialbench.world.fusion.depths import Depths
from spatialbench.world.fusion.grid import Grid, make_grid
from spatialbench.world.fusion.open3d_backend import open3d_sheets, open3d_version
from spatialbench.world.fusion.quality import compare, double_layers, free_space, least_distance
from spatialbench.world.fusion.sheets import extract_sheets
from spatialbench.world.fusion.viewpoints import farthest_places
from spatialbench.world.fusion.volume import fuse_volume

if TYPE_CHECKING:
    from spatialbench.renderers.backends import Renderer

__all__ = ["FusedMesh", "fuse"]


@dataclass(frozen=True, eq=False)
class FusedMesh:
    """What was fused.

    Attributes
    ----------
    mesh : world frame, m; faces face free space. None when no surface was seen.
    viewpoints : [V,3] float64, the start first, then in the order in which they were found.
    quality : how far it can be trusted.
    """

    mesh: TriangleMesh | None
    viewpoints: NDArray[np.float64]
    quality: FusionQuality


def fuse(renderer: Renderer, low: ArrayLike, high: ArrayLike, settings: Fusion, start: ArrayLike = (0, 0, 0), *,
         clipped: float = 0.0, progress: Callable[[int, int], None] | None = None) -> FusedMesh:
    """Look around from places in free space, fuse the depths, extract the surfaces that were seen.

    Deterministic: the same images give the same mesh, whatever the number of threads. No random numbers are drawn.

    Parameters
    ----------
    renderer : of splats or of a mesh, in the world frame (X right, Y forward, Z up, m); asked for depth and alpha.
    low, high : [3] corners of what is fused, m.
    settings : ``Fusion`` of the protocol.
    start : [3] initial camera, the first viewpoint.
    clipped : share of the world outside the corners, for the record.
    progress : is told (viewpoints rendered, viewpoints at most).

    Raises
    ------
    ValueError : corners that are no box, or a start that is no point.
    UsageError : settings that would keep too many images.
    BackendUnavailableError : ``fusion.backend`` is ``open3d``, and it is not there or does not work.
    """
    backend = "fusion" if settings.backend == "fusion" else open3d_version()
    first = np.asarray(start, np.float64)
    if first.shape != (3,) or not np.isfinite(first).all():
        raise ValueError(f"start must be 3 finite numbers, got {start!r}")
    grid = make_grid(low, high, settings.voxel, settings.max_voxels)
    rounds = list(zip(settings.rounds, settings.clearances, strict=True))
    checks = settings.checks if rounds else 0
    most = 1 + sum(settings.rounds)
    done = 0

    def rendered() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, most + checks)

    depths = Depths(renderer, settings, most, rendered)
    depths.add(first)
    coarse = make_grid(low, high, max(settings.coarse_voxel, grid.voxel), settings.max_voxels)
    for count, clearance in rounds:
        for place in _places(coarse, depths, settings, first, count, clearance):
            depths.add(place)
    views = []
    if checks:
        places = _places(coarse, depths, settings, first, checks, rounds[-1][1])
        views = [(place, depths.look(place)) for place in places]
    if progress is not None and done < most + checks:
        progress(most + checks, most + checks)

    volume = fuse_volume(grid, depths, settings)
    free = free_space(volume, depths.positions)
    if settings.backend == "open3d":
        del volume
        sheets = open3d_sheets(depths, grid, settings)
    else:
        sheets = extract_sheets(volume, settings.min_faces)
        del volume
    against = compare(sheets.mesh, views or [(first, depths.kept(0))], 2 * grid.voxel, grid)
    positions = [place for place, _ in views] or [first]
    double = None if sheets.mesh is None else double_layers(sheets.mesh, positions, grid.voxel)
    clearance_found = None if sheets.mesh is None else least_distance(sheets.mesh, depths.positions, grid.voxel)
    quality = FusionQuality(
        viewpoints=len(depths), clearance=clearance_found, voxel=grid.voxel, grid=grid.shape, low=_corner(grid.low),
        high=_corner(grid.high), clipped=clipped, free_volume=free.volume, pieces_dropped=sheets.pieces_dropped,
        faces_dropped=sheets.faces_dropped, checked_from=len(views), holes=against.holes,
        false_surface=against.false_surface, bias=against.bias, spread=against.spread, far=against.far,
        coverage=free.coverage, double_layers=double, backend=backend)
    return FusedMesh(sheets.mesh, depths.positions.copy(), quality)


def _places(grid: Grid, depths: Depths, settings: Fusion, start: NDArray[np.float64], count: int,
            clearance: float) -> NDArray[np.float64]:
    volume = fuse_volume(grid, depths, settings)
    return farthest_places(volume, start, depths.positions, count, clearance, settings.spacing)


def _corner(point: NDArray[np.float64]) -> tuple[float, float, float]:
    x, y, z = (float(c) for c in point)
    return x, y, z
