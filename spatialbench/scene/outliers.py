"""Floaters and far outliers: counted and reported; dropped only on request (``--drop-outliers``).

The bulk is the box that the 0.5th and 99.5th percentiles of opacity (splats) or area (meshes) bound along each axis
of the file. Far is what lies beyond ``FAR`` times this box around its middle: a world spread evenly ends at 1.01 times,
one that thins out as a Gaussian has one splat in 10^14 beyond 3 times. By the percentiles, at most 3 % can ever be far:
what holds more is a part of the world; but of a mesh, up to a fifth of the area that lies beyond an empty stretch of
``GAP`` diagonals is left out of the bulk first. What stands for the sky is neither bulk nor outlier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import EmptyWorldError
from spatialbench.scene.blocks import box, in_blocks, median, picked, share_of
from spatialbench.scene.bulk import FAR, SAMPLE, Box, bulk_of, spread, without_far
from spatialbench.scene.floaters import MOST, empty_boxes, ends_of, floating_of, widest
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.sky import sky_faces
from spatialbench.scene.topology import Topology
from spatialbench.scene.weld import referred
from spatialbench.types import GaussianSplats, TriangleMesh

__all__ = ["FAR", "OPAQUE", "Box", "MeshOutliers", "SplatOutliers", "check_mesh_outliers", "check_splat_outliers",
           "mesh_outliers", "splat_outliers"]

OPAQUE = 0.2
"""Opacity above which a splat can be seen (real-worlds.md section 5); fainter ones make no outlier."""
_CELLS = 64  # of the longest side of the bulk
_TINY = 1e-6  # of the area: a square centimetre of a room
_WARN_SHARE = 0.01
_WARN_EXTENT, _WARN_EXTENT_SPLATS = 3.0, 10.0
"""A mesh's footprint reaches to its ends; what is made of splats goes by percentiles, and captures thin out."""


@dataclass(frozen=True, eq=False)
class SplatOutliers:
    """Masks [N] over all splats, and how many of the opaque ones they hold.

    Attributes
    ----------
    far : beyond ``FAR`` times the bulk.
    floating : in small clusters of cells that touch no other; a cell is 1/64 of the bulk's longest side, or twice the
        median of the largest sigmas where that is more. None where more than one in twenty would float: then the
        splats lie too sparsely to tell.
    huge : with a standard deviation of more than half the bulk's longest side; none where that is more than one in
        twenty.
    opaque : number of opaque splats that are not sky.
    extent, extent_without : [3] sides of the box of the opaque ones, with and without the outliers.
    """

    far: NDArray[np.bool_]
    floating: NDArray[np.bool_] | None
    huge: NDArray[np.bool_]
    opaque: int
    counts: dict[str, int]
    extent: NDArray[np.float64]
    extent_without: NDArray[np.float64]

    def masks(self) -> dict[str, NDArray[np.bool_]]:
        """By name; each splat is in the first that it fits."""
        floating = np.zeros_like(self.far) if self.floating is None else self.floating
        return {"far": self.far, "huge": self.huge & ~self.far, "floating": floating & ~self.far & ~self.huge}


@dataclass(frozen=True, eq=False)
class MeshOutliers:
    """Components (of :class:`~spatialbench.scene.topology.Topology`) that lie far off, and tiny ones.

    Attributes
    ----------
    far : [F] faces of components no corner of which lies within ``FAR`` times the bulk.
    far_components : number of them.
    far_area : their share of the area.
    distance : largest distance of any of their corners from the middle of the bulk, file's unit; 0 without any.
    tiny_components, tiny_faces : components with less than a millionth of the area, and their faces. Never dropped.
    extent, extent_without : [3] sides of the box of all faces, with and without the far ones.
    """

    far: NDArray[np.bool_]
    far_components: int
    far_area: float
    distance: float
    tiny_components: int
    tiny_faces: int
    extent: NDArray[np.float64]
    extent_without: NDArray[np.float64]


def splat_outliers(splats: GaussianSplats) -> SplatOutliers | None:
    """Look for outliers; None when no splat that is not sky is opaque. 0.05 s for a million."""
    from spatialbench.scene.splats import _kernels as kernels

    opaque = splats.opacities > OPAQUE
    if splats.sky is not None:
        opaque &= ~splats.sky
    count = int(np.count_nonzero(opaque))
    if not count:
        return None
    some = picked(opaque, SAMPLE)
    bulk = bulk_of(np.take(splats.means, some, axis=0), np.take(splats.opacities, some).astype(np.float64))
    means, scales = np.ascontiguousarray(splats.means), np.ascontiguousarray(splats.scales)
    far, huge, size = np.empty(len(means), bool), np.empty(len(means), bool), np.float32(bulk.half.max())
    step = share_of(len(means))
    boxes = empty_boxes(-(-len(means) // step), 2)
    in_blocks(len(means), lambda part: kernels.outside(means, scales, opaque, *bulk.reach, size, part.start, part.stop,
                                                       far, huge, boxes[part.start // step]), step)
    ends, near = widest(boxes)
    away = far | huge
    if np.count_nonzero(huge & opaque) > MOST * count:
        huge, away = np.zeros_like(huge), far
        near = ends_of(means, opaque & ~far)
    sigma = np.empty(len(some), np.float32)
    kernels.largest(np.take(scales, some, axis=0), 0, len(some), sigma)
    cell = max(2 * float(bulk.half.max()) / _CELLS, 2 * median(sigma))
    floating, kept = floating_of(means, opaque & ~away, near, cell)
    if splats.sky is not None:
        far, huge = far & ~splats.sky, huge & ~splats.sky
        floating = None if floating is None else floating & ~splats.sky
    out = SplatOutliers(far, floating, huge, count, {}, np.zeros(3), np.zeros(3))
    masks = out.masks()
    counts = {name: int(np.count_nonzero(m & opaque)) for name, m in masks.items()}
    extent = without = np.ptp(ends.astype(np.float64), axis=0)
    if any(counts.values()):
        without = np.ptp(kept.astype(np.float64), axis=0) if np.isfinite(kept).all() else np.zeros(3)
    return SplatOutliers(far, floating, huge, count, counts, extent, without)


def mesh_outliers(mesh: TriangleMesh, topology: Topology, area: NDArray[np.float64] | None = None
                  ) -> MeshOutliers | None:
    """Look for outliers among the components; None when all is sky. 0.05 s for 500,000 faces.

    ``area`` [F] is that of the faces, where it is known already.
    """
    sky = sky_faces(mesh)
    own = np.ones(len(mesh.faces), bool) if sky is None else ~sky
    if not own.any():
        return None
    if area is None:
        area = np.linalg.norm(mesh.area_vectors(), axis=1)
    area = np.where(own, area, 0.0)
    total = float(area.sum())
    bulk = bulk_of(without_far(spread(mesh, area)))
    n = topology.components
    outside = bulk.far(mesh.vertices)
    far = np.zeros(len(mesh.faces), bool)
    near = np.ones(n, bool)
    if outside.any():
        near[:] = False
        near[topology.component[~np.take(outside, mesh.faces).all(axis=1) | ~own]] = True
        far = ~near[topology.component] & own
    tiny = np.zeros(n, bool)
    if n > 1:  # one is all of the area
        share = np.bincount(topology.component, weights=area, minlength=n) / total
        tiny = (share < _TINY) & (np.bincount(topology.component[own], minlength=n) > 0) & near
    extent = without = _sides(mesh.vertices, _used(mesh, own))
    distance = 0.0
    if far.any():
        ends = mesh.vertices[_used(mesh, far)]
        distance = float(np.linalg.norm(ends - bulk.middle, axis=1).max())
        without = _sides(mesh.vertices, _used(mesh, own & ~far))
    return MeshOutliers(far, int((~near).sum()), float(area[far].sum() / total), distance, int(tiny.sum()),
                        int(np.count_nonzero(tiny[topology.component[own]])), extent, without)


def check_splat_outliers(splats: GaussianSplats, log: ReadLog, drop: bool = False, where: str = "") -> GaussianSplats:
    """Put what was found into ``details["outliers"]["splats"]``, warn when it matters, and drop it if asked.

    It matters when more than 1 % of the opaque splats are outliers, or when the world is 10 times as long with them.
    Dropped splats are repairs: ``outliers_far_dropped``, ``outliers_huge_dropped``, ``outliers_floating_dropped``.

    Raises
    ------
    EmptyWorldError : nothing would be left.
    """
    found = splat_outliers(splats)
    if found is None:
        return splats
    masks = found.masks()
    count, ratio = sum(found.counts.values()), _ratio(found.extent, found.extent_without)
    log.details.setdefault("outliers", {})["splats"] = {
        "opaque": found.opaque, **found.counts, "share": count / found.opaque,
        "floating_judged": found.floating is not None, "extent": found.extent.tolist(),
        "extent_without": found.extent_without.tolist()}
    if drop:
        away = masks["far"] | masks["huge"] | masks["floating"]
        for name, mask in masks.items():
            log.repair(f"outliers_{name}_dropped", int(mask.sum()), "splats, dropped on request")
        return splats if not away.any() else splats.select(_left(~away, where))
    if count > _WARN_SHARE * found.opaque or ratio > _WARN_EXTENT_SPLATS:
        parts = [f"{plural(c, 'opaque splat')} {words}" for c, words in (
            (found.counts["far"], "far from all else"), (found.counts["huge"], "larger than the world"),
            (found.counts["floating"], "floating alone")) if c]
        log.warn(f"{', '.join(parts)}: {count / found.opaque:.2%} of those that can be seen"
                 f"{_longer(ratio, _WARN_EXTENT_SPLATS)}. --drop-outliers leaves them out")
    return splats


def check_mesh_outliers(mesh: TriangleMesh, topology: Topology | None, log: ReadLog, drop: bool = False,
                        where: str = "", area: NDArray[np.float64] | None = None) -> TriangleMesh:
    """Put what was found into ``details["outliers"]["mesh"]``, warn when it matters, and drop what is far if asked.

    It matters when more than 1 % of the area is far, or when the world is 3 times as long with it. Dropped
    faces are the repair ``outliers_far_dropped``. ``topology`` is of this mesh; None: not judged.

    Raises
    ------
    EmptyWorldError : nothing would be left.
    """
    found = None if topology is None else mesh_outliers(mesh, topology, area)
    if found is None:
        if topology is None and drop:
            log.warn("outliers were not looked for, the mesh has too many faces: none was dropped")
        return mesh
    faces, ratio = int(found.far.sum()), _ratio(found.extent, found.extent_without)
    log.details.setdefault("outliers", {})["mesh"] = {
        "far_components": found.far_components, "far_faces": faces, "far_area_share": found.far_area,
        "far_distance": found.distance, "tiny_components": found.tiny_components, "tiny_faces": found.tiny_faces,
        "extent": found.extent.tolist(), "extent_without": found.extent_without.tolist()}
    if not faces:
        return mesh
    if drop:
        log.repair("outliers_far_dropped", faces, "faces, dropped on request")
        return mesh.select(_left(~found.far, where))
    if found.far_area > _WARN_SHARE or ratio > _WARN_EXTENT:
        log.warn(f"{plural(faces, 'face')} in {plural(found.far_components, 'piece')} lie far from all else, up to "
                 f"{found.distance:.4g} units from its middle{_longer(ratio, _WARN_EXTENT)}. --drop-outliers leaves "
                 "them out")
    return mesh


def _left(keep: NDArray[np.bool_], where: str) -> NDArray[np.bool_]:
    if not keep.any():
        raise EmptyWorldError("nothing but outliers is in it", where=where, todo="Read it without --drop-outliers")
    return keep


def _longer(ratio: float, least: float) -> str:
    return f", and they make the world {ratio:.3g} times as long" if ratio > least else ""


def _ratio(extent: NDArray[np.float64], without: NDArray[np.float64]) -> float:
    """How much longer the longest side is."""
    shorter = float(without.max())
    return float(extent.max()) / shorter if shorter > 0 else 1.0


def _used(mesh: TriangleMesh, faces: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Vertices of some faces, ascending."""
    return np.flatnonzero(referred(mesh.faces if faces.all() else mesh.faces[faces], len(mesh.vertices)))


def _sides(points: NDArray, index: NDArray[np.intp]) -> NDArray[np.float64]:
    """[3] sides of the box of some points of [N,3]; 0 without any."""
    return np.ptp(box(points if len(index) == len(points) else np.take(points, index, axis=0)), axis=0) if len(
        index) else np.zeros(3)
