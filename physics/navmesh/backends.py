"""The registry of what builds navigation meshes: names, whether they can be used here, and one attempt of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.physics.navmesh._engine import Engine
from spatialbench.physics.navmesh._recipe import Polygons, build_once
from spatialbench.physics.navmesh._voxels import VoxelSettings
from spatialbench.physics.navmesh._wasm import PACKAGE_VERSION, RECAST_VERSION, Instance, wasmtime_version
from spatialbench.types import NavMeshSettings

__all__ = ["BACKEND", "DEFAULT_BACKEND", "NavMeshBackend", "backend_of", "navmesh_backend_names",
           "navmesh_backend_status"]

DEFAULT_BACKEND = "recast"
BACKEND = f"recast-wasm {PACKAGE_VERSION} (Recast {RECAST_VERSION})"
"""What the default puts into a result."""

Attempt = Callable[[NDArray[np.float32], NDArray[np.int32], NavMeshSettings, float], Polygons]


@dataclass(frozen=True)
class NavMeshBackend:
    """One way to build a navigation mesh.

    Attributes
    ----------
    name : what asks for it.
    label : gives name and version for results; raises BackendUnavailableError where it cannot be used.
    status : gives its version for people; raises likewise.
    attempt : vertices [V,3] float32 (y up, m), faces, settings and voxel size to polygons; raises BuildFailure.
    """

    name: str
    label: Callable[[], str]
    status: Callable[[], str]
    attempt: Attempt


def backend_of(name: str) -> NavMeshBackend:
    """The backend of that name.

    Raises
    ------
    UsageError : there is none.
    """
    if name not in _BACKENDS:
        raise UsageError(f"no navmesh backend '{name}'", where="navmesh backend",
                         todo=f"Choose among {', '.join(_BACKENDS)}")
    return _BACKENDS[name]


def navmesh_backend_names() -> tuple[str, ...]:
    """Every known backend, the default first."""
    return tuple(_BACKENDS)


def navmesh_backend_status(name: str = DEFAULT_BACKEND) -> tuple[bool, str]:
    """Whether the backend can be used here, and its version or the reason why not."""
    try:
        return True, backend_of(name).status()
    except BackendUnavailableError as e:
        return False, str(e)


def _by_recipe(open_engine: Callable[[bool], Engine], bounded: Callable[[bool], Engine] | None = None) -> Attempt:
    def attempt(vertices: NDArray[np.float32], faces: NDArray[np.int32], settings: NavMeshSettings,
                cell_size: float) -> Polygons:
        return build_once(open_engine, vertices, faces, VoxelSettings.of(settings, cell_size), bounded)
    return attempt


def _wasm_engine(metered: bool) -> Engine:
    from spatialbench.physics.navmesh._wasm_engine import WasmEngine

    return WasmEngine(metered)


def _wasm_status() -> str:
    Instance().close()
    return f"{BACKEND}, wasmtime {wasmtime_version()}"


def _system_engine(metered: bool) -> Engine:
    from spatialbench.physics.navmesh._system import SystemEngine

    return SystemEngine(metered)


def _system_label() -> str:
    _system_engine(True).close()
    return "recast-system (librecast 1.5)"


def _habitat_attempt(vertices: NDArray[np.float32], faces: NDArray[np.int32], settings: NavMeshSettings,
                     cell_size: float) -> Polygons:
    from spatialbench.physics.navmesh._habitat import build_with_habitat

    return build_with_habitat(vertices, faces, settings, cell_size)


def _habitat_label() -> str:
    from spatialbench.physics.navmesh._habitat import habitat_version

    return f"habitat-sim {habitat_version()}"


_BACKENDS = {b.name: b for b in (
    NavMeshBackend("recast", lambda: BACKEND, _wasm_status, _by_recipe(_wasm_engine)),
    NavMeshBackend("recast-system", _system_label, _system_label, _by_recipe(_system_engine, _wasm_engine)),
    NavMeshBackend("habitat", _habitat_label, _habitat_label, _habitat_attempt),
)}
