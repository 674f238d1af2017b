"""Small things, lamps, pictures and plants, in their own frame: they stand on z = 0 around the origin."""

from __future__ import annotations

import math

import numpy as np

from spatialbench.assets.room.noise import hash01
from spatialbench.assets.room.patches import Patch, box, place, rect, revolve

__all__ = ["bowl", "curtain", "flat_book", "floor_lamp", "fruit", "jar", "kettle", "mug", "pendant", "picture",
           "plant", "vase"]

WARM = (1.15, 0.82, 0.50)
"""Radiance of a lit lampshade."""


def disc(radius: float, z: float, material: str, up: bool = True, turns: int = 16) -> Patch:
    """Flat disc seen from above or below."""
    profile = [(radius, z), (0.0, z)] if up else [(0.0, z), (radius, z)]
    return revolve(profile, material, turns=turns)


def vase() -> list[Patch]:
    """Glazed vase, 0.24 m, with dry twigs."""
    outside = [(0.045, 0), (0.07, 0.03), (0.085, 0.09), (0.07, 0.15), (0.035, 0.20), (0.04, 0.24)]
    inside = [(0.04, 0.24), (0.033, 0.235), (0.028, 0.19), (0.0, 0.16)]
    out = [revolve(outside, "glaze"), revolve(inside, "iron"), disc(0.045, 0.0, "glaze", up=False)]
    for k in range(7):
        lean = 0.10 + 0.14 * float(hash01(k, 1, 5))
        out += place(_twig(lean, 0.22 + 0.12 * float(hash01(k, 2, 5)), k), 0, 0, 0.20, 360 * k / 7 + 20 * (k % 3))
    return out


def _twig(lean: float, length: float, seed: int) -> list[Patch]:
    """A leaning stem with a narrow leaf, as thin closed sheets."""
    tip = (lean * length * 1.6, 0.0, length)
    return _blade((0.0, 0.0, 0.0), tip, 0.022, 0.25, seed, 3)


def _blade(root: tuple[float, float, float], tip: tuple[float, float, float], width: float, droop: float,
           seed: int, parts: int = 3) -> list[Patch]:
    """A leaf from root to tip in the XZ plane, bent downwards by ``droop`` of its length; both sides."""
    a, b = np.asarray(root, float), np.asarray(tip, float)
    k = np.linspace(0, 1, parts + 1)
    length = float(np.linalg.norm(b - a))
    middle = a + k[:, None] * (b - a)
    middle[:, 2] -= droop * length * k**2
    half = width * np.sin(math.pi * (0.08 + 0.92 * k)) ** 0.8 + 0.0008
    fold = 0.25 * half
    left, right = middle.copy(), middle.copy()
    left[:, 1] += half
    right[:, 1] -= half
    left[:, 2] += fold
    right[:, 2] += fold
    grid = np.stack([right, middle, left])
    u, size = np.array([0.0, 0.5, 1.0]), (2 * width, length)
    top = Patch(grid, u, k, size, "leaf", seed=seed, density=0.8)
    if np.cross(grid[1, 0] - grid[0, 0], grid[0, 1] - grid[0, 0])[2] < 0:
        top = Patch(grid[::-1].copy(), u, k, size, "leaf", seed=seed, density=0.8)
    under = Patch(top.grid[::-1] - [0, 0, 0.0015], u, k, size, "leaf", seed=seed, density=0.5)
    return [top, under]


def plant(height: float = 0.62, leaves: int = 22) -> list[Patch]:
    """Broad-leaved plant in a clay pot."""
    out = [revolve([(0.13, 0), (0.17, 0.26), (0.185, 0.27), (0.185, 0.32)], "clay"),
           revolve([(0.185, 0.32), (0.165, 0.32), (0.155, 0.28)], "clay"), disc(0.157, 0.285, "soil")]
    for k in range(leaves):
        r = [float(hash01(k, m, 9)) for m in range(4)]
        ring = k / leaves
        reach, rise = 0.22 + 0.26 * r[0], height * (0.35 + 0.75 * ring) + 0.1 * r[1]
        stem = place(box((-0.004, -0.004, 0), (0.004, 0.004, rise), "leaf", skip="zZ"), 0.03 * r[2], 0, 0.27)
        blade = _blade((0.03 * r[2], 0, 0.27 + rise), (reach, 0, 0.27 + rise + 0.20 * ring + 0.05), 0.07 + 0.03 * r[3],
                       0.55 - 0.2 * ring, k)
        out += place(stem + blade, yaw_deg=137.5 * k)
    return out


def bowl(radius: float = 0.15, material: str = "cream") -> list[Patch]:
    """Open bowl."""
    h = 0.45 * radius
    outside = [(0.45 * radius, 0), (0.75 * radius, 0.35 * h), (radius, h)]
    inside = [(radius, h), (0.72 * radius, 0.42 * h), (0.40 * radius, 0.12 * h), (0, 0.10 * h)]
    return [revolve(outside, material), revolve(inside, material), disc(0.45 * radius, 0, material, up=False)]


def fruit(radius: float, material: str) -> list[Patch]:
    """A ball that rests on z = 0."""
    a = np.linspace(-math.pi / 2, math.pi / 2, 7)
    return [revolve(np.stack([radius * np.cos(a), radius * (1 + np.sin(a))], axis=1).round(9), material, turns=10)]


def mug(material: str = "glaze") -> list[Patch]:
    """Cup of 8 cm."""
    return [revolve([(0.036, 0), (0.040, 0.01), (0.041, 0.09)], material, turns=14),
            revolve([(0.041, 0.09), (0.036, 0.088), (0.034, 0.03), (0, 0.03)], material, turns=14),
            disc(0.036, 0, material, up=False, turns=14),
            *box((0.038, -0.006, 0.025), (0.062, 0.006, 0.07), material, skip="x")]


def jar(radius: float, height: float, material: str) -> list[Patch]:
    """Round tin with a wooden lid."""
    return [revolve([(radius, 0), (radius, height)], material, turns=14),
            revolve([(radius * 1.04, height), (radius * 1.04, height + 0.02), (0, height + 0.02)], "oak", turns=14)]


def kettle() -> list[Patch]:
    """Steel kettle with a spout and a handle."""
    body = [(0.085, 0), (0.09, 0.02), (0.08, 0.13), (0.055, 0.19), (0.02, 0.20), (0.012, 0.22), (0, 0.225)]
    out = [revolve(body, "steel"), *box((0.07, -0.012, 0.10), (0.13, 0.012, 0.15), "steel", skip="x")]
    out += box((-0.13, -0.01, 0.06), (-0.112, 0.01, 0.20), "iron")
    return out + box((-0.112, -0.01, 0.18), (-0.04, 0.01, 0.20), "iron", skip="xX")


def flat_book(w: float, d: float, t: float, seed: int) -> list[Patch]:
    """A closed book that lies on its back."""
    return (box((-w / 2, -d / 2, 0), (w / 2, d / 2, t), "book", skip="yXYz", seed=seed, density=1.4)
            + box((-w / 2, -d / 2, 0), (w / 2, d / 2, t), "pages", skip="xzZ", seed=seed))


def picture(w: float, h: float, material: str, frame: str = "walnut") -> list[Patch]:
    """Framed picture around the origin, hung on the plane y = 0, seen from -Y."""
    t, f = 0.022, 0.025
    out = [rect((-w / 2, -0.012, -h / 2), (w, 0, 0), (0, 0, h), material, density=1.6, step=0.5)]
    for x0, x1, z0, z1 in ((-w / 2 - f, w / 2 + f, h / 2, h / 2 + f), (-w / 2 - f, w / 2 + f, -h / 2 - f, -h / 2),
                           (-w / 2 - f, -w / 2, -h / 2, h / 2), (w / 2, w / 2 + f, -h / 2, h / 2)):
        out += box((x0, -t, z0), (x1, 0, z1), frame, skip="Y", step=1.0)
    return out


def curtain(w: float, h: float, folds: int, seed: int) -> list[Patch]:
    """Hanging cloth from x = 0 to ``w``, z = 0 to ``h``, folded in Y; both sides."""
    nu, nv = folds * 6, 3
    u, v = np.linspace(0, 1, nu + 1), np.linspace(0, 1, nv + 1)
    loose = 0.028 + 0.012 * (1 - v)[None, :]
    y = loose * np.sin(2 * math.pi * folds * u + 0.6 * np.sin(7 * u + seed))[:, None]
    x = np.broadcast_to((u * w)[:, None], y.shape)
    grid = np.stack([x, y, np.broadcast_to((v * h)[None, :], y.shape)], axis=2)
    front = Patch(grid, u, v, (1.5 * w, h), "curtain", seed=seed, density=0.9)
    behind = Patch(grid[::-1] + [0, 0.006, 0], 1 - u[::-1], v, (1.5 * w, h), "curtain", seed=seed, density=0.4)
    return [front, behind]


def _lampshade(r0: float, r1: float, h: float, z: float) -> list[Patch]:
    """Open cone of cloth, lit from within."""
    outside, inside = [(r0, z), (r1, z + h)], [(r1 - 0.004, z + h), (r0 - 0.004, z)]
    return [revolve(outside, "shade", turns=24, emit=WARM, tag="lampshade"),
            revolve(inside, "shade", turns=24, emit=WARM, tag="lampshade", density=0.5)]


def floor_lamp(height: float = 1.55) -> list[Patch]:
    """Standing lamp; its bulb is 0.12 m below the top."""
    return [revolve([(0.14, 0), (0.14, 0.018), (0.012, 0.03), (0.011, height - 0.05), (0, height - 0.05)], "iron",
                    turns=14), *_lampshade(0.20, 0.13, 0.26, height - 0.26)]


def pendant(bottom: float, ceiling: float, radius: float = 0.21) -> list[Patch]:
    """Lamp that hangs from the ceiling; its bulb is 0.08 m above the shade's lower edge."""
    return [revolve([(0.006, bottom + 0.16), (0.006, ceiling - 0.02), (0.05, ceiling - 0.015), (0.05, ceiling)], "iron",
                    turns=10), *_lampshade(radius, 0.07, 0.17, bottom)]
