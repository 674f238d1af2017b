"""Plain triangles and line segments of what is shown; world frame (X right, Y forward, Z up), metres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Camera, PlanGrid, Support, TriangleMesh

__all__ = ["cell_faces", "copies", "fan_faces", "frustum_lines", "largest_faces", "loop_lines", "rotations",
           "support_lines"]

F64 = NDArray[np.float64]


def rotations(wxyz: NDArray[Any]) -> NDArray[Any]:
    """Matrices [N,3,3] of unit quaternions [N,4], w first, in their type."""
    w, x, y, z = wxyz.T
    out = np.empty((len(wxyz), 3, 3), wxyz.dtype)
    out[:, 0] = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], axis=1)
    out[:, 1] = np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], axis=1)
    out[:, 2] = np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1)
    return out


def copies(mesh: TriangleMesh, centres: F64, xyzw: F64) -> tuple[F64, NDArray[np.int32]]:
    """A mesh at N places [N,3] with orientations [N,4], x first: vertices [N V,3] and faces [N F,3]."""
    turned = np.einsum("nij,vj->nvi", rotations(xyzw[:, [3, 0, 1, 2]]), mesh.vertices) + centres[:, None]
    first = len(mesh.vertices) * np.arange(len(centres), dtype=np.int32)
    return turned.reshape(-1, 3), (mesh.faces + first[:, None, None]).reshape(-1, 3)


def frustum_lines(camera: Camera, depth: float) -> F64:
    """Segments [8,2,3]: from the centre to the four corners of the image at ``depth`` along the axis, and its sides."""
    w, h = float(camera.width), float(camera.height)
    pixels = np.array([[0.0, 0.0], [w, 0.0], [w, h], [0.0, h]])
    rays = np.column_stack([(pixels - [camera.cx, camera.cy]) / [camera.fx, camera.fy], np.ones(4)])
    corners = camera.pose.position + depth * rays @ camera.pose.rotation.T
    spokes = np.stack([np.broadcast_to(camera.pose.position, (4, 3)), corners], axis=1)
    return np.concatenate([spokes, loop_lines(corners)])


def loop_lines(points: F64) -> F64:
    """Segments [N,2,3] of the closed loop through points [N,3]."""
    return np.stack([points, np.roll(points, -1, axis=0)], axis=1)


def support_lines(support: Support, lift: float = 0.005) -> F64:
    """Segments [K,2,3] of a support's outline and its holes, ``lift`` above its fitted plane."""
    a, b, c = support.plane
    loops = [np.column_stack([xy, xy @ [a, b] + c + lift]) for xy in (support.boundary, *support.holes) if len(xy)]
    return np.concatenate([np.zeros((0, 2, 3)), *(loop_lines(p) for p in loops)])


def fan_faces(polygons: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Triangles [F,3] of convex polygons, given as vertex indices."""
    fans = [(p[0], p[k], p[k + 1]) for p in polygons for k in range(1, len(p) - 1)]
    return np.array(fans, dtype=np.int32).reshape(-1, 3)


def cell_faces(grid: PlanGrid, z: float) -> tuple[F64, NDArray[np.int32]]:
    """The marked cells as level quads at height ``z``, one for each run of cells along Y: vertices [4R,3], [2R,3]."""
    edges = np.diff(np.pad(grid.mask.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    (row, first), (_, last) = np.nonzero(edges == 1), np.nonzero(edges == -1)
    x0, x1 = (grid.i0 + row) * grid.cell, (grid.i0 + row + 1) * grid.cell
    y0, y1 = (grid.j0 + first) * grid.cell, (grid.j0 + last) * grid.cell
    level = np.full(len(row), z)
    corners = np.stack([np.column_stack([x, y, level]) for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], axis=1)
    quads = 4 * np.arange(len(row))[:, None, None] + [[0, 1, 2], [0, 2, 3]]
    return corners.reshape(-1, 3), quads.reshape(-1, 3).astype(np.int32)


def largest_faces(mesh: TriangleMesh, most: int) -> TriangleMesh:
    """The ``most`` faces of the largest area, in their order; of equal ones the earlier. The mesh itself if it has
    no more."""
    if len(mesh.faces) <= most:
        return mesh
    area = np.linalg.norm(mesh.area_vectors(), axis=1)
    return mesh.select(np.sort(np.argsort(-area, kind="stable")[:most]))
