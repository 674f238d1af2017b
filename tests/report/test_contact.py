"""The contact sheet: cameras that see all of a world, and marks where things are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.errors import BackendUnavailableError
from spatialbench.report.contact import SheetFrame, contact_sheet, four_cameras, plan_camera, splats_of_points
from spatialbench.report.sheet_marks import mark_plan, project
from spatialbench.world import FrameOverrides, anchor_world
from tests import analytic as A
from tests.worlds import quick_protocol, scene_of

number = st.floats(-50, 50, allow_nan=False)
cloud = st.lists(st.tuples(number, number, number), min_size=2, max_size=20).map(np.array)


@given(cloud)
def test_every_camera_has_all_points_in_its_picture(points: np.ndarray) -> None:
    for camera in (*four_cameras(points, 64), plan_camera(points, 64, [])):
        xy = project(camera, points)
        assert (xy >= -1e-6).all()
        assert (xy <= 64 + 1e-6).all()


def test_the_plan_has_forward_at_its_top_and_right_at_its_right() -> None:
    camera = plan_camera(np.array([[-3.0, -3, 0], [3, 3, 0]]), 100, [])
    middle, right, ahead = project(camera, [[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    # 3 m and a margin of 12 % to the edge: 50 / 3.36 pixels a metre.
    assert np.allclose(middle, [50, 50])
    assert np.allclose(right, [50 + 50 / 3.36, 50])
    assert np.allclose(ahead, [50, 50 - 50 / 3.36])


def test_the_initial_camera_and_the_rays_are_marked_where_they_are() -> None:
    camera = plan_camera(np.array([[-3.0, -3, 0], [3, 3, 0]]), 200, [])
    rays = np.array([[2.0, -1, 0], [-2, -1, 0]])
    plain = np.full((200, 200, 3), 230, np.uint8)
    drawn = mark_plan(plain, camera, "from above", "m", True, rays).astype(int)
    per = 100 / 3.36

    def at(x: float, y: float) -> list[int]:
        return drawn[round(100 - y * per), round(100 + x * per)].tolist()

    purple, orange = [150, 30, 150], [235, 140, 20]
    assert at(0, 0) == purple
    assert at(0, 1) == purple, "the arrow points ahead"
    assert at(0, -1) != purple
    assert at(2, -1) == orange
    assert at(-2, -1) == orange
    assert (mark_plan(plain, camera, "from above", "m", False, np.zeros((0, 3)))[100, 100] == 230).all()


def test_a_ceiling_does_not_hide_the_floor() -> None:
    """A closed room seen from above at eye height: its floor is drawn, by the normal's shade, and not its ceiling."""
    floor = A.coloured(A.box_room())
    at = anchor_world(scene_of(floor, up=(0, 0, 1)), quick_protocol(), None,
                      FrameOverrides(camera_position=A.EYE, camera_forward=(0.0, 1.0, 0.0)))
    frame = SheetFrame.of(at.rotation[2], at)
    assert frame.cut
    cut = contact_sheet(floor, frame, 48)
    whole = contact_sheet(floor, SheetFrame(frame.rotation, frame.origin, frame.factor, True, True), 48)
    assert cut.shape == (96, 192, 3)
    assert (cut[:, :96] == whole[:, :96]).all(), "the four sides show all of it"
    below = project(plan_camera(floor.vertices, 96, []), [[1.0, 1.0, 0.0]])
    assert np.isfinite(below).all()
    assert (cut[:, 96:] != whole[:, 96:]).any()


def test_points_far_from_the_origin_keep_their_places() -> None:
    points = np.array([[1e6, 2e6, 3e6], [1e6 + 1, 2e6, 3e6], [1e6, 2e6 + 1, 3e6]])
    splats = splats_of_points(points, None)
    assert splats.offset is not None
    assert np.allclose(splats.means + splats.offset, points, atol=1e-6)
    red = splats_of_points(points, np.array([[1.0, 0, 0, 1]] * 3, np.float32))
    assert np.allclose(0.5 + 0.28209479177387814 * red.sh[:, 0], [1, 0, 0], atol=1e-6)


def test_nothing_is_not_drawn() -> None:
    with pytest.raises(BackendUnavailableError):
        contact_sheet(None, SheetFrame(np.eye(3), np.zeros(3)))
