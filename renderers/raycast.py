"""The one ray caster: first hits and all hits of rays on a triangle mesh, by Embree in robust mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.renderers._embreex import build_scene, require_embreex
from spatialbench.renderers._threads import in_chunks, thread_count
from spatialbench.types import AllHits, FirstHits

__all__ = ["MAX_LAYERS", "MeshRayCaster", "RawHits"]

MAX_LAYERS = 64
"""Default bound on the casts, and so the separate layers, of one ray of ``all_hits``."""

_CHUNK = 1 << 17
_STEP = 2.0**-20
"""Step past a hit, relative to the largest coordinate in play: 8 spacings of float32 there."""
_GRAZING = 1e-3
"""Below this cosine the float32 distance is kept: the plane's own rounding dominates."""


@dataclass(frozen=True, eq=False)
class RawHits:
    """First hits with the place on the face, for shading.

    Attributes
    ----------
    distance : [R] float64 along the unit direction; inf where nothing is hit.
    face : [R] int32, -1 where nothing is hit.
    u, v : [R] float32; the point is ``(1-u-v) a + u b + v c`` of the face's corners a, b, c.
    """

    distance: NDArray[np.float64]
    face: NDArray[np.int32]
    u: NDArray[np.float32]
    v: NDArray[np.float32]


class MeshRayCaster:
    """Casts rays at one mesh; implements ``spatialbench.types.RayCaster``.

    Embree computes in float32. The mesh is therefore centred in float64 first, rays that start outside
    its bounding sphere are moved to it, and each distance is recomputed from the hit face's float64
    plane, unless the ray grazes it. Both sides of a face are hit. Faces without area are never hit.

    Parameters
    ----------
    vertices : [V,3] float64, finite, any frame and unit.
    faces : [F,3] int32 into ``vertices``; F may be 0.
    threads : threads of one call, None for ``SPATIALBENCH_THREADS`` or all CPUs. Never changes a result.

    Raises
    ------
    BackendUnavailableError : embreex cannot be imported.
    ValueError : shapes, indices or values that are no mesh.
    """

    sided = True
    """Its hits have normals."""

    def __init__(self, vertices: ArrayLike, faces: ArrayLike, threads: int | None = None) -> None:
        require_embreex()
        v = np.ascontiguousarray(vertices, dtype=np.float64)
        f = np.ascontiguousarray(faces, dtype=np.int32)
        if v.ndim != 2 or v.shape[1] != 3 or f.ndim != 2 or f.shape[1] != 3:
            raise ValueError(f"vertices must be [V,3] and faces [F,3], got {v.shape} and {f.shape}")
        if len(f) and (f.min() < 0 or f.max() >= len(v)):
            raise ValueError(f"faces refer to vertices {f.min()} to {f.max()}, there are {len(v)}")
        used = v[f].reshape(-1, 3)
        if not np.isfinite(used).all():
            raise ValueError("vertices that faces refer to must be finite")
        self._threads = thread_count() if threads is None else max(1, int(threads))
        self.center = (used.min(axis=0) + used.max(axis=0)) / 2 if len(f) else np.zeros(3)
        """[3] float64 point that is subtracted before float32."""
        corners = (used - self.center).reshape(-1, 3, 3)
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        length = np.linalg.norm(normal, axis=1, keepdims=True)
        self.normals = np.divide(normal, length, out=np.zeros_like(normal), where=length > 0)
        """[F,3] float64 unit normals by winding; zero for faces without area."""
        self.extent = float(np.abs(corners).max(initial=0.0))
        """Largest coordinate of the centred mesh."""
        self.radius = float(np.linalg.norm(corners.reshape(-1, 3), axis=1).max(initial=0.0)) * (1 + 1e-6)
        """Of a sphere around ``center`` that holds the mesh."""
        self._corners = corners
        self._twins: _Twins | None = None
        self.scene: Any = None
        """embreex's scene of the centred mesh, or None for a mesh without faces."""
        if len(f):
            local = np.where(np.isin(np.arange(len(v)), f)[:, None], v - self.center, 0.0)
            self.scene = build_scene(local.astype(np.float32), f)

    def planes(self) -> NDArray[np.float64]:
        """[F,4] float64: each face's unit normal n and offset n . p for its points p, centred frame."""
        offset = np.einsum("ij,ij->i", self.normals, self._corners[:, 0])
        return np.ascontiguousarray(np.column_stack([self.normals, offset]))

    def first_hits(self, origins: ArrayLike, directions: ArrayLike) -> FirstHits:
        """First hit of each ray.

        Parameters
        ----------
        origins, directions : [R,3] or [3] (then one for all), the mesh's frame; directions need not be unit.
        """
        o, d = _rays(origins, directions)
        distance, face, _, _ = self._first(o, d)
        normal = np.zeros((len(o), 3))
        hit = face >= 0
        normal[hit] = self.normals[face[hit]]
        return FirstHits(distance, face, normal)

    def first_hits_raw(self, origins: ArrayLike, directions: ArrayLike) -> RawHits:
        """First hit of each ray with barycentric coordinates; arguments as for ``first_hits``."""
        return RawHits(*self._first(*_rays(origins, directions)))

    def all_hits(self, origins: ArrayLike, directions: ArrayLike, max_layers: int = MAX_LAYERS) -> AllHits:
        """Every hit of each ray, by ray and then by distance.

        After a hit the ray goes on from ``2^-20`` of the largest coordinate in play behind it (1e-5 m in a
        room of 10 m); layers closer together than this count once, except faces with the very same three
        corners, which are all reported. A ray casts at most ``max_layers`` times.
        """
        o, d = _rays(origins, directions)
        if self.scene is None:
            return AllHits(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int32))
        twins = self._twins = self._twins or _Twins(self._corners)
        live = np.arange(len(o))
        travelled = np.zeros(len(o))
        last = np.full(len(o), -1, np.int64)
        step_scale = np.ones(len(o))
        rays: list[NDArray[np.int64]] = []
        distances: list[NDArray[np.float64]] = []
        faces: list[NDArray[np.int32]] = []
        for _ in range(max_layers):
            if not len(live):
                break
            start = o[live] + travelled[live, None] * d[live]
            t, face, _, _ = self._first(start, d[live])
            hit = face >= 0
            live, t, face, start = live[hit], t[hit], face[hit], start[hit]
            total = travelled[live] + t
            # A face is convex and is left behind by the step; meeting it again is rounding, not a layer.
            again = twins.group[face] == last[live]
            rays.append(live[~again])
            distances.append(total[~again])
            faces.append(face[~again])
            step_scale[live] = np.where(again, step_scale[live] * 2, 1.0)
            largest = np.maximum(self.extent, np.abs(start - self.center).max(axis=1, initial=0.0))
            travelled[live] = total + _STEP * step_scale[live] * np.maximum(largest, 1e-30)
            last[live] = twins.group[face]
        if not rays:
            return AllHits(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int32))
        return twins.expand(np.concatenate(rays), np.concatenate(distances), np.concatenate(faces))

    def _first(self, o: NDArray[np.float64], d: NDArray[np.float64]) -> tuple[
            NDArray[np.float64], NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        n = len(o)
        if self.scene is None or n == 0:
            return (np.full(n, np.inf), np.full(n, -1, np.int32), np.zeros(n, np.float32),
                    np.zeros(n, np.float32))
        parts = in_chunks(lambda a, b: self._cast(o[a:b], d[a:b]), n, _CHUNK, self._threads)
        t, face, u, v = (np.concatenate(p) for p in zip(*parts, strict=True))
        return t, face, u, v

    def _cast(self, o: NDArray[np.float64], d: NDArray[np.float64]) -> tuple[
            NDArray[np.float64], NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        local = o - self.center
        # Far origins lose their low bits in float32; the bounding sphere is as near as a hit can be.
        ahead = np.maximum(0.0, np.linalg.norm(local, axis=1) - self.radius)
        ahead = np.where(np.einsum("ij,ij->i", local, d) < 0, ahead, 0.0)
        local = local + ahead[:, None] * d
        raw = self.scene.run(local.astype(np.float32), d.astype(np.float32), output=1)
        face = raw["primID"].astype(np.int32, copy=False)
        t = np.full(len(o), np.inf)
        hit = face >= 0
        k = face[hit]
        t32 = raw["tfar"][hit].astype(np.float64)
        along = np.einsum("ij,ij->i", self.normals[k], d[hit])
        sure = np.abs(along) > _GRAZING
        gap = np.einsum("ij,ij->i", self.normals[k], self._corners[k, 0] - local[hit])
        exact = np.divide(gap, along, out=t32.copy(), where=sure)
        t[hit] = np.maximum(exact, 0.0) + ahead[hit]
        return t, face, raw["u"], raw["v"]


class _Twins:
    """Faces with the very same three corners, which one ray meets at one distance."""

    def __init__(self, corners: NDArray[np.float64]) -> None:
        points = _ids_of_rows(corners.reshape(-1, 3) + 0.0).reshape(-1, 3)  # + 0.0 makes -0.0 equal to 0.0
        self.group = _ids_of_rows(np.sort(points, axis=1))
        self.count = np.bincount(self.group)
        self.members = np.argsort(self.group, kind="stable").astype(np.int32)
        self.start = np.cumsum(self.count) - self.count

    def expand(self, ray: NDArray[np.int64], distance: NDArray[np.float64],
               face: NDArray[np.int32]) -> AllHits:
        """One hit for each ray and face, repeated for its twins; sorted by ray, distance, face."""
        order = np.lexsort((distance, ray))
        ray, distance, group = ray[order], distance[order], self.group[face[order]]
        # A ray meets a flat face once; a second meeting is rounding at an edge.
        _, first = np.unique(ray * len(self.count) + group, return_index=True)
        ray, distance, group = ray[first], distance[first], group[first]
        times = self.count[group]
        at = np.repeat(np.arange(len(ray)), times)
        nth = np.arange(len(at)) - np.repeat(np.cumsum(times) - times, times)
        ray, distance = ray[at], distance[at]
        face = self.members[self.start[group[at]] + nth]
        order = np.lexsort((face, distance, ray))
        return AllHits(ray[order], distance[order], face[order])


def _ids_of_rows(rows: NDArray) -> NDArray[np.int64]:
    """[N] small integers, equal where rows [N,3] are equal."""
    order = np.lexsort(rows.T)
    new = np.ones(len(rows), np.int64)
    new[1:] = (np.diff(rows[order], axis=0) != 0).any(axis=1)
    ids = np.empty(len(rows), np.int64)
    ids[order] = np.cumsum(new) - 1
    return ids


def _rays(origins: ArrayLike, directions: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as [R,3] float64, directions unit."""
    o = np.asarray(origins, dtype=np.float64)
    d = np.asarray(directions, dtype=np.float64)
    if o.shape[-1:] != (3,) or d.shape[-1:] != (3,) or o.ndim > 2 or d.ndim > 2:
        raise ValueError(f"origins and directions must be [R,3] or [3], got {o.shape} and {d.shape}")
    o, d = np.broadcast_arrays(np.atleast_2d(o), np.atleast_2d(d))
    length = np.linalg.norm(d, axis=1, keepdims=True)
    bad = ~(np.isfinite(o).all(axis=1) & np.isfinite(length[:, 0]) & (length[:, 0] > 0))
    if bad.any():
        raise ValueError(f"ray {int(np.argmax(bad))} is not finite or has no direction")
    return np.ascontiguousarray(o), d / length
