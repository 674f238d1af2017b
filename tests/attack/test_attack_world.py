"""Hostile geometry: bounded memory and time, and no number where there is nothing to count."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from spatialbench.errors import ConfigError
from spatialbench.renderers.raycast import MeshRayCaster
from spatialbench.types import Camera, PlanGrid, TriangleMesh, level_pose
from spatialbench.types.protocol_rules import CameraFinding, Footprint, SupportFinding
from spatialbench.world.camera import _horizontal
from spatialbench.world.footprint import _distinct, footprint
from spatialbench.world.interior import analyse_interior
from spatialbench.world.support_annotation import annotated_support, lift_image_polygon
from spatialbench.world.surfels import mesh_surfels

UP = np.array([0.0, 0.0, 1.0])


def square(size: float, z: float = 0.0) -> TriangleMesh:
    """A level square around the origin, facing up."""
    s = size / 2
    return TriangleMesh(np.array([[-s, -s, z], [s, -s, z], [s, s, z], [-s, s, z]]),
                        np.array([[0, 1, 2], [0, 2, 3]], np.int32))


def test_a_flat_world_of_1000_km_does_not_fill_the_memory() -> None:
    """Voxels so large that its box has 2e5 by volume are 144 m wide: its single layer would have 5e7."""
    finding = CameraFinding(min_surfels=1000, max_surfels=1000, max_voxels=2e5)
    surfels = mesh_surfels(square(1e6), 1.0, finding)
    analyse_interior(mesh_surfels(square(10.0), 1.0, finding), UP, finding)  # compiles, which takes memory too
    tracemalloc.start()
    try:
        found = analyse_interior(surfels, UP, finding)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Three grids: 4 + 4 + 1 bytes for each of at most 2 * max_voxels voxels, and 16 for each of their columns.
    assert peak < 2 * finding.max_voxels * (9 + 16) + 2e7
    assert (1e6 / found.voxel) ** 2 <= 2 * finding.max_voxels


def test_the_voxels_of_a_room_stay_what_they_were() -> None:
    finding = CameraFinding(min_surfels=1000, max_surfels=1000)
    assert analyse_interior(mesh_surfels(square(10.0), 1.0, finding), UP, finding).voxel == finding.voxel


def test_distinct_is_unique() -> None:
    ids = np.random.default_rng(1).integers(-50, 50, 1000)
    assert np.array_equal(_distinct(ids.copy()), np.unique(ids))
    assert len(_distinct(np.zeros(0, np.int64))) == 0
    assert _distinct(np.array([7, 7, 7])).tolist() == [7]


def test_a_footprint_too_large_for_an_array_is_counted_in_seconds() -> None:
    settings = Footprint(max_samples=3_000_000)
    footprint(square(1.0), settings)  # compiles
    start = time.perf_counter()
    found = footprint(square(1e6), settings)
    assert found is not None
    assert found.grid is None
    # 3e6 samples over 4e14 cells: two share a cell with a chance of 1 %.
    assert 3_000_000 - 5 <= found.cells <= 3_000_000
    assert time.perf_counter() - start < 8.0


def test_a_point_farther_than_integers_count_is_outside_a_grid() -> None:
    grid = PlanGrid(np.ones((2, 2), bool), 0, 0, 0.05)
    assert grid.contains([[1e300, 0.0], [-1e30, 1e30], [0.05, 0.05], [np.inf, 0.0]]).tolist() == [
        False, False, True, False]


def test_a_support_polygon_larger_than_the_world_finds_the_table_in_it() -> None:
    """Cells over 2e8 m would be 1e5 m wide and miss the table; only the part over the world is looked at."""
    mesh = square(1.0, z=-0.85)
    rays = MeshRayCaster(mesh.vertices, mesh.faces)
    wide = 1e8 * np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) + [0, 0, -0.85]
    found = annotated_support(wide, "table", mesh, rays, SupportFinding())
    assert found is not None
    assert found.area == pytest.approx(1.0, abs=4 * SupportFinding().grid)  # a cell along each side
    assert annotated_support(wide + [1e9, 0, 0], "table", mesh, rays, SupportFinding()) is None


def test_an_image_polygon_without_area_is_a_mistake_and_not_a_zero() -> None:
    camera = Camera.from_fov(level_pose(np.zeros(3)), 75.0, 32)
    depth = np.ones((32, 32), np.float32)
    with pytest.raises(ConfigError, match="no area in the image"):
        lift_image_polygon([[0.5, 0.5]] * 3, camera, depth)


def test_directions_of_any_length_are_directions() -> None:
    for length in (1e-300, 1.0, 1e300):
        found = _horizontal([0.0, length, length], UP)
        assert found is not None
        assert found.tolist() == [0.0, 1.0, 0.0]
    assert _horizontal([0.0, 0.0, 1e300], UP) is None
    assert _horizontal([0.0, 0.0, 0.0], UP) is None
