"""Baked light: sky and sun through the window, lamps, and what all surfaces pass on.

Every patch gets a small map of light values ("luxels" of about 5 cm). A value e is irradiance over pi, so
that a surface of albedo a looks a * e bright. Frame as in ``patches``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.assets.room.materials import MATERIALS, to_linear
from spatialbench.assets.room.noise import hash01
from spatialbench.assets.room.patches import Patch
from spatialbench.types import RayCaster

__all__ = ["LIFT", "Lights", "PatchSoup", "bake", "pattern", "solid_caster", "soup", "sun_at"]

_LUXEL = 0.05
_GATHER = 80
_PANE_SAMPLES = (7, 5)
_BOUNCES = 5
LIFT = 1e-3
"""Rays start this far off their surface, m."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Lights:
    """What shines.

    Attributes
    ----------
    pane : corner, du, dv of the window pane; it shines along du x dv.
    sky : RGB radiance of the pane.
    sun_direction : towards the sun, unit.
    sun : RGB value e of a surface that faces it.
    lamps : (centre, radius, RGB intensity) of small spheres.
    outside : RGB radiance met by rays that leave through a hole.
    transparent : tags that no light is stopped by.
    """

    pane: tuple[Array, Array, Array]
    sky: Array
    sun_direction: Array
    sun: Array
    lamps: tuple[tuple[Array, float, Array], ...]
    outside: Array
    transparent: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PatchSoup:
    """Triangles of many patches: ``vertices`` [V,3], ``faces`` [F,3], and which ``cell`` [F] each is of.

    Cells are numbered over all patches; ``first_cell`` and ``first_vertex`` have one entry per patch.
    """

    vertices: Array
    faces: NDArray[np.int64]
    cell: NDArray[np.int64]
    first_cell: NDArray[np.int64]
    first_vertex: NDArray[np.int64]


def soup(patches: list[Patch]) -> PatchSoup:
    """All patches as one list of triangles, in order."""
    cells = np.array([p.cells[0] * p.cells[1] for p in patches])
    points = np.array([p.grid.shape[0] * p.grid.shape[1] for p in patches])
    first_cell, first_vertex = np.cumsum(cells) - cells, np.cumsum(points) - points
    parts = [p.triangles() for p in patches]
    faces = np.concatenate([f + o for (f, _), o in zip(parts, first_vertex, strict=True)])
    cell = np.concatenate([c + o for (_, c), o in zip(parts, first_cell, strict=True)])
    return PatchSoup(np.concatenate([p.grid.reshape(-1, 3) for p in patches]), faces, cell, first_cell,
                     first_vertex)


def pattern(p: Patch, u: Array, v: Array) -> Array:
    """Linear albedo [len(u),len(v),3] of a patch at the places u by v."""
    uu, vv = np.meshgrid(u, v, indexing="ij")
    s, t = uu * p.size[0] + p.origin[0], vv * p.size[1] + p.origin[1]
    return to_linear(MATERIALS[p.material](s, t, uu, vv, p.seed))


def bake(patches: list[Patch], lights: Lights) -> list[Array]:
    """Map [LU,LV,3] of light values, without direct sun, for each patch; luxel centres are evenly spread."""
    s = soup(patches)
    solid = solid_caster(patches, s, lights)
    grids = [(_centres(p.size[0]), _centres(p.size[1])) for p in patches]
    placed = [p.at(u, v) for p, (u, v) in zip(patches, grids, strict=True)]
    normal = np.concatenate([n.reshape(-1, 3) for _, n in placed])
    start = np.concatenate([x.reshape(-1, 3) for x, _ in placed]) + LIFT * normal
    cell = np.concatenate([_cells_of(p, u, v) + o
                           for p, (u, v), o in zip(patches, grids, s.first_cell, strict=True)])
    n_cells = int(s.first_cell[-1]) + patches[-1].cells[0] * patches[-1].cells[1]
    albedo = _cell_means(np.concatenate([pattern(p, u, v).reshape(-1, 3)
                                         for p, (u, v) in zip(patches, grids, strict=True)]), cell, n_cells)
    own = np.zeros((n_cells, 3))
    for p, o in zip(patches, s.first_cell, strict=True):
        if p.tag not in lights.transparent:  # the pane's and the lamps' light is counted by its own rays
            own[o:o + p.cells[0] * p.cells[1]] = p.emit
    direct = _pane(start, normal, solid, lights) + _lamps(start, normal, solid, lights)
    seen = _gather_cells(start, normal, s)
    sun = sun_at(start, normal, solid, lights, rays=4)
    value = direct
    passed_on = np.zeros_like(direct)
    for _ in range(_BOUNCES):
        radiance = own + albedo * _cell_means(value + sun, cell, n_cells)
        table = np.concatenate([radiance, np.zeros((1, 3)), lights.outside[None]])  # -2 behind, -1 outside
        passed_on = np.stack([table[:, k][seen].mean(axis=1) for k in range(3)], axis=1)
        value = direct + passed_on
    out, at = [], 0
    for u, v in grids:
        n = len(u) * len(v)
        first, later = (a[at:at + n].reshape(len(u), len(v), 3) for a in (direct, passed_on))
        out.append(_soften(first, 1) + _soften(_soften(later, 1), 2))
        at += n
    return out


def sun_at(start: Array, normal: Array, solid: RayCaster, lights: Lights, rays: int = 12) -> Array:
    """[N,3] light values of the sun at points lifted off their surface; only through the window."""
    out = np.zeros((len(start), 3))
    d = lights.sun_direction
    corner, du, dv = lights.pane
    n = np.cross(du, dv)
    facing = normal @ d
    t = ((corner - start) @ n) / (d @ n)
    at = start + t[:, None] * d - corner
    a, b = at @ du / (du @ du), at @ dv / (dv @ dv)
    slack = 0.02
    lit = np.flatnonzero((facing > 0) & (t > 0) & (np.abs(a - 0.5) < 0.5 + slack)
                         & (np.abs(b - 0.5) < 0.5 + slack))
    if not len(lit):
        return out
    side = np.cross(d, [0.0, 0.0, 1.0])
    side /= np.linalg.norm(side)
    up = np.cross(side, d)
    share = np.zeros(len(lit))
    for k in range(rays):
        r, phi = 0.012 * math.sqrt((k + 0.5) / rays), 2.399963 * k
        ray = d + r * (math.cos(phi) * side + math.sin(phi) * up)
        t = ((corner - start[lit]) @ n) / (ray @ n)
        at = start[lit] + t[:, None] * ray - corner
        a, b = at @ du / (du @ du), at @ dv / (dv @ dv)
        through = (a > 0) & (a < 1) & (b > 0) & (b < 1)
        hits = solid.first_hits(start[lit], ray)
        share += through & (hits.distance > t * np.linalg.norm(ray) - 1e-3)
    out[lit] = (share / rays * facing[lit])[:, None] * lights.sun
    return out


def solid_caster(patches: list[Patch], s: PatchSoup, lights: Lights) -> RayCaster:
    """Everything that stops light."""
    clear = np.concatenate([np.full(p.cells[0] * p.cells[1], p.tag in lights.transparent) for p in patches])
    return _caster(s.vertices, s.faces[~clear[s.cell]])


def _caster(vertices: Array, faces: NDArray[np.int64]) -> RayCaster:
    from spatialbench.renderers.raycast import MeshRayCaster  # embree is loaded only for baking

    return MeshRayCaster(vertices, faces)


def _centres(length: float) -> Array:
    n = max(2, math.ceil(length / _LUXEL))
    return (np.arange(n) + 0.5) / n


def _cells_of(p: Patch, u: Array, v: Array) -> NDArray[np.int64]:
    i = np.clip(np.searchsorted(p.u, u, side="right") - 1, 0, p.cells[0] - 1)
    j = np.clip(np.searchsorted(p.v, v, side="right") - 1, 0, p.cells[1] - 1)
    return (i[:, None] * p.cells[1] + j[None, :]).ravel()


def _cell_means(values: Array, cell: NDArray[np.int64], n_cells: int) -> Array:
    """Mean of the luxels of each cell; cells without one take the mean of the cell before them."""
    count = np.bincount(cell, minlength=n_cells)
    total = np.stack([np.bincount(cell, values[:, k], n_cells) for k in range(3)], axis=1)
    filled = np.maximum.accumulate(np.where(count > 0, np.arange(n_cells), 0))
    return total[filled] / np.maximum(count[filled], 1)[:, None]


def _pane(start: Array, normal: Array, solid: RayCaster, lights: Lights) -> Array:
    """Sky light that comes straight through the window."""
    corner, du, dv = lights.pane
    face = np.cross(du, dv)
    area = float(np.linalg.norm(face))
    face = face / area
    value = np.zeros(len(start))
    nu, nv = _PANE_SAMPLES
    everyone = np.arange(len(start))
    for k in range(nu * nv):
        ju, jv = hash01(everyone, k, 11), hash01(everyone, k, 12)
        point = (corner + ((k % nu + ju) / nu)[:, None] * du + ((k // nu + jv) / nv)[:, None] * dv)
        value += _seen(start, normal, point, solid, face)
    return (value * area / (nu * nv) / math.pi)[:, None] * lights.sky


def _lamps(start: Array, normal: Array, solid: RayCaster, lights: Lights) -> Array:
    value = np.zeros((len(start), 3))
    everyone = np.arange(len(start))
    for m, (centre, radius, colour) in enumerate(lights.lamps):
        rays = 6
        for k in range(rays):
            z = 2 * hash01(everyone, k, 30 + m) - 1
            phi = 2 * math.pi * hash01(everyone, k, 40 + m)
            ring = np.sqrt(1 - z * z)
            point = centre + radius * np.stack([ring * np.cos(phi), ring * np.sin(phi), z], axis=1)
            value += (_seen(start, normal, point, solid, None) / rays)[:, None] * colour
    return value


def _seen(start: Array, normal: Array, point: Array, solid: RayCaster, face: Array | None) -> Array:
    """cos (cos') / r^2 of a light point for each start, 0 where something is in the way."""
    d = point - start
    r2 = np.einsum("ij,ij->i", d, d)
    r = np.sqrt(r2)
    cos = np.einsum("ij,ij->i", normal, d) / r
    amount = np.maximum(cos, 0) / np.maximum(r2, 0.01)
    if face is not None:
        amount *= np.maximum(-(d @ face) / r, 0)
    ask = np.flatnonzero(amount > 0)
    hits = solid.first_hits(start[ask], d[ask])
    amount[ask[hits.distance < r[ask] - 2e-3]] = 0.0
    return amount


def _gather_cells(start: Array, normal: Array, s: PatchSoup) -> NDArray[np.int64]:
    """[N,_GATHER] cell that each cosine-spread ray meets; -1 for none, -2 for the back of a face."""
    caster = _caster(s.vertices, s.faces)
    side = np.cross(normal, np.where(np.abs(normal[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]]))
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    other = np.cross(normal, side)
    everyone = np.arange(len(start))
    turn = hash01(everyone, 0, 21)
    out = np.empty((len(start), _GATHER), np.int64)
    for k in range(_GATHER):
        r = np.sqrt((k + hash01(everyone, k, 22)) / _GATHER)
        phi = 2 * math.pi * ((0.6180339887 * k + turn) % 1.0)
        d = (r * np.cos(phi))[:, None] * side + (r * np.sin(phi))[:, None] * other \
            + np.sqrt(1 - r * r)[:, None] * normal
        hits = caster.first_hits(start, d)
        met = np.where(hits.hit, s.cell[hits.face], -1)
        met[hits.hit & (np.einsum("ij,ij->i", hits.normal, d) > 0)] = -2
        out[:, k] = met
    return out


def _soften(a: Array, reach: int) -> Array:
    """Binomial blur with taps ``reach`` luxels apart, against sampling noise."""
    for axis in (0, 1):
        n = a.shape[axis]
        at = np.clip(np.arange(-reach, n + reach), 0, n - 1)
        near = [np.take(a, at[k:k + n], axis=axis) for k in (0, reach, 2 * reach)]
        a = 0.25 * near[0] + 0.5 * near[1] + 0.25 * near[2]
    return a
