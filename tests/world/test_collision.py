"""The collision mesh: crop, sky, and the facing rule with its check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spatialbench.types import Material, TriangleMesh
from spatialbench.types.protocol_rules import Crop
from spatialbench.world.collision import (
    collision_mesh,
    crop_faces,
    facing_share,
    first_hit_share,
    sky_materials,
    true_facing,
)
from tests import analytic as A
from tests.worlds import moved


def at_eye(mesh: TriangleMesh) -> TriangleMesh:
    return moved(mesh, np.eye(3), (0, 0, -1.6))


def slab(size: float = 8.0, thickness: float = 0.5) -> TriangleMesh:
    s = A.Soup()
    s.box((-size / 2, -size / 2, -1.6 - thickness), (size / 2, size / 2, -1.6))
    return s.mesh()


def test_crop_keeps_faces_with_all_corners_in_the_band() -> None:
    z = [(-3.7, -3.6, -3.5), (-3.6, -3.6, -3.6), (-3.5, 0, 8.4), (8.4, 8.4, 8.4), (0, 0, 8.5), (0, 0, 0)]
    vertices = np.array([[i, k % 2, h] for i, row in enumerate(z) for k, h in enumerate(row)], dtype=np.float64)
    vertices[2::3, 0] += 0.5
    mesh = TriangleMesh(vertices, np.arange(18, dtype=np.int32).reshape(6, 3))
    assert crop_faces(mesh, -3.6, 8.4).tolist() == [False, True, True, True, False, True]
    out = collision_mesh(mesh, -1.6, Crop())
    assert (out.cropped_faces, out.crop) == (2, pytest.approx((-3.6, 8.4)))
    assert out.mesh is not None
    assert len(out.mesh.faces) == 4


def test_nothing_left_is_said() -> None:
    out = collision_mesh(moved(slab(), np.eye(3), (0, 0, 50)), -1.6, Crop())
    assert out.mesh is None
    assert (out.cropped_faces, out.facing_share, out.first_hit_share, out.reversed) == (12, None, None, False)
    assert true_facing(out) is None


def test_named_sky_goes_and_skylights_stay() -> None:
    names = ("Sky", "mat_skydome.001", "SkyBox", "skylight", "Whisky", "Dusky_wall", "wall", "")
    mesh = at_eye(A.box_room())
    ids = np.arange(len(mesh.faces), dtype=np.int32) % len(names)
    painted = replace(mesh, materials=tuple(Material(n) for n in names), material_ids=ids)
    assert sky_materials(painted) == [0, 1, 2]
    out = collision_mesh(painted, -1.6, Crop())
    assert out.sky_faces == int((ids < 3).sum()) == 6
    assert out.mesh is not None
    assert len(out.mesh.faces) == 12 - 6


def test_a_room_seen_from_inside_faces_its_camera() -> None:
    out = collision_mesh(at_eye(A.box_room()), -1.6, Crop())
    assert (out.facing_share, out.first_hit_share) == (1.0, 1.0)
    assert (out.reversed, out.facing_disagrees) == (False, False)


def test_a_truly_reversed_room_is_turned_without_disagreement() -> None:
    room = at_eye(A.box_room())
    out = collision_mesh(room.flipped(), -1.6, Crop())
    assert (out.facing_share, out.first_hit_share) == (0.0, 0.0)
    assert (out.reversed, out.facing_disagrees) == (True, False)
    assert out.mesh is not None
    np.testing.assert_array_equal(out.mesh.area_vectors(), room.area_vectors())
    assert true_facing(out) is out.mesh


def test_a_closed_slab_is_reversed_literally_and_the_first_hits_disagree() -> None:
    # Only the top, 64 of 64 + 64 + 4 * 8 * 0.5 m2, faces a camera above it; all that is seen is that top.
    out = collision_mesh(slab(), -1.6, Crop())
    assert out.facing_share == pytest.approx(64 / 144, abs=1e-12)
    assert out.first_hit_share == 1.0
    assert (out.reversed, out.facing_disagrees) == (True, True)
    assert out.mesh is not None
    corrected = true_facing(out)
    assert corrected is not None
    np.testing.assert_array_equal(corrected.area_vectors(), slab().area_vectors())
    np.testing.assert_array_equal(out.mesh.area_vectors(), -slab().area_vectors())


def test_the_other_disagreement_keeps_the_faces() -> None:
    # A wrongly wound floor before the eye and, behind it, so much wall that faces the eye that the area agrees.
    s = A.Soup()
    s.quad((-4, -4, -1.6), (-4, 4, -1.6), (4, 4, -1.6), (4, -4, -1.6))
    s.quad((-9, -9, -3.0), (9, -9, -3.0), (9, 9, -3.0), (-9, 9, -3.0))
    out = collision_mesh(s.mesh(), -1.6, Crop())
    # 324 m2 of 388 face up. The down probe sees nothing but the first sheet; the side probes see the second.
    assert out.facing_share == pytest.approx(324 / 388, abs=1e-12)
    assert out.first_hit_share is not None
    assert out.first_hit_share < 0.5
    assert (out.reversed, out.facing_disagrees) == (False, True)
    assert true_facing(out) is out.mesh


def test_shares_of_nothing_are_none() -> None:
    line = TriangleMesh(np.array([[0.0, 0, -1], [1, 0, -1], [2, 0, -1]]), np.array([[0, 1, 2]], np.int32))
    assert facing_share(line) is None
    assert first_hit_share(line) is None
    out = collision_mesh(line, -1.6, Crop())
    assert (out.reversed, out.facing_disagrees) == (False, False)
