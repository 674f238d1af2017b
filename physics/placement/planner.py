"""Where the plates go: six separated places that fit on a support (OPEN-11b), and running them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import SimulationError, UsageError
from spatialbench.physics.placement.heights import REFERENCES, missing_below, reference_heights
from spatialbench.physics.placement.objects import bottom, height, plan_radius
from spatialbench.physics.placement.outline import Boundary
from spatialbench.physics.placement.release import Release, release_over
from spatialbench.physics.placement.simulate import CROP_MARGIN, Progress, run_trials
from spatialbench.types.placement import PlacedObject, PlacementSettings, PlannedTrial, Support, TrialResult
from spatialbench.types.rays import RayCaster

__all__ = ["eroded_candidates", "farthest_points", "plan_trials", "run_plan"]

_ROUND = 1e-9
"""Distances that differ by less are ties: they must not be decided by rounding."""


def plan_trials(support: Support, raycaster: RayCaster, settings: PlacementSettings,
                placed: PlacedObject | None = None) -> list[PlannedTrial]:
    """At most ``settings.trials`` places for the plate on a support, without any randomness.

    1. Candidates: the support's cells (or, without them, a grid of ``plan_grid`` fixed to the world's
       origin) at least a plate's radius inside the outline and off its holes.
    2. The first place is the candidate nearest the candidates' centroid, each further one the candidate
       farthest from all places so far, until none is a plate's diameter away; ties go to the smaller x,
       then the smaller y.
    3. A place with no surface (within 0.08 m of the support's plane) under its centre or one of eight rim
       points is kept in the list, marked as not kept, and not replaced.

    Fewer places than asked for, or none, where no more fit: the score's denominator is what is kept. For another body
    than the plate the smallest upright cylinder around it stands for the plate.

    Raises
    ------
    UsageError : the support's outline encloses nothing.
    """
    if placed is not None:
        settings = settings.model_copy(update={"plate_diameter": 2 * plan_radius(placed),
                                               "plate_thickness": height(placed)})
    candidates = eroded_candidates(support, settings.plate_diameter / 2, settings.plan_grid)
    places = candidates[farthest_points(candidates, settings.trials, settings.plate_diameter)]
    out = []
    for i, (x, y) in enumerate(places.tolist()):
        surface = reference_heights(x, y, support.plane, settings, raycaster)
        missing = missing_below(x, y, support.plane, settings, raycaster)
        reason = ""
        if len(surface) < len(REFERENCES):
            reason = "no surface under the plate"
        elif missing:
            reason = f"nothing under {missing} of the centre and 8 rim points"
        out.append(PlannedTrial(i, x, y, surface, kept=not reason, reason=reason))
    return out


def eroded_candidates(support: Support, radius: float, grid: float) -> NDArray[np.float64]:
    """[N,2] centres whose whole disc of ``radius`` is inside the outline, by x, then y.

    They are the support's cells, or a grid of spacing ``grid`` where it has none.
    """
    import shapely

    edge = Boundary.of(support)
    shape = edge.polygon()
    if len(support.cells):
        xy = np.asarray(support.cells[:, :2], dtype=np.float64)
    else:
        x0, y0, x1, y1 = edge.bounds()
        xs = np.arange(np.floor(x0 / grid), np.ceil(x1 / grid)) * grid + grid / 2
        ys = np.arange(np.floor(y0 / grid), np.ceil(y1 / grid)) * grid + grid / 2
        xy = np.stack(np.meshgrid(xs, ys, indexing="ij"), axis=-1).reshape(-1, 2)
    points = shapely.points(xy)
    rim = shape.boundary
    shapely.prepare(rim)
    inside = shapely.contains(shape, points) & ~shapely.dwithin(
        rim, points, radius - _ROUND)
    xy = xy[inside]
    return xy[np.lexsort((xy[:, 1], xy[:, 0]))]


def farthest_points(points: NDArray[np.float64], count: int, spacing: float) -> NDArray[np.int64]:
    """Indices of at most ``count`` of the points [N,2], ``spacing`` apart or more (``plan_trials``, rule 2)."""
    if len(points) == 0:
        return np.zeros(0, np.int64)
    chosen = [int(np.argmin(_rounded(points - points.mean(axis=0))))]
    nearest = _rounded(points - points[chosen[0]])
    while len(chosen) < count:
        i = int(np.argmax(nearest))
        if nearest[i] < spacing - _ROUND:
            break
        chosen.append(i)
        nearest = np.minimum(nearest, _rounded(points - points[i]))
    return np.array(chosen, np.int64)


def _rounded(d: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.round(np.sqrt((d * d).sum(axis=1)) / _ROUND) * _ROUND


def run_plan(vertices: ArrayLike, faces: ArrayLike, support: Support, planned: Sequence[PlannedTrial],
             settings: PlacementSettings, references: Sequence[str] = REFERENCES, *,
             placed: PlacedObject | None = None, raycaster: RayCaster | None = None, progress: Progress | None = None,
             crop_margin: float | None = CROP_MARGIN, workers: int = 0,
             record: int = 0) -> dict[str, list[TrialResult]]:
    """Results of the kept places by reference height, in the plan's order; one scene for all.

    Where two references give the same height to the last bit, one simulation answers both. Parameters and
    errors as for ``run_trials``. The body is level or aligned with the support by ``settings.release``.

    Raises
    ------
    SimulationError : beside what ``run_trials`` raises, when PyBullet crashed in a trial or lost the body: a share of
        trials without it would not be this world's.
    """
    unknown = sorted(set(references) - set(REFERENCES))
    if unknown:
        raise UsageError(f"no reference height '{unknown[0]}'", where="placement.reference",
                         todo=f"Use one of {', '.join(REFERENCES)}")
    kept = [t for t in planned if t.kept]
    # Bit-equal heights give equal releases, and equal releases equal results: simulate each once.
    unique: dict[tuple[int, float], Release] = {}
    below = None if placed is None else bottom(placed)
    for t in kept:
        for name in references:
            key = (t.id, t.surface[name])
            if key not in unique:
                unique[key] = release_over(t.id, t.x, t.y, t.surface[name], support.plane, settings, name,
                                           below)
    done = dict(zip(unique, run_trials(vertices, faces, list(unique.values()), support, settings, placed=placed,
                                       raycaster=raycaster, progress=progress, crop_margin=crop_margin,
                                       workers=workers, record=record), strict=True))
    for r in done.values():
        if r.error:
            raise SimulationError(r.error, where=f"placement, trial {r.id}",
                                  todo="Look for degenerate faces near the support")
    return {name: [replace(done[t.id, t.surface[name]], reference=name) for t in kept]
            for name in references}
