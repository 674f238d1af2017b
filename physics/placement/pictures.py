"""Pictures of a trial, drawn by PyBullet's own software renderer, which needs no display."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.physics.placement.backend import bullet_client, quiet
from spatialbench.physics.placement.outline import Boundary
from spatialbench.physics.placement.static_scene import MAX_VERTICES, check_mesh, crop_to_plan
from spatialbench.types.placement import PlacementSettings, Support, TrialResult

__all__ = ["trial_pictures"]

Four = tuple[float, float, float, float]

_CROP = 1.2
_DISTANCE = 0.9
_FOV = 50.0
_VIEWS = tuple((azimuth, elevation) for elevation in (40.0, 65.0, 20.0) for azimuth in range(0, 360, 45))
"""Degrees, in the order in which they are preferred."""
_ENOUGH = 0.9
"""A view is taken at once when it shows so much of what the best possible one could."""
_PLATE = (0.93, 0.33, 0.10, 1.0)
_SCENE = (0.74, 0.76, 0.80, 1.0)
_LEVELS = 4
"""Shades of a channel: the renderer has one colour a body, so face colours are sorted into bodies."""
_CHUNK = MAX_VERTICES // 6


def trial_pictures(vertices: ArrayLike, faces: ArrayLike, results: Sequence[TrialResult], support: Support,
                   settings: PlacementSettings, *, colors: ArrayLike | None = None,
                   size: tuple[int, int] = (320, 240)) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """For each trial the plate as released and as it came to rest, from one viewpoint.

    The viewpoint, 0.9 m from the place and above it, is the first of 24 directions that shows the plate
    well, so that shelves and walls do not hide it. A plate that fell out of view is not in its second
    picture. The same input gives the same pictures.

    Parameters
    ----------
    vertices, faces : [V,3] m, Z up, and [F,3]; drawn within 1.2 m of the support and the places.
    colors : [F,3] sRGB in [0,1] of the faces, in a few shades; None for grey.
    size : width, height.

    Returns
    -------
    (release, rest) : uint8 [H,W,3] each.

    Raises
    ------
    BackendUnavailableError, SimulationError : as ``run_trials``.
    """
    v, f = check_mesh(vertices, faces)
    if not results:
        return []
    shade = None if colors is None else np.asarray(colors, dtype=np.float64)[:, :3]
    x0, y0, x1, y1 = Boundary.of(support).bounds()
    places = np.array([r.release_centre[:2] for r in results])
    lo, hi = np.minimum(places.min(0), (x0, y0)), np.maximum(places.max(0), (x1, y1))
    with bullet_client() as (p, client):
        for part, color in _by_color(v, f, shade, (*lo.tolist(), *hi.tolist())):
            for a in range(0, len(part), _CHUNK):
                _add_faces(p, client, v[part[a:a + _CHUNK]], color)
        plate = _add_faces(p, client, _plate_faces(settings), _PLATE)
        return [_pair(p, client, plate, r, settings.plate_diameter / 2, size) for r in results]


def _add_faces(p: Any, client: int, corners: NDArray[np.float64], color: Four) -> int:
    """A body that is only seen, from triangles [F,3,3]; its number.

    The renderer does not draw faces from behind and smooths across shared corners: each face comes twice,
    with corners of its own and its flat normal.
    """
    both = np.concatenate([corners, corners[:, ::-1]])
    normals = np.cross(both[:, 1] - both[:, 0], both[:, 2] - both[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    with quiet():
        shape = p.createVisualShape(p.GEOM_MESH, vertices=both.reshape(-1, 3).tolist(),
                                    indices=list(range(3 * len(both))),
                                    normals=np.repeat(normals, 3, axis=0).tolist(), rgbaColor=color,
                                    physicsClientId=client)
        return int(p.createMultiBody(0, -1, shape, physicsClientId=client))


def _plate_faces(s: PlacementSettings) -> NDArray[np.float64]:
    """[F,3,3] the plate as a prism of 48 sides."""
    n = 48
    a = 2 * math.pi * np.arange(n + 1) / n
    ring = s.plate_diameter / 2 * np.column_stack([np.cos(a), np.sin(a)])
    h = s.plate_thickness / 2
    top, low = (np.column_stack([ring, np.full(n + 1, z)]) for z in (h, -h))
    middle = np.zeros((n, 3))
    return np.concatenate([
        np.stack([middle + [0, 0, h], top[:-1], top[1:]], axis=1),
        np.stack([middle - [0, 0, h], low[1:], low[:-1]], axis=1),
        np.stack([low[:-1], low[1:], top[1:]], axis=1),
        np.stack([low[:-1], top[1:], top[:-1]], axis=1)])


def _by_color(v: NDArray[np.float64], f: NDArray[np.int64], shade: NDArray[np.float64] | None,
              bounds: Four) -> list[tuple[NDArray[np.int64], Four]]:
    """Cropped faces grouped by coarse colour, with the group's mean colour."""
    if shade is None:
        return [(crop_to_plan(v, f, bounds, _CROP), _SCENE)]
    level = np.clip((shade * _LEVELS).astype(np.int64), 0, _LEVELS - 1)
    key = (level * [_LEVELS * _LEVELS, _LEVELS, 1]).sum(axis=1)
    out = []
    for k in np.unique(key).tolist():
        mine = key == k
        part = crop_to_plan(v, f[mine], bounds, _CROP)
        if len(part):
            r, g, b = np.clip(shade[mine].mean(axis=0), 0.0, 1.0).tolist()
            out.append((part, (r, g, b, 1.0)))
    return out


def _pair(p: Any, client: int, plate: int, r: TrialResult, radius: float,
          size: tuple[int, int]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    _move(p, client, plate, r.release_centre, r.release_quaternion)
    view = _best_view(p, client, plate, r.release_centre, radius)
    release, _ = _draw(p, client, r.release_centre, view, size)
    _move(p, client, plate, r.rest_centre, r.rest_quaternion)
    rest, _ = _draw(p, client, r.release_centre, view, size)
    return release, rest


def _move(p: Any, client: int, plate: int, centre: Sequence[float], quaternion: Sequence[float]) -> None:
    p.resetBasePositionAndOrientation(plate, centre, quaternion, physicsClientId=client)


def _best_view(p: Any, client: int, plate: int, target: Sequence[float],
               radius: float) -> tuple[float, float]:
    """The first view that shows the plate nearly as well as an empty scene would, else the best one."""
    best, most = _VIEWS[0], -1.0
    focal = 48 / 2 / math.tan(math.radians(_FOV / 2))
    face_on = math.pi * (radius * focal / _DISTANCE) ** 2
    for view in _VIEWS:
        _, seen = _draw(p, client, target, view, (64, 48), shadow=False)
        # A disc seen at elevation e is sin(e) as large; compare views by what share of that is seen.
        share = float((seen == plate).sum()) / (face_on * math.sin(math.radians(view[1])))
        if share >= _ENOUGH:
            return view
        if share > most:
            best, most = view, share
    return best


def _draw(p: Any, client: int, target: Sequence[float], view: tuple[float, float],
          size: tuple[int, int], shadow: bool = True) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """RGB [H,W,3] and body numbers [H,W]."""
    azimuth, elevation = map(math.radians, view)
    eye = [target[0] + _DISTANCE * math.cos(elevation) * math.sin(azimuth),
           target[1] - _DISTANCE * math.cos(elevation) * math.cos(azimuth),
           target[2] + _DISTANCE * math.sin(elevation)]
    w, h = size
    looking = p.computeViewMatrix(eye, list(target), [0.0, 0.0, 1.0])
    lens = p.computeProjectionMatrixFOV(_FOV, w / h, 0.02, 20.0)
    _, _, rgb, _, seen = p.getCameraImage(w, h, looking, lens, lightDirection=[1.0, -2.0, 4.0],
                                          shadow=int(shadow), lightAmbientCoeff=0.55, lightDiffuseCoeff=0.5,
                                          lightSpecularCoeff=0.0, renderer=p.ER_TINY_RENDERER,
                                          physicsClientId=client)
    # Arrays, or flat or nested tuples where PyBullet was built without numpy.
    image = np.array(rgb).reshape(h, w, -1)[:, :, :3].astype(np.uint8)
    return np.ascontiguousarray(image), np.array(seen).reshape(h, w).astype(np.int64)
