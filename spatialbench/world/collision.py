"""The mesh that simulators get (spec section 4.1): height crop, sky removal, facing rule, in this order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.sky import sky_materials
from spatialbench.types import CollisionMesh, TriangleMesh
from spatialbench.types.protocol_rules import Crop

__all__ = ["FAR_GAP", "FAR_SHARE", "collision_mesh", "crop_faces", "facing_share", "far_faces", "first_hit_share",
           "sky_materials", "true_facing"]

FAR_GAP = 10.0
"""Empty width in plan that makes what lies beyond it far, m."""
FAR_SHARE = 0.01
"""Of all surface area: what is far and has less is stray; more is a part of the world."""
_PROBE_SIZE = 64


def collision_mesh(mesh: TriangleMesh, ground_z: float, crop: Crop, geometry: str = "mesh") -> CollisionMesh:
    """Prepare a mesh for navigation and placement, following the paper literally.

    Parameters
    ----------
    mesh : world frame, metres, initial camera at the origin.
    ground_z : height of the floor, m.
    geometry : which geometry this is, for the record.
    """
    low, high = ground_z - crop.below_ground, ground_z + crop.above_ground
    kept = crop_faces(mesh, low, high)
    cropped = len(mesh.faces) - int(kept.sum())
    sky = np.isin(mesh.material_ids, sky_materials(mesh)) & kept
    kept &= ~sky
    if not kept.any():
        return CollisionMesh(None, geometry, None, None, False, False, cropped, int(sky.sum()), (low, high))
    out = mesh.select(kept)
    share = facing_share(out)
    seen = first_hit_share(out)
    reverse = share is not None and share < 0.5
    disagrees = share is not None and seen is not None and (share < 0.5) != (seen < 0.5)
    return CollisionMesh(out.flipped() if reverse else out, geometry, share, seen, reverse, disagrees, cropped,
                         int(sky.sum()), (low, high))


def true_facing(collision: CollisionMesh) -> TriangleMesh | None:
    """The collision mesh wound as both shares together say: reversed only when both are under one half.

    It is what M08c walks on and what upward surfaces are looked for on (OPEN-27).
    """
    mesh = collision.mesh
    if mesh is None or not (collision.reversed and collision.facing_disagrees):
        return mesh
    return mesh.flipped()


def crop_faces(mesh: TriangleMesh, low: float, high: float) -> NDArray[np.bool_]:
    """[F] faces to keep: those with all three corners in the band, ends included.

    No face is cut. This is what cropping a mesh means in the usual libraries, and it drops the 4,213 faces
    of the dungeon that real-worlds.md section 4 counts (wholly outside are 3,747).
    """
    z = mesh.vertices[:, 2]
    return np.asarray(((z >= low) & (z <= high))[mesh.faces].all(axis=1))


def far_faces(mesh: TriangleMesh) -> NDArray[np.bool_]:
    """[F] faces that are stray: beyond a gap of 10 m along X or Y, with under 1 % of the area between gaps.

    A floater 200 m away decides where the voxels of a NavMesh begin, and may make it too large to be built. M08 keeps
    such faces, as habitat-sim does, with the flag ``far_geometry``; M08c leaves them out.
    """
    area = np.linalg.norm(mesh.area_vectors(), axis=1)
    least = FAR_SHARE * float(area.sum())
    far = np.zeros(len(mesh.faces), dtype=bool)
    if len(far) == 0:
        return far
    for axis in (0, 1):
        corners = mesh.vertices[:, axis][mesh.faces]
        low, high = corners.min(axis=1), corners.max(axis=1)
        order = np.argsort(low, kind="stable")
        reached = np.maximum.accumulate(high[order])
        starts = np.zeros(len(order), dtype=np.int64)
        starts[1:] = low[order][1:] - reached[:-1] > FAR_GAP
        part = np.empty(len(order), dtype=np.int64)
        part[order] = np.cumsum(starts)
        share = np.bincount(part, weights=area)
        small = share < least
        small[np.argmax(share)] = False
        far |= small[part]
    return far


def facing_share(mesh: TriangleMesh) -> float | None:
    """Share of the area whose normals face the origin; None without any area."""
    vectors = mesh.area_vectors()
    area = np.linalg.norm(vectors, axis=1)
    total = float(area.sum())
    if not total > 0:
        return None
    toward = -mesh.triangles.mean(axis=1)
    return float(area[np.einsum("ij,ij->i", vectors, toward) > 0].sum() / total)


def first_hit_share(mesh: TriangleMesh) -> float | None:
    """Share of the first hits of six 64 x 64 probes at the origin that see a face from its front; None: no hit."""
    from spatialbench.renderers.raycast import MeshRayCaster
    from spatialbench.renderers.trajectories import cube_faces
    from spatialbench.world.probe import camera_rays

    origins, directions = camera_rays(cube_faces(np.zeros(3), _PROBE_SIZE))
    hits = MeshRayCaster(mesh.vertices, mesh.faces).first_hits(origins, directions)
    if not hits.hit.any():
        return None
    front = np.einsum("ij,ij->i", hits.normal, directions) < 0
    return float(front[hits.hit].mean())
