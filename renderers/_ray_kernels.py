"""Compiled kernels of the ray caster: rays of a strip's samples, and what they met as colours or depths.

Imported on the first render only. No fast maths: every operation is rounded as IEEE says, in program order, so that
results are equal to the bit.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from spatialbench.renderers import _jit, _pack, _surface_kernels
from spatialbench.renderers._pack import BLEND, BY_LIGHTS, MASK, OPAQUE, PackedMesh
from spatialbench.renderers._surface_kernels import surface

__all__ = ["aim", "composite"]

_KERNEL = {**_jit.KERNEL, "_nrt": False}
"""Nothing is allocated; see ``_surface_kernels``."""
_GRAZING = 1e-6
"""Squared cosine below which Embree's own distance is kept: the plane's rounding dominates."""
_EDGE_ON = 2.0**-10
"""Of ``step``, a billionth of the mesh's size: nearer to a face's plane than this the camera is in it, and every ray
would meet the face at once; seen edge-on there is nothing of it."""
_STEP = 2.0**-20
"""Step past a surface that light goes through, relative to the distance; 8 spacings of float32."""


@njit(**_KERNEL)
def aim(rotation: Any, origin: Any, start: float, xs: Any, ys: Any, ss: int, rays: Any) -> None:
    """Rays through the samples of a strip, row by row; ``rays`` is a ``RayBatch`` with room for them.

    ``xs`` and ``ys`` are the columns' and rows' rays at depth 1, so that distance along a ray is depth;
    ``origin`` is the camera in the ray caster's centred frame and ``start`` the depth that rays begin at; where that
    is 0, rays begin at ``origin`` and no origins are written.
    """
    width = len(xs) // ss
    o0, o1, o2 = origin[0], origin[1], origin[2]
    r0, r1, r2 = rotation[0, 0], rotation[1, 0], rotation[2, 0]
    n = 0
    for j in range(len(ys)):
        a0, a1, a2 = rotation[0, 1] * ys[j] + rotation[0, 2], rotation[1, 1] * ys[j] + rotation[1, 2], \
            rotation[2, 1] * ys[j] + rotation[2, 2]
        first = j // ss * width
        for column in range(width):
            for i in range(column * ss, column * ss + ss):
                d0, d1, d2 = r0 * xs[i] + a0, r1 * xs[i] + a1, r2 * xs[i] + a2
                rays.direction[n, 0], rays.direction[n, 1], rays.direction[n, 2] = d0, d1, d2
                if start > 0.0:
                    rays.origin[n, 0], rays.origin[n, 1], rays.origin[n, 2] = \
                        o0 + start * d0, o1 + start * d1, o2 + start * d2
                rays.pixel[n] = first + column
                n += 1


@njit(**_KERNEL)
def composite(mesh: PackedMesh, planes: Any, rotation: Any, origin: Any, start: float, xs: Any, ys: Any,
              hits: Any, rays: Any, n_rays: int, first: bool, last: bool, step: float, background: Any,
              deep: bool, rgb: Any, depth: Any, alpha: Any) -> int:
    """Add what the first ``n_rays`` rays met; keep the rays that go on, at the front of ``rays``; count them.

    ``hits`` is (face, u, v, t) as Embree gives it. Without ``deep``, ``rgb`` [pixels,3] gets the samples'
    colours added up, in the order of the rays; with it, ``depth`` and ``alpha`` [pixels] are set: the rays
    are then one a pixel. ``planes`` [F,4] are the faces' unit normals and offsets in the centred frame: depth
    is worked out from them in float64, unless the ray grazes the face. ``first`` takes the rays as ``aim``
    left them, ``last`` lets none go on.
    """
    face, u, v, t = hits
    width = len(xs)
    # What the samples of one face have in common is worked out once for a run of them.
    known, m, mode, varies, fresh, side, edge_on = -1, 0, OPAQUE, False, True, 1.0, False
    gap, c0, c1, c2 = 0.0, 0.0, 0.0, 0.0
    r, g, b, a = 0.0, 0.0, 0.0, 1.0
    left, travelled = 1.0, start
    going = 0
    for n in range(n_rays):
        f, p = face[n], rays.pixel[n]
        if not first:
            left, travelled = rays.left[n], rays.travelled[n]
        if f < 0:
            if not deep:
                for k in range(3):
                    rgb[p, k] += left * background[k]
            continue
        if f != known:
            known, fresh = f, True
            m = mesh.material[f]
            mode = mesh.mode[m]
            varies = mesh.tex_offset[m] >= 0 or len(mesh.colors) > 0 or mesh.lit[0] == BY_LIGHTS
            n0, n1, n2 = planes[f, 0], planes[f, 1], planes[f, 2]
            gap = planes[f, 3] - (n0 * origin[0] + n1 * origin[1] + n2 * origin[2])
            edge_on = abs(gap) <= _EDGE_ON * step
            side = 1.0 if gap < 0.0 else -1.0
            c0 = n0 * rotation[0, 0] + n1 * rotation[1, 0] + n2 * rotation[2, 0]
            c1 = n0 * rotation[0, 1] + n1 * rotation[1, 1] + n2 * rotation[2, 1]
            c2 = n0 * rotation[0, 2] + n1 * rotation[1, 2] + n2 * rotation[2, 2]
        if (varies or fresh) and not (deep and mode == OPAQUE):
            r, g, b, a = surface(mesh, f, 1.0 - u[n] - v[n], u[n], v[n], side)
            fresh = False
        part = left
        if edge_on:
            part = 0.0
        elif mode == BLEND:
            part = left * a
        elif mode == MASK and a < mesh.cutoff[m]:
            part = 0.0
        rest = left - part
        far = travelled + t[n]
        if deep:
            x, y = xs[p % width], ys[p // width]
            along = c0 * x + (c1 * y + c2)
            if along * along > _GRAZING * (x * x + y * y + 1.0):
                far = max(gap / along, travelled)
            if rest <= 0.5 and depth[p] == 0.0:
                depth[p] = far
            alpha[p] = 1.0 - rest
        else:
            rgb[p, 0] += part * r
            rgb[p, 1] += part * g
            rgb[p, 2] += part * b
        if rest > 0.0:
            if last:
                if not deep:
                    for k in range(3):
                        rgb[p, k] += rest * background[k]
                continue
            # Never ahead of n: what is overwritten has been read.
            far += max(step, _STEP * far)
            for k in range(3):
                d = rays.direction[n, k]
                rays.direction[going, k] = d
                rays.origin[going, k] = origin[k] + far * d
            rays.pixel[going] = p
            rays.travelled[going] = far
            rays.left[going] = rest
            going += 1
    return going


_jit.watch((aim, composite), (_jit, _pack, _surface_kernels))
