"""One texture for all patches: packing their rectangles and painting material times light."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.assets.room.light import LIFT, Lights, bake, pattern, solid_caster, soup, sun_at
from spatialbench.assets.room.materials import to_srgb
from spatialbench.assets.room.patches import Patch

__all__ = ["PAD", "pack", "paint", "tone"]

PAD = 2
"""Texels around each rectangle that repeat its border."""
_BASE = 135.0
_EXPOSURE = 2.2
_WHITE = 3.6
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])

Array = NDArray[np.float64]
Rectangle = tuple[int, int, int, int]


def pack(patches: list[Patch], size: int) -> list[Rectangle]:
    """x, y, width, height in texels of each patch's rectangle, as large as fits; row 0 is the top."""
    density = _BASE * size / 2048
    while True:
        sizes = [(max(4, round(p.size[0] * density * p.density)), max(4, round(p.size[1] * density * p.density)))
                 for p in patches]
        placed = _skyline(sizes, size)
        if placed is not None:
            return placed
        density *= 0.985


def _skyline(sizes: list[tuple[int, int]], size: int) -> list[Rectangle] | None:
    """Each rectangle, tallest first, as far up as the filled part below it allows; None when they do not fit."""
    order = sorted(range(len(sizes)), key=lambda k: (-sizes[k][1], -sizes[k][0], k))
    out: list[Rectangle] = [(0, 0, 0, 0)] * len(sizes)
    steps = [(0, 0, size)]  # x, y and width of each step of the line, from the left
    for k in order:
        w, h = sizes[k][0] + 2 * PAD, sizes[k][1] + 2 * PAD
        best: tuple[int, int, int] | None = None
        for i, (x, _, _) in enumerate(steps):
            if x + w > size:
                break
            y = max(s[1] for s in steps[i:] if s[0] < x + w)
            if y + h <= size and (best is None or (y, x) < best[:2]):
                best = (y, x, i)
        if best is None:
            return None
        y, x, _ = best
        out[k] = (x + PAD, y + PAD, sizes[k][0], sizes[k][1])
        rest = [(max(sx, x + w), sy, min(sx + sw, size) - max(sx, x + w)) for sx, sy, sw in steps if sx + sw > x + w]
        steps = [(sx, sy, min(sw, x - sx)) for sx, sy, sw in steps if sx < x] + [(x, y + h, w)] + rest
    return out


def paint(patches: list[Patch], rectangles: list[Rectangle], lights: Lights | None, size: int
          ) -> NDArray[np.uint8]:
    """[size,size,3] sRGB atlas; without lights, the bare materials."""
    values = None if lights is None else bake(patches, lights)
    solid = None if lights is None else solid_caster(patches, soup(patches), lights)
    image = np.full((size, size, 3), 0.2)
    for k, (p, (x, y, w, h)) in enumerate(zip(patches, rectangles, strict=True)):
        u, v = (np.arange(w) + 0.5) / w, (np.arange(h) + 0.5) / h
        colour = pattern(p, u, v)
        if values is not None and solid is not None and lights is not None and p.tag != "pane":
            points, normals = p.at(u, v)
            sun = sun_at((points + LIFT * normals).reshape(-1, 3), normals.reshape(-1, 3), solid, lights)
            colour = tone(colour * (_enlarge(values[k], w, h) + sun.reshape(w, h, 3) + p.emit))
        block = to_srgb(colour).transpose(1, 0, 2)[::-1]
        image[y - PAD:y + h + PAD, x - PAD:x + w + PAD] = np.pad(block, ((PAD, PAD), (PAD, PAD), (0, 0)), "edge")
    return (np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8)


def tone(radiance: Array) -> Array:
    """Film curve on linear light's luminance: highlights fade into white, colours keep their hue."""
    x = np.maximum(radiance * _EXPOSURE, 0.0)
    y = x @ _LUMINANCE
    x = x * (np.minimum(y, 1.0) ** 0.12)[..., None]  # a little more depth in the shadows
    y = x @ _LUMINANCE
    mapped = y * (1 + y / _WHITE**2) / (1 + y)
    out = x * (mapped / np.maximum(y, 1e-9))[..., None]
    return np.clip(out + 0.6 * np.maximum(out - 1.0, 0.0).sum(axis=-1, keepdims=True), 0.0, 1.0)


def _enlarge(a: Array, w: int, h: int) -> Array:
    """Bilinear enlargement of a map with evenly spread centres to [w,h,3]."""
    for axis, n in ((0, w), (1, h)):
        m = a.shape[axis]
        x = np.clip((np.arange(n) + 0.5) / n * m - 0.5, 0, m - 1)
        i = np.minimum(np.floor(x).astype(int), max(m - 2, 0))
        f = (x - i).reshape([-1 if k == axis else 1 for k in range(3)])
        a = np.take(a, i, axis=axis) * (1 - f) + np.take(a, np.minimum(i + 1, m - 1), axis=axis) * f
    return a

