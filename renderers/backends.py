"""The registry of renderers, what a renderer is, and the one way to open one.

What images mean, whoever draws them:

- Depth is the z-depth along the camera axis at the pixel's centre, 0 where nothing is; alpha is that of the
  same ray: 1 on an opaque surface, holes of masks are holes.
- Blended surfaces give alpha ``1 - prod(1 - a)`` and, as depth, the first surface behind which at most half
  of the light is left.
- RGB is the mean of supersample^2 samples on a regular grid. A surface's colour is worked out in linear light
  (texture x factor x vertex colour x light + emissive) and encoded as sRGB; whatever mixes surfaces - samples, blended
  layers, background - mixes encoded values, as image viewers and splat renderers do.
- Every face is drawn from both sides, whatever its material says, unless ``settings.cull`` is set: then faces of
  single-sided materials are absent for cameras behind them. ``docs/design/0010-renderers.md`` says why.
- A mesh that brings lights is lit by them (``_lights``), materials that say they are unlit excepted. Other meshes
  with textures or vertex colours are shown unlit: their colours hold the light.
- Surfaces shaded by their normal are multiplied, in linear light, by ``0.625 + 0.375 n.l`` with
  l = (0.3, 0.4, 0.87) normalised and n the world-space normal of the side that is seen: it depends on the side, not
  on the view.
- There are no mipmaps: a texture much finer than the image aliases as far as the samples let it.

The text above is about meshes; ``splat_cpu`` says what images of splats are, ``pyrender`` in what it falls short. A
backend draws one kind of geometry. ``SPATIALBENCH_RENDERER`` forces a backend for the kind that it draws and leaves the
other kind to its default; a backend that is asked for by argument must draw what it is given.

A backend that was not forced and fails - with no memory, with a lost context - is replaced by the next usable one of
its geometry, for the rest of the renderer's life: ``name_version`` and every later ``Frames`` say so.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.renderers._renderer import MAX_PIXELS, WANT, DrawImages, Renderer
from spatialbench.renderers._version import MESH_IMAGES, SPLAT_IMAGES
from spatialbench.types import Camera, Frames, GaussianSplats, RenderSettings, TriangleMesh

__all__ = ["MAX_PIXELS", "RENDERER_VARIABLE", "BackendInfo", "Renderer", "backends", "open_renderer", "render"]

RENDERER_VARIABLE = "SPATIALBENCH_RENDERER"
"""Environment variable that forces a backend by name, for the geometry that it draws."""


@dataclass(frozen=True)
class BackendInfo:
    """A renderer that could be used here.

    Attributes
    ----------
    name : what forces it.
    geometry : ``mesh`` or ``splats``, what it can be given.
    version : of what draws; empty when it is not usable.
    draws : in words.
    usable : whether it works on this machine.
    reason : why not, and what to do.
    order : the lowest usable one of its geometry is the default; None is never a default.
    """

    name: str
    geometry: str
    version: str
    draws: str
    usable: bool
    reason: str
    order: int | None


def backends() -> list[BackendInfo]:
    """Every known renderer, usable or not; of each geometry, the default first. Tries each of them, once."""
    return [_describe(name) for name in _BACKENDS]


def open_renderer(geometry: TriangleMesh | GaussianSplats, settings: RenderSettings | None = None,
                  backend: str | None = None) -> Renderer:
    """A renderer for one mesh or one set of splats (any frame and unit; depths are in that unit).

    Parameters
    ----------
    settings : None for the defaults.
    backend : name; None for ``SPATIALBENCH_RENDERER`` if that draws this kind of geometry, else the usable
        backend of lowest order that does, followed by the next ones should it fail.

    Raises
    ------
    UsageError : no such backend, or it does not draw this kind of geometry.
    BackendUnavailableError : the backend that was asked for, or every one, cannot be used here.
    ValueError : a mesh that makes no sense (words of materials, material ids, lights).

    Warns
    -----
    UserWarning : a backend failed to take the geometry, and another one does.
    """
    settings = RenderSettings() if settings is None else settings
    kind = "splats" if isinstance(geometry, GaussianSplats) else "mesh"
    able = [name for name, b in _BACKENDS.items() if b.geometry == kind]
    where = "backend" if backend else RENDERER_VARIABLE
    name = backend or os.environ.get(RENDERER_VARIABLE, "")
    if name and name not in _BACKENDS:
        raise UsageError(f"no renderer '{name}'", where=where, todo=f"Choose among {_offered(list(_BACKENDS))}")
    if backend and name not in able:
        raise UsageError(f"the renderer '{name}' does not draw {_KINDS[kind]}", where=where,
                         todo=f"Choose among {_offered(able)}")
    if name in able:
        info = _describe(name)
        if not info.usable:
            raise BackendUnavailableError(f"the renderer '{name}' cannot be used here", where=where, todo=info.reason)
        return Renderer(f"{name} {info.version}", _BACKENDS[name].open(geometry, settings))
    return _open_default(geometry, settings, able, _KINDS[kind])


def _offered(names: Sequence[str]) -> str:
    """Those that draw what they are given."""
    return ", ".join(n for n in names if n != "fake")


def _open_default(geometry: TriangleMesh | GaussianSplats, settings: RenderSettings, able: Sequence[str],
                  kind: str) -> Renderer:
    """The first of the defaults that takes the geometry, with those after it in reserve."""
    failed: list[tuple[str, BackendUnavailableError]] = []

    def candidates() -> Iterator[tuple[str, DrawImages]]:
        for name in sorted((n for n in able if _BACKENDS[n].order is not None), key=lambda n: _BACKENDS[n].order or 0):
            info = _describe(name)
            if info.usable:
                full = f"{name} {info.version}"
                try:
                    yield full, _BACKENDS[name].open(geometry, settings)
                except BackendUnavailableError as e:
                    failed.append((full, e))

    others = candidates()
    first = next(others, None)
    if first is None:
        if failed:
            raise failed[-1][1]
        reasons = "; ".join(f"{b.name}: {b.reason}" for b in map(_describe, able) if not b.usable)
        raise BackendUnavailableError(f"no renderer of {kind} can be used here", todo=reasons)
    renderer = Renderer(*first, others)
    for full, error in failed:
        warning = f"{first[0]} draws instead of {full}: {error.what}"
        warnings.warn(warning, stacklevel=3)
        renderer.warnings += (warning,)
    if failed:
        renderer.name_version += f" (instead of {', '.join(full for full, _ in failed)})"
    return renderer


def render(geometry: TriangleMesh | GaussianSplats, cameras: Sequence[Camera], want: Sequence[str] = WANT,
           settings: RenderSettings | None = None) -> Frames:
    """Open a renderer, draw, forget it; for a few images of one mesh or one set of splats."""
    return open_renderer(geometry, settings).render(cameras, want)


_KINDS = {"mesh": "meshes", "splats": "splats"}


@dataclass(frozen=True)
class _Backend:
    geometry: str
    draws: str
    order: int | None
    version: Callable[[], tuple[str, str]]
    """Version and an empty string, or an empty string and the reason."""
    open: Callable[[Any, RenderSettings], DrawImages]
    """Of the geometry that it draws, and settings."""


def _describe(name: str) -> BackendInfo:
    b = _BACKENDS[name]
    version, reason = b.version()
    return BackendInfo(name, b.geometry, version, b.draws, not reason, reason, b.order)


def _open_raster(mesh: TriangleMesh, settings: RenderSettings) -> DrawImages:
    from spatialbench.renderers.raster import RasterBackend

    return RasterBackend(mesh, settings)


def _open_embree(mesh: TriangleMesh, settings: RenderSettings) -> DrawImages:
    from spatialbench.renderers.embree import EmbreeBackend

    return EmbreeBackend(mesh, settings)


def _open_gl(mesh: TriangleMesh, settings: RenderSettings) -> DrawImages:
    from spatialbench.renderers.gl import GlBackend

    return GlBackend(mesh, settings)


def _open_pyrender(mesh: TriangleMesh, settings: RenderSettings) -> DrawImages:
    from spatialbench.renderers.pyrender import PyrenderBackend

    return PyrenderBackend(mesh, settings)


def _open_gsplat(splats: GaussianSplats, settings: RenderSettings) -> DrawImages:
    from spatialbench.renderers.gsplat import GsplatBackend

    return GsplatBackend(splats, settings)


def _open_splat_cpu(splats: GaussianSplats, settings: RenderSettings) -> DrawImages:
    from spatialbench.renderers.splat_cpu import SplatCpuBackend

    return SplatCpuBackend(splats, settings)


def _open_fake(mesh: TriangleMesh, settings: RenderSettings) -> DrawImages:
    from spatialbench.renderers.fake import FakeBackend

    return FakeBackend(mesh, settings)


def _no_numba() -> str:
    from importlib.util import find_spec

    return "" if find_spec("numba") else "Run 'pip install numba'"


def _compiled_version(images: int) -> tuple[str, str]:
    return "" if _no_numba() else str(images), _no_numba()


def _embree_version() -> tuple[str, str]:
    from spatialbench.renderers._embreex import embreex_version, require_embreex

    try:
        require_embreex()
    except BackendUnavailableError as e:
        return "", str(e)
    return "" if _no_numba() else f"{MESH_IMAGES} (embreex {embreex_version()})", _no_numba()


def _gl_version() -> tuple[str, str]:
    from spatialbench.renderers.gl import gl_version

    return gl_version()


def _pyrender_version() -> tuple[str, str]:
    from spatialbench.renderers.pyrender import pyrender_version

    return pyrender_version()


def _gsplat_version() -> tuple[str, str]:
    from spatialbench.renderers.gsplat import gsplat_version

    return ("", _no_numba()) if _no_numba() else gsplat_version()


_BACKENDS = {
    "embree": _Backend("mesh", "meshes, textured (ray casting on the CPU)", 0, _embree_version, _open_embree),
    "raster": _Backend("mesh", "meshes, textured (exact z-buffer on the CPU)", 1,
                       lambda: _compiled_version(MESH_IMAGES), _open_raster),
    "gl": _Backend("mesh", "meshes, textured (OpenGL 4.3; edges to a 256th of a pixel)", None, _gl_version, _open_gl),
    "pyrender": _Backend("mesh", "opaque meshes (8-bit colours, depth of a 24-bit buffer, alpha from depth)", None,
                         _pyrender_version, _open_pyrender),
    "gsplat": _Backend("splats", "splats (colours on CUDA, median depth by splat-cpu)", 0, _gsplat_version,
                       _open_gsplat),
    "splat-cpu": _Backend("splats", "splats (gsplat's convention, on the CPU)", 1,
                          lambda: _compiled_version(SPLAT_IMAGES), _open_splat_cpu),
    "fake": _Backend("mesh", "a floor without any mesh, for tests", None, lambda: ("1", ""), _open_fake),
}
