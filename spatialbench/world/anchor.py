"""The similarity from the source frame to the world: X right, Y forward, Z up, origin at the initial camera."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import TriangleMesh

__all__ = ["anchor_mesh", "anchor_points", "similarity"]


def similarity(rotation: NDArray[np.float64], camera: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """[4,4] matrix of ``x_world = scale * rotation @ (x_source - camera)``, float64."""
    m = np.eye(4)
    m[:3, :3] = scale * rotation
    m[:3, 3] = -scale * (rotation @ camera)
    return m


def anchor_points(points: NDArray[np.float64], rotation: NDArray[np.float64], camera: NDArray[np.float64],
                  scale: float) -> NDArray[np.float64]:
    """[N,3] the same as ``similarity``, but the camera is subtracted first.

    A tile far from its origin would lose digits in the product otherwise.
    """
    return scale * ((points - camera) @ rotation.T)


def anchor_mesh(mesh: TriangleMesh, rotation: NDArray[np.float64], camera: NDArray[np.float64], scale: float
                ) -> TriangleMesh:
    """The mesh and its lights in the world frame; winding is kept, because a similarity here never mirrors."""
    moved = similarity(rotation, camera, scale)
    return replace(mesh, vertices=anchor_points(mesh.vertices, rotation, camera, scale),
                   lights=tuple(light.transformed(moved) for light in mesh.lights))
