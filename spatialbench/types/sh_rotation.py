"""Turns spherical-harmonic colours together with the world they are painted on.

Basis: real spherical harmonics in the order and with the signs of 3D Gaussian Splatting, which are those of
``renderers/_splat_kernels.py`` up to degree 3: bands l = 0, 1, ...; within a band m = -l to l, sine for m < 0 and
cosine for m > 0, the Condon-Shortley sign (-1)^m kept; orthonormal on the unit sphere.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types.splats import MAX_SH_DEGREE

__all__ = ["checked_rotation", "rotate_sh", "rotation_matrices", "sh_basis"]

_TOLERANCE = 1e-6  # of a rotation, as for poses
_CHUNK = 1 << 12  # splats whose coefficients, widened, stay in a core's cache


def sh_basis(directions: ArrayLike, degree: int) -> NDArray[np.float64]:
    """Value [N,K] of each of the K = (degree + 1)^2 harmonics at unit ``directions`` [N,3].

    Raises
    ------
    ValueError : a degree outside 0 to 4, or directions of another shape.
    """
    _check_degree(degree)
    d = np.asarray(directions, dtype=np.float64)
    if d.ndim != 2 or d.shape[1] != 3:
        raise ValueError(f"directions must be [N,3], got {list(d.shape)}")
    x, y, z = d.T
    out = np.empty((len(d), (degree + 1) ** 2))
    cosine, sine = np.ones(len(d)), np.zeros(len(d))  # sin^m(polar) times cos(m azimuth), sin(m azimuth)
    first = 1.0  # (-1)^m (2m - 1)!!
    for m in range(degree + 1):
        if m:
            cosine, sine = x * cosine - y * sine, x * sine + y * cosine
            first *= -(2 * m - 1)
        # Associated Legendre functions over sin^m(polar), upwards in l.
        before, legendre = np.zeros(len(d)), np.full(len(d), first)
        for l in range(m, degree + 1):
            if l > m:
                before, legendre = legendre, ((2 * l - 1) * z * legendre - (l + m - 1) * before) / (l - m)
            norm = math.sqrt((2 * l + 1) / (4 * math.pi) * math.factorial(l - m) / math.factorial(l + m))
            middle = l * l + l
            if m == 0:
                out[:, middle] = norm * legendre
            else:
                out[:, middle + m] = math.sqrt(2) * norm * legendre * cosine
                out[:, middle - m] = math.sqrt(2) * norm * legendre * sine
    return out


def checked_rotation(rotation: ArrayLike) -> NDArray[np.float64]:
    """The rotation [3,3] as float64.

    Raises
    ------
    ValueError : it is not finite, not orthonormal to 1e-6, or mirrors.
    """
    r = np.asarray(rotation, dtype=np.float64)
    if r.shape != (3, 3) or not np.isfinite(r).all():
        raise ValueError(f"a rotation is a finite [3,3] matrix, got shape {list(r.shape)}")
    if np.abs(r.T @ r - np.eye(3)).max() > _TOLERANCE or np.linalg.det(r) < 0:
        raise ValueError("a rotation must be orthonormal (to 1e-6) and must not mirror")
    return r


def rotation_matrices(rotation: ArrayLike, degree: int) -> list[NDArray[np.float64]]:
    """One orthogonal matrix [2l+1,2l+1] for each band l = 0 to ``degree``.

    Coefficients multiplied by them show from ``rotation @ d`` the colour that they showed from ``d``. An entry is
    the integral over the sphere of harmonic i at d times harmonic j at ``rotation.T @ d``; it is taken by a
    quadrature that is exact for such products, so that only rounding is left (about 1e-15).

    Parameters
    ----------
    rotation : [3,3], from the old frame to the new one.

    Raises
    ------
    ValueError : no rotation (see ``checked_rotation``), or a degree outside 0 to 4.
    """
    _check_degree(degree)
    r = checked_rotation(rotation)
    directions, weighted = _quadrature()
    turned = directions @ r
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)
    values = sh_basis(turned, degree)
    out = [np.ones((1, 1))]
    for l in range(1, degree + 1):
        band = slice(l * l, (l + 1) ** 2)
        out.append(np.einsum("qi,qj->ij", weighted[:, band], values[:, band]))
    return out


def rotate_sh(sh: NDArray[np.float32], rotation: ArrayLike) -> NDArray[np.float32]:
    """Coefficients [N,K,3] float32 after the world was turned by ``rotation`` [3,3]; see ``rotation_matrices``.

    Degree 0 and the identity leave the coefficients as they are: the given array itself is then returned. Memory
    beyond the result is a few megabytes. Sums are in float64, in an order that no number of threads changes.

    Raises
    ------
    ValueError : no rotation, or K is not that of a degree 0 to 4.
    """
    k = sh.shape[1] if sh.ndim == 3 and sh.shape[2] == 3 else 0
    degree = math.isqrt(k) - 1
    if (degree + 1) ** 2 != k or not 0 <= degree <= MAX_SH_DEGREE:
        raise ValueError(f"sh must be [N,K,3] with K = (degree + 1)^2, degree 0 to 4, got {list(sh.shape)}")
    r = checked_rotation(rotation)
    if degree == 0 or np.array_equal(r, np.eye(3)):
        return sh
    matrices = rotation_matrices(r, degree)
    out = np.empty(sh.shape, np.float32)
    for a in range(0, len(sh), _CHUNK):
        part, into = sh[a:a + _CHUNK], out[a:a + _CHUNK]
        into[:, 0] = part[:, 0]
        old = part.transpose(1, 0, 2).reshape(k, -1).astype(np.float64)
        for l in range(1, degree + 1):
            # einsum is a plain loop here: no library that may share it among threads.
            new = np.einsum("ij,jn->in", matrices[l], old[l * l:(l + 1) ** 2])
            into[:, l * l:(l + 1) ** 2] = new.reshape(2 * l + 1, -1, 3).transpose(1, 0, 2)
    return out


@lru_cache(maxsize=1)
def _quadrature() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Directions [Q,3] and the basis there times the weights [Q,K], exact for products of two harmonics.

    Such products have degree 8: five Gauss-Legendre heights, and nine directions around.
    """
    heights, weights = np.polynomial.legendre.leggauss(MAX_SH_DEGREE + 1)
    around = 2 * MAX_SH_DEGREE + 1
    turn = np.arange(around) * (2 * math.pi / around)
    level = np.sqrt(1 - heights**2)[:, None]
    directions = np.stack([level * np.cos(turn), level * np.sin(turn),
                           np.broadcast_to(heights[:, None], (len(heights), around))], axis=2).reshape(-1, 3)
    weight = np.repeat(weights * (2 * math.pi / around), around)
    return directions, sh_basis(directions, MAX_SH_DEGREE) * weight[:, None]


def _check_degree(degree: int) -> None:
    if not 0 <= degree <= MAX_SH_DEGREE:
        raise ValueError(f"the degree of spherical harmonics must be 0 to {MAX_SH_DEGREE}, got {degree}")
