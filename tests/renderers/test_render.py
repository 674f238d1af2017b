"""Images against values worked out by hand, for the renderers of meshes; and these against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.renderers import backends, open_renderer, render
from spatialbench.renderers.fake import FLOOR_COLOR
from spatialbench.renderers.trajectories import cube_faces, ring
from spatialbench.types import Camera, Material, Pose, RenderSettings, TriangleMesh, level_pose

from .test_raycast import box
from .usable import param

BOTH = pytest.mark.parametrize("backend", ["raster", "embree"])
EACH = pytest.mark.parametrize("backend", ["raster", "embree", param("gl")])
UNLIT = RenderSettings(supersample=1, shading="unlit")


def decode(x):
    """sRGB to linear, from the standard's text."""
    return x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4


def encode(x):
    """Linear to sRGB, from the standard's text."""
    return 12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055


def wall(y=2.0, half=1.0, material=None, uv=None, colors=None, x0=0.0):
    """A square across +Y at distance y, its corners top left, top right, bottom right, bottom left."""
    v = np.array([[x0 - half, y, half], [x0 + half, y, half], [x0 + half, y, -half], [x0 - half, y, -half]])
    f = np.array([[0, 1, 2], [0, 2, 3]], np.int32)
    corner = None if uv is None else np.asarray(uv, np.float32)[f]
    return TriangleMesh(v, f, materials=(material or Material(),), uv=corner,
                        colors=None if colors is None else np.asarray(colors, np.float32)[f])


def together(*meshes):
    """One mesh of several, with uv where any has it."""
    v, f, m, uv, mats = [], [], [], [], []
    for k in meshes:
        f.append(k.faces + sum(map(len, v)))
        m.append(k.material_ids + len(mats))
        v.append(k.vertices)
        uv.append(np.zeros((len(k.faces), 3, 2), np.float32) if k.uv is None else k.uv)
        mats += k.materials
    return TriangleMesh(np.concatenate(v), np.concatenate(f), np.concatenate(m), tuple(mats), np.concatenate(uv))


def front(size=64, fov=90.0, position=(0, 0, 0)):
    return Camera.from_fov(level_pose(position), fov, size)


QUAD_UV = [[0, 0], [1, 0], [1, 1], [0, 1]]


@EACH
def test_depth_of_a_plane_is_camera_axis_depth(backend):
    r = open_renderer(wall(2.0, half=10), UNLIT, backend)
    frames = r.render([front()])
    # z-depth is 2 in every pixel; worked out in float64 by both, so exact after rounding to float32.
    np.testing.assert_array_equal(frames.depth, 2.0)
    assert (frames.alpha == 1).all()
    assert frames.backend.startswith(backend)
    oblique = r.render([Camera.from_fov(level_pose([0, 0, 0], 30.0), 60.0, 65)]).depth[0]
    x = (np.arange(65) + 0.5 - 32.5) / (32.5 / math.tan(math.radians(30)))
    # The ray right x + forward, turned 30 degrees clockwise, advances cos(30) - x sin(30) along +Y.
    want = 2.0 / (math.cos(math.radians(30)) - x * math.sin(math.radians(30)))
    seen = np.abs(x * want * math.cos(math.radians(30)) + want * math.sin(math.radians(30))) < 9.99
    np.testing.assert_allclose(oblique[32][seen], want[seen], rtol=1e-6)


@EACH
def test_only_what_is_wanted(backend):
    r = open_renderer(wall(), UNLIT, backend)
    frames = r.render([front(8)], want=("alpha",))
    assert frames.rgb is None
    assert frames.depth is None
    assert frames.alpha.shape == (1, 8, 8)
    assert r.render([]).cameras == ()
    with pytest.raises(UsageError, match="normals"):
        r.render([front(8)], want=("normals",))


@EACH
def test_a_closed_box_has_no_leaks(backend):
    v, f = box((-2, -3, -1.6), (2.5, 3.7, 1.1))
    r = open_renderer(TriangleMesh(v, f), UNLIT, backend)
    for p in ([0, 0, 0], [0.3, -2.9, 1.0], [2.25, 0.35, -0.25]):
        for frames in (r.render(cube_faces(p, 128)), r.render(ring(p, 8, 128))):
            assert (frames.alpha == 1).all()
            assert (frames.rgb > 0).all()
            assert (frames.depth > 0).all()


@BOTH
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_a_closed_sphere_has_no_leaks(backend, offset):
    # 20,000 faces, corners shared by position and not by index, as in a mesh with seams everywhere.
    lat, lon = np.meshgrid(np.linspace(0, np.pi, 101), np.linspace(0, 2 * np.pi, 101)[:-1], indexing="ij")
    p = np.stack([np.sin(lat) * np.cos(lon), np.sin(lat) * np.sin(lon), np.cos(lat)], axis=-1)
    p[0], p[-1] = [0, 0, 1], [0, 0, -1]
    q = np.roll(p, -1, axis=1)
    soup = np.concatenate([np.stack([p[:-1], p[1:], q[1:]], axis=2).reshape(-1, 3),
                           np.stack([p[:-1], q[1:], q[:-1]], axis=2).reshape(-1, 3)]) + offset
    mesh = TriangleMesh(soup, np.arange(len(soup), dtype=np.int32).reshape(-1, 3))
    r = open_renderer(mesh, UNLIT, backend)
    for place in ([0, 0, 0], [0.3, -0.5, 0.6]):
        frames = r.render(cube_faces(np.array(place) + offset, 200), ("alpha", "depth"))
        assert (frames.alpha == 1).all()
        # A chord over 3.6 degrees in both angles sags by at most 1 - cos(1.8 deg)^2 < 0.1 %.
        assert frames.depth.max() < 2


@EACH
def test_hole_fraction_of_a_window(backend):
    # A wall at y = 2 with a window |x| < 0.5, |z| < 0.25, seen with f = 128 px: the window's edges are at
    # 64 +- 32 and 64 +- 16 px, between pixel centres, so that exactly 64 x 32 pixels are holes.
    o, i = 10.0, (0.5, 0.25)
    v = np.array([[sx * x, 2.0, sz * z] for x, z in ((o, o), i) for sx, sz in
                  ((-1, 1), (1, 1), (1, -1), (-1, -1))])
    f = np.array([[k, (k + 1) % 4, 4 + (k + 1) % 4] for k in range(4)]
                 + [[k, 4 + (k + 1) % 4, 4 + k] for k in range(4)], np.int32)
    camera = Camera(level_pose([0, 0, 0]), 128.0, 128.0, 64.0, 64.0, 128, 128)
    frames = open_renderer(TriangleMesh(v, f), UNLIT, backend).render([camera])
    assert (frames.alpha == 0).sum() == 64 * 32
    assert (frames.alpha[0, 48:80, 32:96] == 0).all()
    assert np.array_equal(frames.depth == 0, frames.alpha == 0)


@EACH
def test_texture_is_upright_and_not_mirrored(backend):
    t = np.full((2, 2, 4), 255, np.uint8)
    t[0, 0, :3], t[0, 1, :3], t[1, 0, :3], t[1, 1, :3] = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)
    mesh = wall(2.0, 2.0, Material(texture=t, filter="nearest"), QUAD_UV)
    rgb = open_renderer(mesh, UNLIT, backend).render([front(16)]).rgb[0]
    for rows, cols, colour in ((slice(0, 8), slice(0, 8), (1, 0, 0)), (slice(0, 8), slice(8, 16), (0, 1, 0)),
                               (slice(8, 16), slice(0, 8), (0, 0, 1)), (slice(8, 16), slice(8, 16), (1, 1, 0))):
        np.testing.assert_array_equal(rgb[rows, cols], np.broadcast_to(np.float32(colour), (8, 8, 3)))


@EACH
def test_bilinear_in_linear_light_and_clamped(backend):
    t = np.full((1, 2, 4), 255, np.uint8)
    t[0, 0, :3] = 51
    mesh = wall(2.0, 2.0, Material(texture=t, wrap=("clamp", "clamp")), QUAD_UV)
    row = open_renderer(mesh, UNLIT, backend).render([front(16)]).rgb[0, 5, :, 0]
    # u = (i + 0.5) / 16, texel centres at u = 0.25 and 0.75.
    s = np.clip(((np.arange(16) + 0.5) / 16 - 0.25) / 0.5, 0, 1)
    want = [encode((1 - k) * decode(51 / 255) + k) for k in s]
    # The encoding table is linear between 4096 knots: below 1e-5. Embree's u and v: 1e-6.
    np.testing.assert_allclose(row, want, atol=2e-5)


@EACH
@pytest.mark.parametrize(("wrap", "want"), [("repeat", [0, 1, 0, 1]), ("mirror", [1, 0, 0, 1]),
                                            ("clamp", [0, 0, 0, 1])])
def test_wrap_modes(backend, wrap, want):
    # A black and a white texel over u in [-1, 1]: four bands. Mirrored, [-1, 0] reads [0, 1] backwards.
    t = np.array([[[0, 0, 0, 255], [255, 255, 255, 255]]], np.uint8)
    for axis in (0, 1):
        uv = [[-1, 0], [1, 0], [1, 1], [-1, 1]] if axis == 0 else [[0, -1], [1, -1], [1, 1], [0, 1]]
        texture = t if axis == 0 else t.transpose(1, 0, 2)
        mesh = wall(2.0, 2.0, Material(texture=texture, filter="nearest", wrap=(wrap, wrap)), uv)
        rgb = open_renderer(mesh, UNLIT, backend).render([front(8)]).rgb[0, ..., 0]
        line = rgb[3] if axis == 0 else rgb[:, 3]
        np.testing.assert_array_equal(line, np.repeat(np.float32(want), 2))


@EACH
def test_vertex_colours_factor_and_emissive(backend):
    colours = [[0, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1], [0, 0, 0, 1]]
    mesh = wall(2.0, 2.0, Material(base_color=(0.5, 1, 1, 1), emissive=(0, 0.25, 0)), colors=colours)
    rgb = open_renderer(mesh, UNLIT, backend).render([front(16)]).rgb[0]
    want = [encode(0.5 * (i + 0.5) / 16) for i in range(16)]
    np.testing.assert_allclose(rgb[4, :, 0], want, atol=2e-5)
    np.testing.assert_allclose(rgb[..., 1], encode(0.25), atol=1e-5)
    assert not rgb[..., 2].any()


@EACH
def test_mask_is_a_hole(backend):
    t = np.full((1, 2, 4), 255, np.uint8)
    t[0, 0, 3] = 127
    near = wall(2.0, 2.0, Material(texture=t, filter="nearest", alpha_mode="mask"), QUAD_UV)
    frames = open_renderer(near, UNLIT, backend).render([front(8)])
    assert (frames.alpha[0, :, :4] == 0).all()
    assert (frames.alpha[0, :, 4:] == 1).all()
    assert not frames.rgb[0, :, :4].any()
    behind = together(near, wall(4.0, 9.0, Material(base_color=(0, 1, 0, 1))))
    frames = open_renderer(behind, UNLIT, backend).render([front(8)])
    np.testing.assert_allclose(frames.depth[0, 0], [4] * 4 + [2] * 4, rtol=5e-7)
    np.testing.assert_array_equal(frames.rgb[0, 0, 0], [0, 1, 0])


@EACH
def test_blend_in_closed_form(backend):
    glass = wall(2.0, 5.0, Material(base_color=(1, 0, 0, 0.25), alpha_mode="blend"))
    dark = wall(3.0, 5.0, Material(base_color=(0, 0, 1, 0.5), alpha_mode="blend"))
    settings_ = RenderSettings(supersample=1, shading="unlit", background=(0, 0.5, 0))
    frames = open_renderer(together(dark, glass), settings_, backend).render([front(8)])
    # alpha 1 - 0.75 * 0.5; half of the light is gone at the second layer.
    np.testing.assert_allclose(frames.alpha, 0.625, atol=1e-6)
    np.testing.assert_allclose(frames.depth, 3.0, rtol=5e-7)
    np.testing.assert_allclose(frames.rgb[0, 3, 3], [0.25, 0.375 * 0.5, 0.375], atol=1e-6)
    solid = wall(4.0, 9.0, Material(base_color=(1, 1, 1, 1)))
    frames = open_renderer(together(solid, dark, glass), settings_, backend).render([front(8)])
    np.testing.assert_allclose(frames.rgb[0, 3, 3], [0.25 + 0.375, 0.375, 0.75], atol=1e-6)
    assert (frames.alpha == 1).all()
    one = open_renderer(glass, settings_, backend).render([front(8)])
    np.testing.assert_allclose(one.alpha, 0.25, atol=1e-6)
    assert not one.depth.any()


def test_more_blended_layers_than_are_kept():
    panes = [wall(1.0 + 0.1 * k, 9.0, Material(base_color=(1, 1, 1, 0.1), alpha_mode="blend")) for k in range(12)]
    alpha = open_renderer(together(*panes), UNLIT, "raster").render([front(4)], ("alpha",)).alpha
    np.testing.assert_allclose(alpha, 1 - 0.9**8, atol=1e-6)


@BOTH
def test_supersampling_gives_the_covered_fraction(backend):
    # Half the samples of the column of pixels that the edge x = 0.125 crosses (f = 4 px, depth 2: 4.25 px)
    # lie left of it: sample centres at 4.25 - and 4.75. Put the edge at 4.5 px: x = 0.25.
    mesh = wall(2.0, 10.0, x0=0.25 - 10.0)
    camera = Camera(level_pose([0, 0, 0]), 4.0, 4.0, 4.0, 4.0, 8, 8)
    for ss, part in ((1, 1.0), (2, 0.5), (4, 0.5), (3, 2 / 3)):
        # One sample a side sits on the edge itself, and counts as covered.
        if backend == "embree" and ss % 2:
            continue
        r = open_renderer(mesh, RenderSettings(supersample=ss, shading="unlit"), backend)
        np.testing.assert_allclose(r.render([camera]).rgb[0, 2, :, 0], [1] * 4 + [part] + [0] * 3, atol=1e-6)


@EACH
def test_shading_depends_on_the_side_not_on_the_view(backend):
    v, f = box()
    mesh = TriangleMesh(v, f, materials=(Material(base_color=(0.8, 0.8, 0.8, 1)),))
    r = open_renderer(mesh, RenderSettings(supersample=1), backend)
    rgb = r.render(cube_faces([0, 0, 0], 16)).rgb
    light = np.array([0.3, 0.4, 0.87]) / np.linalg.norm([0.3, 0.4, 0.87])
    for k, seen in enumerate(([0, -1, 0], [-1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, -1], [0, 0, 1])):
        np.testing.assert_allclose(rgb[k], encode(0.8 * (0.625 + 0.375 * np.dot(seen, light))), atol=1e-5)
    turned = open_renderer(mesh.flipped(), RenderSettings(supersample=1), backend)
    np.testing.assert_array_equal(turned.render(cube_faces([0, 0, 0], 16)).rgb, rgb)
    elsewhere = r.render(ring([0.2, -0.7, 0.4], 7, 16)).rgb
    assert set(np.unique(elsewhere)) <= set(np.unique(rgb))


def test_auto_shading_is_unlit_as_soon_as_there_is_colour():
    plain = render(wall(), [front(4, 40)], ("rgb",)).rgb
    assert plain.max() < 1
    assert render(wall(), [front(4, 40)], ("rgb",), UNLIT).rgb.min() == 1
    for mesh in (wall(colors=np.ones((4, 4))), wall(material=Material(unlit=True)),
                 wall(material=Material(texture=np.full((1, 1, 4), 255, np.uint8)), uv=QUAD_UV)):
        assert render(mesh, [front(4, 40)], ("rgb",)).rgb.min() == 1


@EACH
def test_near_and_a_camera_amid_the_faces(backend):
    meshes = together(wall(1.0, 9.0), wall(3.0, 9.0))
    near = RenderSettings(supersample=1, shading="unlit", near=2.0)
    np.testing.assert_allclose(open_renderer(meshes, near, backend).render([front(8)]).depth, 3.0, rtol=5e-7)
    # A floor from behind the camera to far ahead: its faces cross the camera plane.
    v = np.array([[-50.0, -50, -1.6], [50, -50, -1.6], [50, 50, -1.6], [-50, 50, -1.6]])
    floor = TriangleMesh(v, np.array([[0, 1, 2], [0, 2, 3]], np.int32))
    depth = open_renderer(floor, UNLIT, backend).render([front(65)]).depth[0]
    y = (np.arange(65) + 0.5 - 32.5) / 32.5
    want = np.where(y > 0, 1.6 / np.maximum(y, 1e-9), 0)
    want[want > 50] = 0
    np.testing.assert_allclose(depth, np.repeat(want[:, None], 65, axis=1), rtol=2e-6)


@EACH
def test_far_from_the_origin(backend):
    v, f = box()
    shift = np.array([1e6, -1e6, 1e6])
    frames = open_renderer(TriangleMesh(v + shift, f), UNLIT, backend).render(cube_faces(shift, 64))
    np.testing.assert_allclose(frames.depth, 1.0, rtol=1e-6)


@BOTH
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**31), st.tuples(*[st.floats(-20, 20)] * 3), st.floats(-180, 180), st.floats(-80, 80))
def test_moving_mesh_and_camera_together_changes_nothing(backend, seed, shift, yaw, pitch):
    rng = np.random.default_rng(seed)
    mesh = TriangleMesh(rng.uniform(-2, 2, (60, 3)), np.arange(60, dtype=np.int32).reshape(-1, 3))
    camera = Camera.from_fov(level_pose(rng.uniform(-1, 1, 3), rng.uniform(0, 360)), 80, 24)
    move = level_pose(shift, yaw, pitch).matrix
    moved = Camera(Pose(move @ camera.pose.matrix), camera.fx, camera.fy, camera.cx, camera.cy, 24, 24)
    a = open_renderer(mesh, backend=backend).render([camera], ("depth",)).depth
    b = open_renderer(mesh.transformed(move), backend=backend).render([moved], ("depth",)).depth
    # Only a sample within a rounding (1e-14 pixels; float32 rays: 1e-5) of an edge may change its face.
    assert (np.abs(a - b) > 1e-4).sum() <= 1


def disagreements(mesh, cameras, tolerance, pair=("raster", "embree")):
    """Share of the pixels in which two renderers differ by more, for colour, depth, alpha."""
    one, two = (open_renderer(mesh, RenderSettings(), b).render(cameras) for b in pair)
    return [float((np.abs(getattr(one, n) - getattr(two, n)) > tolerance * np.maximum(1, np.abs(getattr(one, n))))
                  .mean()) for n in ("rgb", "depth", "alpha")]


def soup(seed, faces=200):
    """Random faces in all kinds of materials, with texture coordinates and vertex colours."""
    rng = np.random.default_rng(seed)
    t = rng.integers(0, 256, (16, 16, 4), dtype=np.uint8)
    v = rng.uniform(-2, 2, (faces, 1, 3)) + rng.uniform(-0.7, 0.7, (faces, 3, 3))
    mats = (Material(), Material(texture=t, wrap=("mirror", "clamp")), Material(texture=t, alpha_mode="mask"),
            Material(base_color=(0.2, 0.9, 0.4, 0.5), alpha_mode="blend"))
    return TriangleMesh(v.reshape(-1, 3), np.arange(3 * faces, dtype=np.int32).reshape(-1, 3),
                        rng.integers(0, 4, faces).astype(np.int32), mats,
                        rng.uniform(-1, 2, (faces, 3, 2)).astype(np.float32),
                        rng.uniform(0, 1, (faces, 3, 4)).astype(np.float32))


@pytest.mark.parametrize("seed", [5, 6])
def test_the_two_renderers_agree(seed):
    rgb, depth, alpha = disagreements(soup(seed), cube_faces([0.1, 0.2, 0.3], 96), 2e-5)
    # float32 rays are off by 1e-7 of the image's width, 1e-5 pixels: of 55,296 pixels with an outline every few
    # of them a handful may have a sample that goes to another face. Where the faces agree, depth is worked out
    # in float64 by both; float32 texture coordinates (1e-7 of 3 x 16 texels) move a colour by less than 1e-5.
    assert rgb < 2e-4
    assert depth < 1e-4
    assert alpha < 1e-4


@pytest.mark.parametrize("name", ["office", "house"])
def test_the_two_renderers_agree_on_real_rooms(data_dir, name):
    import trimesh

    room = trimesh.load(data_dir / f"scenes/meshes/{name}.glb", force="scene").to_geometry()
    mesh = TriangleMesh(np.c_[room.vertices[:, 0], -room.vertices[:, 2], room.vertices[:, 1]], room.faces)
    rgb, depth, alpha = disagreements(mesh, cube_faces(mesh.bounds().mean(axis=0), 128), 1e-6)
    # As above, in 98,304 pixels that are mostly inside of faces: five may differ.
    assert max(rgb, depth, alpha) * 6 * 128 * 128 <= 5


def test_rays_start_near_a_mesh_that_is_far_away():
    # From 5 km, float32 has half a millimetre; two walls a tenth of one apart must still be told apart.
    pair = together(wall(5000.0001, material=Material(base_color=(1, 0, 0, 1))), wall(5000.0, half=0.5))
    frames = open_renderer(pair, UNLIT, "embree").render([Camera.from_fov(level_pose([0, 0, 0]), 0.01, 64)])
    x = np.abs((np.arange(64) + 0.5 - 32) * 5000 / (32 / math.tan(math.radians(0.005))))
    assert (x < 0.5).all()
    np.testing.assert_array_equal(frames.depth, 5000.0)
    assert (frames.rgb == 1).all()


def test_light_that_passes_every_surface_reaches_the_background():
    panes = [wall(1.0 + 0.01 * k, 9.0, Material(base_color=(1, 1, 1, 0.01), alpha_mode="blend")) for k in range(70)]
    white = RenderSettings(supersample=2, shading="unlit", background=(1, 1, 1))
    frames = open_renderer(together(*panes), white, "embree").render([front(4)])
    np.testing.assert_allclose(frames.alpha, 1 - 0.99**64, atol=1e-6)
    np.testing.assert_allclose(frames.rgb, 1.0, atol=1e-6)


@BOTH
def test_threads_and_batches_do_not_change_a_bit(monkeypatch, backend):
    mesh, cameras = soup(2, 1000), ring([0, 0, 0], 5, 160)  # 102,400 samples of colour an image: several strips
    seen = set()
    for threads, batch in (("1", 5), ("2", 2), ("3", 1)):
        monkeypatch.setenv("SPATIALBENCH_THREADS", threads)
        parts = list(open_renderer(mesh, backend=backend).stream(cameras, batch=batch))
        seen.add(b"".join(np.concatenate([getattr(p, n) for p in parts]).tobytes()
                          for n in ("rgb", "depth", "alpha")))
    assert len(seen) == 1
    monkeypatch.setenv("SPATIALBENCH_THREADS", "many")
    with pytest.raises(UsageError, match="SPATIALBENCH_THREADS"):
        open_renderer(mesh)


@EACH
def test_what_else_is_wanted_does_not_change_a_bit(backend):
    r = open_renderer(soup(3), backend=backend)
    cameras = ring([0, 0, 0], 2, 64)
    every = r.render(cameras)
    np.testing.assert_array_equal(r.render(cameras, ("rgb",)).rgb, every.rgb)
    np.testing.assert_array_equal(r.render(cameras, ("depth",)).depth, every.depth)
    np.testing.assert_array_equal(r.render(cameras, ("alpha",)).alpha, every.alpha)


@EACH
def test_nothing_to_draw(backend):
    for faces in (np.zeros((0, 3), np.int32), np.zeros((2, 3), np.int32)):
        frames = open_renderer(TriangleMesh(np.zeros((3, 3)), faces),
                               RenderSettings(background=(0.25, 0.5, 1)), backend).render([front(8)])
        assert not frames.alpha.any()
        assert not frames.depth.any()
        np.testing.assert_array_equal(frames.rgb[0, 0, 0], [0.25, 0.5, 1])


def test_registry(monkeypatch):
    names = [b.name for b in backends()]
    assert names == ["embree", "raster", "gl", "pyrender", "gsplat", "splat-cpu", "fake"]
    assert all(b.usable and b.version for b in backends() if b.name in ("embree", "raster", "splat-cpu", "fake"))
    assert all(bool(b.version) != bool(b.reason) and b.usable == bool(b.version) for b in backends())
    # What depends on a driver is never a default for meshes.
    assert [b.name for b in backends() if b.order is None] == ["gl", "pyrender", "fake"]
    assert open_renderer(wall()).name_version.startswith("embree 2 (embreex 4")
    monkeypatch.setenv("SPATIALBENCH_RENDERER", "fake")
    assert open_renderer(wall()).name_version == "fake 1"
    assert open_renderer(wall(), backend="raster").name_version == "raster 2"
    monkeypatch.setenv("SPATIALBENCH_RENDERER", "gpu")
    with pytest.raises(UsageError, match="SPATIALBENCH_RENDERER: no renderer 'gpu'"):
        open_renderer(wall())
    monkeypatch.delenv("SPATIALBENCH_RENDERER")
    monkeypatch.setitem(__import__("sys").modules, "embreex.rtcore_scene", None)
    assert not backends()[0].usable
    assert open_renderer(wall()).name_version == "raster 2"
    with pytest.raises(BackendUnavailableError, match="pip install embreex"):
        open_renderer(wall(), backend="embree")


def test_fake_renderer_draws_a_floor():
    frames = open_renderer(wall(), backend="fake").render([front(65, position=(3, 4, 0))])
    assert not frames.alpha[0, :33].any()
    # One row under the horizon the ray falls 1 / 32.5 a metre: the floor 1.6 m below is 52 m away.
    np.testing.assert_allclose(frames.depth[0, 33], 52.0, rtol=1e-6)
    np.testing.assert_array_equal(frames.rgb[0, 40, 7], np.float32(FLOOR_COLOR))


def test_bad_meshes_are_refused():
    with pytest.raises(ValueError, match="alpha mode 'glow'"):
        open_renderer(wall(material=Material(alpha_mode="glow")))
    with pytest.raises(ValueError, match="shading"):
        open_renderer(wall(), RenderSettings(shading="toon"))
    mesh = wall()
    with pytest.raises(ValueError, match="material ids"):
        open_renderer(TriangleMesh(mesh.vertices, mesh.faces, np.array([0, 3], np.int32)))
    with pytest.raises(ValueError, match="same image size"):
        open_renderer(mesh).render([front(4), front(5)])
