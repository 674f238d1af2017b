"""What the ``gl`` renderer asks of OpenGL: one context for a process, textures to draw into, uniforms."""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from spatialbench.renderers._gpu import one_line
from spatialbench.renderers._version import MESH_IMAGES

__all__ = ["LOCK", "Targets", "context", "context_error", "gl_version", "make_targets", "set_uniforms"]

LOCK = threading.RLock()
"""Held by whoever uses the context."""


@cache
def gl_version() -> tuple[str, str]:
    """Version and an empty string, or an empty string and the reason. Makes a context, once."""
    try:
        version = import_module("moderngl").__version__
    except Exception as e:  # its binary part may fail to load
        return "", f"Run 'pip install \"spatialbench[gl]\"' ({one_line(e)})"
    try:
        with LOCK:
            info = context()[0].info
    except Exception as e:
        return "", f"OpenGL 4.3 on EGL cannot be opened ({one_line(e)}); on Debian: apt install libegl1 libgl1-mesa-dri"
    return f"{MESH_IMAGES} (moderngl {version}, {info['GL_RENDERER']}, {info['GL_VERSION']})", ""


def context_error() -> type[Exception]:
    """What moderngl raises."""
    return import_module("moderngl").Error


@cache
def context() -> tuple[Any, Any]:
    """The one context of this process, and a target that is bound between images: others may be freed then."""
    ctx = import_module("moderngl").create_context(standalone=True, backend="egl", require=430)
    ctx.gc_mode = "context_gc"
    return ctx, ctx.framebuffer([ctx.texture((1, 1), 4)])


class Targets(NamedTuple):
    """Textures of one size and the frame buffers that draw into them."""

    solid: Any
    layers: tuple[Any, Any]
    sums: Any
    alphas: Any
    mean: Any
    to_solid: Any
    to_layers: tuple[Any, Any]
    to_sums: Any
    to_alphas: Any
    to_mean: Any


def make_targets(ctx: Any, width: int, height: int, ss: int) -> Targets:
    """Targets of an image of so many pixels, ``ss`` samples a pixel side; ``mean`` has one a pixel."""
    size = width * ss, height * ss
    solid, one, two, sums = (ctx.texture(size, 4, dtype="f4") for _ in range(4))
    alphas, mean = ctx.texture(size, 1, dtype="f4"), ctx.texture((width, height), 4, dtype="f4")
    depth = ctx.depth_texture(size)
    return Targets(solid, (one, two), sums, alphas, mean, ctx.framebuffer([solid], depth),
                   (ctx.framebuffer([one], depth), ctx.framebuffer([two], depth)), ctx.framebuffer([sums]),
                   ctx.framebuffer([alphas]), ctx.framebuffer([mean]))


def set_uniforms(program: Any, **values: Any) -> None:
    """Set uniforms; those that the compiler left out are skipped."""
    for name, value in values.items():
        if name in program:
            program[name].value = value
