"""pyrender's images within what it can do: 8-bit colours, a 24-bit depth buffer, opaque surfaces."""

from __future__ import annotations

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.renderers import open_renderer
from spatialbench.renderers.trajectories import cube_faces
from spatialbench.types import Camera, Light, Material, RenderSettings, TriangleMesh, level_pose

from .test_raycast import box
from .test_render import QUAD_UV, UNLIT, encode, front, wall
from .usable import needs

pytestmark = needs("pyrender")
EIGHT_BITS = 0.5 / 255 + 1e-6


def test_a_room_against_ray_casting():
    v, f = box((-2, -3, -1.6), (2.5, 3.7, 1.1))
    cameras = cube_faces([0.2, 0.3, 0.1], 64)
    a, b = (open_renderer(TriangleMesh(v, f), backend=n).render(cameras) for n in ("embree", "pyrender"))
    assert (b.alpha == 1).all()
    # The buffer's step is z^2 / near / 2^24 with near = 3.8 m / 512 and z up to 3.4 m: 1e-4 m.
    np.testing.assert_allclose(b.depth, a.depth, atol=2e-4)
    # Inside of walls; EGL's four samples straddle the edges between them.
    off = np.abs(a.rgb - b.rgb).max(axis=-1)
    assert np.median(off) < EIGHT_BITS
    assert (off > EIGHT_BITS).mean() < 0.1


def test_texture_upright_with_its_factor():
    t = np.full((2, 2, 4), 255, np.uint8)
    t[0, 0, :3], t[0, 1, :3], t[1, 0, :3], t[1, 1, :3] = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)
    mesh = wall(2.0, 2.0, Material(texture=t, filter="nearest", base_color=(0.5, 1, 1, 1)), QUAD_UV)
    rgb = open_renderer(mesh, UNLIT, "pyrender").render([front(16)]).rgb[0]
    half = encode(0.5)
    for rows, cols, colour in ((slice(1, 7), slice(1, 7), (half, 0, 0)), (slice(1, 7), slice(9, 15), (0, 1, 0)),
                               (slice(9, 15), slice(1, 7), (0, 0, 1)), (slice(9, 15), slice(9, 15), (half, 1, 0))):
        np.testing.assert_allclose(rgb[rows, cols], np.broadcast_to(colour, (6, 6, 3)), atol=EIGHT_BITS)


def test_background_holes_lens_and_sizes():
    settings = RenderSettings(supersample=1, shading="unlit", background=(0.2, 0.4, 0.6))
    r = open_renderer(wall(2.0, 1.0), settings, "pyrender")
    camera = Camera(level_pose([0, 0, 0]), 20.0, 40.0, 10.0, 30.0, 48, 64)
    frames, other = r.render([camera]), r.render([front(8)])
    # The wall spans x = 10 +- 10 and y = 30 +- 20 pixels.
    want = np.zeros((64, 48), np.float32)
    want[10:50, 0:20] = 1
    np.testing.assert_array_equal(frames.alpha[0], want)
    np.testing.assert_allclose(frames.rgb[0, 60, 40], (0.2, 0.4, 0.6), atol=EIGHT_BITS)
    np.testing.assert_allclose(other.depth[0, 4, 4], 2.0, rtol=1e-4)


def test_both_sides_unless_culled():
    mesh = wall(2.0, 5.0).flipped()
    assert (open_renderer(mesh, UNLIT, "pyrender").render([front(8)]).alpha == 1).all()
    cull = RenderSettings(supersample=1, shading="unlit", cull=True)
    seen = [open_renderer(m, cull, "pyrender").render([front(8)]) for m in (mesh, mesh.flipped())]
    assert sorted(float(f.alpha.mean()) for f in seen) == [0, 1]
    assert sorted(float(f.rgb.mean()) for f in seen) == [0, 1]


def test_what_it_cannot_draw_rightly_is_refused():
    for mesh, why in ((wall(material=Material(name="leaf", alpha_mode="mask")), "'leaf' is mask"),
                      (wall(material=Material(alpha_mode="blend")), "is blend"),
                      (TriangleMesh(*box(), lights=(Light("directional"),)), "lights")):
        with pytest.raises(BackendUnavailableError, match=why):
            open_renderer(mesh, backend="pyrender")
