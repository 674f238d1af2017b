"""NIQE: distance of an image's statistics from those of natural photographs; needs neither torch nor weights.

Mittal, Soundararajan and Bovik, Making a "Completely Blind" Image Quality Analyzer, IEEE SPL 20(3), 2013, as the
authors' release computes it, with its natural-image model (``configs/niqe``). Sharp patches alone are chosen only when
such a model is fitted; of the image that is rated all patches count.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.configs import config_path
from spatialbench.errors import InputError
from spatialbench.scorers.contract import Image
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.vision_support import check_images

__all__ = ["SPECS", "Niqe", "niqe", "patch_features"]

_PATCH = 96
_LUMA = (0.298936021293775, 0.587043074451121, 0.114020904255103)  # First row of the inverse of the YIQ matrix.
_TAPS = np.array([-0.01171875, -0.03515625, 0.11328125, 0.43359375, 0.43359375, 0.11328125, -0.03515625, -0.01171875])
"""Cubic kernel (a = -1/2) stretched to twice its width, as a resize to half with antialiasing samples it."""
_FLAT = 1e-6
_SHAPES = np.arange(200, 10001) / 1000.0

Vector = NDArray[np.float64]


def niqe(image: Image) -> float:
    """NIQE of an image [H,W,3] uint8 sRGB; lower is more natural; natural photographs lie at about 2 to 5.

    Gray by the YIQ weights, rounded; cropped at the right and below to whole patches of 96 x 96. Raises ``InputError``
    where there are no two patches with any structure: their covariance is what the measure is about.
    """
    if min(image.shape[0], image.shape[1]) < _PATCH or (image.shape[0] // _PATCH) * (image.shape[1] // _PATCH) < 2:
        raise InputError(f"an image of {image.shape[1]} x {image.shape[0]} pixels is too small for NIQE",
                         todo=f"Give images of at least {_PATCH} x {2 * _PATCH} pixels")
    red, green, blue = (image[:, :, k] * weight for k, weight in enumerate(_LUMA))
    gray = np.floor(red + green + blue + 0.5)
    features = patch_features(gray)
    whole = features[~np.isnan(features).any(axis=1)]
    if len(whole) < 2:
        raise InputError("the image is flat in all patches but one, or in all: NIQE is not defined",
                         todo="Leave empty frames out")
    mean, covariance = _natural()
    apart = mean - np.nanmean(features, axis=0)
    centred = whole - whole.mean(axis=0)
    own = np.einsum("ni,nj->ij", centred, centred) / (len(whole) - 1)  # No BLAS: the same for any number of threads.
    pooled = np.linalg.pinv((covariance + own) / 2)
    return float(np.sqrt(apart @ pooled @ apart))


def patch_features(gray: Vector) -> Vector:
    """[N,36] of the whole patches of a gray image [H,W] in 0..255, row by row: 18 for each of two scales.

    NaN where a patch has no values above or none below zero; its shape is then the smallest of the table, 0.2, as in
    the authors' release.
    """
    rows, columns = gray.shape[0] // _PATCH, gray.shape[1] // _PATCH
    image = gray[:rows * _PATCH, :columns * _PATCH]
    scales = []
    for size in (_PATCH, _PATCH // 2):
        blocks = _normalised(image).reshape(rows, size, columns, size).swapaxes(1, 2).reshape(-1, size, size)
        scales.append(_features(blocks))
        image = _half(image)
    return np.concatenate(scales, axis=1)


def _normalised(image: Vector) -> Vector:
    """MSCN coefficients: (I - mean) / (deviation + 1) under a Gaussian of 7 x 7, sigma 7/6, edges repeated.

    Where the image is flat, or a ramp, they are 0 but for rounding, whose sign the fits below would take for texture,
    so that they depend on the order of summation; those are set to 0. (A lone step of one level, at the corner of the
    window, gives 1.5e-4.)
    """
    from scipy.ndimage import correlate1d

    window = np.exp(-np.arange(-3, 4) ** 2 / (2 * (7 / 6) ** 2))
    window /= window.sum()

    def smooth(values: Vector) -> Vector:
        down = correlate1d(values, window, axis=0, mode="nearest")
        return np.asarray(correlate1d(down, window, axis=1, mode="nearest"))

    mean = smooth(image)
    deviation = np.sqrt(np.abs(smooth(image * image) - mean * mean))
    coefficients: Vector = (image - mean) / (deviation + 1.0)
    coefficients[np.abs(coefficients) < _FLAT] = 0.0
    return coefficients


def _features(blocks: Vector) -> Vector:
    """[N,18] of blocks [N,S,S]: a fit to the values, and one to the products with each of four neighbours."""
    shape, left, right = _fit(blocks)
    columns = [shape, (left + right) / 2]
    for shift in ((0, 1), (1, 0), (1, 1), (1, -1)):
        shape, left, right = _fit(blocks * np.roll(blocks, shift, axis=(1, 2)))
        columns += [shape, (right - left) * _mean_factor(shape), left, right]
    return np.stack(columns, axis=1)


def _fit(blocks: Vector) -> tuple[Vector, Vector, Vector]:
    """Shape and left and right scale [N] of an asymmetric generalised Gaussian, by moments."""
    values = blocks.reshape(len(blocks), -1)
    square = values * values
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.sqrt((square * (values < 0)).sum(axis=1) / (values < 0).sum(axis=1))
        right = np.sqrt((square * (values > 0)).sum(axis=1) / (values > 0).sum(axis=1))
        ratio = left / right
        moment = np.abs(values).mean(axis=1) ** 2 / square.mean(axis=1)
        moment *= (ratio ** 3 + 1) * (ratio + 1) / (ratio ** 2 + 1) ** 2
    table = _moments()
    at = np.clip(np.searchsorted(table, moment), 1, len(table) - 1)  # The table rises; NaN sorts last.
    at = np.where(moment - table[at - 1] <= table[at] - moment, at - 1, at)
    at = np.where(np.isnan(moment), 0, at)
    scale = np.sqrt(_moment_scale()[at])
    return _SHAPES[at], left * scale, right * scale


@lru_cache(maxsize=1)
def _moments() -> Vector:
    """Gamma(2/a)^2 / (Gamma(1/a) Gamma(3/a)) for each shape a of the table."""
    from scipy.special import gamma

    return np.asarray(gamma(2 / _SHAPES) ** 2 / (gamma(1 / _SHAPES) * gamma(3 / _SHAPES)))


@lru_cache(maxsize=1)
def _moment_scale() -> Vector:
    from scipy.special import gamma

    return np.asarray(gamma(1 / _SHAPES) / gamma(3 / _SHAPES))


def _mean_factor(shape: Vector) -> Vector:
    from scipy.special import gamma

    return np.asarray(gamma(2 / shape) / gamma(1 / shape))


def _half(image: Vector) -> Vector:
    """Half the size of an image with even sides: cubic, antialiased, mirrored at the edges."""
    for _ in range(2):  # Rows, then columns, turned back by the two transpositions.
        wide = np.pad(image, ((3, 3), (0, 0)), mode="symmetric")
        rows = image.shape[0]
        image = np.sum([tap * wide[k:k + rows:2] for k, tap in enumerate(_TAPS)], axis=0).T
    return image


@lru_cache(maxsize=1)
def _natural() -> tuple[Vector, Vector]:
    with np.load(config_path("niqe", "live").with_suffix(".npz"), allow_pickle=False) as data:
        return data["mu_pris_param"].ravel(), data["cov_pris_param"]


class Niqe:
    """``Rater``."""

    def rate(self, images: Sequence[Image], text: str = "") -> NDArray[np.float64]:
        """[N] NIQE; raises ``InputError`` for an image that has none (``niqe``)."""
        check_images(images)
        return np.array([niqe(image) for image in images], dtype=np.float64)


def _open(opening: Opening) -> Any:
    return Niqe()


SPECS = (ScorerSpec("niqe", "NIQE with the authors' natural-image model", "rating", "image quality without training",
                    _open, distributions=("numpy", "scipy")),)
