"""Compiled loops of panoramas: what one cube face gives to each pixel. They spawn no threads and let others run."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["distance_of", "spread"]

_KERNEL = {"cache": True, "nogil": True}
F64 = NDArray[np.float64]
F32 = NDArray[np.float32]


@njit(**_KERNEL, forceinline=True)
def _face(x: float, y: float, z: float) -> int:
    """Index of the face of a direction in the order front, right, back, left, up, down; ties go to the first axis."""
    ax, ay, az = abs(x), abs(y), abs(z)
    if ax >= ay and ax >= az:
        return 1 if x > 0 else 3
    if ay >= az:
        return 0 if y > 0 else 2
    return 4 if z > 0 else 5


@njit(**_KERNEL, forceinline=True)
def _weight(along: float, a: float, b: float, rim: float) -> float:
    """Weight, before it is normalised, of the face whose axis has the coordinate ``along``, the others being a and b.

    1 where the larger of these is up to ``1 / rim`` of it, 0 from ``rim`` on, linear between; borders are at 1.
    """
    most = max(abs(a), abs(b))
    if most >= rim * along:
        return 0.0
    return min(1.0, (rim - most / along) / (rim - 1.0 / rim))


@njit(**_KERNEL)
def spread(first: int, last: int, image: F32, rotation: F64, focal: float, centre: float, yaws: F64,
           pitches: F64, samples: int, rim: float, out: F32) -> None:
    """Add what a face gives to the mean over the points of each pixel; bilinear between the middles of its pixels.

    Of rows ``first`` to ``last``. image [h,w,C] float32; rotation [3,3] camera to world; focal and centre in pixels of
    this square face; yaws [W * samples, 2] and pitches [H * samples, 2], sine and cosine; rim: where faces end, 1 being
    their border; out [H,W,C] float32.
    """
    width, channels = out.shape[1:]
    share = 1.0 / (samples * samples)
    for row in range(first, last):
        total = np.zeros(channels)
        for column in range(width):
            total[:] = 0.0
            any_here = False
            for a in range(row * samples, (row + 1) * samples):
                sp, cp = pitches[a, 0], pitches[a, 1]
                for b in range(column * samples, (column + 1) * samples):
                    x, y, z = cp * yaws[b, 0], cp * yaws[b, 1], sp
                    right = rotation[0, 0] * x + rotation[1, 0] * y + rotation[2, 0] * z
                    down = rotation[0, 1] * x + rotation[1, 1] * y + rotation[2, 1] * z
                    depth = rotation[0, 2] * x + rotation[1, 2] * y + rotation[2, 2] * z
                    mine = _weight(depth, right, down, rim)
                    if mine <= 0.0:
                        continue
                    any_here = True
                    weight = share * mine / (mine + _weight(abs(right), down, depth, rim)
                                             + _weight(abs(down), right, depth, rim))
                    u = focal * right / depth + centre - 0.5
                    v = focal * down / depth + centre - 0.5
                    i, j = int(u), int(v)
                    u, v = u - i, v - j
                    for c in range(channels):
                        top = image[j, i, c] * (1.0 - u) + image[j, i + 1, c] * u
                        low = image[j + 1, i, c] * (1.0 - u) + image[j + 1, i + 1, c] * u
                        total[c] += weight * (top * (1.0 - v) + low * v)
            if any_here:
                for c in range(channels):
                    out[row, column, c] += np.float32(total[c])


@njit(**_KERNEL)
def distance_of(first: int, last: int, image: F32, face: int, rotation: F64, focal: float, centre: float, yaws: F64,
                pitches: F64, out: F32) -> None:
    """Set the distance from the centre of the pixel of a face [h,w] that each pixel's middle falls into."""
    width = out.shape[1]
    for row in range(first, last):
        for column in range(width):
            x, y, z = pitches[row, 1] * yaws[column, 0], pitches[row, 1] * yaws[column, 1], pitches[row, 0]
            if _face(x, y, z) != face:
                continue
            depth = rotation[0, 2] * x + rotation[1, 2] * y + rotation[2, 2] * z
            i = int(focal * (rotation[0, 0] * x + rotation[1, 0] * y + rotation[2, 0] * z) / depth + centre)
            j = int(focal * (rotation[0, 1] * x + rotation[1, 1] * y + rotation[2, 1] * z) / depth + centre)
            u, v = (i + 0.5 - centre) / focal, (j + 0.5 - centre) / focal
            out[row, column] = np.float32(image[j, i] * np.sqrt(1.0 + u * u + v * v))
