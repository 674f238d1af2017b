"""Worlds of splats made from analytic meshes: flat splats on a regular grid over every face."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types import GaussianSplats, ImportReport, Scene, TriangleMesh

THICKNESS = 0.001
"""Standard deviation across a face, m."""


def splat_mesh(mesh: TriangleMesh, spacing: float = 0.05, color: ArrayLike = (0.6, 0.5, 0.4)) -> GaussianSplats:
    """Each face cut into n^2 equal triangles with sides of at most ``spacing``, one splat at each one's middle.

    Its standard deviation in the plane is 0.4 ``spacing``: at a corner that six triangles share, each centre is at
    most 0.58 ``spacing`` away and adds 0.98 exp(-(0.58/0.4)^2 / 2) = 0.34, together 1 - 0.66^6 = 0.92 of the light.
    """
    centres, axes = [], []
    for a, b, c in mesh.triangles:
        n = max(1, int(np.ceil(max(np.linalg.norm(b - a), np.linalg.norm(c - b), np.linalg.norm(a - c)) / spacing)))
        i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
        low = np.stack([i[i + j < n], j[i + j < n]], axis=1)
        high = low[low.sum(axis=1) < n - 1]
        uv = np.concatenate([low + 1 / 3, high + 2 / 3]) / n
        normal = np.cross(b - a, c - a)
        length = np.linalg.norm(normal)
        if length == 0:
            continue
        x = (b - a) / np.linalg.norm(b - a)
        frame = np.stack([x, np.cross(normal / length, x), normal / length], axis=1)
        centres.append(a + uv[:, :1] * (b - a) + uv[:, 1:] * (c - a))
        axes.append(np.broadcast_to(_quaternion(frame), (len(uv), 4)))
    means, quaternions = np.concatenate(centres), np.concatenate(axes)
    n = len(means)
    sh = np.broadcast_to((np.asarray(color, dtype=np.float64) - 0.5) / 0.28209479177387814, (n, 1, 3))
    scales = np.broadcast_to([0.4 * spacing, 0.4 * spacing, THICKNESS], (n, 3))
    f = np.float32
    return GaussianSplats(means.astype(f), scales.astype(f), quaternions.astype(f), np.full(n, 0.98, f), sh.astype(f))


def splat_scene(splats: GaussianSplats, up: ArrayLike = (0.0, 0.0, 1.0), unit_m: float | None = 1.0,
                mesh: TriangleMesh | None = None) -> Scene:
    """A scene of splats, and of a mesh beside them if one is given."""
    kind = "splats" if mesh is None else "both"
    return Scene(Path("made.ply"), mesh, np.array(up, dtype=np.float64), unit_m,
                 ImportReport(kind=kind, format="3dgs-ply", n_splats=len(splats)), splats=splats)  # type: ignore[arg-type]


def _quaternion(m: NDArray[np.float64]) -> NDArray[np.float64]:
    """wxyz of a rotation, by the eigenvector of Bar-Itzhack's matrix."""
    k = np.array([[m[0, 0] - m[1, 1] - m[2, 2], m[1, 0] + m[0, 1], m[2, 0] + m[0, 2], m[2, 1] - m[1, 2]],
                  [m[1, 0] + m[0, 1], m[1, 1] - m[0, 0] - m[2, 2], m[2, 1] + m[1, 2], m[0, 2] - m[2, 0]],
                  [m[2, 0] + m[0, 2], m[2, 1] + m[1, 2], m[2, 2] - m[0, 0] - m[1, 1], m[1, 0] - m[0, 1]],
                  [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], m[0, 0] + m[1, 1] + m[2, 2]]])
    x, y, z, w = np.linalg.eigh(k)[1][:, -1]
    return np.array([w, x, y, z])
