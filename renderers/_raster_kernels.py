"""Compiled kernels of the exact z-buffer: faces projected, which one a sample sees, its colour or depth.

Imported on the first render only. No fast maths: every operation is rounded as IEEE says, in program order, so that
results are equal to the bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spatialbench.renderers import _jit, _pack, _surface_kernels
from spatialbench.renderers._jit import HELPER, INLINE, KERNEL
from spatialbench.renderers._pack import BLEND, MASK, PackedMesh
from spatialbench.renderers._surface_kernels import alpha_of, surface

__all__ = ["MAX_BLEND", "FaceSetup", "resolve_depth", "resolve_rgb", "set_up"]

MAX_BLEND = 8
"""Blended layers kept in front of the opaque surface, the nearest ones."""


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


@njit(**KERNEL)
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


@njit(**INLINE)
def _weights(s: FaceSetup, n: int, x: float, y: float) -> tuple[float, float, float]:
    """Barycentric weights of setup entry ``n`` at the ray (x, y, 1)."""
    e = s.edges
    e0 = e[n, 0] * x + (e[n, 1] * y + e[n, 2])
    e1 = e[n, 3] * x + (e[n, 4] * y + e[n, 5])
    e2 = e[n, 6] * x + (e[n, 7] * y + e[n, 8])
    total = e0 + e1 + e2
    return e0 / total, e1 / total, e2 / total


@njit(**INLINE)
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


@njit(**INLINE)
def _owns(s: FaceSetup, n: int, e0: float, e1: float, e2: float) -> bool:
    """Whether a sample exactly on an edge belongs to this face: of two neighbours exactly one says so.

    Opaque faces do without (to meet both is harmless, to meet none a leak); a blended one must not count twice.
    """
    e = s.edges
    return not ((e0 == 0.0 and (e[n, 0] < 0.0 or (e[n, 0] == 0.0 and e[n, 1] < 0.0)))
                or (e1 == 0.0 and (e[n, 3] < 0.0 or (e[n, 3] == 0.0 and e[n, 4] < 0.0)))
                or (e2 == 0.0 and (e[n, 6] < 0.0 or (e[n, 6] == 0.0 and e[n, 7] < 0.0))))


@njit(**HELPER)
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
                        if mode == MASK and alpha_of(mesh, s.face[n], e0 / total, e1 / total, e2 / total) < \
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


@njit(**KERNEL)
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
                    cr, cg, cb, ca = surface(mesh, s.face[n], b0, b1, b2, s.side[n])
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


@njit(**KERNEL)
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
                left *= 1.0 - alpha_of(mesh, s.face[n], b0, b1, b2)
                if z == 0.0 and left <= 0.5:
                    z = 1.0 / layer_near[j, i, k]
            if which[j, i] >= 0:
                if z == 0.0:
                    z = 1.0 / near[j, i]
                left = 0.0
            depth[j, i] = z
            alpha[j, i] = 1.0 - left


_jit.watch((set_up, resolve_rgb, resolve_depth), (_jit, _pack, _surface_kernels))
