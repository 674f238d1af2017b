"""The second renderer of meshes: ray casting by Embree, for whoever wants an independent opinion.

Images mean what they mean in ``raster``, and the two agree but for samples within a rounding of an edge
(Embree computes in float32). One ray for every sample: many times slower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers._pack import pack_mesh
from spatialbench.renderers._threads import in_chunks, thread_count
from spatialbench.renderers.raster import sample_rays
from spatialbench.renderers.raycast import MeshRayCaster
from spatialbench.types import Camera, RenderSettings, TriangleMesh

__all__ = ["EmbreeBackend"]

_ROWS = 64
"""Sample rows of one piece of work: about 100,000 rays at 1536 columns."""
_LAYERS = 64
"""Surfaces that one ray may pass through."""
_STEP = 2.0**-20

F32 = NDArray[np.float32]


class EmbreeBackend:
    """Draws one mesh by casting rays; see ``raster`` for what the images mean."""

    def __init__(self, mesh: TriangleMesh, settings: RenderSettings) -> None:
        self._mesh = pack_mesh(mesh, settings.shading)
        self._settings = settings
        self._caster = MeshRayCaster(mesh.vertices, mesh.faces, threads=1)
        self._threads = thread_count()

    def __call__(self, cameras: Sequence[Camera], want: Sequence[str]) -> tuple[
            F32 | None, F32 | None, F32 | None]:
        """Images of cameras of one size."""
        t, h, w = len(cameras), cameras[0].height, cameras[0].width
        rgb = depth = alpha = None
        if "rgb" in want:
            ss = self._settings.supersample
            samples = self._cast(cameras, ss)[0].reshape(t, h, ss, w, ss, 3)
            rgb = samples.mean(axis=(2, 4)).astype(np.float32)
        if "depth" in want or "alpha" in want:
            _, depth, alpha = self._cast(cameras, 1)
        return rgb, depth if "depth" in want else None, alpha if "alpha" in want else None

    def _cast(self, cameras: Sequence[Camera], ss: int) -> tuple[F32, F32, F32]:
        """Colour [T,h,w,3], depth and alpha [T,h,w] of every sample, ``ss`` a pixel side."""
        h, w = cameras[0].height * ss, cameras[0].width * ss
        rgb, depth, alpha = (np.zeros((len(cameras), h * w, *n), np.float32) for n in ((3,), (), ()))
        strips = -(-h // _ROWS)

        def draw(a: int, _: int) -> None:
            k, strip = divmod(a, strips)
            rows = slice(strip * _ROWS, min(h, (strip + 1) * _ROWS))
            span = slice(rows.start * w, rows.stop * w)
            rgb[k, span], depth[k, span], alpha[k, span] = self._strip(cameras[k], ss, rows)

        in_chunks(draw, len(cameras) * strips, 1, self._threads)
        shape = (len(cameras), h, w)
        return rgb.reshape(*shape, 3), depth.reshape(shape), alpha.reshape(shape)

    def _strip(self, camera: Camera, ss: int, rows: slice) -> tuple[F32, F32, F32]:
        from spatialbench.renderers import _kernels

        xs, ys = sample_rays(camera, ss)
        x, y = np.meshgrid(xs, ys[rows])
        ray = np.stack([x.ravel(), y.ravel(), np.ones(x.size)], axis=1)
        length = np.linalg.norm(ray, axis=1)
        d = (ray @ camera.pose.rotation.T / length[:, None]).astype(np.float32)
        n = len(d)
        rgb, left, depth = np.zeros((n, 3)), np.ones(n), np.zeros(n)
        live, travelled = np.arange(n), self._settings.near * length
        origin = camera.pose.position - self._caster.center
        extent = max(self._caster.extent, float(np.abs(origin).max()))
        for _ in range(_LAYERS if self._caster.scene is not None else 0):
            start = origin + travelled[live, None] * d[live]
            raw = self._caster.scene.run(start.astype(np.float32), d[live], output=1)
            hit = raw["primID"] >= 0
            live, face = live[hit], raw["primID"][hit]
            total = travelled[live] + raw["tfar"][hit]
            now_rgb, now_left = rgb[live], left[live]
            _kernels.shade_hits(self._mesh, face, raw["u"][hit], raw["v"][hit], d[live], now_left, now_rgb)
            rgb[live], left[live] = now_rgb, now_left
            solid = (now_left <= 0.5) & (depth[live] == 0)
            depth[live[solid]] = (total / length[live])[solid]
            travelled[live] = total + _STEP * np.maximum(extent, total)
            live = live[now_left > 0]
            if not len(live):
                break
        rgb += left[:, None] * np.asarray(self._settings.background, np.float64)
        return rgb.astype(np.float32), depth.astype(np.float32), (1.0 - left).astype(np.float32)
