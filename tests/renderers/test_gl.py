"""The renderer by OpenGL against ray casting: the same images but for a 256th of a pixel along outlines."""

from __future__ import annotations

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.renderers import gl, open_renderer
from spatialbench.renderers.gl import GlBackend
from spatialbench.renderers.trajectories import cube_faces, ring
from spatialbench.types import Camera, Material, Pose, TriangleMesh, level_pose

from .test_render import UNLIT, disagreements, front, soup, together, wall
from .usable import needs, param

pytestmark = needs("gl")


@pytest.mark.parametrize("seed", [5, 6])
def test_a_soup_of_all_materials(seed):
    rgb, depth, alpha = disagreements(soup(seed), cube_faces([0.1, 0.2, 0.3], 96), 2e-5, ("embree", "gl"))
    # 200 faces have about 10 pixels of outline in each of 6 x 96 rows; a 256th of a pixel to either side moves the
    # sample of one in 128 of them: 45 of 55,296 pixels, and four samples of colour each.
    assert depth < 1e-3
    assert alpha < 1e-3
    assert rgb < 4e-3


@pytest.mark.parametrize("name", ["office", "house", "ar_living_room"])
def test_real_rooms(data_dir, name):
    from spatialbench.scene.load import load_scene

    mesh = load_scene(data_dir / f"scenes/meshes/{name}.glb").mesh
    cameras = cube_faces(mesh.bounds().mean(axis=0), 128)
    a, b = (open_renderer(mesh, backend=n).render(cameras) for n in ("embree", "gl"))
    # One pixel in a thousand at most sees another face; where it is the same one, depth is worked out alike.
    same = np.abs(a.depth - b.depth) <= 1e-6 * a.depth
    assert same.mean() > 0.999
    assert abs((a.alpha < 0.5).mean() - (b.alpha < 0.5).mean()) < 1e-3
    # Four samples a pixel: one in a thousand of them elsewhere, and float32 texture coordinates.
    off = np.abs(a.rgb - b.rgb).max(axis=-1)
    assert (off > 1e-3).mean() < 4e-3
    assert off.mean() < 1e-4


def test_bands_change_nothing(monkeypatch):
    mesh, cameras = soup(3), [Camera(level_pose([0, 0, 0], 20.0), 60.0, 75.0, 40.3, 22.9, 80, 51)]
    whole = open_renderer(mesh, backend="gl").render(cameras)
    monkeypatch.setattr(gl, "_SAMPLES", 80 * 4 * 7)
    bands = open_renderer(mesh, backend="gl").render(cameras)
    # Another origin of the rows rounds their places by some 1e-5 pixels: an outline may move past a sample.
    for name in ("rgb", "depth", "alpha"):
        assert (np.abs(getattr(whole, name) - getattr(bands, name)) > 1e-4).mean() < 2e-3


def test_off_centre_lens_and_oblong_pixels():
    mesh = soup(4)
    cameras = [Camera(level_pose([0.2, -1, 0.1], 70.0, 10.0), 50.0, 80.0, 11.3, 61.7, 70, 60)]
    a, b = (open_renderer(mesh, UNLIT, n).render(cameras) for n in ("embree", "gl"))
    assert (np.abs(a.depth - b.depth) > 1e-5).mean() < 2e-3
    assert (np.abs(a.rgb - b.rgb) > 1e-4).mean() < 4e-3


def test_the_nearest_eight_panes_of_twelve():
    panes = [wall(1.0 + 0.1 * k, 9.0, Material(base_color=(1, 1, 1, 0.1), alpha_mode="blend")) for k in range(12)]
    r = open_renderer(together(*panes), UNLIT, "gl")
    np.testing.assert_allclose(r.render([front(4)]).alpha, 1 - 0.9**8, atol=1e-6)


def test_again_and_among_others_gives_the_same_bytes():
    mesh, cameras = soup(2), ring([0, 0, 0], 4, 64)
    r = open_renderer(mesh, backend="gl")
    first = r.render(cameras)
    open_renderer(wall(), backend="gl").render([front(32)])
    parts = list(r.stream(cameras, batch=1))
    for name in ("rgb", "depth", "alpha"):
        assert np.concatenate([getattr(p, name) for p in parts]).tobytes() == getattr(first, name).tobytes()


def test_far_away_and_tiny():
    # A wall of a micrometre, and one 5 km away: near and far planes follow the mesh.
    small = open_renderer(wall(2e-6, half=1e-6), UNLIT, "gl").render([front(16)])
    assert (small.alpha[0, 4:12, 4:12] == 1).all()
    np.testing.assert_allclose(small.depth[0, 8, 8], 2e-6, rtol=1e-6)
    away = open_renderer(wall(5000.0), UNLIT, "gl").render([Camera.from_fov(level_pose([0, 0, 0]), 0.01, 16)])
    assert (away.depth == 5000).all()


def test_what_does_not_fit_is_refused(monkeypatch):
    mesh = wall(material=Material(texture=np.zeros((64, 64, 4), np.uint8)), uv=[[0, 0], [1, 0], [1, 1], [0, 1]])
    rest = gl._context()[1]
    small = type("Small", (), {"info": {"GL_MAX_SHADER_STORAGE_BLOCK_SIZE": 8000}, "gc": lambda self: None,
                               "__enter__": lambda self: self, "__exit__": lambda self, *e: None})()
    monkeypatch.setattr(gl, "_context", lambda: (small, rest))
    with pytest.raises(BackendUnavailableError, match=r"needs a buffer of 16,[0-9]+ bytes, the driver's are 8,000"):
        GlBackend(mesh, UNLIT)
    monkeypatch.setattr(gl, "_MAX_FACES", 1)
    with pytest.raises(BackendUnavailableError, match="no more than 1 faces"):
        GlBackend(TriangleMesh(mesh.vertices, mesh.faces), UNLIT)


def test_whatever_the_library_raises_is_one_error(monkeypatch):
    r = open_renderer(wall(), UNLIT, "gl")
    monkeypatch.setattr(r._draw, "_aim", lambda band: 1 / 0)
    with pytest.raises(BackendUnavailableError, match=r"renderer 'gl' failed \(ZeroDivisionError"):
        r.render([front(4)])


@pytest.mark.parametrize("backend", ["raster", "gl", param("pyrender")])
def test_every_renderer_has_the_same_holes_in_the_sample_room(backend):
    from importlib import resources
    from pathlib import Path

    from spatialbench.scene.load import load_scene

    mesh = load_scene(Path(str(resources.files("spatialbench.assets"))) / "sample_room.glb").mesh
    up = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    cameras = [Camera(Pose(up @ c.pose.matrix), c.fx, c.fy, c.cx, c.cy, c.width, c.height)
               for place in ([0, 0, 1.6], [0, 7.0, 1.6]) for c in ring(place, 6, 96)]
    rates = [(open_renderer(mesh, backend=b).render(cameras, ("alpha",)).alpha < 0.5).mean()
             for b in ("embree", backend)]
    assert 0.01 < rates[0] < 0.99
    assert abs(rates[0] - rates[1]) < 1e-3
