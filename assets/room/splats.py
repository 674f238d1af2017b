"""Splats of the room: one flat Gaussian on the surface for each cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.assets.room.cells import Cells, frames
from spatialbench.assets.room.cutting import cut_cells
from spatialbench.assets.room.layout import CAMERA
from spatialbench.assets.room.light import soup
from spatialbench.assets.room.patches import Patch
from spatialbench.assets.room.surface import AtlasMeans, Surface
from spatialbench.types import GaussianSplats

__all__ = ["THICKNESS", "room_splats", "to_splat_frame"]

THICKNESS = 0.0015
"""Standard deviation across the surface, m."""
_OPACITY, _OPACITY_EDGE = 0.86, 0.97
"""Inside, where the lattice of splats must not show; along free edges, which must be crisp."""
_INSIDE, _AT_EDGE = 0.675, 0.45
"""Standard deviation in the surface over the cell's width: inside, and across a free edge."""
_BEND = 0.09
"""Height over length of a chord from which a cell counts as bent."""
_ALPHA = 0.967
"""Mean alpha of a surface of such splats; colours are raised by what it lets through."""
_FINEST = 0.001
"""Least standard deviation in the surface, m."""
_SHELL = ("floor", "ceiling", "north", "south", "west", "east")
_SH_C0 = 0.28209479177387814

Array = NDArray[np.float64]
Rectangle = tuple[int, int, int, int]


def room_splats(patches: list[Patch], rectangles: list[Rectangle], atlas: NDArray[np.uint8]) -> GaussianSplats:
    """Degree 0, in the frame of ``to_splat_frame``, metres; from patches and where each is in the painted atlas."""
    from spatialbench.renderers.raycast import MeshRayCaster  # embree is loaded only here

    triangles = soup(patches)
    surface, means = Surface(patches), AtlasMeans(atlas, rectangles)
    a, b, c = (triangles.vertices[triangles.faces[:, k]] for k in range(3))
    owner = np.searchsorted(triangles.first_cell, triangles.cell, side="right") - 1
    sizes = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    areas = np.bincount(owner, sizes, len(patches)).astype(np.float64)
    shell = np.array([p.tag in _SHELL for p in patches])
    cells = cut_cells(surface, means, MeshRayCaster(triangles.vertices, triangles.faces), owner, areas, shell)
    return _splats(surface, means, cells)


def to_splat_frame(points: Array) -> Array:
    """Z-up room coordinates [...,3] to x right, y down, z forward from the initial camera."""
    d = np.asarray(points, dtype=np.float64) - CAMERA
    return np.stack([d[..., 0], -d[..., 2], d[..., 1]], axis=-1)


def _splats(surface: Surface, means: AtlasMeans, c: Cells) -> GaussianSplats:
    centre, across_u, across_v, normal = frames(surface, c)
    share_u, share_v = (np.where(c.free[:, k:k + 2].any(axis=1) | bent, _AT_EDGE, _INSIDE)[:, None]
                        for k, bent in ((0, _bent(surface, c, centre, True)), (2, _bent(surface, c, centre, False))))
    first, second = _main_axes(share_u * across_u, share_v * across_v)
    scales = np.stack([np.linalg.norm(first, axis=1), np.linalg.norm(second, axis=1)], axis=1)
    axes = np.stack([first / scales[:, :1], np.cross(normal, first / scales[:, :1]), normal], axis=2)
    axes = np.stack([axes[:, 0], -axes[:, 2], axes[:, 1]], axis=1)  # turned as ``to_splat_frame`` turns points
    scales = np.concatenate([np.maximum(scales, _FINEST), np.full((len(c), 1), THICKNESS)], axis=1)
    edge = c.free.any(axis=1)
    colour = means(c.patch, c.u0, c.u1, c.v0, c.v1) / np.where(edge, 1.0, _ALPHA)[:, None]
    return GaussianSplats(to_splat_frame(centre).astype(np.float32), scales.astype(np.float32),
                          _quaternions(axes).astype(np.float32),
                          np.where(edge, _OPACITY_EDGE, _OPACITY).astype(np.float32),
                          ((colour - 0.5) / _SH_C0)[:, None].astype(np.float32))


def _bent(surface: Surface, c: Cells, centre: Array, along_u: bool) -> NDArray[np.bool_]:
    """Cells that turn so much that a splat as wide as others would stand out beside them."""
    u, v = c.middle
    a = surface.at(c.patch, c.u0, v)[0] if along_u else surface.at(c.patch, u, c.v0)[0]
    b = surface.at(c.patch, c.u1, v)[0] if along_u else surface.at(c.patch, u, c.v1)[0]
    return np.asarray(np.linalg.norm(centre - (a + b) / 2, axis=1) > _BEND * np.linalg.norm(b - a, axis=1))


def _main_axes(a: Array, b: Array) -> tuple[Array, Array]:
    """Longer and shorter half axis [N,3] of the ellipse a cos t + b sin t; a and b where it is a circle."""
    aa, ab, bb = (np.einsum("ij,ij->i", x, y) for x, y in ((a, a), (a, b), (b, b)))
    round_ = np.hypot(aa - bb, 2 * ab) < 1e-6 * (aa + bb)  # else rounding would turn the axes
    t = np.where(round_, 0.0, 0.5 * np.arctan2(2 * ab, aa - bb))[:, None]
    return a * np.cos(t) + b * np.sin(t), b * np.cos(t) - a * np.sin(t)


def _quaternions(r: Array) -> Array:
    """wxyz [N,4] of rotations [N,3,3], by the largest component; w or the first of the others is positive."""
    xx, yy, zz = r[:, 0, 0], r[:, 1, 1], r[:, 2, 2]
    squares = np.stack([1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz], axis=1)
    a, b, d = r[:, 2, 1] - r[:, 1, 2], r[:, 0, 2] - r[:, 2, 0], r[:, 1, 0] - r[:, 0, 1]
    e, f, g = r[:, 0, 1] + r[:, 1, 0], r[:, 0, 2] + r[:, 2, 0], r[:, 1, 2] + r[:, 2, 1]
    candidates = np.stack([np.stack(row, axis=1) for row in (
        (squares[:, 0], a, b, d), (a, squares[:, 1], e, f), (b, e, squares[:, 2], g), (d, f, g, squares[:, 3]))],
        axis=1)
    q = np.take_along_axis(candidates, squares.argmax(axis=1)[:, None, None], axis=1)[:, 0]
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    return np.where(q[:, :1] < 0, -q, q)
