"""A renderer of meshes by OpenGL 4.3: on a GPU, or on the CPU by Mesa's llvmpipe; no window, no display.

Which face a sample sees is found by the driver, in float32 and with the edges of faces on its grid (a 256th of a
pixel as a rule); colours are worked out by our own programs, from the same arrays and with the same filter as
``embree``; depth is worked out on the CPU, in float64, from the plane of the face that was seen. So images are those
of ``embree`` but for samples within a 256th of a pixel of an outline, and for surfaces that are closer together than
a millionth of their distance. Of blended surfaces the nearest 8 before the opaque one are drawn, as by ``raster``.

Images depend on the driver: the same one gives the same bytes, another may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.renderers._gl_context import LOCK, Targets, context_error, gl_version, make_targets, set_uniforms
from spatialbench.renderers._gl_context import context as _context
from spatialbench.renderers._gpu import library_errors
from spatialbench.renderers._pack import BLEND, BY_LIGHTS, BY_NORMAL, MASK, OPAQUE, PackedMesh, pack_mesh
from spatialbench.types import Camera, RenderSettings, TriangleMesh

__all__ = ["GlBackend", "gl_version"]

MAX_LAYERS = 8
"""Blended surfaces before the opaque one."""
_SAMPLES = 1 << 22
"""Of one band of rows, about: 52 bytes each on the driver's side."""
_NEAR = 2.0**-20
"""Nearest depth unless the settings say otherwise, relative to the mesh's extent."""
_GRAZING = 1e-6
"""Squared cosine below which the driver's own depth is kept: the plane's rounding dominates."""
_MAX_FACES = 1 << 24
"""A face's number travels as a float32."""
_KEPT = 4
"""Sizes whose targets are kept: an image's colours and depths, and their last bands."""

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


class _Band(NamedTuple):
    """Rows of one image that are drawn together, ``ss`` samples a pixel side; ``top`` in pixels."""

    camera: Camera
    top: int
    rows: int
    ss: int


class GlBackend:
    """Draws one mesh; see ``backends`` for what the images mean.

    Raises
    ------
    BackendUnavailableError : no context of OpenGL 4.3, or the mesh does not fit into the driver's buffers; later,
        from drawing: whatever the driver fails with.
    """

    def __init__(self, mesh: TriangleMesh, settings: RenderSettings) -> None:
        self._mesh, self._settings = pack_mesh(mesh, settings), settings
        used = self._mesh.vertices[self._mesh.faces].reshape(-1, 3)
        self._center = (used.min(axis=0) + used.max(axis=0)) / 2 if len(used) else np.zeros(3)
        corners = used.reshape(-1, 3, 3) - self._center
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        length = np.linalg.norm(normal, axis=1, keepdims=True)
        self._normals = np.divide(normal, length, out=np.zeros_like(normal), where=length > 0)
        self._gaps = np.einsum("ij,ij->i", self._normals, corners[:, 0]) if len(corners) else np.zeros(0)
        self._radius = float(np.linalg.norm(corners.reshape(-1, 3), axis=1).max(initial=0.0))
        mode = self._mesh.mode[self._mesh.material]
        self._order = np.argsort(mode, kind="stable").astype(np.int32)
        self._count = np.bincount(mode, minlength=3).tolist()
        if len(corners) > _MAX_FACES:
            raise BackendUnavailableError(f"gl draws no more than {_MAX_FACES:,} faces, the mesh has {len(corners):,}",
                                          todo="Use embree")
        self._targets: dict[tuple[int, int, int], Targets] = {}
        with library_errors("gl"), LOCK:
            try:
                self._open()
            except context_error():  # of a context that was lost earlier; a new one fails for a better reason
                _context.cache_clear()
                self._open()

    def __call__(self, cameras: Sequence[Camera], want: Sequence[str]) -> tuple[
            F32 | None, F32 | None, F32 | None]:
        """Images of cameras of one size."""
        t, h, w = len(cameras), cameras[0].height, cameras[0].width
        rgb = np.empty((t, h, w, 3), np.float32) if "rgb" in want else None
        deep = "depth" in want or "alpha" in want
        depth, alpha = (np.zeros((t, h, w), np.float32) if deep else None for _ in range(2))
        with library_errors("gl"), LOCK, self._ctx:
            self._ctx.gc()
            for k, camera in enumerate(cameras):
                if rgb is not None:
                    for band in _bands(camera, self._settings.supersample):
                        rgb[k, band.top:band.top + band.rows] = self._colours(band)
                if depth is not None and alpha is not None:
                    for band in _bands(camera, 1):
                        rows = slice(band.top, band.top + band.rows)
                        depth[k, rows], alpha[k, rows] = self._depths(band)
            self._rest.use()
            if self._ctx.error != "GL_NO_ERROR":
                raise BackendUnavailableError("OpenGL reports an error after drawing", where="gl", todo="Use embree")
        return rgb, depth if "depth" in want else None, alpha if "alpha" in want else None

    def _open(self) -> None:
        self._ctx, self._rest = _context()
        with self._ctx:
            self._ctx.gc()
            self._upload()

    # -- what is built once ---------------------------------------------------------------------------------------

    def _upload(self) -> None:
        from spatialbench.renderers import _gl_shaders as glsl

        m, ctx = self._mesh, self._ctx
        kinds = np.zeros((len(m.mode), 10), np.int32)
        kinds[:, 0], kinds[:, 1], kinds[:, 2:4], kinds[:, 4:6] = m.mode, m.tex_offset, m.tex_size, m.tex_wrap
        kinds[:, 6], kinds[:, 7], kinds[:, 8] = m.tex_nearest, m.one_sided, m.unlit
        looks = np.concatenate([m.factor, m.emissive, m.cutoff[:, None]], axis=1)
        lights = m.lights.copy()
        lights[:, 4:7] -= self._center
        used = np.isin(np.arange(len(m.vertices)), m.faces)[:, None]
        arrays = (np.where(used, m.vertices - self._center, 0.0).astype(np.float32), m.faces, self._order, m.material,
                  m.uv, m.colors, m.normals, looks, kinds, m.texels, m.decode, m.encode, lights.astype(np.float32))
        most = int(ctx.info["GL_MAX_SHADER_STORAGE_BLOCK_SIZE"])
        largest = max(a.nbytes for a in arrays)
        if largest > most:
            raise BackendUnavailableError(f"the mesh needs a buffer of {largest:,} bytes, the driver's are {most:,} "
                                          "at most", where="gl", todo="Use embree")
        self._buffers = [ctx.buffer(np.ascontiguousarray(a).tobytes() or bytes(16)) for a in arrays]
        has = _names(m)
        vertex, screen = glsl.source(glsl.VISIBILITY_VERTEX), glsl.source(glsl.FULL_SCREEN)
        self._see = {mode: ctx.program(vertex_shader=vertex,
                                       fragment_shader=glsl.source(glsl.VISIBILITY_FRAGMENT, [*has, *extra]))
                     for mode, extra in ((OPAQUE, ()), (MASK, ("MASKED",)), (BLEND, ("LAYER",)))
                     if self._count[mode]}
        self._colour, self._alpha, self._mean = (
            ctx.program(vertex_shader=screen, fragment_shader=glsl.source(program, has))
            for program in (glsl.COLOUR, glsl.ALPHA, glsl.RESOLVE))
        self._programs = *self._see.values(), self._colour, self._alpha, self._mean
        self._draws = {id(p): ctx.vertex_array(p, []) for p in self._programs}
        set_uniforms(self._colour, n_lights=len(m.lights))

    def _room(self, band: _Band) -> Targets:
        """Targets of a band's size; the last ones are kept."""
        width, height, ss = band.camera.width, band.rows, band.ss
        if (width, height, ss) not in self._targets:
            self._rest.use()
            if len(self._targets) == _KEPT:
                del self._targets[next(iter(self._targets))]
                self._ctx.gc()
            self._targets[width, height, ss] = make_targets(self._ctx, width, height, ss)
        return self._targets[width, height, ss]

    # -- one band of one image ------------------------------------------------------------------------------------

    def _colours(self, band: _Band) -> F32:
        """[rows,W,3] mean colours."""
        ctx, ss = self._ctx, band.ss
        to = self._aim(band)
        to.to_sums.clear(0.0, 0.0, 0.0, 1.0)
        for seen in self._layers(to):
            self._blend(to, seen, opaque=False)
        self._blend(to, to.solid, opaque=True)
        ctx.disable(ctx.BLEND)
        to.to_mean.use()
        to.sums.use(0)
        set_uniforms(self._mean, sum=0, samples=ss, background=tuple(float(c) for c in self._settings.background))
        self._draws[id(self._mean)].render(vertices=3)
        return np.frombuffer(to.mean.read(), np.float32).reshape(band.rows, band.camera.width, 4)[..., :3]

    def _blend(self, to: Targets, seen: Any, opaque: bool) -> None:
        """Put a layer behind what was drawn: the sums hold colour, and in their alpha the light that is left."""
        ctx = self._ctx
        to.to_sums.use()
        ctx.disable(ctx.DEPTH_TEST)
        ctx.enable(ctx.BLEND)
        ctx.blend_func = ctx.DST_ALPHA, ctx.ONE, ctx.ZERO, ctx.ONE_MINUS_SRC_ALPHA
        seen.use(0)
        set_uniforms(self._colour, visible=0, opaque=int(opaque))
        self._draws[id(self._colour)].render(vertices=3)

    def _depths(self, band: _Band) -> tuple[F32, F32]:
        """Depth and alpha [rows,W]."""
        to = self._aim(band)
        shape = band.rows, band.camera.width
        left = np.ones(shape)
        chosen = np.zeros((*shape, 4), np.float32)
        for seen in self._layers(to):
            self._ctx.disable(self._ctx.BLEND)
            self._ctx.disable(self._ctx.DEPTH_TEST)
            to.to_alphas.use()
            seen.use(0)
            set_uniforms(self._alpha, visible=0)
            self._draws[id(self._alpha)].render(vertices=3)
            left *= 1.0 - np.frombuffer(to.alphas.read(), np.float32).reshape(shape)
            here = np.frombuffer(seen.read(), np.float32).reshape(*shape, 4)
            now = (left <= 0.5) & (chosen[..., 0] == 0)
            chosen[now] = here[now]
        solid = np.frombuffer(to.solid.read(), np.float32).reshape(*shape, 4)
        now = chosen[..., 0] == 0
        chosen[now] = solid[now]
        left[solid[..., 0] > 0] = 0.0
        return self._plane_depth(band, chosen), (1.0 - left).astype(np.float32)

    def _aim(self, band: _Band) -> Targets:
        """Set the camera and draw what is opaque."""
        c, ss = band.camera, band.ss
        to = self._room(band)
        rotation, origin = c.pose.rotation, c.pose.position - self._center
        away = float(np.linalg.norm(origin))
        nearest = self._settings.near if self._settings.near > 0 else \
            max(_NEAR * max(self._radius, 1e-30), float(-origin @ c.pose.forward) - self._radius * (1 + 1e-6))
        span = max(float(np.log(max(away + self._radius, nearest) * 1.001 / nearest)), 1e-3)
        for k, buffer in enumerate(self._buffers):
            buffer.bind_to_storage_buffer(k)
        for p in self._programs:
            set_uniforms(p, origin=tuple(origin.tolist()), rotation=tuple(rotation.reshape(-1).tolist()),
                 shift=tuple((-rotation.T @ origin).tolist()), nearest=nearest, range=(nearest, 1.0 / span),
                 lens=(c.fx * ss, c.fy * ss, c.cx * ss, (c.cy - band.top) * ss), size=(c.width * ss, band.rows * ss))
        self._clear(to.to_solid)
        for mode in (OPAQUE, MASK):
            self._see_faces(mode)
        return to

    def _layers(self, to: Targets) -> Iterator[Any]:
        """Textures of the nearest blended faces before the opaque ones, near to far; stops when there are no more."""
        for k in range(MAX_LAYERS if self._count[BLEND] else 0):
            self._clear(to.to_layers[k % 2])
            to.layers[(k + 1) % 2].use(0)
            to.solid.use(1)
            set_uniforms(self._see[BLEND], before=0, solid=1, layer=k)
            with self._ctx.query(samples=True) as query:
                self._see_faces(BLEND)
            if not query.samples:
                break
            yield to.layers[k % 2]

    def _clear(self, target: Any) -> None:
        """Empty a target of visibility and draw into it from now on."""
        ctx = self._ctx
        target.use()
        target.clear(0.0, 0.0, 0.0, 0.0, depth=1.0)
        ctx.disable(ctx.BLEND)
        ctx.disable(ctx.CULL_FACE)
        ctx.enable(ctx.DEPTH_TEST)
        ctx.depth_func = "<"

    def _see_faces(self, mode: int) -> None:
        """Draw the faces of one alpha mode."""
        if self._count[mode]:
            set_uniforms(self._see[mode], first=sum(self._count[:mode]))
            self._draws[id(self._see[mode])].render(vertices=3 * self._count[mode])

    def _plane_depth(self, band: _Band, seen: F32) -> F32:
        """[rows,W] depth of the faces seen at pixels' centres, from their planes unless the ray grazes them."""
        c = band.camera
        face = seen[..., 0].astype(np.int64) - 1
        hit = face >= 0
        y, x = np.nonzero(hit)
        f = face[hit]
        depth = np.zeros(face.shape, np.float32)
        rays = np.stack([(x + 0.5 - c.cx) / c.fx, (y + band.top + 0.5 - c.cy) / c.fy, np.ones(len(x))], axis=1)
        along = np.einsum("ij,ij->i", self._normals[f] @ c.pose.rotation, rays)
        gap = self._gaps[f] - self._normals[f] @ (c.pose.position - self._center)
        own = 1.0 / seen[hit][:, 3].astype(np.float64)
        sure = along * along > _GRAZING * np.einsum("ij,ij->i", rays, rays)
        exact = np.divide(gap, along, out=own.copy(), where=sure)
        # A centre up to a 256th of a pixel beside a steep face must not get a depth far from the face.
        exact = np.where(np.abs(exact - own) > 0.05 * own, own, exact)
        depth[hit] = exact
        return depth


def _names(m: PackedMesh) -> list[str]:
    """What the programs need for a mesh."""
    textured = m.tex_offset >= 0
    has = {"UV": textured.any(), "LINEAR_FILTER": (m.tex_nearest[textured] == 0).any(),
           "NEAREST_FILTER": (m.tex_nearest[textured] == 1).any(), "COLORS": len(m.colors) > 0,
           "NORMAL": m.lit[0] == BY_NORMAL, "LIGHTS": m.lit[0] == BY_LIGHTS, "CULL": m.one_sided.any()}
    return [name for name, there in has.items() if there]


def _bands(camera: Camera, ss: int) -> list[_Band]:
    rows = max(1, _SAMPLES // (camera.width * ss * ss))
    return [_Band(camera, top, min(rows, camera.height - top), ss) for top in range(0, camera.height, rows)]
