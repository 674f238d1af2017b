"""The part of anchoring that comes before simulators is one for ``build_world`` and for inspection."""

from __future__ import annotations

import numpy as np
import pytest

from spatialbench.types import SnapshotCase
from spatialbench.world import FrameOverrides, anchor_world, build_world
from spatialbench.world.anchoring import collision_source
from tests import analytic as A
from tests.splats import splat_mesh, splat_scene
from tests.worlds import moved, quick_protocol, scene_of, y_up_scene

P = quick_protocol("fusion.rounds=[2, 2, 2]", "fusion.image=64", "fusion.checks=0", "fusion.reach=4",
                   "fusion.voxel=0.1")
AT = FrameOverrides(camera_position=A.EYE, camera_forward=(0.0, 1.0, 0.0))


def _scenes() -> dict[str, object]:
    return {"mesh": scene_of(A.table_room(), up=(0, 0, 1)), "splats": splat_scene(splat_mesh(A.box_room(), 0.15)),
            "outside": y_up_scene(A.open_plane(), shift=(0, 0, 3), unit_m=None)}


@pytest.mark.parametrize("name", ["mesh", "splats", "outside"])
def test_a_built_world_is_what_its_anchoring_says(name: str) -> None:
    scene = _scenes()[name]
    told = AT if name == "splats" else None
    at, world = (f(scene, P, None, told) for f in (anchor_world, build_world))  # type: ignore[operator]
    assert world.decisions == at.decisions
    assert world.gates == at.gates
    assert world.scale == at.scale
    assert world.estimates == at.estimates
    assert (world.ground_z, world.ground_assumed) == (at.ground_z, at.ground_assumed)
    assert world.transform.tobytes() == at.transform.tobytes()
    assert world.warnings[:len(at.warnings)] == at.warnings
    assert at.unit_warning is None or world.warnings[-1] == at.unit_warning
    assert world.collision.geometry == collision_source(at.scene)


def test_which_geometry_simulators_get() -> None:
    room, cloud = A.box_room(), splat_mesh(A.box_room(), 0.5)
    assert [collision_source(s) for s in (scene_of(room), splat_scene(cloud), splat_scene(cloud, mesh=room))] == [
        "mesh", "fused_mesh", "collider"]


def test_rays_end_where_they_meet_the_floor() -> None:
    """Tangents of 0.1 from eyes 1.6 m up end 0.16 m apart, in file units of a quarter of a metre as well."""
    at = anchor_world(scene_of(A.box_room(), up=(0, 0, 1)), P, None, AT)
    tilt = (-0.16, 0.0, 0.16)
    expected = [[x, y, -1.6] for x in tilt for y in tilt]
    assert np.allclose(at.ray_points, expected, atol=1e-9)
    small = scene_of(moved(A.box_room(), 4 * np.eye(3)), up=(0, 0, 1), unit_m=0.25)
    quarter = FrameOverrides(camera_position=tuple(4 * x for x in A.EYE), camera_forward=(0.0, 1.0, 0.0))
    assert np.allclose(anchor_world(small, P, None, quarter).ray_points, expected, atol=1e-9)
    none = anchor_world(scene_of(A.no_floor_room(), up=(0, 0, 1)), P, None, AT)
    assert none.ray_points.shape == (0, 3)


def test_a_profile_of_the_case_serves_where_the_user_names_none() -> None:
    from tests.world.test_profile import profile

    case = SnapshotCase(id="c", profile=profile(up="+Z", unit_m=0.5))
    scene = scene_of(A.table_room(), up=(0, 0, -1), unit_m=None)  # upside down by its format
    at = anchor_world(scene, P, case, AT)
    assert {k: at.decisions[k].source for k in ("up", "unit")} == {"up": "profile", "unit": "profile"}
    assert at.decisions["up"].note.startswith("what Somebody writes")
    user = FrameOverrides(camera_position=A.EYE, camera_forward=(0.0, 1.0, 0.0), profile=profile(unit_m=2.0))
    other = anchor_world(scene_of(A.table_room(), up=(0, 0, 1), unit_m=None), P, case, user)
    assert (other.decisions["unit"].value, other.decisions["up"].source) == (2.0, "prior")
    stronger = SnapshotCase(id="c", profile=profile(up="-Z", unit_m=0.5), up="+Z", unit_m=1.0)
    decided = anchor_world(scene, P, stronger, AT).decisions
    assert (decided["up"].source, decided["unit"].source, decided["unit"].value) == ("case", "case", 1.0)
