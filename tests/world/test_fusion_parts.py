"""Parts of fusion: votes, viewpoints, sheets and quality, each against plain loops or a known answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spatialbench.errors import UsageError
from spatialbench.renderers.backends import Renderer
from spatialbench.renderers.trajectories import cube_faces
from spatialbench.types import Camera, TriangleMesh
from spatialbench.types.protocol_rules import Fusion
from spatialbench.world.fusion import _kernels
from spatialbench.world.fusion.depths import Depths, cube_depths
from spatialbench.world.fusion.grid import Grid, make_grid
from spatialbench.world.fusion.quality import compare, double_layers, free_space, least_distance
from spatialbench.world.fusion.sheets import edge_components, extract_sheets, surface_cells
from spatialbench.world.fusion.viewpoints import farthest_places
from spatialbench.world.fusion.volume import SNAP, Volume, fuse_volume

F32 = np.float32


def drawing(depth: Any, alpha: Any = 1.0) -> Renderer:
    """A renderer of given images: ``depth(camera)`` or a number; the same for ``alpha``. As renderers of splats do,
    it gives no depth below half of the light.
    """

    def draw(cameras: Sequence[Camera], want: Sequence[str]) -> tuple[None, NDArray[Any], NDArray[Any] | None]:
        assert "rgb" not in want  # colours are not needed, so they are not asked for
        out = [np.stack([np.broadcast_to(np.asarray(of(c) if callable(of) else of, F32), (c.height, c.width))
                         for c in cameras]) for of in (depth, alpha)]
        if "alpha" in want:
            return None, out[0], out[1]
        return None, np.where(out[1] >= 0.5, out[0], F32(0)).astype(F32), None

    return Renderer("made", draw)


def images_of(images: NDArray[Any], positions: NDArray[Any], image: int) -> Depths:
    """Depths of given images [V,6,S,S] (row, column)."""
    order = iter(images.reshape(-1, image, image))
    depths = Depths(drawing(lambda _: next(order)), Fusion(image=image), len(images), lambda: None)
    for p in positions:
        depths.add(p)
    return depths


# --- grid ---------------------------------------------------------------------------------------------------


def test_a_grid_covers_its_box() -> None:
    grid = make_grid((-1.0, 0.0, 2.0), (1.0, 0.51, 2.01), 0.05, 1e6)
    assert grid.shape == (40, 11, 2)  # 2 m, 0.51 m (one voxel begun), 0.01 m (two at least)
    np.testing.assert_allclose(grid.high, [1.0, 0.55, 2.1])
    assert grid.index((-1.0, 0.549, 2.0999)) == (0, 10, 1)
    assert grid.index((-1.001, 0.2, 2.05)) is None
    assert grid.index((0.0, 0.2, 2.1001)) is None


@pytest.mark.parametrize("most", [1e3, 12_345.0, 1e5])
def test_too_many_voxels_make_larger_voxels_but_not_much(most: float) -> None:
    low, high = np.zeros(3), np.array([6.0, 5.0, 2.7])
    grid = make_grid(low, high, 0.01, most)
    assert math.prod(grid.shape) <= most
    assert (grid.high >= high - 1e-6).all()
    # Voxels 2 % smaller would have been too many: each step of the search is 1 %, or falls short of the bound.
    assert np.ceil((high - low) / (grid.voxel / 1.02)).prod() > most * 0.98


@pytest.mark.parametrize(("low", "high"), [((0, 0, 0), (1, 1, 0)), ((0, 0), (1, 1)), ((0, 0, 0), (1, 1, np.inf)),
                                           ((np.nan, 0, 0), (1, 1, 1))])
def test_a_grid_needs_a_box(low: Any, high: Any) -> None:
    with pytest.raises(ValueError, match="low < high"):
        make_grid(low, high, 0.05, 1e6)


# --- votes --------------------------------------------------------------------------------------------------


def upright(images: NDArray[Any]) -> NDArray[Any]:
    """The kernel's layout [V,6,S,S] with all faces as rows and columns."""
    return np.concatenate([images[:, :4].transpose(0, 1, 3, 2), images[:, 4:]], axis=1)


def reference(grid: Grid, positions: NDArray[Any], images: NDArray[Any], cosines: NDArray[Any], s: Fusion
              ) -> tuple[Any, Any]:
    """Distance and state voxel by voxel in float64, with cameras as the renderer has them."""
    size = images.shape[2]
    distance, state = np.zeros(grid.shape), np.zeros(grid.shape, np.uint8)
    front, behind = s.front * grid.voxel, s.behind * grid.voxel
    cubes = [np.stack([c.pose.world_to_camera[:3] for c in cube_faces(p, size)]) for p in positions]
    for at in np.ndindex(grid.shape):
        x = np.append(grid.low + grid.voxel * (np.array(at) + 0.5), 1.0)
        total = weight = 0.0
        for cube, faces, cosine in zip(cubes, images, cosines, strict=True):
            views = cube @ x
            n = int(np.argmax(views[:, 2]))
            z = views[n][2]
            u, v = (min(math.floor(size / 2 + size / 2 * views[n][a] / z), size - 1) for a in (0, 1))
            d = float(faces[n, v, u])
            ahead = (d - z) * cosine[n, v, u]
            if d <= 0 or ahead < -behind:
                continue
            w = 1 / (0.05 + z * z)
            near = ahead < front
            total += w * ahead / front if near else s.free_weight * w
            weight += w if near else s.free_weight * w
            state[at] = max(state[at], 2 if near else 1)
        distance[at] = total / weight if weight else (1.0 if state[at] else -behind / front)
        if abs(distance[at]) < SNAP:
            distance[at] = SNAP
    return distance, state


@pytest.mark.parametrize("seed", range(4))
def test_votes_are_those_of_plain_loops(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    s = Fusion(image=16, front=[2.0, 3.0, 1.0, 2.5][seed], behind=[1.0, 3.0, 0.5, 1.0][seed],
               free_weight=[0.2, 0.0, 1.0, 0.3][seed])
    grid = Grid(rng.uniform(-1, 0, 3), 0.11, (11, 9, 10))
    positions = rng.uniform(grid.low - 0.2, grid.high + 0.2, (5, 3))  # outside of the grid, too
    images = rng.uniform(0.05, 2.5, (5, 6, 16, 16)).astype(F32)
    images[rng.random(images.shape) < 0.5] = 0
    depths = images_of(images, positions, 16)
    np.testing.assert_array_equal(upright(depths.images), images)
    want, state = reference(grid, positions, images, upright(depths.incidence) / 128, s)
    got = fuse_volume(grid, depths, s)
    np.testing.assert_array_equal(got.state, state)
    assert len(np.unique(state)) == 3
    # Sums of five float32 votes of at most 1/0.05 each, over weights of at least free_weight/(0.05 + 1.5^2):
    # rounding of 5 x 2^-24 relative to the largest term, which outweighs the least by a factor of 50.
    np.testing.assert_allclose(got.distance, want, atol=2e-5)
    monkeypatch.setenv("SPATIALBENCH_THREADS", "1")
    again = fuse_volume(grid, depths, s)
    assert again.distance.tobytes() == got.distance.tobytes()
    np.testing.assert_array_equal(depths.kept(3), images[3])


def test_a_voxel_at_the_viewpoint_and_those_around_it_are_free() -> None:
    grid = Grid(np.zeros(3), 0.1, (3, 3, 3))
    depths = images_of(np.full((1, 6, 16, 16), 5.0, F32), np.array([[0.15, 0.15, 0.15]]), 16)
    volume = fuse_volume(grid, depths, Fusion())
    assert (volume.state == 1).all()
    assert (volume.distance == 1).all()


def test_a_plane_seen_straight_on_is_exact() -> None:
    # The down face sees a floor at one depth, so every vote within its 45 degrees is the true distance over f; the
    # zero of a linear function is found by linear interpolation. What is left: values of float32 (depth 1.5 m to
    # 1e-7), and values under SNAP, moved by at most SNAP f = 0.1 mm.
    for height in (-1.4637, -1.475, -1.4751, -1.5):  # the last three lie in or near planes of centres or of faces
        def depth(c: Camera, h: float = height) -> float:
            return -h if c.pose.forward[2] == -1 else 0.0

        depths = Depths(drawing(depth), Fusion(image=64), 1, lambda: None)
        depths.add(np.zeros(3))
        grid = make_grid((-1, -1, -2), (1, 1, 0), 0.05, 1e6)
        mesh = extract_sheets(fuse_volume(grid, depths, Fusion()), 200).mesh
        assert mesh is not None
        assert np.abs(mesh.vertices[:, 2] - height).max() <= SNAP * 0.1 + 1e-6
        assert (mesh.area_vectors()[:, 2] > 0).all()  # faces the viewpoint
        # From the first to the last centre, 39 by 39 cells.
        assert mesh.area_vectors()[:, 2].sum() == pytest.approx(1.95**2, rel=1e-5)


# --- incidence ----------------------------------------------------------------------------------------------


def plane_depth(normal: NDArray[Any], offset: float, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Depth of the plane n . p = offset (camera axes), 0 where it is not ahead; and n . r of the pixels' rays r."""
    at = (np.arange(size) + 0.5) / (size / 2) - 1
    y, x = np.meshgrid(at, at, indexing="ij")
    along = normal[0] * x + normal[1] * y + normal[2]
    return np.where(along * offset > 1e-3, offset / along, 0.0).astype(F32), np.abs(along)


def kept(along: NDArray[Any]) -> NDArray[Any]:
    """What becomes of true values."""
    return np.where(along < _kernels.STEP_COSINE, 1.0, np.maximum(along, _kernels.LEAST_COSINE))


@pytest.mark.parametrize("normal", [(0, 0, 1), (0.6, 0, 0.8), (0.48, -0.64, 0.6), (-1 / 3, 2 / 3, 2 / 3),
                                    (0, 0.96, 0.28)])
def test_incidence_of_a_plane_is_its_normal_along_the_ray(normal: Any) -> None:
    depth, along = plane_depth(np.array(normal), 1.5, 64)
    out = np.empty((64, 64), np.uint8)
    _kernels.incidence(depth, out)
    # Half a step of 1/128; differences of inverse depths up to 1.2, float32, times 32: 32 x 1.2 x 2^-23.
    want = kept(np.where(depth > 0, along, 1.0))
    sure = np.abs(along - _kernels.STEP_COSINE) > 1e-3
    np.testing.assert_allclose((out / 128)[sure], want[sure], atol=0.5 / 128 + 1e-4)


def test_incidence_at_an_edge_is_that_of_the_side_that_it_is_on() -> None:
    near, along_near = plane_depth(np.array([0.6, 0.0, 0.8]), 1.0, 64)
    far, along_far = plane_depth(np.array([0.0, -0.6, 0.8]), 4.0, 64)
    left = np.arange(64)[None, :] < 20 + np.arange(64)[:, None] // 3
    depth = np.where(left, near, far)
    depth[:5, :5] = 0.0
    out = np.empty((64, 64), np.uint8)
    _kernels.incidence(depth, out)
    want = np.where(left, along_near, along_far)
    want[:5, :5] = 1.0
    # The last row's pixel before the edge has the other side above it and nothing below: a step.
    assert left[63, 40]
    assert not left[62, 40]
    want[63, 40] = 1.0
    np.testing.assert_allclose(out / 128, kept(want), atol=0.5 / 128 + 1e-4)
    alone = np.zeros((64, 64), F32)
    alone[30, 30] = 2.0
    _kernels.incidence(alone, out)
    # Without neighbours as if it faced the camera.
    assert (out == 128).all()


# --- depth --------------------------------------------------------------------------------------------------


def test_depth_counts_from_alpha_on() -> None:
    half = np.full((16, 16), 0.5, F32)
    half[0, 0] = np.nextafter(F32(0.5), F32(0))
    half[1, 1] = 1.0
    depth = np.full((16, 16), 3.0, F32)
    depth[1, 1] = np.inf
    got = cube_depths(drawing(depth, half), np.zeros(3), 16, 0.5)
    assert got.shape == (6, 16, 16)
    assert (got[:, 0, 0] == 0).all()
    assert (got[:, 1, 1] == 0).all()
    assert (got == 3).sum() == 6 * 254


def test_images_that_would_not_fit_are_refused_before_memory_is_taken() -> None:
    with pytest.raises(UsageError, match="GiB"):
        Depths(drawing(1.0), Fusion(image=4096), 1000, lambda: None)


# --- viewpoints ---------------------------------------------------------------------------------------------


def volume_of(free: NDArray[np.bool_], voxel: float = 0.1, low: Sequence[float] = (0.0, 0.0, 0.0)) -> Volume:
    state = np.where(free, 1, 2).astype(np.uint8)
    return Volume(Grid(np.array(low), voxel, free.shape), np.where(free, F32(1), F32(-0.5)), state)


def plain_places(volume: Volume, start: Any, taken: Any, count: int, clearance: float, spacing: float) -> Any:
    """The rule in loops over the candidates, by definition."""
    free = volume.free()
    centres = {at: volume.grid.low + volume.grid.voxel * (np.array(at) + 0.5) for at in np.ndindex(free.shape)}
    solid = np.argwhere(~np.pad(free, 1)) - 1
    ok = {at for at in centres if free[at] and
          ((solid - at) ** 2).sum(1).min() > (clearance / volume.grid.voxel) ** 2 + 1e-5}
    pieces: list[set[Any]] = []
    left = set(ok)
    while left:
        todo, piece = [min(left)], set()
        while todo:
            at = todo.pop()
            if at in left:
                left.discard(at)
                piece.add(at)
                todo += [tuple(np.add(at, d)) for d in (*np.eye(3, dtype=int), *-np.eye(3, dtype=int))]
        pieces.append(piece)
    here = volume.grid.index(start)
    mine = next((p for p in pieces if here in p), max(pieces, key=len, default=set()))
    chosen: list[Any] = []
    while mine and len(chosen) < count:
        gap = {at: round(min(((centres[at] - p) ** 2).sum() for p in [*taken, *chosen]), 9) for at in mine}
        best = min(mine, key=lambda at: (-gap[at], at))
        if gap[best] < spacing**2 - 1e-9:
            break
        chosen.append(centres[best])
    return np.array(chosen).reshape(-1, 3)


@pytest.mark.parametrize("seed", range(6))
def test_places_are_those_of_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    free = rng.random((9, 10, 8)) > 0.03
    volume = volume_of(free, low=(-0.3, 0.2, 1.0))
    taken = rng.uniform(volume.grid.low, volume.grid.high, (2, 3))
    for clearance, spacing, count in ((0.1, 0.3, 8), (0.15, 0.25, 50)):
        got = farthest_places(volume, taken[0], taken, count, clearance, spacing)
        want = plain_places(volume, taken[0], taken, count, clearance, spacing)
        np.testing.assert_allclose(got, want, atol=1e-12)
        assert len(got) > 1


def test_a_start_inside_something_solid_looks_around_in_the_largest_room() -> None:
    free = np.zeros((30, 12, 12), bool)
    free[1:9, 1:11, 1:11] = True  # 0.8 m long
    free[12:29, 1:11, 1:11] = True  # 1.7 m
    volume = volume_of(free)
    in_wall, in_small, outside = (1.05, 0.6, 0.6), (0.5, 0.6, 0.6), (9.0, 0.6, 0.6)
    for start, small in ((in_wall, False), (in_small, True), (outside, False)):
        places = farthest_places(volume, start, np.array([start]), 5, 0.15, 0.2)
        assert len(places) == 5
        assert ((places[:, 0] < 1.0) == small).all()
    # Beside a wall, closer than the clearance, counts as in none too.
    beside = (0.15, 0.6, 0.6)
    assert (farthest_places(volume, beside, np.array([beside]), 5, 0.15, 0.2)[:, 0] > 1.2).all()
    assert farthest_places(volume_of(np.zeros((4, 4, 4), bool)), in_wall, np.array([in_wall]), 5, 0.15, 0.2
                           ).shape == (0, 3)


def test_free_space_counts_what_is_connected_to_a_viewpoint() -> None:
    free = np.zeros((10, 4, 4), bool)
    free[:3], free[4:6], free[7:] = True, True, True
    volume = volume_of(free)
    assert free_space(volume, np.array([[0.05, 0.05, 0.05], [0.25, 0.3, 0.3], [0.45, 0.1, 0.1], [9.0, 0, 0]])
                      ).volume == pytest.approx((3 + 2) * 16 * 1e-3)
    nowhere = free_space(volume, np.array([[0.35, 0.05, 0.05]]))
    assert (nowhere.volume, nowhere.coverage) == (0.0, None)


def test_coverage_is_the_share_of_the_border_that_was_seen() -> None:
    free = np.zeros((6, 6, 6), bool)
    free[:3] = True  # up to the sides of the grid, which are no border
    volume = volume_of(free)
    at = np.array([[0.05, 0.05, 0.05]])
    assert free_space(volume, at).coverage == 1.0
    volume.state[3, :2] = 0  # of the 36 faces to what is not free, 12 are to what nobody saw
    assert free_space(volume, at).coverage == pytest.approx(24 / 36)
    volume.state[3:] = 0
    assert free_space(volume, at).coverage == 0.0
    # Free space that no viewpoint is connected with has a border of its own, which does not count.
    free[5] = True
    assert free_space(volume_of(free), at).coverage == 1.0
    # A voxel near a surface is a border on its far side alone.
    there = volume_of(free[:4])
    there.distance[2], there.state[2] = 0.5, 2
    assert free_space(there, at).coverage == 1.0
    assert free_space(there, at).volume == pytest.approx(3 * 36 * 1e-3)


# --- sheets -------------------------------------------------------------------------------------------------


def test_sheets_are_where_both_sides_were_seen_and_nowhere_else() -> None:
    rng = np.random.default_rng(0)
    shape = (9, 8, 10)
    distance = rng.uniform(-0.5, 1, shape).astype(F32)
    state = rng.choice([0, 1, 2, 2], size=shape).astype(np.uint8)
    distance[state == 1] = 1
    distance[state == 0] = -0.5
    distance[np.abs(distance) < SNAP] = SNAP
    volume = Volume(Grid(np.array([1.0, 2.0, 3.0]), 0.5, shape), distance, state)
    want = np.zeros((8, 7, 9), bool)
    for at in np.ndindex(want.shape):
        cell = tuple(slice(a, a + 2) for a in at)
        want[at] = (distance[cell] > 0).any() and ((distance[cell] < 0) & (state[cell] == 2)).any()
    np.testing.assert_array_equal(surface_cells(volume), want)
    # Every face lies in such a cell and every such cell has faces: this pins which cells a mask of
    # skimage.measure.marching_cubes leaves out.
    mesh = extract_sheets(volume, 0).mesh
    assert mesh is not None
    middle = (mesh.triangles.mean(axis=1) - volume.grid.low) / 0.5 - 0.5
    found = np.zeros_like(want)
    found[tuple(np.floor(middle).astype(int).T)] = True
    np.testing.assert_array_equal(found, want)
    assert (np.linalg.norm(mesh.area_vectors(), axis=1) > 0).all()
    np.testing.assert_array_equal(np.unique(mesh.faces), np.arange(len(mesh.vertices)))


def test_a_ball_of_free_space_is_a_closed_surface_that_looks_inwards() -> None:
    grid = Grid(np.array([-1.0, -1.0, -1.0]), 0.1, (20, 20, 20))
    centres = np.stack(np.meshgrid(*[grid.low[0] + 0.1 * (np.arange(20) + 0.5)] * 3, indexing="ij"), axis=-1)
    distance = (0.7 - np.linalg.norm(centres, axis=-1)).astype(F32)
    mesh = extract_sheets(Volume(grid, distance, np.full((20,) * 3, 2, np.uint8)), 200).mesh
    assert mesh is not None
    assert (np.einsum("ij,ij->i", mesh.area_vectors(), mesh.triangles.mean(axis=1)) < 0).all()
    sides = np.sort(mesh.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    assert (np.unique(sides, axis=0, return_counts=True)[1] == 2).all()
    assert np.linalg.norm(mesh.vertices, axis=1) == pytest.approx(0.7, abs=0.1**2 / (8 * 0.7) + 1e-3)  # sagitta


def test_small_pieces_are_dropped_and_counted() -> None:
    faces = np.array([[0, 1, 2], [2, 1, 3], [4, 5, 6], [3, 1, 7], [8, 9, 0], [5, 4, 10]], np.int32)
    np.testing.assert_array_equal(edge_components(faces), [0, 0, 1, 0, 2, 1])  # a shared corner does not join
    assert len(edge_components(faces[:0])) == 0
    grid = Grid(np.zeros(3), 1.0, (30, 12, 12))
    centres = np.stack(np.meshgrid(*[np.arange(n) + 0.5 for n in grid.shape], indexing="ij"), axis=-1)
    small = np.linalg.norm(centres - [3.2, 6, 6], axis=-1) - 1.2
    large = np.linalg.norm(centres - [20, 6, 6], axis=-1) - 4.0
    volume = Volume(grid, np.minimum(small, large).astype(F32), np.full(grid.shape, 2, np.uint8))
    both, one, none = (extract_sheets(volume, n) for n in (0, 200, 1e6))
    assert both.mesh is not None
    assert one.mesh is not None
    assert one.mesh.bounds()[0, 0] == pytest.approx(16.0, abs=0.1)
    assert (both.pieces_dropped, one.pieces_dropped, none.pieces_dropped) == (0, 1, 2)
    assert one.faces_dropped == len(both.mesh.faces) - len(one.mesh.faces) > 0
    assert none.mesh is None
    assert none.faces_dropped == len(both.mesh.faces)


# --- quality ------------------------------------------------------------------------------------------------


def plate(z: float, x0: float = -50.0, x1: float = 50.0) -> TriangleMesh:
    v = np.array([[x0, -50.0, z], [x1, -50.0, z], [x1, 50.0, z], [x0, 50.0, z]])
    return TriangleMesh(v, np.array([[0, 1, 2], [0, 2, 3]], np.int32))


def test_a_mesh_is_compared_with_what_was_rendered() -> None:
    images = np.zeros((6, 256, 256), F32)
    images[5, :, :] = 2.0
    images[5, :, :64] = 2.5  # a quarter of the columns: farther than the plate below by more than 0.1
    images[5, :, -32:] = 0.0  # an eighth
    got = compare(plate(-1.98), [(np.zeros(3), images)], 0.1)
    # Rows and columns 1, 3, 5, ...: 128 x 128 a face. The plate reaches 50 m: level faces see it from a slope of
    # 1.98/50 down on, pixels are 2/256 apart: rows 128 + 5.07 on.
    level = np.arange(1, 256, 2)
    below = int(((level + 0.5 - 128) / 128 > 1.98 / 50).sum()) * 128  # for columns within 50 m to the side as well
    assert got.holes == 0.0
    assert got.bias == pytest.approx(0.02, abs=1e-6)
    assert got.spread == pytest.approx(0.52, abs=1e-6)  # 2/7 of the pairs are far
    assert got.far == pytest.approx(2 / 7)
    assert got.false_surface == pytest.approx((4 * below + 128 * 16) / (5 * 128**2 + 128 * 16), rel=1e-6)
    # Half a plate: the rays of the left half meet nothing.
    half = compare(plate(-2.0, 0.0), [(np.zeros(3), images)], 0.1)
    assert half.holes == pytest.approx(64 / 112)
    assert half.far == 0.0
    # Nothing at all.
    none = compare(None, [(np.zeros(3), images)], 0.1)
    assert (none.holes, none.false_surface, none.bias, none.spread, none.far) == (1.0, 0.0, None, None, None)
    full = compare(None, [(np.zeros(3), np.ones((6, 16, 16), F32))], 0.1)
    assert full.false_surface is None


def sheets(*heights: float, x1: float = 50.0, up: bool = True) -> TriangleMesh:
    """Level plates at these heights, seen from above or from below."""
    parts = [plate(z, -50.0, x1) for z in heights]
    faces = np.concatenate([p.faces + 4 * k for k, p in enumerate(parts)])
    return TriangleMesh(np.concatenate([p.vertices for p in parts]), faces if up else faces[:, ::-1].copy())


def test_a_second_layer_close_behind_the_first_is_counted() -> None:
    eye = [np.zeros(3)]
    # The lower 32 x 32 rays and the lower half of the level ones meet plates of 100 m: only of the latter some do not.
    assert double_layers(sheets(-1.0, -1.08), eye, 0.05) == pytest.approx(1.0, abs=0.02)
    assert double_layers(sheets(-1.0, -1.12), eye, 0.05) == 0.0  # farther than two voxels
    assert double_layers(sheets(-1.0, -1.004), eye, 0.05) == 0.0  # one sheet, within a tenth of a voxel
    assert double_layers(sheets(-1.0), eye, 0.05) == 0.0
    # From behind: not what was fused.
    assert double_layers(sheets(-1.0, -1.08, up=False), eye, 0.05) == 0.0
    # A slab is seen from its front and then from its back.
    front, back = plate(-1.0), sheets(-1.08, up=False)
    slab = TriangleMesh(np.concatenate([front.vertices, back.vertices]), np.concatenate([front.faces, back.faces + 4]))
    assert double_layers(slab, eye, 0.05) == 0.0
    # A fold: front, back, front within two voxels.
    fold = TriangleMesh(np.concatenate([slab.vertices[:4], slab.vertices[4:] + [0, 0, 0.04], plate(-1.08).vertices]),
                        np.concatenate([slab.faces, front.faces + 8]))
    assert double_layers(fold, eye, 0.05) == pytest.approx(1.0, abs=0.02)
    # Half: rays down that meet the second plate on the left only.
    left = TriangleMesh(np.concatenate([front.vertices, plate(-1.08, -50.0, 0.0).vertices]),
                        np.concatenate([front.faces, front.faces + 4]))
    assert double_layers(left, eye, 0.05) == pytest.approx(0.5, abs=0.02)
    assert double_layers(sheets(1.0, up=False), [np.array([0.0, 0.0, 60.0])], 0.05) is not None
    away = TriangleMesh(plate(-1.0, 0.0, 0.001).vertices, front.faces)
    assert double_layers(away, [np.array([500.0, 500.0, 500.0])], 0.05) is None


def test_distances_to_a_mesh() -> None:
    rng = np.random.default_rng(1)
    vertices = rng.uniform(-1, 1, (40, 3))
    faces = rng.permutation(np.concatenate([rng.permutation(40)[:39].reshape(-1, 3) for _ in range(3)])).astype(F32)
    faces = faces.astype(np.int32)
    used = np.unique(faces, return_inverse=True)
    vertices, faces = vertices[used[0]], used[1].reshape(-1, 3).astype(np.int32)
    points = rng.uniform(-1.5, 1.5, (30, 3))
    t = vertices[faces]
    reach = float(np.linalg.norm(t - np.roll(t, 1, axis=1), axis=2).max())
    got = _kernels.mesh_distances(points, vertices, faces, reach)
    # Against the nearest of many points of each face: never nearer than the face, and at most one step farther.
    n = 60
    i, j = (a.ravel() for a in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    b = np.stack([i, j, n - i - j], axis=1)[i + j <= n] / n
    samples = np.einsum("sk,fkx->fsx", b, t).reshape(-1, 3)
    nearest = np.array([np.linalg.norm(samples - p, axis=1).min() for p in points])
    assert (got <= nearest + 1e-12).all()
    assert (nearest <= got + reach / n).all()
    mesh = TriangleMesh(vertices, faces)
    assert least_distance(mesh, points, reach / math.sqrt(3)) == pytest.approx(got.min(), abs=1e-15)
    line = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]])  # no area
    assert _kernels.mesh_distances(np.array([[1.5, 3.0, 4.0]]), line, np.array([[0, 1, 2]], np.int32), 2.0)[0] == 5.0
