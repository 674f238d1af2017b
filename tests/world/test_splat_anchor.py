"""Splats under a similarity: centres, shapes and pictures must be those of the world before it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from spatialbench.renderers.splat_cpu import SplatCpuBackend
from spatialbench.types import Camera, GaussianSplats, Pose, RenderSettings
from spatialbench.world.anchor import anchor_points
from spatialbench.world.decide import default_forward, level_rotation
from spatialbench.world.splat_anchor import anchor_splats
from tests.renderers.splat_reference import covariances, facing, random_splats

TURN = Rotation.from_rotvec([0.7, -1.1, 2.0]).as_matrix()
F32 = 2.0**-24  # half a step of float32, of a value


@st.composite
def rotations(draw: st.DrawFn) -> np.ndarray:
    q = np.array(draw(st.tuples(*[st.floats(-1, 1, allow_subnormal=False)] * 4)))
    return Rotation.from_quat(q if np.linalg.norm(q) > 1e-3 else [0.0, 1, 0, 0]).as_matrix()


def half_turns() -> list[np.ndarray]:
    """Where w of the quaternion is 0, which naive formulas divide by."""
    return [Rotation.from_rotvec(np.pi * np.array(a)).as_matrix() for a in
            ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0.6, 0.8, 0), (0, -0.6, 0.8), (0.48, 0.6, 0.64))]


def check_shape(before: GaussianSplats, turn: np.ndarray, camera: np.ndarray, scale: float) -> GaussianSplats:
    """Every array against its formula, with scipy's quaternions."""
    after = anchor_splats(before, turn, camera, scale)
    want = anchor_points(before.means.astype(np.float64) + before.offset, turn, camera, scale)
    assert not after.offset.any()
    # Rounded once, to 6e-8; sums in another order differ by a few 1e-16 of the summands (below 10 * scale).
    np.testing.assert_allclose(after.means, want, rtol=1.1 * F32, atol=1e-14 * scale)
    np.testing.assert_allclose(after.scales, scale * before.scales.astype(np.float64), rtol=1.1 * F32)
    np.testing.assert_allclose(np.linalg.norm(after.quaternions.astype(np.float64), axis=1), 1, atol=2 * F32)
    moved = scale**2 * turn @ covariances(before) @ turn.T
    # Both quaternions and the scales are float32: some ten roundings of 6e-8 of the largest variance.
    largest = (scale * before.scales.astype(np.float64).max(1)) ** 2
    assert (np.abs(covariances(after) - moved) <= 10 * 2 * F32 * largest[:, None, None]).all()
    assert after.opacities.tobytes() == before.opacities.tobytes()
    assert after.antialiased is before.antialiased
    return after


@settings(max_examples=50, deadline=None)
@given(rotations(), st.floats(1e-3, 1e3), st.tuples(*[st.floats(-5, 5)] * 3), st.integers(0, 4), st.booleans())
def test_every_array_under_any_similarity(turn: np.ndarray, scale: float, camera: tuple, degree: int,
                                          antialiased: bool) -> None:
    splats = random_splats(20, 3, degree, antialiased=antialiased)
    check_shape(splats, turn, np.array(camera), scale)


def test_half_turns_and_the_axes_of_files() -> None:
    splats = random_splats(50, 1, 1)
    for turn in half_turns() + [level_rotation(u, default_forward(u)) for u in np.r_[np.eye(3), -np.eye(3)]]:
        check_shape(splats, turn, np.array([0.1, -2.0, 0.4]), 1.7)


def test_identity_keeps_every_bit_of_colour_and_place() -> None:
    splats = random_splats(200, 4, 3)
    after = anchor_splats(splats, np.eye(3), np.zeros(3), 1.0)
    for name in ("means", "scales", "opacities", "sh"):
        assert getattr(after, name).tobytes() == getattr(splats, name).tobytes()
    np.testing.assert_allclose(after.quaternions, splats.quaternions, atol=2 * F32)


@settings(max_examples=20, deadline=None)
@given(rotations(), rotations(), st.floats(0.1, 10), st.floats(0.1, 10))
def test_two_similarities_are_their_product(first: np.ndarray, second: np.ndarray, s: float, t: float) -> None:
    splats = random_splats(10, 6, 3)
    c, d = np.array([0.2, -1.0, 3.0]), np.array([1.0, 0.5, -0.3])
    two = anchor_splats(anchor_splats(splats, first, c, s), second, d, t)
    # t S (s R (x - c) - d) = t s S R (x - c - R^T d / s)
    one = anchor_splats(splats, second @ first, c + first.T @ d / s, s * t)
    # A few float32 roundings of the intermediate centre (|x - c| < 9) and coefficient (norm below 4).
    np.testing.assert_allclose(two.means, one.means, atol=8 * F32 * t * (9 * s + 2))
    np.testing.assert_allclose(two.sh, one.sh, atol=20 * F32)
    np.testing.assert_allclose(covariances(two), covariances(one), atol=20 * F32 * (s * t) ** 2
                               * float(splats.scales.max()) ** 2)


def test_far_from_the_origin_the_digits_stay() -> None:
    """A tile a thousand kilometres out, in numbers that float64 holds exactly; the answer is known without them."""
    rng = np.random.default_rng(0)
    local = (rng.integers(-4096, 4096, (100, 3)) / 512).astype(np.float32)  # 8 m in steps of 2 mm
    offset, camera = np.array([1e6, -1e6, 1e6 + 0.5]), np.array([1e6 + 0.25, -1e6 - 3.0, 1e6])
    base = random_splats(100, 0, 0)
    splats = GaussianSplats(local, base.scales, base.quaternions, base.opacities, base.sh, offset)
    after = anchor_splats(splats, TURN, camera, 2.0)
    want = 2.0 * (local.astype(np.float64) + [-0.25, 3.0, 0.5]) @ TURN.T
    assert not after.offset.any()
    # Asked for: 1e-3. What is kept: float32 of at most 2 * 20 units, 2e-6; float32 at 1e6 has steps of 0.06.
    np.testing.assert_allclose(after.means, want, atol=3e-6)


# --- pictures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("antialiased", "scale"), [(False, 1.0), (True, 0.37), (False, 4.0)])
def test_the_picture_is_the_same_after_world_and_cameras_moved(antialiased: bool, scale: float) -> None:
    """300 splats of degree 3 from two places.

    Coordinates are rounded by 6e-8 of 5 units, so that places in the image move by about 1e-5 pixels (focal
    length 64 and nearest depth 0.3) and colours by less than 1e-5, in most pixels by far less. Where alpha is just
    1/255 or the light just a half, rounding decides: single pixels may change by 1/255, or show the next depth.
    """
    splats = random_splats(300, 7, 3, antialiased=antialiased)
    origin = np.array([0.4, -0.3, 1.1])
    cameras = [facing(), facing(position=(0.5, 0.2, 5.5),
                                rotation=Rotation.from_rotvec([0, np.pi, 0.2]).as_matrix())]
    moved = []
    for c in cameras:
        pose = np.eye(4)
        pose[:3, :3] = TURN @ c.pose.rotation
        pose[:3, 3] = anchor_points(c.pose.position, TURN, origin, scale)
        moved.append(Camera(Pose(pose), c.fx, c.fy, c.cx, c.cy, c.width, c.height))
    want = ("rgb", "depth", "alpha")
    # A nearer limit than any splat's depth at either scale, or the limit would move through them.
    rgb, depth, alpha = SplatCpuBackend(splats, RenderSettings(near=0.05))(cameras, want)
    turned = anchor_splats(splats, TURN, origin, scale)
    rgb2, depth2, alpha2 = SplatCpuBackend(turned, RenderSettings(near=0.05 * scale))(moved, want)
    assert alpha.mean() > 0.3 and rgb.std() > 0.1  # something is seen
    for a, b in ((rgb, rgb2), (alpha, alpha2)):
        assert np.abs(a - b).max() < 1.5 / 255
        assert np.abs(a - b).mean() < 1e-6
    np.testing.assert_array_less((~np.isclose(depth2, scale * depth, rtol=2e-6, atol=2e-6)).mean(), 1e-3)
    # The check can fail: colours that stay in the old frame are seen to be wrong.
    stale = GaussianSplats(turned.means, turned.scales, turned.quaternions, turned.opacities, splats.sh,
                           antialiased=antialiased)
    assert np.abs(SplatCpuBackend(stale, RenderSettings(near=0.05 * scale))(moved, ("rgb",))[0] - rgb).mean() > 0.01


# --- bounds and bad input -----------------------------------------------------------------------------------


def test_memory_beyond_the_result_is_small() -> None:
    n = 150_000
    splats = random_splats(n, 0, 3)
    tracemalloc.start()
    try:
        after = anchor_splats(splats, TURN, np.zeros(3), 1.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    result = sum(getattr(after, a).nbytes for a in ("means", "scales", "quaternions", "sh"))
    # In float64 at once the coefficients alone would take another 58 MB.
    assert peak < result + 12e6


def test_splats_that_are_not_finite_stay_what_they_are() -> None:
    base = random_splats(3, 0, 1)
    means, quaternions = base.means.copy(), base.quaternions.copy()
    means[0], means[1] = [np.nan, np.inf, 0], 3e38
    quaternions[2] = 0
    after = anchor_splats(GaussianSplats(means, base.scales, quaternions, base.opacities, base.sh), TURN, np.zeros(3),
                          10.0)
    assert not np.isfinite(after.means[:2]).all(axis=1).any()
    assert np.isfinite(after.means[2]).all() and not after.quaternions[2].any()
    assert len(anchor_splats(base.select(np.zeros(0, np.int64)), TURN, np.zeros(3), 1.0)) == 0


def test_what_is_no_similarity_is_refused() -> None:
    splats = random_splats(2, 0, 0)
    for scale in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="scale"):
            anchor_splats(splats, np.eye(3), np.zeros(3), scale)
    with pytest.raises(ValueError, match="camera"):
        anchor_splats(splats, np.eye(3), np.array([0, np.nan, 0]), 1.0)
    with pytest.raises(ValueError, match="rotation"):
        anchor_splats(splats, np.diag([1.0, 1, -1]), np.zeros(3), 1.0)
