"""Times the renderers: ``python -m benchmarks render``, one table with the machine's memory bandwidth beside it.

splat-cpu inside rooms of 500,000 and 2,000,000 splats, against a reference in torch where torch can be imported; its
memory; embree on a textured room of 500,000 faces; collision meshes of splats (the kitchen with
``SPATIALBENCH_TEST_DATA`` only); and what a first call compiles, with an empty cache and with a filled one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.bench_splats import splat_rows
from benchmarks.timing import Row, Taken, fresh, once, print_table, timed
from spatialbench.renderers import open_renderer
from spatialbench.renderers.trajectories import ring
from spatialbench.types import Material, RenderSettings, TriangleMesh, load_protocol

__all__ = ["textured_room"]

SIDE = 205
"""Quads along a side of each of the room's six walls: 504,300 faces."""
EMBREE_MS = 250.0
RAYS_MS = 150.0
"""What 2.36 M rays on 500,000 faces took where that goal was set (design, section 6)."""
COMPILE_S = 15.0
CHILD = """
import time
start = time.perf_counter(), time.process_time()
import numpy as np
from benchmarks.bench_render import textured_room
from benchmarks.bench_splats import VIEWS, room, view
from spatialbench.renderers import open_renderer
open_renderer(GEOMETRY).render([view(*VIEWS[0])])
print(time.perf_counter() - start[0], time.process_time() - start[1])
"""


def textured_room(side: int = SIDE) -> TriangleMesh:
    """The box of ``bench_splats.room``, 5 mm rough inside, with six textures of 1024 x 1024."""
    from benchmarks.bench_splats import SIZE

    rng = np.random.default_rng(0)
    x, y = np.meshgrid(*[np.linspace(0.0, 1.0, side + 1)] * 2, indexing="ij")
    i, j = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    a = (i * (side + 1) + j).ravel()
    one = np.concatenate([np.column_stack([a, a + side + 1, a + side + 2]), np.column_stack([a, a + side + 2, a + 1])])
    vertices, faces, uv, materials = [], [], [], []
    for wall in range(6):
        axis, end = wall // 2, wall % 2
        points = np.insert(np.column_stack([x.ravel(), y.ravel()]), axis, end, axis=1) * SIZE
        points[:, axis] += (0.5 - end) * rng.uniform(0.0, 0.01, len(points))
        vertices.append(points)
        faces.append(one + wall * len(points))
        uv.append(np.column_stack([x.ravel(), y.ravel()])[one])
        texture = rng.integers(0, 256, (1024, 1024, 4), dtype=np.uint8)
        texture[..., 3] = 255
        materials.append(Material(f"wall {wall}", texture=texture))
    ids = np.repeat(np.arange(6, dtype=np.int32), len(one))
    return TriangleMesh(np.concatenate(vertices), np.concatenate(faces).astype(np.int32),
                        uv=np.concatenate(uv).astype(np.float32), material_ids=ids, materials=tuple(materials))


def rows() -> Iterator[Row]:
    """Measure one after the other."""
    yield from splat_rows()
    yield from _meshes()
    yield from _collision()
    yield from _compiled()


def _meshes() -> Iterator[Row]:
    from benchmarks.bench_splats import EYE

    mesh = textured_room()
    renderer = open_renderer(mesh, RenderSettings(supersample=2), "embree")
    camera = ring(EYE, 1, 768)
    *both, rays = timed(partial(renderer.render, camera, ("rgb",)), partial(renderer.render, camera),
                        _rays_alone(mesh, EYE))
    for words, taken in zip(("colour", "colour, depth, alpha"), both, strict=True):
        yield Row(f"embree 768x768, {len(mesh.faces):,} faces, 2x2: {words}", EMBREE_MS / 1e3, "ms", taken)
    here = EMBREE_MS / RAYS_MS * rays.cpu * 1e3
    yield Row(f"  its rays alone ({RAYS_MS:.0f} ms where the goal was set: goal {here:.0f} ms here)", None, "ms", rays)
    for words, taken in zip(("colour", "colour, depth, alpha"), both, strict=True):
        yield Row(f"  {words}, over the rays alone", EMBREE_MS / RAYS_MS, "times", value=taken.ratio(rays))


def _rays_alone(mesh: TriangleMesh, eye: tuple[float, float, float]) -> Callable[[], object]:
    """Embree itself, called directly: the first hits of the 1536 x 1536 rays of the same image, on as many threads."""
    from concurrent.futures import ThreadPoolExecutor

    from spatialbench.renderers._embreex import build_scene
    from spatialbench.renderers._threads import thread_count

    scene = build_scene(mesh.vertices.astype(np.float32), mesh.faces)
    side = 2 * 768
    x, z = np.meshgrid((np.arange(side) + 0.5) / side * 2 - 1, 1 - (np.arange(side) + 0.5) / side * 2)
    toward = np.stack([x, np.ones_like(x), z], axis=-1).reshape(-1, 3).astype(np.float32)
    start = np.broadcast_to(np.asarray(eye, np.float32), toward.shape).copy()
    parts = np.array_split(np.arange(len(toward)), 64)
    pieces = [(start[p], toward[p]) for p in parts]
    pool = ThreadPoolExecutor(thread_count())
    return lambda: list(pool.map(lambda piece: scene.run(*piece, output=1), pieces))


def _collision() -> Iterator[Row]:
    from benchmarks.bench_fusion import GOALS, make_up, worlds
    from spatialbench.world.fused_collision import fused_collision

    make_up()
    for name, splats, ground, _ in worlds():
        draw = partial(fused_collision, splats, ground, load_protocol("happyworld-spatial-1"), lambda *_: None)
        yield Row(f"collision mesh, {name}, {len(splats):,} splats", GOALS[name], "s", once(draw)[0])


def _compiled() -> Iterator[Row]:
    """By a process of its own. The compiler has one thread: CPU time is not divided."""
    for kind, made in (("a mesh", "textured_room(4)"), ("splats", "room(2000)")):
        with tempfile.TemporaryDirectory() as folder:
            for words, goal in (("empty", COMPILE_S), ("filled", None)):
                wall, cpu = map(float, fresh(CHILD.replace("GEOMETRY", made), NUMBA_CACHE_DIR=folder).split())
                yield Row(f"first image of {kind}, kernel cache {words}", goal, "s", Taken(wall, wall, cpu))


def main() -> None:
    """Print the table."""
    print_table("Renderers", rows())


if __name__ == "__main__":
    main()
