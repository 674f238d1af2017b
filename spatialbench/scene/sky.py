"""Geometry that stands for the sky: a dome around everything, a far shell of splats, or a panorama's last layer."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.blocks import box, in_blocks, lengths, median, picked, quantiles
from spatialbench.scene.cells import clusters_of
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.weld import components, referred
from spatialbench.types import GaussianSplats, TriangleMesh

__all__ = ["DOME_FACTOR", "SHELL_GAP", "flag_sky", "flag_splat_sky", "is_sky_shell", "sky_faces", "sky_materials",
           "sky_named", "without_sky"]

DOME_FACTOR = 5.0
"""A dome's radius over that of everything else: OPEN-2 removes only what is certain to be sky."""
_BOX_FACTOR = 100.0
"""The same for a box of flat sides, which a room is too."""
_SHELL = 1.5
"""Largest ratio of a sky's far distances (95th percentile) to its near ones (5th)."""
_HORIZON, _BELOW = 0.1, 0.02
"""A sky's layer has at most this share (the second) more than this slope (the first) below the horizon."""
_CLOSED = 0.375
"""Smallest share of all directions that a dome closes: three quarters of a half sphere."""
SHELL_GAP = 2.0
"""A sky of splats is this many times as far as what lies below it. In a room the floor reaches from the camera to the
walls, so that nothing of it has such a gap."""
_THIN, _SHELL_SHARE, _STRAY = 1.25, 0.01, 1e-3
"""Largest ratio of a shell's far distances to its near ones; least share of the splats in it, and in what it encloses;
share of the splats that may stray in the gap."""
_SEEN = 0.2
_SAMPLE = 100_000
_FLAT = 1e9  # condition from which points tell no sphere
_LATITUDES, _LONGITUDES = 16, 24  # cells of equal area
_CELLS = 16
_MAX_CANDIDATES = 16
_SKY = re.compile(r"(?<![a-z])sky(box|dome|sphere|ball)?(?![a-z])")


def sky_named(name: str) -> bool:
    """Whether a name says sky: ``sky``, ``SkyBox``, ``mat_skydome``... but not ``skylight``."""
    return _SKY.search(name.lower()) is not None


def sky_materials(mesh: TriangleMesh) -> list[int]:
    """Materials that are flagged as sky, or whose name says so (OPEN-2)."""
    return [i for i, m in enumerate(mesh.materials) if m.sky or sky_named(m.name)]


def sky_faces(mesh: TriangleMesh) -> NDArray[np.bool_] | None:
    """[F] faces of the sky's materials; None when there is none."""
    named = np.zeros(len(mesh.materials), bool)
    named[sky_materials(mesh)] = True
    sky = np.take(named, mesh.material_ids) if named.any() else named
    return sky if sky.any() else None


@overload
def without_sky(geometry: TriangleMesh) -> TriangleMesh: ...
@overload
def without_sky(geometry: GaussianSplats) -> GaussianSplats: ...
@overload
def without_sky(geometry: TriangleMesh | GaussianSplats) -> TriangleMesh | GaussianSplats: ...
def without_sky(geometry: TriangleMesh | GaussianSplats) -> TriangleMesh | GaussianSplats:
    """What gives scale, depth and ground: all but the sky, in the same order. The geometry itself if it has none;
    without faces (or splats) if there is nothing else."""
    if isinstance(geometry, GaussianSplats):
        sky = geometry.sky
        return geometry if sky is None or not sky.any() else geometry.select(~sky)
    faces = sky_faces(geometry)
    return geometry if faces is None else geometry.select(~faces)


def is_sky_shell(own: NDArray[np.float64], others: NDArray[np.float64], up: NDArray[np.float64]) -> bool:
    """Whether a layer [F,3,3] of a panorama taken at the origin is its sky.

    It must lie beyond the others [M,3,3], at about one distance, and not below the horizon: the shell of a room, which
    also lies behind its furniture, has a floor.
    """
    if not (len(own) and len(others) and np.isfinite(own).all() and np.isfinite(others).all()):
        return False
    points = np.concatenate([own.reshape(-1, 3), own.mean(axis=1)])
    distance = np.linalg.norm(points, axis=1)
    near, far = np.percentile(distance, (5, 95))
    below = points @ up < -_HORIZON * distance
    beyond = near > np.percentile(np.linalg.norm(others.reshape(-1, 3), axis=1), 99)
    return bool(beyond and far <= _SHELL * near and below.mean() <= _BELOW)


def flag_sky(mesh: TriangleMesh, log: ReadLog) -> TriangleMesh:
    """Flag materials of the sky: those whose name says so, and those of which every face is part of a dome.

    A dome is a piece apart from all else, more than ``DOME_FACTOR`` times as far from the middle of all else as
    anything there, at about one distance, that closes three quarters of a half sphere or more. A material that also
    has other faces is split in two, so that the dome has one of its own. What is found is warned of and in
    ``details["sky"]``.
    """
    named = [sky_named(m.name) for m in mesh.materials]
    materials = [replace(m, sky=m.sky or n) for m, n in zip(mesh.materials, named, strict=True)]
    for i, (m, n) in enumerate(zip(mesh.materials, named, strict=True)):
        if n and not m.sky:
            count = int((mesh.material_ids == i).sum())
            log.warn(f"the material '{m.name[:60]}' ({plural(count, 'face')}) is taken for the sky by its name: it is "
                     "drawn, but is no ground and gives no scale")
            log.details.setdefault("sky", []).append(m.name)
    mesh = replace(mesh, materials=tuple(materials))
    known = np.array([m.sky for m in materials])
    rest = np.flatnonzero(~np.take(known, mesh.material_ids)) if known.any() else None
    found = _dome_faces(mesh.vertices, mesh.faces if rest is None else mesh.faces[rest])
    if found is None:
        return mesh
    dome = np.zeros(len(mesh.faces), bool)
    dome[slice(None) if rest is None else rest] = found
    log.warn(f"{plural(int(dome.sum()), 'face')} form a dome more than {DOME_FACTOR:g} times as large as all they "
             "enclose and are taken for the sky: they are drawn, but are no ground and give no scale")
    ids, table = mesh.material_ids.copy(), list(materials)
    for i in np.unique(ids[dome]).tolist():
        own = ids == i
        if dome[own].all():
            table[i] = replace(table[i], sky=True)
            place = i
        else:
            place = len(table)
            table.append(replace(table[i], sky=True, name=f"{table[i].name} sky".strip()))
            ids[own & dome] = place
        log.details.setdefault("sky", []).append(table[place].name)
    return replace(mesh, material_ids=ids, materials=tuple(table))


def flag_splat_sky(splats: GaussianSplats, log: ReadLog) -> GaussianSplats:
    """Flag splats of a sky: a thin shell, far around all else.

    Seen from one place (the file's origin, or the middle of the sphere that fits the farthest splats best), of the
    splats with opacity above 0.2: below the shell, at most one in a thousand lies between its distance and that over
    ``SHELL_GAP``; its 95th percentile of distance is at most 1.25 times the 5th; it covers three quarters of a half
    sphere or more; it and what it encloses hold one in a hundred each, at least. Then all splats of the shell are the
    sky, whatever their opacity. A background that lies nearer to the rest is kept: distance alone makes no sky
    (OPEN-2). What is found is warned of and in ``details["sky"]`` and ``details["sky_splats"]``.
    """
    points = np.take(splats.means, picked(splats.opacities > _SEEN, _SAMPLE), axis=0).astype(np.float64)
    if not np.isfinite(points.sum()):
        points = points[np.isfinite(points).all(axis=1)]
    assert splats.offset is not None
    for centre in (-splats.offset, _sphere_middle(points)):
        ends = None if centre is None else _shell(points - centre)
        if centre is None or ends is None:
            continue
        distance = np.sqrt(sum((splats.means[:, k].astype(np.float64) - centre[k]) ** 2 for k in range(3)))
        sky = (distance > ends[0]) & (distance < ends[1])
        count, radius = int(sky.sum()), float(np.median(distance[sky]))
        name = f"shell of {plural(count, 'splat')}"
        log.warn(f"{plural(count, 'splat')} form a shell {radius:.4g} units around all else, with nothing near it, and "
                 "are taken for the sky: they are drawn, but are no ground and give no scale")
        log.details.setdefault("sky", []).append(name)
        log.details["sky_splats"] = {"count": count, "share": count / len(splats), "distance": radius,
                                     "middle": (centre + splats.offset).tolist()}
        return replace(splats, sky=sky)
    return splats


def _shell(points: NDArray[np.float64]) -> tuple[float, float] | None:
    """Least and largest distance of a shell around the origin of points [N,3], or None."""
    n = len(points)
    stray = int(_STRAY * n)
    least = max(1, int(np.ceil(_SHELL_SHARE * n)))
    if n < 2 * least + stray:
        return None
    distance = lengths(points)
    ordered = np.sort(distance)
    ahead = ordered[1 + stray:]
    gaps = np.flatnonzero((ahead >= SHELL_GAP * ordered[:len(ahead)]) & (ordered[:len(ahead)] > 0))
    gaps = gaps[(gaps + 1 >= least) & (n - (gaps + 1 + stray) >= least)]
    if not len(gaps):
        return None
    inner = float(ordered[gaps[-1]])
    outer = float(ordered[gaps[-1] + 1 + stray])
    beyond = distance[distance >= outer]
    near, far = quantiles(beyond, (0.05, 0.95))
    if near < SHELL_GAP * inner or far > _THIN * near or _covered(points[distance >= outer]) < _CLOSED:
        return None
    return float(near / _THIN), float(far * _THIN)


def _covered(points: NDArray[np.float64]) -> float:
    """Share of equal cells of the sphere of directions that hold one of the points [N,3] around the origin."""
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    row = np.clip((unit[:, 2] + 1) / 2 * _LATITUDES, 0, _LATITUDES - 1).astype(np.int64)
    turn = (np.arctan2(unit[:, 1], unit[:, 0]) / (2 * np.pi) + 0.5) * _LONGITUDES
    column = np.clip(turn, 0, _LONGITUDES - 1).astype(np.int64)
    return len(np.unique(row * _LONGITUDES + column)) / (_LATITUDES * _LONGITUDES)


def _sphere_middle(points: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """[3] middle of the sphere that fits the farther half of the distances best (linear least squares), or None."""
    from spatialbench.scene.splats import _kernels as kernels

    if len(points) < 4:
        return None
    middle, distance = np.array([median(points[:, k]) for k in range(3)]), np.empty(len(points))
    kernels.distances(points, middle, distance)
    size, square, right = float(distance.max()), np.zeros((4, 4)), np.zeros(4)
    least = quantiles(distance, (0.995,))[0] / 2
    if size == 0 or kernels.sphere_sums(points, middle, distance, least, size, square, right) < 4:
        return None
    # |p|^2 = 2 c.p + (r^2 - |c|^2), by sums that no number of threads changes
    return None if np.linalg.cond(square) > _FLAT else middle + size * np.linalg.solve(square, right)[:3]


def _dome_faces(vertices: NDArray[np.float64], faces: NDArray[np.int32]) -> NDArray[np.bool_] | None:
    """[F] faces of pieces that are domes around all the rest; None without any."""
    piece = _pieces(vertices, faces) if len(faces) > 1 else None
    if piece is None:
        return None
    triangles = np.take(vertices, faces, axis=0)
    out = np.zeros(len(faces), bool)
    middle = np.median(triangles.mean(axis=1), axis=0)
    reach = np.zeros(int(piece.max()) + 1)
    np.maximum.at(reach, piece, np.abs(triangles - middle).max(axis=(1, 2)))
    for k in np.argsort(-reach, kind="stable")[:_MAX_CANDIDATES].tolist():
        own = piece == k
        others = ~own & ~out
        if not others.any() or not _is_dome(triangles[own], triangles[others]):
            break
        out = out | own
    return out if out.any() else None


def _is_dome(own: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    corners = others.reshape(-1, 3)
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
    radius = float(np.linalg.norm(corners - middle, axis=1).max())
    rays = own.reshape(-1, 3) - middle
    distance = np.linalg.norm(rays, axis=1)
    near, far = np.percentile(distance, (5, 95))
    if radius <= 0 or near <= DOME_FACTOR * radius or far > 2 * near:
        return False
    own = own - middle
    normal = np.cross(own[:, 1] - own[:, 0], own[:, 2] - own[:, 0])
    length = np.linalg.norm(normal, axis=1)
    height = np.abs(np.einsum("ij,ij->i", normal, own[:, 0])) / np.maximum(length, np.finfo(float).tiny)
    if _closed_share(own[height >= far / _SHELL]) >= _CLOSED:
        return True
    # The walls of a room around one small thing in the air look like a box of sky: only a far larger one is certain.
    return float(height[length > 0].min(initial=np.inf)) > _BOX_FACTOR * radius and _closed_share(own) >= _CLOSED


def _closed_share(own: NDArray[np.float64]) -> float:
    """Share of the sphere of directions that triangles [F,3,3] around the origin cover, by their solid angles."""
    a, b, c = own[:, 0], own[:, 1], own[:, 2]
    la, lb, lc = (np.linalg.norm(v, axis=1) for v in (a, b, c))
    # Van Oosterom and Strackee: tan(omega / 2) = a.(b x c) / (abc + (a.b) c + (a.c) b + (b.c) a)
    top = np.einsum("ij,ij->i", a, np.cross(b, c))
    bottom = (la * lb * lc + np.einsum("ij,ij->i", a, b) * lc + np.einsum("ij,ij->i", a, c) * lb
              + np.einsum("ij,ij->i", b, c) * la)
    return float(np.abs(2 * np.arctan2(top, bottom)).sum() / (4 * np.pi))


def _pieces(vertices: NDArray[np.float64], faces: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """[F] number of the piece of each face; None when all are one. Pieces lie apart: no face spans the gap, and the gap
    is at least one cell.

    Cells divide the longest side of the box by ``_CELLS``. A dome's gap is four fifths of its radius, over five cells.
    Most worlds fill cells that touch: then faces need not be looked at.
    """
    from spatialbench.scene import _mesh_kernels as kernels

    used = referred(faces, len(vertices))
    low, high = box(vertices if used.all() else vertices[used])
    scale = _CELLS / float((high - low).max())
    cell, points = np.empty(len(vertices), np.int32), np.ascontiguousarray(vertices)
    in_blocks(len(points), lambda part: kernels.cells(points, low, scale, _CELLS, part.start, part.stop, cell))
    occupied = np.bincount(cell[used], minlength=_CELLS**3) > 0
    clusters = clusters_of(occupied.reshape(_CELLS, _CELLS, _CELLS))
    if clusters.count == 1:
        return None
    at = np.take(clusters.labels(), cell)
    i, j, k = (np.take(at, faces[:, c]) for c in range(3))
    across = np.concatenate([np.stack([p, q], axis=1)[p != q] for p, q in ((i, j), (j, k))])
    across.sort(axis=1)
    across = np.unique(across, axis=0)
    nodes = np.arange(clusters.count, dtype=np.int32)
    _, joined = components(np.concatenate([across[:, 0], nodes]), np.concatenate([across[:, 1], nodes]), len(nodes))
    piece = np.unique(np.take(joined, i), return_inverse=True)[1].reshape(-1)
    return piece.astype(np.int32) if piece.max() > 0 else None
