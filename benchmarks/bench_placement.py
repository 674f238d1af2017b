"""Placement, side by side: one process against two, loading a million triangles, six trials on a kitchen counter.

The two ways alternate and the best of each counts. The goals are those of two free cores: beside the wall time stands
the CPU time, whose ratio says what would remain of two if nothing else ran.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.physics.placement import Release, plan_trials, run_plan, run_trials
from spatialbench.types import PlacementSettings

TRIALS, ROUNDS = 100, 2


def main() -> None:
    """Print each figure beside its goal."""
    print(f"\n{'placement':<62} {'measured':>9} {'goal':>7}")
    _scaling()
    _loading()
    _kitchen()


def _bumpy(n: int, size: float, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """n by n squares of two triangles, 2 mm rough."""
    x, y = np.meshgrid(*[np.linspace(-size / 2, size / 2, n + 1)] * 2, indexing="ij")
    z = 0.75 + np.random.default_rng(seed).normal(0, 0.002, x.shape)
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    a = (i * (n + 1) + j).ravel()
    faces = np.concatenate([np.column_stack([a, a + n + 1, a + n + 2]), np.column_stack([a, a + n + 2, a + 1])])
    return np.column_stack([x.ravel(), y.ravel(), z.ravel()]), faces


def _scaling() -> None:
    v, f = _bumpy(40, 2.4)
    places = np.linspace(-0.95, 0.95, 10)
    releases = [Release(10 * i + j, (float(x), float(y), 0.775), (0.0, 0.0, 0.0, 1.0), 0.755)
                for i, x in enumerate(places) for j, y in enumerate(places)]
    outline = np.array([[-1.1, -1.1], [1.1, -1.1], [1.1, 1.1], [-1.1, 1.1]])
    best = {0: (np.inf, np.inf), 2: (np.inf, np.inf)}
    same = set()
    for _ in range(ROUNDS):
        for workers in best:
            wall, cpu = time.perf_counter(), _cpu()
            results = run_trials(v, f, releases, outline, PlacementSettings(), workers=workers)
            wall, cpu = time.perf_counter() - wall, _cpu() - cpu
            best[workers] = min(best[workers][0], wall), min(best[workers][1], cpu)
            same.add(repr(results))
    for workers, (wall, cpu) in best.items():
        text = f"{TRIALS} trials, {f'{workers} worker processes' if workers else 'this process'}"
        print(f"{text:<62} {wall:>8.2f}s         ({cpu:.2f} s of CPU)")
    print(f"{'  two workers, times as fast by the clock':<62} {best[0][0] / best[2][0]:>9.2f} {1.8:>7}")
    print(f"{'  times as fast on two free cores, by the CPU time':<62} {2 * best[0][1] / best[2][1]:>9.2f} {1.8:>7}")
    print(f"{'  results equal bit for bit':<62} {len(same) == 1!s:>9} {'True':>7}", flush=True)


def _cpu() -> float:
    """Seconds of CPU of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _loading() -> None:
    code = """
import resource, time
from benchmarks.bench_placement import _bumpy
from spatialbench.physics.placement.objects import plate
from spatialbench.physics.placement.session import open_session
from spatialbench.physics.placement.static_scene import check_mesh, with_area
from spatialbench.types import PlacementSettings
v, f = _bumpy(708, 10.0)
wall, cpu = time.perf_counter(), time.process_time()
v, f = check_mesh(v, f)
f = with_area(v, f)
with open_session(v, f, PlacementSettings(), plate(PlacementSettings())):
    print(len(f), time.perf_counter() - wall, time.process_time() - cpu)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         cwd=Path(__file__).parents[1]).stdout.split()
    print(f"{f'loading {int(out[-4]):,} triangles, none cropped':<62} {float(out[-3]):>8.2f}s {6:>7} "
          f"({float(out[-2]):.2f} s of CPU)")
    print(f"{'  peak memory, MB':<62} {float(out[-1]):>9.0f} {1500:>7}", flush=True)


def _kitchen() -> None:
    root = os.environ.get("SPATIALBENCH_TEST_DATA")
    if not root:
        print("six trials on the kitchen counter: SPATIALBENCH_TEST_DATA is not set")
        return
    from spatialbench.renderers.raycast import MeshRayCaster
    from spatialbench.runs.single import prepare
    from spatialbench.scene import load_scene
    from spatialbench.types import load_protocol
    from spatialbench.world import build_world

    prepare()
    protocol = load_protocol("happyworld-spatial-1")
    world = build_world(load_scene(Path(root) / "scenes/splats/marble_kitchen/scene.spz"), protocol)
    mesh, support = world.collision.mesh, world.supports[0]
    assert mesh is not None
    for names, label in ((("footprint_median",), "one height"), (None, "three heights")):
        for workers in (0, 2):
            start, cpu = time.perf_counter(), _cpu()
            rays = MeshRayCaster(mesh.vertices, mesh.faces)
            planned = plan_trials(support, rays, protocol.placement)
            more = {} if names is None else {"references": names}
            run_plan(mesh.vertices, mesh.faces, support, planned, protocol.placement, raycaster=rays,
                     workers=workers, **more)
            text = f"six trials on the kitchen counter, {label}, {f'{workers} workers' if workers else 'one process'}"
            print(f"{text:<62} {time.perf_counter() - start:>8.2f}s {5:>7} ({_cpu() - cpu:.2f} s of CPU)", flush=True)


if __name__ == "__main__":
    main()
