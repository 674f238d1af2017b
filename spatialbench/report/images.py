"""Pictures for the page: resized, encoded and inlined; and the panorama strip made from ring frames."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.report.data import Picture

__all__ = ["HOLE_COLOR", "jpeg_uri", "mark_holes", "panorama_strip", "png_uri"]

HOLE_COLOR = (236, 64, 160)
_EMPTY = (128, 132, 140)


def jpeg_uri(picture: Picture, max_side: int, quality: int = 80) -> str:
    """``data:`` address of a photo, made smaller until no side is longer than ``max_side`` pixels.

    Raises
    ------
    ValueError : not uint8 [H,W,3].
    """
    from PIL import Image

    array = _checked(picture)
    image = Image.fromarray(array)
    if max(image.size) > max_side:
        k = max_side / max(image.size)
        size = (max(1, round(image.width * k)), max(1, round(image.height * k)))
        image = image.resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, optimize=True)
    return _uri("jpeg", buffer)


def png_uri(rgba: NDArray[np.uint8]) -> str:
    """``data:`` address of a map or mask [H,W,4], exact."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(rgba)).save(buffer, "PNG", optimize=True)
    return _uri("png", buffer)


def mark_holes(picture: Picture, holes: NDArray[np.bool_] | None) -> Picture:
    """The picture with its holes painted in stripes; a mask of another size is sampled to fit."""
    array = _checked(picture)
    if holes is None or not np.any(holes):
        return array
    h, w = array.shape[:2]
    mask = np.asarray(holes, dtype=bool)
    rows, cols = np.arange(h) * mask.shape[0] // h, np.arange(w) * mask.shape[1] // w
    mask = mask[rows[:, None], cols[None, :]]
    stripe = ((np.add.outer(np.arange(h), np.arange(w)) // max(3, h // 48)) % 2)[..., None]
    paint = np.where(stripe == 1, np.array(HOLE_COLOR), np.array(HOLE_COLOR) * 0.62)
    return np.where(mask[..., None], paint, array).astype(np.uint8)


def panorama_strip(frames: Sequence[Picture], yaws: Sequence[float], fov_deg: float,
                   width: int = 1440) -> Picture:
    """One cylindrical picture of a full turn, yaw -180 to 180 from left to right.

    Each column is taken from the frame that looks closest to it. On a cylinder of radius 1 a point at height
    ``h`` and angle ``a`` from a frame's axis lies at (tan a, h / cos a) in that frame's image plane.

    Parameters
    ----------
    frames : uint8 [H,W,3] of square pixels, principal point in the middle.
    yaws : degrees, clockwise from +Y.
    fov_deg : across the width.

    Returns
    -------
    uint8 [h,width,3]; grey where no frame looks.
    """
    arrays = [_checked(f) for f in frames]
    if not arrays or len(arrays) != len(yaws):
        raise ValueError(f"{len(arrays)} frames and {len(yaws)} yaws do not make a strip")
    half = np.tan(np.radians(fov_deg) / 2)
    h0, w0 = arrays[0].shape[:2]
    rise = half * h0 / w0  # half the height on the cylinder, on a frame's axis
    phi = (np.arange(width) + 0.5) / width * 360 - 180
    off = (phi[:, None] - np.asarray(yaws, dtype=np.float64)[None, :] + 180) % 360 - 180
    nearest = np.abs(off).argmin(axis=1)
    a = np.radians(off[np.arange(width), nearest])
    # A frame reaches less high away from its axis; no column may look over its edge.
    rise *= np.cos(min(np.abs(a).max(), np.radians(fov_deg) / 2))
    height = max(1, round(width / np.pi * rise))
    up = rise * (1 - 2 * (np.arange(height) + 0.5) / height)
    out = np.empty((height, width, 3), dtype=np.uint8)
    out[:] = _EMPTY
    for k in np.unique(nearest):
        cols = np.flatnonzero((nearest == k) & (np.abs(a) < np.radians(89)))
        h, w = arrays[k].shape[:2]
        f = w / (2 * half)
        x = np.broadcast_to(w / 2 + f * np.tan(a[cols])[None, :] - 0.5, (height, len(cols)))
        y = h / 2 - f * up[:, None] / np.cos(a[cols])[None, :] - 0.5
        inside = (x > -0.51) & (x < w - 0.49) & (y > -0.51) & (y < h - 0.49)
        out[:, cols] = np.where(inside[..., None], _bilinear(arrays[k], x, y), out[:, cols])
    return out


def _bilinear(image: Picture, x: NDArray[np.float64], y: NDArray[np.float64]) -> Picture:
    h, w = image.shape[:2]
    x, y = np.clip(x, 0, w - 1), np.clip(y, 0, h - 1)
    x0, y0 = np.floor(x).astype(int), np.floor(y).astype(int)
    x1, y1 = np.minimum(x0 + 1, w - 1), np.minimum(y0 + 1, h - 1)
    fx, fy = (x - x0)[..., None], (y - y0)[..., None]
    top = image[y0, x0] * (1 - fx) + image[y0, x1] * fx
    bottom = image[y1, x0] * (1 - fx) + image[y1, x1] * fx
    return (top * (1 - fy) + bottom * fy + 0.5).astype(np.uint8)


def _checked(picture: Any) -> Picture:
    array = np.asarray(picture)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise ValueError(f"a picture is uint8 [H,W,3], got {array.dtype} {list(array.shape)}")
    return np.ascontiguousarray(array)


def _uri(kind: str, buffer: io.BytesIO) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
