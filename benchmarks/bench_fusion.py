"""Times collision meshes of splats, and shows what their figures say: ``python -m benchmarks fusion``.

First the kitchen of the reference data (``SPATIALBENCH_TEST_DATA``) and a house of nine rooms and two million splats
with thin tables, glass and floaters. Seconds are those of ``fused_collision`` once the kernels are compiled; CPU
seconds over the CPUs say what they would be on a machine that does nothing else. Then one room with one fault at a
time: the figures that go with every mesh, beside its true error, and their rank correlations over all rooms. Where
Open3D is installed, the clean room and the one with all faults once more with it.
"""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.fusion_scenes import FAULTS, HOUSE, Recipe, house, make_splats
from benchmarks.fusion_truth import TrueError, Truth, true_error
from spatialbench.types import FusionQuality, GaussianSplats, load_protocol
from spatialbench.types.protocol_rules import Fusion
from spatialbench.world.fused_collision import fused_collision
from spatialbench.world.fusion import FusedMesh, fuse
from spatialbench.world.sight import depth_renderer

QUICK = Fusion(image=256, rounds=(4, 6, 6))
"""For one small room."""
GOALS = {"kitchen": 10.0, "house": 30.0}
FIGURES = ("holes", "false_surface", "bias", "spread", "far", "unseen", "double_layers")
ERRORS = ("p95", "missing", "false")


@dataclass(frozen=True)
class Judged:
    """A room with its figures and its true error."""

    recipe: Recipe
    figures: dict[str, float]
    error: TrueError


def main() -> None:
    """Time, fuse, compare, print."""
    print("\nCollision meshes of splats")
    make_up()
    for name, splats, ground, truth in worlds():
        timed(name, splats, ground, truth)
    judged = [judge(r) for r in FAULTS]
    print(f"{'room':<14} " + " ".join(f"{n:>13}" for n in (*FIGURES, *(f"true {e}" for e in ERRORS))))
    for j in judged:
        row = [*(j.figures[f] for f in FIGURES), *(getattr(j.error, e) for e in ERRORS)]
        print(f"{j.recipe.name:<14} " + " ".join(f"{v:>13.4f}" for v in row))
    if find_spec("open3d") is not None:
        for j in (judge(r, QUICK.model_copy(update={"backend": "open3d"})) for r in (FAULTS[0], FAULTS[-1])):
            print(f"{j.recipe.name}, by Open3D: {j.error}")
    print(f"rank correlation with the true error over {len(judged)} rooms:")
    for figure in FIGURES:
        print(f"  {figure:<14} " + ", ".join(f"{e} {correlation(judged, figure, e):.2f}" for e in ERRORS))


def make_up() -> None:
    """Compile before the clock runs."""
    recipe = Recipe("small", splats=2000)
    fuse_room(make_splats(recipe), house(recipe), Fusion(image=64, rounds=(1, 1, 1)))


def worlds() -> list[tuple[str, GaussianSplats, float, Truth | None]]:
    """Name, splats in the world frame, height of the floor, truth."""
    out: list[tuple[str, GaussianSplats, float, Truth | None]] = []
    root = os.environ.get("SPATIALBENCH_TEST_DATA")
    if root:
        from spatialbench.scene import load_scene
        from spatialbench.world.anchoring import anchor_world

        at = anchor_world(load_scene(Path(root) / "scenes/splats/marble_kitchen/scene.spz"),
                          load_protocol("happyworld-spatial-1"))
        seen = at.seen()
        assert isinstance(seen, GaussianSplats)
        out.append(("kitchen", seen, at.ground_z, None))
    truth = house(HOUSE)
    return [*out, ("house", make_splats(HOUSE, truth), -1.5, truth)]


def timed(name: str, splats: GaussianSplats, ground: float, truth: Truth | None) -> None:
    """Fuse with the protocol's own settings; print seconds, memory and how good it is."""
    before = _peak()
    wall, cpu = time.perf_counter(), time.process_time()
    collision, words = fused_collision(splats, ground, load_protocol("happyworld-spatial-1"), lambda *_: None)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    mesh, quality = collision.mesh, collision.fusion
    assert mesh is not None and quality is not None
    print(f"{name}: {len(splats):,} splats, {len(mesh.faces):,} faces: {wall:.1f} s, CPU {cpu:.1f} s; goal on 2 CPUs "
          f"{GOALS[name]:g} s; peak memory {before:.0f} MiB before, {_peak():.0f} MiB after")
    print("    " + ", ".join(f"{k} {v:.4f}" for k, v in figures(quality).items()), *words, sep="\n    ")
    if truth is not None:
        print(f"    {true_error(truth, mesh)}")


def judge(recipe: Recipe, settings: Fusion = QUICK) -> Judged:
    """Fuse a room and find its figures and its true error."""
    truth = house(recipe)
    fused = fuse_room(make_splats(recipe, truth), truth, settings)
    assert fused.mesh is not None
    return Judged(recipe, figures(fused.quality), true_error(truth, fused.mesh))


def fuse_room(splats: GaussianSplats, truth: Truth, settings: Fusion) -> FusedMesh:
    """All of it, with a margin."""
    low, high = np.array(truth.low).min(axis=0), np.array(truth.high).max(axis=0)
    return fuse(depth_renderer(splats), low - settings.margin, high + settings.margin, settings)


def figures(quality: FusionQuality) -> dict[str, float]:
    """Those of ``FIGURES``, so that more is worse; what is not known is 0."""
    unseen = 0.0 if quality.coverage is None else 1.0 - quality.coverage
    return {"unseen": unseen, "bias": abs(quality.bias or 0.0),
            **{f: getattr(quality, f) or 0.0 for f in FIGURES if f not in ("unseen", "bias")}}


def correlation(judged: list[Judged], figure: str, error: str) -> float:
    """Spearman's."""
    from scipy.stats import rankdata

    a, b = (rankdata(v) for v in ([j.figures[figure] for j in judged], [getattr(j.error, error) for j in judged]))
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) and np.ptp(b) else 0.0




def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


if __name__ == "__main__":
    main()
