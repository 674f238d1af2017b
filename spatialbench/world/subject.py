"""What is anchored, seen alike whether it is a mesh or splats: how rays meet it, its surfels, its extent.

None of these see what stands for the sky (OPEN-2); only what images are drawn of holds it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import EmptyWorldError, UnsupportedFormatError
from spatialbench.scene.sky import without_sky
from spatialbench.types import GaussianSplats, Scene, TriangleMesh
from spatialbench.types.protocol_rules import CameraFinding
from spatialbench.world.anchor import anchor_mesh
from spatialbench.world.sight import RenderedSight, Sight, depth_renderer
from spatialbench.world.surfels import Surfels, mesh_surfels

if TYPE_CHECKING:
    from spatialbench.renderers.raycast import MeshRayCaster

__all__ = ["MeshSubject", "SplatSubject", "Subject", "subject_of"]

_BULK = (0.01, 0.99)
"""Quantiles of the splats' centres that count as the world's ends."""
_VISIBLE = 0.2
"""Opacity from which a splat counts for the extent (real-worlds.md section 5)."""


class Subject(Protocol):
    """Geometry in its source frame and unit, with what anchoring needs to know of it; without the sky unless said."""

    @property
    def sight(self) -> Sight:
        """What rays meet."""

    def surfels(self, unit_m: float, finding: CameraFinding) -> Surfels:
        """Pieces of surface, source axes, metres."""

    def box(self, rotation: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends [3], [3] along the rows of ``rotation``, source unit."""

    def blur(self, unit_m: float) -> float | None:
        """Median of the largest sigma of what can be seen, m; None for a mesh."""

    def anchored(self, rotation: NDArray[np.float64], camera: NDArray[np.float64], scale: float
                 ) -> TriangleMesh | GaussianSplats:
        """The same geometry in the world frame, its sky included."""


class MeshSubject:
    """A surface of triangles."""

    def __init__(self, mesh: TriangleMesh) -> None:
        self._mesh = mesh
        self._earthly = without_sky(mesh)

    @cached_property
    def sight(self) -> MeshRayCaster:
        """Casts rays at it."""
        from spatialbench.renderers.raycast import MeshRayCaster

        return MeshRayCaster(self._earthly.vertices, self._earthly.faces)

    def surfels(self, unit_m: float, finding: CameraFinding) -> Surfels:
        """See ``mesh_surfels``."""
        return mesh_surfels(self._earthly, unit_m, finding)

    def box(self, rotation: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of the vertices that faces use; of the sky's where there is nothing else."""
        mesh = self._earthly if len(self._earthly.faces) else self._mesh
        used = mesh.vertices[np.unique(mesh.faces)] @ rotation.T
        return used.min(axis=0), used.max(axis=0)

    def blur(self, unit_m: float) -> float | None:
        """None: a mesh has no splats."""
        return None

    def anchored(self, rotation: NDArray[np.float64], camera: NDArray[np.float64], scale: float) -> TriangleMesh:
        """See ``anchor_mesh``."""
        return anchor_mesh(self._mesh, rotation, camera, scale)


class SplatSubject:
    """A world of Gaussians."""

    def __init__(self, splats: GaussianSplats, up: ArrayLike) -> None:
        self._splats, self._up = splats, up
        self._earthly = without_sky(splats)

    @cached_property
    def sight(self) -> RenderedSight:
        """Looks at images of it."""
        return RenderedSight(depth_renderer(self._earthly), self._up)

    def surfels(self, unit_m: float, finding: CameraFinding) -> Surfels:
        """See ``splat_surfels``."""
        from spatialbench.world.splat_surfels import splat_surfels

        return splat_surfels(self._earthly, unit_m, finding)

    def box(self, rotation: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of the bulk of the visible centres, so that a few floaters do not count."""
        splats = self._earthly
        seen = splats.opacities > _VISIBLE
        means = splats.means[seen] if seen.any() else splats.means
        offset = np.zeros(3) if splats.offset is None else splats.offset
        level = (means.astype(np.float64) + offset) @ rotation.T
        low, high = np.quantile(level, _BULK, axis=0)
        return low, high

    def blur(self, unit_m: float) -> float | None:
        """See ``median_largest_sigma``."""
        from spatialbench.world.splat_surfels import median_largest_sigma

        return median_largest_sigma(self._earthly, unit_m)

    def anchored(self, rotation: NDArray[np.float64], camera: NDArray[np.float64], scale: float) -> GaussianSplats:
        """See ``anchor_splats``."""
        from spatialbench.world.splat_anchor import anchor_splats

        return replace(anchor_splats(self._splats, rotation, camera, scale), sky=self._splats.sky)


def subject_of(scene: Scene, up: ArrayLike) -> Subject:
    """What images of the scene show: its splats if it has any, else its mesh (design section 6).

    Raises
    ------
    UnsupportedFormatError : it has neither.
    EmptyWorldError : its mesh has no area, or no splat is opaque enough to be drawn.
    """
    if scene.splats is not None:
        if not np.any(scene.splats.opacities >= 1 / 255):
            raise EmptyWorldError("no splat is opaque enough to be seen", where=scene.path.name,
                                  todo="Export the world again; are the opacities stored as the format asks?")
        return SplatSubject(scene.splats, up)
    if scene.mesh is None:
        raise UnsupportedFormatError(f"a world of {scene.report.kind} can be inspected but not scored",
                                     where=scene.path.name, todo="Give a mesh or splats of the same world")
    if not np.any(scene.mesh.area_vectors()):
        raise EmptyWorldError("no face has an area", where=scene.path.name, todo="Export the world again")
    return MeshSubject(scene.mesh)
