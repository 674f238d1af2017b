"""Moves splats from their source frame to the world: centres, shapes and the colours that depend on direction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import GaussianSplats
from spatialbench.world.sh_rotation import checked_rotation, rotate_sh

__all__ = ["anchor_splats"]

_CHUNK = 1 << 14


def anchor_splats(splats: GaussianSplats, rotation: NDArray[np.float64], camera: NDArray[np.float64], scale: float
                  ) -> GaussianSplats:
    """The splats under ``x_world = scale * rotation @ (x_source + offset - camera)``, as ``anchor_points`` for a mesh.

    Differences are taken in float64, so that a tile far from its origin keeps its digits; the result's offset is
    zero. Opacities and ``antialiased`` are kept; arrays that do not change are shared. Memory beyond the result
    is a few megabytes. Splats that are not finite stay so, and zero quaternions stay zero: who draws drops them.

    Parameters
    ----------
    rotation : [3,3] source frame to world axes.
    camera : [3] initial camera, source frame and unit.
    scale : metres per source unit, > 0.

    Raises
    ------
    ValueError : no rotation, a camera that is not finite, or a scale that is not positive.
    """
    r = checked_rotation(rotation)
    shift = (0.0 if splats.offset is None else splats.offset) - np.asarray(camera, dtype=np.float64)
    if shift.shape != (3,) or not np.isfinite(shift).all():
        raise ValueError(f"the camera must be three finite numbers, got {camera}")
    if not 0 < scale < np.inf:
        raise ValueError(f"the scale must be positive and finite, got {scale}")
    turn = _quaternion(r)
    n = len(splats)
    means, scales, quaternions = (np.empty((n, k), np.float32) for k in (3, 3, 4))
    with np.errstate(over="ignore", invalid="ignore"):
        for a in range(0, n, _CHUNK):
            b = min(n, a + _CHUNK)
            x, y, z = (splats.means[a:b].astype(np.float64) + shift).T
            for i in range(3):  # written out: sums in an order that no number of threads changes
                means[a:b, i] = scale * (r[i, 0] * x + r[i, 1] * y + r[i, 2] * z)
            scales[a:b] = scale * splats.scales[a:b].astype(np.float64)
            quaternions[a:b] = _turned(turn, splats.quaternions[a:b])
    return GaussianSplats(means, scales, quaternions, splats.opacities, rotate_sh(splats.sh, r),
                          antialiased=splats.antialiased)


def _quaternion(rotation: NDArray[np.float64]) -> NDArray[np.float64]:
    """[4] unit quaternion, wxyz, of a rotation matrix: the largest column of q q^T, which cancels nothing."""
    r = rotation
    d = np.diag(r)
    outer = np.empty((4, 4))  # of 4 q q^T
    outer[np.arange(4), np.arange(4)] = 1 - d.sum() + 2 * np.array([d.sum(), *d])
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        outer[0, i + 1] = outer[i + 1, 0] = r[k, j] - r[j, k]
        outer[i + 1, j + 1] = outer[j + 1, i + 1] = r[j, i] + r[i, j]
    q = outer[int(np.argmax(np.diag(outer)))]
    return np.asarray(q / np.linalg.norm(q))


def _turned(turn: NDArray[np.float64], quaternions: NDArray[np.float32]) -> NDArray[np.float64]:
    """The product ``turn`` [4] times ``quaternions`` [N,4], wxyz, made unit; zero stays zero."""
    a, b, c, d = turn
    w, x, y, z = quaternions.astype(np.float64).T
    out = np.stack([a * w - b * x - c * y - d * z, a * x + b * w + c * z - d * y,
                    a * y - b * z + c * w + d * x, a * z + b * y - c * x + d * w], axis=1)
    length = np.linalg.norm(out, axis=1, keepdims=True)
    return out / np.where(length > 0, length, 1.0)
