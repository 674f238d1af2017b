"""The contact sheet of an import: a world from four sides and from above, upright by what was decided."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.report.sheet_marks import mark_plan, mark_view
from spatialbench.scene.sky import without_sky
from spatialbench.types import (
    Camera,
    GaussianSplats,
    Pose,
    RenderSettings,
    TriangleMesh,
    level_pose,
    look_at_pose,
    to_uint8,
)
from spatialbench.world import Anchoring
from spatialbench.world.decide import default_forward, level_rotation

__all__ = ["SheetFrame", "contact_sheet", "four_cameras", "plan_camera", "splats_of_points"]

VIEWS = ("front left", "front right", "back right", "back left")
_AZIMUTHS = (-135.0, 135.0, 45.0, -45.0)
_FOV = 50.0
_ELEVATION = 25.0
_PLAN_FOV = 8.0
"""Narrow, and so from far: what is higher is hardly moved."""
_CENTRAL = (1.0, 99.0)
"""Percentiles of splat centres that are framed, so that a few floaters do not make the world a dot."""
_SAMPLE = 2_000_000
_BACKGROUND = (0.93, 0.93, 0.92)


@dataclass(frozen=True, eq=False)
class SheetFrame:
    """Axes that a sheet is drawn along: ``x = factor * rotation @ (x_source - origin)``, X right, Y forward, Z up.

    Attributes
    ----------
    metric : lengths are metres; otherwise units of the file.
    camera : the origin is the initial camera.
    cut : what lies above the initial camera hides the floor, and is left out of the plan.
    ray_points : [K,3] ends of the nine rays down.
    """

    rotation: NDArray[np.float64]
    origin: NDArray[np.float64]
    factor: float = 1.0
    metric: bool = False
    camera: bool = False
    cut: bool = False
    ray_points: NDArray[np.float64] | None = None

    @staticmethod
    def of(up: NDArray[np.float64], at: Anchoring | None) -> SheetFrame:
        """The world frame, or without an anchoring the file's own, turned upright."""
        if at is None:
            return SheetFrame(level_rotation(up, default_forward(up)), np.zeros(3))
        interior = not any(g.raised for g in at.gates if g.name == "no_interior")
        return SheetFrame(at.rotation, at.camera.position, at.factor, at.scale.factor is not None, True, interior,
                          at.ray_points)

    def level(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """[N,3] of source points in these axes."""
        return (points - self.origin) @ self.rotation.T * self.factor

    def to_source(self, pose: Pose) -> Pose:
        """A pose in these axes, in the source frame."""
        m = np.eye(4)
        m[:3, :3] = self.rotation.T @ pose.rotation
        m[:3, 3] = self.origin + self.rotation.T @ pose.position / self.factor
        return Pose(m)


def contact_sheet(geometry: GaussianSplats | TriangleMesh | None, frame: SheetFrame, size: int = 384
                  ) -> NDArray[np.uint8]:
    """[2 size, 4 size, 3] uint8: ``VIEWS`` row by row, and the plan to the right of them.

    Parameters
    ----------
    geometry : source frame; what stands for the sky is not drawn, for it would hide or dwarf the rest.
    size : pixels of a side of one view.

    Raises
    ------
    BackendUnavailableError : nothing here draws this kind of world.
    """
    from spatialbench.renderers import open_renderer

    if geometry is None:
        raise BackendUnavailableError("there is nothing to draw", where="contact sheet", todo="Give a world")
    earthly = without_sky(geometry)
    if len(earthly.faces if isinstance(earthly, TriangleMesh) else earthly):
        geometry = earthly
    settings = RenderSettings(background=_BACKGROUND)
    points = frame.level(_framed(geometry))
    cameras = four_cameras(points, size)
    drawn = open_renderer(geometry, settings).render([_in_source(c, frame) for c in cameras], want=("rgb",))
    assert drawn.rgb is not None
    a, b, c, d = (mark_view(to_uint8(rgb), camera, name)
                  for rgb, camera, name in zip(drawn.rgb, cameras, VIEWS, strict=True))
    low = _below_eyes(geometry, frame) if frame.cut else None
    if low is not None:
        geometry, points = low, frame.level(_framed(low))
    plan = plan_camera(points, 2 * size, [np.zeros((int(frame.camera), 3)), *(
        [] if frame.ray_points is None else [frame.ray_points])])
    seen = open_renderer(geometry, settings).render([_in_source(plan, frame)], want=("rgb",))
    assert seen.rgb is not None
    what = "from above, cut at eye height" if low is not None else "from above"
    above = mark_plan(to_uint8(seen.rgb[0]), plan, what, "m" if frame.metric else "units", frame.camera,
                      np.zeros((0, 3)) if frame.ray_points is None else frame.ray_points)
    return np.concatenate([np.concatenate([np.concatenate([a, b], axis=1), np.concatenate([c, d], axis=1)]), above],
                          axis=1)


def four_cameras(points: NDArray[np.float64], size: int = 384) -> list[Camera]:
    """Cameras that see the box of ``points`` [N,3] (Z up) from four corners, ``_ELEVATION`` degrees down."""
    lo, hi = points.min(axis=0), points.max(axis=0)
    centre, radius = (lo + hi) / 2, max(float(np.linalg.norm(hi - lo)) / 2, 1e-9)
    distance = radius / math.sin(math.radians(_FOV / 2))
    cameras = []
    for azimuth in _AZIMUTHS:
        a, e = math.radians(azimuth), math.radians(_ELEVATION)
        away = np.array([math.sin(a) * math.cos(e), math.cos(a) * math.cos(e), math.sin(e)])
        cameras.append(Camera.from_fov(look_at_pose(centre + distance * away, centre), _FOV, size))
    return cameras


def plan_camera(points: NDArray[np.float64], size: int, also: list[NDArray[np.float64]]) -> Camera:
    """A camera far above ``points`` [N,3] (Z up) that sees them and what is in ``also``; the image's top is +Y."""
    every = np.concatenate([points, *also])
    lo, hi = every.min(axis=0), every.max(axis=0)
    half = max(float((hi - lo)[:2].max()) / 2, 1e-9) * 1.12
    x, y = (lo + hi)[:2] / 2
    height = hi[2] + half / math.tan(math.radians(_PLAN_FOV / 2))
    return Camera.from_fov(level_pose((x, y, height), 0.0, -90.0), _PLAN_FOV, size)


def splats_of_points(positions: NDArray[np.float64], colors: NDArray[np.float32] | None) -> GaussianSplats:
    """Round splats in place of points, so that a cloud can be drawn; at most ``_SAMPLE`` of them, evenly picked.

    Parameters
    ----------
    positions : [N,3].
    colors : [N,4] linear RGBA, or None for grey.
    """
    step = -(-len(positions) // _SAMPLE)
    middle = np.median(positions, axis=0)
    means = (positions[::step] - middle).astype(np.float32)
    n = len(means)
    linear = np.full((n, 3), 0.17) if colors is None else np.clip(colors[::step, :3].astype(np.float64), 0, 1)
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    lo, hi = np.percentile(means, _CENTRAL, axis=0)
    # 0.35 of the distance between neighbours on a surface, and no less than half a pixel.
    sigma = max(float(np.linalg.norm(hi - lo)), 1e-6) * max(0.35 / math.sqrt(n), 1 / 1500)
    turn = np.tile(np.array([1, 0, 0, 0], np.float32), (n, 1))
    return GaussianSplats(means, np.full((n, 3), sigma, np.float32), turn, np.full(n, 0.9, np.float32),
                          ((rgb - 0.5) / 0.28209479177387814).astype(np.float32)[:, None], offset=middle)


def _in_source(camera: Camera, frame: SheetFrame) -> Camera:
    return replace(camera, pose=frame.to_source(camera.pose))


def _framed(geometry: GaussianSplats | TriangleMesh) -> NDArray[np.float64]:
    """[N,3] points in the source frame whose box is the world's, without the few that float away."""
    if isinstance(geometry, TriangleMesh):
        return geometry.vertices[np.unique(geometry.faces)]
    means = _positions(geometry)
    lo, hi = np.percentile(means, _CENTRAL, axis=0)
    inside = ((means >= lo) & (means <= hi)).all(axis=1)
    return means[inside] if inside.any() else means


def _positions(splats: GaussianSplats) -> NDArray[np.float64]:
    return np.asarray(splats.means.astype(np.float64) + (0.0 if splats.offset is None else splats.offset))


def _below_eyes(geometry: GaussianSplats | TriangleMesh, frame: SheetFrame) -> GaussianSplats | TriangleMesh | None:
    """What is not wholly above the initial camera; None when that is nothing."""
    if isinstance(geometry, TriangleMesh):
        keep = frame.level(geometry.vertices)[:, 2][geometry.faces].min(axis=1) < 0
    else:
        keep = frame.level(_positions(geometry))[:, 2] < 0
    return geometry.select(keep) if keep.any() else None
