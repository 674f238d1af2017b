"""Sides of materials and lights that a mesh brings, in closed form, for every renderer that draws them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from spatialbench.renderers import open_renderer
from spatialbench.renderers._albedo import face_albedo
from spatialbench.renderers._pack import srgb_decode
from spatialbench.renderers.trajectories import cube_faces
from spatialbench.types import Camera, Light, Material, RenderSettings, TriangleMesh, level_pose

from .test_raycast import box
from .test_render import EACH, UNLIT, encode, front, together, wall

CULL = RenderSettings(supersample=1, shading="unlit", cull=True)
PLAIN = RenderSettings(supersample=1)


@EACH
def test_single_sided_faces_are_absent_from_behind_only_when_asked(backend):
    green = wall(4.0, 9.0, Material(base_color=(0, 1, 0, 1), double_sided=True))
    for mesh, sides in ((wall(2.0, 9.0), {False: 4.0, True: 2.0}), (wall(2.0, 9.0).flipped(), {False: 2.0, True: 4.0})):
        both = together(mesh, green)
        # wall() is wound clockwise as seen from the origin, so that its front looks away.
        culled = open_renderer(both, CULL, backend).render([front(8)])
        np.testing.assert_allclose(culled.depth, sides[False], rtol=5e-7)
        assert (culled.rgb[..., 0] == float(sides[False] == 2.0)).all()
        drawn = open_renderer(both, UNLIT, backend).render([front(8)])
        np.testing.assert_allclose(drawn.depth, 2.0, rtol=5e-7)
    # A room that is seen from outside: its near walls are not there.
    v, f = box()
    room = TriangleMesh(v, f[:, ::-1])
    outside = Camera.from_fov(level_pose([0, -5, 0]), 20.0, 8)
    assert open_renderer(room, UNLIT, backend).render([outside]).depth[0, 4, 4] == 4
    assert open_renderer(room, CULL, backend).render([outside]).depth[0, 4, 4] == 6


@EACH
def test_a_hole_by_culling_is_a_hole(backend):
    frames = open_renderer(wall(2.0, 1.0), CULL, backend).render([front(8)])
    assert not frames.alpha.any() and not frames.depth.any() and not frames.rgb.any()


@EACH
def test_twins_with_the_other_winding(backend):
    # How exporters without double-sided materials make walls: each face twice, back to back in one place.
    one = wall(2.0, 9.0, Material(base_color=(1, 0, 0, 1)))
    mesh = together(one, replace(one.flipped(), materials=(Material(base_color=(0, 0, 1, 1)),)))
    r = open_renderer(mesh, CULL, backend)
    ahead, back = r.render([front(8)]), r.render([Camera.from_fov(level_pose([0, 4, 0], 180.0), 90.0, 8)])
    assert (ahead.alpha == 1).all() and (back.alpha == 1).all()
    assert (ahead.rgb == [0, 0, 1]).all() and (back.rgb == [1, 0, 0]).all()


@EACH
def test_culling_of_blended_surfaces(backend):
    glass = Material(base_color=(1, 0, 0, 0.25), alpha_mode="blend")
    panes = together(wall(2.0, 9.0, glass), wall(3.0, 9.0, glass).flipped())
    np.testing.assert_allclose(open_renderer(panes, CULL, backend).render([front(4)]).alpha, 0.25, atol=1e-6)
    np.testing.assert_allclose(open_renderer(panes, UNLIT, backend).render([front(4)]).alpha, 1 - 0.75**2, atol=1e-6)


@EACH
def test_a_directional_light_on_a_box(backend):
    # Light that falls straight down reaches the floor, and from above the ceiling's upper side, as there are no
    # shadows: two of six equal walls. The mean is a third of their light, an eighth of that comes back from the
    # first bounce, and both together come out at 0.5; walls have only what came back.
    v, f = box()
    lights = (Light("directional", intensity=17.0, direction=(0.0, 0.0, -1.0)),)
    mesh = TriangleMesh(v, f, materials=(Material(base_color=(0.125, 0.125, 0.125, 1), double_sided=True),),
                        lights=lights)
    rgb = open_renderer(mesh, PLAIN, backend).render(cube_faces([0, 0, 0], 8)).rgb
    back = 0.125 / 3
    unit = 0.5 / (1 / 3 + back)
    middles = sorted(float(a[4, 4, 0]) for a in rgb)
    np.testing.assert_allclose(middles, [encode(0.125 * unit * (back + (k == 5))) for k in range(6)], atol=2e-5)
    # Unlit on demand, and by the normal.
    np.testing.assert_allclose(open_renderer(mesh, UNLIT, backend).render(cube_faces([0, 0, 0], 8)).rgb,
                               encode(0.125), atol=1e-5)
    by_normal = RenderSettings(supersample=1, shading="normal")
    bare = replace(mesh, lights=())
    np.testing.assert_array_equal(open_renderer(mesh, by_normal, backend).render([front(8)]).rgb,
                                  open_renderer(bare, by_normal, backend).render([front(8)]).rgb)


def point_wall(light, **more):
    return replace(wall(2.0, 1.0, Material(base_color=(0.3, 0.3, 0.3, 1), emissive=(0.0, 0.01, 0.0))), lights=(light,),
                   **more)


@EACH
def test_a_point_light_falls_off_with_the_square(backend):
    light = Light("point", color=(1.0, 0.5, 0.0), intensity=40.0, position=(0.25, 0.5, 0.0))
    rgb = open_renderer(point_wall(light), PLAIN, backend).render([front(32)]).rgb[0]

    def arriving(x, z):
        # Illuminance I cos / d^2 = I 1.5 / d^3, without I.
        return 1.5 / (1.5**2 + (x - 0.25) ** 2 + z**2) ** 1.5

    # Exposure: the mean over the two triangles' middles, by the mean of the light's channels, becomes 0.5 together
    # with what comes back of it, 0.3 in each channel.
    direct = 0.5 * (arriving(1 / 3, 1 / 3) + arriving(-1 / 3, -1 / 3))
    mean = (1.0 + 0.5 + 0.0) / 3 * direct * 1.3
    for j, i in ((10, 12), (16, 16), (20, 9), (8, 23)):
        x, z = (i + 0.5 - 16) / 16 * 2, -(j + 0.5 - 16) / 16 * 2
        got = (arriving(x, z) + 0.3 * direct) * 0.5 / mean * 0.3
        want = [encode(got), encode(0.5 * got + 0.01), 0.0]
        np.testing.assert_allclose(rgb[j, i], want, atol=2e-5)


@EACH
def test_spots_reach_and_unlit_materials(backend):
    # A cone of 10 to 25 degrees on a wall 2 m away; (cos - cos 25) / (cos 10 - cos 25), squared, between.
    spot = Light("spot", intensity=3.0, direction=(0.0, 1.0, 0.0), inner=math.radians(10), outer=math.radians(25))
    rgb = open_renderer(point_wall(spot), PLAIN, backend).render([front(64)]).rgb[0, ..., 0]

    def arriving(x, z):
        cos = 2 / np.sqrt(4 + x**2 + z**2)
        outer, inner = math.cos(math.radians(25)), math.cos(math.radians(10))
        return np.clip((cos - outer) / (inner - outer), 0, 1) ** 2 * cos**3

    x = (np.arange(64) + 0.5 - 32) / 16
    on = np.abs(x) < 1
    # The two triangles' middles are at (1/3, 1/3) and (-1/3, -1/3), and come out at 0.5 with the 0.3 that comes back.
    direct = arriving(1 / 3, 1 / 3)
    want = 0.3 * 0.5 * (arriving(x[on], 1 / 32) + 0.3 * direct) / (1.3 * direct)
    assert want.max() < 1 and (arriving(x[on], 1 / 32) == 0).sum() > 1
    np.testing.assert_allclose(rgb[31][on], [encode(w) for w in want], atol=2e-5)
    # Nothing arrives beyond the reach.
    near = replace(spot, kind="point", reach=1.9)
    assert not open_renderer(point_wall(near), PLAIN, backend).render([front(16)]).rgb[..., 0].any()
    baked = wall(2.0, 1.0, Material(base_color=(0.3, 0.3, 0.3, 1), unlit=True))
    rgb = open_renderer(replace(baked, lights=(near,)), PLAIN, backend).render([front(8)]).rgb[0, 4, 4]
    np.testing.assert_allclose(rgb, encode(0.3), atol=1e-5)


@EACH
def test_light_from_all_sides(backend):
    """5 lx of (1, 0.5, 0) on every side of everything: what comes back of albedo 0.2 is a fifth, in its colour."""
    v, f = box()
    light = Light("ambient", (1.0, 0.5, 0.0), 5.0)
    room = TriangleMesh(v, f, materials=(Material(base_color=(0.2, 0.2, 0.2, 1)),), lights=(light,))
    rgb = open_renderer(room, PLAIN, backend).render(cube_faces([0, 0, 0], 4)).rgb
    # The mean of the three channels comes out at 0.5: 1 for red, a half for green, none for blue.
    np.testing.assert_allclose(rgb, np.broadcast_to([encode(0.2), encode(0.1), 0], rgb.shape), atol=2e-5)
    assert light.transformed(np.diag([3.0, 3.0, 3.0, 1.0])).intensity == 5.0


def test_albedo_of_textures_colours_and_holes():
    """By hand: half of a square shows one texel, a masked half throws nothing back, unlit faces do not count."""
    decode = srgb_decode(np.arange(256) / 255).astype(np.float32)
    texture = np.zeros((1, 2, 4), np.uint8)
    texture[0, 0], texture[0, 1] = (255, 0, 188, 255), (0, 255, 188, 0)
    v = np.array([[0.0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1]])
    uv = np.array([[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]]], np.float32)
    mesh = TriangleMesh(v, np.array([[0, 1, 2], [0, 2, 3]]), uv=uv)
    solid = Material(texture=texture, base_color=(0.5, 0.5, 0.5, 1), filter="nearest")
    albedo, lit = face_albedo(replace(mesh, materials=(solid,)), decode)
    blue = float(decode[188])
    np.testing.assert_allclose(albedo.mean(axis=0), [0.25, 0.25, blue / 2], atol=1e-6)
    np.testing.assert_array_equal(lit, 1)
    albedo, lit = face_albedo(replace(mesh, materials=(replace(solid, alpha_mode="mask", unlit=True),)), decode)
    np.testing.assert_allclose(albedo.mean(axis=0), [0.25, 0, blue / 4], atol=1e-6)
    np.testing.assert_array_equal(lit, 0)
    colors = np.full((2, 3, 4), [0.5, 1.0, 0.0, 1.0], np.float32)
    np.testing.assert_allclose(face_albedo(replace(mesh, uv=None, colors=colors, materials=(Material(),)), decode)[0],
                               [[0.5, 1, 0]] * 2)


@EACH
def test_lights_move_and_grow_with_the_mesh(backend):
    light = Light("spot", (0.9, 0.6, 0.3), 7.0, (0.2, 0.3, 0.4), (0.1, 0.9, -0.1), 9.0, 0.2, 0.9)
    mesh, camera = point_wall(light), Camera.from_fov(level_pose([0.1, 0.2, 0.3]), 80.0, 24)
    move = level_pose([3, -2, 1], 40.0, 20.0).matrix @ np.diag([2.5, 2.5, 2.5, 1])
    pose = camera.pose.matrix.copy()
    pose[:3, 3] = (move @ pose)[:3, 3]
    pose[:3, :3] = move[:3, :3] @ pose[:3, :3] / 2.5
    moved = replace(camera, pose=type(camera.pose)(pose))
    a = open_renderer(mesh, PLAIN, backend).render([camera])
    b = open_renderer(mesh.transformed(move), PLAIN, backend).render([moved])
    # Exposure undoes a change of intensity, so compare two lights of which only one is near.
    np.testing.assert_allclose(a.rgb, b.rgb, atol=3e-5)
    two = replace(mesh, lights=(light, Light("directional", intensity=2.0, direction=(0.0, 1.0, 0.0))))
    a = open_renderer(two, PLAIN, backend).render([camera])
    b = open_renderer(two.transformed(move), PLAIN, backend).render([moved])
    np.testing.assert_allclose(a.rgb, b.rgb, atol=3e-5)
    assert a.rgb.max() > 0.3


def test_lights_that_are_none_are_refused():
    for bad, why in ((Light("lamp"), "not 'lamp'"), (Light("point", intensity=math.nan), "not finite"),
                     (Light("point", intensity=-1.0), "below 0"), (Light("spot", reach=-1.0), "below 0")):
        with pytest.raises(ValueError, match=why):
            open_renderer(replace(wall(), lights=(bad,)))
