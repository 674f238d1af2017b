"""Holes: pixels that nothing covers (M07, eq. 38; the h6 of M12; h_0 and h_1 of M27)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["hole_rate", "mean_hole_rate"]


def hole_rate(alpha: NDArray[np.floating], threshold: float = 0.5) -> NDArray[np.float64]:
    """Share of the pixels of each frame whose opacity is below ``threshold``.

    Parameters
    ----------
    alpha : [T,H,W] raw opacity, before any background. A pixel that is not a number counts as a hole.
    threshold : an opacity equal to it is covered.

    Returns
    -------
    [T] float64 in [0,1].

    Raises
    ------
    ValueError : when alpha is not [T,H,W] with at least one pixel a frame.
    """
    a = np.asarray(alpha)
    if a.ndim != 3 or a.shape[1] * a.shape[2] == 0:
        raise ValueError(f"alpha must be [T,H,W] with pixels, got shape {a.shape}")
    holes = np.count_nonzero(~(a >= threshold), axis=(1, 2))
    return np.asarray(holes / (a.shape[1] * a.shape[2]), dtype=np.float64)


def mean_hole_rate(rates: NDArray[np.float64]) -> float:
    """M07: mean over frames of their ``hole_rate`` [T], so that frames need not be kept.

    Raises
    ------
    ValueError : when there is no frame.
    """
    if len(rates) == 0:
        raise ValueError("the hole rate of no frames is undefined")
    return math.fsum(rates.tolist()) / len(rates)
