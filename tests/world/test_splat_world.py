"""Anchoring of splats: the same decisions as for a mesh of the same room, and what only splats need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spatialbench.errors import EmptyWorldError
from spatialbench.types import GaussianSplats, World, load_case
from spatialbench.world import FrameOverrides, build_world
from tests import analytic as A
from tests.splats import splat_mesh, splat_scene
from tests.worlds import quick_protocol, scene_of

P = quick_protocol("fusion.rounds=[4, 4, 4]", "fusion.image=256", "fusion.checks=2")
COARSE = quick_protocol("fusion.rounds=[1, 1, 1]", "fusion.image=96", "fusion.checks=1")
"""For what is decided before anything is fused, or of a given polygon."""
AT = FrameOverrides(camera_position=A.EYE, camera_forward=(0.0, 1.0, 0.0))
TABLE_TOP = 0.75


def moved(splats: GaussianSplats, shift: tuple[float, float, float], factor: float = 1.0) -> GaussianSplats:
    return replace(splats, means=((splats.means + np.float32(shift)) * np.float32(factor)),
                   scales=splats.scales * np.float32(factor))


@pytest.fixture(scope="module")
def table() -> GaussianSplats:
    return splat_mesh(A.table_room(), 0.06)


@pytest.fixture(scope="module")
def fused(table: GaussianSplats) -> World:
    return build_world(splat_scene(table), P, None, AT)


def test_a_room_of_splats_is_anchored_and_fused(fused: World) -> None:
    world = fused
    mesh_world = build_world(scene_of(A.table_room(), up=(0, 0, 1)), P, None, AT)
    assert world.raised() == mesh_world.raised() == ()
    assert world.mesh is None
    assert world.splats is not None
    assert world.seen is world.splats
    assert (world.seen_geometry, mesh_world.seen_geometry) == ("splats", "mesh")
    # The floor is the plane that the splats lie in: 1.6 m below, to float32.
    assert world.scale.factor == pytest.approx(1.0, rel=1e-5)
    np.testing.assert_allclose(world.transform, mesh_world.transform, atol=2e-5)
    assert world.collision.geometry == "fused_mesh"
    assert mesh_world.collision.geometry == "mesh"
    assert mesh_world.collision.fusion is None
    quality = world.collision.fusion
    assert quality is not None
    assert (quality.viewpoints, quality.checked_from, quality.clipped) == (13, 2, 0.0)
    assert quality.bias is not None
    assert abs(quality.bias) < 0.01
    # The room is 6 x 5 m: its plan is within a cell along every side of 0.05 m.
    assert world.footprint_area == pytest.approx(mesh_world.footprint_area, abs=0.05 * 22 * 1.5)
    # One support in each, the table's top. Depth is that of centres, and of splats that overlap the nearer ones use up
    # the light: seen aslant the top comes nearer by up to a third of the spacing.
    assert len(mesh_world.supports) == 1
    assert [s.id for s in world.supports] == ["support_0"]
    assert world.supports[0].height == pytest.approx(mesh_world.supports[0].height, abs=0.06 / 3)
    assert world.supports[0].area == pytest.approx(mesh_world.supports[0].area, rel=0.15)


def test_a_scene_of_both_shows_its_splats_and_is_touched_as_its_mesh(table: GaussianSplats) -> None:
    world = build_world(splat_scene(table, mesh=A.table_room()), P, None, AT)
    assert world.seen is world.splats
    assert world.mesh is not None
    assert world.collision.geometry == "collider"
    assert world.collision.fusion is None
    assert world.supports[0].height == pytest.approx(TABLE_TOP - 1.6, abs=1e-6)


def test_without_a_unit_an_origin_just_over_the_floor_is_not_the_camera(table: GaussianSplats) -> None:
    """At 1 cm over the floor nine rays would make the room 430 m high; as metres it has a place to stand on."""
    world = build_world(splat_scene(moved(table, (0, 0, -0.01)), unit_m=None), COARSE)
    assert world.decisions["camera"].source == "found"
    assert "m high" in world.decisions["camera"].note
    assert world.scale.factor == pytest.approx(1.0, rel=0.02)
    assert world.raised() == ()


def test_without_a_unit_a_room_of_any_size_is_seen_from_its_origin(table: GaussianSplats) -> None:
    """In the units of a normalised scene, 1/3 m long each, the origin at eye height passes and gives the scale."""
    small = moved(table, (0, 0, -1.6), 1 / 3)
    world = build_world(splat_scene(small, unit_m=None), COARSE)
    assert world.decisions["camera"].source == "origin"
    assert world.scale.factor == pytest.approx(3.0, rel=1e-4)
    assert world.raised() == ()


def test_a_blurry_world_says_that_its_geometry_means_nothing() -> None:
    coarse = splat_mesh(A.table_room(), 0.12)
    blurry = replace(coarse, scales=coarse.scales * np.float32(6))  # 0.048 m become 0.29 m
    world = build_world(splat_scene(blurry), COARSE, None, AT)
    gate = next(g for g in world.gates if g.name == "too_blurry_for_geometry")
    assert gate.raised
    # The tails of such splats stop the nine rays early, so that the rule's metre is too long; never too short.
    assert world.scale.factor is not None
    assert gate.value == pytest.approx(0.4 * 0.12 * 6 * world.scale.factor, rel=1e-5)
    assert world.scale.factor >= 1.0
    assert "means nothing" in gate.note


def test_an_object_has_no_interior_and_is_seen_from_outside() -> None:
    s = A.Soup()
    s.box((-0.5, -0.5, 0.0), (0.5, 0.5, 1.0))
    world = build_world(splat_scene(splat_mesh(s.mesh()), unit_m=None), COARSE)
    assert "no_interior" in world.raised()
    assert world.decisions["camera"].source == "none"
    assert "outside" in world.decisions["camera"].note


def test_no_visible_splat_is_an_empty_world(table: GaussianSplats) -> None:
    faint = replace(table, opacities=np.full(len(table), 0.003, np.float32))
    with pytest.raises(EmptyWorldError, match="opaque"):
        build_world(splat_scene(faint), P)


def test_a_case_marks_its_support_on_splats(table: GaussianSplats, tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text("id: c\nsupport:\n  label: table\n  polygon: [[-0.5, 1.6, 0.75], [0.5, 1.6, 0.75], "
                    "[0.5, 2.1, 0.75], [-0.5, 2.1, 0.75]]\n")
    world = build_world(splat_scene(table), COARSE, load_case(path), AT)
    assert world.support_annotated
    assert len(world.supports) == 1
    assert world.supports[0].source == "case"


def test_rebuilding_gives_the_same_bytes(table: GaussianSplats, fused: World) -> None:
    one, two = fused, build_world(splat_scene(table), P, None, AT)
    assert one.collision.mesh is not None
    assert two.collision.mesh is not None
    assert one.collision.mesh.vertices.tobytes() == two.collision.mesh.vertices.tobytes()
    assert one.collision.mesh.faces.tobytes() == two.collision.mesh.faces.tobytes()
    assert one.collision.fusion == two.collision.fusion
    assert one.estimates == two.estimates
