"""From stored colours to linear light."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["srgb_to_linear"]


def srgb_to_linear(values: NDArray) -> NDArray[np.float32]:
    """sRGB transfer function (IEC 61966-2-1), any shape, values in [0,1]; NaN stays NaN."""
    x = np.asarray(values, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(x <= 0.04045, x / 12.92, ((np.maximum(x, 0.0) + 0.055) / 1.055) ** 2.4).astype(np.float32)
