"""The default renderer of meshes: a ray through every sample, cast by Embree.

Rays are made, cast and shaded strip by strip; each thread has one strip's rays in memory, and spends nearly
all of its time outside the interpreter lock. A strip's result depends on the strip alone, so that images are
equal to the bit for any number of threads.

Embree computes in float32: a sample within a rounding of an edge may go to the neighbouring face. Depth is
worked out in float64 from the plane of the face that was hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers._embreex import build_scene
from spatialbench.renderers._pack import pack_mesh
from spatialbench.renderers._threads import in_chunks, thread_count
from spatialbench.renderers.raster import sample_rays
from spatialbench.renderers.raycast import MeshRayCaster
from spatialbench.types import Camera, RenderSettings, TriangleMesh

__all__ = ["EmbreeBackend", "RayBatch"]

_RAYS = 1 << 16
"""Rays of one strip, about: their arrays stay in the second- and third-level caches."""
_LAYERS = 64
"""Surfaces that one ray may meet, the last one included."""
_STEP = 2.0**-20
"""Step past a surface that light goes through, relative to the largest coordinate: 8 spacings of float32."""

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


class RayBatch(NamedTuple):
    """Rays on their way.

    Attributes
    ----------
    origin, direction : [n,3] float32, the ray caster's frame; a direction advances 1 along the camera's axis.
    pixel : [n] int32 index within the strip.
    travelled : [n] float64 depth of the origin.
    left : [n] float64 light still let through.
    """

    origin: F32
    direction: F32
    pixel: NDArray[np.int32]
    travelled: F64
    left: F64


class _View(NamedTuple):
    """One camera in the ray caster's frame; columns and rows are the rays of colours' and depths' samples.

    ``scene`` is what its rays are cast at, None for nothing; ``faces`` [n] the mesh's faces in it, None for all.
    """

    rotation: F64
    origin: F64
    origin32: F32
    start: float
    """Depth that rays begin at."""
    step: float
    colours: tuple[F64, F64]
    depths: tuple[F64, F64]
    scene: Any
    faces: NDArray[np.int32] | None


class EmbreeBackend:
    """Draws one mesh by casting rays; see ``backends`` for what the images mean."""

    def __init__(self, mesh: TriangleMesh, settings: RenderSettings) -> None:
        self._mesh = pack_mesh(mesh, settings)
        self._settings = settings
        self._caster = MeshRayCaster(mesh.vertices, mesh.faces, threads=1)
        self._planes = self._caster.planes()
        self._one_sided = self._mesh.one_sided[self._mesh.material] == 1
        self._seen: tuple[bytes, Any, NDArray[np.int32] | None] = b"", None, None
        self._background = np.array(settings.background, np.float64)
        self._threads = thread_count()
        self._spare: list[RayBatch] = []

    def __call__(self, cameras: Sequence[Camera], want: Sequence[str]) -> tuple[
            F32 | None, F32 | None, F32 | None]:
        """Images of cameras of one size."""
        t, h, w = len(cameras), cameras[0].height, cameras[0].width
        rgb = np.empty((t, h, w, 3), np.float32) if "rgb" in want else None
        deep = "depth" in want or "alpha" in want
        depth, alpha = (np.zeros((t, h, w), np.float32) if deep else None for _ in range(2))
        work: list[tuple[bool, int, slice]] = []
        if rgb is not None:
            strips = _strips(h, w * self._settings.supersample**2)
            work += [(False, k, rows) for k in range(t) for rows in strips]
        if deep:
            work += [(True, k, rows) for k in range(t) for rows in _strips(h, w)]
        views = [self._view(c) for c in cameras]

        def draw(a: int, _: int) -> None:
            for_depth, k, rows = work[a]
            if rgb is not None and not for_depth:
                self._colours(views[k], rows, rgb[k, rows])
            elif depth is not None and alpha is not None:
                self._depths(views[k], rows, depth[k, rows], alpha[k, rows])

        in_chunks(draw, len(work), 1, self._threads)
        return rgb, depth if "depth" in want else None, alpha if "alpha" in want else None

    def _view(self, camera: Camera) -> _View:
        origin = camera.pose.position - self._caster.center
        # Nothing is nearer than the bounding sphere; from there on float32 is fine enough.
        start = max(self._settings.near, float(-origin @ camera.pose.forward) - self._caster.radius, 0.0)
        step = _STEP * max(self._caster.extent, float(np.abs(origin).max()))
        return _View(np.array(camera.pose.rotation, order="C"), origin, origin.astype(np.float32), start, step,
                     sample_rays(camera, self._settings.supersample), sample_rays(camera, 1), *self._scene(origin))

    def _scene(self, origin: F64) -> tuple[Any, NDArray[np.int32] | None]:
        """What can be seen from a place in the ray caster's frame: which side a face shows depends on the place alone.

        Faces that are left out are not passed through but absent, so that one with the same corners and the other
        winding is met.
        """
        if not self._one_sided.any():
            return self._caster.scene, None
        if self._seen[0] != origin.tobytes():
            front = self._planes[:, 3] - self._planes[:, :3] @ origin < 0
            faces = np.flatnonzero(~self._one_sided | front).astype(np.int32)
            corners = self._mesh.faces[faces]
            used = np.isin(np.arange(len(self._mesh.vertices)), corners)[:, None]
            local = np.where(used, self._mesh.vertices - self._caster.center, 0.0).astype(np.float32)
            self._seen = origin.tobytes(), build_scene(local, corners) if len(faces) else None, faces
        return self._seen[1:]

    def _colours(self, view: _View, rows: slice, rgb: F32) -> None:
        """Set the mean colours [rows,W,3] of a strip."""
        ss = self._settings.supersample
        xs, ys = view.colours
        total = np.zeros((rgb.shape[0] * rgb.shape[1], 3))
        self._cast(view, xs, ys[rows.start * ss:rows.stop * ss], ss, total, _NONE, _NONE)
        np.multiply(total.reshape(rgb.shape), 1.0 / (ss * ss), out=rgb, casting="same_kind")

    def _depths(self, view: _View, rows: slice, depth: F32, alpha: F32) -> None:
        """Set depth and alpha [rows,W] of a strip, which are 0."""
        xs, ys = view.depths
        self._cast(view, xs, ys[rows], 1, _NO_COLOUR, depth.reshape(-1), alpha.reshape(-1))

    def _cast(self, view: _View, xs: F64, ys: F64, ss: int, rgb: F64, depth: F32, alpha: F32) -> None:
        from spatialbench.renderers import _ray_kernels as kernels

        n, scene = len(xs) * len(ys), view.scene
        if scene is None:
            rgb += ss * ss * self._background
            return
        rays = self._buffer(n)
        kernels.aim(view.rotation, view.origin, view.start, xs, ys, ss, rays)
        for layer in range(_LAYERS):
            # From the camera itself they all begin at one place, which takes no memory.
            begin = rays.origin[:n] if layer > 0 or view.start > 0 else np.broadcast_to(view.origin32, (n, 3))
            hits = scene.run(begin, rays.direction[:n], output=1)
            face = hits["primID"]
            if view.faces is not None:
                face = np.where(face < 0, face, view.faces[face]).astype(face.dtype)
            n = kernels.composite(self._mesh, self._planes, view.rotation, view.origin, view.start, xs, ys,
                                  (face, hits["u"], hits["v"], hits["tfar"]), rays, n, layer == 0,
                                  layer == _LAYERS - 1, view.step, self._background, len(depth) > 0,
                                  rgb, depth, alpha)
            if n == 0:
                break
        self._spare.append(rays)

    def _buffer(self, n: int) -> RayBatch:
        """Room for ``n`` rays at least; what was used before is still mapped, which fresh memory is not."""
        try:
            rays = self._spare.pop()  # a single operation, safe between threads
        except IndexError:
            rays = None
        if rays is not None and len(rays.pixel) >= n:
            return rays
        return RayBatch(np.empty((n, 3), np.float32), np.empty((n, 3), np.float32), np.empty(n, np.int32),
                        np.empty(n), np.empty(n))


_NONE = np.zeros(0, np.float32)
_NO_COLOUR = np.zeros((0, 3))


def _strips(height: int, rays_a_row: int) -> list[slice]:
    rows = max(1, _RAYS // rays_a_row)
    return [slice(a, min(height, a + rows)) for a in range(0, height, rows)]
