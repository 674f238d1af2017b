"""Images of splats: closed forms, and a reference in float64 written straight from the formulas."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.renderers import backends, open_renderer, render
from spatialbench.renderers.splat_cpu import SplatCpuBackend
from spatialbench.types import Camera, GaussianSplats, Pose, RenderSettings

from .splat_reference import facing, harmonics, make, random_splats, reference
from .test_render import wall

ALL = ("rgb", "depth", "alpha")


def draw(splats, camera, settings=None, **more):
    """rgb, depth, alpha of one image."""
    rgb, depth, alpha = SplatCpuBackend(splats, settings or RenderSettings(), **more)([camera], ALL)
    return rgb[0], depth[0], alpha[0]


def test_one_splat_in_closed_form():
    # Variance 0.25^2 (64 / 4)^2 = 16 square pixels, and 0.3; float32 rounds alpha by about 1e-6 of itself.
    rgb, depth, alpha = draw(make([0, 0, 4], 0.25, 0.6, (0.9, 0.2, 0)), facing())
    np.testing.assert_allclose(alpha[32, 32], 0.6, rtol=1e-6)
    np.testing.assert_allclose(rgb[32, 32], [0.54, 0.12, 0], rtol=3e-6, atol=1e-7)
    assert depth[32, 32] == 4
    for k in (1, 3, 5, 8):
        np.testing.assert_allclose(alpha[32, 32 + k], 0.6 * math.exp(-0.5 * k * k / 16.3), rtol=5e-6)
        np.testing.assert_allclose(alpha[32 - k, 32 + k], 0.6 * math.exp(-k * k / 16.3), rtol=5e-6)
    assert depth[32, 34] == 4  # alpha 0.53
    assert depth[32, 35] == 0  # alpha 0.46
    # 0.6 exp(-r^2 / 32.6) is 1/255 at r = 12.80.
    assert alpha[32, 44] > 0 and alpha[32, 45] == 0
    # Off the centre the ellipse leans: the Jacobian's third column adds variance (fx x / z^2 s)^2.
    alpha = draw(make([1, 0, 4], 0.125, 0.6), facing(129))[2]
    var = (0.125 * 16) ** 2 * (1 + 0.25**2) + 0.3
    np.testing.assert_allclose(alpha[64, 80:85], 0.6 * np.exp(-0.5 * np.arange(5) ** 2 / var), rtol=5e-6)


def test_reported_case_b28(data_dir):
    # A layer blended twice (too dark) and accumulated depth taken for depth, strands-labs/robots#2322.
    folder = data_dir / "reports" / "render"
    raw = (folder / "one_splat_60.ply").read_bytes()
    body = np.frombuffer(raw[raw.index(b"end_header\n") + 11:], "<f4")
    c = json.loads((folder / "cam_4m.json").read_text())
    splat = GaussianSplats(body[:3][None].copy(), np.exp(body[10:13][None]), body[13:17][None].copy(),
                           1 / (1 + np.exp(-body[9:10])), body[6:9].reshape(1, 1, 3).copy())
    # The file's camera looks along -Z with y up: two axes turn.
    pose = np.array(c["frames"][0]["transform_matrix"]) @ np.diag([1.0, -1, -1, 1])
    rgb, depth, alpha = draw(splat, Camera(Pose(pose), c["fl_x"], c["fl_y"], c["cx"], c["cy"], c["w"], c["h"]))
    assert abs(alpha[64, 64] - 0.6) < 0.003 and abs(depth[64, 64] - 4) < 0.01
    np.testing.assert_allclose(rgb[64, 64], [0.6, 0, 0], atol=0.003)


def test_opaque_is_999_thousandths_and_ends_the_pixel():
    splats = make([[0, 0, 2], [0, 0, 3], [0, 0, 4]], 0.5, [1, 1, 1], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    rgb, depth, alpha = draw(splats, facing())
    # The second splat would leave 1e-6 of the light: it is not drawn, nor is what comes behind.
    np.testing.assert_allclose(alpha[32, 32], 0.999, atol=1e-6)
    np.testing.assert_allclose(rgb[32, 32], [0.999, 0, 0], atol=1e-6)
    assert depth[32, 32] == 2


def test_two_splats_front_to_back_over_a_background():
    splats = make([[0, 0, 3], [0, 0, 2]], 0.3, [0.8, 0.4], [[0, 1, 0], [1, 0, 0]])
    settings = RenderSettings(background=(0.0, 0.0, 0.5))
    rgb, depth, alpha = draw(splats, facing(), settings)
    # 0.4 red, then 0.6 x 0.8 green, 0.12 of the background.
    np.testing.assert_allclose(rgb[32, 32], [0.4, 0.48, 0.06], rtol=5e-6)
    np.testing.assert_allclose(alpha[32, 32], 0.88, rtol=2e-6)
    assert depth[32, 32] == 3
    expected = draw(splats, facing(), settings, depth="expected")
    np.testing.assert_allclose(expected[1][32, 32], (0.4 * 2 + 0.48 * 3) / 0.88, rtol=2e-6)
    np.testing.assert_array_equal(expected[0], rgb)
    np.testing.assert_allclose(rgb[0, 0], [0, 0, 0.5])
    # Exactly half of the light left: the depth counts, as alpha is not below a half.
    assert draw(make([0, 0, 4], 0.3, 0.5), facing())[1][32, 32] == 4


def test_equal_depths_by_index():
    for first, second in (([1, 0, 0], [0, 1, 0]), ([0, 1, 0], [1, 0, 0])):
        # Far apart in Morton order, and both wide: the order must come from the index.
        rgb = draw(make([[1.5, 0, 4], [-1.5, 0, 4]], 2.0, 0.6, [first, second]), facing())[0]
        np.testing.assert_allclose(rgb[32, 32] @ first / (rgb[32, 32] @ second), 1 / (1 - rgb[32, 32] @ first),
                                   rtol=1e-5)
    # Many of one depth in one tile, more than are sorted by insertion.
    splats = make(np.c_[np.zeros((300, 2)), np.full(300, 4.0)] + [[0.01, 0, 0]] * 300, 0.3, 0.02,
                  np.random.default_rng(0).uniform(0, 1, (300, 3)))
    np.testing.assert_allclose(draw(splats, facing())[0], reference(splats, facing())[0], atol=2e-5)


@pytest.mark.parametrize("z", [0.5, 2.0, 7.3])
def test_median_depth_of_a_splatted_plane(z):
    step = 0.04 * z
    x, y = np.meshgrid(np.arange(-40, 41) * step, np.arange(-40, 41) * step)
    rng = np.random.default_rng(1)
    thickness = 1e-3 * z
    means = np.stack([x.ravel(), y.ravel(), z + rng.uniform(-thickness, thickness, x.size)], 1)
    splats = make(means, [step, step, 1e-4], 0.95, (0.5, 0.5, 0.5))
    _, depth, alpha = draw(splats, facing(64))
    assert alpha.min() > 0.99
    np.testing.assert_allclose(depth, z, atol=thickness * 1.0001)
    flat = make(np.c_[means[:, :2], np.full(len(means), z)], [step, step, 0], 0.95)
    assert (draw(flat, facing(64))[1] == np.float32(z)).all()


def test_harmonics_band_by_band():
    # Normalisations by hand: Y00, Y1m, Y20 and Y30 at the pole, Y22 on the x axis.
    pole, x = harmonics(np.array([[0, 0, 1.0]]), 3)[0], harmonics(np.array([[1.0, 0, 0]]), 3)[0]
    np.testing.assert_allclose(pole[[0, 2, 6, 12]], [0.2820948, 0.4886025, 0.6307831, 0.7463527], rtol=1e-6)
    np.testing.assert_allclose(x[[3, 8]], [-0.4886025, 0.5462742], rtol=1e-6)
    rng = np.random.default_rng(2)
    directions = rng.normal(size=(16, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    want = harmonics(directions, 3)
    for k in range(16):
        sh = np.zeros((1, 16, 3), np.float32)
        sh[0, k] = [0.5, -0.5, 0.25]
        splat = GaussianSplats(np.zeros((1, 3), np.float32), np.full((1, 3), 0.5, np.float32),
                               np.array([[1, 0, 0, 0]], np.float32), np.ones(1, np.float32), sh)
        cameras = [_towards(-4 * d, d) for d in directions]
        rgb = SplatCpuBackend(splat, RenderSettings())(cameras, ("rgb",))[0][:, 4, 4]
        for channel, factor in enumerate((0.5, -0.5, 0.25)):
            np.testing.assert_allclose(rgb[:, channel], 0.999 * np.clip(0.5 + factor * want[:, k], 0, None), atol=2e-6)


def _towards(position, direction, size=9):
    up = np.eye(3)[np.argmin(np.abs(direction))]
    right = np.cross(up, direction) / np.linalg.norm(np.cross(up, direction))
    rotation = np.stack([right, np.cross(direction, right), direction], 1)
    return facing(size, rotation=rotation, position=position)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("antialiased", [False, True])
def test_against_the_formulas_in_float64(degree, antialiased):
    rng = np.random.default_rng(degree)
    splats = random_splats(200, degree, degree, antialiased=antialiased)
    for size in ((64, 48), (61, 37)):
        camera = Camera(Pose(np.block([[Rotation.from_rotvec(rng.normal(0, 0.3, 3)).as_matrix(),
                                        rng.normal(0, 0.3, (3, 1))], [np.zeros((1, 3)), 1]])),
                        50.0, 41.0, size[0] * 0.45, size[1] * 0.55, *size)
        settings = RenderSettings(background=(0.2, 0.4, 0.6))
        want = reference(splats, camera, background=settings.background)
        rgb, depth, alpha = draw(splats, camera, settings)
        # Means: a pixel whose alpha is within a rounding of 1/255 may go either way (4e-3 in one of 3000).
        assert np.abs(rgb - want[0]).mean() < 1e-5
        assert np.abs(alpha - want[1]).mean() < 1e-5
        assert np.quantile(np.abs(rgb - want[0]), 0.99) < 5e-6
        assert (np.abs(depth - want[2]) > 1e-5).mean() < 1e-3
        mean = draw(splats, camera, settings, depth="expected")[1]
        assert np.quantile(np.abs(mean - want[3]), 0.99) < 2e-5
        assert want[1].mean() > 0.1


def test_wide_view_and_splats_beside_the_image():
    # The clamp of the Jacobian acts on splats beside the image; they must neither vanish nor grow.
    splats = random_splats(200, 7, 0, low=(-6, -3, 0.2), high=(6, 3, 2), sigma=0.3)
    camera = Camera.from_fov(Pose(np.eye(4)), 110.0, 64, 48)
    want = reference(splats, camera)
    rgb, _, alpha = draw(splats, camera)
    assert np.abs(rgb - want[0]).mean() < 1e-5 and np.abs(alpha - want[1]).mean() < 1e-5


def test_thin_needles():
    # 1 m x 1 mm, so that the 2D covariance is nearly singular but for the dilation.
    splats = random_splats(60, 3, 0)
    scales = splats.scales.copy()
    scales[:] = [1.0, 1e-3, 1e-3]
    splats = GaussianSplats(splats.means, scales, splats.quaternions, splats.opacities, splats.sh)
    want = reference(splats, facing(64, 48))
    rgb, _, alpha = draw(splats, facing(64, 48))
    assert np.abs(rgb - want[0]).mean() < 1e-5 and np.abs(alpha - want[1]).mean() < 1e-5


def test_turning_world_and_camera_changes_nothing():
    splats = random_splats(300, 4, 0)
    turn, move = Rotation.from_rotvec([0.4, -1.1, 0.7]), np.array([3.0, -2, 1])
    q = (turn * Rotation.from_quat(splats.quaternions[:, [1, 2, 3, 0]])).as_quat()[:, [3, 0, 1, 2]]
    turned = GaussianSplats((turn.apply(splats.means) + move).astype(np.float32), splats.scales,
                            q.astype(np.float32), splats.opacities, splats.sh)
    a, b = draw(splats, facing(64, 48)), draw(turned, facing(64, 48, rotation=turn.as_matrix(), position=move))
    # Means near 5 m are rounded by 2.4e-7 m: some 1e-4 pixels of the nearest splats.
    assert np.abs(a[0] - b[0]).mean() < 1e-5 and np.abs(a[2] - b[2]).mean() < 1e-5


def test_offset_far_from_the_origin():
    splats = random_splats(100, 5, 1)
    far = np.array([512345.25, -4312345.5, 77.125])
    there = GaussianSplats(splats.means, splats.scales, splats.quaternions, splats.opacities, splats.sh, far)
    # The camera's position and the offset are exact in float64: the same image to the bit.
    for a, b in zip(draw(splats, facing(64)), draw(there, facing(64, position=far)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_threads_change_nothing(monkeypatch):
    # One depth for a third of them, so that ties matter too; more than one chunk.
    splats = random_splats(2500, 6, 3, sigma=0.05)
    means = splats.means.copy()
    means[::3, 2] = 2.5
    splats = GaussianSplats(means, splats.scales, splats.quaternions, splats.opacities, splats.sh)
    images = []
    for threads in (1, 2, 3):
        monkeypatch.setenv("SPATIALBENCH_THREADS", str(threads))
        images.append(SplatCpuBackend(splats, RenderSettings())([facing(100, 70), facing(100, 70, 90.0)], ALL))
    for other in images[1:]:
        for a, b in zip(images[0], other, strict=True):
            assert a.tobytes() == b.tobytes()
    want = reference(splats, facing(100, 70))
    assert np.abs(images[0][0][0] - want[0]).mean() < 1e-5


def test_order_of_the_file_does_not_matter():
    splats = random_splats(500, 8, 1)
    shuffled = splats.select(np.random.default_rng(0).permutation(500))
    for a, b in zip(draw(splats, facing()), draw(shuffled, facing()), strict=True):
        np.testing.assert_array_equal(a, b)


def test_edge_cases_draw_nothing_or_something_finite():
    quiet = make([[0, 0, -2], [0, 0, 0], [0, 0, 0.009], [0, 0, 2]], 0.1, [1, 1, 1, 0.003])
    for splats in (quiet, quiet.select(np.zeros(0, np.int64)), make([0, 50, 2])):
        rgb, depth, alpha = draw(splats, facing(33), RenderSettings(background=(0.1, 0.2, 0.3)))
        assert not alpha.any() and not depth.any()
        np.testing.assert_allclose(rgb, np.broadcast_to([0.1, 0.2, 0.3], rgb.shape), rtol=1e-6)
    # Without size there is only the dilation: exp(-d^2 / 0.6) of the opacity.
    alpha = draw(make([0, 0, 2], 0.0, 0.6), facing())[2]
    np.testing.assert_allclose(alpha[32, 31:34], 0.6 * np.exp([-1 / 0.6, 0, -1 / 0.6]), rtol=5e-6)
    assert not draw(make([0, 0, 2], 0.0, 0.6, antialiased=True), facing())[2].any()
    # Huge, touching every tile; so huge that float32 cannot hold it; and values that are not finite.
    np.testing.assert_allclose(draw(make([0, 0, 2], 1e3, 0.6), facing(70, 50))[2], 0.6, rtol=1e-5)
    bad = make([[0, 0, 2], [0, np.nan, 2], [0, 0, np.inf], [0, 0, 2]], 1.0, 0.6)
    bad.scales[3] = 1e30
    bad.quaternions[0] = 0
    for a in draw(bad, facing(70, 50)):
        assert np.isfinite(a).all()
    # The near plane: settings, else 0.01.
    assert draw(make([0, 0, 0.01], 0.001), facing())[2][32, 32] > 0
    assert not draw(make([0, 0, 2]), facing(), RenderSettings(near=2.5))[2].any()
    # Colours are never negative nor above 1 in the image.
    rgb = draw(make([0, 0, 2], 0.3, 1.0, (2.0, -1.0, 0.5)), facing())[0]
    np.testing.assert_allclose(rgb[32, 32], [1, 0, 0.4995], atol=1e-6)


def test_degree_four_is_drawn_as_three():
    splats = random_splats(20, 9, 4)
    a = draw(splats, facing())
    cut = GaussianSplats(splats.means, splats.scales, splats.quaternions, splats.opacities, splats.sh[:, :16].copy())
    np.testing.assert_array_equal(a[0], draw(cut, facing())[0])


def test_only_what_is_wanted_and_supersampling_is_ignored():
    splats = random_splats(50)
    full = render(splats, [facing()])
    for want in ALL:
        one = render(splats, [facing()], (want,), RenderSettings(supersample=3))
        for name in ALL:
            if name == want:
                np.testing.assert_array_equal(getattr(one, name), getattr(full, name))
            else:
                assert getattr(one, name) is None
    expected = SplatCpuBackend(splats, RenderSettings(), "expected")
    np.testing.assert_array_equal(expected([facing()], ("depth", "alpha"))[1], expected([facing()], ALL)[1])
    with pytest.raises(ValueError, match="'mean'"):
        SplatCpuBackend(splats, RenderSettings(), "mean")


def test_exponential_within_two_millionths():
    # All values down to 1/255 of a wide splat: 0.99 exp(-d^2 / 2 / (s^2 + 0.3)), s = 0.25 x 1000 pixels.
    alpha = draw(make([0, 0, 1], 0.25, 0.99), facing(1201, 1, 1000.0))[2][0]
    want = 0.99 * np.exp(-0.5 * np.arange(-600, 601) ** 2 / (250.0**2 + 0.3))
    # 2e-6 of the polynomial and its power, and as much again from the rounded exponent (0.5 ulp x 5.5, twice).
    np.testing.assert_allclose(alpha, want, rtol=4e-6)


def test_dispatch_by_geometry(monkeypatch):
    splats = make([0, 0, 2])
    info = {b.name: b for b in backends()}
    assert info["splat-cpu"].geometry == "splats" and info["splat-cpu"].usable
    assert {info[n].geometry for n in ("embree", "raster", "gl", "pyrender", "fake")} == {"mesh"}
    assert info["gsplat"].geometry == "splats" and info["gsplat"].order < info["splat-cpu"].order
    if info["gsplat"].usable:
        pytest.skip("gsplat is the default here")
    monkeypatch.delenv("SPATIALBENCH_RENDERER", raising=False)
    assert open_renderer(splats).name_version == "splat-cpu 1"
    # A name that was forced for meshes leaves splats alone, and the other way round.
    monkeypatch.setenv("SPATIALBENCH_RENDERER", "raster")
    assert open_renderer(splats).name_version == "splat-cpu 1"
    monkeypatch.setenv("SPATIALBENCH_RENDERER", "splat-cpu")
    assert open_renderer(wall()).name_version.startswith("embree 2")
    with pytest.raises(UsageError, match=r"'embree' does not draw splats\. Choose among gsplat, splat-cpu"):
        open_renderer(splats, backend="embree")
    with pytest.raises(UsageError, match=r"not draw meshes\. Choose among embree, raster, gl, pyrender$"):
        open_renderer(wall(), backend="splat-cpu")
    monkeypatch.setenv("SPATIALBENCH_RENDERER", "gpu")
    with pytest.raises(UsageError, match="no renderer 'gpu'"):
        open_renderer(splats)
    monkeypatch.delenv("SPATIALBENCH_RENDERER")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BackendUnavailableError, match="splat-cpu: Run 'pip install numba'"):
        open_renderer(splats)


def test_depth_alone_is_the_same_depth_sooner():
    """Blending may end at half of the light when nothing else is asked for; not a bit of the depth changes."""
    rng = np.random.default_rng(5)
    n = 4000
    f = np.float32
    quaternions = rng.normal(size=(n, 4))
    means = rng.uniform(-2, 2, (n, 3)) + [0, 0, 4]
    splats = GaussianSplats(means.astype(f), rng.uniform(0.01, 0.2, (n, 3)).astype(f),
                            (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).astype(f),
                            rng.uniform(0.05, 1, n).astype(f), rng.normal(size=(n, 1, 3)).astype(f))
    camera = Camera.from_fov(Pose(np.eye(4)), 80.0, 96, 64)
    renderer = open_renderer(splats)
    both, alone = (renderer.render([camera], want=w) for w in (("rgb", "depth", "alpha"), ("depth",)))
    assert alone.depth.tobytes() == both.depth.tobytes()
    assert alone.alpha is None
    assert 0.2 < (both.depth > 0).mean() < 1.0
    np.testing.assert_array_equal(both.depth > 0, both.alpha >= 0.5)
