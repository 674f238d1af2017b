"""Surfaces out of a fused volume, only where one was seen; small pieces are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import TriangleMesh
from spatialbench.world.fusion.volume import NEAR_SURFACE, Volume

__all__ = ["Sheets", "edge_components", "extract_sheets", "surface_cells", "without_small_pieces"]

_NO_AREA = 1e-9
"""Faces with less area than this, in square voxels, are degenerate."""


@dataclass(frozen=True, eq=False)
class Sheets:
    """What was extracted.

    Attributes
    ----------
    mesh : world frame, faces wound so that they face free space; None when nothing is left.
    pieces_dropped, faces_dropped : components that were too small.
    """

    mesh: TriangleMesh | None
    pieces_dropped: int = 0
    faces_dropped: int = 0


def extract_sheets(volume: Volume, min_faces: float) -> Sheets:
    """The zero of the distance in the cells of ``surface_cells``, by marching cubes (real-worlds.md section 2).

    Nothing is carved: what was not seen is neither solid nor free, so an open room stays open. Pieces (faces
    connected by edges) with fewer than ``min_faces`` faces are dropped, and so are faces without area.
    """
    from skimage.measure import marching_cubes

    cells = surface_cells(volume)
    if not cells.any():
        return Sheets(None)
    # A cell is gone through when the mask is true at its highest corner.
    mask = np.zeros(volume.grid.shape, np.bool_)
    mask[1:, 1:, 1:] = cells
    del cells
    corners, faces, _, _ = marching_cubes(volume.distance, 0.0, mask=mask, gradient_direction="descent")
    del mask
    vertices = volume.grid.low + volume.grid.voxel * (corners.astype(np.float64) + 0.5)
    return without_small_pieces(TriangleMesh(vertices, faces), min_faces, volume.grid.voxel)


def without_small_pieces(mesh: TriangleMesh, min_faces: float, voxel: float) -> Sheets:
    """The mesh without faces that have no area, and without pieces of fewer than ``min_faces`` faces."""
    area = np.linalg.norm(mesh.area_vectors(), axis=1)
    mesh = mesh.select(area > _NO_AREA * voxel**2)
    piece = edge_components(mesh.faces)
    size = np.bincount(piece)
    small = size < min_faces
    if small.all():
        return Sheets(None, len(size), len(mesh.faces))
    return Sheets(mesh.select(~small[piece]), int(small.sum()), int(size[small].sum()))


def surface_cells(volume: Volume) -> NDArray[np.bool_]:
    """[NX-1,NY-1,NZ-1] cells (between eight voxel centres) that a surface goes through.

    Something of the cell is free, and something lies behind a surface by at least one vote near it. The border
    between free space and what nobody saw is none: neither where it is far from surfaces, nor where it stands on
    one at the edge of what was seen.
    """
    behind = _any_corner((volume.state == NEAR_SURFACE) & (volume.distance < 0))
    return np.asarray(behind & _any_corner(volume.distance > 0))


def _any_corner(of: NDArray[np.bool_]) -> NDArray[np.bool_]:
    of = of[1:] | of[:-1]
    of = of[:, 1:] | of[:, :-1]
    return np.asarray(of[:, :, 1:] | of[:, :, :-1])


def edge_components(faces: NDArray[np.int32]) -> NDArray[np.int32]:
    """[F] number of the piece of each face [F,3]; faces that share an edge are of one piece, 0 is the first's."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    count = len(faces)
    if not count:
        return np.zeros(0, np.int32)
    sides = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1).astype(np.int64)
    key = sides[:, 0] * (int(faces.max()) + 1) + sides[:, 1]
    order = np.argsort(key, kind="stable")
    same = key[order[1:]] == key[order[:-1]]
    a, b = order[:-1][same] % count, order[1:][same] % count
    graph = coo_matrix((np.ones(len(a), np.bool_), (a, b)), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], np.int32)
