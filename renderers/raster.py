"""A renderer of meshes without a ray caster: an exact z-buffer, compiled, on all CPUs.

It answers the same question as casting a ray through every sample - which face is nearest along it - with
edge functions in float64, so that it needs no acceleration structure and is faster. ``backends`` says what
the images mean; of blended surfaces, the nearest 8 before the opaque one are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers._pack import pack_mesh
from spatialbench.renderers._threads import in_chunks, thread_count
from spatialbench.types import Camera, RenderSettings, TriangleMesh

__all__ = ["RasterBackend", "sample_rays"]

_SLAB = 24
"""Pixel rows of one piece of work: its buffers stay in the second-level cache at 768 columns."""


class RasterBackend:
    """Draws one mesh by rasterisation; see ``backends`` for what the images mean."""

    def __init__(self, mesh: TriangleMesh, settings: RenderSettings) -> None:
        self._mesh = pack_mesh(mesh, settings)
        self._settings = settings
        self._threads = thread_count()

    def __call__(self, cameras: Sequence[Camera], want: Sequence[str]) -> tuple[
            NDArray[np.float32] | None, NDArray[np.float32] | None, NDArray[np.float32] | None]:
        """Images of cameras of one size."""
        from spatialbench.renderers import _raster_kernels as kernels

        t, h, w = len(cameras), cameras[0].height, cameras[0].width
        rgb = np.empty((t, h, w, 3), np.float32) if "rgb" in want else None
        deep = "depth" in want or "alpha" in want
        depth, alpha = (np.empty((t, h, w), np.float32) if deep else None for _ in range(2))
        ss = self._settings.supersample
        w_max = 1.0 / self._settings.near if self._settings.near > 0 else np.inf
        background = np.array(self._settings.background, np.float64)
        setups = in_chunks(lambda a, _: self._set_up(cameras[a]), t, 1, self._threads)
        slabs = -(-h // _SLAB)

        def draw(a: int, _: int) -> None:
            k, slab = divmod(a, slabs)
            top, bottom = slab * _SLAB, min(h, (slab + 1) * _SLAB)
            if rgb is not None:
                xs, ys = sample_rays(cameras[k], ss)
                kernels.resolve_rgb(self._mesh, setups[k], xs, ys[top * ss:bottom * ss], ss, top * ss, w_max,
                                     background, rgb[k, top:bottom])
            if depth is not None and alpha is not None:
                xs, ys = sample_rays(cameras[k], 1)
                kernels.resolve_depth(self._mesh, setups[k], xs, ys[top:bottom], 1, top, w_max,
                                       depth[k, top:bottom], alpha[k, top:bottom])

        in_chunks(draw, t * slabs, 1, self._threads)
        return rgb, depth if "depth" in want else None, alpha if "alpha" in want else None

    def _set_up(self, camera: Camera) -> Any:
        from spatialbench.renderers import _raster_kernels as kernels

        return kernels.set_up(self._mesh, np.array(camera.pose.rotation), np.array(camera.pose.position),
                               np.array([camera.fx, camera.fy, camera.cx, camera.cy], np.float64),
                               camera.width, camera.height)


def sample_rays(camera: Camera, ss: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """x of every sample column and y of every sample row, at depth 1 in camera axes."""
    xs = ((np.arange(camera.width * ss) + 0.5) / ss - camera.cx) / camera.fx
    ys = ((np.arange(camera.height * ss) + 0.5) / ss - camera.cy) / camera.fy
    return xs, ys
