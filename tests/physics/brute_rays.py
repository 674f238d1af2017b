"""A ray caster that tries every triangle (Moeller and Trumbore 1997), to check the engine's by."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types import AllHits, FirstHits

_EDGE = 1e-12


class BruteRayCaster:
    """Implements ``spatialbench.types.RayCaster`` in float64; both sides of a face and its edges are hit."""

    def __init__(self, vertices: ArrayLike, faces: ArrayLike) -> None:
        t = np.asarray(vertices, float)[np.asarray(faces)]
        self.a, self.e1, self.e2 = t[:, 0], t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]
        n = np.cross(self.e1, self.e2)
        self.normal = n / np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-300)

    def _distances(self, o: NDArray[np.float64], d: NDArray[np.float64]) -> NDArray[np.float64]:
        """[R,F] distance, inf for none."""
        p = np.cross(d[:, None], self.e2[None])
        det = (p * self.e1).sum(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            s = o[:, None] - self.a
            u = (p * s).sum(-1) / det
            q = np.cross(s, self.e1)
            v = (q * d[:, None]).sum(-1) / det
            t = (q * self.e2).sum(-1) / det
            total = u + v
        ok = (np.abs(det) > 1e-15) & (u >= -_EDGE) & (v >= -_EDGE) & (total <= 1 + _EDGE) & (t > 0)
        return np.where(ok, t, np.inf)

    def _chunks(self, origins: ArrayLike, directions: ArrayLike):
        o, d = np.asarray(origins, float), np.asarray(directions, float)
        d = d / np.linalg.norm(d, axis=1, keepdims=True)
        size = max(1, 400_000 // max(1, len(self.a)))
        for a in range(0, len(o), size):
            yield a, self._distances(o[a:a + size], d[a:a + size])

    def first_hits(self, origins: ArrayLike, directions: ArrayLike) -> FirstHits:
        n = len(np.asarray(origins))
        distance, face = np.full(n, np.inf), np.full(n, -1, np.int32)
        for a, t in self._chunks(origins, directions):
            k = t.argmin(axis=1)
            best = t[np.arange(len(t)), k]
            distance[a:a + len(t)] = best
            face[a:a + len(t)] = np.where(np.isfinite(best), k, -1)
        normal = np.where((face >= 0)[:, None], self.normal[np.maximum(face, 0)], 0.0)
        return FirstHits(distance, face, normal)

    def all_hits(self, origins: ArrayLike, directions: ArrayLike) -> AllHits:
        rays, distances, faces = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0, np.int32)]
        for a, t in self._chunks(origins, directions):
            r, f = np.nonzero(np.isfinite(t))
            order = np.lexsort((f, t[r, f], r))
            rays.append(r[order] + a)
            distances.append(t[r, f][order])
            faces.append(f[order].astype(np.int32))
        return AllHits(np.concatenate(rays), np.concatenate(distances), np.concatenate(faces))
