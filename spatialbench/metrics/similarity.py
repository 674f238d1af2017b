"""How alike two images are, pixel by pixel: SSIM and PSNR of whole images."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["luma", "psnr", "ssim"]


def luma(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """[H,W] gray of an image [H,W,3], 0 to 255, rounded half up to whole levels (ITU-R BT.601 weights)."""
    gray = image.astype(np.float64) @ np.array([0.298936021293775, 0.587043074451121, 0.114020904255103])
    return np.floor(gray + 0.5)


def ssim(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Mean structural similarity of the gray images, -1 to 1 (Wang et al. 2004).

    Gaussian windows of deviation 1.5 and 11 x 11 pixels, population covariance, K1 = 0.01, K2 = 0.03; the mean is over
    windows that lie wholly in the image.

    Parameters
    ----------
    first, second : [H,W,3] uint8, of one size of at least 11 x 11.

    Raises
    ------
    ValueError : sizes that differ, or are too small.
    """
    if first.shape != second.shape or first.ndim != 3 or min(first.shape[:2]) < 11:
        raise ValueError(f"images {first.shape} and {second.shape} must be equal in size and at least 11 x 11")
    from skimage.metrics import structural_similarity

    return float(structural_similarity(luma(first), luma(second), gaussian_weights=True, sigma=1.5,
                                       use_sample_covariance=False, data_range=255))


def psnr(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Peak signal-to-noise ratio over all pixels and channels, dB; infinite for equal images.

    Raises
    ------
    ValueError : sizes that differ.
    """
    if first.shape != second.shape:
        raise ValueError(f"images {first.shape} and {second.shape} must be equal in size")
    mse = float(np.mean((first.astype(np.float64) - second.astype(np.float64)) ** 2))
    return math.inf if mse == 0 else 10.0 * math.log10(255.0**2 / mse)
