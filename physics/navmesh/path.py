"""The way from one point to another over the polygons of a navigation mesh."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import UsageError
from spatialbench.types import NavMesh

__all__ = ["REACH", "NavPath", "find_path"]

REACH = 0.5
"""How far beside the polygons a start or goal may be, m; the nearest point on them is then taken."""
_ON_EDGE = 1e-9
_STRAIGHT = 1e-6

Edge = tuple[int, int]
Vec2 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NavPath:
    """A way, or why there is none.

    Attributes
    ----------
    points : [K,3] float64, m, in the frame of the mesh: start, corners, wherever the slope changes, goal. Empty
        without a way.
    length : along ``points``, m; None without a way.
    reason : why there is none; empty otherwise.
    moved : how far start and goal were moved in plan to be on a polygon, m.
    """

    points: NDArray[np.float64]
    length: float | None
    reason: str = ""
    moved: tuple[float, float] = (0.0, 0.0)


def find_path(navmesh: NavMesh, start: ArrayLike, goal: ArrayLike, up: str = "z", reach: float = REACH) -> NavPath:
    """A short way from start to goal over polygons that share an edge.

    The chain of polygons is the shortest over the midpoints of shared edges (Dijkstra, networkx); the way is then
    pulled tight within that chain (the funnel rule), so that it is the shortest of the chain, though another chain may
    hold one that is shorter by a little. Where storeys lie above each other, those polygons are taken that give the
    shortest way.

    Parameters
    ----------
    start, goal : [2] in plan, m: x and y of a Z-up mesh, x and z of a Y-up one.
    up : ``z`` or ``y``: the frame that the mesh was built in.
    reach : how far beside the polygons they may be, m.

    Raises
    ------
    UsageError : not two finite numbers, another ``up``.
    """
    if up not in ("y", "z"):
        raise UsageError(f"up is {up!r}", where="find_path", todo="Give 'z' or 'y'")
    axes = [0, 1] if up == "z" else [0, 2]
    ends = [np.asarray(p, dtype=np.float64).ravel() for p in (start, goal)]
    for name, p in zip(("start", "goal"), ends, strict=True):
        if p.shape != (2,) or not np.isfinite(p).all():
            raise UsageError(f"the {name} is not two finite numbers", where="find_path", todo="Give X,Y in metres")
    none = np.zeros((0, 3))
    if not navmesh.polygons:
        return NavPath(none, None, "there is no NavMesh")
    v = navmesh.vertices.astype(np.float64)
    mesh = _Plan(v[:, axes], v[:, 2 if up == "z" else 1], navmesh.polygons)
    found = [mesh.locate(p, reach) for p in ends]
    for name, p, f in zip(("start", "goal"), ends, found, strict=True):
        if f is None:
            return NavPath(none, None, f"no polygon is within {reach:g} m of the {name} {p[0]:g},{p[1]:g}")
    (a, of_a, moved_a), (b, of_b, moved_b) = (f for f in found if f is not None)
    moved = (moved_a, moved_b)
    chain = mesh.chain(a, of_a, b, of_b)
    if chain is None:
        return NavPath(none, None, "start and goal are not connected", moved)
    first, portals, last = chain
    flat = _pull(a, b, [mesh.sides(edge, polygon) for edge, polygon in portals])
    way = mesh.raised(flat, [edge for edge, _ in portals], mesh.height(a, first), mesh.height(b, last))
    points = way if up == "z" else way[:, [0, 2, 1]]
    return NavPath(points, float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum()), "", moved)


class _Plan:
    """Polygons in plan, with heights at their corners."""

    def __init__(self, xy: NDArray[np.float64], z: NDArray[np.float64], polygons: tuple[tuple[int, ...], ...]) -> None:
        self.xy, self.z, self.polygons = xy, z, polygons
        self.edges: dict[Edge, list[int]] = {}
        for k, p in enumerate(polygons):
            for i, j in zip(p, (*p[1:], p[0]), strict=True):
                self.edges.setdefault((min(i, j), max(i, j)), []).append(k)
        low = np.array([xy[list(p)].min(axis=0) for p in polygons])
        high = np.array([xy[list(p)].max(axis=0) for p in polygons])
        self.low, self.high = low, high

    def locate(self, p: Vec2, reach: float) -> tuple[Vec2, list[int], float] | None:
        """The point on polygons nearest to ``p``, the polygons that hold it, and how far it is from ``p``."""
        near = np.flatnonzero(((self.low - reach <= p) & (p <= self.high + reach)).all(axis=1))
        holding = [int(k) for k in near if self._inside(p, int(k))]
        if holding:
            return p, holding, 0.0
        best: tuple[float, Vec2] | None = None
        for k in near:
            loop = self.xy[list(self.polygons[k])]
            d = np.roll(loop, -1, axis=0) - loop
            length2 = np.maximum((d * d).sum(axis=1), 1e-300)
            t = np.clip(((p - loop) * d).sum(axis=1) / length2, 0, 1)
            q = loop + t[:, None] * d
            far = np.hypot(*(q - p).T)
            i = int(np.argmin(far))
            if far[i] <= reach and (best is None or far[i] < best[0]):
                best = float(far[i]), q[i]
        if best is None:
            return None
        return best[1], [int(k) for k in near if self._inside(best[1], int(k))], best[0]

    def chain(self, a: Vec2, of_a: list[int], b: Vec2, of_b: list[int]
              ) -> tuple[int, list[tuple[Edge, int]], int] | None:
        """First polygon, shared edges in order with the polygon each is left from, last polygon; None: no way."""
        import networkx as nx

        both = sorted(set(of_a) & set(of_b))
        if both:
            return both[0], [], both[0]
        graph = nx.Graph()
        by_polygon: dict[int, list[Edge]] = {}
        for edge, owners in self.edges.items():
            if len(owners) == 2:
                for k in owners:
                    by_polygon.setdefault(k, []).append(edge)
        middle = {e: self.xy[list(e)].mean(axis=0) for e in {e for es in by_polygon.values() for e in es}}

        def link(u: Any, pu: Vec2, w: Any, pw: Vec2, polygon: int) -> None:
            weight = float(np.hypot(*(pu - pw)))
            if not graph.has_edge(u, w) or weight < graph[u][w]["weight"]:
                graph.add_edge(u, w, weight=weight, polygon=polygon)

        for k, own in by_polygon.items():
            for i, e in enumerate(own):
                for other in own[i + 1:]:
                    link(e, middle[e], other, middle[other], k)
        for name, p, holding in (("start", a, of_a), ("goal", b, of_b)):
            graph.add_node(name)
            for k in holding:
                for e in by_polygon.get(k, ()):
                    link(name, p, e, middle[e], k)
        try:
            nodes = nx.dijkstra_path(graph, "start", "goal")
        except nx.NetworkXNoPath:
            return None
        crossed = [graph[u][w]["polygon"] for u, w in pairwise(nodes)]
        return crossed[0], list(zip(nodes[1:-1], crossed, strict=False)), crossed[-1]

    def sides(self, edge: Edge, polygon: int) -> tuple[Vec2, Vec2]:
        """Left and right end of an edge for who leaves ``polygon`` through it."""
        loop = self.polygons[polygon]
        i = next(i for i, (u, w) in enumerate(zip(loop, (*loop[1:], loop[0]), strict=True))
                 if {u, w} == set(edge))
        u, w = self.xy[loop[i]], self.xy[loop[(i + 1) % len(loop)]]
        return (w, u) if self._turn(polygon) > 0 else (u, w)

    def height(self, p: Vec2, polygon: int) -> float:
        """Height of the polygon at ``p``, over the triangles of a fan."""
        loop = self.polygons[polygon]
        best, height = -np.inf, float(self.z[loop[0]])
        for i, j in pairwise(loop[1:]):
            corner, u, w = self.xy[loop[0]], self.xy[i] - self.xy[loop[0]], self.xy[j] - self.xy[loop[0]]
            area = _cross(u, w)
            if area == 0:
                continue
            s, t = _cross(p - corner, w) / area, _cross(u, p - corner) / area
            if min(s, t, 1 - s - t) > best:
                best = min(s, t, 1 - s - t)
                z0 = self.z[loop[0]]
                height = float(z0 + s * (self.z[i] - z0) + t * (self.z[j] - z0))
        return height

    def raised(self, flat: list[tuple[Vec2, int]], portals: list[Edge], first: float, last: float
               ) -> NDArray[np.float64]:
        """[K,3] the way in plan with its heights, without points on straight lines; z is the last column."""
        out: list[list[float]] = [[*flat[0][0], first]]
        for (p, k), (q, m) in pairwise(flat):
            d = q - p
            for n in range(k + 1, min(m, len(portals) - 1) + 1):
                u, w = (self.xy[i] for i in portals[n])
                across = _cross(d, w - u)
                # Along the portal, where the way crosses it; along a portal that it follows, the nearer end.
                t = _cross(d, p - u) / across if abs(across) > _ON_EDGE else float(
                    np.hypot(*(w - q)) < np.hypot(*(u - q)))
                t = min(max(t, 0.0), 1.0)
                x = u + t * (w - u)
                out.append([*x, (1 - t) * self.z[portals[n][0]] + t * self.z[portals[n][1]]])
        out.append([*flat[-1][0], last])
        return _simplified(np.array(out))

    def _turn(self, polygon: int) -> float:
        loop = self.xy[list(self.polygons[polygon])]
        loop = loop - loop[0]
        after = np.roll(loop, -1, axis=0)
        return float((loop[:, 0] * after[:, 1] - loop[:, 1] * after[:, 0]).sum())

    def _inside(self, p: Vec2, polygon: int) -> bool:
        loop = self.xy[list(self.polygons[polygon])]
        d = np.roll(loop, -1, axis=0) - loop
        side = (d[:, 0] * (p[1] - loop[:, 1]) - d[:, 1] * (p[0] - loop[:, 0])) * np.sign(self._turn(polygon))
        return bool((side >= -_ON_EDGE * np.maximum(np.hypot(*d.T), 1)).all())


def _cross(a: Vec2, b: Vec2) -> float:
    return float(a[0] * b[1] - a[1] * b[0])


def _pull(start: Vec2, goal: Vec2, portals: list[tuple[Vec2, Vec2]]) -> list[tuple[Vec2, int]]:
    """Corners of the shortest line from start to goal through all portals (left, right), each with the number of the
    portal that it is an end of: -1 for the start, the number of portals for the goal."""
    gates = [*portals, (goal, goal)]
    corners: list[tuple[Vec2, int]] = [(start, -1)]
    apex, left, right, at_left, at_right = start, start, start, -1, -1
    k = 0
    while k < len(gates):
        new_left, new_right = gates[k]
        # The funnel from the apex narrows on each side; a side that would cross the other one makes that a corner.
        if at_right == -1 or np.array_equal(apex, right) or _cross(right - apex, new_right - apex) >= 0:
            if at_left == -1 or np.array_equal(apex, left) or _cross(left - apex, new_right - apex) <= 0:
                right, at_right = new_right, k
            else:
                k = _turned(corners, left, at_left)
                apex, left, right, at_left, at_right = left, left, left, -1, -1
                continue
        if at_left == -1 or np.array_equal(apex, left) or _cross(left - apex, new_left - apex) <= 0:
            if at_right == -1 or np.array_equal(apex, right) or _cross(right - apex, new_left - apex) >= 0:
                left, at_left = new_left, k
            else:
                k = _turned(corners, right, at_right)
                apex, left, right, at_left, at_right = right, right, right, -1, -1
                continue
        k += 1
    corners.append((goal, len(portals)))
    return corners


def _turned(corners: list[tuple[Vec2, int]], corner: Vec2, at: int) -> int:
    """Note a corner; the portal to go on with."""
    corners.append((corner, at))
    return at + 1


def _simplified(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without repeated points and those within a micrometre of the line between their neighbours."""
    kept = [points[0]]
    for k in range(1, len(points) - 1):
        a, p, b = kept[-1], points[k], points[k + 1]
        span = b - a
        length = float(np.linalg.norm(span))
        off = float(np.linalg.norm(np.cross(span, p - a))) / length if length > 0 else float(np.linalg.norm(p - a))
        if off > _STRAIGHT and float(np.linalg.norm(p - a)) > _STRAIGHT:
            kept.append(p)
    return np.array([*kept, points[-1]])
