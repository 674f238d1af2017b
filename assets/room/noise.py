"""Value noise from integer hashes: the same numbers on every machine, without a random generator."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["fbm", "hash01", "smooth", "value_noise"]

_A, _B, _C, _D = (np.uint32(k) for k in (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F))


def hash01(i: ArrayLike, j: ArrayLike = 0, seed: int = 0) -> NDArray[np.float64]:
    """Numbers in [0,1) from integer pairs."""
    a = np.asarray(i).astype(np.int64).astype(np.uint32)
    b = np.asarray(j).astype(np.int64).astype(np.uint32)
    with np.errstate(over="ignore"):
        h = (a * _A) ^ (b * _B) ^ (np.uint32(seed & 0xFFFFFFFF) * _D)
        h = (h ^ (h >> np.uint32(15))) * _B
        h = (h ^ (h >> np.uint32(13))) * _C
        h = h ^ (h >> np.uint32(16))
    return h.astype(np.float64) / 2.0**32


def value_noise(x: NDArray[np.float64], y: NDArray[np.float64], seed: int = 0) -> NDArray[np.float64]:
    """Smooth noise in [0,1] with features of about one unit."""
    i, j = np.floor(x), np.floor(y)
    fx, fy = smooth(x - i), smooth(y - j)
    n00, n10 = hash01(i, j, seed), hash01(i + 1, j, seed)
    n01, n11 = hash01(i, j + 1, seed), hash01(i + 1, j + 1, seed)
    return (n00 * (1 - fx) + n10 * fx) * (1 - fy) + (n01 * (1 - fx) + n11 * fx) * fy


def fbm(x: NDArray[np.float64], y: NDArray[np.float64], seed: int = 0, octaves: int = 4) -> NDArray[np.float64]:
    """Sum of octaves of ``value_noise``, in [0,1], mean one half."""
    total, weight, amount = np.zeros(np.broadcast(x, y).shape), 0.0, 1.0
    for k in range(octaves):
        total += amount * value_noise(x * 2.0**k + 17.3 * k, y * 2.0**k - 9.1 * k, seed + k)
        weight, amount = weight + amount, amount * 0.5
    return total / weight


def smooth(x: ArrayLike, lo: float = 0.0, hi: float = 1.0) -> NDArray[np.float64]:
    """0 below ``lo``, 1 above ``hi``, a cubic in between."""
    t = np.clip((np.asarray(x, dtype=np.float64) - lo) / (hi - lo), 0.0, 1.0)
    return t * t * (3 - 2 * t)
