"""The analytic worlds are what their docstrings say: areas, closedness, winding, known answers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import trimesh
from numpy.typing import NDArray

from spatialbench.types import TriangleMesh, level_pose
from tests import analytic as A


def _trimesh(mesh: TriangleMesh) -> trimesh.Trimesh:
    return trimesh.Trimesh(mesh.vertices, mesh.faces, process=True)


def _area(mesh: TriangleMesh) -> float:
    return float(np.linalg.norm(mesh.area_vectors(), axis=1).sum())


def _hits(mesh: TriangleMesh, origin: tuple[float, ...], d: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether each ray meets a triangle, by the determinant test in float64 with closed edges."""
    hit = np.zeros(len(d), dtype=bool)
    for a, b, c in mesh.triangles:
        e1, e2, s = b - a, c - a, np.asarray(origin) - a
        p = np.cross(d, e2)
        det = p @ e1
        ok = np.abs(det) > 1e-12
        inv = np.divide(1.0, det, out=np.zeros_like(det), where=ok)
        u, q = (p @ s) * inv, np.cross(s, e1)
        v, t = (d @ q) * inv, (e2 @ q) * inv
        hit |= ok & (u >= -1e-9) & (v >= -1e-9) & (u + v <= 1 + 1e-9) & (t > 1e-9)
    return hit


def _cube_rays(size: int) -> NDArray[np.float64]:
    """Centre rays of six 90-degree faces."""
    g = (np.arange(size) + 0.5) / size * 2 - 1
    a, b = (x.ravel() for x in np.meshgrid(g, g))
    one = np.ones_like(a)
    return np.concatenate([np.stack(x, axis=1) for s in (one, -one)
                           for x in ((s, a, b), (a, s, b), (a, b, s))])


def test_box_room_is_closed_and_looks_inwards() -> None:
    room = A.box_room(6.0, 5.0, 2.7)
    assert _area(room) == pytest.approx(2 * (6 * 5 + 6 * 2.7 + 5 * 2.7), rel=1e-12)
    t = _trimesh(room)
    assert t.is_watertight
    assert t.volume == pytest.approx(-6 * 5 * 2.7, rel=1e-12)  # wound inwards: negative
    to_centre = np.array([0, 0, 1.35]) - room.triangles.mean(axis=1)
    assert (np.einsum("ij,ij->i", room.area_vectors(), to_centre) > 0).all()


@pytest.mark.parametrize("fraction", [0.02, 0.25, 0.8])
def test_hole_takes_its_share_of_the_wall(fraction: float) -> None:
    room, panel = A.box_room(hole=fraction), A.north_panel(fraction)
    assert panel.area == pytest.approx(fraction * 6 * 2.7, rel=1e-12)
    assert _area(room) == pytest.approx(_area(A.box_room()) - panel.area, rel=1e-12)
    to_centre = np.array([0, 0, 1.35]) - room.triangles.mean(axis=1)
    assert (np.einsum("ij,ij->i", room.area_vectors(), to_centre) > 0).all()


def test_expected_hole_rate_is_what_rays_against_the_triangles_say() -> None:
    room, panel = A.box_room(hole=0.25), A.north_panel(0.25)
    lens = {"frames": 12, "size": 40}
    missed = np.mean([~_hits(room, A.EYE, A.ring_rays(k, 12, 40, 40)) for k in range(12)])
    # Both decide by the same centre rays in float64; none lies on the panel's edge.
    assert A.panel_hole_rate(panel, **lens) == pytest.approx(missed, abs=1e-12)


def test_expected_hole_rate_by_symmetry_and_by_solid_angle() -> None:
    # A square room seen from its middle: the four walls look alike, so all four gone is four times one.
    wall = A.Panel(2.0, -2.0, 2.0, 0.0, 2.7)
    rays = np.concatenate([A.ring_rays(k, 8, 64, 64) for k in range(8)])
    side = 2.0 / np.abs(rays[:, :2]).max(axis=1)
    z = 1.6 + side * rays[:, 2]
    assert 4 * A.panel_hole_rate(wall, frames=8, size=64) == pytest.approx(np.mean((z > 0) & (z < 2.7)), abs=1e-9)
    # A small panel dead ahead, w wide and h high from d away, b off a view's axis: it covers w h / d^2
    # times sec(b)^2 in width and sec(b) in height of the view's plane, whose own area is (2 tan 37.5)^2.
    # Seven of the 36 views see it, 0, 10, 20 and 30 degrees off. Rounding: 50 rows and 40 columns, so under 1.5 %.
    small = A.Panel(10.0, -0.4, 0.4, 1.1, 2.1)
    sec3 = sum(1 / math.cos(math.radians(10 * k)) ** 3 for k in range(-3, 4))
    expected = 0.008 * sec3 / 36 / (2 * math.tan(math.radians(37.5))) ** 2
    assert A.panel_hole_rate(small) == pytest.approx(expected, rel=0.015)


def test_open_plane_is_hole_above_the_horizon() -> None:
    rate = A.plane_hole_rate(20.0, frames=8, pixels=128)
    missed = np.mean([~_hits(A.open_plane(20.0), A.EYE, A.ring_rays(k, 8, 128, 128)) for k in range(8)])
    assert rate == pytest.approx(missed, abs=1e-12)
    # Upper half exactly; of the lower half tan(depression) runs to 0.767 and the edge, 10 m ahead, is at
    # 0.16: about a fifth more of it in the middle columns, less towards the corners.
    assert 0.5 + 0.5 * 0.11 / 0.767 < rate < 0.5 + 0.5 * 0.16 / 0.767


def test_no_floor_room_lacks_only_its_floor() -> None:
    room = A.no_floor_room()
    assert _area(room) == pytest.approx(_area(A.box_room()) - 30.0, rel=1e-12)
    assert not _hits(room, A.EYE, np.array([[0.1 * i, 0.1 * j, -1.0] for i in (-1, 0, 1) for j in (-1, 0, 1)])).any()
    assert (room.area_vectors()[:, 2] <= 1e-12).all()  # nothing looks up: nothing can be walked on


def _cross_path(reach: float = 2.0) -> NDArray[np.float64]:
    """Positions of W 2 s, S 4 s, W 2 s, A 2 s, D 4 s, A 2 s at 1 m/s, four samples a second."""
    at, out = np.zeros(2), [np.zeros(2)]
    for key, seconds in (("W", 2), ("S", 4), ("W", 2), ("A", 2), ("D", 4), ("A", 2)):
        step = {"W": (0, 1), "S": (0, -1), "A": (-1, 0), "D": (1, 0)}[key]
        for _ in range(int(seconds * reach / 2 * 4)):
            at = at + 0.25 * np.array(step)
            out.append(at)
    return np.array(out)


def test_corridor_answer_is_derived_rightly() -> None:
    c, path = A.corridor(), _cross_path()
    outside = (path[:, 1] > 1.12) | (path[:, 1] < -6.03) | (np.abs(path[:, 0]) > 3.03)
    assert (int(outside.sum()), len(path)) == A.corridor_out_of_bounds() == (7, 65)
    assert A.corridor_out_of_bounds(1.12, 0.6, 1.8) == (7 + 11 + 2, 65)
    rays = _cube_rays(16)
    first = np.mean(~_hits(c, A.EYE, rays))
    for (x, y), out in zip(path, outside, strict=True):
        if out:
            holes = np.mean(~_hits(c, (x, y, 1.6), rays))
            assert holes > min(first + 0.10, 0.5)
    # No footprint cell (0.05 m) of the geometry holds a sample that is outside.
    assert math.floor(1.12 / 0.05) < math.floor(1.25 / 0.05)


def test_table_room_variants() -> None:
    plain, none = A.table_room(), A.table_room("none")
    top_and_bottom = np.linalg.norm(plain.area_vectors(), axis=1)
    level = (np.abs(plain.triangles[:, :, 2] - 0.75) < 1e-12).all(axis=1)
    assert top_and_bottom[level].sum() == pytest.approx(1.4 * 0.8, rel=1e-12)
    assert _area(none) == pytest.approx(_area(A.box_room()), rel=1e-12)
    holed = A.table_room("hole")
    level = (np.abs(holed.triangles[:, :, 2] - 0.75) < 1e-12).all(axis=1)
    assert np.linalg.norm(holed.area_vectors(), axis=1)[level].sum() == pytest.approx(1.4 * 0.8 - 0.2, rel=1e-12)
    above = (*A.TABLE_CENTRE, 1.0)
    down = np.array([[0.0, 0.0, -1.0]])
    first = {name: _first_z(A.table_room(name), above, down) for name in ("table", "hole", "tilted", "none")}
    assert first == pytest.approx({"table": 0.75, "hole": 0.0, "tilted": 0.75, "none": 0.0}, abs=1e-9)
    tilted = A.table_room("tilted")
    n = tilted.area_vectors()[12:14].sum(axis=0)  # room 12 faces; bottom of the top comes first
    assert math.degrees(math.acos(-n[2] / np.linalg.norm(n))) == pytest.approx(20.0, abs=1e-9)
    with pytest.raises(ValueError, match="variant"):
        A.table_room("broken")


def _first_z(mesh: TriangleMesh, origin: tuple[float, ...], d: NDArray[np.float64]) -> float:
    """Height of the first thing under a point, by dropping the highest triangle that covers it in plan."""
    best = -math.inf
    for t in mesh.triangles:
        a, b, c = t[:, :2]
        m = np.stack([b - a, c - a], axis=1)
        if abs(np.linalg.det(m)) < 1e-12:
            continue
        u, v = np.linalg.solve(m, np.array(origin[:2]) - a)
        z = t[0, 2] + u * (t[1, 2] - t[0, 2]) + v * (t[2, 2] - t[0, 2])
        if u >= -1e-9 and v >= -1e-9 and u + v <= 1 + 1e-9 and best < z < origin[2]:
            best = z
    return float(best)


@pytest.mark.parametrize("variant", ["table", "hole", "tilted"])
def test_table_is_solid_and_looks_outwards(variant: str) -> None:
    t = A.table_room(variant)
    table = _trimesh(t.select(np.arange(12, len(t.faces))))
    leg = 4 * 0.05 * 0.05 * 0.72
    top = (1.4 * 0.8 - (0.2 if variant == "hole" else 0.0)) * 0.03  # a shear keeps the volume
    parts = table.split(only_watertight=True)
    assert len(parts) == 5
    assert sum(p.volume for p in parts) == pytest.approx(top + leg, rel=1e-9)
    assert all(p.volume > 0 for p in parts)


def test_camera_in_wall_is_near_geometry_at_level() -> None:
    def tenth(half: float) -> float:
        rays = np.concatenate([A.ring_rays(k, 36, 32, 32) for k in range(36)])
        with np.errstate(divide="ignore"):
            x, y, z = np.abs(rays).T
            depth = np.minimum(np.minimum(3.0 / x, half / y), np.where(rays[:, 2] > 0, 1.1 / z, 1.6 / z))
        return float(np.percentile(depth, 10))

    assert 0.79 * 0.18 < tenth(0.18) < 0.18
    assert tenth(0.6) > 0.3
    wall = A.camera_in_wall().select(np.arange(12, 16))
    assert _area(wall) == pytest.approx(2 * 6 * 2.7, rel=1e-12)
    outward = wall.area_vectors()[:, 1] * np.sign(wall.triangles.mean(axis=1)[:, 1])
    assert (outward > 0).all()
    assert _hits(A.camera_in_wall(), A.EYE, _cube_rays(8)).all()


def test_two_rooms_leave_the_door_open() -> None:
    for door in (0.25, 0.9):
        t = A.two_rooms(door)
        ray = np.array([[1.0, 0.0, 0.0]])
        past = t.select(t.triangles[:, :, 0].max(axis=1) < 3.9)  # without the far wall
        assert not _hits(past, (0.0, 0.13 + door / 2 - 0.01, 1.0), ray).any()
        assert _hits(past, (0.0, 0.13 + door / 2 + 0.01, 1.0), ray).all()
        assert _hits(past, (0.0, 0.13, 2.1), ray).all()


@pytest.mark.parametrize(("mesh", "volume"), [
    (A.stairs(0.15, 10, 0.3, 1.6, 3.0), 4 * 4 * 0.3 + 1.6 * 0.3 * sum(0.15 * k + 0.3 for k in range(1, 11))
     + 4 * 3 * 1.8),
    (A.ramp(30.0, 1.5, 1.6, 3.0), 4 * 4 * 0.3 + 1.6 * (1.5 / math.tan(math.radians(30))) * (0.3 + 0.75)
     + 4 * 3 * 1.8),
])
def test_stairs_and_ramp_are_solids(mesh: TriangleMesh, volume: float) -> None:
    v = mesh.area_vectors()
    # Divergence theorem; every solid is closed by itself, so the sum of signed tetrahedra is the volume.
    assert np.einsum("ij,ij->i", mesh.triangles.mean(axis=1), v).sum() / 3 == pytest.approx(volume, rel=1e-9)
    assert np.abs(v.sum(axis=0)).max() < 1e-9


def test_ramp_has_its_slope() -> None:
    n = A.ramp(40.0).area_vectors()
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    slope = np.degrees(np.arccos(np.clip(n[:, 2], -1, 1)))
    assert np.isclose(slope, 40.0).sum() == 2


def test_glb_round_trip_through_trimesh(tmp_path: Path) -> None:
    room = A.textured(A.table_room())
    pose = level_pose(A.EYE, yaw_deg=90.0)
    loaded = trimesh.load(A.write_glb(tmp_path / "room.glb", room, pose), force="scene")
    got = loaded.to_geometry()
    assert len(got.faces) == len(room.faces)
    x, y, z = room.triangles.reshape(-1, 3).T
    # float32 on file: half a unit in the last place of 3 m is 1.2e-7.
    np.testing.assert_allclose(got.triangles.reshape(-1, 3), np.stack([x, z, -y], axis=1), atol=2e-7)
    material = got.visual.material
    assert np.array_equal(np.asarray(material.baseColorTexture.convert("RGBA")), A.checker_texture())
    # trimesh turns v upwards.
    np.testing.assert_allclose(np.asarray(got.visual.uv)[got.faces][..., 1], 1 - room.uv[..., 1], atol=1e-6)


def test_glb_camera_looks_where_the_pose_does(tmp_path: Path) -> None:
    import json
    import struct

    data = A.write_glb(tmp_path / "c.glb", A.coloured(A.box_room()), level_pose((1, 2, 1.6), 90.0)).read_bytes()
    magic, version, length = struct.unpack_from("<4sII", data)
    assert (magic, version, length) == (b"glTF", 2, len(data))
    size = struct.unpack_from("<I", data, 12)[0]
    node = json.loads(data[20:20 + size])["nodes"][1]
    m = np.array(node["matrix"]).reshape(4, 4).T
    np.testing.assert_allclose(m[:3, 3], [1, 1.6, -2], atol=1e-12)
    np.testing.assert_allclose(m[:3, :3] @ [0, 0, -1], [1, 0, 0], atol=1e-12)  # east stays +X
    np.testing.assert_allclose(m[:3, :3] @ [0, 1, 0], [0, 1, 0], atol=1e-12)
    assert json.loads(data[20:20 + size])["meshes"][0]["primitives"][0]["attributes"].keys() == {"POSITION", "COLOR_0"}
