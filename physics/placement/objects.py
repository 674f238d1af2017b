"""Bodies that are put on a support: the benchmark's plate, and others that are not the benchmark's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import SimulationError, UsageError
from spatialbench.physics.placement.release import plate_mass
from spatialbench.types.placement import PlacedObject, PlacementSettings

__all__ = ["BUILT_IN", "bottom", "built_in", "height", "hull_object", "lowest_point_of", "object_mesh", "plan_radius",
           "plate", "rotation", "underside"]

Quaternion = Sequence[float]
_LEVEL = (0.0, 0.0, 0.0, 1.0)
_RIM = 32
_FLUSH = 0.001
"""Corners of a hull so near to its lowest one belong to its underside, m."""
_SIDES = 48
_MAX_CORNERS = 400
_OTHERS: dict[str, tuple[str, tuple[float, ...], float, str]] = {
    "mug": ("cylinder", (0.04, 0.095), 0.35, "a full cylinder of 8 cm by 9.5 cm, 350 g"),
    "book": ("box", (0.15, 0.21, 0.03), 0.45, "a box of 15 by 21 by 3 cm, lying, 450 g"),
    "ball": ("sphere", (0.0335,), 0.058, "a ball of 6.7 cm, 58 g"),
}
BUILT_IN = ("plate", *_OTHERS)
"""Names for :func:`built_in`."""


def plate(s: PlacementSettings) -> PlacedObject:
    """The plate of the protocol: a solid cylinder (spec section 7)."""
    return PlacedObject("plate", "cylinder", (s.plate_diameter / 2, s.plate_thickness), plate_mass(s), s.plate_friction,
                        benchmark=True, note="the benchmark's plate")


def built_in(name: str, s: PlacementSettings) -> PlacedObject:
    """The plate, ``mug``, ``book`` or ``ball``; their friction is the plate's.

    Raises
    ------
    UsageError : another name.
    """
    if name == "plate":
        return plate(s)
    if name not in _OTHERS:
        raise UsageError(f"no built-in object '{name:.60}'", where="placement",
                         todo=f"Use one of {', '.join(BUILT_IN)}, or give a URDF, OBJ or other mesh file")
    shape, size, mass, note = _OTHERS[name]
    return PlacedObject(name, shape, size, mass, s.plate_friction, note=note)


def hull_object(name: str, points: ArrayLike, centre_of_mass: ArrayLike | None, mass: float, friction: float,
                note: str = "") -> PlacedObject:
    """The convex hull of points as a body.

    On a surface without deep hollows a body rests on its hull's corners, so the hollows of a cup do not matter.

    Parameters
    ----------
    points : [N,3] m, Z up, finite.
    centre_of_mass : [3] in the same frame; that of the solid hull when None.

    Raises
    ------
    SimulationError : the points enclose no volume, or numbers that are no body.
    """
    from scipy.spatial import ConvexHull, QhullError

    p = np.asarray(points, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != 3 or len(p) < 4 or not np.isfinite(p).all() or not 0 < mass < math.inf:
        raise SimulationError("a body needs at least four finite points and a positive mass", where=f"object '{name}'",
                              todo="Look at the file with 'spatialbench inspect'")
    try:
        hull = ConvexHull(p)
    except (QhullError, ValueError) as error:
        raise SimulationError("its convex hull has no volume", where=f"object '{name}'",
                              todo="Give an object that is not flat") from error
    corners = p[np.sort(hull.vertices)]
    centre = _centroid(p, hull) if centre_of_mass is None else np.asarray(centre_of_mass, dtype=np.float64)
    if len(corners) > _MAX_CORNERS:
        corners = corners[_extremes(corners)]
    return PlacedObject(name, "hull", (), float(mass), float(friction), hull=corners - centre, note=note)


def _centroid(p: NDArray[np.float64], hull: Any) -> NDArray[np.float64]:
    """Centre of the solid: tetrahedra from an inner point to each face, by volume."""
    inner = p[hull.vertices].mean(axis=0)
    t = p[hull.simplices] - inner
    volume = np.abs(np.linalg.det(t))
    return inner + (t.sum(axis=1) / 4 * volume[:, None]).sum(axis=0) / volume.sum()


def _extremes(corners: NDArray[np.float64]) -> NDArray[np.int64]:
    """Indices of the corners that are outermost in 400 even directions, and straight down."""
    k = np.arange(_MAX_CORNERS) + 0.5
    z, a = 1 - 2 * k / _MAX_CORNERS, k * math.pi * (3.0 - math.sqrt(5.0))
    r = np.sqrt(1 - z * z)
    d = np.vstack([np.column_stack([r * np.cos(a), r * np.sin(a), z]), [0.0, 0.0, -1.0]])
    low = np.flatnonzero(corners[:, 2] <= corners[:, 2].min() + 1e-6)[:_MAX_CORNERS]  # what it stands on stays whole
    return np.union1d((corners @ d.T).argmax(axis=0), low)


def rotation(q: Quaternion) -> NDArray[np.float64]:
    """[3,3] of a unit quaternion xyzw."""
    x, y, z, w = q
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                     [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                     [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])


def lowest_point_of(o: PlacedObject, centre_z: float, q: Quaternion) -> float:
    """Height of the body's lowest point, m (OPEN-11c for the plate: z - h/2 |n.z| - r sqrt(1 - n.z^2))."""
    row = rotation(q)[2]
    if o.shape == "cylinder":
        nz = min(1.0, abs(float(row[2])))
        return centre_z - o.size[1] / 2 * nz - o.size[0] * math.sqrt(1.0 - nz * nz)
    if o.shape == "box":
        return centre_z - float(np.abs(row) @ np.array(o.size)) / 2
    if o.shape == "sphere":
        return centre_z - o.size[0]
    return centre_z + float((o.hull @ row).min())


def bottom(o: PlacedObject) -> float:
    """From the centre down to the underside of the level body, m."""
    return -lowest_point_of(o, 0.0, _LEVEL)


def height(o: PlacedObject) -> float:
    """Of the level body, m."""
    upside_down = (1.0, 0.0, 0.0, 0.0)
    return bottom(o) - lowest_point_of(o, 0.0, upside_down)


def plan_radius(o: PlacedObject) -> float:
    """Of the smallest circle around the centre that holds the level body in plan, m."""
    if o.shape == "box":
        return math.hypot(o.size[0], o.size[1]) / 2
    if o.shape == "hull":
        return float(np.hypot(o.hull[:, 0], o.hull[:, 1]).max())
    return o.size[0]


def underside(o: PlacedObject, centre: Sequence[float], q: Quaternion) -> NDArray[np.float64]:
    """[N+1,3] points of what looks down: N of its edge (32 where it is round or a box), and last its middle."""
    r, at = rotation(q), np.asarray(centre, dtype=np.float64)
    if o.shape == "sphere":
        return np.array([at - [0.0, 0.0, o.size[0]]] * 2)
    if o.shape == "hull":
        p = at + o.hull @ r.T
        rim = p[p[:, 2] <= p[:, 2].min() + _FLUSH]
        return np.vstack([rim, rim.mean(axis=0)])
    if o.shape == "cylinder":
        n = r[:, 2] if r[2, 2] >= 0 else -r[:, 2]
        u = np.cross(n, [1.0, 0.0, 0.0] if abs(n[0]) < 0.9 else [0.0, 1.0, 0.0])
        u /= np.linalg.norm(u)
        a = 2 * math.pi * np.arange(_RIM) / _RIM
        middle = at - n * o.size[1] / 2
        return np.vstack([middle + o.size[0] * (np.cos(a)[:, None] * u + np.sin(a)[:, None] * np.cross(n, u)), middle])
    axis = int(np.abs(r[2]).argmax())
    n = r[:, axis] * (1.0 if r[2, axis] >= 0 else -1.0)
    i, j = (k for k in range(3) if k != axis)
    t = np.arange(_RIM // 4) / (_RIM // 4) * 2 - 1
    one = np.ones(_RIM // 4)
    uv = np.concatenate([np.column_stack(c) for c in ((t, -one), (one, t), (-t, one), (-one, -t))])
    middle = at - n * o.size[axis] / 2
    return np.vstack([middle + uv[:, :1] * r[:, i] * o.size[i] / 2 + uv[:, 1:] * r[:, j] * o.size[j] / 2, middle])


def object_mesh(o: PlacedObject) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Vertices [V,3] and faces [F,3], wound outwards, for pictures."""
    from scipy.spatial import ConvexHull

    a = 2 * math.pi * np.arange(_SIDES) / _SIDES
    ring = np.column_stack([np.cos(a), np.sin(a)])
    if o.shape == "cylinder":
        half = o.size[1] / 2
        p = np.vstack([np.column_stack([o.size[0] * ring, np.full(_SIDES, z)]) for z in (-half, half)])
    elif o.shape == "box":
        p = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * np.array(o.size) / 2
    elif o.shape == "sphere":
        e = np.linspace(-math.pi / 2, math.pi / 2, _SIDES // 2 + 1)
        p = np.vstack([np.column_stack([ring * math.cos(t), np.full(_SIDES, math.sin(t))]) for t in e[1:-1].tolist()]
                      + [[[0, 0, -1], [0, 0, 1]]]) * o.size[0]
    else:
        p = o.hull
    hull = ConvexHull(p)
    f = hull.simplices.astype(np.int64)
    t = p[f]
    inward = (np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) * hull.equations[:, :3]).sum(axis=1) < 0
    f[inward] = f[inward][:, ::-1]
    return p, f
