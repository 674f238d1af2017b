"""The one place that imports embreex."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError

__all__ = ["build_scene", "embreex_version", "require_embreex"]


def require_embreex() -> tuple[Any, Any]:
    """embreex's scene and mesh classes.

    Raises
    ------
    BackendUnavailableError : embreex is not installed here or does not load.
    """
    try:
        from embreex.mesh_construction import TriangleMesh
        from embreex.rtcore_scene import EmbreeScene
    except Exception as e:  # a wheel for another CPU or numpy fails with other types than ImportError
        raise BackendUnavailableError(
            f"embreex cannot be imported ({type(e).__name__}: {e})", where="ray casting",
            todo="Run 'pip install embreex' (wheels exist for x86-64 Linux and Windows and for macOS)",
        ) from None
    return EmbreeScene, TriangleMesh


def embreex_version() -> str:
    """Version of the installed embreex distribution, or an empty string."""
    try:
        return metadata.version("embreex")
    except metadata.PackageNotFoundError:
        return ""


def build_scene(vertices: NDArray[np.float32], faces: NDArray[np.int32]) -> Any:
    """A committed scene with one triangle mesh.

    Robust mode: without it rays slip through shared edges of a closed mesh.
    """
    scene_class, mesh_class = require_embreex()
    scene = scene_class(robust=True)
    mesh_class(scene, vertices, faces)
    # The first query commits the scene; it must not be two threads' first query at once.
    probe = np.zeros((1, 3), np.float32)
    scene.run(probe, probe + np.float32(1.0))
    return scene
