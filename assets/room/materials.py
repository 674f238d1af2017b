"""Procedural materials: sRGB albedo in [0,1] from metric pattern coordinates.

Each takes ``s``, ``t`` (metres along a patch's u and v, plus its origin), ``u``, ``v`` (0 to 1) and a seed,
all arrays of one shape but the seed, and gives [..., 3].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spatialbench.assets.room.noise import fbm, hash01, smooth, value_noise

__all__ = ["MATERIALS", "to_linear", "to_srgb"]

Array = NDArray[np.float64]
Material = Callable[[Array, Array, Array, Array, int], Array]


def to_linear(c: Array) -> Array:
    """sRGB-encoded to linear."""
    c = np.clip(c, 0.0, 1.0)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def to_srgb(c: Array) -> Array:
    """Linear to sRGB-encoded."""
    c = np.clip(c, 0.0, 1.0)
    return np.where(c <= 0.0031308, c * 12.92, 1.055 * c ** (1 / 2.4) - 0.055)


def _rgb(hexa: str) -> Array:
    return np.array([int(hexa[i:i + 2], 16) for i in (0, 2, 4)]) / 255.0


def _mix(a: Array, b: Array, w: Array) -> Array:
    return a + (b - a) * np.clip(w, 0.0, 1.0)[..., None]


def _grain(along: Array, across: Array, seed: int, light: str, dark: str, amount: float = 1.0) -> Array:
    """Wood whose fibres run along the first coordinate."""
    wave = fbm(along * 1.3, across * 9.0, seed, 3)
    rings = 0.5 + 0.5 * np.sin(2 * np.pi * (across * 22.0 + 5.0 * wave))
    fibre = fbm(along * 7.0, across * 260.0, seed + 7, 2)
    w = 0.30 * rings * amount + 0.55 * (fibre - 0.5) * amount + 0.35 * (wave - 0.3)
    return _mix(_rgb(light), _rgb(dark), w + 0.1)


def _planks(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    """Oak floor: planks of 0.14 by about 1.5 m along t."""
    width, length = 0.14, 1.5
    row = np.floor(s / width)
    shift = hash01(row, 3, seed) * length
    col = np.floor((t + shift) / length)
    across, along = s - row * width, t + shift - col * length
    each = hash01(row, col, seed + 1)
    c = _grain(t + 9.7 * each, s + 31.0 * each, seed + 2, "cdb08a", "9b7a55", 0.8)
    c = c * (0.84 + 0.26 * each[..., None])
    c = _mix(c, c * _rgb("f2e6d8"), hash01(row, col, seed + 5) * 0.8)
    edge = np.minimum(np.minimum(across, width - across), np.minimum(along, length - along))
    return c * (0.45 + 0.55 * smooth(edge, 0.0, 0.004))[..., None]


def _paint(colour: str, amount: float = 0.035) -> Material:
    def paint(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
        mottle = fbm(s * 2.2, t * 2.2, seed + 40, 3) - 0.5
        return _rgb(colour) * (1.0 + amount * 2 * mottle)[..., None]
    return paint


def _wood(light: str, dark: str, along_t: bool = False) -> Material:
    def wood(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
        d = 3.17 * seed
        return _grain(t + d, s + d, seed, light, dark) if along_t else _grain(s + d, t + d, seed, light, dark)
    return wood


def _cloth(colour: str, thread: float = 0.006) -> Material:
    def cloth(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
        weave = value_noise(s / thread, t / thread / 3, seed + 1) + value_noise(s / thread / 3, t / thread, seed + 2)
        worn = fbm(s * 6.0, t * 6.0, seed, 3) - 0.5
        return _rgb(colour) * (1 + 0.14 * (weave - 1) + 0.14 * worn)[..., None]
    return cloth


def _curtain(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    """Linen that hangs in six folds."""
    fold = 0.5 + 0.5 * np.sin(2 * np.pi * 6 * u + 0.6 * np.sin(7 * u + seed) + np.pi)
    return _cloth("dfd8ca", 0.006)(s, t, u, v, seed) * (0.72 + 0.28 * fold)[..., None]


def _stripes(a: str, b: str, pitch: float) -> Material:
    def stripes(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
        w = smooth(np.abs((s / pitch + 10.0) % 1.0 - 0.5), 0.22, 0.28)
        return _mix(_rgb(a), _rgb(b), w) * (0.95 + 0.1 * fbm(s * 40, t * 40, seed, 2))[..., None]
    return stripes


def _rug(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    """Woven rug: two borders and a field of diamonds."""
    w, h = np.ptp(s) / np.ptp(u), np.ptp(t) / np.ptp(v)
    edge = np.minimum(np.minimum(u, 1 - u) * w, np.minimum(v, 1 - v) * h)
    diamond = np.abs(((u * w / 0.36) % 1.0) - 0.5) + np.abs(((v * h / 0.30) % 1.0) - 0.5)
    c = _mix(_rgb("a8483a"), _rgb("233f5c"), smooth(diamond, 0.48, 0.52))
    c = _mix(c, _rgb("e3c998"), smooth(0.045 - np.abs(diamond - 0.5), 0.0, 0.02))
    c = _mix(c, _rgb("d9a441"), smooth(0.10 - diamond, 0.0, 0.03))
    border = _mix(_rgb("233f5c"), _rgb("e3c998"),
                  smooth(np.abs(((u * w + v * h) / 0.11) % 1.0 - 0.5), 0.33, 0.37))
    c = _mix(border, c, smooth(edge, 0.165, 0.17))
    c = _mix(_rgb("e3c998"), c, smooth(np.minimum(np.abs(edge - 0.04), np.abs(edge - 0.165)), 0.008, 0.012))
    pile = value_noise(s * 260, t * 260, seed) - 0.5 + 0.8 * (fbm(s * 9, t * 9, seed + 3, 3) - 0.5)
    return c * (1 + 0.20 * pile)[..., None]


def _stone(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    """Pale counter with grey veins."""
    vein = np.abs(fbm(s * 3 + 2 * fbm(s * 2, t * 2, seed + 9, 3), t * 3, seed, 4) - 0.5)
    c = _mix(_rgb("8f8b86"), _rgb("dedad3"), smooth(vein, 0.0, 0.05))
    return c * (0.95 + 0.1 * value_noise(s * 150, t * 150, seed + 4))[..., None]


def _tiles(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    """Glazed wall tiles of 0.15 by 0.075 m in running bond."""
    row = np.floor(t / 0.075)
    x = s / 0.15 + 0.5 * (row % 2)
    col = np.floor(x)
    inside = np.minimum(np.minimum(x - col, col + 1 - x) * 0.15,
                        np.minimum(t - row * 0.075, (row + 1) * 0.075 - t))
    glaze = _rgb("b9cfc8") * (0.86 + 0.2 * hash01(row, col, seed))[..., None]
    return _mix(_rgb("e8e4da"), glaze, smooth(inside, 0.0015, 0.0035))


def _picture(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    """Hills at dusk on the wall, with a white mount."""
    c = _mix(_rgb("f2b36b"), _rgb("3d5a80"), smooth(v, 0.35, 0.95))
    sun = smooth(0.085 - np.hypot((u - 0.66) * 1.4, v - 0.55), 0.0, 0.006)
    c = _mix(c, _rgb("fff1c9"), sun)
    for k, colour in enumerate(("8a6d8f", "5c5a80", "34486b", "1d2f45")):
        ridge = 0.50 - 0.10 * k + 0.16 * (fbm(u * (2.5 + k) + 5 * k, u * 0, seed + k, 4) - 0.5)
        c = _mix(c, _rgb(colour), smooth(ridge - v, -0.004, 0.004))
    mount = np.minimum(np.minimum(u, 1 - u) * 1.3, np.minimum(v, 1 - v))
    return _mix(_rgb("f4f0e6"), c, smooth(mount, 0.088, 0.092))


def _abstract(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    """Overlapping discs on linen."""
    c = _rgb("ece3d0") * (0.97 + 0.06 * value_noise(s * 300, t * 300, seed))[..., None]
    for x, y, r, colour in ((0.38, 0.62, 0.24, "c8553d"), (0.62, 0.50, 0.20, "2a6f77"),
                            (0.45, 0.34, 0.15, "e0a53a"), (0.70, 0.76, 0.09, "22313f")):
        c = _mix(c, c * 0.15 + _rgb(colour) * 0.85, smooth(r - np.hypot(u - x, (v - y) * 1.2), 0.0, 0.006))
    return c


def _view(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    """Out of the window: sky, clouds, far trees."""
    c = _mix(_rgb("e6f1f8"), _rgb("78b0e0"), smooth(v, 0.15, 1.0))
    cloud = fbm(u * 5.0, v * 9.0, seed, 5)
    c = _mix(c, _rgb("ffffff"), smooth(cloud, 0.50, 0.70) * smooth(v, 0.2, 0.45))
    hill = 0.20 + 0.10 * (fbm(u * 3.0, u * 0, seed + 3, 4) - 0.5)
    c = _mix(c, _rgb("9fb7b4"), smooth(hill - v, -0.005, 0.005))
    crown = 0.10 + 0.16 * (fbm(u * 9.0, u * 0, seed + 8, 5) - 0.42)
    leaves = _mix(_rgb("4f7042"), _rgb("86a35c"), fbm(u * 40, v * 40, seed + 5, 3))
    return _mix(c, leaves, smooth(crown - v, -0.006, 0.006))


_COVERS = ("7b2d26", "1f3b4d", "2f5d50", "c9a227", "4a4063", "b5651d", "d8cfc0", "33312e", "8c9a9e", "a23e48")


def _book(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    """Cover or spine with two bands and a title of short strokes."""
    c = np.broadcast_to(_rgb(_COVERS[seed % len(_COVERS)]), (*np.shape(u), 3))
    pale = _rgb("e9dcc0") if seed % len(_COVERS) != 6 else _rgb("5b4636")
    band = (np.abs(v - 0.12) < 0.015) | (np.abs(v - 0.88) < 0.015)
    stroke = hash01(np.floor(v * 38), np.floor(u * 3), seed) > 0.45
    title = (np.abs(u - 0.5) < 0.22) & (v > 0.42) & (v < 0.78) & stroke
    c = _mix(c, pale, np.where(band | title, 0.85, 0.0))
    return c * (0.94 + 0.12 * fbm(s * 60, t * 60, seed, 2))[..., None]


def _cover(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    return _rgb(_COVERS[seed % len(_COVERS)]) * (0.94 + 0.12 * fbm(s * 60, t * 60, seed, 2))[..., None]


def _pages(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    return _rgb("e8dfca") * (0.88 + 0.12 * value_noise(s * 900, t * 3, seed))[..., None]


def _leaf(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    rib = smooth(np.abs(u - 0.5), 0.0, 0.05)
    veins = 0.5 + 0.5 * np.sin(2 * np.pi * (v * 9 - np.abs(u - 0.5) * 5))
    c = _mix(_rgb("b6d083"), _rgb("5c8f4c"), 0.25 + 0.75 * rib)
    return c * (0.85 + 0.12 * veins + 0.1 * hash01(seed, 1))[..., None]


def _shade(s: Array, t: Array, u: Array, v: Array, seed: int) -> Array:
    return _rgb("f3e6cc") * (0.96 + 0.06 * value_noise(s * 300, t * 40, seed))[..., None]


MATERIALS: dict[str, Material] = {
    "planks": _planks, "wall": _paint("d9d3c3"), "accent": _paint("8ea39a"), "ceiling": _paint("efece6", 0.015),
    "white": _paint("ece8df", 0.012), "oak": _wood("d3b48c", "a1794f"), "oak_t": _wood("d3b48c", "a1794f", True),
    "walnut": _wood("8b6a50", "4f3828"), "walnut_t": _wood("8b6a50", "4f3828", True),
    "sofa": _cloth("5f7d86"), "mustard": _cloth("cf9b3c", 0.008), "linen": _cloth("d8cdb8", 0.005),
    "striped": _stripes("e6dcc8", "b4533f", 0.055), "curtain": _curtain, "rug": _rug,
    "mat": _cloth("6f8f7d", 0.01), "stone": _stone, "tiles": _tiles, "picture": _picture, "abstract": _abstract,
    "view": _view, "book": _book, "cover": _cover, "pages": _pages, "leaf": _leaf, "shade": _shade,
    "cabinet": _paint("47616b", 0.02), "iron": _paint("2c2d30", 0.02), "steel": _paint("b4b7b8", 0.03),
    "clay": _paint("b8694a", 0.06), "glaze": _paint("3d6f86", 0.03), "cream": _paint("eadfc8", 0.02),
    "soil": _paint("3a2b20", 0.2), "fruit": _paint("d9772b", 0.06), "apple": _paint("9fae3c", 0.08),
    "wicker": _stripes("b58a55", "8f6a3d", 0.02), "chair": _wood("c2a178", "8a6844", True),
}
