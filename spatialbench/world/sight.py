"""What rays from a place meet, of a mesh by casting them and of splats by looking at images."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types import Camera, FirstHits, GaussianSplats, Pose
from spatialbench.world.decide import default_forward, level_rotation

if TYPE_CHECKING:
    from spatialbench.renderers import Renderer

__all__ = ["RenderedSight", "Sight", "depth_renderer"]

_SIZE = 512


def depth_renderer(splats: GaussianSplats) -> Renderer:
    """Draws depth and opacity of splats like any renderer of them, without its largest table: their harmonics."""
    from spatialbench.renderers import open_renderer

    return open_renderer(replace(splats, sh=splats.sh[:, :1]))


class Sight(Protocol):
    """First hits of rays, in the source frame and unit. Every ray caster of a mesh is one."""

    sided: bool
    """Whether hits have a normal, so that front and back can be told apart."""

    def first_hits(self, origins: ArrayLike, directions: ArrayLike) -> FirstHits:
        """First hit of each ray; origins [3] or [R,3], directions [R,3], which need not be unit."""


class RenderedSight:
    """Looks along rays through anything that renders: six images at each place, whose nearest pixel is taken.

    A ray's distance is its pixel's depth along the axis of its image, over the cosine to that axis: on a surface
    across the axis it is exact, elsewhere off by what the surface does within half a pixel (1/512). A pixel with
    opacity under one half has no depth and meets nothing (OPEN-1c). Hits have face 0 and no normal.

    Parameters
    ----------
    renderer : of the geometry, source frame.
    up : up axis [3]; the six images are level, so that a floor is seen along an axis.
    """

    sided = False

    def __init__(self, renderer: Renderer, up: ArrayLike) -> None:
        self._renderer = renderer
        self._level = level_rotation(up, default_forward(up))
        self._seen: tuple[bytes, NDArray[np.float32], list[Camera]] | None = None

    def first_hits(self, origins: ArrayLike, directions: ArrayLike) -> FirstHits:
        """First hit of each ray; rays of one origin should come together, for each place costs six images."""
        d = np.atleast_2d(np.asarray(directions, dtype=np.float64))
        o = np.broadcast_to(np.asarray(origins, dtype=np.float64), d.shape)
        distance = np.full(len(d), np.inf)
        places, which = np.unique(o, axis=0, return_inverse=True)
        for k, place in enumerate(places):
            mine = which.ravel() == k
            distance[mine] = self._look(place, d[mine])
        face = np.where(np.isfinite(distance), 0, -1).astype(np.int32)
        return FirstHits(distance, face, np.zeros((len(d), 3)))

    def _look(self, place: NDArray[np.float64], directions: NDArray[np.float64]) -> NDArray[np.float64]:
        depth, cameras = self._faces(place)
        unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        axes = np.stack([c.pose.forward for c in cameras])
        face = np.argmax(unit @ axes.T, axis=1)
        out = np.full(len(unit), np.inf)
        for f, camera in enumerate(cameras):
            mine = face == f
            x, y, z = (unit[mine] @ camera.pose.rotation).T
            column = np.clip(np.floor(camera.fx * x / z + camera.cx), 0, camera.width - 1).astype(np.int64)
            row = np.clip(np.floor(camera.fy * y / z + camera.cy), 0, camera.height - 1).astype(np.int64)
            along = depth[f, row, column].astype(np.float64)
            out[mine] = np.where(along > 0, along / z, np.inf)
        return out

    def _faces(self, place: NDArray[np.float64]) -> tuple[NDArray[np.float32], list[Camera]]:
        from spatialbench.renderers.trajectories import cube_faces

        key = place.tobytes()
        if self._seen is None or self._seen[0] != key:
            frame = np.eye(4)
            frame[:3, :3], frame[:3, 3] = self._level.T, place
            cameras = [Camera.from_fov(Pose(frame @ c.pose.matrix), 90.0, _SIZE)
                       for c in cube_faces(np.zeros(3), _SIZE)]
            depth = self._renderer.render(cameras, want=("depth",)).depth
            assert depth is not None
            self._seen = key, depth, cameras
        return self._seen[1], self._seen[2]
