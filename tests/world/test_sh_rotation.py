"""Spherical harmonics and their rotation, against scipy, a quadrature and what the renderer draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from spatialbench.renderers.splat_cpu import SplatCpuBackend
from spatialbench.types import Camera, GaussianSplats, Pose, RenderSettings
from spatialbench.world.sh_rotation import rotate_sh, rotation_matrices, sh_basis
from tests.renderers.splat_reference import harmonics

BANDS = [slice(l * l, (l + 1) ** 2) for l in range(5)]


def directions(n: int, seed: int = 0) -> np.ndarray:
    d = np.random.default_rng(seed).normal(size=(n, 3))
    return d / np.linalg.norm(d, axis=1, keepdims=True)


@st.composite
def rotations(draw: st.DrawFn) -> np.ndarray:
    """Rotation matrices, made by scipy; the corners of the domain are half turns and no turn."""
    q = np.array(draw(st.tuples(*[st.floats(-1, 1, allow_subnormal=False)] * 4)))
    if np.linalg.norm(q) < 1e-3:
        q = np.array([0.0, 0, 0, 1])
    return Rotation.from_quat(q).as_matrix()


# --- the basis ----------------------------------------------------------------------------------------------


def test_basis_is_scipys_harmonics_in_real_form() -> None:
    """Y_lm of scipy carries (-1)^m; the real form is sqrt(2) times its real part for m > 0, its imaginary part of
    |m| for m < 0."""
    from scipy.special import sph_harm_y

    d = np.concatenate([directions(500), np.eye(3), -np.eye(3)])
    theta, phi = np.arccos(d[:, 2]), np.arctan2(d[:, 1], d[:, 0])
    want = []
    for l in range(5):
        for m in range(-l, l + 1):
            y = sph_harm_y(l, abs(m), theta, phi)
            want.append(y.real if m == 0 else math.sqrt(2) * (y.real if m > 0 else y.imag))
    # arccos loses up to 1e-8 at the poles only; elsewhere a few roundings of values of about 1.
    np.testing.assert_allclose(sh_basis(d, 4), np.stack(want, axis=1), atol=2e-14)
    np.testing.assert_allclose(sh_basis(d, 4), harmonics(d, 4), atol=2e-14)


def test_basis_is_orthonormal_under_quadrature() -> None:
    """A product rule, exact up to degree 31, on other nodes than the code's own."""
    heights, weights = np.polynomial.legendre.leggauss(16)
    turn = (np.arange(40) + 0.3) * (2 * math.pi / 40)
    z, phi = (a.ravel() for a in np.meshgrid(heights, turn, indexing="ij"))
    d = np.stack([np.sqrt(1 - z * z) * np.cos(phi), np.sqrt(1 - z * z) * np.sin(phi), z], axis=1)
    w = np.repeat(weights, 40) * (2 * math.pi / 40)
    for degree in range(5):
        y = sh_basis(d, degree)
        assert y.shape == (640, (degree + 1) ** 2)
        np.testing.assert_allclose((y * w[:, None]).T @ y, np.eye(y.shape[1]), atol=1e-13)


def test_basis_is_what_the_renderer_draws() -> None:
    """One opaque splat straight ahead, seen from 24 sides: its centre shows 0.999 (0.5 + 0.3 Y) in float32."""
    amplitude = 0.3  # no harmonic up to degree 3 exceeds 1.1, so that nothing is clipped at 0 or 1
    drawn = np.empty((24, 18))
    for v, d in enumerate(directions(24, 5)):
        side = np.cross(d, [0.31, -0.2, 0.93])
        side /= np.linalg.norm(side)
        pose = np.eye(4)
        pose[:3, :3] = np.stack([side, np.cross(d, side), d], axis=1)
        camera = Camera(Pose(pose), 40.0, 40.0, 4.5, 4.5, 9, 9)
        for k in range(0, 18, 3):
            sh = np.zeros((1, 16, 3), np.float32)
            for channel in range(3):
                if k + channel < 16:
                    sh[0, k + channel, channel] = amplitude
            splat = GaussianSplats((4 * d[None]).astype(np.float32), np.full((1, 3), 0.5, np.float32),
                                   np.array([[1, 0, 0, 0]], np.float32), np.ones(1, np.float32), sh)
            rgb = SplatCpuBackend(splat, RenderSettings())([camera], ("rgb",))[0]
            drawn[v, k:k + 3] = rgb[0, 4, 4]
    # About ten roundings of 6e-8 each of values up to 1, over 0.3.
    np.testing.assert_allclose((drawn[:, :16] / 0.999 - 0.5) / amplitude, sh_basis(directions(24, 5), 3), atol=4e-6)


# --- the matrices -------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(rotations(), rotations())
def test_matrices_are_orthogonal_and_compose(first: np.ndarray, second: np.ndarray) -> None:
    # Sums of 45 products of values of about 1: some 1e-15 each.
    a, b, both = (rotation_matrices(r, 4) for r in (first, second, first @ second))
    for l in range(5):
        assert a[l].shape == (2 * l + 1, 2 * l + 1) and a[l].dtype == np.float64
        np.testing.assert_allclose(a[l] @ a[l].T, np.eye(2 * l + 1), atol=1e-14)
        np.testing.assert_allclose(both[l], a[l] @ b[l], atol=2e-14)


@settings(max_examples=60, deadline=None)
@given(rotations(), st.integers(0, 4), st.integers(0, 1000))
def test_turned_colour_is_seen_from_the_turned_direction(turn: np.ndarray, degree: int, seed: int) -> None:
    k = (degree + 1) ** 2
    sh = np.random.default_rng(seed).normal(size=(7, k, 3)).astype(np.float32)
    d = directions(7, seed)
    before = np.einsum("nk,nkc->nc", sh_basis(d, degree), sh)
    exact = np.concatenate([np.einsum("ij,njc->nic", m, sh[:, BANDS[l]].astype(np.float64))
                            for l, m in enumerate(rotation_matrices(turn, degree))], axis=1)
    # scipy's harmonics, not those that the matrices were made of
    np.testing.assert_allclose(np.einsum("nk,nkc->nc", harmonics(d @ turn.T, degree), exact), before, atol=5e-14)
    got = rotate_sh(sh, turn)
    assert got.dtype == np.float32 and got.shape == sh.shape
    # Each coefficient is rounded once, to 6e-8 of itself; 1e-14 for a zero that comes out of cancellation.
    np.testing.assert_allclose(got, exact, rtol=6.1e-8, atol=1e-13)


def test_matrices_of_quarter_turns_by_hand() -> None:
    """Band 1 is (-y, z, -x). A quarter turn about Z takes X to Y and Y to -X: what was painted on +X (coefficient
    of -x) is then on +Y (-y), and what was on +Y is on -X."""
    about_z = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_allclose(rotation_matrices(about_z, 1)[1], [[0, 0, 1], [0, 1, 0], [-1, 0, 0]], atol=1e-15)
    # About X by a half turn z changes its sign, and with it every harmonic odd in z: of band 2, xz; y too, so xy.
    about_x = np.diag([1.0, -1, -1])
    np.testing.assert_allclose(rotation_matrices(about_x, 2)[2], np.diag([-1.0, 1, 1, -1, 1]), atol=2e-15)


# --- coefficients -------------------------------------------------------------------------------------------


def test_identity_and_degree_zero_change_no_bit() -> None:
    rng = np.random.default_rng(0)
    for k in (1, 4, 9, 16, 25):
        sh = rng.normal(size=(50, k, 3)).astype(np.float32)
        sh[0, 0] = [np.nan, np.inf, -0.0]
        assert rotate_sh(sh, np.eye(3)).tobytes() == sh.tobytes()
        turned = rotate_sh(sh, Rotation.from_rotvec([1, 2, 3]).as_matrix())
        assert turned[:, 0].tobytes() == sh[:, 0].tobytes()


def test_pieces_give_what_the_whole_gives() -> None:
    """20,000 splats are five pieces; one that is alone is turned alike, to the bit."""
    sh = np.random.default_rng(2).normal(size=(20_000, 16, 3)).astype(np.float32)
    turn = Rotation.from_rotvec([0.3, -1.2, 0.8]).as_matrix()
    got = rotate_sh(sh, turn)
    for i in (0, 4095, 4096, 12_345, 19_999):
        np.testing.assert_array_equal(rotate_sh(sh[i:i + 1], turn)[0], got[i])
    assert len(rotate_sh(sh[:0], turn)) == 0


@pytest.mark.parametrize("bad", [2 * np.eye(3), np.diag([1.0, 1, -1]), np.full((3, 3), np.nan), np.eye(4)])
def test_what_is_no_rotation_is_refused(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="rotation"):
        rotation_matrices(bad, 2)
    with pytest.raises(ValueError, match="rotation"):
        rotate_sh(np.zeros((1, 4, 3), np.float32), bad)


def test_other_degrees_and_shapes_are_refused() -> None:
    for degree in (-1, 5):
        with pytest.raises(ValueError, match="degree"):
            rotation_matrices(np.eye(3), degree)
        with pytest.raises(ValueError, match="degree"):
            sh_basis(np.eye(3), degree)
    for shape in ((2, 5, 3), (2, 36, 3), (2, 4, 4), (2, 0, 3), (4, 3)):
        with pytest.raises(ValueError, match="sh must be"):
            rotate_sh(np.zeros(shape, np.float32), np.eye(3))
    with pytest.raises(ValueError, match="directions"):
        sh_basis(np.zeros(3), 1)
