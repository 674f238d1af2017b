"""Pictures of trials by PyBullet's TinyRenderer, which needs no display.

The scene is drawn in plain colours, what lies below the support in another one; the body is blue. Edges are darkened
where depth jumps: the renderer's own shadows are wrong on large triangles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.physics.placement.backend import bullet_client, quiet
from spatialbench.physics.placement.objects import object_mesh, plan_radius
from spatialbench.physics.placement.static_scene import check_mesh, with_area
from spatialbench.types.camera import Camera, look_at_pose
from spatialbench.types.placement import PlacedObject, TrialResult
from spatialbench.types.rays import RayCaster

__all__ = ["BODY_COLOR", "CHUNK", "LOW_COLOR", "SCENE_COLOR", "Studio", "add_picture", "plan_camera", "project",
           "viewpoint"]

SCENE_COLOR = (0.88, 0.82, 0.70, 1.0)
LOW_COLOR = (0.60, 0.66, 0.74, 1.0)
BODY_COLOR = (0.10, 0.25, 0.95, 1.0)
_LIGHT = (0.6, -0.8, 1.6)
CHUNK = 20_000
"""Triangles of one body: each has three vertices of its own a side, of at most 131,072."""
_CARRIES = 0.5
"""Cosine of the steepest slope that something may rest on, with room to spare."""
_NEAR, _FAR = 0.02, 60.0
_DISTANCE, _FOV = 0.95, 40.0
_EDGE = 0.02
"""Jumps of depth larger than this share of it are edges."""
_AWAY = 1.5
"""A body that rests farther from its release than this, m, is left out of the frame."""
_FREE = 0.9
Pose = Sequence[float]
Picture = NDArray[np.uint8]


class Studio:
    """Draws one scene and one body in it; close it, or use it in ``with``.

    Parameters
    ----------
    vertices, faces : [V,3] m, Z up, and [F,3]; only what should be in the pictures.
    placed : the body.
    level : faces whose middle is lower than this, m, get the other colour.

    Raises
    ------
    BackendUnavailableError, SimulationError : no PyBullet, or a mesh that it must not get.
    """

    def __init__(self, vertices: ArrayLike, faces: ArrayLike, placed: PlacedObject, level: float) -> None:
        self._stack = ExitStack()
        v, f = check_mesh(vertices, faces)
        f = with_area(v, f)
        p, self._scene = self._stack.enter_context(bullet_client())
        _, self._alone = self._stack.enter_context(bullet_client())
        self._p = p
        low = v[f][:, :, 2].mean(axis=1) < level
        for part, color in ((f[low], LOW_COLOR), (f[~low], SCENE_COLOR)):
            for start in range(0, len(part), CHUNK):
                add_picture(p, self._scene, v, part[start:start + CHUNK], color)
        self._bodies = [add_picture(p, c, *object_mesh(placed), BODY_COLOR) for c in (self._scene, self._alone)]

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give back the simulations."""
        self._stack.close()

    def picture(self, camera: Camera, pose: Pose | None) -> Picture:
        """The scene with the body at x, y, z and quaternion xyzw, or without it; uint8 [H,W,3]."""
        self._move(0, pose)
        return _edged(*self._shoot(self._scene, camera))

    def film(self, camera: Camera, poses: Iterable[Pose]) -> Iterator[Picture]:
        """One picture a pose. The scene is drawn once, and the body over it by depth."""
        self._move(0, None)
        back, far = self._shoot(self._scene, camera)
        back = _edged(back, far)
        for pose in poses:
            self._move(1, pose)
            front, near = self._shoot(self._alone, camera)
            yield np.where((near < far)[..., None], front, back)

    def _move(self, which: int, pose: Pose | None) -> None:
        at = (0.0, 0.0, -1e4, 0.0, 0.0, 0.0, 1.0) if pose is None else pose
        self._p.resetBasePositionAndOrientation(self._bodies[which], at[:3], at[3:7],
                                                physicsClientId=(self._scene, self._alone)[which])

    def _shoot(self, client: int, camera: Camera) -> tuple[Picture, NDArray[np.float32]]:
        p, w, h = self._p, camera.width, camera.height
        with quiet():
            image = p.getCameraImage(w, h, _view(camera), _lens(camera), renderer=p.ER_TINY_RENDERER, shadow=0,
                                     lightDirection=_LIGHT, physicsClientId=client)
        rgb = np.asarray(image[2], dtype=np.uint8).reshape(h, w, 4)[..., :3]
        return rgb, np.asarray(image[3], dtype=np.float32).reshape(h, w)


def _edged(rgb: Picture, depth: NDArray[np.float32]) -> Picture:
    """The picture with its edges darkened."""
    z = 2.0 * _FAR * _NEAR / (_FAR + _NEAR - (2.0 * depth.astype(np.float64) - 1.0) * (_FAR - _NEAR))
    edge = np.zeros(z.shape, bool)
    for axis in (0, 1):  # second differences: a surface that recedes evenly has none
        nearest = np.minimum(np.delete(z, [0, 1], axis), np.delete(z, [-2, -1], axis))
        jump = np.abs(np.diff(z, 2, axis=axis)) > _EDGE * nearest
        edge |= np.pad(jump, ((1, 1), (0, 0)) if axis == 0 else ((0, 0), (1, 1)))
    return np.where(edge[..., None], rgb // 2, rgb)


def add_picture(p: Any, client: int, v: NDArray[np.float64], f: NDArray[np.int64],
                color: tuple[float, float, float, float]) -> int:
    """A body that is only seen, with flat faces; its number. At most 21,845 faces.

    The renderer draws faces from their front alone. What a body can rest on is given both sides, since it also carries
    where it is wound the wrong way; walls are not, since a camera may stand behind one.
    """
    t = v[f]
    across = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0])
    t = np.concatenate([t, t[np.abs(across[:, 2]) > _CARRIES * np.linalg.norm(across, axis=1)][:, ::-1]])
    normals = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True) + 1e-30
    corners = t.reshape(-1, 3)
    with quiet():
        shape = p.createVisualShape(p.GEOM_MESH, vertices=corners.tolist(), indices=list(range(len(corners))),
                                    normals=np.repeat(normals, 3, axis=0).tolist(), rgbaColor=color,
                                    physicsClientId=client)
        return int(p.createMultiBody(0, -1, shape, physicsClientId=client))


def viewpoint(trial: TrialResult, placed: PlacedObject, rays: RayCaster, size: tuple[int, int] = (480, 360)) -> Camera:
    """A camera that sees the body at its release, and at rest unless that is far away.

    The first of 24 directions from which nine tenths of the body's rim and middle are seen past the scene, or the one
    that shows most of it.
    """
    radius = max(0.05, plan_radius(placed))
    a = np.array(trial.release_centre)
    b = np.array(trial.rest_centre)
    apart = float(np.linalg.norm(b - a))
    target, reach = (a + b) / 2 if apart <= _AWAY else a, apart if apart <= _AWAY else 0.0
    distance = _DISTANCE * radius / 0.11 + 1.2 * reach
    k = 2 * math.pi * np.arange(8) / 8
    points = np.vstack([a, a + 0.9 * radius * np.column_stack([np.cos(k), np.sin(k), np.zeros(8)])])
    best, most = None, -1.0
    for elevation in (35.0, 60.0):
        for azimuth in range(0, 360, 30):
            e, z = math.radians(elevation), math.radians(azimuth)
            eye = target + distance * np.array([math.sin(z) * math.cos(e), -math.cos(z) * math.cos(e), math.sin(e)])
            d = eye - points
            length = np.linalg.norm(d, axis=1)
            hits = rays.first_hits(points + 0.002 * d / length[:, None], d)
            free = float((~(hits.hit & (hits.distance < length))).mean())
            if free > most:
                best, most = eye, free
            if most >= _FREE:
                break
        if most >= _FREE:
            break
    assert best is not None
    return Camera.from_fov(look_at_pose(best, target), _FOV, *size)


def plan_camera(bounds: tuple[float, float, float, float], z: float, size: tuple[int, int] = (800, 600)) -> Camera:
    """A camera that looks straight down on the box x0, y0, x1, y1 at a height."""
    x0, y0, x1, y1 = bounds
    w, h = size
    half = max(x1 - x0, (y1 - y0) * w / h) / 2 * 1.08
    up = half / math.tan(math.radians(_FOV) / 2)
    target = np.array([(x0 + x1) / 2, (y0 + y1) / 2, z])
    return Camera.from_fov(look_at_pose(target + [0.0, 0.0, up], target), _FOV, w, h)


def project(camera: Camera, points: ArrayLike) -> NDArray[np.float64]:
    """[N,3]: pixel x and y, and depth along the axis, of points [N,3]."""
    c = (np.asarray(points, dtype=np.float64) - camera.pose.position) @ camera.pose.rotation
    return np.column_stack([camera.fx * c[:, 0] / c[:, 2] + camera.cx, camera.fy * c[:, 1] / c[:, 2] + camera.cy,
                            c[:, 2]])


def _view(camera: Camera) -> list[float]:
    """Column by column: OpenGL's camera looks along its -Z with Y up."""
    m = np.diag([1.0, -1.0, -1.0, 1.0]) @ camera.pose.world_to_camera
    out: list[float] = m.T.ravel().tolist()
    return out


def _lens(camera: Camera) -> list[float]:
    m = np.zeros((4, 4))
    m[0, 0], m[1, 1] = 2 * camera.fx / camera.width, 2 * camera.fy / camera.height
    m[2, 2], m[2, 3] = -(_FAR + _NEAR) / (_FAR - _NEAR), -2 * _FAR * _NEAR / (_FAR - _NEAR)
    m[3, 2] = -1.0
    out: list[float] = m.T.ravel().tolist()
    return out
