"""The world as static PyBullet bodies: checked arrays, cut to size and in chunks (placement.md section 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import SimulationError
from spatialbench.physics.placement.backend import quiet

__all__ = ["MAX_INDICES", "MAX_VERTICES", "add_static_mesh", "add_static_scene", "check_mesh", "chunks",
           "crop_to_plan", "with_area"]

MAX_VERTICES = 131_072
MAX_INDICES = 524_288
"""What PyBullet takes in one shape given as arrays; above, it fails or prints and fails."""

Mesh = tuple[NDArray[np.float64], NDArray[np.int64]]


def check_mesh(vertices: ArrayLike, faces: ArrayLike) -> Mesh:
    """The mesh as [V,3] float64 and [F,3] int64. PyBullet's C code checks nothing of this.

    Raises
    ------
    SimulationError : wrong shape, vertices that are not finite, or indices out of range.
    """
    try:
        v, f = np.asarray(vertices, dtype=np.float64), np.asarray(faces)
    except (TypeError, ValueError) as error:
        raise SimulationError(f"vertices and faces are no arrays of numbers ({error})", where="collision mesh",
                              todo="Give vertices [V,3] and faces [F,3]; lists in lists must be of equal length") \
            from error
    if f.size == 0 or v.size == 0:
        if f.size:
            raise SimulationError(f"{len(f)} faces but no vertices", where="collision mesh",
                                  todo="Give the vertices the faces refer to")
        return np.zeros((0, 3)), np.zeros((0, 3), np.int64)
    if v.ndim != 2 or v.shape[1] != 3 or f.ndim != 2 or f.shape[1] != 3 or f.dtype.kind not in "iu":
        raise SimulationError(f"vertices must be [V,3] and faces [F,3] integers, got {v.shape} and "
                              f"{f.shape} {f.dtype}", where="collision mesh", todo="Triangulate it")
    f = f.astype(np.int64)
    if not np.isfinite(v).all():
        bad = np.flatnonzero(~np.isfinite(v).all(axis=1))
        raise SimulationError(f"{len(bad)} vertices are not finite", where=f"collision mesh, vertex {bad[0]}",
                              todo="Repair the mesh: NaN passes PyBullet silently")
    if f.min() < 0 or f.max() >= len(v):
        bad = np.flatnonzero(((f < 0) | (f >= len(v))).any(axis=1))
        raise SimulationError(f"{len(bad)} faces refer to vertices that do not exist (there are {len(v)})",
                              where=f"collision mesh, face {bad[0]}", todo="Repair the mesh")
    return v, f


def with_area(v: NDArray[np.float64], f: NDArray[np.int64]) -> NDArray[np.int64]:
    """[K,3] faces higher than a nanometre. PyBullet would rest plates on the others, which no ray meets."""
    a, b, c = (v[f[:, k]] for k in range(3))
    ab, bc, ca = b - a, c - b, a - c
    longest = np.maximum(np.maximum(_square(ab), _square(bc)), _square(ca))
    cross = np.stack([ab[:, 1] * ca[:, 2] - ab[:, 2] * ca[:, 1], ab[:, 2] * ca[:, 0] - ab[:, 0] * ca[:, 2],
                      ab[:, 0] * ca[:, 1] - ab[:, 1] * ca[:, 0]], axis=1)
    kept = np.sqrt(_square(cross)) > 1e-9 * np.sqrt(longest)
    return f if kept.all() else f[kept]


def _square(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.einsum("ij,ij->i", x, x)


def crop_to_plan(v: NDArray[np.float64], f: NDArray[np.int64],
                 bounds: tuple[float, float, float, float], margin: float) -> NDArray[np.int64]:
    """[K,3] faces whose plan box comes within ``margin`` of ``bounds`` (x0, y0, x1, y1), in their order."""
    if len(f) == 0:
        return f
    lo, hi = np.array(bounds[:2]) - margin, np.array(bounds[2:]) + margin
    corners = v[f][:, :, :2]
    return f[((corners.max(axis=1) >= lo) & (corners.min(axis=1) <= hi)).all(axis=1)]


def chunks(v: NDArray[np.float64], f: NDArray[np.int64], triangles: int) -> list[Mesh]:
    """Meshes of at most ``triangles`` faces that also keep PyBullet's limits, without unused vertices.

    More than one chunk is cut along the longest axis, by the faces' centroids, ties in face order; a
    mesh that fits into one keeps its order of faces.
    """
    if len(f) == 0:
        return []
    triangles = max(1, min(triangles, MAX_INDICES // 3))
    used = _used(f, len(v))
    if len(f) <= triangles and len(used) <= MAX_VERTICES:
        return [_cut(v, f, used)]
    axis = int(np.argmax(np.ptp(v[used], axis=0)))
    along = v[:, axis]
    f = f[np.argsort((along[f[:, 0]] + along[f[:, 1]] + along[f[:, 2]]) / 3, kind="stable")]
    out: list[Mesh] = []
    start = 0
    while start < len(f):
        n = triangles
        while True:
            part = f[start:start + n]
            used = _used(part, len(v))
            if len(used) <= MAX_VERTICES:
                break
            n = min(n, len(part)) // 2  # a soup of unshared vertices meets that limit first
        out.append(_cut(v, part, used))
        start += n
    return out


def _used(f: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Indices of the vertices that faces refer to, rising; by a mask, since sorting millions takes seconds."""
    mask = np.zeros(count, bool)
    mask[f.ravel()] = True
    return np.flatnonzero(mask)


def _cut(v: NDArray[np.float64], f: NDArray[np.int64], used: NDArray[np.int64]) -> Mesh:
    index = np.zeros(len(v), np.int64)
    index[used] = np.arange(len(used))
    return v[used], index[f]


def add_static_scene(p: Any, client: int, v: NDArray[np.float64], f: NDArray[np.int64],
                     chunk_triangles: int, friction: float) -> list[int]:
    """Body ids of the static scene, one a chunk."""
    return [add_static_mesh(p, client, cv, cf, friction) for cv, cf in chunks(v, f, chunk_triangles)]


def add_static_mesh(p: Any, client: int, v: NDArray[np.float64], f: NDArray[np.int64],
                    friction: float) -> int:
    """One static concave body of mass 0 and collision margin 0; its id.

    Raises
    ------
    SimulationError : over PyBullet's limits for one shape, or refused by it.
    """
    if len(v) > MAX_VERTICES or f.size > MAX_INDICES:
        raise SimulationError(f"{len(v)} vertices and {f.size} indices exceed the {MAX_VERTICES} and "
                              f"{MAX_INDICES} that PyBullet takes in one shape", where="collision mesh",
                              todo="Lower placement.chunk_triangles")
    try:
        with quiet():
            # Arrays, never files: PyBullet caches file meshes by name for the whole process. The indices
            # must be flat, a list of triples ends the process.
            shape = p.createCollisionShape(p.GEOM_MESH, vertices=v.tolist(), indices=f.ravel().tolist(),
                                           flags=p.GEOM_FORCE_CONCAVE_TRIMESH, physicsClientId=client)
            body = p.createMultiBody(0, shape, physicsClientId=client) if shape >= 0 else -1
    except (p.error, SystemError) as error:
        raise _refused(len(f)) from error
    if body < 0:
        raise _refused(len(f))
    # The default margin of array meshes, 1 mm, is half of the penetration limit.
    p.changeDynamics(body, -1, lateralFriction=friction, collisionMargin=0.0, physicsClientId=client)
    return int(body)


def _refused(faces: int) -> SimulationError:
    return SimulationError(f"PyBullet refused a mesh of {faces} triangles", where="collision mesh",
                           todo="Look at the mesh with 'spatialbench inspect'")
