"""What of the room's surface can be seen, and which of its edges: found by casting rays from cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.assets.room.cells import Cells, frames, joined
from spatialbench.assets.room.noise import hash01
from spatialbench.assets.room.surface import Surface
from spatialbench.types import RayCaster

__all__ = ["free_edges", "linings", "openness", "visible"]

_FREE_PATH = 0.25
"""A cell is seen when a ray gets as far as this from it, m."""
_CONTACT, _HIDDEN = 0.008, 0.022
"""A place from which no ray gets that far is covered; largest cell that is covered in part; m."""
_SHEET = 0.0065
"""Two sides no farther apart than this are one sheet, m."""
_LIFT = 1e-3
_BACK, _UP, _BEYOND = 0.004, 0.003, 0.02
"""The ray that looks beyond a border starts so far inside and over it, and must get so far; m."""

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


def openness(surface: Surface, c: Cells, caster: RayCaster, n: int) -> Array:
    """[n] share of the rays from each patch's cells that get far, over those cells of which any does."""
    share = (_reaches(surface, c, caster) > _FREE_PATH).mean(axis=(1, 2))
    count = np.bincount(c.patch[share > 0], minlength=n)
    return np.asarray(np.bincount(c.patch, share, n) / np.maximum(count, 1))


def visible(surface: Surface, c: Cells, caster: RayCaster) -> Cells:
    """Cells that can be seen; halved along the line where something begins to hide the surface."""
    reach = _reaches(surface, c, caster)
    seen = np.any(reach > _FREE_PATH, axis=(1, 2))
    c, reach = c[seen], reach[seen]
    done: list[Cells] = []
    while len(c):
        bare = np.any(reach > _CONTACT, axis=2)
        _, across_u, across_v, _ = frames(surface, c)
        wide, high = np.linalg.norm(across_u, axis=1), np.linalg.norm(across_v, axis=1)
        split = bare.any(axis=1) & ~bare.all(axis=1) & (np.maximum(wide, high) > _HIDDEN)
        done.append(c[bare[:, 0] & ~split])
        low, up = c[split].halves((wide >= high)[split])
        c = joined(low, up)
        reach = _reaches(surface, c, caster)
    return joined(*done)


def linings(surface: Surface, c: Cells, caster: RayCaster, owner: Index, opened: Array) -> Mask:
    """[P] patches that are the back of a thin sheet, whose splats are seen from both sides: the less open one goes."""
    point, _, _, normal = frames(surface, c)
    ask = np.flatnonzero(np.linalg.norm(normal, axis=1) > 0.5)
    hits = caster.first_hits(point[ask] - 2e-4 * normal[ask], -normal[ask])
    back = (hits.distance < _SHEET) & (np.einsum("ij,ij->i", hits.normal, normal[ask]) < -0.5)
    partner = np.full(len(c), -1)
    partner[ask[back]] = owner[hits.face[back]]
    out = np.zeros(len(opened), bool)
    for k in np.unique(c.patch[partner >= 0]):
        of_k = partner[c.patch == k]
        other = int(np.bincount(of_k[of_k >= 0]).argmax())
        if (of_k == other).mean() > 0.8 and not out[other] and (opened[k], -k) < (opened[other], -other):
            out[k] = True
    return out


def free_edges(surface: Surface, c: Cells, caster: RayCaster) -> Mask:
    """[N,4] borders of patches that no other surface covers: a ray along the surface goes on beyond them."""
    u, v = c.middle
    _, across_u, across_v, normal = frames(surface, c)
    out = np.zeros((len(c), 4), bool)
    at_border = ((c.u0 <= 0) & ~surface.wraps[c.patch], (c.u1 >= 1) & ~surface.wraps[c.patch], c.v0 <= 0, c.v1 >= 1)
    ends = ((c.u0, v, -across_u), (c.u1, v, across_u), (u, c.v0, -across_v), (u, c.v1, across_v))
    for k, (touches, (eu, ev, way)) in enumerate(zip(at_border, ends, strict=True)):
        ask = np.flatnonzero(touches & (np.linalg.norm(way, axis=1) > 1e-6))
        if not len(ask):
            continue
        d = way[ask] / np.linalg.norm(way[ask], axis=1, keepdims=True)
        back = np.minimum(0.5 * np.linalg.norm(way[ask], axis=1), _BACK)[:, None]
        start = surface.at(c.patch[ask], eu[ask], ev[ask])[0] - back * d + _UP * normal[ask]
        out[ask, k] = caster.first_hits(start, d).distance > _BEYOND
    return out


def _reaches(surface: Surface, c: Cells, caster: RayCaster, rays: int = 8) -> Array:
    """[N,5,8] how far rays get in free space from five places of each cell, the middle first; 0 inside a solid."""
    normal = frames(surface, c)[3]
    side = np.cross(normal, np.where(np.abs(normal[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]]))
    side /= np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12)
    other = np.cross(normal, side)
    out = np.zeros((len(c), 5, rays))
    for k, (fu, fv) in enumerate(((0.5, 0.5), (0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9))):
        point, kept = surface.at(c.patch, c.u0 + fu * (c.u1 - c.u0), c.v0 + fv * (c.v1 - c.v0))
        ask = np.flatnonzero(kept & (np.linalg.norm(normal, axis=1) > 0.5))
        for m in range(rays):
            r = np.sqrt((m + hash01(ask, 5 * m + k, 61)) / rays)
            phi = 2 * np.pi * ((0.6180339887 * m + hash01(ask, k, 62)) % 1.0)
            d = (r * np.cos(phi))[:, None] * side[ask] + (r * np.sin(phi))[:, None] * other[ask] \
                + np.sqrt(1 - r * r)[:, None] * normal[ask]
            hits = caster.first_hits(point[ask] + _LIFT * normal[ask], d)
            inside = hits.hit & (np.einsum("ij,ij->i", hits.normal, d) > 0)
            out[ask, k, m] = np.where(inside, 0.0, hits.distance)
    return out
