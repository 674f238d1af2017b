"""The contact sheet of an import: a world from four sides, upright by the up axis that was decided."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.types import Camera, Pose, RenderSettings, Scene, look_at_pose, to_uint8
from spatialbench.world.decide import default_forward, level_rotation

__all__ = ["contact_sheet", "four_cameras"]

VIEWS = ("front left", "front right", "back right", "back left")
_FOV = 50.0
_ELEVATION = 25.0
_CENTRAL = (1.0, 99.0)
"""Percentiles of splat centres that are framed, so that a few floaters do not make the world a dot."""


def four_cameras(scene: Scene, up: NDArray[np.float64], size: int = 384) -> list[Camera]:
    """Cameras in the source frame that see the whole world from four corners, ``_ELEVATION`` degrees down.

    Parameters
    ----------
    up : unit axis [3] in the source frame.
    size : pixels of a side.
    """
    lo, hi = _extent(scene)
    rotation = level_rotation(up, default_forward(up))
    corners = np.array([[x, y, z] for x in (lo[0], hi[0]) for y in (lo[1], hi[1]) for z in (lo[2], hi[2])])
    upright = corners @ rotation.T
    centre = (upright.min(axis=0) + upright.max(axis=0)) / 2
    radius = max(float(np.linalg.norm(upright - centre, axis=1).max()), 1e-9)
    distance = radius / math.sin(math.radians(_FOV / 2))
    back = np.eye(4)
    back[:3, :3] = rotation.T
    cameras = []
    for azimuth in (-135.0, 135.0, 45.0, -45.0):
        a, e = math.radians(azimuth), math.radians(_ELEVATION)
        away = np.array([math.sin(a) * math.cos(e), math.cos(a) * math.cos(e), math.sin(e)])
        pose = look_at_pose(centre + distance * away, centre)
        cameras.append(Camera.from_fov(Pose(back @ pose.matrix), _FOV, size))
    return cameras


def contact_sheet(scene: Scene, up: NDArray[np.float64], size: int = 384) -> NDArray[np.uint8]:
    """[2 size, 2 size, 3] uint8: ``VIEWS`` row by row.

    Raises
    ------
    BackendUnavailableError : nothing here draws this kind of world.
    """
    from spatialbench.renderers import open_renderer

    geometry = scene.splats if scene.splats is not None else scene.mesh
    if geometry is None:
        raise BackendUnavailableError("there is nothing to draw", where=scene.path.name, todo="Give a world")
    renderer = open_renderer(geometry, RenderSettings(background=(0.93, 0.93, 0.92)))
    frames = renderer.render(four_cameras(scene, up, size), want=("rgb",))
    assert frames.rgb is not None
    a, b, c, d = (to_uint8(f) for f in frames.rgb)
    return np.concatenate([np.concatenate([a, b], axis=1), np.concatenate([c, d], axis=1)])


def _extent(scene: Scene) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if scene.splats is not None:
        lo, hi = np.percentile(scene.splats.means.astype(np.float64), _CENTRAL, axis=0)
        return lo, hi
    assert scene.mesh is not None
    lo, hi = scene.mesh.bounds()
    return lo, hi
