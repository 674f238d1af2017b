"""What builds navigation meshes: two releases of Recast against each other, causes, work limits, and the adapter."""

from __future__ import annotations

import functools
import io
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.physics.navmesh import (
    _habitat,
    _recipe,
    _system,
    _voxels,
    _wasm,
    _wasm_engine,
    build_navmesh,
    navmesh_backend_names,
    navmesh_backend_status,
    rasterise,
)
from spatialbench.physics.navmesh._engine import ModuleFailure
from spatialbench.physics.navmesh._voxels import raster_work, span_bound
from spatialbench.physics.navmesh._wasm_engine import WasmEngine
from spatialbench.types import NavMeshSettings
from tests.physics.test_navmesh import OWN, PROFILES, SHARED_CASES, read_obj, room, slab

needs_system = pytest.mark.skipif(not navmesh_backend_status("recast-system")[0],
                                  reason="needs Debian's librecast1 (apt-get install librecast1)")
BACKENDS = ["recast", pytest.param("recast-system", marks=needs_system)]
SIDES = np.array([(0, 2, 3), (0, 3, 1), (4, 5, 7), (4, 7, 6), (0, 1, 5), (0, 5, 4),
                  (2, 6, 7), (2, 7, 3), (0, 4, 6), (0, 6, 2), (1, 3, 7), (1, 7, 5)])


def boxes(*corners: tuple[tuple[float, float, float], tuple[float, float, float]]) -> tuple[np.ndarray, np.ndarray]:
    points = [np.array([[(a, b)[i][0], (a, b)[j][1], (a, b)[k][2]] for k in (0, 1) for j in (0, 1) for i in (0, 1)])
              for a, b in corners]
    return np.vstack(points), np.vstack([SIDES + 8 * k for k in range(len(points))])


def same(a, b) -> None:
    assert a.vertices.tobytes() == b.vertices.tobytes()
    assert a.polygons == b.polygons
    assert a.attempts == b.attempts
    assert (a.cell_size, a.profile) == (b.cell_size, b.profile)


@st.composite
def rooms(draw) -> tuple[np.ndarray, np.ndarray]:
    """A floor, a wall with a door, a ramp or none, boxes, a ceiling or none; anywhere, some faces turned over."""
    w, d = draw(st.floats(2, 8)), draw(st.floats(2, 6))
    at, door = draw(st.floats(0.2, 0.8)) * w, draw(st.floats(0.1, 1.2))
    parts = [((0, 0, -0.1), (w, d, 0)), ((at, 0, 0), (at + 0.1, d / 2, 2.2)),
             ((at, d / 2 + door, 0), (at + 0.1, d, 2.2))]
    for _ in range(draw(st.integers(0, 5))):
        x, y, z = draw(st.floats(0, 1)) * w, draw(st.floats(0, 1)) * d, draw(st.floats(-0.3, 1.9))
        parts.append(((x, y, z), (x + draw(st.floats(0.05, 1.5)), y + draw(st.floats(0.05, 1.5)),
                                  z + draw(st.floats(0.01, 0.8)))))
    if draw(st.booleans()):
        h = draw(st.floats(1.2, 2.6))
        parts.append(((0, 0, h), (w, d, h + 0.1)))
    v, f = boxes(*parts)
    if draw(st.booleans()):
        rise = draw(st.floats(0.1, 1.5))
        ramp = np.array([[0, 0, 0], [1.5, 0, rise], [1.5, 1, rise], [0, 1, 0]]) + [0.1, 0.1, 0]
        v, f = np.vstack([v, ramp]), np.vstack([f, np.array([[0, 1, 2], [0, 2, 3]]) + len(v)])
    turned = np.array(draw(st.lists(st.integers(0, len(f) - 1), max_size=4)), dtype=int)
    f[turned] = f[turned][:, ::-1]
    shift = np.array([draw(st.floats(-20, 20)) for _ in range(3)])
    return v + shift, f


@needs_system
@settings(max_examples=50, deadline=None, derandomize=True)
@given(rooms(), st.sampled_from(sorted(PROFILES)))
def test_both_releases_of_recast_mark_the_same_cells(world, profile):
    s = NavMeshSettings(profile=profile)
    ours, theirs = (build_navmesh(*world, s, backend=b) for b in ("recast", "recast-system"))
    same(ours, theirs)
    plans = [rasterise(m.vertices[:, :2], m.polygons) for m in (ours, theirs)]
    assert (plans[0].i0, plans[0].j0) == (plans[1].i0, plans[1].j0)
    np.testing.assert_array_equal(plans[0].mask, plans[1].mask)


@needs_system
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", [n for n in SHARED_CASES if n not in ("dungeon", "nav_test")])
def test_both_releases_agree_on_the_oracles_meshes(data_dir, name, profile):
    v, f = read_obj(data_dir / "oracle" / "navmesh" / f"{name}.obj")
    s = NavMeshSettings(profile=profile)
    same(build_navmesh(v, f, s, up="y"), build_navmesh(v, f, s, up="y", backend="recast-system"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("world", "cause", "words"), [
    ((slab(4, 4)[0], np.array(slab(4, 4)[1])[:, ::-1]), "no_floor", "no face looks up"),
    (boxes(((0, 0, 0), (4, 0.1, 3.0)), ((0, 0, 3.1), (4, 0.1, 3.2))), "agent_does_not_fit", "step or a drop"),
    # Floor at the bottom of the box, ceiling 1.7 m above: 7 voxels stay free of the 8 that the agent needs.
    ((np.vstack([slab(4, 4)[0], slab(4, 4)[0] + [0, 0, 1.7]]), [[0, 1, 2], [0, 2, 3], [4, 6, 5], [4, 7, 6]]),
     "agent_does_not_fit", "under something: the agent needs 8"),
    # 6 columns of 0.05 m, less one at each drop, less two at each side for the radius: nothing.
    (slab(4, 0.3), "agent_does_not_fit", "narrower"),
    # 14 x 14 cells are left of 20 x 20, fewer than the 400 of the least region.
    (slab(1, 1), "only_islands", "smaller than 400 cells (1 m2); 196 cells"),
    (slab(1e5, 1e5), "build_failed", "GiB"),
    ((np.array([[0, 0, 0], [4, 0, 0], [4, 0, 2.0]]), [[0, 1, 2]]), "no_floor", "columns"),
])
def test_causes_are_told_apart(world, cause, words, backend):
    mesh = build_navmesh(*world, NavMeshSettings(cell_sizes=(0.05,)), backend=backend)
    assert (mesh.polygons, mesh.cell_size, mesh.cause) == ((), None, cause)
    assert words in mesh.attempts[0].reason


def test_the_first_attempt_gives_the_cause_and_a_build_has_none():
    # At 0.20 m the least region is 16 m2, so that the retries say "islands" of what was too low at 0.05 m.
    v = np.vstack([slab(3, 3)[0], slab(3, 3)[0] + [0, 0, 1.7]])
    mesh = build_navmesh(v, [[0, 1, 2], [0, 2, 3], [4, 6, 5], [4, 7, 6]])
    assert [a.cause for a in mesh.attempts] == [mesh.cause] * 3 == ["agent_does_not_fit"] * 3
    assert build_navmesh(*slab(1, 1)).cause == "only_islands"
    assert build_navmesh(*slab(4, 4)).cause == ""


def test_counting_the_work_changes_nothing(monkeypatch):
    plain = build_navmesh(*room(), up="y")
    monkeypatch.setattr(_recipe, "RASTER_LIMIT", 0)  # The second time the work is counted from the start,
    same(plain, build_navmesh(*room(), up="y"))
    monkeypatch.undo()
    opened = []

    def engine(metered):
        opened.append(metered)
        return WasmEngine(metered)
    monkeypatch.setattr("spatialbench.physics.navmesh._wasm_engine.WasmEngine", engine)
    monkeypatch.setattr(_recipe, "CONTOUR_LIMIT", 0)  # and now once the contours are known.
    same(plain, build_navmesh(*room(), up="y"))
    assert opened == [False, True]


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_of_contours_are_read_right(monkeypatch, backend):
    """One square region: its contour has 4 corners, and as many more as its sides have pieces of 12 m or less."""
    seen = []
    original = _recipe._Run._contour_sizes

    def sizes(self, contours):
        seen.append(original(self, contours).tolist())
        return np.zeros(0)
    monkeypatch.setattr(_recipe._Run, "_contour_sizes", sizes)
    monkeypatch.setattr(_system.SystemEngine, "metered", False)
    build_navmesh(*slab(4, 4), backend=backend)
    build_navmesh(*slab(14, 14), backend=backend)
    assert seen == [[4], [8]]


def test_a_trap_in_every_stage_is_a_failed_attempt_and_a_fresh_engine_follows(monkeypatch):
    calls = ["markWalkableTriangles", "filterLedgeSpans", "erodeWalkableArea", "buildRegions", "buildContours",
             "buildPolyMesh"]
    original = WasmEngine.call
    for step in calls:
        def failing(self, name, *args, step=step):
            if name == step:
                raise ModuleFailure("the module stopped: out of bounds memory access")
            return original(self, name, *args)
        monkeypatch.setattr(WasmEngine, "call", failing)
        mesh = build_navmesh(*slab(4, 4))
        assert [(a.ok, a.stage, a.cause) for a in mesh.attempts] == [(False, "trap", "build_failed")] * 3
        assert "out of bounds" in mesh.attempts[0].reason
        monkeypatch.undo()
    assert build_navmesh(*slab(4, 4)).cell_size == 0.05


def test_raster_work_counts_the_boxes_of_triangles():
    v, f = slab(4.0, 2.0)
    # Two triangles, each with a box of 80 x 40 cells and one more along both axes; y up: x and z are the plan.
    y_up = v[:, [0, 2, 1]].astype(np.float32)
    assert raster_work(y_up, np.array(f), np.float32(0.05)) == pytest.approx(2 * 81 * 41, rel=1e-5)
    assert raster_work(y_up * 1e30, np.array(f), np.float32(0.05)) > 1e60


def storeys(count: int, side: float) -> tuple[np.ndarray, np.ndarray]:
    """Floors of side x side m, 2 m apart."""
    v, f = slab(side, side)
    return (np.vstack([v + [0, 0, 2 * k] for k in range(count)]),
            np.vstack([np.array(f) + 4 * k for k in range(count)]))


@needs_system
def test_what_the_modules_heap_refuses_never_reaches_the_system_library(monkeypatch):
    # 8 floors of 1200 x 1200 cells at 0.05 m are 11.5 million spans of 8 bytes: 92 MB, of 67 MB; a sixteenth at 0.2 m.
    monkeypatch.setattr(_wasm_engine, "Instance", functools.partial(_wasm.Instance, heap_limit=1 << 26))
    for module in (_voxels, _recipe):
        monkeypatch.setattr(module, "HEAP_LIMIT", 1 << 26)
    rasterised = []
    original = _system.SystemEngine.call

    def call(self, step, *args):
        if step == "rasterizeTriangles":
            rasterised.append(step)
        return original(self, step, *args)
    monkeypatch.setattr(_system.SystemEngine, "call", call)
    s = NavMeshSettings(cell_sizes=(0.05, 0.2))
    theirs = build_navmesh(*storeys(8, 60.0), s, backend="recast-system")
    assert [(a.ok, a.stage, a.cause) for a in theirs.attempts] == [(False, "rasterise", "build_failed"),
                                                                  (True, "", "")]
    assert len(rasterised) == 1, "only at 0.2 m"
    for words in ("0.0625 GiB", "voxels of 0.05 m", "--scale METRES"):
        assert words in theirs.attempts[0].reason
    same(build_navmesh(*storeys(8, 60.0), s), theirs)


@needs_system
def test_what_might_not_fit_and_does_is_built_all_the_same(monkeypatch):
    monkeypatch.setattr(_voxels, "HEAP_LIMIT", 4 * 40 * 40)  # No room by the bound, though the module has enough.
    opened = []

    def engine(metered):
        opened.append(metered)
        return WasmEngine(metered)
    monkeypatch.setattr(_wasm_engine, "WasmEngine", engine)
    built = build_navmesh(*slab(4, 4), backend="recast-system")
    assert opened == [True]
    monkeypatch.undo()
    same(built, build_navmesh(*slab(4, 4)))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(*[st.floats(-20, 20, width=32)] * 6), min_size=1, max_size=5))
def test_no_triangle_touches_more_columns_than_the_bound_says(triangles):
    import shapely

    plan = np.array(triangles, np.float32).reshape(-1, 2)
    v = np.column_stack([plan[:, 0], np.zeros(len(plan)), plan[:, 1]]).astype(np.float32)
    corner = np.stack(np.meshgrid(np.arange(-21, 21), np.arange(-21, 21)), -1).reshape(-1, 2)
    columns = shapely.box(*corner.T, *(corner.T + 1))
    touched = 0
    for t in plan.reshape(-1, 3, 2).astype(float):
        # A common edge is no common area; a triangle without area is a line, which lies in the same columns.
        shape = shapely.Polygon(t) if shapely.Polygon(t).area > 1e-9 else shapely.LineString(t)
        touched += int((shapely.intersects(columns, shape) & ~shapely.touches(columns, shape)).sum())
    assert touched <= span_bound(v, np.arange(len(v)).reshape(-1, 3), np.float32(1.0))


def test_a_floater_200_m_away_is_slow_but_harmless():
    v, f = slab(6, 5)
    floater = np.array([[200, 200, 1], [200.1, 200, 1], [200, 200.1, 1]])
    mesh = build_navmesh(np.vstack([v, floater]), [*f, [4, 5, 6]])
    plan = rasterise(mesh.vertices[:, :2], mesh.polygons)
    assert mesh.cell_size == 0.05
    assert plan.area == pytest.approx(5.7 * 4.7, abs=1e-9)
    far = build_navmesh(np.vstack([v, floater * 100]), [*f, [4, 5, 6]])  # 400,000 columns along each axis
    assert [a.stage for a in far.attempts] == ["bounds"] * 3


def test_names_and_refusals(monkeypatch):
    assert navmesh_backend_names() == ("recast", "recast-system", "habitat")
    with pytest.raises(UsageError, match="recast-system"):
        build_navmesh(*slab(4, 4), backend="detour")
    monkeypatch.setattr(_system, "LIBRARY", "libNoSuchRecast.so.1")
    _system._functions.cache_clear()
    try:
        usable, words = navmesh_backend_status("recast-system")
        assert not usable
        assert "librecast1" in words
        monkeypatch.setattr(_system, "LIBRARY", "libc.so.6")  # A library, but without Recast's functions.
        assert "not release 1.5" in navmesh_backend_status("recast-system")[1]
    finally:
        _system._functions.cache_clear()


class FakeSettings(types.SimpleNamespace):
    def set_defaults(self) -> None:
        self.include_static_objects = True


def fake_habitat(monkeypatch, version: str, answer) -> list[dict]:
    """A habitat_sim with the parts of its public API that the adapter uses; ``answer`` builds from the scene's path."""
    seen: list[dict] = []

    class Pathfinder:
        def build_navmesh_vertices(self):
            return [np.array(p) for p in self.points]

        def build_navmesh_vertex_indices(self):
            return [i for t in self.triangles for i in t]

    class Simulator:
        def __init__(self, config):
            self.config, self.pathfinder = config, Pathfinder()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            seen.append({"closed": True})

        def recompute_navmesh(self, pathfinder, settings):
            scene = self.config.sim_cfg
            seen.append({"settings": vars(settings), "renderer": scene.create_renderer})
            result = answer(Path(scene.scene_id).read_bytes(), settings)
            if result is None:
                return False
            pathfinder.points, pathfinder.triangles = result
            return True

    module = types.ModuleType("habitat_sim")
    module.__version__ = version
    module.NavMeshSettings = FakeSettings
    module.SimulatorConfiguration = lambda: types.SimpleNamespace(create_renderer=True)
    module.Configuration = lambda sim_cfg, agents: types.SimpleNamespace(sim_cfg=sim_cfg, agents=agents)
    module.agent = types.SimpleNamespace(AgentConfiguration=types.SimpleNamespace)
    module.Simulator = Simulator
    monkeypatch.setitem(sys.modules, "habitat_sim", module)
    return seen


def test_the_adapter_hands_over_the_very_mesh_and_every_setting(monkeypatch):
    trimesh = pytest.importorskip("trimesh")
    v, f = room()
    got = []

    def answer(glb, settings):
        got.append(trimesh.load(io.BytesIO(glb), file_type="glb", process=False, force="mesh"))
        return ([[0, 0, 0], [1, 0, 0], [0, 0, -1]], [(0, 1, 2)]) if settings.cell_size > 0.05 else None
    seen = fake_habitat(monkeypatch, "0.3.4", answer)
    mesh = build_navmesh(v[:, [0, 2, 1]] * [1, -1, 1], f, backend="habitat")
    assert [(a.cell_size, a.ok, a.cause) for a in mesh.attempts] == [(0.05, False, "build_failed"), (0.1, True, "")]
    np.testing.assert_array_equal(got[0].vertices.astype(np.float32), v.astype(np.float32))
    np.testing.assert_array_equal(got[0].faces, f)
    assert (mesh.backend, mesh.profile, mesh.polygons) == ("habitat-sim 0.3.4", "habitat-0.3.4", ((0, 1, 2),))
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]  # back in the frame that was given
    handed = seen[0]["settings"]
    wanted = NavMeshSettings().model_dump(exclude={"profile", "cell_sizes"})
    assert {k: handed[k] for k in wanted} == wanted
    assert (handed["cell_size"], handed["include_static_objects"], seen[0]["renderer"]) == (0.05, False, False)
    assert seen[1] == {"closed": True}


def test_the_adapter_refuses_another_profile_and_says_what_failed(monkeypatch):
    fake_habitat(monkeypatch, "0.3.2", lambda glb, s: ([], []))
    assert navmesh_backend_status("habitat") == (True, "habitat-sim 0.3.2")
    with pytest.raises(BackendUnavailableError, match=r"behaves as habitat-0\.3\.3"):
        build_navmesh(*slab(4, 4), backend="habitat")
    mesh = build_navmesh(*slab(4, 4), NavMeshSettings(profile="habitat-0.3.3"), backend="habitat")
    assert [a.stage for a in mesh.attempts] == ["empty"] * 3
    monkeypatch.setitem(sys.modules, "habitat_sim", None)
    usable, words = navmesh_backend_status("habitat")
    assert not usable
    assert "docs/habitat.md" in words
    with pytest.raises(BackendUnavailableError):
        build_navmesh(*slab(4, 4), backend="habitat")


@pytest.mark.parametrize(("version", "profile"), [
    ("0.2.2", "habitat-0.3.3"), ("0.3.3", "habitat-0.3.3"), ("0.3.4", "habitat-0.3.4"), ("0.4.0", "habitat-0.3.4"),
    ("1.0", "habitat-0.3.4"), ("of unknown version", "habitat-0.3.3")])
def test_the_profile_follows_from_the_release(version, profile):
    assert _habitat.profile_of(version) == profile


@pytest.mark.skipif(not navmesh_backend_status("habitat")[0], reason="needs habitat-sim (docs/habitat.md)")
@pytest.mark.parametrize("name", ["ceiling_190", "flipped_no_ceiling", "islands"])
def test_an_installed_habitat_sim_gives_the_oracles_area(name):
    profile = _habitat.profile_of(_habitat.habitat_version())
    v, f = read_obj(OWN / f"{name}.obj")
    mesh = build_navmesh(v, f, NavMeshSettings(profile=profile), up="y", backend="habitat")
    want = json.loads((OWN / f"{name}.json").read_text())["profiles"][PROFILES[profile]]
    assert mesh.cell_size == want["final_cell_size"]
    if mesh.cell_size is not None:
        plan = rasterise(mesh.vertices[:, [0, 2]], mesh.polygons)
        assert plan.count == pytest.approx(want["attempts"][-1]["world0"]["cells"], rel=1e-4)
