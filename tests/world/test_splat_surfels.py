"""Surfels of splats: against closed forms, other libraries, and what is known of real worlds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from spatialbench.scene import load_scene
from spatialbench.types import GaussianSplats, load_protocol
from spatialbench.types.protocol_rules import CameraFinding
from spatialbench.world.interior import analyse_interior
from spatialbench.world.splat_anchor import anchor_splats
from spatialbench.world.splat_surfels import median_largest_sigma, splat_surfels
from spatialbench.world.surfels import Surfels
from spatialbench.world.up import estimate_up
from tests.renderers.splat_reference import covariances, make, random_splats

GATES = load_protocol("happyworld-spatial-1").gates
FINDING = CameraFinding()
Y = np.array([0.0, 1.0, 0.0])


# --- by hand ------------------------------------------------------------------------------------------------


def test_a_splat_that_lies_flat_is_its_own_integral() -> None:
    """Opacity times the Gaussian, summed over the plane on a fine grid, is the area."""
    s = splat_surfels(make([1, 2, 3], [[0.3, 0.01, 0.2]], 0.5), 1.0, FINDING)
    step = 0.02
    x, z = np.meshgrid(np.arange(-3, 3, step), np.arange(-3, 3, step))
    total = 0.5 * np.exp(-0.5 * ((x / 0.3) ** 2 + (z / 0.2) ** 2)).sum() * step**2
    # Sums of Gaussians over a grid far finer than them are exact; sigmas are float32.
    assert s.areas[0] == pytest.approx(total, rel=3e-7)
    np.testing.assert_array_equal(s.points, [[1, 2, 3]])
    np.testing.assert_array_equal(np.abs(s.normals), [[0, 1, 0]])
    assert s.signed is False
    assert s.points.dtype == s.normals.dtype == s.areas.dtype == np.float64


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.01, 0.3048, 1.0]))
def test_normals_and_areas_are_those_of_the_covariances(seed: int, unit: float) -> None:
    """The normal is the eigenvector of the least eigenvalue, the area has the root of the product of the others."""
    splats = random_splats(40, seed, 0, sigma=0.02)  # none near 1 m
    splats = splats.select(splats.opacities > 0.2)
    width, axes = np.linalg.eigh(covariances(splats))
    got = splat_surfels(splats, unit, FINDING)
    assert len(got) == len(splats)
    np.testing.assert_allclose(got.areas, splats.opacities * 2 * math.pi * np.sqrt(width[:, 1] * width[:, 2]) * unit**2,
                               rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(got.normals, axis=1), 1, atol=1e-12)
    clear = width[:, 0] < 0.9 * width[:, 1]  # of two equal axes either may be the shortest
    assert (np.abs(np.einsum("ni,ni->n", got.normals, axes[:, :, 0]))[clear] > 1 - 1e-6).all()


def test_who_is_a_piece_of_surface() -> None:
    """Opacity above 0.2 and the largest sigma below 1 m, by the unit."""
    sigmas = [[0.1, 0.1, 0.01], [0.1, 0.1, 0.01], [3.0, 0.1, 0.01], [3.5, 0.1, 0.01], [0.1, 0.1, 0.01]]
    splats = make(np.arange(15).reshape(5, 3), sigmas, [0.2, 0.21, 0.9, 0.9, 0.0])
    assert splat_surfels(splats, 1.0, FINDING).points[:, 0].tolist() == [3]
    # Feet: 3.0 are 0.91 m, 3.5 are 1.07 m.
    got = splat_surfels(splats, 0.3048, FINDING)
    np.testing.assert_allclose(got.points, 0.3048 * np.array([[3.0, 4, 5], [6, 7, 8]]), rtol=1e-15)
    # The two larger of 3.0, 0.1, 0.01 in feet, opacity 0.9.
    assert got.areas[1] == pytest.approx(0.9 * 2 * math.pi * 0.3 * 0.3048**2, rel=1e-6)
    assert len(splat_surfels(splats.select(np.zeros(5, bool)), 1.0, FINDING)) == 0


def test_what_has_no_area_or_is_not_finite_gives_none() -> None:
    sigmas = np.full((7, 3), 0.1, np.float32)
    sigmas[0] = [0.1, 0, 0]
    sigmas[1, 2], sigmas[2, 0] = np.nan, np.inf
    means = np.zeros((7, 3), np.float32)
    means[3, 1], means[6] = np.nan, 5
    q = np.tile(np.float32([1, 0, 0, 0]), (7, 1))
    q[4] = 0
    opacities = np.full(7, 0.9, np.float32)
    opacities[5] = np.nan
    splats = GaussianSplats(means, sigmas, q, opacities, np.zeros((7, 1, 3), np.float32))
    assert splat_surfels(splats, 1.0, FINDING).points.tolist() == [[5, 5, 5]]
    # Of the rest, 0.1 each: opacities and sigmas alone matter.
    assert median_largest_sigma(splats, 1.0) == pytest.approx(0.1)


def test_points_far_from_the_origin_keep_their_digits() -> None:
    local = (np.arange(30).reshape(10, 3) / 256).astype(np.float32)
    offset = np.array([1e6, -2e6, 3e6])
    splats = make(local, 0.01, 0.9, offset=offset)
    np.testing.assert_array_equal(splat_surfels(splats, 1.0, FINDING).points, local.astype(np.float64) + offset)
    np.testing.assert_array_equal(splat_surfels(splats, 0.5, FINDING).points, (local.astype(np.float64) + offset) / 2)


def test_too_many_are_thinned_as_surfels_thin() -> None:
    splats = random_splats(1000, 2, 0)
    whole = splat_surfels(splats, 1.0, FINDING)
    few = splat_surfels(splats, 1.0, CameraFinding(max_surfels=100, min_surfels=1))
    other = whole.thinned(100)
    assert 0 < len(few) <= 100 < len(whole)
    for name in ("points", "normals"):
        np.testing.assert_array_equal(getattr(few, name), getattr(other, name))
    np.testing.assert_allclose(few.areas, other.areas, rtol=1e-15)


def test_median_largest_sigma_by_hand() -> None:
    splats = make(np.zeros((4, 3)), [[1, 2, 0], [4, 1, 1], [0, 0, 6], [90, 90, 90]], [0.5, 0.3, 1.0, 0.2])
    assert median_largest_sigma(splats, 1.0) == 4  # of 2, 4, 6: the last is too faint
    assert median_largest_sigma(splats, 0.01) == pytest.approx(0.04)
    assert median_largest_sigma(splats.select(np.array([0, 1])), 1.0) == 3
    assert median_largest_sigma(splats.select(np.array([3])), 1.0) is None


# --- real worlds --------------------------------------------------------------------------------------------


def real(data_dir, name: str) -> GaussianSplats:
    splats = load_scene(data_dir / "scenes" / "splats" / name).splats
    assert splats is not None
    return splats


@pytest.fixture(scope="module")
def kitchen(data_dir) -> GaussianSplats:
    return real(data_dir, "marble_kitchen/scene.spz")


@pytest.fixture(scope="module")
def kitchen_surfels(kitchen) -> Surfels:
    return splat_surfels(kitchen, 1.0, FINDING)


def test_a_kitchen_is_sharp_and_a_street_is_not(data_dir, kitchen) -> None:
    """Spec, real-worlds section 7: 0.014 and 1.1 m, with the gate at 0.10 between them."""
    limit = GATES.max_splat_sigma
    sharp = median_largest_sigma(kitchen, 1.0)
    blurry = median_largest_sigma(real(data_dir, "istanbul_street_x001_y000.splat"), 1.0)
    assert f"{sharp:.3f}" == "0.014" and f"{blurry:.1f}" == "1.1"
    assert sharp < limit < blurry


def test_kitchen_has_an_interior(kitchen_surfels) -> None:
    """Spec, real-worlds sections 5 and 7; scene.xml's boxes say that the floor is at y = 0."""
    found = analyse_interior(kitchen_surfels, Y, FINDING)
    assert found.enclosure >= GATES.min_enclosure
    place = found.places[0]
    assert abs(place.floor) < 0.020
    assert 0.6 - 1e-9 <= place.clearance <= 0.7 + 1e-9
    assert place.ceiling is None  # it has none
    # 1.6 m above that floor, between the cabinet fronts, 2.00 m apart.
    assert place.position[1] == pytest.approx(place.floor + 1.6)
    assert abs(place.position[0]) < 0.5


def test_kitchen_stands_upright(kitchen_surfels) -> None:
    estimate = estimate_up(kitchen_surfels, Y, FINDING)
    assert estimate.agrees is True
    assert 3.2 <= estimate.ratio <= 4.2
    assert estimate.warning(FINDING.warn_ratio) is None
    # Spec, real-worlds sections 1 and 5: refined to the kitchen's own floor, 0.40 degrees off the file's axis.
    assert math.degrees(math.acos(estimate.candidates[0].up @ Y)) == pytest.approx(0.40, abs=0.05)


@pytest.mark.parametrize("seed", [1, 4])
def test_kitchen_is_found_in_any_orientation(kitchen, seed: int) -> None:
    """Turned, moved, and in centimetres: the same floor and the same up. A grid laid otherwise moves places by
    cells, so that only what is known of the kitchen is asked for."""
    turn = Rotation.random(random_state=seed).as_matrix()
    moved = anchor_splats(kitchen, turn, np.array([3.0, -2.0, 1.0]), 100.0)
    up = turn @ Y
    estimate = estimate_up(splat_surfels(moved, 0.01, FINDING), up, FINDING)
    assert estimate.agrees is True and estimate.ratio > FINDING.warn_ratio
    place = estimate.decided.places[0]
    assert place.enclosure >= GATES.min_enclosure
    assert place.floor + (turn @ [3.0, -2.0, 1.0]) @ up == pytest.approx(0.0, abs=0.020)


@pytest.mark.parametrize("name", ["playbot_2_0/meta.json", "guitar.compressed.ply"])
def test_objects_have_no_interior(data_dir, name: str) -> None:
    """Spec, real-worlds section 7: up to 0.28, below the gate. Up is -Y by the manifest."""
    found = analyse_interior(splat_surfels(real(data_dir, name), 1.0, FINDING), -Y, FINDING)
    assert found.enclosure <= 0.28 < GATES.min_enclosure
