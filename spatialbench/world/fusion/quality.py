"""How well a fused mesh stands for what was rendered."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import TriangleMesh
from spatialbench.world.fusion.grid import Grid
from spatialbench.world.fusion.volume import NEAR_SURFACE, UNSEEN, Volume

__all__ = ["Comparison", "FreeSpace", "compare", "double_layers", "free_space", "least_distance"]

_ACROSS = 128
"""Pixels across a face that are compared, at least where it has so many."""
_FEW = 0.005
"""Share of the pixels up to which what can be seen through is no more than the edges of things."""
_POINTS = 4
"""Of one piece of work."""
_RAYS = 32
"""Rays across a face that look for a second layer."""
_LAYERS = 6
"""Surfaces that a ray goes through: the first two, and what folds of a rough sheet put between them."""
_SAME = 0.1
"""Hits closer than this, in voxels across the first, are one sheet met where its faces join."""


@dataclass(frozen=True)
class Comparison:
    """The last figures of ``FusionQuality``: shares; bias and spread in m."""

    holes: float | None
    false_surface: float | None
    bias: float | None
    spread: float | None
    far: float | None


def compare(mesh: TriangleMesh | None, views: Iterable[tuple[NDArray[np.float64], NDArray[np.float32]]],
            far: float, grid: Grid | None = None) -> Comparison:
    """Rendered depth against the mesh, along rays through pixel centres.

    Parameters
    ----------
    views : positions [3] with the depth [6,S,S] (row, column) of their six faces, 0 where nothing is. Every k-th
        row and column is looked at, so that at least 128 x 128 pixels a face are (all of a smaller one).
    far : difference, m, from which on a pair counts as far.
    grid : what was fused; what is seen outside of it cannot be in the mesh, and is no hole. None: all can be, and
        without a mesh all is missed.
    """
    from spatialbench.renderers.raycast import MeshRayCaster
    from spatialbench.renderers.trajectories import cube_faces

    caster = None if mesh is None else MeshRayCaster(mesh.vertices, mesh.faces)
    with_depth = without = missed = false = 0
    differences = [np.zeros(0)]
    for position, depths in views:
        step = max(1, depths.shape[1] // _ACROSS)
        for camera, image in zip(cube_faces(position, depths.shape[1]), depths, strict=True):
            seen = image[step // 2::step, step // 2::step].ravel().astype(np.float64)
            at = (np.arange(camera.width)[step // 2::step] + 0.5 - camera.cx) / camera.fx
            x, y = (a.ravel() for a in np.meshgrid(at, at))
            rays = np.stack([x, y, np.ones_like(x)], axis=1)
            there = seen > 0
            if caster is None:
                z = np.full(len(seen), np.inf)
            else:
                z = caster.first_hits(position, rays @ camera.pose.rotation.T).distance / np.linalg.norm(rays, axis=1)
            hit = np.isfinite(z)
            held = there
            if grid is not None and caster is not None:
                held = there & _within(grid, position + (seen[:, None] * rays) @ camera.pose.rotation.T)
            with_depth += int(held.sum())
            without += int((~there).sum())
            missed += int((held & ~hit).sum())
            false += int((~there & hit).sum())
            differences.append((seen - z)[there & hit])
    d = np.concatenate(differences)
    open_enough = without > _FEW * (with_depth + without)
    return Comparison(missed / with_depth if with_depth else None, false / without if open_enough else None,
                      float(np.median(d)) if len(d) else None,
                      float(np.percentile(np.abs(d), 95)) if len(d) else None,
                      float((np.abs(d) > far).mean()) if len(d) else None)


def _within(grid: Grid, points: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(((points >= grid.low) & (points <= grid.high)).all(axis=1))


def double_layers(mesh: TriangleMesh, positions: Iterable[NDArray[np.float64]], voxel: float) -> float | None:
    """Share of the rays from ``positions`` [3] whose first surface has another one close behind; None: no ray hits.

    Both are seen from their fronts, less than two voxels apart measured across the first. A slab is seen from front
    and back, so that thin things do not count; sheets that stand for one surface twice do, and folds of a rough one.
    32 x 32 rays of each of the six faces of a place.
    """
    from spatialbench.renderers.raycast import MeshRayCaster
    from spatialbench.renderers.trajectories import cube_faces
    from spatialbench.world.probe import camera_rays

    caster = MeshRayCaster(mesh.vertices, mesh.faces)
    normals = mesh.area_vectors()
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    met = double = 0
    for position in positions:
        origins, directions = camera_rays(cube_faces(position, _RAYS))
        directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        hits = caster.all_hits(origins, directions, _LAYERS)
        towards = -np.einsum("ij,ij->i", normals[hits.face], directions[hits.ray])
        rays, first = np.unique(hits.ray, return_index=True)
        of = np.repeat(first, np.diff(np.append(first, len(hits.ray))))
        gap = (hits.distance - hits.distance[of]) * towards[of]
        second = (towards[of] > 0) & (towards > 0) & (gap > _SAME * voxel) & (gap < 2 * voxel)
        met += len(rays)
        double += len(np.unique(hits.ray[second]))
    return double / met if met else None


@dataclass(frozen=True)
class FreeSpace:
    """Observed free space in the components (by faces of voxels) that hold a viewpoint.

    Attributes
    ----------
    volume : m3.
    coverage : of the faces between a free voxel and one that is not, the share that has a surface there; the rest
        borders on what was not seen. The grid's own sides are no border. None without a border.
    """

    volume: float
    coverage: float | None


def free_space(volume: Volume, viewpoints: NDArray[np.float64]) -> FreeSpace:
    """How large it is, and how much of its border was seen, from viewpoints [V,3]."""
    from scipy import ndimage

    labels, found = ndimage.label(volume.free())
    connected = np.zeros(found + 1, np.bool_)
    for point in viewpoints:
        at = volume.grid.index(point)
        if at is not None:
            connected[labels[at]] = True
    connected[0] = False
    free = connected[labels]
    del labels
    size = float(np.count_nonzero(free) * volume.grid.voxel**3)
    surface = _borders(free, (volume.state == NEAR_SURFACE) & ~(volume.distance > 0))
    unseen = _borders(free, volume.state == UNSEEN)
    return FreeSpace(size, surface / (surface + unseen) if surface + unseen else None)


def _borders(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> int:
    """Faces that a voxel of one has in common with a voxel of the other."""
    total = 0
    for axis in range(3):
        u, v = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
        total += int(np.count_nonzero(u[1:] & v[:-1])) + int(np.count_nonzero(u[:-1] & v[1:]))
    return total


def least_distance(mesh: TriangleMesh, points: NDArray[np.float64], cell: float) -> float:
    """Of any of the points [P,3] to the mesh, m; each face fits into a cube of ``cell`` m."""
    from spatialbench.renderers._threads import in_chunks, thread_count
    from spatialbench.world.fusion import _kernels

    # A little more than the diagonal: vertices come from float32.
    reach = 1.001 * math.sqrt(3.0) * cell
    parts = in_chunks(lambda a, b: _kernels.mesh_distances(points[a:b], mesh.vertices, mesh.faces, reach),
                      len(points), _POINTS, thread_count())
    return float(min(part.min() for part in parts))
