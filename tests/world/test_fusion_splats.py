"""Fused rooms of splats whose surfaces are known: what the figures of a mesh say about its true error."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from benchmarks.bench_fusion import Judged, correlation, fuse_room, judge
from benchmarks.fusion_scenes import FAULTS, HOUSE, Recipe, house, make_splats
from benchmarks.fusion_truth import Truth, true_error
from spatialbench.renderers.raycast import MeshRayCaster
from spatialbench.types import TriangleMesh
from spatialbench.types.protocol_rules import Fusion

pytest.importorskip("embreex")

QUICK = Fusion(image=192, rounds=(3, 4, 4), checks=3)
NAMES = ("clean", "noise 3 cm", "noise 6 cm", "150 floaters", "20 % missing", "blur x 3", "30 % double", "all of it")


@cache
def judged() -> dict[str, Judged]:
    return {r.name: judge(r, QUICK) for r in FAULTS if r.name in NAMES}


# --- the truth itself ----------------------------------------------------------------------------------------


def test_distances_to_the_truth_are_those_to_its_mesh() -> None:
    truth = house(Recipe("two", rooms=(2, 1), glass=True))
    rng = np.random.default_rng(0)
    points = rng.uniform(-2.5, 6.5, (300, 3))
    mesh = truth.mesh()
    caster = MeshRayCaster(mesh.vertices, mesh.faces)
    # Nothing is nearer than the distance along any of many rays, and one of them ends within what their angle leaves.
    rays = rng.normal(size=(4000, 3))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    for point, distance in zip(points, truth.distance(points), strict=True):
        assert caster.first_hits(point, rays).distance.min() >= distance - 1e-9
    of, _ = truth.sample(2000, rng)
    assert truth.distance(of).max() < 1e-12
    assert float(np.linalg.norm(mesh.area_vectors(), axis=1).sum()) == pytest.approx(truth.areas.sum())
    np.testing.assert_allclose(truth.areas.sum(), truth.solid().areas.sum() + truth.panes().areas.sum())


def test_the_true_error_of_a_shifted_and_of_a_halved_truth() -> None:
    truth = house(Recipe("one"))
    mesh = truth.mesh()
    exact = true_error(truth, mesh)
    assert (exact.p95, exact.false, exact.glass) == (pytest.approx(0.0, abs=1e-9), 0.0, None)
    assert exact.missing == 0.0
    # The floor (16 m2) alone: of what can be seen, most is missing, and nothing of it is false.
    low, high = np.array(truth.low), np.array(truth.high)
    floor = Truth([low[4]], [high[4]], [truth.normal[4]], [False])
    assert floor.areas[0] == 16.0
    assert floor.normal[0].tolist() == [0.0, 0.0, 1.0]
    alone = true_error(truth, floor.mesh())
    assert alone.false == 0.0
    # Seen are 16 + 16 + 4 x 10.8 m2 of shell less what furniture hides, and furniture with 10.6 m2 of sides at most.
    assert 0.7 < alone.missing < 0.85
    # 0.3 m over the floor: nothing is near, but for what stands there.
    lifted = TriangleMesh(floor.mesh().vertices + [0.0, 0.0, 0.3], floor.mesh().faces)
    assert true_error(truth, lifted).false > 0.8
    assert true_error(truth, lifted).p95 == pytest.approx(0.3, abs=1e-6)


def test_the_large_house_has_what_it_says() -> None:
    truth = house(HOUSE)
    assert HOUSE.splats == 2_000_000
    assert sum(truth.glass) == 9 * 5  # the bottom of a pane stands on the floor
    few = Recipe(**{**vars(HOUSE), "splats": 50_000, "degree": 0})
    splats = make_splats(few, truth)
    assert len(splats) == pytest.approx(50_000, rel=0.01)
    near = truth.distance(splats.means.astype(float))
    # 120 floaters of 30 splats, 2 % of fog; floaters may lie at a surface.
    assert (near > 0.1).mean() == pytest.approx((120 * 30 + 0.02 * 46_000) / 50_000, rel=0.35)
    a, b = make_splats(few, truth), make_splats(few, truth)
    assert a.means.tobytes() == b.means.tobytes()


# --- the figures ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_clean_room_is_right_and_its_figures_say_so() -> None:
    room = judged()["clean"]
    # real-worlds.md section 2: 13 to 15 mm on meshes; splats have their own thickness and 3 mm of noise, and a look
    # aslant sees a centre up to half of the spacing of 2.4 cm early.
    assert room.error.p95 < 0.045
    assert room.error.false < 0.01
    assert room.error.missing < 0.03
    assert room.figures["double_layers"] < 0.015
    assert room.figures["unseen"] < 0.05
    assert room.figures["bias"] < 0.005


@pytest.mark.slow
@pytest.mark.parametrize(("figure", "error"), [("double_layers", "p95"), ("double_layers", "false"),
                                               ("double_layers", "missing"), ("unseen", "missing")])
def test_a_figure_predicts_a_true_error(figure: str, error: str) -> None:
    """Spearman's rank correlation over eight rooms; without any connection 0.64 is seen once in 20 times."""
    rooms = list(judged().values())
    assert len(rooms) == 8
    assert correlation(rooms, figure, error) >= 0.64


@pytest.mark.slow
def test_each_fault_is_told_by_its_own_figure() -> None:
    r = judged()
    clean = r["clean"].figures
    assert r["20 % missing"].figures["unseen"] > 3 * clean["unseen"]
    assert r["20 % missing"].figures["double_layers"] < 3 * clean["double_layers"]
    assert r["30 % double"].figures["double_layers"] > 3 * clean["double_layers"]
    assert r["30 % double"].error.false > 0.1
    assert r["150 floaters"].figures["spread"] > 2 * clean["spread"]
    assert r["blur x 3"].figures["bias"] > 10 * clean["bias"]


@pytest.mark.slow
def test_floaters_go_and_glass_is_not_there() -> None:
    """Low opacity is no surface for the rule (alpha of one half): a pane is missed, and the record should say so."""
    recipe = Recipe("both", floaters=20, glass=True, splats=120_000)
    truth = house(recipe)
    fused = fuse_room(make_splats(recipe, truth), truth, QUICK)
    assert fused.mesh is not None
    error = true_error(truth, fused.mesh)
    assert error.false < 0.01
    assert fused.quality.faces_dropped > 200
    assert error.glass is not None
    assert error.glass < 0.15  # the lowest 10 cm are near the floor
