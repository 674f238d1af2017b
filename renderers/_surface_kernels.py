"""Compiled kernels of surfaces: the colour of a face at a place on it. Part of the kernels that find faces.

No fast maths: every operation is rounded as IEEE says, in program order, so that all backends give the same bits.
Places are float64; once a texel is chosen, float32 is finer than what 8 bits hold by five decimals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from spatialbench.renderers import _jit
from spatialbench.renderers._pack import BY_LIGHTS, BY_NORMAL, ENCODE_STEPS, PackedMesh

__all__ = ["alpha_of", "surface"]

# Nothing is allocated here. Without reference counting, as else the compiler does not rid the innermost loop of it.
HELPER = {**_jit.HELPER, "_nrt": False}
INLINE = {**_jit.INLINE, "_nrt": False}

_LIGHT = tuple(x / 1.0069**0.5 for x in (0.3, 0.4, 0.87))
"""Unit vector."""
f32 = np.float32
_ONE = f32(1)
_BYTE, _G, _B, _A = np.uint32(255), np.uint32(8), np.uint32(16), np.uint32(24)
"""A texel is one word, red in its lowest byte."""


@njit(**INLINE)
def _wrapped(i: int, n: int, how: int) -> int:
    if 0 <= i < n:  # nearly always, and a division takes as long as the rest of a texture
        return i
    if how == 0:
        return i % n
    if how == 1:
        i %= 2 * n
        return i if i < n else 2 * n - 1 - i
    return min(max(i, 0), n - 1)


@njit(**INLINE)
def _texture(mesh: PackedMesh, m: int, u: float, v: float) -> tuple[Any, Any, Any, Any]:
    """Linear RGBA at (u, v): row 0 is v = 0, texel centres at halves; filtered in linear light."""
    texels, decode = mesh.texels, mesh.decode
    w, h = mesh.tex_size[m, 0], mesh.tex_size[m, 1]
    at, wrap_u, wrap_v = mesh.tex_offset[m], mesh.tex_wrap[m, 0], mesh.tex_wrap[m, 1]
    # Huge coordinates have no fraction left in float32; keep them inside what int64 holds.
    x, y = min(max(u * w, -1e15), 1e15), min(max(v * h, -1e15), 1e15)
    if mesh.tex_nearest[m] == 1:
        k = at + _wrapped(int(np.floor(y)), h, wrap_v) * w + _wrapped(int(np.floor(x)), w, wrap_u)
        word = texels[k]
        return decode[word & _BYTE], decode[word >> _G & _BYTE], decode[word >> _B & _BYTE], f32(word >> _A) / f32(255)
    x -= 0.5
    y -= 0.5
    i, j = int(np.floor(x)), int(np.floor(y))
    s, t = f32(x - i), f32(y - j)
    i0, i1 = _wrapped(i, w, wrap_u), _wrapped(i + 1, w, wrap_u)
    j0, j1 = at + _wrapped(j, h, wrap_v) * w, at + _wrapped(j + 1, h, wrap_v) * w
    w00, w10, w01, w11 = (_ONE - s) * (_ONE - t), s * (_ONE - t), (_ONE - s) * t, s * t
    t00, t10, t01, t11 = texels[j0 + i0], texels[j0 + i1], texels[j1 + i0], texels[j1 + i1]
    return (w00 * decode[t00 & _BYTE] + w10 * decode[t10 & _BYTE] + w01 * decode[t01 & _BYTE]
            + w11 * decode[t11 & _BYTE],
            w00 * decode[t00 >> _G & _BYTE] + w10 * decode[t10 >> _G & _BYTE] + w01 * decode[t01 >> _G & _BYTE]
            + w11 * decode[t11 >> _G & _BYTE],
            w00 * decode[t00 >> _B & _BYTE] + w10 * decode[t10 >> _B & _BYTE] + w01 * decode[t01 >> _B & _BYTE]
            + w11 * decode[t11 >> _B & _BYTE],
            (w00 * f32(t00 >> _A) + w10 * f32(t10 >> _A) + w01 * f32(t01 >> _A) + w11 * f32(t11 >> _A)) / f32(255))


@njit(**INLINE)
def _encoded(mesh: PackedMesh, x: float) -> float:
    """sRGB-encoded value of a linear one, by a table over its square root."""
    v = f32(x)
    if v <= 0.0:
        return 0.0
    if v >= 1.0:
        return 1.0
    s = np.sqrt(v) * f32(ENCODE_STEPS)
    k = np.uint32(s)
    low, high = mesh.encode[k], mesh.encode[k + np.uint32(1)]
    return low + (high - low) * (s - f32(k))


@njit(**HELPER)
def _light(mesh: PackedMesh, f: int, b0: float, b1: float, b2: float, side: float) -> tuple[float, float, float]:
    """What the mesh's lights multiply a matt surface by, linear; see ``_lights``."""
    v, w, lights = mesh.vertices, mesh.faces, mesh.lights
    x = b0 * v[w[f, 0], 0] + b1 * v[w[f, 1], 0] + b2 * v[w[f, 2], 0]
    y = b0 * v[w[f, 0], 1] + b1 * v[w[f, 1], 1] + b2 * v[w[f, 2], 1]
    z = b0 * v[w[f, 0], 2] + b1 * v[w[f, 1], 2] + b2 * v[w[f, 2], 2]
    n0, n1, n2 = side * mesh.normals[f, 0], side * mesh.normals[f, 1], side * mesh.normals[f, 2]
    red, green, blue = 0.0, 0.0, 0.0
    for k in range(len(lights)):
        if lights[k, 0] > 2.5:
            red += lights[k, 1]
            green += lights[k, 2]
            blue += lights[k, 3]
            continue
        d0, d1, d2 = -lights[k, 7], -lights[k, 8], -lights[k, 9]
        strength = 1.0
        if lights[k, 0] > 0.5:
            a0, a1, a2 = lights[k, 4] - x, lights[k, 5] - y, lights[k, 6] - z
            distance2 = max(a0 * a0 + a1 * a1 + a2 * a2, 1e-12)
            inverse = 1.0 / np.sqrt(distance2)
            if lights[k, 0] > 1.5:
                cone = (a0 * d0 + a1 * d1 + a2 * d2) * inverse * lights[k, 11] + lights[k, 12]
                cone = min(max(cone, 0.0), 1.0)
                strength = cone * cone
            d0, d1, d2 = a0 * inverse, a1 * inverse, a2 * inverse
            strength /= distance2
            if lights[k, 10] > 0.0:
                part = distance2 / (lights[k, 10] * lights[k, 10])
                strength *= min(max(1.0 - part * part, 0.0), 1.0)
        facing = strength * (n0 * d0 + n1 * d1 + n2 * d2)
        if facing > 0.0:
            red += facing * lights[k, 1]
            green += facing * lights[k, 2]
            blue += facing * lights[k, 3]
    return red, green, blue


@njit(**INLINE)
def surface(mesh: PackedMesh, face: int, b0: float, b1: float, b2: float, side: float
             ) -> tuple[float, float, float, float]:
    """Encoded RGB and alpha of a face at barycentric weights; ``side`` is +1 seen from its front."""
    f = np.uint64(face)  # signed indices would be checked for wrapping
    m = np.uint64(mesh.material[f])
    r, g, b, a = float(mesh.factor[m, 0]), float(mesh.factor[m, 1]), float(mesh.factor[m, 2]), \
        float(mesh.factor[m, 3])
    if len(mesh.colors) > 0:
        c = mesh.colors
        r *= b0 * c[f, 0, 0] + b1 * c[f, 1, 0] + b2 * c[f, 2, 0]
        g *= b0 * c[f, 0, 1] + b1 * c[f, 1, 1] + b2 * c[f, 2, 1]
        b *= b0 * c[f, 0, 2] + b1 * c[f, 1, 2] + b2 * c[f, 2, 2]
        a *= b0 * c[f, 0, 3] + b1 * c[f, 1, 3] + b2 * c[f, 2, 3]
    if mesh.tex_offset[m] >= 0:
        q = mesh.uv
        tr, tg, tb, ta = _texture(mesh, m, b0 * q[f, 0, 0] + b1 * q[f, 1, 0] + b2 * q[f, 2, 0],
                                  b0 * q[f, 0, 1] + b1 * q[f, 1, 1] + b2 * q[f, 2, 1])
        r *= tr
        g *= tg
        b *= tb
        a *= ta
    if mesh.lit[0] == BY_LIGHTS:
        if mesh.unlit[m] == 0:
            lr, lg, lb = _light(mesh, f, b0, b1, b2, side)
            r *= lr
            g *= lg
            b *= lb
    elif mesh.lit[0] == BY_NORMAL:
        n = mesh.normals
        k = 0.625 + 0.375 * side * (n[f, 0] * _LIGHT[0] + n[f, 1] * _LIGHT[1] + n[f, 2] * _LIGHT[2])
        r *= k
        g *= k
        b *= k
    e = mesh.emissive
    return (_encoded(mesh, r + e[m, 0]), _encoded(mesh, g + e[m, 1]), _encoded(mesh, b + e[m, 2]),
            min(max(a, 0.0), 1.0))


@njit(**HELPER)
def alpha_of(mesh: PackedMesh, f: int, b0: float, b1: float, b2: float) -> float:
    """Alpha alone, as ``surface`` gives it."""
    return surface(mesh, f, b0, b1, b2, 1.0)[3]
