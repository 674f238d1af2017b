"""The sky, of a mesh or of splats, is drawn and changes nothing else: the same worlds with a dome and without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spatialbench.observe import Context, Observations
from spatialbench.physics.navmesh import build_navmesh, rasterise
from spatialbench.renderers import open_renderer
from spatialbench.renderers.trajectories import cube_faces
from spatialbench.scene.log import ReadLog
from spatialbench.scene.sky import SHELL_GAP, flag_sky, flag_splat_sky, without_sky
from spatialbench.types import GaussianSplats, Material, TriangleMesh, World
from spatialbench.world import FrameOverrides, build_world
from spatialbench.world.fused_collision import fused_bounds
from spatialbench.world.subject import subject_of
from tests import analytic as A
from tests.splats import splat_mesh, splat_scene
from tests.worlds import quick_protocol, scene_of

P = quick_protocol("fusion.rounds=[2, 2, 2]", "fusion.image=128", "fusion.checks=2")
AT = FrameOverrides(camera_position=A.EYE, camera_forward=(0.0, 1.0, 0.0))
RADIUS = 60.0


def courtyard(floor: bool = True) -> TriangleMesh:
    """``box_room`` of 6 x 5 x 2.7 m without its ceiling."""
    s = A.Soup()
    s.box((-3.0, -2.5, 0.0), (3.0, 2.5, 2.7), inward=True, skip="t" if floor else "bt")
    return s.mesh()


def street() -> TriangleMesh:
    """A ground of 12 x 40 m between two rows of houses, open above and at both ends."""
    s = A.Soup()
    s.quad((-6.0, -20.0, 0.0), (6.0, -20.0, 0.0), (6.0, 20.0, 0.0), (-6.0, 20.0, 0.0))
    for x0, x1 in ((-12.0, -6.0), (6.0, 12.0)):
        for y in (-18, -4, 10):
            s.box((x0, y, 0.0), (x1, y + 10.0, 6.0))
    return s.mesh()


def directions(n: int) -> NDArray[np.float64]:
    """[n,3] unit, spread evenly over the sphere along a spiral."""
    z = 1 - (2 * np.arange(n) + 1) / n
    turn = np.arange(n) * np.pi * (3 - 5**0.5)
    flat = np.sqrt(1 - z * z)
    return np.stack([flat * np.cos(turn), flat * np.sin(turn), z], axis=1)


def domed(mesh: TriangleMesh, radius: float, half: bool = False) -> TriangleMesh:
    """The mesh in a sphere, or below the upper half of one, whose triangles look inward; then what reading makes."""
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=3, radius=radius)
    faces = ball.faces[:, ::-1]
    faces = faces[ball.triangles_center[:, 2] > 0] if half else faces
    n = len(mesh.vertices)
    ids = np.repeat([0, 1], [len(mesh.faces), len(faces)])
    return flag_sky(TriangleMesh(np.concatenate([mesh.vertices, ball.vertices]),
                                 np.concatenate([mesh.faces, faces + n]), ids,
                                 (Material(name="town"), Material(name="far"))), ReadLog())


def shell(radius: float, n: int = 3000, centre: tuple[float, float, float] = (0.0, 0.0, 0.0), thick: float = 0.0,
          keep: Callable[[NDArray[np.float64]], NDArray[np.bool_]] | None = None) -> GaussianSplats:
    """Round splats on a sphere that overlap: n share its area, so that each is 4 pi r^2 / n large."""
    d = directions(n)
    d = d if keep is None else d[keep(d)]
    f = np.float32
    r = radius * (1 + thick * np.linspace(-1, 1, len(d))[np.random.default_rng(0).permutation(len(d))])
    quaternions = np.tile(np.array([1, 0, 0, 0], f), (len(d), 1))
    sigma = radius * (4 * np.pi / n) ** 0.5
    return GaussianSplats((d * r[:, None] + centre).astype(f), np.full((len(d), 3), sigma, f), quaternions,
                          np.full(len(d), 0.98, f), np.full((len(d), 1, 3), 1.0, f))


def together(a: GaussianSplats, b: GaussianSplats) -> GaussianSplats:
    means, scales, quaternions, opacities, sh = (np.concatenate([getattr(a, k), getattr(b, k)]) for k in (
        "means", "scales", "quaternions", "opacities", "sh"))
    return GaussianSplats(means, scales, quaternions, opacities, sh)


def assert_same(one: World, other: World) -> None:
    """Everything but the picture: to the last bit, since the sky leaves no trace in what is computed."""
    assert one.scale == other.scale
    assert (one.ground_z, one.ground_assumed) == (other.ground_z, other.ground_assumed)
    assert one.gates == other.gates
    assert one.estimates == other.estimates
    assert one.decisions == other.decisions
    np.testing.assert_array_equal(one.transform, other.transform)
    assert one.footprint_area == other.footprint_area
    assert (one.footprint is None) == (other.footprint is None)
    if one.footprint is not None and other.footprint is not None:
        np.testing.assert_array_equal(one.footprint.mask, other.footprint.mask)
        assert (one.footprint.i0, one.footprint.j0) == (other.footprint.i0, other.footprint.j0)
    assert [s.id for s in one.supports] == [s.id for s in other.supports]
    assert (one.collision.mesh is None) == (other.collision.mesh is None)
    if one.collision.mesh is not None and other.collision.mesh is not None:
        np.testing.assert_array_equal(one.collision.mesh.vertices, other.collision.mesh.vertices)
        np.testing.assert_array_equal(one.collision.mesh.faces, other.collision.mesh.faces)


def walkable_ratio(world: World) -> float:
    """M08 by its definition, of all polygons (here nearly all are one component)."""
    mesh = world.collision.mesh
    assert mesh is not None
    navmesh = build_navmesh(mesh.vertices, mesh.faces, P.navmesh, up="z")
    grid = rasterise(navmesh.vertices[:, :2], navmesh.polygons, P.footprint.cell)
    return grid.area / world.footprint_area


def seen_share(world: World) -> float:
    """Share of the pixels of six faces at the camera that show something."""
    alpha = open_renderer(world.seen).render(cube_faces(np.zeros(3), 64), want=("alpha",)).alpha
    assert alpha is not None
    return float((alpha >= 0.5).mean())


# --- meshes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "half"), [(courtyard, False), (courtyard, True), (street, True)])
def test_a_dome_changes_nothing_but_the_picture(make: Callable[[], TriangleMesh], half: bool) -> None:
    """The street reaches 24 m from its middle, and a dome is five times as large or more."""
    with_dome = domed(make(), 200.0, half)
    assert [m.sky for m in with_dome.materials] == [False, True]
    world, plain = (build_world(scene_of(m, up=(0, 0, 1)), P, None, AT) for m in (with_dome, make()))
    assert_same(world, plain)
    assert world.scale.factor == pytest.approx(1.0, rel=1e-12)  # the eye is 1.6 m above the ground
    assert world.collision.mesh is not None
    assert walkable_ratio(world) == walkable_ratio(plain) > 0.3
    assert seen_share(plain) < 0.9  # the upward face and what is above the walls
    # A half sphere ends at the horizon, at a rim as ragged as its triangles' 8 degrees: sin(8) / 2 of all directions.
    assert seen_share(world) > (1 - 0.07 if half and make is street else 0.999)


def test_the_ground_is_not_the_sky_below() -> None:
    """Without a floor the rays down and the level rays between the walls would end on the dome, 60 m away."""
    world, plain = (build_world(scene_of(m, up=(0, 0, 1)), P, None, AT)
                    for m in (domed(courtyard(floor=False), RADIUS), courtyard(floor=False)))
    assert_same(world, plain)
    assert world.scale.branch == "depth"
    assert world.scale.ray_distances == (None,) * 9
    # Depths along the axis of a wall's corner at most: sqrt(3^2 + 2.5^2) = 3.91 m.
    assert world.scale.percentile_depth is not None
    assert 2.5 < world.scale.percentile_depth < 3.91


def test_the_camera_and_the_unit_are_found_as_without_the_sky() -> None:
    """Nothing gives camera or unit: the search for a place, the box and the gates must not see 60 m of sky."""
    world, plain = (build_world(scene_of(m, up=(0, 0, 1), unit_m=None), P)
                    for m in (domed(courtyard(), RADIUS), courtyard()))
    assert_same(world, plain)
    assert world.warnings[:1] == plain.warnings[:1]


def test_a_world_of_sky_alone_has_no_scale() -> None:
    mesh = replace(courtyard(), materials=(Material(name="sky", sky=True),))
    world = build_world(scene_of(mesh, up=(0, 0, 1)), P, None, AT)
    assert world.scale.branch == "failed"
    assert world.collision.mesh is None
    assert world.raised() == ("no_interior", "scale_doubtful")
    found = build_world(scene_of(mesh, up=(0, 0, 1)), P)
    assert found.scale.factor is None


# --- splats -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def yard() -> GaussianSplats:
    return splat_mesh(courtyard(), 0.12)


@pytest.fixture(scope="module")
def worlds(yard: GaussianSplats) -> tuple[World, World]:
    """The yard with a shell, and without one."""
    both = flag_splat_sky(together(yard, shell(RADIUS)), ReadLog())
    world, plain = (build_world(splat_scene(s), P, None, AT) for s in (both, yard))
    return world, plain


def test_a_shell_of_splats_is_named(yard: GaussianSplats) -> None:
    log = ReadLog()
    both = flag_splat_sky(together(yard, shell(RADIUS)), log)
    assert both.sky is not None
    assert np.flatnonzero(both.sky).tolist() == list(range(len(yard), len(yard) + 3000))
    assert log.details["sky"] == ["shell of 3,000 splats"]
    found = log.details["sky_splats"]
    assert (found["count"], found["distance"]) == (3000, pytest.approx(RADIUS, rel=1e-6))
    assert any("3,000 splats form a shell 60 units" in w for w in log.warnings)
    assert without_sky(both).means.tolist() == yard.means.tolist()
    assert without_sky(yard) is yard
    assert both.select(both.sky).sky is not None
    assert both.select(both.sky).sky.all()


def test_a_shell_of_splats_changes_nothing_but_the_picture(yard: GaussianSplats, worlds: tuple[World, World]) -> None:
    world, plain = worlds
    assert world.splats is not None
    assert world.splats.sky is not None  # anchoring keeps the flag, and the picture the sky
    assert len(world.splats) == len(yard) + 3000
    assert_same(world, plain)
    assert world.scale.factor == pytest.approx(1.0, rel=1e-5)
    assert world.collision.fusion == plain.collision.fusion
    assert walkable_ratio(world) == walkable_ratio(plain) > 0.5
    assert seen_share(plain) < 0.9
    assert seen_share(world) > 0.999


def test_a_shell_of_splats_gives_no_fallback_depth() -> None:
    bare = splat_mesh(courtyard(floor=False), 0.25)
    both = flag_splat_sky(together(bare, shell(RADIUS)), ReadLog())
    subject, plain = (subject_of(splat_scene(s), (0, 0, 1)) for s in (both, bare))
    assert subject.blur(1.0) == plain.blur(1.0) == pytest.approx(0.4 * 0.25, rel=1e-6)
    for one, other in zip(subject.box(np.eye(3)), plain.box(np.eye(3)), strict=True):
        np.testing.assert_array_equal(one, other)
    world = build_world(splat_scene(both), P, None, AT)
    assert world.scale.branch == "depth"
    assert world.scale.percentile_depth is not None
    assert 2.5 < world.scale.percentile_depth < 3.91 + 0.25
    # Without the flag the bounds of what is fused reach as far as they may.
    ends = fused_bounds(replace(both, sky=None), -1.6, P)
    assert ends[1][0] - ends[0][0] == 2 * P.fusion.reach


def test_the_median_depth_of_the_ring_leaves_the_sky_out(worlds: tuple[World, World]) -> None:
    """OPEN-14; holes are those of the picture, which the sky fills."""
    import spatialbench.tracks.spatial  # noqa: F401

    meshes = tuple(build_world(scene_of(m, up=(0, 0, 1)), P, None, AT) for m in (domed(courtyard(), RADIUS),
                                                                                 courtyard()))
    for pair in (meshes, worlds):
        rings = [Observations(Context(P, {"main": w}, None, "c", "s")).get("spatial.origin_ring") for w in pair]
        assert rings[0].median_depth == rings[1].median_depth
        assert rings[0].hole_rates.max() < 1e-3 < 0.1 < rings[1].hole_rates.min()


@pytest.mark.parametrize(("what", "sky"), [
    (shell(10.0), True),  # the yard reaches sqrt(3^2 + 2.5^2 + 2.7^2) = 4.75 m from the origin
    (shell(9.0), False),
    (shell(RADIUS, thick=0.1), True),  # 54 to 66 m; 5 % at either end: 1.2
    (shell(RADIUS, thick=0.2), False),  # 49 to 71 m: 1.45
    (shell(RADIUS, keep=lambda d: d[:, 2] > 0), True),
    (shell(RADIUS, keep=lambda d: np.abs(d[:, 2]) < 0.25), False),  # hills all around: a quarter of the directions
    (shell(RADIUS, centre=(0.0, 0.0, 20.0)), True),  # 40 to 80 m from the origin, but a sphere
    (shell(RADIUS, centre=(0.0, 0.0, 40.0)), False),  # the yard is 40 m from its middle
    (shell(RADIUS, n=40), False)])  # a few strays: less than one in a hundred
def test_what_is_a_sky_and_what_is_none(yard: GaussianSplats, what: GaussianSplats, sky: bool) -> None:
    assert SHELL_GAP == 2.0
    found = flag_splat_sky(together(yard, what), ReadLog()).sky
    assert (found is not None) is sky
    if found is not None:
        assert found.tolist() == [False] * len(yard) + [True] * len(what)


def test_strays_in_the_gap_do_not_hide_the_sky(yard: GaussianSplats) -> None:
    stray = shell(20.0, n=5)
    found = flag_splat_sky(together(together(yard, stray), shell(RADIUS)), ReadLog()).sky
    assert found is not None
    assert np.flatnonzero(found)[0] == len(yard) + 5
    assert found.sum() == 3000


@pytest.mark.parametrize("make", [A.box_room, A.table_room, courtyard, street])
def test_no_room_has_a_sky(make: Callable[[], TriangleMesh]) -> None:
    log = ReadLog()
    assert flag_splat_sky(splat_mesh(make(), 0.5), log).sky is None
    assert not log.warnings


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 1000.0), st.tuples(*[st.floats(-50.0, 50.0)] * 3), st.integers(0, 2**32 - 1))
def test_the_sky_is_found_in_any_frame(factor: float, shift: tuple[float, float, float], seed: int) -> None:
    """A similarity changes nothing: the sphere is fitted where its middle is not the origin."""
    rng = np.random.default_rng(seed)
    yard = splat_mesh(courtyard(), 0.4)
    both = together(yard, shell(RADIUS))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    order = rng.permutation(len(both))
    means = (factor * (both.means.astype(np.float64) @ turn.T + shift)).astype(np.float32)
    found = flag_splat_sky(replace(both, means=means).select(order), ReadLog()).sky
    assert found is not None
    np.testing.assert_array_equal(found, order >= len(yard))


def test_a_sky_needs_one_flag_for_each_splat(yard: GaussianSplats) -> None:
    with pytest.raises(ValueError, match="sky must be bool"):
        replace(yard, sky=np.zeros(3, bool))
