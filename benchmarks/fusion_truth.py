"""Surfaces that are known, and how far a mesh is from them.

All are rectangles along the axes, so that distances are closed-form.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers.raycast import MeshRayCaster
from spatialbench.types import TriangleMesh

__all__ = ["CEILING", "FLOOR", "NEAR", "TrueError", "Truth", "true_error"]

F64 = NDArray[np.float64]
FLOOR = -1.5
CEILING = 1.2
NEAR = 0.1
"""Within it, two voxels, a surface counts as found, m."""
_POINTS = 10_000
_PLACES = 40
_MESH_POINTS = 100_000


@dataclass
class Truth:
    """Rectangles along the axes: corner [R,3], sides [R,3] (0 across), unit normal [R,3] into the open, glass [R]."""

    low: list[F64] = field(default_factory=list)
    high: list[F64] = field(default_factory=list)
    normal: list[F64] = field(default_factory=list)
    glass: list[bool] = field(default_factory=list)

    def box(self, low: F64, high: F64, inward: bool = False, glass: bool = False) -> None:
        """Its six sides, but for those that stand on the floor or reach the ceiling."""
        for axis in range(3):
            for end in (0, 1):
                at = (low, high)[end][axis]
                if not inward and axis == 2 and (at <= FLOOR or at >= CEILING):
                    continue
                a, b = low.copy(), high.copy()
                a[axis] = b[axis] = at
                normal = np.zeros(3)
                normal[axis] = (1.0 if end else -1.0) * (-1.0 if inward else 1.0)
                self.low.append(a)
                self.high.append(b)
                self.normal.append(normal)
                self.glass.append(glass)

    def solid(self) -> Truth:
        """Without the glass."""
        return self._of([i for i, g in enumerate(self.glass) if not g])

    def panes(self) -> Truth:
        """The glass alone."""
        return self._of([i for i, g in enumerate(self.glass) if g])

    def _of(self, keep: list[int]) -> Truth:
        return Truth([self.low[i] for i in keep], [self.high[i] for i in keep], [self.normal[i] for i in keep],
                     [self.glass[i] for i in keep])

    @property
    def areas(self) -> F64:
        """[R] m2."""
        side = np.array(self.high) - np.array(self.low)
        return np.stack([np.prod(np.delete(s, np.abs(n).argmax())) for s, n in zip(side, self.normal, strict=True)])

    def sample(self, n: int, rng: np.random.Generator) -> tuple[F64, NDArray[np.int64]]:
        """[N,3] points, uniform by area, and the rectangle [N] of each."""
        areas = self.areas
        which = rng.choice(len(areas), n, p=areas / areas.sum())
        low, high = np.array(self.low)[which], np.array(self.high)[which]
        return low + rng.random((n, 3)) * (high - low), which

    def cover(self, n: int, rng: np.random.Generator) -> tuple[F64, NDArray[np.int64]]:
        """As ``sample``, without its gaps: a sequence of even spread on each rectangle, as training covers surfaces."""
        areas = self.areas
        counts = np.floor(n * areas / areas.sum() + rng.random(len(areas))).astype(np.int64)
        which = np.repeat(np.arange(len(areas)), counts)
        along = np.concatenate([np.arange(c) for c in counts])
        # Roberts' sequences: multiples of powers of the plastic numbers of two dimensions, shifted at random.
        step = 1.32471795724474602596 ** -np.array([1.0, 2.0])
        uv = (along[:, None] * step + rng.random((len(areas), 2))[which]) % 1.0
        low, high = np.array(self.low), np.array(self.high)
        across = np.abs(np.array(self.normal)).argmax(axis=1)
        at = np.zeros((len(which), 3))
        for k in (1, 2):
            at[np.arange(len(which)), (across[which] + k) % 3] = uv[:, k - 1]
        return low[which] + at * (high - low)[which], which

    def distance(self, points: F64) -> F64:
        """[P] of each point to the nearest rectangle, m."""
        best = np.full(len(points), np.inf)
        for low, high in zip(self.low, self.high, strict=True):
            best = np.minimum(best, ((points - points.clip(low, high)) ** 2).sum(axis=1))
        return np.sqrt(best)

    def mesh(self) -> TriangleMesh:
        """Two faces for each rectangle, seen from the open."""
        corners: list[F64] = []
        faces: list[tuple[int, int, int]] = []
        for low, high, normal in zip(self.low, self.high, self.normal, strict=True):
            axis = int(np.abs(normal).argmax())
            u = (axis + 1) % 3
            ring = np.stack([low, low, high, high])
            ring[1, u], ring[3, u] = high[u], low[u]
            turn = [0, 1, 2, 3] if normal[axis] > 0 else [0, 3, 2, 1]
            n = 4 * len(corners)
            corners.append(ring[turn])
            faces += [(n, n + 1, n + 2), (n, n + 2, n + 3)]
        return TriangleMesh(np.concatenate(corners), np.array(faces, np.int32))


@dataclass(frozen=True)
class TrueError:
    """Of a mesh against the truth without its glass.

    Attributes
    ----------
    median, p95 : distance of the mesh's surface from the truth, m.
    missing : share of the true area, as far as it can be seen from the open, with no mesh within ``NEAR``.
    false : share of the mesh's area farther than ``NEAR`` from the truth.
    glass : share of the panes' area with a mesh within ``NEAR``; None without panes.
    """

    median: float
    p95: float
    missing: float
    false: float
    glass: float | None


def true_error(truth: Truth, mesh: TriangleMesh) -> TrueError:
    """By 10,000 points on either side, uniform by area; a fixed seed."""
    from scipy.spatial import cKDTree

    rng = np.random.default_rng(1)
    solid, panes = truth.solid(), truth.panes()
    off = solid.distance(_on_mesh(mesh, _POINTS, rng))
    # The mesh as points some 3 cm apart in a room: what counts is 10 cm.
    tree = cKDTree(_on_mesh(mesh, _MESH_POINTS, rng))
    points, which = solid.sample(_POINTS, rng)
    points = points[_in_sight(solid, points, np.array(solid.normal)[which], rng)]

    def found(of: F64) -> float:
        return float(np.mean(np.asarray(tree.query(of)[0]) <= NEAR))

    return TrueError(float(np.median(off)), float(np.percentile(off, 95)),
                     1.0 - found(points), float((off > NEAR).mean()),
                     found(panes.sample(2000, rng)[0]) if panes.low else None)


def _on_mesh(mesh: TriangleMesh, n: int, rng: np.random.Generator) -> F64:
    """[N,3] uniform by area."""
    area = np.linalg.norm(mesh.area_vectors(), axis=1)
    face = rng.choice(len(area), n, p=area / area.sum())
    a, b = np.sqrt(rng.random(n)), rng.random(n)
    return np.asarray(np.einsum("ni,nij->nj", np.stack([1 - a, a * (1 - b), a * b], axis=1), mesh.triangles[face]))


def _in_sight(solid: Truth, points: F64, normals: F64, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Points [P,3] that are seen from their front from one of 40 places in the open."""
    mesh = solid.mesh()
    caster = MeshRayCaster(mesh.vertices, mesh.faces)
    low, high = np.array(solid.low).min(axis=0) + 0.1, np.array(solid.high).max(axis=0) - 0.1
    seen = np.zeros(len(points), np.bool_)
    places = 0
    while places < _PLACES:
        place = low + rng.random(3) * (high - low)
        rays = points - place
        hits = caster.first_hits(place, rays)
        if (np.einsum("ij,ij->i", hits.normal, rays)[hits.hit] > 0).mean() > 0.01:  # inside furniture
            continue
        places += 1
        there = np.abs(hits.distance - np.linalg.norm(rays, axis=1)) < 1e-4
        seen |= there & (np.einsum("ij,ij->i", normals, rays) < 0)
    return seen
