"""A world in the common metric frame: X right, Y forward, Z up, origin at the initial camera."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.types.grid import PlanGrid
from spatialbench.types.mesh import TriangleMesh
from spatialbench.types.placement import Support
from spatialbench.types.scene import Decision, Scene
from spatialbench.types.splats import GaussianSplats

__all__ = ["CollisionMesh", "FusionQuality", "Gate", "ScaleRecord", "World"]


@dataclass(frozen=True)
class ScaleRecord:
    """How the metric scale came about (spec section 3; OPEN-1).

    Attributes
    ----------
    branch : ``floor`` (nine rays), ``depth`` (90th percentile), ``user`` or ``failed``.
    factor : metres per source unit; None when failed.
    ray_distances : vertical distances of the nine rays in source units; None for a ray without a hit.
    percentile_depth : source units, when the fallback was taken.
    protocol : False when the user overrode the rule: the result is then not the protocol's.
    """

    branch: str
    factor: float | None
    ray_distances: tuple[float | None, ...] = ()
    percentile_depth: float | None = None
    protocol: bool = True


@dataclass(frozen=True)
class Gate:
    """A check of whether the world can be judged as an interior (real-worlds.md section 7).

    Attributes
    ----------
    name : the flag that it raises: ``no_interior``, ``too_blurry_for_geometry``,
        ``camera_inside_geometry``, ``scale_doubtful``.
    raised : whether the flag is up.
    value, threshold : what was seen, and where the flag goes up.
    note : in words.
    """

    name: str
    raised: bool
    value: float | None
    threshold: float
    note: str = ""


@dataclass(frozen=True)
class FusionQuality:
    """How well a mesh that was fused from rendered depth stands for what was rendered.

    Holes, false surface, bias, spread, far and double layers come from viewpoints that were not fused
    (``checked_from`` of them; from the initial camera when there is none): rays through pixels of their six faces,
    rendered depth against the mesh.

    Attributes
    ----------
    viewpoints : that were fused, the initial camera included.
    clearance : least distance of one of them from the mesh, m; None without a mesh.
    voxel : edge length, m; larger than the protocol's where the grid would have been too large.
    grid : voxels along x, y and z.
    low, high : corners of the grid, world frame, m.
    clipped : share of the splats' opacity times area that lies outside the grid.
    free_volume : observed free space connected to the viewpoints, m3.
    pieces_dropped, faces_dropped : small components that were left out.
    checked_from : viewpoints that were not fused.
    holes : share of the pixels with depth inside the grid whose ray meets no mesh.
    false_surface : share of the pixels without depth whose ray meets the mesh; None where under
        1 in 200 of all pixels are without.
    bias : median of rendered minus mesh depth, m; positive where the mesh stands out in front. None without a pair.
    spread : 95th percentile of its absolute value, m.
    far : share of the pairs that differ by more than two voxels.
    coverage : share of the border of that free space that is surface; the rest borders on what nobody saw. None
        without a border.
    double_layers : share of the rays that meet the mesh from its front and, within two voxels behind, measured across
        the first, the front of another sheet. None where no ray meets it.
    backend : what made the surfaces: ``fusion``, or ``open3d`` with its version.
    """

    viewpoints: int
    clearance: float | None
    voxel: float
    grid: tuple[int, int, int]
    low: tuple[float, float, float]
    high: tuple[float, float, float]
    clipped: float
    free_volume: float
    pieces_dropped: int
    faces_dropped: int
    checked_from: int
    holes: float | None
    false_surface: float | None
    bias: float | None
    spread: float | None
    far: float | None
    coverage: float | None = None
    double_layers: float | None = None
    backend: str = "fusion"


@dataclass(frozen=True, eq=False)
class CollisionMesh:
    """What simulators get (spec section 4.1).

    Attributes
    ----------
    mesh : cropped and, where the facing rule says so, reversed; world frame. None when nothing is left.
    geometry : ``mesh``, ``fused_mesh`` or ``collider``.
    facing_share : share of the area whose normals face the initial camera, before reversing.
    first_hit_share : share of the six probes' first hits that are seen from the front.
    reversed : all faces were reversed by the literal rule.
    facing_disagrees : the first hits say that the rule misfired.
    cropped_faces, sky_faces : faces removed by the height crop, by sky removal.
    crop : lowest and highest z that was kept, m.
    fusion : how good a ``fused_mesh`` is; None for the others.
    """

    mesh: TriangleMesh | None
    geometry: str
    facing_share: float | None
    first_hit_share: float | None
    reversed: bool
    facing_disagrees: bool
    cropped_faces: int
    sky_faces: int
    crop: tuple[float, float]
    fusion: FusionQuality | None = None


@dataclass(frozen=True, eq=False)
class World:
    """One world, anchored.

    Attributes
    ----------
    scene : where it came from.
    mesh : the file's surface, world frame; None for a world of splats alone. Images are drawn of it only when there
        are no splats.
    transform : [4,4] source to world (similarity).
    scale : how metres were fixed.
    ground_z : height of the floor, m (-1.6 by the primary rule); ``ground_assumed`` if none was seen.
    collision : for simulators.
    footprint : plan cells that geometry covers; None when there is no geometry, or when its cells lie too far
        apart for one array (``footprint_area`` then still holds their area, m2).
    supports : case's own or found, largest first.
    support_annotated : the case names a support (so that its absence is a measured zero).
    decisions : frame, up, unit, camera, scale... each with source and confidence.
    gates : in the order of ``Gate.name``'s list.
    splats : for images, world frame; None for a world of a mesh alone.
    estimates : what was found beside the decisions (up candidates, camera candidates), JSON types.
    warnings : for people.
    """

    scene: Scene
    mesh: TriangleMesh | None
    transform: NDArray[np.float64]
    scale: ScaleRecord
    ground_z: float
    ground_assumed: bool
    collision: CollisionMesh
    footprint: PlanGrid | None
    supports: tuple[Support, ...]
    support_annotated: bool
    decisions: dict[str, Decision]
    gates: tuple[Gate, ...]
    footprint_area: float = 0.0
    estimates: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    splats: GaussianSplats | None = None

    @property
    def seen(self) -> TriangleMesh | GaussianSplats:
        """What images are drawn of.

        Raises
        ------
        ValueError : a world of nothing, which cannot be built.
        """
        geometry = self.splats if self.splats is not None else self.mesh
        if geometry is None:
            raise ValueError("a world without geometry")
        return geometry

    @property
    def seen_geometry(self) -> str:
        """``splats`` or ``mesh``: for the records of what was measured on images."""
        return "mesh" if self.splats is None else "splats"

    @property
    def has_scale(self) -> bool:
        """Whether lengths mean metres."""
        return self.scale.factor is not None

    def raised(self) -> tuple[str, ...]:
        """Names of the gates that are up."""
        return tuple(g.name for g in self.gates if g.raised)
