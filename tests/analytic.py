"""Analytic worlds: small meshes whose scores are known without running the engine.

Frame of every builder: X right, Y forward, Z up, metres, floor at z = 0. The camera that the answers are
for stands at ``EYE`` = (0, 0, 1.6), looks along +Y and is level; the nine scale rays then meet the floor
1.6 m below, so the scale is 1 and the world frame is this frame moved down by 1.6 m.
``write_glb`` turns to glTF's Y-up frame on the way out: file (x, z, -y), camera looking along -Z.

Single sheets are wound towards the inside of a room, solids outwards.
"""

from __future__ import annotations

import io
import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from spatialbench.types import Material, Pose, TriangleMesh

EYE = (0.0, 0.0, 1.6)
"""Where the answers' camera stands."""

Vec = tuple[float, float, float]


class Soup:
    """Collects quads and boxes; corners of one call share vertices, calls do not."""

    def __init__(self) -> None:
        self.v: list[Vec] = []
        self.f: list[tuple[int, int, int]] = []

    def quad(self, a: Vec, b: Vec, c: Vec, d: Vec) -> None:
        """Two triangles, counter-clockwise seen from the side they face."""
        n = len(self.v)
        self.v += [a, b, c, d]
        self.f += [(n, n + 1, n + 2), (n, n + 2, n + 3)]

    def hexa(self, bottom: list[Vec], top: list[Vec], inward: bool = False, skip: str = "") -> None:
        """Closed solid from four bottom and four top corners, each counter-clockwise from above.

        ``skip`` leaves out sides: b, t, and 0..3 (side k joins corners k and k + 1).
        """
        n = len(self.v)
        self.v += bottom + top
        sides = {"b": (3, 2, 1, 0), "t": (4, 5, 6, 7)}
        sides.update({str(k): (k, (k + 1) % 4, 4 + (k + 1) % 4, 4 + k) for k in range(4)})
        for name, (a, b, c, d) in sides.items():
            if name in skip:
                continue
            two = [(a, b, c), (a, c, d)]
            self.f += [(n + i, n + k, n + j) if inward else (n + i, n + j, n + k) for i, j, k in two]

    def box(self, lo: Vec, hi: Vec, inward: bool = False, skip: str = "") -> None:
        """Axis-aligned box; sides 0..3 are -Y, +X, +Y, -X."""
        (x0, y0, z0), (x1, y1, z1) = lo, hi
        ring = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
        self.hexa([(x, y, z0) for x, y in ring], [(x, y, z1) for x, y in ring], inward, skip)

    def mesh(self) -> TriangleMesh:
        """What was collected."""
        return TriangleMesh(np.array(self.v, dtype=np.float64), np.array(self.f, dtype=np.int32))


@dataclass(frozen=True)
class Panel:
    """A rectangle of the north wall: x0 <= x <= x1, z0 <= z <= z1, in the plane y."""

    y: float
    x0: float
    x1: float
    z0: float
    z1: float

    @property
    def area(self) -> float:
        """Square metres."""
        return (self.x1 - self.x0) * (self.z1 - self.z0)


# --- rooms ------------------------------------------------------------------------------------------------


def north_panel(fraction: float, sx: float = 6.0, sy: float = 5.0, sz: float = 2.7) -> Panel:
    """The panel in the middle of ``box_room``'s north wall that takes ``fraction`` of its area."""
    k = math.sqrt(fraction)
    return Panel(sy / 2, -k * sx / 2, k * sx / 2, sz / 2 * (1 - k), sz / 2 * (1 + k))


def box_room(sx: float = 6.0, sy: float = 5.0, sz: float = 2.7, hole: float = 0.0) -> TriangleMesh:
    """Inward single-sheet shell of sx by sy by sz around the origin of the floor.

    ``hole`` is the share of the north wall (y = sy/2) that is missing: ``north_panel(hole, ...)``.

    Known: area 2 (sx sy + sx sz + sy sz) - hole sx sz; closed, volume sx sy sz, when hole = 0; every face
    looks at the centre, so the share of area facing the camera is 1; hole rate 0, or ``panel_hole_rate``
    of the panel; one NavMesh component, whose border keeps 0.10 to 0.20 m from the walls (two 0.05 m
    voxels of erosion, the wall's own voxel, and up to one more where the contour is simplified); no
    support; no path sample out of bounds when the room reaches more than 2 m each way.
    """
    s = Soup()
    lo, hi = (-sx / 2, -sy / 2, 0.0), (sx / 2, sy / 2, sz)
    if hole <= 0:
        s.box(lo, hi, inward=True)
        return s.mesh()
    s.box(lo, hi, inward=True, skip="2")
    p = north_panel(hole, sx, sy, sz)
    xs, zs = [lo[0], p.x0, p.x1, hi[0]], [0.0, p.z0, p.z1, sz]
    for i in range(3):
        for k in range(3):
            (x0, x1), (z0, z1) = (xs[i], xs[i + 1]), (zs[k], zs[k + 1])
            if (i, k) != (1, 1) and x1 > x0 and z1 > z0:
                s.quad((x0, p.y, z0), (x1, p.y, z0), (x1, p.y, z1), (x0, p.y, z1))
    return s.mesh()


def no_floor_room(sx: float = 6.0, sy: float = 5.0, sz: float = 2.7) -> TriangleMesh:
    """``box_room`` without its floor.

    Known: none of the nine rays hits, so the scale falls back to depth; nothing walkable (the ceiling
    looks down), so M08 is a measured 0 while the footprint is not empty; the down probe is all hole.
    """
    s = Soup()
    s.box((-sx / 2, -sy / 2, 0.0), (sx / 2, sy / 2, sz), inward=True, skip="b")
    return s.mesh()


def open_plane(size: float = 20.0) -> TriangleMesh:
    """A square floor around the origin and nothing else.

    Known: scale 1; hole rate over one half (everything above the horizon, and the ground beyond the edge:
    ``plane_hole_rate``); one NavMesh component that keeps about 0.15 m from every edge (one cell for the
    ledge, two for the erosion); no interior.
    """
    s = Soup()
    h = size / 2
    s.quad((-h, -h, 0.0), (h, -h, 0.0), (h, h, 0.0), (-h, h, 0.0))
    return s.mesh()


def corridor(ahead: float = 1.12, behind: float = 6.03, half_width: float = 3.03,
             height: float = 2.7) -> TriangleMesh:
    """Floor, ceiling and two side walls from y = -behind to y = ahead; the ends are open.

    Known out-of-bounds samples: ``corridor_out_of_bounds``. Why: a sample beyond an open end has no
    geometry in the half-space ahead of it, which is exactly half of the pixels of six cube faces, and the
    far open end adds some more, so h6 > 0.5 and it exceeds min(h6_0 + 0.10, 0.5) whatever h6_0 is; its
    place is in no footprint cell. A sample inside is in the footprint, so it is in bounds. Side walls at
    least 0.10 m from the path leave every sample free.
    """
    s = Soup()
    w = half_width
    s.box((-w, -behind, 0.0), (w, ahead, height), inward=True, skip="02")
    return s.mesh()


def corridor_out_of_bounds(ahead: float = 1.12, behind: float = 6.03, half_width: float = 3.03,
                           reach: float = 2.0, step: float = 0.25) -> tuple[int, int]:
    """Samples outside and all samples of the closed cross path (W S W A D A, ``reach`` m, ``step`` m apart).

    Default corridor: forward at 1.25, 1.50, 1.75, 2.00 m and back at 1.75, 1.50, 1.25 m: 7 of 65.
    The ends and sides must not lie in the footprint cell (0.05 m) of a sample.
    """
    n = round(reach / step)

    def beyond(limit: float) -> int:
        k = sum(1 for i in range(1, n + 1) if i * step > limit)
        return 2 * k - 1 if k else 0  # the turning point is sampled once, all others going and coming

    outside = beyond(ahead) + beyond(behind) + 2 * beyond(half_width)
    return outside, 8 * n + 1


def camera_in_wall(half_thickness: float = 0.18, sx: float = 6.0, sy: float = 5.0,
                   sz: float = 2.7) -> TriangleMesh:
    """``box_room`` with a wall from side to side, |y| < half_thickness, that the camera stands in.

    Known (surfaces seen from both sides): the nine rays, which spread by 0.16 m, meet the floor when
    half_thickness > 0.16, so the scale is 1 in spite of it; the ring's views along Y see the wall's own
    faces, so the 10th percentile of level depth is 0.79 to 1.0 times half_thickness (a z-depth is shortest,
    by 1 / sqrt(1 + tan(37.5 deg)^2) = 0.79, at the edge of a view), under the gate's 0.3 m:
    ``camera_inside_geometry``. With half_thickness = 0.6 the gate stays down.
    """
    s = Soup()
    s.box((-sx / 2, -sy / 2, 0.0), (sx / 2, sy / 2, sz), inward=True)
    t = half_thickness
    s.box((-sx / 2, -t, 0.0), (sx / 2, t, sz), skip="bt13")
    return s.mesh()


# --- furniture --------------------------------------------------------------------------------------------

TABLE_CENTRE = (0.6, 1.2)
TABLE_SIZE = (1.4, 0.8)
TABLE_HEIGHT = 0.75
TABLE_HOLE = (0.5, 0.4)
"""Extent in X and Y of the hole of the variant ``hole``, around the table's centre."""


def table_room(variant: str = "table", tilt_deg: float = 20.0) -> TriangleMesh:
    """``box_room`` (6 by 5 by 2.7) with a table of 1.4 by 0.8 m, top at 0.75 m, 3 cm thick, four legs.

    Known, by ``variant``:

    ``table``  one support of 1.12 m2 at 0.75 m; six plates (0.22 m) fit far apart and all six stay: 1.0.
    ``hole``   the same with a hole of 0.5 by 0.4 m in the middle: support area 0.92 m2; strips of 0.45 m
               left and right hold plates, strips of 0.20 m in front and behind do not; a plate released
               over the table's centre falls to the floor: its drop exceeds 0.10 m.
    ``tilted`` the top turned by ``tilt_deg`` about the X axis through its centre: a level plate 1 cm above
               the median starts with its uphill rim 0.11 tan(tilt) - 0.01 = 3 cm inside at 20 degrees: every
               trial fails by its initial penetration; over 15 degrees it is no support that is found.
    ``none``   no table, no support.

    The table is a closed solid of its own (top) and four closed legs.
    """
    s = Soup()
    s.box((-3.0, -2.5, 0.0), (3.0, 2.5, 2.7), inward=True)
    if variant == "none":
        return s.mesh()
    (cx, cy), (w, d), h, t, leg = TABLE_CENTRE, TABLE_SIZE, TABLE_HEIGHT, 0.03, 0.05
    k = math.tan(math.radians(tilt_deg)) if variant == "tilted" else 0.0

    def top_at(y: float) -> float:
        return h + k * (y - cy)

    def slab(x0: float, x1: float, y0: float, y1: float) -> None:
        ring = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
        s.hexa([(x, y, top_at(y) - t) for x, y in ring], [(x, y, top_at(y)) for x, y in ring])

    x0, x1, y0, y1 = cx - w / 2, cx + w / 2, cy - d / 2, cy + d / 2
    if variant == "hole":
        _holed_slab(s, (x0, x1, y0, y1), TABLE_HOLE, h, t)
    elif variant in ("table", "tilted"):
        slab(x0, x1, y0, y1)
    else:
        raise ValueError(f"no table variant '{variant}'")
    for lx in (x0, x1 - leg):
        for ly in (y0, y1 - leg):
            ring = [(lx, ly), (lx + leg, ly), (lx + leg, ly + leg), (lx, ly + leg)]
            s.hexa([(x, y, 0.0) for x, y in ring], [(x, y, top_at(y) - t) for x, y in ring])
    return s.mesh()


def _holed_slab(s: Soup, outer: tuple[float, float, float, float], hole: tuple[float, float],
                h: float, t: float) -> None:
    """Closed slab (genus one) with a rectangular hole through its middle."""
    x0, x1, y0, y1 = outer
    cx, cy = (x0 + x1) / 2, (y0 + y1) / 2
    xs = [x0, cx - hole[0] / 2, cx + hole[0] / 2, x1]
    ys = [y0, cy - hole[1] / 2, cy + hole[1] / 2, y1]
    for i in range(3):
        for j in range(3):
            if (i, j) == (1, 1):
                continue
            lo, hi = (xs[i], ys[j], h - t), (xs[i + 1], ys[j + 1], h)
            # Keep a side only where it is on the outside or faces the hole.
            open_to = {"0": j == 0 or (i, j) == (1, 2), "1": i == 2 or (i, j) == (0, 1),
                       "2": j == 2 or (i, j) == (1, 0), "3": i == 0 or (i, j) == (2, 1)}
            s.box(lo, hi, skip="".join(k for k, o in open_to.items() if not o))


# --- walking ----------------------------------------------------------------------------------------------


def two_rooms(door: float = 0.9, sx: float = 8.0, sy: float = 4.0, sz: float = 2.8,
              thickness: float = 0.12, x_wall: float = 1.5, y_door: float = 0.13) -> TriangleMesh:
    """Shell of sx by sy by sz, parted by a wall (solid, x_wall < x < x_wall + thickness) with a doorway.

    Known: the doorway is ``door`` wide, 2.05 m high and centred on y_door. The agent's 0.1 m radius is two
    voxels a side, walls take up to one more a side: a door of up to 0.25 m is closed (two NavMesh
    components, the larger one is the camera's, x < x_wall), one of 0.40 m or more is open (one component).
    """
    s = Soup()
    s.box((-sx / 2, -sy / 2, 0.0), (sx / 2, sy / 2, sz), inward=True)
    a, b = y_door - door / 2, y_door + door / 2
    x0, x1 = x_wall, x_wall + thickness
    s.box((x0, -sy / 2, 0.0), (x1, a, sz), skip="bt0")
    s.box((x0, b, 0.0), (x1, sy / 2, sz), skip="bt2")
    s.box((x0, a, 2.05), (x1, b, sz), skip="t02")
    return s.mesh()


def stairs(riser: float = 0.15, n: int = 10, tread: float = 0.30, width: float = 1.6,
           landing: float = 3.0) -> TriangleMesh:
    """A floor slab, ``n`` solid steps rising along +Y from y = 1, and an upper slab; all open to the sky.

    Known: risers of 0.15 m are always climbed (a step of one 0.2 m voxel), so floor, steps and landing are
    one component; risers of 0.45 m (two voxels or more wherever they fall) never are: floor and landing
    are apart, and with treads under 0.35 m the steps themselves are eroded away.
    """
    s = Soup()
    half, base, y0 = 2.0, -0.3, 1.0
    s.box((-half, -3.0, base), (half, y0, 0.0))
    for k in range(n):
        s.box((-width / 2, y0 + k * tread, base), (width / 2, y0 + (k + 1) * tread, (k + 1) * riser))
    end = y0 + n * tread
    s.box((-half, end, base), (half, end + landing, n * riser))
    return s.mesh()


def ramp(slope_deg: float = 30.0, rise: float = 1.5, width: float = 1.6, landing: float = 3.0) -> TriangleMesh:
    """A floor slab, a solid ramp rising along +Y from y = 1, and an upper slab.

    Known: 45 degrees is a strict limit on the triangles' normals: up to 40 degrees floor, ramp and landing
    are one component; from 50 degrees floor and landing are apart.
    """
    s = Soup()
    half, base, y0 = 2.0, -0.3, 1.0
    y1 = y0 + rise / math.tan(math.radians(slope_deg))
    s.box((-half, -3.0, base), (half, y0, 0.0))
    ring = [(-width / 2, y0), (width / 2, y0), (width / 2, y1), (-width / 2, y1)]
    s.hexa([(x, y, base) for x, y in ring], [(x, y, 0.0 if y == y0 else rise) for x, y in ring])
    s.box((-half, y1, base), (half, y1 + landing, rise))
    return s.mesh()


# --- expected hole rates, without the engine ---------------------------------------------------------------


def ring_rays(frame: int, frames: int = 36, width: int = 768, height: int = 768,
              fov_deg: float = 75.0) -> NDArray[np.float64]:
    """[height*width,3] directions of the centre rays of a level ring view, z-depth 1 along its axis.

    Frame k looks at bearing 360 k / frames, clockwise from +Y. Written without the engine's cameras.
    """
    f = width / 2 / math.tan(math.radians(fov_deg) / 2)
    i, j = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    right, up = (i.ravel() - width / 2) / f, (height / 2 - j.ravel()) / f
    b = math.radians(360.0 * frame / frames)
    return np.stack([math.sin(b) + right * math.cos(b), math.cos(b) - right * math.sin(b), up], axis=1)


def panel_hole_rate(panel: Panel, eye: ArrayLike = EYE, frames: int = 36, size: int = 768,
                    fov_deg: float = 75.0) -> float:
    """Share of the ring's pixels whose centre ray leaves a closed convex room through ``panel``."""
    ex, ey, ez = np.asarray(eye, dtype=np.float64)
    seen = 0
    for k in range(frames):
        d = ring_rays(k, frames, size, size, fov_deg)
        ahead = d[d[:, 1] > 1e-12]
        t = (panel.y - ey) / ahead[:, 1]
        x, z = ex + t * ahead[:, 0], ez + t * ahead[:, 2]
        seen += int(((x > panel.x0) & (x < panel.x1) & (z > panel.z0) & (z < panel.z1)).sum())
    return seen / (frames * size * size)


def plane_hole_rate(size: float = 20.0, eye: ArrayLike = EYE, frames: int = 36, pixels: int = 768,
                    fov_deg: float = 75.0) -> float:
    """Share of the ring's pixels whose centre ray misses ``open_plane(size)``."""
    ex, ey, ez = np.asarray(eye, dtype=np.float64)
    hit = 0
    for k in range(frames):
        d = ring_rays(k, frames, pixels, pixels, fov_deg)
        down = d[d[:, 2] < -1e-12]
        t = -ez / down[:, 2]
        hit += int(((np.abs(ex + t * down[:, 0]) < size / 2) & (np.abs(ey + t * down[:, 1]) < size / 2)).sum())
    return 1.0 - hit / (frames * pixels * pixels)


# --- looks ------------------------------------------------------------------------------------------------


def checker_texture(size: int = 64, squares: int = 8) -> NDArray[np.uint8]:
    """[size,size,4] opaque checkerboard; its four corners' squares are red, green, blue and white."""
    i, j = np.meshgrid(*(np.arange(size) * squares // size,) * 2)
    out = np.where(((i + j) % 2 == 0)[..., None], np.uint8(210), np.uint8(60)).repeat(4, axis=2)
    out[..., 3] = 255
    last = squares - 1
    for (row, col), colour in {(0, 0): (255, 0, 0), (0, last): (0, 255, 0), (last, 0): (0, 0, 255),
                               (last, last): (255, 255, 255)}.items():
        out[(j == row) & (i == col), :3] = colour
    return out


def textured(mesh: TriangleMesh, texture: NDArray[np.uint8] | None = None,
             metres_per_tile: float = 1.0, unlit: bool = True) -> TriangleMesh:
    """The mesh with a texture laid on along each face's dominant axis, repeating every so many metres."""
    t = mesh.triangles
    axis = np.abs(mesh.area_vectors()).argmax(axis=1)
    pick = np.array([[1, 2], [0, 2], [0, 1]])[axis]
    uv = np.take_along_axis(t, pick[:, None, :].repeat(3, axis=1), axis=2) / metres_per_tile
    uv[..., 1] *= -1
    m = Material("checker", texture=checker_texture() if texture is None else texture, unlit=unlit)
    return TriangleMesh(mesh.vertices, mesh.faces, mesh.material_ids, (m,), uv.astype(np.float32), mesh.colors)


def coloured(mesh: TriangleMesh) -> TriangleMesh:
    """The mesh with vertex colours: each face the colour of its normal, 0.5 + 0.5 n, linear."""
    n = mesh.area_vectors()
    n = n / np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-300)
    rgba = np.concatenate([0.5 + 0.5 * n, np.ones((len(n), 1))], axis=1)
    c = np.ascontiguousarray(rgba[:, None, :].repeat(3, axis=1), dtype=np.float32)
    return TriangleMesh(mesh.vertices, mesh.faces, mesh.material_ids, mesh.materials, mesh.uv, c)


# --- files ------------------------------------------------------------------------------------------------

_TO_FILE = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
_WRAP = {"repeat": 10497, "mirror": 33648, "clamp": 33071}
_FILTER = {"linear": 9729, "nearest": 9728}


def write_glb(path: Path, mesh: TriangleMesh, camera: Pose | None = None, fov_deg: float = 75.0) -> Path:
    """Binary glTF 2.0 of a mesh in the builders' frame (Z up), written Y-up: file (x, z, -y).

    One primitive per material; textures as PNG inside; vertex colours as COLOR_0; ``Material.unlit`` as
    KHR_materials_unlit. ``camera``, also in the builders' frame, becomes a perspective camera node.
    Positions are float32. Returns ``path``.
    """
    g: dict[str, Any] = {"asset": {"version": "2.0", "generator": "spatialbench tests"}, "scene": 0,
                         "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0, "name": "world"}],
                         "meshes": [{"primitives": []}], "materials": [], "accessors": [], "bufferViews": []}
    blob = bytearray()

    def view(data: bytes, target: int | None = None) -> int:
        blob.extend(b"\0" * (-len(blob) % 4))
        g["bufferViews"].append({"buffer": 0, "byteOffset": len(blob), "byteLength": len(data)}
                                | ({"target": target} if target else {}))
        blob.extend(data)
        return len(g["bufferViews"]) - 1

    def accessor(a: NDArray[Any], kind: str, component: int, target: int, bounds: bool = False) -> int:
        flat = a.reshape(len(a), -1)
        limits = {"min": flat.min(0).tolist(), "max": flat.max(0).tolist()} if bounds else {}
        g["accessors"].append({"bufferView": view(a.tobytes(), target), "componentType": component,
                               "count": len(a), "type": kind} | limits)
        return len(g["accessors"]) - 1

    points = (mesh.vertices @ _TO_FILE.T).astype("<f4")
    for index, m in enumerate(mesh.materials):
        g["materials"].append(_material(g, m, view))
        chosen = mesh.material_ids == index
        if not chosen.any():
            continue
        faces = mesh.faces[chosen]
        if mesh.uv is None and mesh.colors is None:
            used, inverse = np.unique(faces, return_inverse=True)
            p, faces = points[used], inverse.reshape(-1, 3)
        else:  # attributes are per corner
            p, faces = points[faces.ravel()], np.arange(faces.size).reshape(-1, 3)
        attributes = {"POSITION": accessor(p, "VEC3", 5126, 34962, bounds=True)}
        if mesh.uv is not None:
            attributes["TEXCOORD_0"] = accessor(mesh.uv[chosen].reshape(-1, 2).astype("<f4"), "VEC2", 5126, 34962)
        if mesh.colors is not None:
            attributes["COLOR_0"] = accessor(mesh.colors[chosen].reshape(-1, 4).astype("<f4"), "VEC4", 5126, 34962)
        indices = accessor(faces.astype("<u4").ravel(), "SCALAR", 5125, 34963)
        g["meshes"][0]["primitives"].append({"attributes": attributes, "indices": indices, "material": index})
    if camera is not None:
        _add_camera(g, camera, fov_deg)
    if any(m.unlit for m in mesh.materials):
        g["extensionsUsed"] = ["KHR_materials_unlit"]
    blob.extend(b"\0" * (-len(blob) % 4))
    g["buffers"] = [{"byteLength": len(blob)}]
    text = json.dumps(g, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 28 + len(text) + len(blob))
                     + struct.pack("<I4s", len(text), b"JSON") + text
                     + struct.pack("<I4s", len(blob), b"BIN\0") + bytes(blob))
    return path


def _material(g: dict[str, Any], m: Material, view: Any) -> dict[str, Any]:
    pbr: dict[str, Any] = {"baseColorFactor": list(m.base_color), "metallicFactor": 0.0, "roughnessFactor": 1.0}
    if m.texture is not None:
        png = io.BytesIO()
        Image.fromarray(m.texture).save(png, "PNG")
        for key in ("images", "samplers", "textures"):
            g.setdefault(key, [])
        g["images"].append({"bufferView": view(png.getvalue()), "mimeType": "image/png"})
        g["samplers"].append({"wrapS": _WRAP[m.wrap[0]], "wrapT": _WRAP[m.wrap[1]],
                              "magFilter": _FILTER[m.filter], "minFilter": _FILTER[m.filter]})
        g["textures"].append({"source": len(g["images"]) - 1, "sampler": len(g["samplers"]) - 1})
        pbr["baseColorTexture"] = {"index": len(g["textures"]) - 1}
    out: dict[str, Any] = {"name": m.name, "pbrMetallicRoughness": pbr, "alphaMode": m.alpha_mode.upper(),
                           "doubleSided": m.double_sided, "emissiveFactor": list(m.emissive)}
    if m.alpha_mode == "mask":
        out["alphaCutoff"] = m.alpha_cutoff
    if m.unlit:
        out["extensions"] = {"KHR_materials_unlit": {}}
    return out


def _add_camera(g: dict[str, Any], pose: Pose, fov_deg: float) -> None:
    """glTF cameras look along -Z with +Y up; ours along +z with y down."""
    m = np.eye(4)
    m[:3, :3] = _TO_FILE @ pose.rotation @ np.diag([1.0, -1.0, -1.0])
    m[:3, 3] = _TO_FILE @ pose.position
    g["cameras"] = [{"type": "perspective",
                     "perspective": {"yfov": math.radians(fov_deg), "aspectRatio": 1.0, "znear": 0.01}}]
    g["nodes"].append({"camera": 0, "name": "camera", "matrix": m.T.ravel().tolist()})
    g["scenes"][0]["nodes"].append(len(g["nodes"]) - 1)
