"""Recast's polygons against habitat-sim's own (spec/navmesh.md), failures, refusals and limits."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import BackendUnavailableError, ConfigError, CorruptInputError, UsageError
from spatialbench.physics.navmesh import (
    BACKEND,
    _recipe,
    _voxels,
    _wasm,
    _wasm_engine,
    build_navmesh,
    components,
    navmesh_backend_status,
    planar_area,
    rasterise,
)
from spatialbench.physics.navmesh._engine import ModuleFailure
from spatialbench.types import NavMeshSettings, TriangleMesh
from spatialbench.types.protocol_rules import Footprint as FootprintSettings
from spatialbench.world.footprint import Footprint, footprint

OWN = Path(__file__).parent.parent / "data" / "navmesh"
OWN_CASES = ["ceiling_190", "flipped_no_ceiling", "islands"]
SHARED_CASES = ["ceiling_190", "door_015", "door_090", "dungeon", "flipped_no_ceiling", "islands", "low_ceiling_140",
                "nav_test", "noisy_floor_02", "ramp_40", "room_table", "stairs_015"]
PROFILES = {"habitat-0.3.3": "habitat_0_3_3", "habitat-0.3.4": "habitat_0_3_4"}
STAGES = {"detour": "empty"}  # The oracle's word, and ours: Detour refuses a mesh without polygons.


def read_obj(path: Path) -> tuple[np.ndarray, np.ndarray]:
    vertices, faces = [], []
    for line in path.read_text().splitlines():
        word, *rest = line.split() or [""]
        if word == "v":
            vertices.append([float(x) for x in rest[:3]])
        elif word == "f":
            corner = [int(x.split("/")[0]) - 1 for x in rest]
            faces += [[corner[0], corner[k], corner[k + 1]] for k in range(1, len(corner) - 1)]
    return np.array(vertices), np.array(faces)


def loops(vertices, polygons) -> set[tuple]:
    """Polygons as closed loops of micrometre positions, whatever vertex they start at."""
    out = set()
    for p in polygons:
        corners = [tuple(round(float(x) * 1e6) for x in vertices[k]) for k in p]
        start = corners.index(min(corners))
        out.add(tuple(corners[start:] + corners[:start]))
    return out


@functools.cache
def room() -> tuple[np.ndarray, np.ndarray]:
    return read_obj(OWN / "islands.obj")


@functools.cache
def footprint_of(path: Path) -> Footprint | None:
    v, f = read_obj(path)
    return footprint(TriangleMesh(v[:, [0, 2, 1]], f), FootprintSettings())


def check_against_oracle(folder: Path, name: str, profile: str) -> None:
    expected = json.loads((folder / f"{name}.json").read_text())
    v, f = read_obj(folder / f"{name}.obj")
    assert (len(v), len(f)) == (expected["vertices"], expected["triangles"])
    want = expected["profiles"][PROFILES[profile]]
    mesh = build_navmesh(v, f, NavMeshSettings(profile=profile), up="y")

    assert mesh.profile == profile
    assert mesh.backend == BACKEND
    assert mesh.cell_size == want["final_cell_size"]
    assert [(a.cell_size, a.ok, a.stage) for a in mesh.attempts] == \
        [(a["cell_size"], a["ok"], STAGES.get(a.get("stage"), "")) for a in want["attempts"]]
    plan = rasterise(mesh.vertices[:, [0, 2]], mesh.polygons)
    labels, sizes = components(plan)
    if want["final_cell_size"] is None:
        assert len(mesh.polygons) == len(mesh.vertices) == plan.count == len(sizes) == 0
    else:
        # Bit-equal in float32; the files have 9 digits, which is finer than 1e-6 m below 100 m.
        np.testing.assert_allclose(mesh.vertices, want["navmesh"]["vertices"], atol=1e-6, rtol=0)
        exact = np.array(want["navmesh"]["vertices"], dtype=np.float32)
        assert loops(mesh.vertices, mesh.polygons) == loops(exact, want["navmesh"]["polygons"])
        cells = want["attempts"][-1]["world0"]
        assert plan.count == cells["cells"]
        assert len(sizes) == cells["components"] == labels.max()
        assert sizes[:5].tolist() == cells["top5"]
        # float32 vertices up to 100 m from the origin: 4e-6 m over perimeters of at most some hundred metres.
        assert planar_area(mesh.vertices[:, [0, 2]], mesh.polygons) == pytest.approx(
            want["attempts"][-1]["planar_area"], rel=1e-5)

    # Another random stream: three seeds moved the count by 0.05 % at most, the spec allows 0.1 %.
    covered = footprint_of(folder / f"{name}.obj")
    assert covered is not None
    # N is truncated, so that rounding of A_proj can move it by one.
    assert abs(covered.samples - expected["footprint"]["samples"]) <= 1
    assert covered.a_proj == pytest.approx(expected["footprint"]["a_proj"], abs=1e-4)
    assert covered.a_surface == pytest.approx(expected["footprint"]["a_surface"], abs=1e-4)
    assert covered.cells == pytest.approx(expected["footprint"]["world0"]["cells_seed0"], rel=1e-3)
    ratio = (sizes[0] if len(sizes) else 0) / covered.cells
    assert ratio == pytest.approx(want["navigable_ratio"]["world0"], abs=0.002)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", OWN_CASES)
def test_equals_habitat_sim(name, profile):
    check_against_oracle(OWN, name, profile)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", SHARED_CASES)
def test_equals_habitat_sim_on_all_shared_cases(data_dir, name, profile):
    check_against_oracle(data_dir / "oracle" / "navmesh", name, profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_beam_at_one_metre_parts_the_room(data_dir, profile):
    """Case B43: the agent height is metres; read as voxels, agents would walk under the beam."""
    v, f = read_obj(data_dir / "reports" / "navmesh" / "beam_1m.obj")
    mesh = build_navmesh(v, f, NavMeshSettings(profile=profile), up="z")
    _, sizes = components(rasterise(mesh.vertices[:, :2], mesh.polygons))
    assert (sizes * 0.0025).tolist() == pytest.approx([9.065, 8.88], abs=1e-9)
    covered = footprint(TriangleMesh(v, f), FootprintSettings())
    assert covered is not None
    assert sizes[0] / covered.cells == pytest.approx(0.369962, abs=0.002)


def test_z_up_equals_y_up_rotated():
    v, f = room()
    y_up = build_navmesh(v, f, up="y")
    z_up = build_navmesh(np.stack([v[:, 0], -v[:, 2], v[:, 1]], axis=1), f, up="z")
    assert z_up.polygons == y_up.polygons
    np.testing.assert_array_equal(z_up.vertices, np.stack(
        [y_up.vertices[:, 0], -y_up.vertices[:, 2], y_up.vertices[:, 1]], axis=1))


def test_the_same_bytes_again():
    v, f = room()
    a, b = build_navmesh(v, f, up="y"), build_navmesh(v, f, up="y")
    assert a.vertices.tobytes() == b.vertices.tobytes()
    assert a.polygons == b.polygons


# Free space under a slab that fills the box, in voxels of 0.2 m. The floor, at the bottom of the box, fills
# voxel 0; a ceiling at 0.2 n leaves n - 1 voxels. 0.3.4 needs 8, 0.3.3 needs 9 (spec/navmesh.md section 3).
@pytest.mark.parametrize(("profile", "ceiling", "walkable"), [
    ("habitat-0.3.4", 1.7, False), ("habitat-0.3.4", 1.9, True),
    ("habitat-0.3.3", 1.9, False), ("habitat-0.3.3", 2.1, True)])
def test_clearance_of_both_profiles(profile, ceiling, walkable):
    square = np.array([[0, 0], [4, 0], [4, 3], [0, 3]], dtype=float)
    v = np.vstack([np.column_stack([square, np.full(4, z)]) for z in (0.0, ceiling)])
    f = [[0, 1, 2], [0, 2, 3], [4, 6, 5], [4, 7, 6]]  # The ceiling looks down: an obstacle only.
    assert bool(build_navmesh(v, f, NavMeshSettings(profile=profile)).polygons) == walkable


def slab(width: float, depth: float) -> tuple[np.ndarray, list[list[int]]]:
    return np.array([[0, 0, 0], [width, 0, 0], [width, depth, 0], [0, depth, 0]], float), [[0, 1, 2], [0, 2, 3]]


@pytest.mark.parametrize("width", [2.0, 3.0, 4.0])
def test_open_slab_loses_three_cells_on_each_side(width):
    """The ledge filter takes one cell at a drop, the erosion two more: 0.15 m a side (spec section 6)."""
    mesh = build_navmesh(*slab(width, 2.5))
    plan = rasterise(mesh.vertices[:, :2], mesh.polygons)
    assert plan.area == pytest.approx((width - 0.3) * (2.5 - 0.3), abs=1e-9)


def rough_floor(noise: float) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.meshgrid(np.arange(-60, 61) * 0.05 + 0.013, np.arange(-40, 41) * 0.05 + 0.017, indexing="ij")
    z = np.random.default_rng(0).normal(0, noise, x.shape)
    i = np.arange(x.size).reshape(x.shape)
    a, b, c, d = i[:-1, :-1].ravel(), i[1:, :-1].ravel(), i[1:, 1:].ravel(), i[:-1, 1:].ravel()
    return (np.stack([x, y, z], axis=-1).reshape(-1, 3),
            np.vstack([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)]))


def test_ladder_goes_on_when_nothing_is_walkable():
    """Rough floors fail at 0.05 m and pass at 0.10 m, where a column sees more triangles (spec section 4)."""
    mesh = build_navmesh(*rough_floor(0.03))
    assert [(a.cell_size, a.ok, a.stage) for a in mesh.attempts] == [(0.05, False, "empty"), (0.1, True, "")]
    assert mesh.cell_size == 0.1
    assert "0.05 m" in mesh.attempts[0].reason


def test_ladder_to_the_end():
    mesh = build_navmesh(*rough_floor(0.2))
    assert [(a.cell_size, a.ok, a.stage) for a in mesh.attempts] == [(c, False, "empty") for c in (0.05, 0.1, 0.2)]
    assert (mesh.cell_size, mesh.polygons, mesh.vertices.shape) == (None, (), (0, 3))


def test_too_many_columns_are_not_tried(monkeypatch):
    # 311 x 80 columns at 0.05 m take 8 bytes each: 199 kB; a quarter of that at 0.10 m.
    monkeypatch.setattr(_recipe, "HEAP_LIMIT", 100_000)
    mesh = build_navmesh(*room(), up="y")
    assert [(a.ok, a.stage) for a in mesh.attempts] == [(False, "bounds"), (True, "")]
    assert "311 x 80 columns" in mesh.attempts[0].reason


def test_a_huge_world_fails_at_once_with_a_reason():
    mesh = build_navmesh(*slab(20_000, 20_000))
    assert [a.stage for a in mesh.attempts] == ["bounds"] * 3
    assert all("GiB" in a.reason for a in mesh.attempts)
    assert [a.stage for a in build_navmesh(*slab(1e30, 1e30)).attempts] == ["bounds"] * 3


def test_too_many_spans(monkeypatch):
    monkeypatch.setattr(_recipe, "MAX_SPANS", 5_000)  # 9,696 cells are walkable at 0.05 m.
    mesh = build_navmesh(*room(), up="y")
    assert [(a.ok, a.stage) for a in mesh.attempts] == [(False, "spans"), (True, "")]


def test_a_trap_fails_one_attempt_only(monkeypatch):
    # A build of this room takes 7e7 instructions at 0.05 m and a quarter at 0.10 m.
    monkeypatch.setattr(_recipe, "RASTER_LIMIT", 0)
    monkeypatch.setattr(_wasm_engine, "WORK_LIMIT", 40_000_000)
    mesh = build_navmesh(*room(), up="y")
    assert [(a.ok, a.stage) for a in mesh.attempts] == [(False, "trap"), (True, "")]
    assert "instructions" in mesh.attempts[0].reason
    assert mesh.attempts[0].cause == "build_failed"
    monkeypatch.undo()
    assert build_navmesh(*room(), up="y").cell_size == 0.05


def test_refused_memory_fails_the_attempt(monkeypatch):
    # 3000 x 3000 columns take 36 MB at the first table alone; the heap starts with 64 MiB, stack and mesh included.
    monkeypatch.setattr(_wasm_engine, "Instance", functools.partial(_wasm.Instance, heap_limit=1 << 26))
    mesh = build_navmesh(*slab(250, 250), NavMeshSettings(cell_sizes=(0.05,)))
    assert [a.ok for a in mesh.attempts] == [False]
    assert "memory" in mesh.attempts[0].reason


def test_out_of_bounds_access_is_a_module_failure():
    with _wasm.Instance() as instance, pytest.raises(ModuleFailure, match="out of bounds"):
        instance.call("rcPolyMesh_get_nverts_0", 0x7FFFFFF0)


def test_abort_is_a_module_failure():
    assert _wasm._nothing() is None
    with pytest.raises(_wasm._Abort):
        _wasm._abort()


def test_flat_or_missing_geometry_is_a_failed_build():
    wall = np.array([[0, 0, 0], [4, 0, 0], [4, 0, 2.0]])
    assert [a.stage for a in build_navmesh(wall, [[0, 1, 2]]).attempts] == ["bounds"] * 3
    assert [a.stage for a in build_navmesh(wall, np.zeros((0, 3), int)).attempts] == ["bounds"] * 3
    assert [a.stage for a in build_navmesh([], []).attempts] == ["bounds"] * 3


@pytest.mark.parametrize(("vertices", "faces", "match"), [
    ([[0, 0, 0], [1, 0, 0], [0, float("nan"), 0]], [[0, 1, 2]], "vertex 2"),
    ([[0, 0, 0], [1, 0, 0], [0, float("inf"), 0]], [[0, 1, 2]], "vertex 2"),
    ([[0, 0, 0], [1, 0, 0], [0, 1e39, 0]], [[0, 1, 2]], "float32"),
    ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 3]], "face 0"),
    ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, -1, 2]], "face 1"),
    ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [0, 1, 2, 0], "three corners"),
    ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1], [1, 2]], "three corners"),
    ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0.0, 1.0, 2.0]], "integers"),
    ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[[0, 1, 2]]], "three corners"),
    ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 1]], "unequal length"),
    ([[0, 0, 0], [1, 0], [0, 1, 0]], [[0, 1, 2]], "unequal length"),
    ([[0, 0], [1, 0], [0, 1]], [[0, 1, 2]], r"\[V,3\]"),
    ([["0", "0", "0"]] * 3, [[0, 1, 2]], r"\[V,3\]"),
])
def test_bad_arrays_are_refused_before_the_call(vertices, faces, match, monkeypatch):
    monkeypatch.setattr(_wasm_engine, "Instance", None)
    with pytest.raises(CorruptInputError, match=match):
        build_navmesh(vertices, faces)


def test_bad_settings_are_refused():
    v, f = slab(4, 4)
    with pytest.raises(UsageError, match="up is 'x'"):
        build_navmesh(v, f, up="x")
    for change in ({"cell_sizes": ()}, {"cell_sizes": (0.05, 0.0)}, {"cell_height": -0.2}, {"agent_radius": 1e9},
                   {"agent_height": float("nan")}, {"agent_max_slope": 91.0}):
        with pytest.raises(ConfigError, match=r"navmesh\." + next(iter(change))):
            build_navmesh(v, f, NavMeshSettings(**change))


def test_settings_in_voxels():
    """spec/navmesh.md section 1, with the division in float32: 0.6 / 0.2 is 3 by floor there, 2 in float64."""
    at = functools.partial(_voxels.VoxelSettings.of, NavMeshSettings())
    assert [(s.height, s.clearance, s.climb, s.radius, s.min_region_area, s.merge_region_area, s.max_edge_len)
            for s in map(at, (0.05, 0.1, 0.2))] == [(8, 8, 1, 2, 400, 400, 240), (8, 8, 1, 1, 400, 400, 120),
                                                   (8, 8, 1, 1, 400, 400, 60)]
    older = _voxels.VoxelSettings.of(NavMeshSettings(profile="habitat-0.3.3"), 0.05)
    assert (older.height, older.clearance) == (8, 9)
    assert 0.6 / 0.2 < 3
    assert _voxels.VoxelSettings.of(NavMeshSettings(agent_max_climb=0.6), 0.05).climb == 3


def test_backend_status(monkeypatch, tmp_path):
    usable, text = navmesh_backend_status()
    assert usable
    assert text.startswith("recast-wasm 0.43.1 (Recast 1.6.0), wasmtime ")
    monkeypatch.setattr(_wasm, "_compiled", {})
    monkeypatch.setattr(_wasm, "_FOLDER", tmp_path)
    usable, text = navmesh_backend_status()
    assert not usable
    assert "SPATIALBENCH_RECAST_PACKAGE" in text
    for name in ("recast.wasm", "exports.json"):
        (tmp_path / name).write_bytes(b"{}")
    assert "is not the one" in navmesh_backend_status()[1]
    with pytest.raises(BackendUnavailableError):
        build_navmesh(*slab(4, 4))
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    assert "wasmtime" in navmesh_backend_status()[1]


def test_importing_loads_nothing_heavy():
    code = ("import sys, spatialbench.physics.navmesh as n; "
            "print(sorted({'wasmtime', 'numba', 'scipy', 'shapely', 'trimesh'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_is_said_on_exit():
    """wasmtime complains when its objects are freed too late."""
    code = ("from spatialbench.physics.navmesh import build_navmesh as b; "
            "b([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@st.composite
def furnished_rooms(draw) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A floor with boxes on it, and an order of its faces."""
    v, f = slab(5.03, 4.01)
    points, faces = [v], [np.array(f)]
    sides = [(0, 2, 3), (0, 3, 1), (4, 5, 7), (4, 7, 6), (0, 1, 5), (0, 5, 4),
             (2, 6, 7), (2, 7, 3), (0, 4, 6), (0, 6, 2), (1, 3, 7), (1, 7, 5)]
    for _ in range(draw(st.integers(0, 3))):
        x, y = draw(st.floats(0.3, 4.0)), draw(st.floats(0.3, 3.0))
        w, h = draw(st.floats(0.2, 0.9)), draw(st.floats(0.5, 2.2))
        base = sum(len(p) for p in points)
        points.append(np.array([[x + a * w, y + b * w, c * h] for c in (0, 1) for b in (0, 1) for a in (0, 1)]))
        faces.append(np.array(sides) + base)
    all_faces = np.vstack(faces)
    return np.vstack(points), all_faces, np.array(draw(st.permutations(range(len(all_faces)))))


@settings(max_examples=25, deadline=None)
@given(furnished_rooms())
def test_order_of_faces_does_not_matter(world):
    v, f, order = world
    a, b = build_navmesh(v, f), build_navmesh(v, f[order])
    plan_a, plan_b = (rasterise(m.vertices[:, :2], m.polygons) for m in (a, b))
    assert (plan_a.i0, plan_a.j0) == (plan_b.i0, plan_b.j0)
    np.testing.assert_array_equal(plan_a.mask, plan_b.mask)


def test_two_threads_at_once():
    from concurrent.futures import ThreadPoolExecutor

    alone = build_navmesh(*room(), up="y")
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda _: build_navmesh(*room(), up="y"), range(6)))
    assert all(m.polygons == alone.polygons for m in together)
