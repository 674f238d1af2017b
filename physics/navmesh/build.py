"""A navigation mesh as habitat-sim builds it, with its retries (spec/navmesh.md; metric M08)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import CorruptInputError, UsageError
from spatialbench.physics.navmesh._engine import BuildFailure
from spatialbench.physics.navmesh._voxels import check_settings
from spatialbench.physics.navmesh.backends import DEFAULT_BACKEND, backend_of
from spatialbench.types import NavMesh, NavMeshAttempt, NavMeshSettings

__all__ = ["build_navmesh"]

_DEFAULTS = NavMeshSettings()


def build_navmesh(vertices: ArrayLike, faces: ArrayLike, settings: NavMeshSettings = _DEFAULTS,
                  up: str = "z", backend: str = DEFAULT_BACKEND) -> NavMesh:
    """Walkable polygons of a triangle soup, by Recast with habitat-sim's recipe.

    Each of ``settings.cell_sizes`` is tried in order until a build gives at least one polygon; every attempt is
    recorded, and none of them succeeding is a result (no polygons), not an error. Winding decides: faces that
    look down are obstacles only. All vertices enter the bounds, also those that no face refers to; drop them
    before. The mesh is neither welded, cleaned nor padded. Builds are bounded in memory (about 2 GB; 4 GB with
    ``recast-system``) and work.

    Parameters
    ----------
    vertices : [V,3] metres; used as float32.
    faces : [F,3] integers.
    up : ``z`` (the engine's frame) or ``y``; the result is in the same frame.
    backend : ``recast`` (WebAssembly), ``recast-system`` (Debian's librecast1: unbounded in work once the triangles
        are in) or ``habitat`` (an installed habitat-sim: triangles instead of polygons, and only its own profile).

    Raises
    ------
    CorruptInputError : not such arrays, non-finite vertices, indices out of range.
    ConfigError, UsageError : settings that cannot be, another ``up``.
    BackendUnavailableError : wasmtime or the Recast module is missing, or what another backend needs.
    """
    if up not in ("y", "z"):
        raise UsageError(f"up is {up!r}", where="build_navmesh", todo="Give 'z' or 'y'")
    check_settings(settings)
    chosen = backend_of(backend)
    v = _checked_vertices(vertices)
    f = _checked_faces(faces, len(v))
    if up == "z":
        v = np.ascontiguousarray(np.stack([v[:, 0], v[:, 2], -v[:, 1]], axis=1))
    label = chosen.label()
    attempts: list[NavMeshAttempt] = []
    for cell_size in settings.cell_sizes:
        try:
            points, polygons = chosen.attempt(v, f, settings, cell_size)
        except BuildFailure as e:
            attempts.append(NavMeshAttempt(cell_size, False, e.stage, e.reason, e.cause))
            continue
        attempts.append(NavMeshAttempt(cell_size, True))
        if up == "z":
            points = np.stack([points[:, 0], -points[:, 2], points[:, 1]], axis=1)
        # Adding zero turns -0 into 0.
        return NavMesh(points + np.float32(0), polygons, tuple(attempts), cell_size, settings.profile, label)
    return NavMesh(np.zeros((0, 3), np.float32), (), tuple(attempts), None, settings.profile, label)


def _checked_vertices(vertices: ArrayLike) -> NDArray[np.float32]:
    given = _array(vertices, "vertices")
    if given.size == 0:
        given = given.reshape(0, 3).astype(np.float32)
    if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "fiu":
        raise CorruptInputError(f"vertices are {given.dtype} of shape {given.shape}", where="navmesh",
                                todo="Give numbers of shape [V,3]")
    with np.errstate(over="ignore"):
        v = np.ascontiguousarray(given, dtype=np.float32)
    if not np.isfinite(v).all():
        finite = np.isfinite(v).all(axis=1)
        k = int(np.argmin(finite))
        raise CorruptInputError(f"{len(v) - int(finite.sum())} vertices are not finite numbers in float32, the first "
                                f"is {given[k].tolist()}", where=f"navmesh, vertex {k}", todo="Remove or repair them")
    return v


def _checked_faces(faces: ArrayLike, n_vertices: int) -> NDArray[np.int32]:
    given = _array(faces, "faces")
    if given.size == 0:
        return np.zeros((0, 3), np.int32)
    if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "iu":
        raise CorruptInputError(f"faces are {given.dtype} of shape {given.shape}", where="navmesh",
                                todo="Give integers of shape [F,3]: three corners per triangle")
    if given.min() < 0 or given.max() >= n_vertices:
        bad = ((given < 0) | (given >= n_vertices)).any(axis=1)
        k = int(np.argmax(bad))
        raise CorruptInputError(f"{int(bad.sum())} faces refer to vertices that are not there ({n_vertices} are), "
                                f"the first is {given[k].tolist()}", where=f"navmesh, face {k}",
                                todo="Remove or repair them")
    return np.ascontiguousarray(given, dtype=np.int32)


def _array(given: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError as e:
        raise CorruptInputError(f"{name} are lists of unequal length ({e})", where="navmesh",
                                todo="Give three numbers in each") from e
