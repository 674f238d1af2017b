"""SSIM and PSNR against the formula, a brute-force window, and the authors' figures."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spatialbench.metrics.similarity import luma, psnr, ssim

# The official figures for five pairs of TID2013, printed to four digits: rounding leaves 5e-5, and so does the rounding
# of gray levels.
OFFICIAL = {"I03": 0.6993, "I04": 0.9978, "I06": 0.9989, "I08": 0.9669, "I19": 0.6519}


def images(seed: int = 0, size: int = 24) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 256, (size, size, 3), np.uint8)
    return a, np.clip(a.astype(int) + rng.integers(-40, 41, a.shape), 0, 255).astype(np.uint8)


def test_luma_of_pure_colours_is_rounded_to_whole_levels() -> None:
    """255 times 0.2989, 0.5870 and 0.1140 are 76.2, 149.7 and 29.1; all of them 255."""
    image = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]], np.uint8)
    assert luma(image).tolist() == [[76.0, 150.0, 29.0, 255.0]]


def test_equal_images() -> None:
    a, _ = images()
    assert ssim(a, a) == pytest.approx(1.0)
    assert psnr(a, a) == math.inf


def test_constant_images_leave_the_luminance_term() -> None:
    """Without any variance SSIM is (2 a b + c1) / (a^2 + b^2 + c1) with c1 = (0.01 * 255)^2."""
    a, b = (np.full((16, 16, 3), v, np.uint8) for v in (100, 150))
    c1 = (0.01 * 255) ** 2
    assert ssim(a, b) == pytest.approx((2 * 100 * 150 + c1) / (100**2 + 150**2 + c1))
    assert psnr(a, b) == pytest.approx(20 * math.log10(255 / 50))


def test_one_window_by_hand() -> None:
    """An image of 11 x 11 pixels has one window that lies wholly in it."""
    a, b = images(3, 11)
    x, y = luma(a), luma(b)
    at = np.arange(11) - 5
    line = np.exp(-(at**2) / (2 * 1.5**2))
    w = np.outer(line, line) / line.sum() ** 2
    mx, my = (w * x).sum(), (w * y).sum()
    vx, vy, cxy = ((w * p * q).sum() - m for p, q, m in ((x, x, mx * mx), (y, y, my * my), (x, y, mx * my)))
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    expected = (2 * mx * my + c1) * (2 * cxy + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    assert ssim(a, b) == pytest.approx(expected, abs=1e-9)


def test_what_does_not_fit_is_refused() -> None:
    a, _ = images()
    for other in (a[:12], a[:8, :8], a[..., 0]):
        with pytest.raises(ValueError, match="equal in size"):
            ssim(a, other)
    with pytest.raises(ValueError, match="11 x 11"):
        ssim(a[:8, :8], a[:8, :8])


@pytest.mark.skipif("SPATIALBENCH_TEST_TID" not in os.environ, reason="SPATIALBENCH_TEST_TID names no images")
@pytest.mark.parametrize("name", OFFICIAL)
def test_the_authors_figures(name: str) -> None:
    root = Path(os.environ["SPATIALBENCH_TEST_TID"])
    first, second = (np.asarray(Image.open(next((root / folder).glob(f"{name}*"))).convert("RGB"))
                     for folder in ("ref_dir", "dist_dir"))
    assert ssim(first, second) == pytest.approx(OFFICIAL[name], abs=1e-4)
