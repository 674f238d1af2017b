"""Looks for a room under one up axis: floors, places to stand on them, and how enclosed each is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types.protocol_rules import CameraFinding
from spatialbench.world.decide import default_forward, level_rotation
from spatialbench.world.surfels import Surfels, weighted_quantile

__all__ = ["InteriorAnalysis", "StandingPlace", "analyse_interior", "look_directions"]

# Constants of real-worlds.md section 5 that no protocol key names.
_MARGIN = 0.3  # m around the bulk of the surfels
_TRIM = 0.002  # share of the area beyond each side that may lie outside the grid
_SOLID_SHARE = 0.15  # of a voxel's face area, from which on the voxel is solid
_MOSTLY_UP = 0.8  # cosine
_FLOORS = 6  # largest components that are looked at
_MIN_FLOOR = 0.3  # m2
_BLOCKED = (0.3, 1.8)  # m above the floor that must be free to stand there
_MIN_CLEARANCE = 0.2  # m
_PLACES = 600  # looked at for one floor
_CLEARANCE_STEP = 0.2  # m, so that ties go to the middle
_NEAR_FLOOR = 0.5  # m
_CUE_BAND = (0.25, 1.3)  # m
_CUE_RADIUS = 5.0  # m
_CUE_RANGE = (0.25, 0.75)
_CUE_PRIOR = 0.2  # m2
_BOUNDS_SAMPLE = 100_000  # quantiles of so many are within 0.03 % of the area


@dataclass(frozen=True, eq=False)
class StandingPlace:
    """The best place to stand on one floor component.

    Attributes
    ----------
    position : [3] eye, source axes, metres.
    floor : height of the floor along the up axis, source axes, metres.
    area : plan area of the floor component, m2.
    enclosure : share of 50 directions that hit something within reach (``e``).
    clearance : distance to the nearest blocked plan cell, m.
    ceiling : distance from the eye straight up to something, m; None when there is nothing.
    """

    position: NDArray[np.float64]
    floor: float
    area: float
    enclosure: float
    clearance: float
    ceiling: float | None


@dataclass(frozen=True, eq=False)
class InteriorAnalysis:
    """What was found under one up axis.

    Attributes
    ----------
    up : [3] unit, source frame.
    evidence : E of real-worlds.md section 5b; 0 without a floor.
    cue : clamped table cue that E contains.
    voxel : edge length, m.
    height : extent of the bulk of the surface along the up axis, m.
    places : one for each floor component, best (largest area x e^2) first.
    """

    up: NDArray[np.float64]
    evidence: float = 0.0
    cue: float = _CUE_RANGE[0]
    voxel: float = 0.0
    height: float = 0.0
    places: tuple[StandingPlace, ...] = field(default_factory=tuple)

    @property
    def enclosure(self) -> float:
        """e of the best place; 0 without one."""
        return self.places[0].enclosure if self.places else 0.0


def look_directions() -> NDArray[np.float64]:
    """The 50 unit directions [50,3] of the enclosure: 16 level, 16 up, 16 down by 0.35 rad, up, down."""
    turn = np.arange(16) * (math.pi / 8)
    rows = [np.stack([np.sin(turn) * math.cos(e), np.cos(turn) * math.cos(e), np.full(16, math.sin(e))], axis=1)
            for e in (0.0, 0.35, -0.35)]
    return np.concatenate([*rows, [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]])


def analyse_interior(surfels: Surfels, up: ArrayLike, finding: CameraFinding) -> InteriorAnalysis:
    """Floors, standing places and evidence for one up axis (real-worlds.md section 5b, 5c).

    Parameters
    ----------
    surfels : source axes, metres.
    up : [3] unit, source frame.
    """
    from spatialbench.world import _kernels as kernels

    axis = np.asarray(up, dtype=np.float64)
    if not len(surfels):
        return InteriorAnalysis(axis)
    rotation = level_rotation(axis, default_forward(axis))
    thin = surfels.thinned(_BOUNDS_SAMPLE)
    level = thin.points @ rotation.T
    bounds = np.stack([weighted_quantile(level[:, a], thin.areas, _TRIM, 1 - _TRIM) for a in range(3)], axis=1)
    height = float(bounds[1, 2] - bounds[0, 2])
    low, size = bounds[0] - _MARGIN, bounds[1] - bounds[0] + 2 * _MARGIN
    voxel = float(max(finding.voxel, (np.prod(size) / finding.max_voxels) ** (1 / 3)))
    while np.prod(np.ceil(size / voxel)) > 2 * finding.max_voxels:
        voxel *= 2.0  # a world flatter than a voxel: its single layer counts in full
    shape = tuple(int(x) for x in np.ceil(size / voxel))
    occupied, horizontal = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    normals = surfels.normals if surfels.signed else _turned_up(surfels.normals, axis)
    kernels.fill_voxels(surfels.points, normals, surfels.areas, rotation, low, voxel, occupied, horizontal,
                         _MOSTLY_UP)
    solid = np.zeros(shape, np.uint8)
    start, ks = kernels.floor_columns(occupied, horizontal, _SOLID_SHARE * voxel * voxel,
                                      math.ceil(finding.agent_height / voxel), solid)
    del occupied, horizontal
    label = kernels.component_labels(start, ks, shape[0], shape[1])
    column = np.repeat(np.arange(shape[0] * shape[1]), np.diff(start))
    grid = _Grid(solid, rotation, low, voxel, finding)
    places = []
    count = np.bincount(label, minlength=1)
    for c in np.argsort(-count, kind="stable")[:_FLOORS]:
        if count[c] * voxel * voxel < _MIN_FLOOR:
            break
        mine = label == c
        place = _stand(grid, column[mine] // shape[1], column[mine] % shape[1], ks[mine], surfels.points,
                       normals, surfels.areas)
        if place is not None:
            places.append(place)
    if not places:
        return InteriorAnalysis(axis, voxel=voxel, height=height)
    places.sort(key=lambda p: -p.area * p.enclosure**2)
    top = float(weighted_quantile(level[:, 2], thin.areas, 0.99)[0])
    cue = _table_cue(places[0], surfels, rotation, top, finding.eye_height)
    evidence = sum(p.area * p.enclosure**2 for p in places) * cue
    return InteriorAnalysis(axis, float(evidence), cue, voxel, height, tuple(places))


@dataclass(frozen=True, eq=False)
class _Grid:
    solid: NDArray[np.uint8]
    rotation: NDArray[np.float64]
    low: NDArray[np.float64]
    voxel: float
    finding: CameraFinding


def _stand(grid: _Grid, i: NDArray[np.int64], j: NDArray[np.int64], k: NDArray[np.int32],
           points: NDArray[np.float64], normals: NDArray[np.float64], areas: NDArray[np.float64]
           ) -> StandingPlace | None:
    """Best place on the floor component of the voxels (i, j, k), or None when nobody fits on it."""
    from scipy import ndimage

    from spatialbench.world import _kernels as kernels

    v, finding, solid = grid.voxel, grid.finding, grid.solid
    i0, j0 = int(i.min()), int(j.min())
    top = np.full((int(i.max()) - i0 + 1, int(j.max()) - j0 + 1), -1)
    np.maximum.at(top, (i - i0, j - j0), k)
    on_floor = top >= 0
    free = on_floor & ~_blocked(solid[i0:i0 + top.shape[0], j0:j0 + top.shape[1]], top, v)
    clearance = ndimage.distance_transform_edt(np.pad(free, 1))[1:-1, 1:-1] * v
    cells = np.argwhere(on_floor & (clearance > _MIN_CLEARANCE))
    if not len(cells):
        cells = np.argwhere(free)
    if not len(cells):
        return None
    if len(cells) > _PLACES:
        chosen = np.random.default_rng(finding.seed).permutation(len(cells))[:_PLACES]
        cells = cells[np.sort(chosen)]
    eye_up = round(finding.eye_height / v)
    at = top[cells[:, 0], cells[:, 1]]
    eyes = np.column_stack([cells[:, 0] + i0, cells[:, 1] + j0, at + eye_up]).astype(np.float64)
    steps = kernels.enclosure(solid, eyes, look_directions(), int(finding.reach / v))
    e = (steps > 0).mean(axis=1)
    clear = clearance[cells[:, 0], cells[:, 1]]
    middle = np.array([np.median(i), np.median(j)])
    off_middle = np.hypot(eyes[:, 0] - middle[0], eyes[:, 1] - middle[1]) * v
    rank = np.minimum(np.floor(clear / _CLEARANCE_STEP) * _CLEARANCE_STEP, finding.clearance_cap)
    rank = np.where(e >= finding.enclosure_keep * e.max(), rank, -1.0) - 1e-3 * off_middle
    best = int(np.argmax(rank))
    position = (eyes[best] + 0.5) * v + grid.low
    floor = float((at[best] + 0.5) * v + grid.low[2])
    near = kernels.horizontal_near(points, normals, grid.rotation, np.array([*position[:2], floor]), _NEAR_FLOOR,
                                   1.5 * v, _MOSTLY_UP)
    if len(near):
        floor = float(weighted_quantile(points[near] @ grid.rotation[2], areas[near], 0.5)[0])
    position[2] = floor + finding.eye_height
    above = int(steps[best, -2])
    return StandingPlace(grid.rotation.T @ position, floor, int(on_floor.sum()) * v * v, float(e[best]),
                         float(clear[best]), above * v if above else None)


def _blocked(solid: NDArray[np.uint8], top: NDArray[np.int64], voxel: float) -> NDArray[np.bool_]:
    """[NX,NY] whether something solid stands in a column at body height above its floor."""
    nz = solid.shape[2]
    first = np.clip(top + max(2, round(_BLOCKED[0] / voxel)), 0, nz)
    last = np.clip(top + round(_BLOCKED[1] / voxel) + 1, 0, nz)
    out = np.zeros(top.shape, dtype=bool)
    for step in range(int((last - first).max(initial=0))):
        k = first + step
        within = k < last
        here = np.take_along_axis(solid, np.minimum(k, nz - 1)[:, :, None], axis=2)[:, :, 0] > 0
        out |= within & here
    return out


def _table_cue(place: StandingPlace, surfels: Surfels, rotation: NDArray[np.float64], top: float, eye: float
               ) -> float:
    """Share of what lies flat at table height, against the mirrored band under the ceiling, clamped."""
    from spatialbench.world import _kernels as kernels

    ceiling = place.floor + eye + place.ceiling if place.ceiling is not None else max(place.floor + 2.4, top)
    low, high = kernels.band_areas(surfels.points, surfels.normals, surfels.areas, rotation,
                                   (rotation @ place.position)[:2], _CUE_RADIUS, place.floor, ceiling,
                                   *_CUE_BAND, 0.9)
    cue = (low + _CUE_PRIOR) / (low + high + 2 * _CUE_PRIOR)
    return float(np.clip(cue, *_CUE_RANGE))


def _turned_up(normals: NDArray[np.float64], up: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where((normals @ up < 0)[:, None], -normals, normals)
