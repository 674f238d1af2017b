"""Splats under an affine map: centres, shapes, and the colours that depend on direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.log import ReadLog
from spatialbench.scene.splats.raw import RawSplats
from spatialbench.types.sh_rotation import rotate_sh, sh_basis

__all__ = ["flip_axes", "quaternion_of", "transform_splats"]

_SAME = 1e-6
"""How far the stretch of a map may differ between directions, relative, and it still counts as a similarity."""


def flip_axes(raw: RawSplats, signs: Sequence[int]) -> RawSplats:
    """The splats with some axes turned over (``signs`` of 1 and -1); exact. An odd number of -1 mirrors them.

    A Gaussian has no handedness: that of its own axes is mirrored with it, so that its rotation stays one.
    """
    s = np.array(signs, dtype=np.float32)
    det = s.prod()
    quaternions = raw.quaternions * np.concatenate([[1], det * s]).astype(np.float32)
    return replace(raw, means=raw.means * s.astype(raw.means.dtype), quaternions=quaternions,
                   sh=raw.sh * _parity(s, raw.sh.shape[1])[:, None])


def _parity(signs: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """[K] whether each harmonic keeps (1) or changes (-1) its sign where the axes do."""
    d = np.array([[0.48, 0.6, 0.64], [0.8, 0.36, -0.48]])  # no harmonic of degree 4 or less vanishes at both
    degree = round(k**0.5) - 1
    here, there = sh_basis(d, degree), sh_basis(d * signs, degree)
    return np.asarray(np.sign((here * there).sum(axis=0)), dtype=np.float32)


def transform_splats(raw: RawSplats, matrix: NDArray[np.float64], log: ReadLog, by: str) -> RawSplats:
    """The splats under ``x' = matrix @ x``; centres become float64 where the map does not keep them.

    A similarity (also one that mirrors) is exact but for rounding. Under any other map the Gaussians are still exact,
    while harmonics, which no affine map keeps, are turned by the nearest rotation, with a warning.

    Parameters
    ----------
    matrix : [4,4], affine, finite.
    by : what asks for it, for the warning.
    """
    if np.array_equal(matrix, np.eye(4)):
        return raw
    linear, shift = matrix[:3, :3], matrix[:3, 3]
    u, stretch, vt = np.linalg.svd(linear)
    rigid = u @ vt
    if np.linalg.det(rigid) < 0:  # a mirror about x y first, then a rotation
        raw = flip_axes(raw, (1, 1, -1))
        linear, rigid = linear @ np.diag([1.0, 1.0, -1.0]), rigid @ np.diag([1.0, 1.0, -1.0])
    even = stretch[0] - stretch[2] <= _SAME * stretch[0]
    n = len(raw.means)
    means = np.empty((n, 3), dtype=np.float64)
    scales, quaternions = np.empty((n, 3), dtype=np.float32), np.empty((n, 4), dtype=np.float32)
    turn, size = quaternion_of(rigid), float(stretch.mean())

    def block(part: slice) -> None:
        means[part] = raw.means[part].astype(np.float64) @ linear.T + shift
        if even:
            scales[part] = raw.scales[part] * size
            quaternions[part] = _product(turn, raw.quaternions[part].astype(np.float64))
        else:
            scales[part], quaternions[part] = _stretched(linear, raw.scales[part], raw.quaternions[part])

    in_blocks(n, block)
    if not even and raw.sh.shape[1] > 1:
        log.warn(f"{by} stretches splats unevenly; their shapes follow, their view-dependent colours are only turned")
    return replace(raw, means=means, scales=scales, quaternions=quaternions, sh=rotate_sh(raw.sh, rigid))


def quaternion_of(rotations: NDArray[np.float64]) -> NDArray[np.float64]:
    """[...,4] unit quaternions wxyz of rotations [...,3,3]: the first eigenvector of 4 q q^T - 1."""
    r = np.asarray(rotations, dtype=np.float64)
    k = np.empty((*r.shape[:-2], 4, 4))
    trace = np.trace(r, axis1=-2, axis2=-1)
    k[..., 0, 0] = trace
    for i, j, m in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        k[..., i + 1, 0] = r[..., m, j] - r[..., j, m]
        k[..., i + 1, i + 1] = 2 * r[..., i, i] - trace
        k[..., max(i, j) + 1, min(i, j) + 1] = r[..., i, j] + r[..., j, i]
    return np.asarray(np.linalg.eigh(k)[1][..., -1])  # of the lower triangle


def _product(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Hamilton product of ``a`` [4] and ``b`` [N,4], wxyz."""
    w, x, y, z = a
    left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    return np.einsum("ij,nj->ni", left, b)


def _stretched(linear: NDArray[np.float64], scales: NDArray[np.float32], quaternions: NDArray[np.float32]
               ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scales and rotations of Gaussians under a map that is no similarity; NaN where they were not finite."""
    q = quaternions.astype(np.float64)
    length = np.sqrt(np.einsum("ij,ij->i", q, q))
    sound = np.isfinite(length) & (length > 0) & np.isfinite(scales).all(axis=1)
    q = np.where(sound[:, None], q / np.where(length > 0, length, 1)[:, None], [1.0, 0, 0, 0])
    w, x, y, z = q.T
    axes = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
                     2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                     2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1).reshape(-1, 3, 3)
    shape = linear @ axes * np.where(sound[:, None], scales, 1).astype(np.float64)[:, None, :]
    u, size, _ = np.linalg.svd(shape)
    u[:, :, 2] *= np.sign(np.linalg.det(u))[:, None]
    return np.where(sound[:, None], size, scales), np.where(sound[:, None], quaternion_of(u), quaternions)
