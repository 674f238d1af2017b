"""Panoramas against functions of the direction, whose resampling errors are bounded by their derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spatialbench.renderers import open_renderer
from spatialbench.renderers.panorama import face_size, panorama, panorama_cameras, panorama_directions
from spatialbench.types import Frames, RenderSettings
from tests.analytic import Soup

RADIUS = 3.0


def rays(camera):
    """Unit directions [h,w,3] of the pixels' middles, and the share of the axis in them."""
    x, y = np.meshgrid((np.arange(camera.width) + 0.5 - camera.cx) / camera.fx,
                       (np.arange(camera.height) + 0.5 - camera.cy) / camera.fy)
    d = np.stack([x, y, np.ones_like(x)], axis=-1)
    d /= np.linalg.norm(d, axis=-1, keepdims=True)
    return d @ camera.pose.rotation.T, d[..., 2]


def smooth(cameras, want):
    """A sky whose colour is linear in the direction, at a distance of 3 m, more opaque upwards."""
    (camera,) = cameras
    d, axis = rays(camera)
    out = {"rgb": 0.5 + 0.5 * d, "depth": RADIUS * axis, "alpha": 0.5 + 0.5 * d[..., 2]}
    return Frames(tuple(cameras), **{k: out[k][None].astype(np.float32) for k in want}, backend="smooth 1")


def bound(width, samples):
    """Largest error of a function 0.5 a.d of the direction d, a of length 1.

    In the plane of a face, d = (u, v, 1) / sqrt(1 + u^2 + v^2): its components' second derivatives are at most 0.86,
    0.39 and 1, so 0.5 a.d has at most 0.5 * 1.38 each way; bilinear interpolation on pixels h = 2 / S apart is off by
    at most h^2 / 8 of their sum. The mean of points up to e from the middle, in yaw and pitch, is off by at most
    e^2 / 2 times the sum of the second derivatives in the angles, 0.5 each. Twice a float32 in [0,1] is rounded.
    """
    e = math.pi / width * (1 - 1 / samples)
    return 1.38 * (2 / face_size(width)) ** 2 / 8 + e * e / 2 + 2.0**-23


@pytest.mark.parametrize(("width", "samples"), [(64, 1), (256, 2), (600, 3)])
def test_smooth_sky_everywhere_and_across_the_seams(width, samples):
    seen = panorama(smooth, [1, 2, 3], width, want=("rgb", "depth", "alpha"), samples=samples)
    d = panorama_directions(width, width // 2)
    error = seen.rgb - (0.5 + 0.5 * d)
    limit = bound(width, samples)
    assert np.abs(error).max() <= limit
    assert np.abs(seen.alpha - (0.5 + 0.5 * d[..., 2])).max() <= limit
    # What a seam adds to the step between two pixels, along rows (the picture's ends meet) and along columns.
    assert np.abs(np.diff(error, axis=1, append=error[:, :1])).max() <= 2 * limit
    assert np.abs(np.diff(error, axis=0)).max() <= 2 * limit
    # A sphere: 3 m to the rounding of three float32 operations.
    assert np.abs(seen.depth - RADIUS).max() <= 3 * RADIUS * 2.0**-23
    assert seen.backend == "smooth 1"
    if width >= 256:
        assert limit < 0.5 / 255


def test_poles_and_where_the_middle_looks():
    d = panorama_directions(256, 128)
    near = math.pi / 256 * 1.5
    np.testing.assert_allclose(d[63:65, 127:129].mean(axis=(0, 1)), [0, 1, 0], atol=1e-3)
    np.testing.assert_allclose(d[63:65, 191:193].mean(axis=(0, 1)), [1, 0, 0], atol=1e-3)
    seen = panorama(smooth, [0, 0, 0], 256).rgb
    assert np.abs(seen[0] - [0.5, 0.5, 1.0]).max() <= 0.5 * near
    assert np.abs(seen[-1] - [0.5, 0.5, 0.0]).max() <= 0.5 * near
    # All around a pole the mean is the pole's own colour: no face stands out.
    np.testing.assert_allclose(seen[0].mean(axis=0)[:2], 0.5, atol=bound(256, 2))


def test_faces_overlap():
    """A pixel more than to a tangent of 1.125, so that there is always one to interpolate with."""
    for camera in panorama_cameras([0, 0, 0], 256):
        half = camera.width / 2 / camera.fx
        assert 1.125 + 1 / camera.fx <= half <= 1.125 + 2 / camera.fx
        assert camera.fx == face_size(256) / 2


def test_faces_that_differ_are_faded_into_each_other():
    """Six plain greys: the step from one to the next is spread over the overlap, from a tangent of 1 / 1.125 to 1.125.

    Along the horizon that is from 41.63 to 48.37 degrees, so of 1024 columns 2.84 a degree share it: 19 of them; the
    weight is linear in the tangent, whose slope is at most 1 + 1.125^2 there, and so is that of what is not faded out.
    """
    greys = [0.2, 0.6, 0.3, 0.9, 0.5, 0.7]
    order = iter(greys)

    def plain(cameras, want):
        (c,) = cameras
        return Frames(tuple(cameras), np.full((1, c.height, c.width, 3), next(order), np.float32))

    row = panorama(plain, [0, 0, 0], 1024, samples=1).rgb[256, :, 0].astype(float)
    for k, grey in enumerate(greys[:4]):  # plain around each axis
        middle = (512 + 256 * k) % 1024
        assert np.abs(np.roll(row, -middle)[np.r_[-118:118]] - grey).max() <= 1e-6
    slope = (1 + 1.125**2) / (1.125 - 1 / 1.125) * 2 * math.pi / 1024
    assert np.abs(np.diff(row, append=row[0])).max() <= (0.9 - 0.2) * slope
    # At the very border both have half, where the column's middle is half a column beside it.
    assert row[[511 + 128, 512 + 128]].mean() == pytest.approx((0.2 + 0.6) / 2, abs=1e-6)
    flat = panorama(lambda cameras, want: Frames(tuple(cameras), np.full(
        (1, cameras[0].height, cameras[0].width, 3), 0.7, np.float32)), [0, 0, 0], 333).rgb
    assert np.abs(flat - 0.7).max() <= 4 * 2.0**-24  # weights sum to one everywhere, corners too


def test_a_room_of_walls_is_as_far_as_it_is():
    """Depths of a real renderer in a box: the distance to its walls at the face's pixel, half a pixel off at most."""
    s = Soup()
    low, high = np.array([-2.0, -1.5, -1.6]), np.array([3.0, 2.5, 1.1])
    s.box(tuple(low), tuple(high), inward=True)
    width = 256
    renderer = open_renderer(s.mesh(), RenderSettings(shading="normal", supersample=1), "raster")
    seen = panorama(renderer.render, [0, 0, 0], width, want=("rgb", "depth", "alpha"))
    d = panorama_directions(width, width // 2)
    with np.errstate(divide="ignore"):
        reach = np.where(d > 0, high / d, np.where(d < 0, low / d, np.inf)).min(axis=-1)
    assert (seen.alpha == 1).all()
    # The pixel's own middle is at most half a diagonal of a pixel, 1 / focal / sqrt(2), away; the distance changes by
    # at most reach * tan(angle to the wall's normal) a radian, the tangent being reach / wall.
    wall = float(min(-low.max(), high.min()))
    step = math.sqrt(0.5) * 2 / face_size(width)
    limit = step * reach.max() / wall * 1.1
    assert np.abs(seen.depth / reach - 1).max() <= limit
    # Turned by 45 degrees, seams fall elsewhere and the same room is seen: only pixels at the walls' edges differ.
    r = np.array([[math.cos(math.pi / 4), math.sin(math.pi / 4), 0], [-math.sin(math.pi / 4), math.cos(math.pi / 4), 0],
                  [0, 0, 1]])
    turned = np.eye(4)
    turned[:3, :3] = r
    # x' = r x: what was at yaw 0 is now at yaw 45, an eighth of the picture to the right.
    other = open_renderer(s.mesh().transformed(turned), RenderSettings(shading="unlit", supersample=1), "raster")
    depth = panorama(other.render, [0, 0, 0], width, want=("depth",)).depth
    np.testing.assert_allclose(np.roll(depth, -width // 8, axis=1), seen.depth, rtol=2 * limit)


def test_any_number_of_threads_gives_the_same_bytes(monkeypatch):
    monkeypatch.setenv("SPATIALBENCH_THREADS", "1")
    one = panorama(smooth, [0, 0, 0], 300).rgb
    monkeypatch.setenv("SPATIALBENCH_THREADS", "5")
    assert panorama(smooth, [0, 0, 0], 300).rgb.tobytes() == one.tobytes()


def test_progress_and_nonsense():
    told = []
    panorama(smooth, [0, 0, 0], 16, progress=lambda done, total: told.append((done, total)))
    assert told == [(k, 6) for k in range(7)]
    with pytest.raises(ValueError, match="is none"):
        panorama(smooth, [0, 0, 0], 16, samples=0)
