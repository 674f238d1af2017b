"""What simulators got of a world of splats, beside what the camera sees: pictures and figures of the fused mesh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spatialbench.report.data import CollisionCard
from spatialbench.report.text import number, percent
from spatialbench.types import Camera, FusionQuality, RenderSettings, World, level_pose, to_uint8

if TYPE_CHECKING:
    from spatialbench.renderers import Renderer

__all__ = ["collision_card"]

_VIEWS = (("forward", 0.0), ("right", 90.0), ("back", 180.0), ("left", 270.0))
_SIZE = 320


def collision_card(world: World, renderer: Renderer) -> CollisionCard | None:
    """Four level views of 90 degrees from the initial camera, each of the images' world and of the fused mesh.

    None where no mesh was fused: then simulators got what images show, or a mesh of the file's own.
    """
    mesh, quality = world.collision.mesh, world.collision.fusion
    if mesh is None or quality is None:
        return None
    from spatialbench.renderers import open_renderer

    cameras = [Camera.from_fov(level_pose(np.zeros(3), yaw), 90.0, _SIZE) for _, yaw in _VIEWS]
    seen = renderer.render(cameras, want=("rgb",)).rgb
    fused = open_renderer(mesh, RenderSettings(shading="normal")).render(cameras, want=("rgb",)).rgb
    assert seen is not None
    assert fused is not None
    views = [(name, to_uint8(a), to_uint8(b)) for (name, _), a, b in zip(_VIEWS, seen, fused, strict=True)]
    return CollisionCard(views, _facts(quality, len(mesh.faces)))


def _facts(q: FusionQuality, faces: int) -> list[tuple[str, str]]:
    def of(value: float | None, digits: int = 1, unit: str = "", by: float = 1.0) -> str:
        return "not known" if value is None else f"{number(value * by, digits)}{unit}"

    where = f"{q.checked_from} places that were not used" if q.checked_from else "the initial camera"
    return [
        ("faces", f"{faces:,}"),
        ("fused from", f"{q.viewpoints} places in free space, voxels of {number(q.voxel * 100, 1)} cm"),
        ("compared from", where),
        ("median of seen minus mesh", of(q.bias, 1, " mm", 1000)),
        ("95 % within", of(q.spread, 0, " mm", 1000)),
        ("off by more than two voxels", "not known" if q.far is None else percent(q.far)),
        ("seen, but not in the mesh", "not known" if q.holes is None else percent(q.holes)),
        ("open, but closed in the mesh", "not known" if q.false_surface is None else percent(q.false_surface)),
        ("border of free space that is surface", "not known" if q.coverage is None else percent(q.coverage)),
        ("two layers in one place", "not known" if q.double_layers is None else percent(q.double_layers)),
        ("splats beyond its reach", percent(q.clipped)),
        ("small pieces left out", f"{q.pieces_dropped}, {q.faces_dropped:,} faces"),
    ]
