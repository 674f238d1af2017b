"""The ray caster against arithmetic by hand and a brute-force intersection in float64."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.renderers.raycast import MeshRayCaster

BOX_FACES = np.array([[0, 2, 1], [0, 3, 2], [4, 5, 6], [4, 6, 7], [0, 1, 5], [0, 5, 4],
                      [1, 2, 6], [1, 6, 5], [2, 3, 7], [2, 7, 6], [3, 0, 4], [3, 4, 7]], np.int32)


def box(lo=(-1, -1, -1), hi=(1, 1, 1)):
    x, y, z = zip(lo, hi, strict=True)
    v = np.array([[x[0], y[0], z[0]], [x[1], y[0], z[0]], [x[1], y[1], z[0]], [x[0], y[1], z[0]],
                  [x[0], y[0], z[1]], [x[1], y[0], z[1]], [x[1], y[1], z[1]], [x[0], y[1], z[1]]], float)
    return v, BOX_FACES


def squares(heights, half=1.0):
    """Horizontal squares of two faces each."""
    v = np.array([[x, y, h] for h in heights for x, y in
                  ((-half, -half), (half, -half), (half, half), (-half, half))], float)
    f = np.array([[4 * i + a, 4 * i + b, 4 * i + c] for i in range(len(heights))
                  for a, b, c in ((0, 1, 2), (0, 2, 3))], np.int32)
    return v, f


def brute_force(v, f, o, d):
    """Distances [R,F] by the volume ratios of the classic ray-triangle test, inf for a miss."""
    d = d / np.linalg.norm(d, axis=1, keepdims=True)
    a, b, c = (v[f[:, i]] for i in range(3))
    n = np.cross(b - a, c - a)
    den = d @ n.T
    t = (np.einsum("fk,fk->f", n, a) - o @ n.T) / den
    p = o[:, None] + t[..., None] * d[:, None]
    inside = np.ones_like(t, dtype=bool)
    for s, e in ((a, b), (b, c), (c, a)):
        inside &= np.einsum("rfk,fk->rf", np.cross(e - s, p - s), n) >= 0
    return np.where(inside & (t >= 0), t, np.inf)


def test_first_hits_of_a_box_by_hand():
    caster = MeshRayCaster(*box((-1, -2, -3), (1, 2, 3)))
    hits = caster.first_hits([0.1, 0.2, 0.3], [[1, 0, 0], [0, -5, 0], [0, 0, 2]])
    # Exact but for the centring and the plane equation in float64.
    np.testing.assert_allclose(hits.distance, [0.9, 2.2, 2.7], atol=1e-14)
    np.testing.assert_allclose(hits.normal, [[1, 0, 0], [0, -1, 0], [0, 0, 1]], atol=1e-15)
    assert hits.hit.all()
    away = caster.first_hits([5.0, 0, 0], [[1, 0, 0], [0, 0, 1]])
    assert (away.face == -1).all()
    assert np.isinf(away.distance).all()
    assert not away.normal.any()


def test_random_triangles_against_brute_force():
    rng = np.random.default_rng(7)
    v, f = rng.uniform(-1, 1, (180, 3)), np.arange(180, dtype=np.int32).reshape(60, 3)
    o, d = rng.uniform(-1.5, 1.5, (3000, 3)), rng.standard_normal((3000, 3))
    want = brute_force(v, f, o, d)
    caster = MeshRayCaster(v, f)
    got = caster.first_hits_raw(o, d)
    best = want.min(axis=1)
    # float32 decides edges and near ties: coordinates up to 1.5 are rounded by 1e-7, so that a few of the
    # 3000 rays may pass on the other side of an edge.
    same = np.where(np.isinf(best), got.face == -1, got.face == want.argmin(axis=1))
    assert (~same).sum() <= 3
    hit = same & (got.face >= 0)
    np.testing.assert_allclose(got.distance[hit], best[hit], rtol=2e-4)
    assert np.median(np.abs(got.distance[hit] - best[hit])) < 1e-14
    a, b, c = (v[f[got.face[hit], i]] for i in range(3))
    u, w = got.u[hit, None], got.v[hit, None]
    unit = d[hit] / np.linalg.norm(d[hit], axis=1, keepdims=True)
    point = o[hit] + got.distance[hit, None] * unit
    assert np.median(np.abs((1 - u - w) * a + u * b + w * c - point)) < 1e-6
    every = caster.all_hits(o, d)
    count = np.bincount(every.ray, minlength=len(o))
    assert (count != np.isfinite(want).sum(axis=1)).sum() <= 6
    both = count == np.isfinite(want).sum(axis=1)
    keep = both[every.ray]
    expected = np.sort(want[both], axis=1)
    np.testing.assert_allclose(every.distance[keep], expected[np.isfinite(expected)], rtol=2e-4, atol=1e-6)


def test_a_closed_box_has_no_leaks():
    rng = np.random.default_rng(3)
    v, f = box()
    # Through vertices and points of edges too, where a non-robust test slips through.
    edges = np.concatenate([v[f[:, i]] + t * (v[f[:, (i + 1) % 3]] - v[f[:, i]])
                            for i in range(3) for t in np.linspace(0, 1, 101)])
    inside = rng.uniform(-0.9, 0.9, (len(edges), 3))
    caster = MeshRayCaster(v, f)
    assert caster.first_hits(inside, edges - inside).hit.all()
    origins = rng.uniform(-0.99, 0.99, (300_000, 3))
    assert caster.first_hits(origins, rng.standard_normal((300_000, 3))).hit.all()


def test_all_hits_of_stacked_squares():
    heights = [0.0, 0.5, 0.501, 1.0, 2.0]
    caster = MeshRayCaster(*squares(heights))
    xy = np.random.default_rng(0).uniform(-0.9, 0.9, (200, 2))
    hits = caster.all_hits(np.c_[xy, np.full(200, 5.0)], [0, 0, -1])
    assert np.array_equal(hits.ray, np.repeat(np.arange(200), 5))
    np.testing.assert_allclose(hits.distance.reshape(200, 5), np.tile([3.0, 4.0, 4.499, 4.5, 5.0], (200, 1)),
                               atol=1e-13)
    assert np.array_equal(hits.face.reshape(200, 5) // 2, np.tile([4, 3, 2, 1, 0], (200, 1)))


def test_all_hits_counts_a_diagonal_once_and_twins_twice():
    v, f = squares([0.0, 1.0])
    on_diagonal = np.array([[0.25, 0.25, 3.0], [0.0, 0.0, 3.0]])
    assert len(MeshRayCaster(v, f).all_hits(on_diagonal, [0, 0, -1]).ray) == 4
    doubled = np.concatenate([f, f[:, [1, 2, 0]], f[:, [0, 2, 1]]])
    hits = MeshRayCaster(v, doubled).all_hits([[0.5, 0.1, 3.0]], [0, 0, -1])
    assert hits.distance.tolist() == pytest.approx([2.0] * 3 + [3.0] * 3)
    assert hits.face.tolist() == sorted(hits.face[:3].tolist()) + sorted(hits.face[3:].tolist())
    assert len(set(hits.face.tolist())) == 6


def test_max_layers_bounds_the_casts():
    v, f = squares(list(np.arange(100.0)), half=50)
    hits = MeshRayCaster(v, f).all_hits([[1.0, 2.0, 200.0]], [0, 0, -1])
    assert len(hits.ray) == 64
    assert len(MeshRayCaster(v, f).all_hits([[1.0, 2.0, 200.0]], [0, 0, -1], max_layers=100).ray) == 100


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_far_from_the_origin(offset):
    v, f = box()
    shift = np.array([offset, -offset, offset])
    hits = MeshRayCaster(v + shift, f).first_hits(shift + [0.5, 0, 0], [[1, 0, 0], [0, 1, 0]])
    # float64 spacing at 1e6 is 1.2e-10.
    np.testing.assert_allclose(hits.distance, [0.5, 1.0], atol=1e-9)


def test_far_ray_origin_keeps_precision():
    hits = MeshRayCaster(*box()).first_hits([[1e6, 0.3, 0.2]], [[-1, 0, 0]])
    assert hits.distance[0] == pytest.approx(1e6 - 1, abs=1e-9)


def test_faces_without_area_and_empty_meshes():
    v, f = squares([0.0])
    degenerate = np.concatenate([f, [[0, 0, 0], [0, 1, 1]], f[:1, [0, 0, 1]]]).astype(np.int32)
    caster = MeshRayCaster(v, degenerate)
    hits = caster.all_hits([[0.1, 0.2, 1.0], [-1.0, -1.0, 1.0]], [0, 0, -1])
    assert (hits.face < 2).all()
    for faces in (np.zeros((0, 3), np.int32), np.zeros((3, 3), np.int32)):
        nothing = MeshRayCaster(v, faces)
        assert (nothing.first_hits(np.zeros((4, 3)), [0, 0, 1]).face == -1).all()
        assert len(nothing.all_hits(np.zeros((4, 3)), [0, 0, 1]).ray) == 0
    assert len(caster.first_hits(np.zeros((0, 3)), np.zeros((0, 3))).face) == 0


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(1)
    v, f = rng.uniform(-1, 1, (3000, 3)), np.arange(3000, dtype=np.int32).reshape(-1, 3)
    o, d = rng.uniform(-1, 1, (400_000, 3)), rng.standard_normal((400_000, 3))
    one, three = (MeshRayCaster(v, f, threads=n).first_hits_raw(o, d) for n in (1, 3))
    for name in ("distance", "face", "u", "v"):
        assert getattr(one, name).tobytes() == getattr(three, name).tobytes()


def test_bad_arguments_are_refused():
    v, f = box()
    with pytest.raises(ValueError, match="refer to vertices 0 to 7, there are 5"):
        MeshRayCaster(v[:5], f)
    with pytest.raises(ValueError, match="finite"):
        MeshRayCaster(v * np.nan, f)
    caster = MeshRayCaster(v, f)
    with pytest.raises(ValueError, match="ray 1 "):
        caster.first_hits(np.zeros((2, 3)), [[1, 0, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match="must be"):
        caster.first_hits(np.zeros((2, 2)), [1, 0, 0])


def test_missing_embreex_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "embreex.rtcore_scene", None)
    with pytest.raises(BackendUnavailableError, match="pip install embreex"):
        MeshRayCaster(*box())
