"""Warnings for people about the collision mesh."""

from __future__ import annotations

from spatialbench.types import CollisionMesh, FusionQuality
from spatialbench.types.protocol_rules import Fusion

__all__ = ["collision_warnings", "fusion_warnings"]

_CLIPPED, _HOLES, _FALSE, _FAR, _DOUBLE = 0.10, 0.10, 0.25, 0.15, 0.10
"""Shares from which on a figure of a fused mesh is said; read off rooms that fuse well, which stay well below."""


def collision_warnings(collision: CollisionMesh) -> list[str]:
    """What a person should know about any collision mesh."""
    out = []
    if collision.mesh is None:
        low, high = collision.crop
        out.append(f"nothing is left between {low:.1f} and {high:.1f} m: there is no collision mesh")
    if collision.sky_faces:
        out.append(f"{collision.sky_faces:,} faces stand for the sky and were taken out for navigation")
    if collision.facing_disagrees and collision.facing_share is not None:
        seen = f"{collision.first_hit_share:.0%} of what the camera sees is seen from the front"
        area = f"{collision.facing_share:.0%} of the area faces it"
        out.append(f"M08 may be wrong: the protocol's rule turned all faces over, because only {area}, yet {seen}. "
                   "Agents then walk on undersides. The rule misfires on closed slabs; the file needs no mending"
                   if collision.reversed else
                   f"M08 may be wrong: only {seen}, so faces may be wound inside out; the protocol's rule kept them, "
                   f"because {area}. Turn wrong faces over in the file")
    return out


def fusion_warnings(quality: FusionQuality, settings: Fusion) -> list[str]:
    """What a person should know about a fused mesh before trusting scores that stand on it."""
    out = []
    if quality.clipped > _CLIPPED:
        out.append(f"the collision mesh covers {settings.reach:g} m around the initial camera; {quality.clipped:.0%} "
                   "of the splats lie beyond it (fusion.reach sets how far it goes)")
    if quality.voxel > settings.voxel * 1.001:
        out.append(f"the collision mesh has voxels of {quality.voxel:.3f} m instead of {settings.voxel:g} m, because "
                   "the world is large; small things are lost in it")
    if quality.double_layers is not None and quality.double_layers > _DOUBLE:
        out.append(f"{quality.double_layers:.0%} of the collision mesh has a second layer close behind it: the splats "
                   "draw one surface in two places, and plates may stand on the wrong one")
    parts = []
    if quality.holes is not None and quality.holes > _HOLES:
        parts.append(f"{quality.holes:.0%} of what is seen is not in it")
    if quality.false_surface is not None and quality.false_surface > _FALSE:
        parts.append(f"{quality.false_surface:.0%} of what can be seen through is closed in it")
    if quality.far is not None and quality.far > _FAR:
        parts.append(f"{quality.far:.0%} of it is more than {2 * quality.voxel:.2f} m from what is seen")
    if parts:
        out.append(f"the collision mesh does not follow the splats well: {', '.join(parts)}. M08 and M25 stand on it")
    return out
