"""Times splat-cpu on a synthetic room: ``python benchmarks/bench_splats.py [SPLATS...]`` (500000 2000000).

A room of flat splats on its six walls and ten boxes, opacities and sizes spread as in trained worlds, seen from the
middle: a 256 x 256 face of 90 degrees and a 960 x 540 view, colour, depth and alpha; then depth and alpha alone.
``SPATIALBENCH_SPLAT_PROTOTYPE`` may be the path of a module with another rasteriser, which is then timed in turn with
ours: ``Scene(arrays).render(world_to_camera, (fx, fy, cx, cy), width, height)``.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from spatialbench.renderers.splat_cpu import SplatCpuBackend
from spatialbench.types import Camera, GaussianSplats, Pose, RenderSettings

SIZE = np.array([6.0, 5.0, 2.7])
EYE = np.array([3.0, 2.6, 1.4])
VIEWS = (((1.0, 0.0, 0.0), 256, 256), ((1.0, 0.2, -0.25), 960, 540))
ROUNDS = 15


def room(n: int, seed: int = 0) -> GaussianSplats:
    """``n`` splats of degree 3, two in a hundred of them floating in the air."""
    rng = np.random.default_rng(seed)
    boxes = [(np.zeros(3), SIZE)]
    for _ in range(10):
        half = rng.uniform([0.2, 0.2, 0.1], [0.8, 0.6, 0.9])
        at = rng.uniform(half, SIZE - half)
        if np.any(np.abs(at - EYE) > half + 0.4):
            boxes.append((np.array([at[0] - half[0], at[1] - half[1], 0]), half * [2, 2, 1]))
    sides = [(low, size, axis, end) for low, size in boxes for axis in range(3) for end in (0.0, 1.0)]
    areas = np.array([np.prod(np.delete(size, axis)) for _, size, axis, _ in sides])
    which = rng.choice(len(sides), n, p=areas / areas.sum())
    low, size = np.array([s[0] for s in sides])[which], np.array([s[1] for s in sides])[which]
    axis, end = np.array([s[2] for s in sides])[which], np.array([s[3] for s in sides])[which]
    at = rng.random((n, 3))
    at[np.arange(n), axis] = end
    means = low + at * size + rng.normal(0, 0.004, (n, 3))
    spacing = np.sqrt(areas.sum() / n)
    scales = spacing * np.exp(rng.normal([-0.25, -0.65, 0], [0.6, 0.7, 0], (n, 3)))
    scales[:, 2] = scales[:, :2].min(1) * np.exp(rng.normal(-1.8, 0.5, n))
    # The third axis along the normal, then turned about it.
    half, turn = np.sqrt(0.5), rng.uniform(0, np.pi, n)
    tilt = np.array([[half, 0, half, 0], [half, -half, 0, 0], [1, 0, 0, 0]])[axis]
    c, s = np.cos(turn), np.sin(turn)
    w, x, y, z = tilt.T
    quaternions = np.stack([w * c - z * s, x * c + y * s, y * c - x * s, z * c + w * s], 1)
    opacities = np.where(rng.random(n) < 0.45, rng.beta(8, 0.7, n), rng.beta(0.9, 2.2, n)).clip(0.004, 0.9995)
    loose = rng.random(n) < 0.02
    means[loose] = rng.random((loose.sum(), 3)) * SIZE
    opacities[loose] = rng.beta(1, 8, loose.sum())
    sh = rng.normal(0, 0.02, (n, 16, 3))
    sh[:, 0] = (rng.random((len(sides), 3))[which] - 0.5) * 2 * np.sqrt(np.pi)
    f = np.float32
    return GaussianSplats(means.astype(f), scales.astype(f), quaternions.astype(f), opacities.astype(f), sh.astype(f))


def view(forward: tuple[float, ...], width: int, height: int) -> Camera:
    """90 degrees across, from the middle of the room."""
    z = np.array(forward) / np.linalg.norm(forward)
    x = np.cross(z, [0, 0, 1.0])
    x /= np.linalg.norm(x)
    m = np.eye(4)
    m[:3, :3], m[:3, 3] = np.stack([x, np.cross(z, x), z], 1), EYE
    return Camera.from_fov(Pose(m), 90.0, width, height)


def timed(*draws: Callable[[], Any]) -> list[str]:
    """Median and least wall and CPU time of each, taken in turn so that a busy machine is busy for all."""
    taken = np.zeros((len(draws), ROUNDS, 2))
    for k in range(-2, ROUNDS):
        for d, draw in enumerate(draws):
            wall, cpu = time.perf_counter(), time.process_time()
            draw()
            taken[d, max(k, 0)] = time.perf_counter() - wall, time.process_time() - cpu
    return ["wall {:6.1f} (least {:6.1f}) ms, CPU {:6.1f} ({:6.1f}) ms".format(
        *1e3 * np.c_[np.median(t, 0), t.min(0)].ravel()) for t in taken]


def main() -> None:
    """Build, open, draw, print."""
    path = os.environ.get("SPATIALBENCH_SPLAT_PROTOTYPE", "")
    other: Any = None
    if path:
        sys.path.insert(0, os.path.dirname(path))
        other = importlib.import_module(os.path.splitext(os.path.basename(path))[0])
    for n in [int(a) for a in sys.argv[1:] if a.isdecimal()] or [500_000, 2_000_000]:
        splats = room(n)
        before = _resident()
        start = time.perf_counter()
        backend = SplatCpuBackend(splats, RenderSettings())
        opened = time.perf_counter() - start
        backend([view(*VIEWS[0])], ("rgb",))
        print(f"{n} splats: open {opened:.2f} s, first image {time.perf_counter() - start - opened:.2f} s")
        scene = other and other.Scene({"means": splats.means, "quats": splats.quaternions, "scales": splats.scales,
                                       "opac": splats.opacities, "sh": splats.sh})
        for what in VIEWS:
            camera = view(*what)
            draws: list[Callable[[], Any]] = [partial(backend, [camera], ("rgb", "depth", "alpha")),
                                              partial(backend, [camera], ("depth", "alpha"))]
            names = ["all three", "no colour"]
            if scene is not None:
                k = np.array([camera.fx, camera.fy, camera.cx, camera.cy], np.float32)
                v = camera.pose.world_to_camera.astype(np.float32)
                draws.append(partial(scene.render, v, k, what[1], what[2]))
                names.append("prototype")
            for name, text in zip(names, timed(*draws), strict=True):
                print(f"  {what[1]:4} x {what[2]:3} {name}: {text}")
        print(f"  resident beyond the arrays {_resident() - before:.0f} MiB"
              + (", the prototype's included" if scene is not None else "")
              + f"; peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB")


def _resident() -> float:
    """MiB in memory now (Linux), else the peak."""
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * resource.getpagesize() / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


if __name__ == "__main__":
    main()
