"""An object's pixels: a polygon as a mask, points lifted by depth, and the crop that is rated (M16 to M20)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types import Camera

__all__ = ["fitted_mask", "lifted", "object_crop", "polygon_mask"]


def polygon_mask(corners: ArrayLike, width: int, height: int) -> NDArray[np.bool_]:
    """[H,W] pixels whose centre lies in a polygon (even-odd rule where it crosses itself).

    Parameters
    ----------
    corners : [N,2] in [0,1], x to the right, y down.
    """
    points = np.asarray(corners, dtype=np.float64) * [width, height]
    flips = np.zeros((height, width + 1), np.int64)
    for (x0, y0), (x1, y1) in pairwise([*points.tolist(), points[0].tolist()]):
        low, high = (int(np.ceil(y - 0.5)) for y in sorted((y0, y1)))
        rows = np.arange(max(low, 0), min(high, height))  # centres with y_low <= y < y_high: corners count once
        if len(rows):
            x = x0 + (rows + 0.5 - y0) * ((x1 - x0) / (y1 - y0))
            np.add.at(flips, (rows, np.clip(np.ceil(x - 0.5).astype(np.int64), 0, width)), 1)
    return np.asarray(np.cumsum(flips, axis=1)[:, :width] % 2 == 1)


def fitted_mask(mask: NDArray[np.bool_], width: int, height: int) -> NDArray[np.bool_]:
    """The mask [H,W] at another size: the pixel under each new pixel's centre."""
    rows, columns = ((2 * np.arange(new) + 1) * old // (2 * new)
                     for new, old in zip((height, width), mask.shape, strict=True))
    return np.asarray(mask[rows[:, None], columns[None, :]])


def lifted(pixels: NDArray[np.int64], depth: NDArray[np.floating], camera: Camera) -> NDArray[np.float64]:
    """[N,3] points in the world of pixels [N,2] (row, column), by depth [H,W] along the camera axis."""
    row, column = pixels[:, 0], pixels[:, 1]
    d = depth[row, column].astype(np.float64)
    local = np.stack([(column + 0.5 - camera.cx) / camera.fx * d, (row + 0.5 - camera.cy) / camera.fy * d, d], axis=1)
    return np.asarray(local @ camera.pose.rotation.T + camera.pose.position)


def object_crop(image: NDArray[np.uint8], mask: NDArray[np.bool_], padding: int = 8, side: int = 224
                ) -> NDArray[np.uint8]:
    """What is rated of one view (M17): the object alone, on its own mean colour.

    Every pixel outside of the mask gets the mean colour within it (rounded to 8 bits); then the mask's box, padded and
    clipped to the image; a shorter side under ``side`` is enlarged to it, bicubic.

    Parameters
    ----------
    image, mask : [H,W,3] and [H,W]; the mask is not empty.
    """
    from PIL import Image

    mean = np.rint(image[mask].mean(axis=0, dtype=np.float64)).astype(np.uint8)
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    top, bottom = max(int(rows[0]) - padding, 0), min(int(rows[-1]) + 1 + padding, mask.shape[0])
    left, right = max(int(columns[0]) - padding, 0), min(int(columns[-1]) + 1 + padding, mask.shape[1])
    box = (slice(top, bottom), slice(left, right))
    crop = np.where(mask[box][..., None], image[box], mean)
    height, width = crop.shape[:2]
    short = min(height, width)
    if short >= side:
        return np.asarray(crop)
    size = tuple(max(side, round(n * side / short)) for n in (width, height))
    return np.asarray(Image.fromarray(crop).resize((size[0], size[1]), Image.Resampling.BICUBIC))
