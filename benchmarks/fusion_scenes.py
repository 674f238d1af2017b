"""Rooms of splats whose surfaces are known: thin tables, glass, floaters, noise, blur, missing patches, double sheets.

What is in the air or lies in front of a surface is no surface; what is missing is one. X right, Y forward, Z up,
metres; the initial camera is the origin, 1.5 m over the floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.fusion_truth import CEILING, F64, FLOOR, Truth
from spatialbench.types import GaussianSplats

__all__ = ["FAULTS", "HOUSE", "Recipe", "house", "make_splats"]

_WALL = 0.1
_DISC = 0.45


@dataclass(frozen=True)
class Recipe:
    """What a world is made of, and what is wrong with it.

    Attributes
    ----------
    splats : in all, floaters and glass included.
    rooms : along X and along Y, 4 x 4 m each, with doors between them.
    top : thickness of table tops and shelves, m.
    noise : standard deviation of centres across the surface, m.
    blur : factor on all sizes.
    loose : factor on the size across the surface alone.
    floaters : opaque clouds of 30 splats, 6 cm wide, in the air.
    fog : share of the splats that hang in the air, nearly transparent.
    missing : share of the surface, in discs of 0.45 m, that has no splats.
    double : share of the surface, in such discs, whose splats have a second sheet ``gap`` m in front.
    glass : a pane of opacity 0.2 stands in each room.
    """

    name: str
    splats: int = 150_000
    rooms: tuple[int, int] = (1, 1)
    top: float = 0.03
    noise: float = 0.003
    blur: float = 1.0
    loose: float = 1.0
    floaters: int = 0
    fog: float = 0.0
    missing: float = 0.0
    double: float = 0.0
    gap: float = 0.12
    glass: bool = False
    degree: int = 0
    seed: int = 0


FAULTS = (
    Recipe("clean"),
    Recipe("noise 1 cm", noise=0.01),
    Recipe("noise 3 cm", noise=0.03),
    Recipe("noise 6 cm", noise=0.06),
    Recipe("tops of 1 cm", top=0.01),
    Recipe("20 floaters", floaters=20),
    Recipe("150 floaters", floaters=150),
    Recipe("fog", fog=0.3),
    Recipe("5 % missing", missing=0.05),
    Recipe("20 % missing", missing=0.20),
    Recipe("blur x 3", blur=3.0, loose=2.0),
    Recipe("blur x 6", blur=6.0, loose=2.0),
    Recipe("10 % double", double=0.10),
    Recipe("30 % double", double=0.30),
    Recipe("glass", glass=True),
    Recipe("all of it", noise=0.02, top=0.01, blur=2.0, floaters=60, fog=0.1, missing=0.1, double=0.1, glass=True),
)
"""One room, one fault each; the last has all."""
HOUSE = Recipe("house of nine rooms", splats=2_000_000, rooms=(3, 3), noise=0.006, floaters=120, fog=0.02, top=0.02,
               glass=True, degree=3)


def house(recipe: Recipe) -> Truth:
    """Shell, walls with doors, and in each room a table, a shelf, a cupboard and, if asked for, a pane of glass."""
    nx, ny = recipe.rooms
    truth = Truth()
    low = np.array([-2.0 - 4.0 * (nx // 2), -2.0 - 4.0 * (ny // 2), FLOOR])
    high = low + [4.0 * nx, 4.0 * ny, CEILING - FLOOR]
    truth.box(low, np.array([high[0], high[1], CEILING]), inward=True)
    for i in range(nx):
        for j in range(ny):
            _room(truth, low + [4.0 * i, 4.0 * j, 0.0], recipe, i < nx - 1, j < ny - 1)
    return truth


def _room(truth: Truth, at: F64, recipe: Recipe, wall_east: bool, wall_north: bool) -> None:
    """``at``: its south-west corner on the floor."""
    def box(x0: float, y0: float, z0: float, x1: float, y1: float, z1: float, glass: bool = False) -> None:
        truth.box(at + [x0, y0, z0], at + [x1, y1, z1], glass=glass)

    full = CEILING - FLOOR
    if wall_east:
        box(4 - _WALL, 0.0, 0.0, 4.0, 1.5, full)
        box(4 - _WALL, 2.5, 0.0, 4.0, 4.0, full)
    if wall_north:
        box(0.0, 4 - _WALL, 0.0, 1.5, 4.0, full)
        box(2.5, 4 - _WALL, 0.0, 4.0 - _WALL, 4.0, full)
    box(0.4, 2.7, 0.75 - recipe.top, 1.6, 3.4, 0.75)  # table
    for x in (0.45, 1.5):
        for y in (2.75, 3.3):
            box(x, y, 0.0, x + 0.06, y + 0.06, 0.75 - recipe.top)
    for z in (0.5, 0.9, 1.3):  # boards of a shelf
        box(2.7, 0.1, z - recipe.top, 3.6, 0.4, z)
    box(0.1, 0.4, 0.0, 0.6, 1.4, 1.8)  # cupboard
    box(2.8, 2.8, 0.0, 3.5, 3.5, 0.45)  # stool
    if recipe.glass:
        box(1.2, 0.2, 0.0, 1.22, 1.2, 2.0, glass=True)


def make_splats(recipe: Recipe, truth: Truth | None = None) -> GaussianSplats:
    """Spread over the surfaces as in trained worlds: sizes and opacities vary, no order in space."""
    truth = house(recipe) if truth is None else truth
    rng = np.random.default_rng(recipe.seed)
    solid = truth.solid()
    spacing = np.sqrt(solid.areas.sum() / recipe.splats)
    parts = [_floaters(recipe, truth, rng), _glass(truth, rng, spacing)]
    n = recipe.splats - sum(len(p[0]) for p in parts)
    fog = round(recipe.fog * n)
    parts.append(_fog(fog, truth, rng, spacing))
    centre, which = solid.cover(n - fog, rng)
    normal = np.array(solid.normal)[which]
    gone = _discs(solid, centre, which, recipe.missing, rng)
    centre, normal, which = centre[~gone], normal[~gone], which[~gone]
    twice = _discs(solid, centre, which, recipe.double, rng)
    ahead = np.where(twice & (rng.random(len(centre)) < 0.6), recipe.gap, 0.0)
    centre = centre + (ahead + rng.normal(0.0, recipe.noise, len(centre)))[:, None] * normal
    parts.append(_flat(centre, normal, spacing, recipe, rng))
    means, scales, quaternions, opacities = (np.concatenate([p[k] for p in parts]) for k in range(4))
    order = rng.permutation(len(means))
    sh = np.zeros((len(means), (recipe.degree + 1) ** 2, 3), np.float32)
    sh[:, 0] = rng.uniform(-1.0, 1.0, (len(means), 3))
    f = np.float32
    return GaussianSplats(means[order].astype(f), scales[order].astype(f), quaternions[order].astype(f),
                          opacities[order].astype(f), sh)


Part = tuple[F64, F64, F64, F64]


def _flat(centre: F64, normal: F64, spacing: float, recipe: Recipe, rng: np.random.Generator) -> Part:
    n = len(centre)
    scales = recipe.blur * spacing * np.exp(rng.normal([0.0, -0.3, 0.0], [0.4, 0.4, 0.0], (n, 3)))
    scales[:, 2] = recipe.loose * scales[:, :2].min(axis=1) * np.exp(rng.normal(-1.8, 0.5, n))
    # The third axis along the normal, then turned about it.
    half, turn = np.sqrt(0.5), rng.uniform(0, np.pi, n)
    w, x, y, z = np.array([[half, 0, half, 0], [half, -half, 0, 0], [1, 0, 0, 0]])[np.abs(normal).argmax(axis=1)].T
    c, s = np.cos(turn), np.sin(turn)
    quaternions = np.stack([w * c - z * s, x * c + y * s, y * c - x * s, z * c + w * s], axis=1)
    opacities = np.where(rng.random(n) < 0.7, rng.beta(8, 0.7, n), rng.beta(0.9, 2.2, n)).clip(0.004, 0.9995)
    return centre, scales, quaternions, opacities


def _floaters(recipe: Recipe, truth: Truth, rng: np.random.Generator) -> Part:
    n = 30 * recipe.floaters
    at = np.repeat(_in_the_air(recipe.floaters, truth, rng), 30, axis=0) + rng.normal(0.0, 0.03, (n, 3))
    return at, np.full((n, 3), 0.02), _any_turn(n, rng), np.full(n, 0.9)


def _fog(n: int, truth: Truth, rng: np.random.Generator, spacing: float) -> Part:
    scales = 2.0 * spacing * np.exp(rng.normal(0.0, 0.4, (n, 3)))
    return _in_the_air(n, truth, rng), scales, _any_turn(n, rng), rng.beta(1, 12, n).clip(0.004)


def _glass(truth: Truth, rng: np.random.Generator, spacing: float) -> Part:
    panes = truth.panes()
    if not panes.low:
        return np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 4)), np.zeros(0)
    n = int(panes.areas.sum() / spacing**2 / 2)
    centre, which = panes.cover(n, rng)
    part = _flat(centre, np.array(panes.normal)[which], spacing, Recipe("glass"), rng)
    return part[0], part[1], part[2], np.full(len(centre), 0.05)


def _in_the_air(n: int, truth: Truth, rng: np.random.Generator) -> F64:
    low, high = np.array(truth.low).min(axis=0) + 0.3, np.array(truth.high).max(axis=0) - 0.3
    at = low + rng.random((n, 3)) * (high - low)
    # The camera's own place stays clear.
    near = np.linalg.norm(at, axis=1) < 0.6
    at[near] += 1.0
    return at


def _any_turn(n: int, rng: np.random.Generator) -> F64:
    q = rng.normal(size=(n, 4))
    return q / np.linalg.norm(q, axis=1, keepdims=True)


def _discs(truth: Truth, points: F64, which: NDArray[np.int64], share: float, rng: np.random.Generator
           ) -> NDArray[np.bool_]:
    """Points [P] inside discs of ``_DISC`` on their own rectangle, which cover about ``share`` of all area."""
    inside = np.zeros(len(points), np.bool_)
    if share <= 0:
        return inside
    # Discs may overlap: of n of area a on A, 1 - exp(-n a / A) is covered.
    count = round(-np.log1p(-share) * truth.areas.sum() / (np.pi * _DISC**2))
    centres, of = truth.sample(count, rng)
    for centre, rectangle in zip(centres, of, strict=True):
        mine = np.flatnonzero(which == rectangle)
        inside[mine[((points[mine] - centre) ** 2).sum(axis=1) < _DISC**2]] = True
    return inside
