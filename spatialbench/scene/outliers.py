"""Floaters and far outliers: counted and reported; dropped only on request (``--drop-outliers``).

The bulk is the box that the 0.5th and 99.5th percentiles of opacity (splats) or area (meshes) bound along each axis
of the file. Far is what lies beyond ``FAR`` times this box around its middle: a world spread evenly ends at 1.01 times,
one that thins out as a Gaussian has one splat in 10^14 beyond 3 times. By the percentiles, at most 3 % can ever be far:
what holds more is a part of the world. What stands for the sky is neither bulk nor outlier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import EmptyWorldError
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.sky import sky_faces
from spatialbench.scene.topology import Topology
from spatialbench.types import GaussianSplats, TriangleMesh

__all__ = ["FAR", "OPAQUE", "Box", "MeshOutliers", "SplatOutliers", "check_mesh_outliers", "check_splat_outliers",
           "mesh_outliers", "splat_outliers"]

FAR = 3.0
"""Times the box of the bulk beyond which something is far."""
OPAQUE = 0.2
"""Opacity above which a splat can be seen (real-worlds.md section 5); fainter ones make no outlier."""
_BULK = (0.005, 0.995)
_SAMPLE = 100_000  # percentiles of so many are within 0.05 % of the weight
_FLAT = 0.02  # least half side of a box over its largest: the air above a plain is not far
_CELLS = 64  # of the longest side of the bulk
_FEW, _FEW_SHARE = 8, 1e-4
"""A cluster of this many opaque splats, or of this share of them, that touches no other cell is a floater."""
_MOST = 0.05  # share of the opaque splats from which on what floats (is huge) is the world, and not judged
_TINY = 1e-6  # of the area: a square centimetre of a room
_WARN_SHARE = 0.01
_WARN_EXTENT, _WARN_EXTENT_SPLATS = 3.0, 10.0
"""A mesh's footprint reaches to its ends; what is made of splats goes by percentiles, and captures thin out."""


@dataclass(frozen=True, eq=False)
class Box:
    """The bulk: middle [3] and half sides [3], > 0, in the frame of the points."""

    middle: NDArray[np.float64]
    half: NDArray[np.float64]

    def far(self, points: NDArray) -> NDArray[np.bool_]:
        """[N] which points [N,3] lie beyond ``FAR`` times the box."""
        low, high = self.middle - FAR * self.half, self.middle + FAR * self.half
        out = np.zeros(len(points), bool)
        for k in range(3):  # an order of magnitude faster than along axis 1
            out |= (points[:, k] < low[k]) | (points[:, k] > high[k])
        return out


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
    """Look for outliers; None when no splat that is not sky is opaque. 0.2 s for a million."""
    opaque = splats.opacities > OPAQUE
    if splats.sky is not None:
        opaque &= ~splats.sky
    index = np.flatnonzero(opaque)
    if not len(index):
        return None
    some = index[::-(-len(index) // _SAMPLE)]
    box = _box(splats.means[some].astype(np.float64), splats.opacities[some].astype(np.float64))
    far = box.far(splats.means)
    largest = np.maximum(np.maximum(splats.scales[:, 0], splats.scales[:, 1]), splats.scales[:, 2])
    huge = largest > float(box.half.max())
    if (huge & opaque).sum() > _MOST * len(index):
        huge = np.zeros_like(huge)
    cell = max(2 * float(box.half.max()) / _CELLS, 2 * float(np.median(largest[some])))
    floating = _floating(splats.means, np.flatnonzero(opaque & ~far & ~huge), cell)
    if splats.sky is not None:
        far, huge = far & ~splats.sky, huge & ~splats.sky
        floating = None if floating is None else floating & ~splats.sky
    out = SplatOutliers(far, floating, huge, len(index), {}, np.zeros(3), np.zeros(3))
    masks = out.masks()
    kept = opaque & ~(masks["far"] | masks["huge"] | masks["floating"])
    counts = {name: int((m & opaque).sum()) for name, m in masks.items()}
    return SplatOutliers(far, floating, huge, len(index), counts, _sides(splats.means, index),
                         _sides(splats.means, np.flatnonzero(kept)))


def mesh_outliers(mesh: TriangleMesh, topology: Topology) -> MeshOutliers | None:
    """Look for outliers among the components; None when all is sky. 0.2 s for 500,000 faces."""
    sky = sky_faces(mesh)
    own = np.ones(len(mesh.faces), bool) if sky is None else ~sky
    if not own.any():
        return None
    area = np.where(own, np.linalg.norm(mesh.area_vectors(), axis=1), 0.0)
    total = float(area.sum())
    box = _box(*_spread(mesh, area))
    outside = box.far(mesh.vertices)
    n = topology.components
    near = np.zeros(n, bool)
    near[topology.component[~outside[mesh.faces].all(axis=1) | ~own]] = True
    far = ~near[topology.component] & own
    share = np.bincount(topology.component, weights=area, minlength=n) / total
    tiny = (share < _TINY) & (np.bincount(topology.component[own], minlength=n) > 0)
    tiny &= near
    corners = _corners(mesh, own)
    distance = 0.0
    if far.any():
        distance = float(np.linalg.norm(mesh.vertices[_corners(mesh, far)] - box.middle, axis=1).max())
    return MeshOutliers(far, int((~near).sum()), float(area[far].sum() / total), distance, int(tiny.sum()),
                        int(tiny[topology.component[own]].sum()), _sides(mesh.vertices, corners),
                        _sides(mesh.vertices, _corners(mesh, own & ~far)))


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
                        where: str = "") -> TriangleMesh:
    """Put what was found into ``details["outliers"]["mesh"]``, warn when it matters, and drop what is far if asked.

    It matters when more than 1 % of the area is far, or when the world is 3 times as long with it. Dropped
    faces are the repair ``outliers_far_dropped``. ``topology`` is of this mesh; None: not judged.

    Raises
    ------
    EmptyWorldError : nothing would be left.
    """
    found = None if topology is None else mesh_outliers(mesh, topology)
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


def _box(points: NDArray[np.float64], weights: NDArray[np.float64]) -> Box:
    ends = np.empty((2, 3))
    for k in range(3):
        order = np.argsort(points[:, k], kind="stable")
        reached = np.cumsum(weights[order])
        at = np.searchsorted(reached, np.array(_BULK) * reached[-1])
        ends[:, k] = points[order[np.minimum(at, len(points) - 1)], k]
    half = (ends[1] - ends[0]) / 2
    least = max(_FLAT * float(half.max()), 1e-6 * float(np.abs(ends).max()), 1e-30)
    return Box((ends[0] + ends[1]) / 2, np.maximum(half, least))


def _spread(mesh: TriangleMesh, area: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points [N,3] spread over the surface by area, N weights of 1: even steps of the running area, fixed seed."""
    n = min(_SAMPLE, max(1000, 4 * len(area)))
    rng = np.random.default_rng(0)
    ends = np.cumsum(area)
    face = np.searchsorted(ends, (np.arange(n) + 0.5) * (ends[-1] / n)).clip(0, len(area) - 1)
    root, along = np.sqrt(rng.random(n)), rng.random(n)
    weight = np.stack([1 - root, root * (1 - along), root * along], axis=1)
    return np.einsum("ni,nij->nj", weight, mesh.vertices[mesh.faces[face]]), np.ones(n)


def _floating(means: NDArray[np.float32], index: NDArray[np.intp], cell: float) -> NDArray[np.bool_] | None:
    """[N] splats in cells of small clusters (26 neighbours) of the opaque ones ``index``; None: too sparse to tell."""
    from scipy import ndimage

    if not len(index):
        return np.zeros(len(means), bool)
    columns = [np.ascontiguousarray(means[:, k]) for k in range(3)]
    ends = np.array([[float(c[index].min()), float(c[index].max())] for c in columns])  # within FAR times the bulk
    shape = np.floor((ends[:, 1] - ends[:, 0]) / cell).astype(np.int64) + 1
    flat, inside = np.zeros(len(means), np.int64), np.ones(len(means), bool)
    for column, (low, high), cells in zip(columns, ends, shape.tolist(), strict=True):
        inside &= (column >= low) & (column <= high)
        with np.errstate(over="ignore"):  # of splats at the end of float32; they are not inside
            along = np.minimum((column - np.float32(low)) * np.float32(1 / cell), np.float32(cells - 1))
        flat = flat * cells + np.where(inside, along, np.float32(0)).astype(np.int64)
    occupied = np.zeros(int(shape.prod()), bool)
    occupied[flat[index]] = True
    label, n = ndimage.label(occupied.reshape(shape), np.ones((3, 3, 3), bool))
    of_splat = label.ravel()[flat]
    size = np.bincount(of_splat[index], minlength=n + 1)
    small = size <= max(_FEW, _FEW_SHARE * len(index))
    small[0] = False
    if size[small].sum() > _MOST * len(index):
        return None
    return small[of_splat] & inside


def _corners(mesh: TriangleMesh, faces: NDArray[np.bool_]) -> NDArray[np.intp]:
    used = np.zeros(len(mesh.vertices), bool)
    used[mesh.faces[faces].ravel()] = True
    return np.flatnonzero(used)


def _sides(points: NDArray, index: NDArray[np.intp]) -> NDArray[np.float64]:
    """[3] sides of the box of some points; 0 without any."""
    if not len(index):
        return np.zeros(3)
    return np.array([float(np.ptp(points[index, k].astype(np.float64))) for k in range(3)])
