"""A navigation mesh as habitat-sim builds it, with its retries (spec/navmesh.md; metric M08)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import BackendUnavailableError, CorruptInputError, UsageError
from spatialbench.physics.navmesh._recipe import BuildFailure, build_once
from spatialbench.physics.navmesh._voxels import VoxelSettings, check_settings
from spatialbench.physics.navmesh._wasm import PACKAGE_VERSION, RECAST_VERSION, Instance, wasmtime_version
from spatialbench.types import NavMesh, NavMeshAttempt, NavMeshSettings

__all__ = ["BACKEND", "build_navmesh", "navmesh_backend_status"]

BACKEND = f"recast-wasm {PACKAGE_VERSION} (Recast {RECAST_VERSION})"
_DEFAULTS = NavMeshSettings()


def build_navmesh(vertices: ArrayLike, faces: ArrayLike, settings: NavMeshSettings = _DEFAULTS,
                  up: str = "z") -> NavMesh:
    """Walkable polygons of a triangle soup, by Recast with habitat-sim's recipe.

    Each of ``settings.cell_sizes`` is tried in order until a build gives at least one polygon; every attempt is
    recorded, and none of them succeeding is a result (no polygons), not an error. Winding decides: faces that
    look down are obstacles only. All vertices enter the bounds, also those that no face refers to; drop them
    before. The mesh is neither welded, cleaned nor padded. Builds are bounded in memory (about 2 GB) and work.

    Parameters
    ----------
    vertices : [V,3] metres; used as float32.
    faces : [F,3] integers.
    up : ``z`` (the engine's frame) or ``y``; the result is in the same frame.

    Raises
    ------
    CorruptInputError : not such arrays, non-finite vertices, indices out of range.
    ConfigError, UsageError : settings that cannot be, another ``up``.
    BackendUnavailableError : wasmtime or the Recast module is missing.
    """
    if up not in ("y", "z"):
        raise UsageError(f"up is {up!r}", where="build_navmesh", todo="Give 'z' or 'y'")
    check_settings(settings)
    v = _checked_vertices(vertices)
    f = _checked_faces(faces, len(v))
    if up == "z":
        v = np.ascontiguousarray(np.stack([v[:, 0], v[:, 2], -v[:, 1]], axis=1))
    attempts: list[NavMeshAttempt] = []
    for cell_size in settings.cell_sizes:
        try:
            points, polygons = build_once(v, f, VoxelSettings.of(settings, cell_size))
        except BuildFailure as e:
            attempts.append(NavMeshAttempt(cell_size, False, e.stage, e.reason))
            continue
        attempts.append(NavMeshAttempt(cell_size, True))
        if up == "z":
            points = np.stack([points[:, 0], -points[:, 2], points[:, 1]], axis=1)
        # Adding zero turns -0 into 0.
        return NavMesh(points + np.float32(0), polygons, tuple(attempts), cell_size, settings.profile, BACKEND)
    return NavMesh(np.zeros((0, 3), np.float32), (), tuple(attempts), None, settings.profile, BACKEND)


def navmesh_backend_status() -> tuple[bool, str]:
    """Whether navigation meshes can be built here, and the version or the reason why not."""
    try:
        Instance().close()
    except BackendUnavailableError as e:
        return False, str(e)
    return True, f"{BACKEND}, wasmtime {wasmtime_version()}"


def _checked_vertices(vertices: ArrayLike) -> NDArray[np.float32]:
    given: NDArray[Any] = np.asarray(vertices)
    if given.size == 0:
        given = given.reshape(0, 3).astype(np.float32)
    if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "fiu":
        raise CorruptInputError(f"vertices are {given.dtype} of shape {given.shape}", where="navmesh",
                                todo="Give numbers of shape [V,3]")
    with np.errstate(over="ignore"):
        v = np.ascontiguousarray(given, dtype=np.float32)
    finite = np.isfinite(v).all(axis=1)
    if not finite.all():
        k = int(np.argmin(finite))
        raise CorruptInputError(f"{len(v) - int(finite.sum())} vertices are not finite numbers in float32, the first "
                                f"is {given[k].tolist()}", where=f"navmesh, vertex {k}", todo="Remove or repair them")
    return v


def _checked_faces(faces: ArrayLike, n_vertices: int) -> NDArray[np.int32]:
    given: NDArray[Any] = np.asarray(faces)
    if given.size == 0:
        return np.zeros((0, 3), np.int32)
    if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "iu":
        raise CorruptInputError(f"faces are {given.dtype} of shape {given.shape}", where="navmesh",
                                todo="Give integers of shape [F,3]: three corners per triangle")
    bad = ((given < 0) | (given >= n_vertices)).any(axis=1)
    if bad.any():
        k = int(np.argmax(bad))
        raise CorruptInputError(f"{int(bad.sum())} faces refer to vertices that are not there ({n_vertices} are), "
                                f"the first is {given[k].tolist()}", where=f"navmesh, face {k}",
                                todo="Remove or repair them")
    return np.ascontiguousarray(given, dtype=np.int32)
