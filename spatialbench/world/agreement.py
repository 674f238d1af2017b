"""Whether a world before and one after lie in one frame and scale: what both keep must lie in one place."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.sky import without_sky
from spatialbench.types import GaussianSplats, TriangleMesh, World
from spatialbench.types.protocol_rules import Agreement

__all__ = ["FrameAgreement", "frame_agreement"]

_BULK = (0.01, 0.99)
_OPAQUE = 0.5
_MAX_POINTS = 400_000
_MAX_ASKED = 20_000
_SEED = 0


@dataclass(frozen=True)
class FrameAgreement:
    """How well two worlds fit.

    Attributes
    ----------
    near : share of the surface before (opaque splats, or points spread evenly over the faces) within ``distance`` of
        the surface after; None when one of them has none.
    distance : m.
    floors : how far the floor lies below the initial camera, before and after, m; None where no ray meets one.
    size : diagonal of the bulk after over that before; None as ``near``.
    agree : by the protocol's thresholds.
    """

    near: float | None
    distance: float
    floors: tuple[float | None, float | None]
    size: float | None
    agree: bool

    def warning(self) -> str:
        """A sentence when they disagree; empty else."""
        if self.agree:
            return ""
        said = [] if self.near is None else [
            f"{self.near:.0%} of the surface before lies within {self.distance:.2f} m of the surface after"]
        floors = ["no floor" if f is None else f"{f:.2f} m" for f in self.floors]
        said.append(f"the floor below the camera is {floors[0]} down before and {floors[1]} after")
        said += [] if self.size is None else [f"the world after is {self.size:.2f} times as large"]
        return ("the worlds before and after do not seem to lie in one frame and scale, or nearly everything was "
                f"changed: {', '.join(said)}. Export both in one frame and unit")


def frame_agreement(before: World, after: World, rule: Agreement) -> FrameAgreement:
    """Compare two worlds that were put in one frame.

    They disagree when less than ``rule.min_near`` of the surface before is near the surface after, or when the floors
    below the initial camera, by the median of nine rays, differ by more than ``rule.floor``. The sky does not count.
    """
    from scipy.spatial import cKDTree

    floors = (_floor(before), _floor(after))
    level = floors[0] is None or floors[1] is None or abs(floors[0] - floors[1]) <= rule.floor
    old = _points(before.seen, rule.distance)
    new = _points(after.seen, rule.distance)
    if not (len(old) and len(new)):
        return FrameAgreement(None, rule.distance, floors, None, level)
    diagonals = [float(np.linalg.norm(np.subtract(*np.quantile(p, _BULK[::-1], axis=0)))) for p in (old, new)]
    distance = max(rule.distance, rule.distance_share * diagonals[0], _spacing(after.seen))
    asked = old[np.linspace(0, len(old) - 1, min(len(old), _MAX_ASKED)).astype(np.int64)]
    gap, _ = cKDTree(new).query(asked, distance_upper_bound=1.5 * distance)
    near = float(np.mean(gap <= distance))
    size = diagonals[1] / diagonals[0] if diagonals[0] > 0 else None
    return FrameAgreement(near, distance, floors, size, level and near >= rule.min_near)


def _floor(world: World) -> float | None:
    valid = [d for d in world.scale.ray_distances if d is not None]
    metres = float(np.cbrt(np.linalg.det(world.transform[:3, :3])))
    return statistics.median(valid) * metres if valid else None


def _points(seen: TriangleMesh | GaussianSplats, distance: float) -> NDArray[np.float64]:
    """[N,3] of the surface: four a ``distance`` squared, evenly by area with a fixed seed; or opaque centres."""
    seen = without_sky(seen)
    if isinstance(seen, GaussianSplats):
        opaque = seen.opacities >= _OPAQUE
        means = seen.means[opaque if opaque.any() else slice(None)].astype(np.float64)
        return np.asarray(means[np.isfinite(means).all(axis=1)])
    area = np.linalg.norm(seen.area_vectors(), axis=1)
    total = float(area.sum())
    if not total > 0:
        return np.zeros((0, 3))
    n = int(min(_MAX_POINTS, max(1000, np.ceil(4 * total / distance**2))))
    rng = np.random.default_rng(_SEED)
    face = np.searchsorted(np.cumsum(area) / total, rng.random(n)).clip(0, len(area) - 1)
    a, b = np.sqrt(rng.random(n)), rng.random(n)
    weight = np.stack([1 - a, a * (1 - b), a * b], axis=1)
    return np.asarray(np.einsum("ni,nij->nj", weight, seen.triangles[face]))


def _spacing(seen: TriangleMesh | GaussianSplats) -> float:
    """At which the most points of a surface are as dense as ``_points`` asks for."""
    seen = without_sky(seen)
    if isinstance(seen, GaussianSplats):
        return 0.0
    return float(np.sqrt(4 * np.linalg.norm(seen.area_vectors(), axis=1).sum() / _MAX_POINTS))
