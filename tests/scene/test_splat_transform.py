"""Maps of splats: exact flips, similarities of any rotation, uneven stretches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from spatialbench.scene.log import ReadLog
from spatialbench.scene.splats.raw import RawSplats, joined
from spatialbench.scene.splats.transform import flip_axes, quaternion_of, transform_splats
from spatialbench.types.sh_rotation import sh_basis


def some(n=6, degree=4, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(n, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    return RawSplats(rng.normal(size=(n, 3)).astype("f4"), rng.uniform(0.1, 2, (n, 3)).astype("f4"), q.astype("f4"),
                     rng.uniform(size=n).astype("f4"), rng.normal(size=(n, (degree + 1) ** 2, 3)).astype("f4"))


def covariances(raw):
    r = Rotation.from_quat(raw.quaternions[:, [1, 2, 3, 0]].astype(float)).as_matrix()
    return np.einsum("nij,nj,nkj->nik", r, raw.scales.astype(float) ** 2, r)


def colors(raw, directions):
    degree = round(raw.sh.shape[1] ** 0.5) - 1
    return np.einsum("dk,nkc->ndc", sh_basis(directions, degree), raw.sh.astype(float))


DIRECTIONS = np.random.default_rng(9).normal(size=(40, 3))
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1, keepdims=True)


@pytest.mark.parametrize("signs", [(1, 1, -1), (-1, 1, 1), (1, -1, -1), (-1, -1, -1), (1, 1, 1)])
def test_flips_are_exact(signs):
    raw = some()
    out, m = flip_axes(raw, signs), np.diag(np.array(signs, float))
    np.testing.assert_array_equal(out.means, raw.means * signs)
    np.testing.assert_allclose(covariances(out), m @ covariances(raw) @ m, atol=1e-6)
    np.testing.assert_allclose(colors(out, DIRECTIONS @ m), colors(raw, DIRECTIONS), atol=2e-6)
    np.testing.assert_array_equal(np.abs(out.sh), np.abs(raw.sh))
    back = flip_axes(out, signs)
    for name in ("means", "quaternions", "sh"):
        np.testing.assert_array_equal(getattr(back, name), getattr(raw, name))


@settings(max_examples=60, deadline=None)
@given(angles=st.tuples(*[st.floats(-180, 180)] * 3), scale=st.floats(0.01, 100), mirrored=st.booleans(),
       degree=st.integers(0, 4))
def test_similarities(angles, scale, mirrored, degree):
    turn = Rotation.from_euler("xyz", angles, degrees=True).as_matrix() @ np.diag([1, -1 if mirrored else 1, 1])
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = scale * turn, [1e6, -2, 3]
    raw, log = some(degree=degree), ReadLog()
    out = transform_splats(raw, matrix, log, "it")
    np.testing.assert_allclose(out.means, raw.means @ (scale * turn).T + [1e6, -2, 3], atol=1e-6 * max(scale, 1e-3))
    np.testing.assert_allclose(covariances(out), scale**2 * turn @ covariances(raw) @ turn.T, atol=1e-5 * scale**2)
    np.testing.assert_allclose(colors(out, DIRECTIONS @ turn.T), colors(raw, DIRECTIONS), atol=1e-5)
    assert not log.warnings


def test_stretches():
    rng = np.random.default_rng(5)
    for _ in range(20):
        matrix = np.eye(4)
        matrix[:3, :3] = rng.normal(size=(3, 3))
        raw, log = some(), ReadLog()
        out = transform_splats(raw, matrix, log, "it")
        a = matrix[:3, :3]
        expected = a @ covariances(raw) @ a.T
        np.testing.assert_allclose(covariances(out), expected, atol=3e-6 * np.abs(expected).max())
        assert log.warnings


def test_a_flat_map_and_rows_that_are_no_splats():
    raw = some(4)
    raw.quaternions[0], raw.quaternions[1], raw.scales[2] = 0, np.nan, np.inf
    matrix = np.diag([1.0, 2, 0, 1])
    out = transform_splats(raw, matrix, ReadLog(), "it")
    assert not out.quaternions[0].any()
    assert np.isnan(out.quaternions[1]).all()
    assert np.isinf(out.scales[2]).all()
    assert abs(out.scales[3].min()) < 1e-6


def test_the_identity_costs_nothing():
    raw = some()
    assert transform_splats(raw, np.eye(4), ReadLog(), "it") is raw


@pytest.mark.parametrize("turns", [Rotation.random(500, random_state=1).as_matrix(),
                                   Rotation.from_euler("xyz", [[180, 0, 0], [0, 180, 0], [0, 0, 180], [0, 0, 0],
                                                               [90, 0, 0]], degrees=True).as_matrix()])
def test_quaternions_of_rotations(turns):
    expected = Rotation.from_matrix(turns).as_quat()[:, [3, 0, 1, 2]]
    np.testing.assert_allclose(np.abs((quaternion_of(turns) * expected).sum(axis=1)), 1, atol=1e-14)


def test_joined_parts_keep_their_degree():
    a, b = some(2, degree=1), some(3, degree=3, seed=1)
    out = joined([a, b])
    np.testing.assert_array_equal(out.means, np.concatenate([a.means, b.means]))
    np.testing.assert_array_equal(out.sh[:2, :4], a.sh)
    assert not out.sh[:2, 4:].any()
    np.testing.assert_array_equal(out.sh[2:], b.sh)
    assert joined([a]) is a
