"""Kinds of depth of splats, in closed form and against each other; degenerate splats; case B28 through the API."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spatialbench.renderers import open_renderer, render
from spatialbench.renderers.splat_cpu import SplatCpuBackend
from spatialbench.types import Camera, GaussianSplats, Pose, RenderSettings

from .splat_reference import facing, harmonics, make, random_splats

PLANE, MEDIAN, EXPECTED = (RenderSettings(depth=d) for d in ("plane", "median", "expected"))


def surfel(angle, z=4.0, sigma=1.0, thickness=0.0, opacity=0.9):
    """One disc at distance z, turned about the image's vertical axis by ``angle`` degrees from facing the camera."""
    q = Rotation.from_rotvec([0, math.radians(angle), 0]).as_quat()[[3, 0, 1, 2]]
    return make([0, 0, z], [sigma, sigma, thickness], opacity, quaternions=q)


@pytest.mark.parametrize("thickness", [0.0, 1e-4])
@pytest.mark.parametrize("angle", [0.0, 30.0, -55.0])
def test_plane_depth_of_a_slanted_surfel(angle, thickness):
    camera = facing(65, 33, f=64.0)
    frames = render(surfel(angle, thickness=thickness), [camera], settings=PLANE)
    seen = frames.alpha[0] >= 0.5
    assert seen.sum() > 100
    # Right-handed about y (down): the disc's normal is (sin, 0, cos); z (1 + x tan) = 4 along the ray (x, y, 1).
    x = (np.arange(65) + 0.5 - 32.5) / 64
    want = np.broadcast_to(4 / (1 + x * math.tan(math.radians(angle))), (33, 65))
    # float32 axes and centre: some 1e-7 each, by at most z / cos^2.
    np.testing.assert_allclose(frames.depth[0][seen], want[seen], rtol=2e-6)
    assert not frames.depth[0][~seen].any()
    median = render(surfel(angle, thickness=thickness), [camera], settings=MEDIAN)
    assert (median.depth[0][seen] == 4).all()
    np.testing.assert_array_equal(median.depth > 0, frames.depth > 0)
    np.testing.assert_array_equal(median.alpha, frames.alpha)
    np.testing.assert_array_equal(median.rgb, frames.rgb)


def test_plane_depth_of_a_slanted_wall_of_surfels():
    # The wall z = 4 - 0.5 x, covered by discs on it: plane depth is the wall's, median depth is that of centres.
    angle = math.atan(0.5)
    u, v = (a.ravel() for a in np.meshgrid(np.arange(-30, 31) * 0.1, np.arange(-35, 36) * 0.1))
    centres = np.stack([u * math.cos(angle), v, 4 - u * math.sin(angle)], 1)
    q = Rotation.from_rotvec([0, angle, 0]).as_quat()[[3, 0, 1, 2]]
    splats = make(centres, [0.1, 0.1, 0.0], 0.9, quaternions=q)
    camera = Camera(Pose(np.eye(4)), 70.0, 50.0, 20.0, 27.0, 48, 40)
    x = (np.arange(48) + 0.5 - 20) / 70
    want = np.broadcast_to(4 / (1 + 0.5 * x), (40, 48))
    plane, median = (render(splats, [camera], settings=s) for s in (PLANE, MEDIAN))
    assert (plane.alpha > 0.5).all()
    np.testing.assert_allclose(plane.depth[0], want, rtol=3e-6)
    assert 1e-3 < np.abs(median.depth[0] - want).mean() < 0.1


def test_plane_depth_falls_back_on_the_centre():
    camera = facing(65)
    # Edge-on, a needle, a point: no plane that a ray meets within the splat's reach.
    for splats in (surfel(90.0), make([0, 0, 4], [1.0, 0, 0], 0.9), make([0, 0, 4], 0.0, 0.9)):
        frames = render(splats, [camera], settings=PLANE)
        seen = frames.alpha[0] >= 0.5
        assert seen.any() and (frames.depth[0][seen] == 4).all()
    # Never farther from the centre's depth than 3.33 standard deviations.
    depth = render(surfel(80.0, sigma=0.5), [camera], settings=PLANE).depth[0]
    assert (np.abs(depth[depth > 0] - 4) <= 3.34 * 0.5).all() and np.ptp(depth[depth > 0]) > 0.5


def test_plane_depth_turns_with_the_world_and_does_not_know_offsets():
    splats, turn = random_splats(200, 4, 0, sigma=0.2), Rotation.from_rotvec([0.4, -1.1, 0.7])
    q = (turn * Rotation.from_quat(splats.quaternions[:, [1, 2, 3, 0]])).as_quat()[:, [3, 0, 1, 2]]
    f = np.float32
    turned = GaussianSplats(turn.apply(splats.means).astype(f), splats.scales, q.astype(f), splats.opacities, splats.sh)
    a = render(splats, [facing(48)], settings=PLANE).depth
    b = render(turned, [facing(48, rotation=turn.as_matrix())], settings=PLANE).depth
    # Rounded axes move a steep plane by up to 1e-5; a pixel at a half may take another splat.
    assert (np.abs(a - b) > 1e-4).mean() < 5e-3
    far = np.array([512345.25, -4312345.5, 77.125])
    there = GaussianSplats(splats.means, splats.scales, splats.quaternions, splats.opacities, splats.sh, far)
    np.testing.assert_array_equal(render(there, [facing(48, position=far)], settings=PLANE).depth, a)


def test_one_place_asks_for_a_kind_of_depth():
    splats = random_splats(100, 2, 0)
    kinds = {}
    for settings in (PLANE, MEDIAN, EXPECTED):
        both = open_renderer(splats, settings, "splat-cpu").render([facing()])
        for want in (("depth",), ("depth", "alpha"), ("depth", "rgb"), ("alpha",)):
            some = open_renderer(splats, settings, "splat-cpu").render([facing()], want)
            for name in want:
                np.testing.assert_array_equal(getattr(some, name), getattr(both, name))
        kinds[settings.depth] = both.depth
    assert not np.array_equal(kinds["plane"], kinds["median"])
    assert not np.array_equal(kinds["expected"], kinds["median"])
    with pytest.raises(ValueError, match="median, expected, plane"):
        SplatCpuBackend(splats, MEDIAN, "mode")


def test_harmonics_against_tabulated_values():
    """Values of the real harmonics as tables have them, at (1, 2, 2)/3: the reference, and the image of one splat."""
    x, y, z = 1 / 3, 2 / 3, 2 / 3
    pi = math.pi
    # Degree 0 to 3, m = -l to l, with the sign (-1)^m of the splats' training code.
    table = [0.5 / math.sqrt(pi)]
    table += [math.sqrt(3 / (4 * pi)) * v for v in (-y, z, -x)]
    table += [0.5 * math.sqrt(15 / pi) * x * y, -0.5 * math.sqrt(15 / pi) * y * z,
              0.25 * math.sqrt(5 / pi) * (3 * z * z - 1), -0.5 * math.sqrt(15 / pi) * x * z,
              0.25 * math.sqrt(15 / pi) * (x * x - y * y)]
    table += [-0.25 * math.sqrt(35 / (2 * pi)) * y * (3 * x * x - y * y), 0.5 * math.sqrt(105 / pi) * x * y * z,
              -0.25 * math.sqrt(21 / (2 * pi)) * y * (5 * z * z - 1),
              0.25 * math.sqrt(7 / pi) * z * (5 * z * z - 3), -0.25 * math.sqrt(21 / (2 * pi)) * x * (5 * z * z - 1),
              0.25 * math.sqrt(105 / pi) * z * (x * x - y * y),
              -0.25 * math.sqrt(35 / (2 * pi)) * x * (x * x - 3 * y * y)]
    np.testing.assert_allclose(harmonics(np.array([[x, y, z]]), 3)[0], table, atol=1e-12)
    for k, value in enumerate(table):
        sh = np.zeros((1, 16, 3), np.float32)
        sh[0, k] = [0.4, -0.4, 0.0]
        splat = GaussianSplats(np.array([[x, y, z]], np.float32), np.full((1, 3), 0.5, np.float32),
                               np.array([[1, 0, 0, 0]], np.float32), np.ones(1, np.float32), sh)
        camera = Camera(Pose(np.eye(4)), 8.0, 8.0, 4.5 - 4.0, 4.5 - 8.0, 9, 9)
        rgb = render(splat, [camera], ("rgb",)).rgb[0, 4, 4]
        np.testing.assert_allclose(rgb, [0.999 * (0.5 + 0.4 * value), 0.999 * (0.5 - 0.4 * value), 0.4995], atol=2e-6)


def test_reported_case_b28_through_the_api(data_dir):
    # strands-labs/robots#2322: a layer blended twice (too dark), and accumulated depth taken for metric depth.
    from spatialbench.scene.load import load_scene

    folder = data_dir / "reports" / "render"
    splats = load_scene(folder / "one_splat_60.ply").splats
    c = json.loads((folder / "cam_4m.json").read_text())
    pose = Pose(np.array(c["frames"][0]["transform_matrix"]) @ np.diag([1.0, -1, -1, 1]))
    camera = Camera(pose, c["fl_x"], c["fl_y"], c["cx"], c["cy"], c["w"], c["h"])
    for settings in (MEDIAN, PLANE, EXPECTED):
        frames = render(splats, [camera], settings=settings)
        assert abs(frames.alpha[0, 64, 64] - 0.6) < 0.003
        assert abs(frames.depth[0, 64, 64] - 4) < 0.01
        np.testing.assert_allclose(frames.rgb[0, 64, 64], [0.6, 0, 0], atol=0.003)


@pytest.mark.parametrize("settings", [MEDIAN, PLANE, EXPECTED], ids=lambda s: s.depth)
def test_degenerate_splats_leave_the_others_alone(settings):
    good = random_splats(60, 11, 1)
    n = 10
    bad = random_splats(n, 12, 1)
    f = np.float32
    means, scales, quaternions, opacities, sh = (a.copy() for a in (bad.means, bad.scales, bad.quaternions,
                                                                    bad.opacities, bad.sh))
    means[0, 1], means[1, 2] = np.nan, np.inf
    scales[2, 0], scales[3, 2], scales[9] = np.inf, np.nan, 3e38
    quaternions[4], quaternions[5, 3] = 0, np.nan
    opacities[6], opacities[7] = 0, np.nan
    sh[8, 2, 1] = np.inf
    parts = [np.concatenate(p).astype(f) for p in zip(
        (means, scales, quaternions, opacities, sh),
        (good.means, good.scales, good.quaternions, good.opacities, good.sh), strict=True)]
    mixed = GaussianSplats(*parts)
    a, b = (open_renderer(s, settings, "splat-cpu").render([facing(48)]) for s in (good, mixed))
    for name in ("rgb", "depth", "alpha"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
