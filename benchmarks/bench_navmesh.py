"""Times NavMeshes: ``python -m benchmarks navmesh``, the WebAssembly module in turn with Debian's librecast1.

The sample meshes of the reference data (``SPATIALBENCH_TEST_DATA``), a small room, one of 500,000 faces and a
terrain of 100 x 100 m. Seconds are those of the whole build from arrays, checks included, once the module is compiled;
the ratio is the median over rounds of ours to the library's, taken in turn so that a busy machine is busy for both.
Then the footprint of the dungeon, and the way through it. Nothing is compared without the library.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from spatialbench.physics.navmesh import build_navmesh, find_path, navmesh_backend_status
from spatialbench.types import NavMesh, TriangleMesh
from spatialbench.types.protocol_rules import Footprint
from spatialbench.world.footprint import footprint

Mesh = tuple[np.ndarray, np.ndarray]
LIMITS = {"dungeon": 1.3, "nav_test": 1.3}
OTHERS = 2.0
ROOM_SECONDS = 0.3
FOOTPRINT_SECONDS = 2.0


def main() -> None:
    """Build, print a row for each mesh."""
    beside = navmesh_backend_status("recast-system")
    print(f"\nNavMesh: {navmesh_backend_status()[1]}; beside it: {beside[1]}")
    start = time.perf_counter()
    build_navmesh(*room(2))
    print(f"first build of the process, compiling: {time.perf_counter() - start:.2f} s")
    print(f"{'mesh':<34} {'faces':>9} {'polygons':>8} {'ours, s':>9} {'library':>9} {'ratio':>6} {'limit':>6}")
    for name, mesh, rounds in meshes():
        ours, library, ratio, built = in_turn(mesh, rounds, beside[0])
        seconds = f"; at most {ROOM_SECONDS} s" if name.startswith("room, 500") else ""
        print(f"{name:<34} {len(mesh[1]):>9,} {len(built.polygons):>8} {ours:>9.4f} {library:>9.4f} {ratio:>6.2f} "
              f"{LIMITS.get(name, OTHERS):>6.1f}{seconds}", flush=True)
        if name == "dungeon":
            _plan(mesh, built)


def meshes() -> list[tuple[str, Mesh, int]]:
    """Name, Z-up mesh, rounds."""
    out: list[tuple[str, Mesh, int]] = [("room, 144 faces", room(1), 60), ("room, 500,000 faces", room(59), 15)]
    root = os.environ.get("SPATIALBENCH_TEST_DATA")
    for name, rounds in (("dungeon", 9), ("nav_test", 7)) if root else ():
        out.append((name, read_obj(Path(str(root)) / "oracle" / "navmesh" / f"{name}.obj"), rounds))
    return [*out, ("terrain, 100 x 100 m", terrain(100.0), 3)]


def in_turn(mesh: Mesh, rounds: int, beside: bool) -> tuple[float, float, float, NavMesh]:
    """Least seconds of both backends, the median of their ratio, and the NavMesh."""
    times = np.full((rounds, 2), np.nan)
    for k in range(rounds):
        for b, backend in enumerate(("recast", "recast-system")[:1 + beside]):
            start = time.perf_counter()
            built = build_navmesh(*mesh, backend=backend)
            times[k, b] = time.perf_counter() - start
    return float(times[:, 0].min()), float(times[:, 1].min()), float(np.median(times[:, 0] / times[:, 1])), built


def room(n: int) -> Mesh:
    """6 x 5 x 2.7 m seen from inside, with eleven boxes in it; 12 boxes of 12 n^2 faces."""
    rng = np.random.default_rng(0)
    parts = [_box(np.zeros(3), np.array([6.0, 5.0, 2.7]), n, inward=True)]
    for _ in range(11):
        size = rng.uniform([0.3, 0.3, 0.3], [1.0, 0.8, 1.2])
        parts.append(_box(np.append(rng.uniform([0, 0], [6, 5] - size[:2]), 0.0), size, n))
    offsets = np.cumsum([0, *(len(v) for v, _ in parts[:-1])])
    return np.vstack([v for v, _ in parts]), np.vstack([f + o for (_, f), o in zip(parts, offsets, strict=True)])


def _box(low: np.ndarray, size: np.ndarray, n: int, inward: bool = False) -> Mesh:
    """A box of six sides of n x n squares; two triangles each."""
    points, faces = [], []
    for axis in range(3):
        for end in (0, 1):
            sheet, triangles = _sheet(n)
            at = np.insert(sheet, axis, float(end), axis=1)
            outward = (end == 1) != (axis == 1)
            if outward == inward:
                triangles = triangles[:, ::-1]
            faces.append(triangles + len(sheet) * len(points))
            points.append(low + at * size)
    return np.vstack(points), np.vstack(faces)


def _sheet(n: int) -> Mesh:
    """The unit square in n x n squares, counter-clockwise."""
    i = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    a, b, c, d = i[:-1, :-1].ravel(), i[1:, :-1].ravel(), i[1:, 1:].ravel(), i[:-1, 1:].ravel()
    at = np.stack(np.meshgrid(*[np.arange(n + 1) / n] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    return at, np.vstack([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])


def terrain(side: float) -> Mesh:
    """Rolling ground of 0.25 m squares, mostly under 45 degrees."""
    at, faces = _sheet(int(side * 4))
    x, y = (at * side).T
    return np.stack([x, y, 2 * np.sin(x / 3.1) + 1.5 * np.cos(y / 2.3) + 0.3 * np.sin(x * 1.7 + y)], axis=1), faces


def read_obj(path: Path) -> Mesh:
    """Triangles of a Y-up OBJ, turned to Z up."""
    rows = [line.split() for line in path.read_text().splitlines()]
    v = np.array([[float(x) for x in r[1:4]] for r in rows if r[:1] == ["v"]])
    f = [[int(c.split("/")[0]) - 1 for c in r[1:]] for r in rows if r[:1] == ["f"]]
    return np.stack([v[:, 0], -v[:, 2], v[:, 1]], axis=1), np.array([(p[0], p[k], p[k + 1]) for p in f
                                                                     for k in range(1, len(p) - 1)])


def _plan(mesh: Mesh, built: NavMesh) -> None:
    def best(what: Callable[[], object]) -> float:
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            what()
            seconds.append(time.perf_counter() - start)
        return min(seconds)
    surface = TriangleMesh(*mesh)
    print(f"    {'its footprint, 20 million samples':<63} {best(lambda: footprint(surface, Footprint())):>7.2f} s, "
          f"at most {FOOTPRINT_SECONDS} s")
    way = find_path(built, (-18.0, 0.0), (22.0, 80.0))
    print(f"    {f'a way of {way.length:.1f} m through it':<63} "
          f"{best(lambda: find_path(built, (-18.0, 0.0), (22.0, 80.0))):>7.2f} s")


if __name__ == "__main__":
    main()
