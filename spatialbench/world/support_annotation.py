"""The support that a case names, as a polygon in space or in the input view (OPEN-11a)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import ConfigError
from spatialbench.types.camera import Camera
from spatialbench.types.mesh import TriangleMesh
from spatialbench.types.placement import Support
from spatialbench.types.protocol_rules import SupportFinding
from spatialbench.types.rays import RayCaster
from spatialbench.world.support_columns import MAX_COLUMNS, CellGrid, Facing, Hits, surfaces_below
from spatialbench.world.support_outline import edge_crossings
from spatialbench.world.support_patch import closed, describe, fit_plane, patches

__all__ = ["annotated_support", "lift_image_polygon"]

_INLIER = 0.02
"""Depth points so near to a plane belong to it, m."""
_SHARP = 0.001
"""...and at least so near, when it is refined to the noise around it (4.5 medians are 3 sigma), m."""
_STEEPEST = math.cos(math.radians(30.0))
"""Planes steeper than this are not the top of anything, whatever else the polygon shows."""
_DRAWS = 400
_MIN_PIXELS = 12


def annotated_support(polygon: ArrayLike, label: str, collision: TriangleMesh, raycaster: RayCaster,
                      settings: SupportFinding) -> Support | None:
    """What the world has under a polygon in space; None when it has nothing there (a measured zero).

    The largest connected patch, inside the polygon in plan, of faces that look up within
    ``max_tilt_deg`` and lie within ``plane_distance`` of the polygon's plane. Its plane, height and outline
    are those of the patch.

    Parameters
    ----------
    polygon : [N,3] corners in the world frame, m, in either sense.
    label : of the case; becomes the support's id.
    collision, raycaster : the mesh, and the caster of the same mesh.

    Raises
    ------
    ConfigError : fewer than three corners, or no area in plan (a polygon on a wall).
    """
    import shapely

    corners = np.array(polygon, dtype=np.float64)
    where = f"support '{label}'"
    if corners.ndim != 2 or corners.shape[1] != 3 or len(corners) < 3 or not np.isfinite(corners).all():
        raise ConfigError("a support polygon has at least three finite corners x, y, z", where=where,
                          todo="Correct the case's 'support'")
    drawn = shapely.Polygon(corners[:, :2])
    shape = shapely.make_valid(drawn)
    if shape.area < 1e-6:
        raise ConfigError("the polygon has no area seen from above", where=where,
                          todo="Give the corners of the surface's top, in the case's frame")
    shapely.prepare(shape)
    plane = fit_plane(corners[:, :2], corners[:, 2])
    grid = _grid(shape, settings.grid)
    notes = [] if shapely.is_valid(drawn) else ["the polygon crosses itself: its largest part counts"]
    if grid.nx * grid.ny > MAX_COLUMNS:  # what reaches beyond the world is empty, and would only coarsen the cells
        (x0, y0, _), (x1, y1, _) = collision.bounds()
        shape = shape.intersection(shapely.box(x0, y0, x1, y1))
        if shape.area == 0:
            return None
        shapely.prepare(shape)
        grid = _grid(shape, settings.grid)
    large = ""
    while grid.nx * grid.ny > MAX_COLUMNS:
        grid = _grid(shape, grid.cell * 2)
        large = f"the polygon is large: cells of {grid.cell:g} m"
    facing = Facing.of(collision, settings.max_tilt_deg)

    def surfaces(xy: NDArray[np.float64]) -> Hits:
        start = plane[0] * xy[:, 0] + plane[1] * xy[:, 1] + plane[2] + settings.plane_distance
        return surfaces_below(xy, start, 2 * settings.plane_distance, 0.0, facing, raycaster)

    def inside(xy: NDArray[np.float64]) -> NDArray[np.bool_]:
        out = np.zeros(len(xy), bool)
        out[surfaces(xy).ray] = True
        return out & _contains(shape, xy)

    cells = np.stack(np.meshgrid(np.arange(grid.nx), np.arange(grid.ny), indexing="ij"), -1).reshape(-1, 2)
    cells = cells[_contains(shape, grid.centres(cells))]
    hits = surfaces(grid.centres(cells))
    if len(hits.ray) == 0:
        return None
    within = np.zeros((grid.nx, grid.ny), bool)
    within[tuple(cells.T)] = True
    ray, first = np.unique(hits.ray, return_index=True)
    seen = np.full(within.shape, np.nan)
    seen[tuple(cells[ray].T)] = hits.z[first]
    mask, seen, grid = max(patches(closed(np.isfinite(seen)) & within, seen, grid),
                           key=lambda p: int(p[0].sum()))
    edges = edge_crossings(mask, np.isfinite(seen), grid, inside)
    share = int(mask.sum()) / len(cells)
    words = "; ".join([f"'{label}', {share:.0%} of the polygon", *notes, *([large] if large else [])])
    return describe(mask, seen, grid, edges, source="case", note=words,
                    spread=settings.plane_distance, id=label)


def lift_image_polygon(image_polygon: ArrayLike, camera: Camera,
                       depth: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """Corners in the world [N,3] of a polygon drawn in a view, on the surface seen there; None without one.

    The depth points inside the polygon give a plane (the one of 400 fixed draws of three with the most
    points within 2 cm, then least squares on those), no steeper than 30 degrees; the corners are where their
    own rays meet it. Corners therefore need no depth of their own.

    Parameters
    ----------
    image_polygon : [N,2] in [0,1], x right, y down.
    camera : of the view; its pose is in the world frame.
    depth : [H,W] m along the camera axis, 0 where there is nothing.

    Raises
    ------
    ConfigError : the polygon has no area.
    """
    import shapely

    uv = np.array(image_polygon, dtype=np.float64) * [camera.width, camera.height]
    if depth.shape != (camera.height, camera.width):
        raise ValueError(f"depth has shape {depth.shape}, the camera {camera.height}x{camera.width}")
    shape = shapely.make_valid(shapely.Polygon(uv))
    if shape.area == 0:
        raise ConfigError("the polygon has no area in the image", where="key 'support.image_polygon'",
                          todo="Give its corners in order, x to the right and y down, each in [0,1]")
    shapely.prepare(shape)
    y, x = np.nonzero(np.isfinite(depth) & (depth > 0))
    pixels = np.column_stack([x, y]).astype(np.float64) + 0.5
    z = depth[y, x].astype(np.float64)
    mine = _contains(shape, pixels)
    if mine.sum() < _MIN_PIXELS:
        return None
    points = camera.pose.position + _directions(camera, pixels[mine]) * z[mine][:, None]
    plane = _dominant_plane(points)
    if plane is None:
        return None
    normal, offset = plane
    directions = _directions(camera, uv)
    along = directions @ normal
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (offset - float(camera.pose.position @ normal)) / along
    if not (np.isfinite(t).all() and (t > 0).all()):
        return None  # a corner above the plane's horizon
    return camera.pose.position + directions * t[:, None]


def _directions(camera: Camera, uv: NDArray[np.float64]) -> NDArray[np.float64]:
    """[N,3] world directions through image points [N,2] (pixels), of length 1 along the camera axis."""
    local = np.column_stack([(uv[:, 0] - camera.cx) / camera.fx, (uv[:, 1] - camera.cy) / camera.fy,
                             np.ones(len(uv))])
    return local @ camera.pose.rotation.T


def _dominant_plane(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], float] | None:
    """(unit normal, offset) with n.p = offset of the plane most points are near; None for no flat one."""
    rng = np.random.default_rng(0)
    a, b, c = points[rng.integers(0, len(points), size=(3, _DRAWS))]
    normals = np.cross(b - a, c - a)
    length = np.linalg.norm(normals, axis=1)
    flat = (length > 1e-9) & (np.abs(normals[:, 2]) >= _STEEPEST * length)
    if not flat.any():
        return None
    normals = normals[flat] / length[flat, None]
    offsets = (normals * a[flat]).sum(axis=1)
    # Every draw is judged by the same points: all, or an even choice of 20,000.
    some = points[:: max(1, len(points) // 20_000)]
    votes = [int((np.abs(some @ n - d) <= _INLIER).sum()) for n, d in zip(normals, offsets, strict=True)]
    best = int(np.argmax(votes))
    n, d = normals[best], float(offsets[best])
    limit = _INLIER
    for _ in range(3):
        off = np.abs(points @ n - d)
        near = points[off <= limit]
        # Then only what is as near as the surface's own noise: feet of things on it pull the plane up.
        limit = min(_INLIER, max(_SHARP, 4.5 * float(np.median(off[off <= limit]))))
        middle = near.mean(axis=0)
        spread = near - middle
        n = np.linalg.eigh(spread.T @ spread)[1][:, 0]
        d = float(n @ middle)
    return (n, d) if abs(n[2]) >= _STEEPEST else None


def _grid(shape: Any, cell: float) -> CellGrid:
    x0, y0, x1, y1 = shape.bounds
    return CellGrid.over(x0, y0, x1, y1, cell)


def _contains(shape: Any, xy: NDArray[np.float64]) -> NDArray[np.bool_]:
    import shapely

    return shapely.contains_xy(shape, xy[:, 0], xy[:, 1])
