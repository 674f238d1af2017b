"""Supports found in rooms whose tables are known, and supports that a case names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spatialbench.errors import ConfigError
from spatialbench.physics.placement import plan_trials, run_plan
from spatialbench.types import Camera, PlacementSettings, TriangleMesh, look_at_pose
from spatialbench.types.protocol_rules import SupportFinding
from spatialbench.world import supports as module
from spatialbench.world.supports import annotated_support, find_supports, lift_image_polygon
from tests.physics.brute_rays import BruteRayCaster
from tests.physics.placement_scenes import box, join, read_obj, sheet

SETTINGS = SupportFinding()
CELL = SETTINGS.grid
FLOOR = sheet(-2, -2, 2, 2, 0.0)


def mesh_of(*parts: tuple) -> TriangleMesh:
    return TriangleMesh(*join(*parts))


def find(mesh: TriangleMesh, floor: float = 0.0, radius: float = 0.11) -> list:
    return find_supports(mesh, BruteRayCaster(mesh.vertices, mesh.faces), floor, SETTINGS, radius)


def turned(part: tuple, deg: float, about: str = "z", centre: tuple = (0, 0, 0)) -> tuple:
    c, s = np.cos(np.radians(deg)), np.sin(np.radians(deg))
    m = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) if about == "z" else np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    return (part[0] - centre) @ m.T + centre, part[1]


TABLE = box(-0.7, -0.4, 0.72, 0.7, 0.4, 0.75)


def outline_area(s) -> float:
    def area(r: np.ndarray) -> float:
        q = np.roll(r, -1, axis=0)
        return float((r[:, 0] * q[:, 1] - q[:, 0] * r[:, 1]).sum() / 2)

    assert area(s.boundary) > 0  # counter-clockwise
    assert all(area(h) < 0 for h in s.holes)
    return area(s.boundary) + sum(area(h) for h in s.holes)


# Edges are known to 0.16 mm by bisection, each corner is cut within its cell, and corners of the outline may
# move by a tenth of a cell (2 mm); far less than the ring of one cell that tracing cells would leave open.
def area_tolerance(perimeter: float, corners: int = 4) -> float:
    return perimeter * 0.00016 + corners * CELL**2 + corners * 0.002 * CELL


@pytest.mark.parametrize("deg", [0.0, 30.0, 45.0])
def test_table_is_found_with_its_height_and_area(deg: float) -> None:
    (s,) = find(mesh_of(FLOOR, turned(TABLE, deg)))
    assert s.id == "support_0"
    assert s.source == "found"
    assert s.height == pytest.approx(0.75, abs=1e-9)
    assert s.plane == pytest.approx((0, 0, 0.75), abs=1e-9)
    assert s.area == pytest.approx(1.12, abs=area_tolerance(4.4))
    assert outline_area(s) == pytest.approx(s.area, abs=1e-12)
    assert s.holes == ()
    assert s.confidence == pytest.approx(1.0)
    assert (s.cells[:, 2] == pytest.approx(0.75, abs=1e-9))
    # No corner of the outline sticks out of the table.
    back = turned((np.column_stack([s.boundary, np.zeros(len(s.boundary))]), None), -deg)[0]
    assert (np.abs(back[:, :2]) <= [0.7 + 1e-9, 0.4 + 1e-9]).all()


def test_floor_height_and_scaled_band() -> None:
    mesh = mesh_of(FLOOR, TABLE)
    assert len(find(mesh, floor=0.3)) == 1
    assert find(mesh, floor=0.45) == []  # 0.30 m above it
    assert find(mesh_of(TABLE), floor=-0.6) == []  # 1.35 m above it


def test_shelf_and_counter_are_both_found_largest_first() -> None:
    counter, shelf = box(-1, -0.3, 0, 1, 0.3, 0.8), box(-0.9, -0.1, 1.15, 0.9, 0.3, 1.18)
    a, b = find(mesh_of(FLOOR, counter, shelf))
    assert (a.id, b.id) == ("support_0", "support_1")
    assert a.height == pytest.approx(0.8, abs=1e-9)
    assert a.area == pytest.approx(1.2, abs=area_tolerance(5.2))  # the part below the shelf too
    assert b.height == pytest.approx(1.18, abs=1e-9)
    assert b.area == pytest.approx(0.72, abs=area_tolerance(4.4))
    # With less than 0.15 m above it, the covered part is lost.
    a, b = find(mesh_of(FLOOR, counter, box(-0.2, -0.1, 0.9, 0.9, 0.3, 1.18)))
    assert [round(s.height, 6) for s in (a, b)] == [0.8, 1.18]
    assert a.area == pytest.approx(1.2 - 1.1 * 0.4, abs=area_tolerance(6.0, 8))


def test_what_is_no_support() -> None:
    steep = turned(sheet(-0.5, -0.5, 0.5, 0.5, 0.75), 20, "x", (0, 0, 0.75))
    assert find(mesh_of(FLOOR, steep)) == []
    inside_out = (TABLE[0], TABLE[1][:, ::-1])  # its lower side looks up then, with 3 cm above it
    assert find(mesh_of(FLOOR, inside_out)) == []
    assert find(mesh_of(FLOOR, (sheet(-0.5, -0.5, 0.5, 0.5, 0.75)[0], np.array([[0, 2, 1], [0, 3, 2]])))) == []
    assert find(mesh_of(FLOOR, sheet(-0.1, -0.1, 0.1, 0.1, 0.45))) == []  # a stool of 0.2 m
    assert len(find(mesh_of(FLOOR, sheet(-0.13, -0.13, 0.13, 0.13, 0.45)))) == 1
    assert find(mesh_of(FLOOR, sheet(-1, -0.1, 1, 0.1, 0.75))) == []  # a board of 0.2 m
    assert find(mesh_of(FLOOR, sheet(-1, -1, 1, 1, 0.30))) == []
    assert find(TriangleMesh(np.zeros((3, 3)), np.zeros((0, 3), np.int32))) == []


def test_slight_tilt_is_a_support_with_its_plane() -> None:
    part = turned(sheet(-0.3, -0.15, 0.3, 0.15, 0.75), 10, "x", (0, 0, 0.75))
    (s,) = find(mesh_of(FLOOR, part))
    assert s.plane == pytest.approx((0, np.tan(np.radians(10)), 0.75), abs=1e-6)


def test_l_shape_and_a_hole() -> None:
    left, right = box(-1, -0.5, 0.7, 0, 0, 0.75), box(0, -0.5, 0.7, 0.5, 0.7, 0.75)
    (s,) = find(mesh_of(FLOOR, left, right))
    assert s.area == pytest.approx(0.5 + 0.6, abs=area_tolerance(5.4, 6))
    ring = [box(-0.7, -0.4, 0.72, 0.7, -0.1, 0.75), box(-0.7, 0.1, 0.72, 0.7, 0.4, 0.75),
            box(-0.7, -0.1, 0.72, -0.2, 0.1, 0.75), box(0.2, -0.1, 0.72, 0.7, 0.1, 0.75)]
    (s,) = find(mesh_of(FLOOR, *ring))
    assert len(s.holes) == 1
    assert s.area == pytest.approx(1.12 - 0.08, abs=area_tolerance(5.6, 8))
    assert outline_area(s) == pytest.approx(s.area, abs=1e-12)


def test_slits_are_closed_and_wider_gaps_are_not() -> None:
    def boards(gap: float) -> list:
        return find(mesh_of(FLOOR, sheet(-0.5, -0.4, -gap / 2, 0.4, 0.75), sheet(gap / 2, -0.4, 0.5, 0.4, 0.75)))

    (one,) = boards(0.03)
    assert one.confidence < 1.0  # cells were filled in
    assert len(boards(0.10)) == 2


def test_things_standing_on_a_table_cover_it() -> None:
    # Their lower faces lie in the table's; a tall one leaves more than the headroom inside itself.
    for height in (0.1, 0.4):
        found = find(mesh_of(FLOOR, TABLE, box(0.1, -0.2, 0.75, 0.4, 0.2, 0.75 + height)))
        assert found[0].height == pytest.approx(0.75)
        assert found[0].area == pytest.approx(1.12 - 0.12, abs=area_tolerance(4.4 + 1.4, 8))
    # A face given both ways round does not cover itself.
    both = (TABLE[0], np.concatenate([TABLE[1], TABLE[1][:, ::-1]]))
    assert any(s.height == pytest.approx(0.75) for s in find(mesh_of(FLOOR, both)))


def test_order_is_by_size_then_height_then_place_whatever_the_faces_order() -> None:
    parts = [box(x, -0.3, 0.7, x + 0.6, 0.3, z) for x, z in ((-1.8, 0.9), (-0.8, 0.8), (0.2, 0.8), (1.0, 0.8))]
    mesh = mesh_of(FLOOR, *parts)
    found = find(mesh)
    assert len(found) == 4
    areas = [s.area for s in found]
    assert areas == sorted(areas, reverse=True)
    again = find(TriangleMesh(mesh.vertices, mesh.faces[::-1]))
    for s, t in zip(found, again, strict=True):
        assert s.id == t.id
        np.testing.assert_array_equal(s.boundary, t.boundary)


def test_large_worlds_are_searched_around_the_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    far = sheet(40, -0.5, 41, 0.5, 0.75)
    mesh = mesh_of(sheet(-60, -60, 60, 60, 0.0), TABLE, far)
    (s,) = find(mesh)
    assert s.height == pytest.approx(0.75)
    assert "15 m" in s.note
    monkeypatch.setattr(module, "MAX_COLUMNS", 10**9)
    assert len(find(mesh_of(TABLE, far))) == 2


def test_found_table_takes_six_plates_flush_with_its_edges() -> None:
    mesh = mesh_of(FLOOR, turned(TABLE, 17))
    rays = BruteRayCaster(mesh.vertices, mesh.faces)
    (s,) = find(mesh)
    plan = plan_trials(s, rays, PlacementSettings())
    assert [t.kept for t in plan] == [True] * 6
    out = run_plan(mesh.vertices, mesh.faces, s, plan, PlacementSettings(), ("footprint_max",))
    assert all(r.success for r in out["footprint_max"])


def test_b47_height_is_the_tables_not_the_lips(data_dir: Path) -> None:
    v, f = read_obj(data_dir / "reports" / "placement" / "lip_table.obj")
    mesh = TriangleMesh(v, f)
    s = find(mesh)[0]
    assert s.height == pytest.approx(0.750, abs=0.0005)  # CASES.csv, B47: not 0.751


def test_engines_ray_caster_finds_the_same() -> None:
    raycast = pytest.importorskip("spatialbench.renderers.raycast")
    mesh = mesh_of(FLOOR, turned(TABLE, 30), box(1, 1, 0, 1.6, 1.5, 0.9))
    ours = find_supports(mesh, raycast.MeshRayCaster(mesh.vertices, mesh.faces), 0.0, SETTINGS, 0.11)
    for a, b in zip(ours, find(mesh), strict=True):
        assert a.height == pytest.approx(b.height, abs=1e-6)
        assert a.area == pytest.approx(b.area, abs=1e-3)


CORNERS = np.array([[-0.5, -0.3, 0.75], [0.5, -0.3, 0.75], [0.5, 0.3, 0.75], [-0.5, 0.3, 0.75]])


def annotate(mesh: TriangleMesh, polygon: np.ndarray):
    return annotated_support(polygon, "desk", mesh, BruteRayCaster(mesh.vertices, mesh.faces), SETTINGS)


def test_annotated_polygon_on_a_table() -> None:
    mesh = mesh_of(FLOOR, TABLE)
    for polygon in (CORNERS, CORNERS[::-1], CORNERS + [0, 0, 0.03]):  # in either sense, a bit too high
        s = annotate(mesh, polygon)
        assert s is not None
        assert (s.id, s.source, s.confidence) == ("desk", "case", 1.0)
        assert s.height == pytest.approx(0.75, abs=1e-9)
        assert s.area == pytest.approx(0.6, abs=area_tolerance(3.2))
        assert (np.abs(s.boundary) <= [0.5 + 1e-9, 0.3 + 1e-9]).all()


def test_annotated_polygon_larger_than_the_table_is_cut_to_it() -> None:
    s = annotate(mesh_of(FLOOR, TABLE), CORNERS * [3, 3, 1])
    assert s is not None
    assert s.area == pytest.approx(1.12, abs=area_tolerance(4.4))
    assert "%" in s.note


def test_annotated_polygon_where_the_world_has_nothing() -> None:
    mesh = mesh_of(FLOOR, TABLE)
    assert annotate(mesh, CORNERS + [0, 0, 0.4]) is None  # in the air
    assert annotate(mesh, CORNERS + [5, 0, 0]) is None  # beside everything
    steep = mesh_of(FLOOR, turned(sheet(-0.5, -0.5, 0.5, 0.5, 0.75), 20, "x", (0, 0, 0.75)))
    assert annotate(steep, turned((CORNERS, None), 20, "x", (0, 0, 0.75))[0]) is None
    for bad in (CORNERS[:2], CORNERS[:, :2], CORNERS * np.nan, CORNERS[:, [0, 0, 1]]):
        with pytest.raises(ConfigError):
            annotate(mesh, bad)


def test_annotated_keeps_the_largest_connected_patch() -> None:
    two = mesh_of(FLOOR, sheet(-0.5, -0.3, -0.2, 0.3, 0.75), sheet(0.0, -0.3, 0.5, 0.3, 0.75))
    s = annotate(two, CORNERS)
    assert s is not None
    assert s.boundary[:, 0].min() > -0.01
    assert s.area == pytest.approx(0.3, abs=area_tolerance(2.2))


CAMERA = Camera.from_fov(look_at_pose([0.3, -2.0, 1.6], [0.0, 0.0, 0.75]), 60.0, 160, 120)


def view_of(mesh: TriangleMesh) -> np.ndarray:
    """z-depth of every pixel by the brute caster."""
    x, y = np.meshgrid(np.arange(160) + 0.5, np.arange(120) + 0.5)
    local = np.stack([(x - CAMERA.cx) / CAMERA.fx, (y - CAMERA.cy) / CAMERA.fy, np.ones_like(x)], -1)
    d = local.reshape(-1, 3) @ CAMERA.pose.rotation.T
    hits = BruteRayCaster(mesh.vertices, mesh.faces).first_hits(np.tile(CAMERA.pose.position, (len(d), 1)), d)
    z = np.where(hits.hit, hits.distance / np.linalg.norm(d, axis=1), 0.0)
    return z.reshape(120, 160).astype(np.float32)


def projected(points: np.ndarray) -> np.ndarray:
    c = (points - CAMERA.pose.position) @ CAMERA.pose.rotation
    return np.column_stack([(CAMERA.fx * c[:, 0] / c[:, 2] + CAMERA.cx) / 160,
                            (CAMERA.fy * c[:, 1] / c[:, 2] + CAMERA.cy) / 120])


def test_image_polygon_is_lifted_onto_the_table_despite_things_on_it() -> None:
    mesh = mesh_of(FLOOR, TABLE, box(-0.1, -0.1, 0.75, 0.1, 0.1, 0.95))
    got = lift_image_polygon(projected(CORNERS), CAMERA, view_of(mesh))
    assert got is not None
    # float32 depth at 2.3 m: 1.2e-7 of it, spread over the plane fit; corners within a tenth of a millimetre.
    np.testing.assert_allclose(got, CORNERS, atol=1e-4)
    holes = view_of(mesh)
    holes[::2] = 0.0
    again = lift_image_polygon(projected(CORNERS), CAMERA, holes)
    assert again is not None
    np.testing.assert_allclose(again, CORNERS, atol=1e-4)


def test_image_polygon_on_nothing_flat() -> None:
    wall = mesh_of(FLOOR, box(-3, 1.0, 0.0, 3, 1.2, 3.0))
    depth = view_of(wall)
    on_wall = projected(np.array([[-0.5, 1, 1.2], [0.5, 1, 1.2], [0.5, 1, 1.8], [-0.5, 1, 1.8]]))
    assert lift_image_polygon(on_wall, CAMERA, depth) is None
    assert lift_image_polygon(on_wall, CAMERA, np.zeros_like(depth)) is None
    table = view_of(mesh_of(FLOOR, TABLE))
    sky = np.array([[0.3, 0.0], [0.7, 0.0], [0.6, 0.6], [0.4, 0.6]])  # corners above the table's horizon
    camera_level = Camera.from_fov(look_at_pose([0.3, -2.0, 1.6], [0.3, 0.0, 1.6]), 60.0, 160, 120)
    assert lift_image_polygon(sky, camera_level, table) is None
    with pytest.raises(ValueError, match="shape"):
        lift_image_polygon(sky, CAMERA, table[:10])
