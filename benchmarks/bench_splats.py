"""A synthetic room of splats, and the rows about splat-cpu of ``python -m benchmarks render``, which has them all.

The room has flat splats on its six walls and ten boxes, opacities and sizes spread as in trained worlds. It is seen
from the middle: a 256 x 256 face of 90 degrees and a 960 x 540 view, colour, depth and alpha. ``python -m benchmarks
splats`` prints these rows alone.

The goals were set beside a prototype, on its machine. ``SPATIALBENCH_SPLAT_PROTOTYPE`` may be its path (a module with
``Scene(arrays).render(world_to_camera, (fx, fy, cx, cy), width, height)``): then it is timed in turn with ours, and
what counts is the ratio, against the one that the goal stands for.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import Row, fresh, once, print_table, timed
from spatialbench.renderers.splat_cpu import SplatCpuBackend
from spatialbench.types import Camera, GaussianSplats, Pose, RenderSettings

__all__ = ["EYE", "SIZE", "VIEWS", "room", "splat_rows", "view"]

SIZE = np.array([6.0, 5.0, 2.7])
EYE = np.array([3.0, 2.6, 1.4])
VIEWS = (((1.0, 0.0, 0.0), 256, 256), ((1.0, 0.2, -0.25), 960, 540))
GOALS = {(500_000, 256): 12.0, (2_000_000, 256): 45.0, (500_000, 960): 20.0, (2_000_000, 960): 55.0}
"""Milliseconds on two CPUs that do nothing else."""
PROTOTYPE = {(500_000, 256): 10.0, (2_000_000, 256): 38.0, (500_000, 960): 18.0, (2_000_000, 960): 46.0}
"""What the prototype took on the machine that the goals are of, as it says itself."""
FASTER = 200.0
"""Than torch."""
GIB = 1.0
"""Of memory beyond the arrays of two million splats of degree 3."""
MEMORY = """
import sys
import numpy as np
from benchmarks.bench_splats import VIEWS, view
from benchmarks.timing import peak
from spatialbench.renderers import _splat_blend_kernels, _splat_kernels, open_renderer
from spatialbench.types import GaussianSplats
a = np.load(sys.argv[1])
splats = GaussianSplats(*(a[k] for k in ("means", "scales", "quaternions", "opacities", "sh")))
before = peak()
renderer = open_renderer(splats, backend="splat-cpu")
for what in VIEWS:
    renderer.render([view(*what)])
print((peak() - before) / 2**30)
"""


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


def splat_rows() -> Iterator[Row]:
    """Measure one after the other."""
    for n in (500_000, 2_000_000):
        splats = room(n)
        yield from _drawn(n, splats)
        if n == 500_000:
            yield from _against_torch(splats)
        else:
            yield _memory(splats)


def _drawn(n: int, splats: GaussianSplats) -> Iterator[Row]:
    backend, other = SplatCpuBackend(splats, RenderSettings()), _prototype(splats)
    for what in VIEWS:
        camera = view(*what)
        draws: list[Callable[[], Any]] = [partial(backend, [camera], ("rgb", "depth", "alpha"))]
        if other is not None:
            lens = np.array([camera.fx, camera.fy, camera.cx, camera.cy], np.float32)
            matrix = camera.pose.world_to_camera.astype(np.float32)
            draws.append(partial(other.render, matrix, lens, camera.width, camera.height))
        taken = timed(*draws)
        name = f"splat-cpu {camera.width}x{camera.height}, {n:,} splats"
        yield Row(name, GOALS[n, camera.width] / 1e3, "ms", taken[0])
        if other is not None:
            key = n, camera.width
            here = GOALS[key] * min(taken[1].least, taken[1].cpu) * 1e3 / PROTOTYPE[key]
            yield Row(f"  the prototype ({PROTOTYPE[key]:g} ms on its machine: goal {here:.0f} ms here)", None, "ms",
                      taken[1])
            yield Row("  splat-cpu over the prototype", GOALS[key] / PROTOTYPE[key], "times",
                      value=taken[0].ratio(taken[1]))


def _prototype(splats: GaussianSplats) -> Any:
    path = os.environ.get("SPATIALBENCH_SPLAT_PROTOTYPE", "")
    if not path:
        return None
    sys.path.insert(0, os.path.dirname(path))
    other: Any = importlib.import_module(os.path.splitext(os.path.basename(path))[0])
    return other.Scene({"means": splats.means, "quats": splats.quaternions, "scales": splats.scales,
                        "opac": splats.opacities, "sh": splats.sh})


def _against_torch(splats: GaussianSplats) -> Iterator[Row]:
    """The 256 x 256 face by both; nothing where torch cannot be imported."""
    from benchmarks.torch_reference import TorchReference, torch_missing

    if torch_missing():
        return
    camera = view(*VIEWS[0])
    backend = SplatCpuBackend(splats, RenderSettings())
    ours, = timed(partial(backend, [camera], ("rgb", "depth", "alpha")))
    rgb = backend([camera], ("rgb",))[0]
    assert rgb is not None
    for dtype, goal in (("float64", FASTER), ("float32", None)):
        reference = TorchReference(splats, dtype)
        theirs, image = once(partial(reference.render, camera))
        off = float(np.abs(rgb[0] - image).mean())
        yield Row(f"  torch, {dtype} (images differ by {off:.0e} on average)", None, "ms", theirs)
        yield Row(f"  torch, {dtype}, over splat-cpu", goal, "times", value=theirs.ratio(ours), least=True)


def _memory(splats: GaussianSplats) -> Row:
    """Peak of a process of its own beyond what it holds before, with the arrays."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "splats.npz"
        np.savez(path, means=splats.means, scales=splats.scales, quaternions=splats.quaternions,
                 opacities=splats.opacities, sh=splats.sh)
        used = float(fresh(MEMORY, str(path)))
    return Row(f"memory beyond the arrays, {len(splats.means):,} splats", GIB, "GiB", value=used)


def main() -> None:
    """Print the rows, when they are asked for by name: ``render`` prints them too."""
    if "splats" in sys.argv[1:] or __name__ == "__main__":
        print_table("Splats on the CPU", splat_rows())


if __name__ == "__main__":
    main()
