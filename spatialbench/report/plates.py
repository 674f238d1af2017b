"""Pictures of plate trials: the world as the renderer shows it, and a plate laid over it by depth.

The world is drawn by the run's own renderer and the plate by a second one, so that nothing is built anew
for every trial; where the plate is nearer than the world, its pixels win.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import (
    Camera,
    Material,
    PlacementSettings,
    RenderSettings,
    TrialResult,
    TriangleMesh,
    look_at_pose,
    to_uint8,
)

if TYPE_CHECKING:
    from spatialbench.renderers import Renderer

__all__ = ["plate_mesh", "plate_pictures"]

_COBALT = (0.02, 0.10, 0.75, 1.0)
_DISTANCE = 0.95
_FOV = 40.0
_SIDES = 48
_SMALL = (64, 48)
_BLOCKED_SHARE = 0.1


def plate_mesh(settings: PlacementSettings) -> TriangleMesh:
    """The plate as a closed cylinder around the origin, axis Z, m."""
    a = 2 * np.pi * np.arange(_SIDES) / _SIDES
    ring = settings.plate_diameter / 2 * np.stack([np.cos(a), np.sin(a)], axis=1)
    h = settings.plate_thickness / 2
    low, high = (np.column_stack([ring, np.full(_SIDES, z)]) for z in (-h, h))
    i, j = np.arange(_SIDES), (np.arange(_SIDES) + 1) % _SIDES
    n = _SIDES
    bottom, top = np.full(n, 2 * n), np.full(n, 2 * n + 1)
    faces = np.concatenate([np.stack(f, axis=1) for f in (
        (i, j, n + j), (i, n + j, n + i), (j, i, bottom), (n + i, n + j, top))])
    return TriangleMesh(np.concatenate([low, high, [[0, 0, -h], [0, 0, h]]]), faces.astype(np.int32),
                        materials=(Material("plate", base_color=_COBALT),))


def plate_pictures(world: Renderer, results: Sequence[TrialResult], settings: PlacementSettings,
                   size: tuple[int, int] = (320, 240)) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """For each trial the plate as released and at the end, from one viewpoint.

    The viewpoint, 0.95 m away, is the first of 24 that the plate is seen from without much in front of it,
    or the one that shows most of it.

    Parameters
    ----------
    world : of the world's mesh, world frame.
    size : width, height.

    Returns
    -------
    (release, end) : uint8 [H,W,3] each.
    """
    from spatialbench.renderers import open_renderer

    mesh = plate_mesh(settings)
    out = []
    for r in results:
        poses = [_placed(r.release_centre, r.release_quaternion), _placed(r.rest_centre, r.rest_quaternion)]
        released, rested = (open_renderer(mesh.transformed(m), RenderSettings(shading="normal")) for m in poses)
        camera = _viewpoint(world, released, np.asarray(r.release_centre), size)
        out.append((_compose(world, released, camera), _compose(world, rested, camera)))
    return out


def _viewpoint(world: Renderer, plate: Renderer, target: NDArray[np.float64], size: tuple[int, int]) -> Camera:
    poses = []
    for elevation in (35.0, 60.0):
        for azimuth in range(0, 360, 30):
            e, a = np.radians([elevation, azimuth])
            poses.append(look_at_pose(target + _DISTANCE * np.array([np.sin(a) * np.cos(e), -np.cos(a) * np.cos(e),
                                                                     np.sin(e)]), target))
    small = [Camera.from_fov(p, _FOV, *_SMALL) for p in poses]
    seen = []
    for camera in small:
        depth = plate.render([camera], want=("depth",)).depth
        behind = world.render([camera], want=("depth",)).depth
        assert depth is not None and behind is not None
        there = depth > 0
        seen.append((int((there & ~((behind > 0) & (behind < depth))).sum()), int(there.sum())))
        if seen[-1][1] and seen[-1][0] >= (1 - _BLOCKED_SHARE) * seen[-1][1]:
            break
    best = max(range(len(seen)), key=lambda k: (seen[k][0], -k)) if seen[-1][0] < (1 - _BLOCKED_SHARE) * max(
        1, seen[-1][1]) else len(seen) - 1
    return Camera.from_fov(poses[best], _FOV, *size)


def _compose(world: Renderer, plate: Renderer, camera: Camera) -> NDArray[np.uint8]:
    back = world.render([camera], want=("rgb", "depth"))
    front = plate.render([camera], want=("rgb", "depth"))
    assert back.rgb is not None and back.depth is not None
    assert front.rgb is not None and front.depth is not None
    wins = (front.depth > 0) & ((back.depth <= 0) | (front.depth < back.depth))
    return to_uint8(np.where(wins[..., None], front.rgb, back.rgb)[0])


def _placed(centre: Sequence[float], quaternion: Sequence[float]) -> NDArray[np.float64]:
    x, y, z, w = quaternion
    m = np.eye(4)
    m[:3, :3] = [[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                 [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                 [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]]
    m[:3, 3] = centre
    return m
