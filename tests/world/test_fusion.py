"""Fusion of rooms whose surfaces are known, from rendered depth to the mesh and what is said about it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spatialbench.renderers.backends import Renderer, open_renderer
from spatialbench.renderers.raycast import MeshRayCaster
from spatialbench.types import TriangleMesh
from spatialbench.types.protocol_rules import Fusion
from spatialbench.world.fusion import FusedMesh, fuse
from tests import analytic as A
from tests.worlds import moved

pytest.importorskip("embreex")

ROOM = np.array([[-3.0, -2.5, 0.0], [3.0, 2.5, 2.7]])
"""Corners of ``box_room`` and ``table_room``."""
SMALL: dict[str, Any] = {"image": 128, "rounds": (3, 4, 4)}
"""Images and viewpoints enough for a room without hidden corners."""


def fused(mesh: TriangleMesh, start: Any = A.EYE, box: NDArray[np.float64] = ROOM, **settings: Any) -> FusedMesh:
    return fuse(open_renderer(mesh), box[0] - 0.3, box[1] + 0.3, Fusion(**{**SMALL, **settings}), start)


@cache
def closed_room() -> FusedMesh:
    return fused(A.box_room())


@cache
def with_table(front: float, behind: float, lift: float) -> FusedMesh:
    """The grid is lifted, so that its centres meet the table, whose top is 3 cm thick, at another height."""
    return fused(A.table_room(), box=ROOM + [0.0, 0.0, lift], rounds=(6, 12, 12), front=front, behind=behind)


def faces_of(result: FusedMesh) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middles and area vectors [F,3] of the mesh's faces."""
    assert result.mesh is not None
    return result.mesh.triangles.mean(axis=1), result.mesh.area_vectors()


# --- a closed room ------------------------------------------------------------------------------------------


def test_floor_ceiling_and_walls_are_where_they_are() -> None:
    middle, vector = faces_of(closed_room())
    for axis in range(3):
        for side in range(2):
            wall = ROOM[side, axis]
            # Faces of one side of the box, away from its edges.
            inner = np.delete((middle > ROOM[0] + 0.2) & (middle < ROOM[1] - 0.2), axis, axis=1).all(axis=1)
            of = inner & (np.abs(middle[:, axis] - wall) < 0.3)
            off = np.abs(middle[of, axis] - wall)
            # A voxel's centre farther than Z/S from a plane gets votes of the right sign only: a pixel's slope is
            # off by at most 1/S, S = 128 pixels across, and z by Z times that, Z < 6.5 m. The zero lies between two
            # neighbours, at most one voxel farther.
            assert off.max() <= 0.05 + 6.5 / 128
            # real-worlds.md section 2: half of the vertices within 2 to 5 mm of the surface.
            assert np.median(off) <= 0.005
            assert np.abs(np.average(middle[of, axis] - wall, weights=np.abs(vector[of, axis]))) < 0.005
            # All of it is there, once: area projected on the plane.
            seen = np.delete(ROOM[1] - ROOM[0] - 0.4, axis).prod()
            assert np.abs(vector[of, axis].sum()) == pytest.approx(seen, rel=0.03)


def test_a_closed_room_is_a_closed_shell_that_looks_inwards() -> None:
    result = closed_room()
    middle, vector = faces_of(result)
    assert result.mesh is not None
    inwards = np.einsum("ij,ij->i", vector, ROOM.mean(axis=0) - middle) > 0
    area = np.linalg.norm(vector, axis=1)
    assert (area > 0).all()
    assert area[inwards].sum() / area.sum() > 0.999
    rng = np.random.default_rng(0)
    rays = rng.normal(size=(20_000, 3))
    hits = MeshRayCaster(result.mesh.vertices, result.mesh.faces).first_hits(
        rng.uniform(ROOM[0] + 0.3, ROOM[1] - 0.3, rays.shape), rays)
    assert hits.hit.all()
    assert (np.einsum("ij,ij->i", hits.normal, rays) < 0).mean() > 0.999
    # Edges with one face are borders: there are next to none.
    sides = np.sort(result.mesh.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    assert (np.unique(sides, axis=0, return_counts=True)[1] == 2).mean() > 0.99


def test_what_is_said_about_a_closed_room() -> None:
    result = closed_room()
    q = result.quality
    assert q.viewpoints == len(result.viewpoints) == 12
    np.testing.assert_array_equal(result.viewpoints[0], A.EYE)
    assert q.voxel == 0.05
    assert q.grid == (132, 112, 66)  # 6.6 by 5.6 by 3.3 m
    np.testing.assert_allclose([q.low, q.high], [ROOM[0] - 0.3, ROOM[1] + 0.3], atol=1e-9)
    # 81 m3; a layer of voxels by the shell of 119.4 m2 may be in or out by half.
    assert q.free_volume == pytest.approx(81.0, abs=119.4 * 0.05 / 2)
    assert q.checked_from == 4
    assert q.holes == pytest.approx(0.0, abs=0.001)
    assert q.false_surface is None  # nobody looks out
    assert q.bias is not None
    assert abs(q.bias) < 0.005
    assert q.spread is not None
    assert q.spread < 0.05 + 6.5 / 128  # as above
    assert q.far is not None
    assert q.far < 0.01
    gaps = np.linalg.norm(result.viewpoints[:, None] - result.viewpoints, axis=2)
    assert gaps[np.triu_indices(12, 1)].min() >= 0.3 - 1e-9
    # Viewpoints of the last round are the closest: farther than 0.15 m from the centre of something not free, which
    # may be in front of the wall by no more than 0.1 m, plus the wall's own error.
    assert q.clearance is not None
    assert 0.05 < q.clearance < 0.5
    corner = np.minimum(result.viewpoints - ROOM[0], ROOM[1] - result.viewpoints).min()
    assert q.clearance == pytest.approx(corner, abs=0.05)


# --- thin things --------------------------------------------------------------------------------------------


def table_heights(result: FusedMesh) -> NDArray[np.float64]:
    """Heights [K] of what lies under a 1 cm grid over the table's top, seen from 0.25 m above it; -inf: nothing."""
    (cx, cy), (w, d) = A.TABLE_CENTRE, A.TABLE_SIZE
    x, y = np.meshgrid(cx - w / 2 + 0.005 + 0.01 * np.arange(round(w * 100)),
                       cy - d / 2 + 0.005 + 0.01 * np.arange(round(d * 100)))
    top = np.stack([x.ravel(), y.ravel(), np.full(x.size, A.TABLE_HEIGHT + 0.25)], axis=1)
    assert result.mesh is not None
    return A.TABLE_HEIGHT + 0.25 - MeshRayCaster(result.mesh.vertices, result.mesh.faces).first_hits(
        top, np.array([0.0, 0.0, -1.0])).distance


LIFTS = (0.0, 0.02, 0.035)
"""Centres around the top, 0.72 to 0.75 m: 0.725, 0.745, 0.76 m."""


@pytest.mark.parametrize("lift", LIFTS)
def test_a_thin_table_top_keeps_its_height_and_area(lift: float) -> None:
    z = table_heights(with_table(2, 1, lift))
    there = np.abs(z - A.TABLE_HEIGHT) < 0.05
    assert there.mean() >= 0.85
    assert np.median(z[there]) == pytest.approx(A.TABLE_HEIGHT, abs=0.010)


def test_symmetric_truncation_loses_a_thin_table_top() -> None:
    # 15 cm behind each side, seen through 3 cm: of a voxel at d over the top, half of the views say d, the other
    # half, from below, -(d + 3 cm), up to d = 12 cm. The mean of both is negative right over the top and up to where
    # votes from above outweigh: the top rises, and where it does not, it is torn.
    z = table_heights(with_table(3, 3, 0.0))
    there = np.abs(z - A.TABLE_HEIGHT) < 0.05
    assert there.mean() < 0.85
    assert np.median(z[there]) > A.TABLE_HEIGHT + 0.010


# --- open and cluttered rooms --------------------------------------------------------------------------------


def test_an_open_room_gets_neither_lid_nor_front_wall() -> None:
    s = A.Soup()
    (x0, y0, z0), (x1, y1, z1) = ROOM.tolist()
    s.box((x0, y0, z0), (x1, y1, z1), inward=True, skip="t2")  # neither ceiling nor north wall
    result = fused(s.mesh())
    middle, vector = faces_of(result)
    # Three voxels of rim may fray.
    inside = (np.abs(middle[:, 0]) < 2.85) & (middle[:, 1] > -2.35) & (middle[:, 2] > 0.15)
    assert not inside.any()
    assert np.linalg.norm(vector[middle[:, 2] < 0.05], axis=1).sum() == pytest.approx(30.0, rel=0.05)
    # Rays out of the room meet the rim at most: 0.1 m along the 28 m around 46 m2 of opening.
    q = result.quality
    assert q.false_surface is not None
    assert q.false_surface < 0.1 * 28 / 46
    assert q.holes is not None
    assert q.holes < 0.02


def test_a_floater_vanishes() -> None:
    s = A.Soup()
    s.box((-3.0, -2.5, 0.0), (3.0, 2.5, 2.7), inward=True)
    s.box((1.0, 1.0, 1.2), (1.1, 1.1, 1.3))
    at = np.array([1.05, 1.05, 1.25])
    for least, there in ((0, True), (200, False)):
        result = fused(s.mesh(), min_faces=least)
        middle, _ = faces_of(result)
        assert (np.abs(middle - at).max(axis=1) < 0.15).any() == there
        assert (result.quality.pieces_dropped > 0) != there
        # A cube's shell of 0.15 m has 6 x 3 x 3 x 2 faces, plus what its edges add.
        assert (0 < result.quality.faces_dropped < 200) != there


# --- the same again -----------------------------------------------------------------------------------------


def assert_same(a: FusedMesh, b: FusedMesh, shift: Any = (0.0, 0.0, 0.0), atol: float = 0.0) -> None:
    assert a.mesh is not None
    assert b.mesh is not None
    np.testing.assert_array_equal(a.mesh.faces, b.mesh.faces)
    np.testing.assert_allclose(b.mesh.vertices, a.mesh.vertices + shift, rtol=0, atol=atol)
    np.testing.assert_allclose(b.viewpoints, a.viewpoints + shift, rtol=0, atol=atol)


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("SPATIALBENCH_THREADS", threads)
        results.append(fused(A.table_room(), rounds=(2, 2, 2), image=64))
    assert_same(*results)
    assert results[0].quality == results[1].quality


def test_a_moved_room_gives_the_moved_mesh() -> None:
    # Voxels of 2^-4 m and shifts of whole multiples: grid, viewpoints and the slopes of rays are exact in float64,
    # so that the same pixels are read. Depths are float32 of up to 8 m, 2^-22 m apart: a vertex moves by that times
    # the voxels' length over the difference of two values, at least 2 SNAP, of distances over 2 voxels:
    # 2^-22 / (2 x 2e-3) = 6e-5 m.
    box = np.array([[-2.0, -2.5, -0.25], [2.0, 2.5, 2.75]])
    s = A.Soup()
    s.box((-1.75, -2.25, 0.0), (1.75, 2.25, 2.5), inward=True)
    s.box((0.5, 0.5, 0.0), (1.0, 1.5, 0.75))
    settings = {"voxel": 0.0625, "coarse_voxel": 0.125, "image": 64, "rounds": (2, 2, 2), "checks": 2}
    start, shift = np.array([0.0, 0.0, 1.5]), np.array([1.5, -2.0, 0.25])
    a = fuse(open_renderer(s.mesh()), *box, Fusion(**settings), start)
    b = fuse(open_renderer(moved(s.mesh(), np.eye(3), shift)), *(box + shift), Fusion(**settings), start + shift)
    assert_same(a, b, shift, 6e-5)
    assert b.quality.holes == a.quality.holes


# --- nothing, too much, and nonsense -------------------------------------------------------------------------


def empty() -> Renderer:
    def draw(cameras: Any, want: Any) -> Any:
        zero = np.zeros((len(cameras), cameras[0].height, cameras[0].width), np.float32)
        return None, zero, zero

    return Renderer("nothing", draw)


def test_where_nothing_is_there_is_no_mesh() -> None:
    result = fuse(empty(), (-1, -1, -1), (1, 1, 1), Fusion(image=16), (0.1, 0.2, 0.3), clipped=0.25)
    q = result.quality
    assert result.mesh is None
    np.testing.assert_array_equal(result.viewpoints, [[0.1, 0.2, 0.3]])
    assert (q.viewpoints, q.checked_from, q.pieces_dropped, q.faces_dropped) == (1, 0, 0, 0)
    assert (q.clearance, q.holes, q.false_surface, q.bias, q.spread, q.far) == (None, None, 0.0, None, None, None)
    assert q.free_volume == 0.0
    assert q.clipped == 0.25


def test_surfaces_out_of_reach_leave_free_space_and_no_mesh() -> None:
    result = fuse(open_renderer(A.box_room()), (-1, -1, 0.5), (1, 1, 2), Fusion(**SMALL), A.EYE)
    assert result.mesh is None
    assert result.quality.free_volume == pytest.approx(6.0)
    assert result.quality.viewpoints == 12
    assert result.quality.holes == 1.0


def test_a_large_world_gets_larger_voxels() -> None:
    result = fused(A.box_room(), max_voxels=20_000, rounds=(1, 1, 1), image=64)
    q = result.quality
    assert 0.05 < q.voxel < 0.2
    assert np.prod(q.grid) <= 20_000
    assert result.mesh is not None
    assert np.abs(result.mesh.bounds() - ROOM).max() < q.voxel


def test_progress_ends_where_it_said() -> None:
    steps: list[tuple[int, int]] = []
    s = Fusion(image=16, rounds=(2, 1), clearances=(0.3, 0.2), checks=2)
    fuse(open_renderer(A.box_room()), ROOM[0], ROOM[1], s, A.EYE, progress=lambda *step: steps.append(step))
    assert steps == [(n, 6) for n in range(1, 7)]
    steps.clear()
    fuse(empty(), ROOM[0], ROOM[1], s, A.EYE, progress=lambda *step: steps.append(step))
    assert steps == [(1, 6), (6, 6)]


def test_without_rounds_the_start_alone_is_fused_and_checked() -> None:
    result = fused(A.box_room(), rounds=(), clearances=())
    assert result.quality.viewpoints == 1
    assert result.quality.checked_from == 0
    assert result.quality.holes is not None
    assert result.mesh is not None


@pytest.mark.parametrize("start", [(0, 0), (0, 0, np.nan)])
def test_a_start_must_be_a_point(start: Any) -> None:
    with pytest.raises(ValueError, match="start"):
        fuse(empty(), (-1, -1, -1), (1, 1, 1), Fusion(image=16), start)
