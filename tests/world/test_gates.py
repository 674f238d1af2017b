"""Gates: where each flag goes up, and in real geometry."""

from __future__ import annotations

import pytest

from spatialbench.types import Gate, Protocol, ScaleRecord
from spatialbench.world import FrameOverrides, build_world
from spatialbench.world.gates import check_gates
from tests import analytic as A
from tests.worlds import quick_protocol, y_up, y_up_scene

P = quick_protocol()
FLOOR = ScaleRecord("floor", 1.0, (1.6,) * 9)


def gates(protocol: Protocol = P, enclosure: float = 0.5, level_depth: float | None = 1.0,
          scale: ScaleRecord = FLOOR, unit_m: float | None = 1.0, **more: float | None) -> dict[str, Gate]:
    return {g.name: g for g in check_gates(enclosure=enclosure, level_depth=level_depth, scale=scale,
                                           unit_m=unit_m, protocol=protocol, **more)}  # type: ignore[arg-type]


def test_names_and_order() -> None:
    assert list(gates()) == ["no_interior", "too_blurry_for_geometry", "camera_inside_geometry", "scale_doubtful"]
    assert not any(g.raised for g in gates().values())
    assert gates()["too_blurry_for_geometry"].value is None


@pytest.mark.parametrize(("e", "up"), [(0.35, False), (0.3499, True), (0.0, True), (1.0, False)])
def test_interior(e: float, up: bool) -> None:
    assert gates(enclosure=e)["no_interior"].raised is up


@pytest.mark.parametrize(("floor", "up"), [(1.0, False), (0.99, True), (30.0, False)])
def test_a_pedestal_is_no_floor(floor: float, up: bool) -> None:
    gate = gates(enclosure=0.9, floor=floor)["no_interior"]
    assert (gate.raised, gate.value) == (up, 0.9)


@pytest.mark.parametrize(("sigma", "up"), [(0.014, False), (0.0999, False), (0.1, True), (1.1, True), (None, False)])
def test_blur(sigma: float | None, up: bool) -> None:
    gate = gates(blur=sigma)["too_blurry_for_geometry"]
    assert (gate.raised, gate.value) == (up, sigma)
    assert ("means nothing" in gate.note) is up


@pytest.mark.parametrize(("depth", "up"), [(0.3, True), (0.301, False), (0.0, True), (None, False)])
def test_inside(depth: float | None, up: bool) -> None:
    gate = gates(level_depth=depth)["camera_inside_geometry"]
    assert (gate.raised, gate.value) == (up, depth)


@pytest.mark.parametrize(("factor", "unit", "hits", "up"), [
    (1.0, 1.0, 9, False), (2.99, 1.0, 9, False), (3.0, 1.0, 9, True), (0.334, 1.0, 9, False), (1 / 3, 1.0, 9, True),
    (0.02, 0.01, 5, False), (0.02, 0.001, 5, True), (1.0, 1.0, 4, True), (18.0, None, 9, False),
    (18.0, None, 4, True)])
def test_scale(factor: float, unit: float | None, hits: int, up: bool) -> None:
    rays = tuple([1.6 / factor] * hits + [None] * (9 - hits))
    assert gates(scale=ScaleRecord("floor", factor, rays), unit_m=unit)["scale_doubtful"].raised is up


def test_scale_that_failed_fell_back_or_was_given() -> None:
    none = (None,) * 9
    assert gates(scale=ScaleRecord("failed", None, none))["scale_doubtful"].raised
    assert gates(scale=ScaleRecord("depth", 1.0, none, 5.0))["scale_doubtful"].raised
    assert not gates(scale=ScaleRecord("user", 7.0, none, protocol=False))["scale_doubtful"].raised


@pytest.mark.parametrize(("half_thickness", "up"), [(0.18, True), (0.6, False)])
def test_a_camera_in_a_wall(half_thickness: float, up: bool) -> None:
    # Level rays meet the wall's faces at t / cos(angle); a tenth of them within 1.25 % of t.
    at = FrameOverrides(camera_position=tuple(y_up(A.EYE).tolist()), camera_forward=tuple(y_up((0, 1, 0)).tolist()))
    world = build_world(y_up_scene(A.camera_in_wall(half_thickness)), P, None, at)
    gate = {g.name: g for g in world.gates}["camera_inside_geometry"]
    assert gate.raised is up
    assert gate.value == pytest.approx(half_thickness, rel=0.02)
    assert world.scale.factor == pytest.approx(1.0, abs=1e-12)


def test_an_open_plane_is_no_interior() -> None:
    at = FrameOverrides(camera_position=tuple(y_up(A.EYE).tolist()))
    world = build_world(y_up_scene(A.open_plane()), P, None, at)
    assert world.raised() == ("no_interior",)
