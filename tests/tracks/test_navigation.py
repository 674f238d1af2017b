"""M08 and M08c: the facing rule, stray faces and causes, on worlds made of a few faces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spatialbench.observe import REGISTRY, Context, Observations, Outcome
from spatialbench.tracks import load_tracks
from spatialbench.tracks.spatial.inventory import INVENTORY
from spatialbench.tracks.spatial.navigation import navigable_outcome
from spatialbench.types import Status, TriangleMesh, load_protocol
from spatialbench.types.protocol_rules import Crop
from spatialbench.world.collision import collision_mesh, far_faces
from spatialbench.world.footprint import footprint
from tests import analytic as A
from tests.worlds import moved

PROTOCOL = load_protocol("happyworld-spatial-1")


def observe(mesh: TriangleMesh) -> Observations:
    """The parts of a world that both metrics look at, without a camera search."""
    load_tracks()
    collision = collision_mesh(mesh, -1.6, Crop())
    covered = None if collision.mesh is None else footprint(collision.mesh, PROTOCOL.footprint)
    world: Any = SimpleNamespace(collision=collision, footprint_area=0.0 if covered is None else covered.area,
                                 gates=(), raised=lambda: (), scale=SimpleNamespace(protocol=True, branch="floor"))
    return Observations(Context(PROTOCOL, {"main": world}, None, "case", "system"))


def both(mesh: TriangleMesh) -> tuple[Outcome, Outcome]:
    obs = observe(mesh)
    return navigable_outcome(obs, "spatial.walkable"), REGISTRY.metric("M08c").compute(obs)


def slab(size: float = 8.0) -> TriangleMesh:
    """Closed, 0.5 m thick, its top 1.6 m below the camera."""
    s = A.Soup()
    s.box((-size / 2, -size / 2, -2.1), (size / 2, size / 2, -1.6))
    return s.mesh()


def floor(*size: float) -> TriangleMesh:
    s = A.Soup()
    w, d = size
    s.quad((0, 0, -1.6), (w, 0, -1.6), (w, d, -1.6), (0, d, -1.6))
    return s.mesh()


def with_face(mesh: TriangleMesh, corner: tuple[float, float, float], side: float = 0.1) -> TriangleMesh:
    x, y, z = corner
    more = [[x, y, z], [x + side, y, z], [x, y + side, z]]
    n = len(mesh.vertices)
    return TriangleMesh(np.vstack([mesh.vertices, more]), np.vstack([mesh.faces, [[n, n + 1, n + 2]]]))


def test_m08c_is_beside_the_papers_metrics_and_not_in_the_score() -> None:
    spec = INVENTORY["M08c"]
    assert (spec.level, spec.retained, spec.table, spec.higher_is_better) == ("W2", False, "", True)
    assert sum(s.retained and s.level == "W2" for s in INVENTORY.values()) == 2


def test_a_closed_slab_is_turned_over_by_m08_and_not_by_m08c() -> None:
    """The literal rule leaves an upside-down box: nothing on it can be stood on, below its bottom's 0.5 m of room. The
    right one loses 0.15 m on each open side (spec/navmesh.md section 6)."""
    literal, corrected = both(slab())
    assert (literal.status, literal.value) == (Status.MEASURED, 0.0)
    assert literal.reason.startswith("agent_does_not_fit: nothing is walkable at 0.05 m")
    assert literal.flags == ("facing_disagrees",)
    assert literal.components["reversed"]
    assert corrected.value == pytest.approx(7.7**2 / 8**2, abs=0.02)  # borders between cells: spec section 5
    assert corrected.components["largest_component_area"] == pytest.approx(7.7**2, abs=1e-6)
    assert corrected.flags == ()
    assert not corrected.components["reversed"]
    assert corrected.components["footprint_area"] == literal.components["footprint_area"]


def test_a_truly_reversed_room_is_turned_by_both() -> None:
    room = moved(A.box_room(), np.eye(3), (0, 0, -1.6))
    for mesh in (room, room.flipped()):
        literal, corrected = both(mesh)
        assert literal.value == corrected.value
        assert literal.value is not None
        assert literal.value > 0.7
        assert literal.flags == ()
        assert literal.components == corrected.components


def test_where_nothing_is_corrected_nothing_is_built_twice() -> None:
    obs = observe(floor(4, 3))
    REGISTRY.metric("M08c").compute(obs)
    assert obs.get("spatial.walkable_corrected") is obs.get("spatial.walkable")


def test_a_floater_200_m_away_is_flagged_and_left_out_of_m08c() -> None:
    clean, _ = both(floor(5, 4))
    # Down and to the left, so that it moves the corner from which voxels are counted.
    literal, corrected = both(with_face(floor(5, 4), (-200.013, -0.031, -1.6)))
    assert literal.flags == ("far_geometry",)
    assert literal.components["far_faces"] == 1
    assert corrected.flags == ()
    assert corrected.value == clean.value
    assert corrected.components["footprint_area"] == clean.components["footprint_area"]
    assert literal.value == pytest.approx(clean.value, abs=0.03)  # the horizontal phase: spec/navmesh.md section 6
    assert literal.value != clean.value


def test_a_floater_too_far_for_voxels_costs_m08_and_not_m08c() -> None:
    clean, _ = both(floor(5, 4))
    literal, corrected = both(with_face(floor(5, 4), (40_000.0, 40_000.0, -1.6)))
    assert (literal.value, literal.flags) == (0.0, ("far_geometry",))
    assert literal.reason.startswith("navmesh_build_failed: ")
    assert [a["stage"] for a in literal.components["attempts"]] == ["bounds"] * 3
    assert corrected.value == clean.value


@pytest.mark.parametrize(("mesh", "reason"), [
    (floor(1, 1), "only_islands: "), (floor(4, 0.3), "agent_does_not_fit: ")])
def test_causes_begin_the_reason(mesh: TriangleMesh, reason: str) -> None:
    for outcome in both(mesh):
        assert (outcome.status, outcome.value) == (Status.MEASURED, 0.0)
        assert outcome.reason.startswith(reason)


def test_a_wall_alone_is_no_floor() -> None:
    s = A.Soup()
    s.box((-1, 2, -1.6), (1, 2.2, 1.0), skip="")
    top = s.mesh()
    normals = top.area_vectors()
    walls = top.select(np.abs(normals[:, 2]) < 1e-9)
    for outcome in both(walls):
        assert outcome.value == 0.0
        assert outcome.reason.startswith("no_floor: ")


def test_nothing_within_the_crop_is_invalid() -> None:
    for outcome in both(moved(floor(4, 3), np.eye(3), (0, 0, 50))):
        assert outcome.status is Status.INVALID
        assert outcome.reason.startswith("empty_footprint")


def test_far_faces() -> None:
    base = floor(5, 4)
    assert far_faces(with_face(base, (200, 0, 0))).tolist() == [False, False, True]
    assert far_faces(with_face(base, (0, -200, 0))).tolist() == [False, False, True]
    assert not far_faces(with_face(base, (14.9, 0, 0))).any()  # a gap of 9.9 m
    assert far_faces(with_face(base, (15.1, 0, 0))).any()
    # 0.7 m legs have 0.245 m2, more than 1 % of 20 m2; 0.6 m have 0.18.
    assert not far_faces(with_face(base, (200, 0, 0), 0.7)).any()
    assert far_faces(with_face(base, (200, 0, 0), 0.6)).any()
    twins = TriangleMesh(np.vstack([base.vertices, base.vertices + [100, 0, 0]]),
                         np.vstack([base.faces, base.faces + len(base.vertices)]))
    assert not far_faces(twins).any()
    assert not far_faces(base.select(np.zeros(2, bool))).any()
    line = TriangleMesh(np.array([[0.0, 0, 0], [1, 0, 0], [200, 0, 0]]), np.array([[0, 1, 2]], np.int32))
    assert not far_faces(line).any()
