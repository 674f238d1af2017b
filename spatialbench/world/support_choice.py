"""The case's support if it names one, else those that are found on the collision mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import CollisionMesh, GaussianSplats, Protocol, SnapshotCase, Support, TriangleMesh
from spatialbench.world.anchor import anchor_points
from spatialbench.world.collision import true_facing

if TYPE_CHECKING:
    from spatialbench.renderers.raycast import MeshRayCaster

__all__ = ["Anchored", "supports_of"]


@dataclass(frozen=True, eq=False)
class Anchored:
    """The geometry that images show, world frame, and how it came there from the source frame."""

    geometry: TriangleMesh | GaussianSplats
    rotation: NDArray[np.float64]
    camera: NDArray[np.float64]
    scale: float


def supports_of(world: Anchored, collision: CollisionMesh, ground: float, case: SnapshotCase | None,
              protocol: Protocol) -> tuple[tuple[Support, ...], list[str]]:
    """The case's support if it names one, else those that are found; and what to say about it."""
    from spatialbench.renderers.raycast import MeshRayCaster
    from spatialbench.world.supports import annotated_support, find_supports

    mesh = true_facing(collision)
    if mesh is None:
        return (), []
    rays = MeshRayCaster(mesh.vertices, mesh.faces)
    if case is None or case.support is None:
        radius = protocol.placement.plate_diameter / 2
        return tuple(find_supports(mesh, rays, ground, protocol.supports, radius)), []
    polygon: NDArray[np.float64] | None
    if case.support.polygon is not None:
        polygon = anchor_points(np.array(case.support.polygon), world.rotation, world.camera, world.scale)
    else:
        polygon = _lift(world.geometry, case.support.image_polygon or (), protocol)
    label = case.support.label
    if polygon is None:
        return (), [f"the support '{label}' is not there: the view shows nothing where it is marked"]
    support = annotated_support(polygon, label, mesh, rays, protocol.supports)
    return ((), [_missed_support(polygon, label, mesh, rays)]) if support is None else ((support,), [])


def _missed_support(polygon: NDArray[np.float64], label: str, mesh: TriangleMesh, rays: MeshRayCaster) -> str:
    """Where the surface is that a case's polygon does not lie on."""
    x, y, z = polygon.mean(axis=0)
    top = float(mesh.vertices[:, 2].max()) + 1.0
    hits = rays.all_hits([[x, y, top]], [[0.0, 0.0, -1.0]])
    looks_up = mesh.area_vectors()[hits.face, 2] > 0
    heights = top - hits.distance[looks_up]
    if not len(heights):
        return f"the support '{label}' is not there: nothing under or over its middle looks up"
    off = float(heights[np.argmin(np.abs(heights - z))] - z)
    return (f"the support '{label}' is not there: at its middle the nearest surface that looks up is "
            f"{abs(off):.3f} m {'above' if off > 0 else 'below'} the polygon")


def _lift(geometry: TriangleMesh | GaussianSplats, image_polygon: tuple[tuple[float, float], ...],
          protocol: Protocol) -> NDArray[np.float64] | None:
    """A polygon of the first view of the origin ring, on what is seen there."""
    from spatialbench.renderers import render
    from spatialbench.renderers.trajectories import ring
    from spatialbench.world.support_annotation import lift_image_polygon

    lens = protocol.views.lens
    camera = ring(np.zeros(3), protocol.views.ring_frames, lens.width, lens.height, lens.fov_deg)[0]
    depth = render(geometry, [camera], want=("depth",)).depth
    assert depth is not None
    return lift_image_polygon(np.array(image_polygon), camera, depth[0])
