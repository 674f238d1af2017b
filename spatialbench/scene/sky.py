"""Geometry that stands for the sky: a dome around everything, or the farthest shell of a layered panorama."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.log import ReadLog, plural
from spatialbench.types import TriangleMesh

__all__ = ["DOME_FACTOR", "flag_sky", "is_sky_shell", "sky_named"]

DOME_FACTOR = 5.0
"""A dome's radius over that of everything else: OPEN-2 removes only what is certain to be sky."""
_SHELL = 1.5
"""Largest ratio of a sky's far distances (95th percentile) to its near ones (5th)."""
_HORIZON, _BELOW = 0.1, 0.02
"""A sky's layer has at most this share (the second) more than this slope (the first) below the horizon."""
_CLOSED = 0.375
"""Smallest share of all directions that a dome closes: three quarters of a half sphere."""
_CELLS = 16
_MAX_CANDIDATES = 16
_SKY = re.compile(r"(?<![a-z])sky(box|dome|sphere|ball)?(?![a-z])")


def sky_named(name: str) -> bool:
    """Whether a name says sky: ``sky``, ``SkyBox``, ``mat_skydome``... but not ``skylight``."""
    return _SKY.search(name.lower()) is not None


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
    rest = ~np.array([m.sky for m in materials])[mesh.material_ids]
    dome = np.zeros(len(mesh.faces), bool)
    dome[rest] = _dome_faces(mesh.triangles[rest])
    if not dome.any():
        return mesh
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


def _dome_faces(triangles: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[F] faces of pieces that are domes around all the rest."""
    out = np.zeros(len(triangles), bool)
    if len(triangles) < 2:
        return out
    piece = _pieces(triangles)
    if piece.max() == 0:
        return out
    middle = np.median(triangles.mean(axis=1), axis=0)
    reach = np.zeros(int(piece.max()) + 1)
    np.maximum.at(reach, piece, np.abs(triangles - middle).max(axis=(1, 2)))
    for k in np.argsort(-reach, kind="stable")[:_MAX_CANDIDATES].tolist():
        own = piece == k
        others = ~own & ~out
        if not others.any() or not _is_dome(triangles[own], triangles[others]):
            break
        out = out | own
    return out


def _is_dome(own: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    corners = others.reshape(-1, 3)
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
    radius = float(np.linalg.norm(corners - middle, axis=1).max())
    rays = own.reshape(-1, 3) - middle
    distance = np.linalg.norm(rays, axis=1)
    near, far = np.percentile(distance, (5, 95))
    if radius <= 0 or near <= DOME_FACTOR * radius or far > 2 * near:
        return False
    return _closed_share(own - middle) >= _CLOSED


def _closed_share(own: NDArray[np.float64]) -> float:
    """Share of the sphere of directions that triangles [F,3,3] around the origin cover, by their solid angles."""
    a, b, c = own[:, 0], own[:, 1], own[:, 2]
    la, lb, lc = (np.linalg.norm(v, axis=1) for v in (a, b, c))
    # Van Oosterom and Strackee: tan(omega / 2) = a.(b x c) / (abc + (a.b) c + (a.c) b + (b.c) a)
    top = np.einsum("ij,ij->i", a, np.cross(b, c))
    bottom = (la * lb * lc + np.einsum("ij,ij->i", a, b) * lc + np.einsum("ij,ij->i", a, c) * lb
              + np.einsum("ij,ij->i", b, c) * la)
    return float(np.abs(2 * np.arctan2(top, bottom)).sum() / (4 * np.pi))


def _pieces(triangles: NDArray[np.float64]) -> NDArray[np.int64]:
    """[F] number of the piece of each face. Pieces lie apart: no face spans the gap, and the gap is at least one cell.

    Cells divide the longest side of the box by ``_CELLS``. A dome's gap is four fifths of its radius, over five cells.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    low = triangles.min(axis=(0, 1))
    size = float((triangles.max(axis=(0, 1)) - low).max())
    cell = np.zeros(triangles.shape[:2], np.int64)
    for axis in range(3):
        along = np.clip((triangles[:, :, axis] - low[axis]) * (_CELLS / size), 0, _CELLS - 1).astype(np.int64)
        cell = cell * _CELLS + along
    n = _CELLS**3
    occupied = np.zeros(n, bool)
    occupied[cell.reshape(-1)] = True
    used = np.flatnonzero(occupied)
    xyz = np.stack([used // _CELLS**2, used // _CELLS % _CELLS, used % _CELLS], axis=1)
    pairs = [np.unique(cell[:, i] * n + cell[:, j]) for i, j in ((0, 1), (1, 2))]
    for step in np.ndindex(3, 3, 3):
        beside = xyz + np.array(step) - 1
        inside = ((beside >= 0) & (beside < _CELLS)).all(axis=1)
        other = (beside[inside] * [_CELLS**2, _CELLS, 1]).sum(axis=1)
        joined = occupied[other]
        pairs.append(used[inside][joined] * n + other[joined])
    edges = np.concatenate(pairs)
    graph = coo_matrix((np.ones(len(edges), np.int8), (edges // n, edges % n)), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    return np.unique(label[cell[:, 0]], return_inverse=True)[1].reshape(-1)
