"""Outliers: planted ones are found, rooms have none, and nothing goes that nobody asked to go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import EmptyWorldError
from spatialbench.scene.checks import check_mesh, check_splats
from spatialbench.scene.floaters import ends_of
from spatialbench.scene.log import ReadLog
from spatialbench.scene.outliers import (
    FAR,
    OPAQUE,
    check_mesh_outliers,
    check_splat_outliers,
    mesh_outliers,
    splat_outliers,
)
from spatialbench.scene.topology import topology
from spatialbench.types import GaussianSplats, Material, TriangleMesh
from tests import analytic as A
from tests.splats import splat_mesh

ROOM = A.table_room()
"""6 x 5 x 2.7 m around the origin of its floor, with a table."""


def splats_at(points, opacity=0.9, sigma=0.02) -> GaussianSplats:
    n = len(points)
    f = np.float32
    return GaussianSplats(np.asarray(points, f), np.full((n, 3), sigma, f), np.tile(np.array([1, 0, 0, 0], f), (n, 1)),
                          np.full(n, opacity, f), np.zeros((n, 1, 3), f))


def joined(*parts: GaussianSplats) -> GaussianSplats:
    return GaussianSplats(*(np.concatenate([getattr(p, k) for p in parts])
                            for k in ("means", "scales", "quaternions", "opacities", "sh")))


def cube(at, size=0.1):
    s = A.Soup()
    x, y, z = at
    s.box((x, y, z), (x + size, y + size, z + size))
    return s.mesh()


def meshes(*parts: TriangleMesh) -> TriangleMesh:
    starts = np.cumsum([0] + [len(p.vertices) for p in parts])
    return TriangleMesh(np.concatenate([p.vertices for p in parts]),
                        np.concatenate([p.faces + s for p, s in zip(parts, starts, strict=False)]))


@pytest.fixture(scope="module")
def room() -> GaussianSplats:
    return splat_mesh(ROOM, 0.08)


# --- splats -----------------------------------------------------------------------------------------


def test_a_room_has_none(room):
    found = splat_outliers(room)
    assert (found.opaque, found.counts) == (len(room), {"far": 0, "huge": 0, "floating": 0})
    np.testing.assert_allclose(found.extent, [6, 5, 2.7], atol=0.08)
    np.testing.assert_array_equal(found.extent, found.extent_without)


def test_planted_ones_are_found(room):
    """Far: beyond 3 x 3 m from the middle. A floater: 0.8 m off every surface, a cell being 6/64 = 0.09 m."""
    far = splats_at([[9.3, 0, 1], [0, -40, 1], [0, 0, 1e6]])
    near = splats_at([[8.5, 0, 1]])  # inside of 9 m, but alone: floating
    alone = splats_at([[-1.5, 1, 1.5], [-1.5, 1.05, 1.5]])
    huge = splats_at([[1, 1, 1]], sigma=3.2)
    faint = splats_at([[20, 0, 1], [-1.5, -1, 1.5]], opacity=OPAQUE)
    all_ = joined(room, far, near, alone, huge, faint)
    n = len(room)
    found = splat_outliers(all_)
    assert found.counts == {"far": 3, "huge": 1, "floating": 3}
    masks = found.masks()
    assert np.flatnonzero(masks["far"]).tolist() == [n, n + 1, n + 2, n + 7]  # the faint one goes with its place
    assert np.flatnonzero(masks["floating"]).tolist() == [n + 3, n + 4, n + 5]
    assert np.flatnonzero(masks["huge"]).tolist() == [n + 6]
    np.testing.assert_allclose(found.extent, [12.3, 42.5, 1e6], rtol=1e-3)
    np.testing.assert_allclose(found.extent_without, [6, 5, 2.7], atol=0.08)


def test_they_are_told_and_kept_or_dropped_and_counted(room):
    all_ = joined(room, splats_at([[9.3, 0, 1], [0, -400, 1]]), splats_at([[-1.5, 1, 1.5]]))
    log = ReadLog()
    assert check_splat_outliers(all_, log) is all_
    assert not log.repairs
    told = log.details["outliers"]["splats"]
    assert (told["far"], told["floating"], told["huge"], told["floating_judged"]) == (2, 1, 0, True)
    assert told["share"] == 3 / len(all_)
    assert told["extent"][1] == pytest.approx(402.5, abs=0.1)
    (words,) = log.warnings  # 402.5 / 6 = 67 times as long
    assert words.startswith("2 opaque splats far from all else, 1 opaque splat floating alone: 0.0")
    assert "they make the world 67.1 times as long. --drop-outliers leaves them out" in words

    log = ReadLog()
    kept = check_splat_outliers(all_, log, drop=True)
    np.testing.assert_array_equal(kept.means, room.means)
    assert {r.name: r.count for r in log.repairs.values()} == {"outliers_far_dropped": 2,
                                                               "outliers_floating_dropped": 1}
    assert not log.warnings
    assert log.details["outliers"]["splats"] == told  # what was found, not what is left
    again = ReadLog()
    assert check_splat_outliers(room, again, drop=True) is room
    assert not again.repairs


def test_few_are_no_reason_for_words(room):
    log = ReadLog()
    check_splat_outliers(joined(room, splats_at([[20.0, 0, 1]])), log)  # 23 m, 4 times as long
    assert log.details["outliers"]["splats"]["far"] == 1
    assert not log.warnings


def test_too_sparse_to_tell():
    """300 splats in a cube of 10 m are 1.5 m apart, and a cell is 0.16 m: all float, which says nothing."""
    sparse = splats_at(np.random.default_rng(0).uniform(-5, 5, (300, 3)))
    found = splat_outliers(sparse)
    assert found.floating is None
    log = ReadLog()
    assert check_splat_outliers(sparse, log, drop=True) is sparse
    assert log.details["outliers"]["splats"]["floating_judged"] is False
    # With sigmas of 1 m the cells are 2 m, and they hang together.
    assert splat_outliers(replace(sparse, scales=np.full((300, 3), 1.0, np.float32))).counts["floating"] == 0


def test_a_world_of_large_splats_is_not_huge():
    few = splats_at(np.eye(3), sigma=2.0)
    assert splat_outliers(few).counts["huge"] == 0
    assert splat_outliers(splats_at(np.eye(3), opacity=0.1)) is None


def test_the_sky_is_no_outlier(room):
    """A sphere of 1,000 splats at 100 m is neither bulk, nor far, nor huge."""
    d = np.random.default_rng(1).normal(size=(1000, 3))
    sky = splats_at(100 * d / np.linalg.norm(d, axis=1, keepdims=True), sigma=10.0)
    log = ReadLog()
    both = check_splats(joined(room, sky), log, drop_outliers=True)
    assert both.sky is not None
    assert int(both.sky.sum()) == 1000
    assert log.details["outliers"]["splats"]["opaque"] == len(room)
    assert not log.repairs
    unflagged = splat_outliers(replace(both, sky=None))
    assert unflagged.counts != {"far": 0, "huge": 0, "floating": 0}


@settings(max_examples=15, deadline=None)
@given(st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_unit_and_order_do_not_matter(factor, seed):
    """Scaled by a power of two, so that float32 rounds alike, and in another order, the same splats are found."""
    factor = 2.0 ** round(np.log2(factor))
    all_ = joined(splat_mesh(ROOM, 0.25), splats_at([[9.5, 0, 1], [-1.5, 1, 1.5]]))
    order = np.random.default_rng(seed).permutation(len(all_))
    moved = replace(all_, means=(all_.means * np.float32(factor)), scales=all_.scales * np.float32(factor))
    one, other = splat_outliers(all_), splat_outliers(moved.select(order))
    assert one.counts == other.counts == {"far": 1, "huge": 0, "floating": 1}
    for name, mask in one.masks().items():
        np.testing.assert_array_equal(mask[order], other.masks()[name])


# --- meshes -----------------------------------------------------------------------------------------


def outliers(mesh):
    return mesh_outliers(mesh, topology(mesh))


def test_a_room_of_faces_has_none():
    found = outliers(ROOM)
    assert (found.far_components, found.far_area, found.distance, found.tiny_components) == (0, 0.0, 0.0, 0)
    np.testing.assert_allclose(found.extent, [6, 5, 2.7])


def test_pieces_far_off_are_found():
    """The middle is (0, 0, 1.35) and far begins 9 m from it along X; area of the room is over 120 m2."""
    mesh = meshes(ROOM, cube((9.3, 0, 1)), cube((0, 0, 500)), cube((8, 0, 1)), cube((1, 1, 1), 1e-3))
    found = outliers(mesh)
    n = len(ROOM.faces)
    assert np.flatnonzero(found.far).tolist() == list(range(n, n + 24))
    assert found.far_components == 2
    area = np.linalg.norm(ROOM.area_vectors(), axis=1).sum()
    assert found.far_area == pytest.approx(2 * 0.06 / (area + 3 * 0.06 + 6e-6), rel=1e-9)
    # 0.005 of the area trimmed at either side: the box is the room's to about a percent.
    assert found.distance == pytest.approx(500.1 - 1.35, abs=0.1)
    assert (found.tiny_components, found.tiny_faces) == (1, 12)  # 6e-6 of 120 m2: less than a millionth
    np.testing.assert_allclose(found.extent, [3 + 9.4, 5, 500.1])
    np.testing.assert_allclose(found.extent_without, [3 + 8.1, 5, 2.7])


@pytest.mark.parametrize(("gap", "size", "far"), [(60, 2.0, True), (60, 1.0, True), (20, 2.0, False), (60, 3.4, False)])
def test_a_large_piece_is_far_beyond_five_diagonals(gap, size, far):
    """A cube of 2 m has 24 m2, 16 % of all with the 122 m2 of the room; one of 1 m 5 %; one of 3.4 m 36 %, too much.
    The room's diagonal is 8.3 m, and four fifths of its sides make 6.6 m: 60 m are more than 5 of either, 20 m less."""
    mesh = meshes(ROOM, cube((3 + gap, 0, 0), size))
    share = 6 * size**2 / (np.linalg.norm(ROOM.area_vectors(), axis=1).sum() + 6 * size**2)
    found = outliers(mesh)
    assert found.far.tolist() == [False] * len(ROOM.faces) + [far] * 12
    assert found.far_area == pytest.approx(share if far else 0.0)


def test_large_pieces_on_all_sides_are_far_together_only_up_to_a_fifth():
    """Five have 28.8 of 151.2 m2, 19 %; six 34.6 of 156.9, 22 %."""
    places = [(200, 0, 0), (-200, 0, 0), (0, 300, 0), (0, 0, 400), (-300, -300, -300), (500, 500, 0)]
    pieces = [cube(p, 0.98) for p in places]
    assert outliers(meshes(ROOM, *pieces[:5])).far_components == 5
    assert outliers(meshes(ROOM, *pieces)).far_components == 0


def test_a_piece_that_reaches_in_is_a_part_of_the_world():
    mesh = meshes(ROOM, TriangleMesh(np.array([[2, 0, 1], [2, 0.01, 1], [90.0, 0, 1]]), np.array([[0, 1, 2]])))
    assert outliers(mesh).far_components == 0


def test_pieces_are_told_and_kept_or_dropped_and_counted():
    mesh = meshes(ROOM, cube((0, 0, 500)))
    log = ReadLog()
    assert check_mesh_outliers(mesh, topology(mesh), log) is mesh
    told = log.details["outliers"]["mesh"]
    assert (told["far_components"], told["far_faces"]) == (1, 12)
    (words,) = log.warnings
    assert words.startswith("12 faces in 1 piece lie far from all else, up to 498.")
    assert "they make the world 83.4 times as long" in words  # 500.1 / 6
    assert not log.repairs

    log = ReadLog()
    kept = check_mesh_outliers(mesh, topology(mesh), log, drop=True)
    np.testing.assert_array_equal(kept.triangles, ROOM.triangles)
    assert [(r.name, r.count) for r in log.repairs.values()] == [("outliers_far_dropped", 12)]
    assert not log.warnings


def test_pieces_that_are_only_a_bit_off_are_no_reason_for_words():
    log = ReadLog()
    mesh = meshes(ROOM, cube((9.3, 0, 1)))  # 12.4 of 6 m
    check_mesh_outliers(mesh, topology(mesh), log)
    assert log.details["outliers"]["mesh"]["far_faces"] == 12
    assert not log.warnings


def test_a_dome_is_no_outlier():
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=2, radius=60.0)
    mesh = meshes(ROOM, TriangleMesh(ball.vertices, ball.faces), cube((0, 0, 40)))
    log = ReadLog()
    kept = check_mesh(replace(mesh, materials=(Material(name="sky"), Material(name="a")), material_ids=np.repeat(
        [1, 0, 1], [len(ROOM.faces), len(ball.faces), 12])), log, drop_outliers=True)
    assert len(kept.faces) == len(ROOM.faces) + len(ball.faces)
    assert log.repairs["outliers_far_dropped"].count == 12
    assert log.details["outliers"]["mesh"]["extent_without"] == pytest.approx([6, 5, 2.7])
    assert log.details["topology"]["components"] == topology(mesh).components


def test_a_mesh_that_was_not_judged_says_so():
    log = ReadLog()
    assert check_mesh_outliers(ROOM, None, log, drop=True) is ROOM
    assert any("none was dropped" in w for w in log.warnings)


def test_nothing_left_is_an_error(room, monkeypatch):
    """It cannot be by the rule: the bulk is never far from itself. But the rule must not be what protects us."""
    assert FAR > 1
    monkeypatch.setattr("spatialbench.scene.bulk.FAR", -1.0)
    with pytest.raises(EmptyWorldError, match=r"w\.ply: nothing but outliers"):
        check_splat_outliers(room, ReadLog(), drop=True, where="w.ply")
    with pytest.raises(EmptyWorldError, match="nothing but outliers"):
        check_mesh_outliers(ROOM, topology(ROOM), ReadLog(), drop=True, where="w.glb")


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_order_of_faces_does_not_matter(seed):
    """Which samples decide the percentiles does, by less than the bulk leaves; the pieces found are the same."""
    mesh = meshes(ROOM, cube((9.6, 0, 1)), cube((0, 0, 500)), cube((7, 0, 1)))
    order = np.random.default_rng(seed).permutation(len(mesh.faces))
    one, other = outliers(mesh), outliers(mesh.select(order))
    np.testing.assert_array_equal(one.far[order], other.far)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 200))
def test_ends_of_the_chosen(seed, n):
    rng = np.random.default_rng(seed)
    points = (rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-2, 5, (n, 1))).astype(np.float32)
    chosen = rng.random(n) < 0.5
    chosen[rng.integers(n)] = True
    ends = ends_of(points, chosen)
    np.testing.assert_array_equal(ends, [points[chosen].min(axis=0), points[chosen].max(axis=0)])
