"""Does the light stay the same along a path? M13 (eqs. 46, 47) and M14 (eq. 48), from small histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types.protocol_rules import Consistency

__all__ = ["brightness_consistency", "color_temperature_constraint", "eps_cosine", "gain", "gray_histogram",
           "hue_histogram"]

_DEFAULT = Consistency()


def gray_histogram(rgb: NDArray[np.uint8], edges: Sequence[int] = _DEFAULT.gray_edges) -> NDArray[np.float64]:
    """Normalised histogram of OpenCV's 8-bit grey (OPEN-12e).

    Parameters
    ----------
    rgb : [H,W,3] uint8 sRGB.
    edges : bin k holds edges[k] <= grey < edges[k+1].

    Returns
    -------
    [len(edges)-1] float64 that sums to 1.
    """
    import cv2

    return _histogram(cv2.cvtColor(_image(rgb), cv2.COLOR_RGB2GRAY), edges)


def hue_histogram(rgb: NDArray[np.uint8], edges: Sequence[int] = _DEFAULT.hue_edges) -> NDArray[np.float64]:
    """Normalised histogram of OpenCV's 8-bit hue, 0 to 179, of all pixels (grey ones have hue 0).

    Shapes as ``gray_histogram``.
    """
    import cv2

    return _histogram(cv2.cvtColor(_image(rgb), cv2.COLOR_RGB2HSV)[..., 0], edges)


def gain(x: float, rate: float = _DEFAULT.gain, eps: float = _DEFAULT.eps) -> float:
    """g_L of eq. 46: (exp(L clip(x, 0, 1)) - 1) / (exp(L) - 1 + eps), in [0, 1)."""
    x = min(1.0, max(0.0, x))
    return (math.exp(rate * x) - 1.0) / (math.exp(rate) - 1.0 + eps)


def eps_cosine(x: ArrayLike, y: ArrayLike, eps: float = _DEFAULT.eps) -> float:
    """x.y / ((|x| + eps)(|y| + eps)) of two vectors of one length; 0 when either is zero."""
    a, b = np.asarray(x, dtype=np.float64).tolist(), np.asarray(y, dtype=np.float64).tolist()
    dot = math.fsum(p * q for p, q in zip(a, b, strict=True))
    return dot / ((math.sqrt(math.fsum(p * p for p in a)) + eps) * (math.sqrt(math.fsum(q * q for q in b)) + eps))


def brightness_consistency(histograms: ArrayLike,
                           settings: Consistency = _DEFAULT) -> tuple[float, NDArray[np.float64]]:
    """M13: every frame's grey histogram against the first one's.

    Parameters
    ----------
    histograms : [T,B], of every path frame in order, out-of-bounds ones too.

    Returns
    -------
    The value, in [1/T, 1], and the scores [T] of which it is the mean; the first frame's is 1.

    Raises
    ------
    ValueError : when there is no frame.
    """
    h = _sequence(histograms)
    return _score([eps_cosine(x, h[0], settings.eps) for x in h[1:]], settings)


def color_temperature_constraint(histograms: ArrayLike,
                                 settings: Consistency = _DEFAULT) -> tuple[float, NDArray[np.float64]]:
    """M14: every frame's hue histogram against the first one's and the previous one's, half each.

    Parameters, returns and errors as ``brightness_consistency``.
    """
    h = _sequence(histograms)
    return _score([(eps_cosine(x, h[0], settings.eps) + eps_cosine(x, before, settings.eps)) / 2
                   for before, x in pairwise(h)], settings)


def _score(similarities: list[float], settings: Consistency) -> tuple[float, NDArray[np.float64]]:
    scores = [1.0, *(gain(c, settings.gain, settings.eps) for c in similarities)]
    return math.fsum(scores) / len(scores), np.array(scores)


def _sequence(histograms: ArrayLike) -> NDArray[np.float64]:
    h = np.asarray(histograms, dtype=np.float64)
    if h.ndim != 2 or len(h) == 0:
        raise ValueError(f"histograms must be [T,B] with T >= 1, got shape {h.shape}")
    return h


def _image(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.size == 0:
        raise ValueError(f"an [H,W,3] uint8 image is needed, got {rgb.dtype} {rgb.shape}")
    return np.ascontiguousarray(rgb)


def _histogram(channel: NDArray[np.uint8], edges: Sequence[int]) -> NDArray[np.float64]:
    counts = np.bincount(channel.ravel(), minlength=256)
    bins = [int(counts[a:b].sum()) for a, b in pairwise(edges)]
    if sum(bins) != channel.size:
        raise ValueError(f"bin edges {tuple(edges)} do not cover all values of the image")
    return np.array(bins, dtype=np.float64) / channel.size
