"""Compiled kernels: which face a sample sees, what colour it has there. Imported on the first render only.

No kernel spawns threads: each call does one slab or strip of an image and releases the interpreter lock. No fast
maths: every operation is rounded as IEEE says, in program order, so that results are equal to the bit.
They are one module because the compiler's cache does not notice a change in a function of another file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spatialbench.renderers._pack import BLEND, BY_LIGHTS, BY_NORMAL, ENCODE_STEPS, MASK, OPAQUE, PackedMesh

__all__ = ["MAX_BLEND", "FaceSetup", "aim", "composite", "resolve_depth", "resolve_rgb", "set_up"]

MAX_BLEND = 8
"""Blended layers kept in front of the opaque surface, the nearest ones."""

# Division as numpy does it: a branch that could raise would keep reference counting in the inner loops.
_KERNEL = {"cache": True, "nogil": True, "error_model": "numpy"}
_INLINE = {**_KERNEL, "forceinline": True}
_LIGHT = tuple(x / 1.0069**0.5 for x in (0.3, 0.4, 0.87))
"""Unit vector."""
_GRAZING = 1e-6
"""Squared cosine below which Embree's own distance is kept: the plane's rounding dominates."""
_EDGE_ON = 2.0**-10
"""Of ``step``, a billionth of the mesh's size: nearer to a face's plane than this the camera is in it, and every ray
would meet the face at once; seen edge-on there is nothing of it."""
_STEP = 2.0**-20
"""Step past a surface that light goes through, relative to the distance; 8 spacings of float32."""


class FaceSetup(NamedTuple):
    """Faces that may be in one image.

    Attributes
    ----------
    face : [n] int32, ascending.
    edges : [n,9] float64: three edge functions ``a x + b y + c`` of the ray (x, y, 1) in camera axes,
        positive inside; each is a barycentric weight up to one common factor.
    inverse : [n] float64; times the sum of the three it is the inverse depth.
    side : [n] float64, +1 when the face is seen from its front (by winding), else -1.
    box : [n,4] float64 pixels: left, top, right, bottom.
    """

    face: NDArray[np.int32]
    edges: NDArray[np.float64]
    inverse: NDArray[np.float64]
    side: NDArray[np.float64]
    box: NDArray[np.float64]


@njit(**_KERNEL)
def set_up(mesh: PackedMesh, rotation: Any, position: Any, lens: Any, width: int, height: int) -> FaceSetup:
    """Project the faces for one camera; ``lens`` is fx, fy, cx, cy.

    Edge functions are crosses of camera-space corners (homogeneous rasterisation): no near clipping is
    needed, and two faces that share an edge get exactly opposite functions, so that nothing leaks.
    """
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    n_vertices, n_faces = len(mesh.vertices), len(mesh.faces)
    p = np.empty((n_vertices, 3))
    for i in range(n_vertices):
        x, y, z = mesh.vertices[i, 0] - position[0], mesh.vertices[i, 1] - position[1], \
            mesh.vertices[i, 2] - position[2]
        for k in range(3):
            p[i, k] = rotation[0, k] * x + rotation[1, k] * y + rotation[2, k] * z
    left, right, top, bottom = -cx / fx, (width - cx) / fx, -cy / fy, (height - cy) / fy
    keep = np.zeros(n_faces, np.bool_)
    count = 0
    for f in range(n_faces):
        a, b, c = mesh.faces[f, 0], mesh.faces[f, 1], mesh.faces[f, 2]
        za, zb, zc = p[a, 2], p[b, 2], p[c, 2]
        if za <= 0 and zb <= 0 and zc <= 0:
            continue
        # Outside one side plane of the view with all corners; holds for corners behind the camera too.
        if (p[a, 0] < left * za and p[b, 0] < left * zb and p[c, 0] < left * zc) or \
           (p[a, 0] > right * za and p[b, 0] > right * zb and p[c, 0] > right * zc) or \
           (p[a, 1] < top * za and p[b, 1] < top * zb and p[c, 1] < top * zc) or \
           (p[a, 1] > bottom * za and p[b, 1] > bottom * zb and p[c, 1] > bottom * zc):
            continue
        keep[f] = True
        count += 1
    face = np.empty(count, np.int32)
    edges = np.empty((count, 9))
    inverse = np.empty(count)
    side = np.ones(count)
    box = np.empty((count, 4))
    n = 0
    for f in range(n_faces):
        if not keep[f]:
            continue
        for k in range(3):
            i, j = mesh.faces[f, (k + 1) % 3], mesh.faces[f, (k + 2) % 3]
            edges[n, 3 * k] = p[i, 1] * p[j, 2] - p[i, 2] * p[j, 1]
            edges[n, 3 * k + 1] = p[i, 2] * p[j, 0] - p[i, 0] * p[j, 2]
            edges[n, 3 * k + 2] = p[i, 0] * p[j, 1] - p[i, 1] * p[j, 0]
        a = mesh.faces[f, 0]
        det = edges[n, 0] * p[a, 0] + edges[n, 1] * p[a, 1] + edges[n, 2] * p[a, 2]
        if det == 0.0 or not np.isfinite(det):
            continue  # without area, or seen exactly edge-on
        side[n] = -1.0
        if det < 0.0:
            side[n] = 1.0
            for k in range(9):
                edges[n, k] = -edges[n, k]
        inverse[n] = 1.0 / abs(det)
        if not np.isfinite(inverse[n]):
            continue
        x0, y0, x1, y1 = np.inf, np.inf, -np.inf, -np.inf
        for k in range(3):
            v = mesh.faces[f, k]
            if p[v, 2] <= 0.0:
                x0, y0, x1, y1 = 0.0, 0.0, float(width), float(height)
                break
            x, y = p[v, 0] / p[v, 2] * fx + cx, p[v, 1] / p[v, 2] * fy + cy
            x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x), max(y1, y)
        # A thousandth of a pixel of slack covers the rounding of the projection.
        box[n, 0], box[n, 1] = max(0.0, x0 - 1e-3), max(0.0, y0 - 1e-3)
        box[n, 2], box[n, 3] = min(float(width), x1 + 1e-3), min(float(height), y1 + 1e-3)
        face[n] = f
        n += 1
    return FaceSetup(face[:n], edges[:n], inverse[:n], side[:n], box[:n])


@njit(**_INLINE)
def _wrapped(i: int, n: int, how: int) -> int:
    if how == 0:
        return i % n
    if how == 1:
        i %= 2 * n
        return i if i < n else 2 * n - 1 - i
    return min(max(i, 0), n - 1)


@njit(**_INLINE)
def _texture(mesh: PackedMesh, m: int, u: float, v: float) -> tuple[float, float, float, float]:
    """Linear RGBA at (u, v): row 0 is v = 0, texel centres at halves; filtered in linear light."""
    w, h = mesh.tex_size[m, 0], mesh.tex_size[m, 1]
    at, wrap_u, wrap_v = mesh.tex_offset[m], mesh.tex_wrap[m, 0], mesh.tex_wrap[m, 1]
    # Huge coordinates have no fraction left in float32; keep them inside what int64 holds.
    x, y = min(max(u * w, -1e15), 1e15), min(max(v * h, -1e15), 1e15)
    if mesh.tex_nearest[m] == 1:
        k = at + _wrapped(int(np.floor(y)), h, wrap_v) * w + _wrapped(int(np.floor(x)), w, wrap_u)
        return (mesh.decode[mesh.texels[k, 0]], mesh.decode[mesh.texels[k, 1]], mesh.decode[mesh.texels[k, 2]],
                mesh.texels[k, 3] / 255.0)
    x -= 0.5
    y -= 0.5
    i, j = int(np.floor(x)), int(np.floor(y))
    s, t = x - i, y - j
    i0, i1 = _wrapped(i, w, wrap_u), _wrapped(i + 1, w, wrap_u)
    j0, j1 = at + _wrapped(j, h, wrap_v) * w, at + _wrapped(j + 1, h, wrap_v) * w
    w00, w10, w01, w11 = (1 - s) * (1 - t), s * (1 - t), (1 - s) * t, s * t
    k00, k10, k01, k11 = j0 + i0, j0 + i1, j1 + i0, j1 + i1
    # Written out: a name for an array, or a loop, brings reference counting into the caller's inner loop.
    return (w00 * mesh.decode[mesh.texels[k00, 0]] + w10 * mesh.decode[mesh.texels[k10, 0]]
            + w01 * mesh.decode[mesh.texels[k01, 0]] + w11 * mesh.decode[mesh.texels[k11, 0]],
            w00 * mesh.decode[mesh.texels[k00, 1]] + w10 * mesh.decode[mesh.texels[k10, 1]]
            + w01 * mesh.decode[mesh.texels[k01, 1]] + w11 * mesh.decode[mesh.texels[k11, 1]],
            w00 * mesh.decode[mesh.texels[k00, 2]] + w10 * mesh.decode[mesh.texels[k10, 2]]
            + w01 * mesh.decode[mesh.texels[k01, 2]] + w11 * mesh.decode[mesh.texels[k11, 2]],
            (w00 * mesh.texels[k00, 3] + w10 * mesh.texels[k10, 3]
             + w01 * mesh.texels[k01, 3] + w11 * mesh.texels[k11, 3]) / 255.0)


@njit(**_INLINE)
def _encoded(mesh: PackedMesh, x: float) -> float:
    """sRGB-encoded value of a linear one, by a table over its square root."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    s = np.sqrt(x) * ENCODE_STEPS
    k = int(s)
    s -= k
    return mesh.encode[k] * (1.0 - s) + mesh.encode[k + 1] * s


@njit(**_KERNEL)
def _light(mesh: PackedMesh, f: int, b0: float, b1: float, b2: float, side: float) -> tuple[float, float, float]:
    """What the mesh's lights multiply a matt surface by, linear; see ``_lights``."""
    v, w, lights = mesh.vertices, mesh.faces, mesh.lights
    x = b0 * v[w[f, 0], 0] + b1 * v[w[f, 1], 0] + b2 * v[w[f, 2], 0]
    y = b0 * v[w[f, 0], 1] + b1 * v[w[f, 1], 1] + b2 * v[w[f, 2], 1]
    z = b0 * v[w[f, 0], 2] + b1 * v[w[f, 1], 2] + b2 * v[w[f, 2], 2]
    n0, n1, n2 = side * mesh.normals[f, 0], side * mesh.normals[f, 1], side * mesh.normals[f, 2]
    red, green, blue = 0.0, 0.0, 0.0
    for k in range(len(lights)):
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


@njit(**_INLINE)
def _surface(mesh: PackedMesh, f: int, b0: float, b1: float, b2: float, side: float
             ) -> tuple[float, float, float, float]:
    """Encoded RGB and alpha of face ``f`` at barycentric weights; ``side`` is +1 seen from its front."""
    m = mesh.material[f]
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



@njit(**_KERNEL)
def _alpha(mesh: PackedMesh, f: int, b0: float, b1: float, b2: float) -> float:
    """Alpha alone, as ``_surface`` gives it."""
    return _surface(mesh, f, b0, b1, b2, 1.0)[3]


@njit(**_INLINE)
def _weights(s: FaceSetup, n: int, x: float, y: float) -> tuple[float, float, float]:
    """Barycentric weights of setup entry ``n`` at the ray (x, y, 1)."""
    e = s.edges
    e0 = e[n, 0] * x + (e[n, 1] * y + e[n, 2])
    e1 = e[n, 3] * x + (e[n, 4] * y + e[n, 5])
    e2 = e[n, 6] * x + (e[n, 7] * y + e[n, 8])
    total = e0 + e1 + e2
    return e0 / total, e1 / total, e2 / total


@njit(**_INLINE)
def _span(s: FaceSetup, n: int, y: float, x_first: float, x_step: float, lo: int, hi: int) -> tuple[int, int]:
    """Columns of one row that can be inside: a bound, one column wide of the mark; the caller tests exactly."""
    first, last = float(lo), float(hi)
    for k in range(3):
        a, c = s.edges[n, 3 * k], s.edges[n, 3 * k + 1] * y + s.edges[n, 3 * k + 2]
        if a > 0.0:
            first = max(first, (-c / a - x_first) / x_step - 1.0)
        elif a < 0.0:
            last = min(last, (-c / a - x_first) / x_step + 2.0)
        elif c < 0.0:
            return 0, 0
    if not first < last:
        return 0, 0
    return int(first), int(last)


@njit(**_INLINE)
def _owns(s: FaceSetup, n: int, e0: float, e1: float, e2: float) -> bool:
    """Whether a sample exactly on an edge belongs to this face: of two neighbours exactly one says so.

    Opaque faces do without (to meet both is harmless, to meet none a leak); a blended one must not count twice.
    """
    e = s.edges
    return not ((e0 == 0.0 and (e[n, 0] < 0.0 or (e[n, 0] == 0.0 and e[n, 1] < 0.0)))
                or (e1 == 0.0 and (e[n, 3] < 0.0 or (e[n, 3] == 0.0 and e[n, 4] < 0.0)))
                or (e2 == 0.0 and (e[n, 6] < 0.0 or (e[n, 6] == 0.0 and e[n, 7] < 0.0))))


@njit(**_KERNEL)
def _visibility(mesh: PackedMesh, s: FaceSetup, xs: Any, ys: Any, ss: int, row: int, w_max: float) -> Any:
    """Nearest opaque (or unmasked) face and the nearest blended faces before it, of every sample of a slab.

    ``xs`` and ``ys`` are the rays of the slab's columns and rows, ``row`` its first row, ``ss`` samples a
    pixel side. Nearer means a larger inverse depth; on a tie the lower face stays. Returns the inverse depth
    [r,c] and setup index [r,c] (-1 for none) of the opaque surface, and those of the layers [r,c,K], near
    to far.
    """
    rows, cols = len(ys), len(xs)
    step = (xs[cols - 1] - xs[0]) / (cols - 1) if cols > 1 else 1.0
    near, which = np.zeros((rows, cols)), np.full((rows, cols), -1, np.int32)
    layers = 0
    for blended in range(2):
        if blended == 1 and layers == 0:
            break
        if blended == 1:
            layer_near = np.zeros((rows, cols, MAX_BLEND))
            layer_which = np.full((rows, cols, MAX_BLEND), -1, np.int32)
        for n in range(len(s.face)):
            top, bottom = int(s.box[n, 1] * ss - 0.5), int(s.box[n, 3] * ss + 0.5)
            j0, j1 = max(top - row, 0), min(bottom - row, rows)
            i0, i1 = max(int(s.box[n, 0] * ss - 0.5), 0), min(int(s.box[n, 2] * ss + 0.5), cols)
            if j0 >= j1 or i0 >= i1:
                continue
            mode = mesh.mode[mesh.material[s.face[n]]]
            if s.side[n] < 0.0 and mesh.one_sided[mesh.material[s.face[n]]] == 1:
                continue
            if (mode == BLEND) != (blended == 1):
                layers += blended == 0
                continue
            e, inverse = s.edges[n], s.inverse[n]
            for j in range(j0, j1):
                y = ys[j]
                first, last = _span(s, n, y, xs[0], step, i0, i1)
                c0, c1, c2 = e[1] * y + e[2], e[4] * y + e[5], e[7] * y + e[8]
                for i in range(first, last):
                    x = xs[i]
                    e0, e1, e2 = e[0] * x + c0, e[3] * x + c1, e[6] * x + c2
                    if e0 < 0.0 or e1 < 0.0 or e2 < 0.0:
                        continue
                    total = e0 + e1 + e2
                    w = total * inverse
                    if w <= near[j, i] or w > w_max:
                        continue
                    if blended == 0:
                        if mode == MASK and _alpha(mesh, s.face[n], e0 / total, e1 / total, e2 / total) < \
                                mesh.cutoff[mesh.material[s.face[n]]]:
                            continue
                        near[j, i] = w
                        which[j, i] = n
                    elif w > layer_near[j, i, MAX_BLEND - 1] and _owns(s, n, e0, e1, e2):
                        k = MAX_BLEND - 1
                        while k > 0 and w > layer_near[j, i, k - 1]:
                            layer_near[j, i, k] = layer_near[j, i, k - 1]
                            layer_which[j, i, k] = layer_which[j, i, k - 1]
                            k -= 1
                        layer_near[j, i, k] = w
                        layer_which[j, i, k] = n
    if layers == 0:
        layer_near, layer_which = np.zeros((rows, cols, 0)), np.zeros((rows, cols, 0), np.int32)
    return near, which, layer_near, layer_which


@njit(**_KERNEL)
def resolve_rgb(mesh: PackedMesh, s: FaceSetup, xs: Any, ys: Any, ss: int, row: int, w_max: float,
                background: Any, out: Any) -> None:
    """Draw a slab of ``len(ys) / ss`` pixel rows into ``out`` [rows,W,3]: the mean of ss x ss samples."""
    _near, which, _, layer_which = _visibility(mesh, s, xs, ys, ss, row, w_max)
    share = 1.0 / (ss * ss)
    for pj in range(out.shape[0]):
        for pi in range(out.shape[1]):
            r, g, b = 0.0, 0.0, 0.0
            for q in range(ss * ss):
                j, i = pj * ss + q // ss, pi * ss + q % ss
                left = 1.0
                for k in range(layer_which.shape[2] + 1):
                    opaque = k == layer_which.shape[2]
                    n = which[j, i] if opaque else layer_which[j, i, k]
                    if n < 0:
                        continue
                    b0, b1, b2 = _weights(s, n, xs[i], ys[j])
                    cr, cg, cb, ca = _surface(mesh, s.face[n], b0, b1, b2, s.side[n])
                    part = left if opaque else left * ca
                    r += part * cr
                    g += part * cg
                    b += part * cb
                    left -= part
                r += left * background[0]
                g += left * background[1]
                b += left * background[2]
            out[pj, pi, 0] = r * share
            out[pj, pi, 1] = g * share
            out[pj, pi, 2] = b * share


@njit(**_KERNEL)
def resolve_depth(mesh: PackedMesh, s: FaceSetup, xs: Any, ys: Any, ss: int, row: int, w_max: float,
                  depth: Any, alpha: Any) -> None:
    """Depth and alpha of a slab's samples, both [rows,W]; depth is where half of the light is gone."""
    near, which, layer_near, layer_which = _visibility(mesh, s, xs, ys, ss, row, w_max)
    for j in range(len(ys)):
        for i in range(len(xs)):
            left, z = 1.0, 0.0
            for k in range(layer_which.shape[2]):
                n = layer_which[j, i, k]
                if n < 0:
                    break
                b0, b1, b2 = _weights(s, n, xs[i], ys[j])
                left *= 1.0 - _alpha(mesh, s.face[n], b0, b1, b2)
                if z == 0.0 and left <= 0.5:
                    z = 1.0 / layer_near[j, i, k]
            if which[j, i] >= 0:
                if z == 0.0:
                    z = 1.0 / near[j, i]
                left = 0.0
            depth[j, i] = z
            alpha[j, i] = 1.0 - left


@njit(**_KERNEL)
def aim(rotation: Any, origin: Any, start: float, xs: Any, ys: Any, ss: int, rays: Any) -> None:
    """Rays through the samples of a strip, row by row; ``rays`` is a ``RayBatch`` with room for them.

    ``xs`` and ``ys`` are the columns' and rows' rays at depth 1, so that distance along a ray is depth;
    ``origin`` is the camera in the ray caster's centred frame and ``start`` the depth that rays begin at.
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
            r, g, b, a = _surface(mesh, f, 1.0 - u[n] - v[n], u[n], v[n], side)
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
