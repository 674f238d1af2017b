"""Backends that fail while they draw, and images that cannot be drawn."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.renderers import open_renderer
from spatialbench.renderers._gpu import library_errors
from spatialbench.renderers.backends import MAX_PIXELS, Renderer
from spatialbench.types import Camera, Frames, RenderSettings, level_pose

from .splat_reference import facing, random_splats
from .test_render import EACH, UNLIT, front, together, wall

module = sys.modules[open_renderer.__module__]  # the package has a function of its name


class Dying:
    """Draws some images, then loses its context."""

    def __init__(self, draws):
        self.left, self.real = draws, None

    def open(self, geometry, settings):
        with library_errors("dying"):
            if self.left < 0:
                raise MemoryError("no room for the geometry")
        self.real = module._open_splat_cpu(geometry, settings)
        return self

    def __call__(self, cameras, want):
        with library_errors("dying"):
            if self.left == 0:
                raise RuntimeError("the context is lost\nand more")
            self.left -= 1
        return self.real(cameras, want)


@pytest.fixture
def dying(monkeypatch):
    """Registers a default renderer of splats that dies after some images, before splat-cpu or alone."""
    cpu = module._BACKENDS["splat-cpu"]
    monkeypatch.delenv("SPATIALBENCH_RENDERER", raising=False)

    def register(draws, alone=False):
        entry = module._Backend("splats", "splats", -1, lambda: ("7", ""), Dying(draws).open)
        monkeypatch.setattr(module, "_BACKENDS", {"dying": entry} if alone else {"splat-cpu": cpu, "dying": entry})

    return register


def test_the_next_one_takes_over_and_says_so(dying):
    dying(1)
    splats, cameras = random_splats(50), [facing(17), facing(17, 17, 50.0)]
    r = open_renderer(splats)
    first = r.render(cameras[:1])
    assert (first.backend, first.warnings) == ("dying 7", ())
    with pytest.warns(UserWarning, match="splat-cpu 1 draws instead of dying 7: the renderer 'dying' failed"):
        second = r.render(cameras)
    assert second.backend == r.name_version == "splat-cpu 1 (instead of dying 7)"
    assert len(second.warnings) == 1 and "RuntimeError: the context is lost)" in second.warnings[0]
    want = open_renderer(splats, backend="splat-cpu").render(cameras)
    np.testing.assert_array_equal(second.rgb, want.rgb)
    assert r.render(cameras).warnings == second.warnings  # and stays so


def test_one_that_cannot_even_take_the_geometry(dying):
    dying(-1)
    with pytest.warns(UserWarning, match="instead of dying 7: .*no room for the geometry"):
        r = open_renderer(random_splats(5))
    assert r.name_version == "splat-cpu 1 (instead of dying 7)"
    assert len(r.render([facing(9)]).warnings) == 1


def test_a_forced_one_is_not_replaced(dying, monkeypatch):
    dying(0)
    for force in ("argument", "environment"):
        if force == "environment":
            monkeypatch.setenv("SPATIALBENCH_RENDERER", "dying")
        r = open_renderer(random_splats(5), backend="dying" if force == "argument" else None)
        with pytest.raises(BackendUnavailableError, match=r"'dying' failed .*context is lost.*Choose another renderer"):
            r.render([facing(9)])


def test_the_last_one_has_no_successor(dying):
    dying(0, alone=True)
    with pytest.raises(BackendUnavailableError, match="context is lost"):
        open_renderer(random_splats(5)).render([facing(9)])
    dying(-1, alone=True)
    with pytest.raises(BackendUnavailableError, match="no room for the geometry"):
        open_renderer(random_splats(5))


def test_faults_of_the_caller_are_no_reason_to_fall_back():
    def draw(cameras, want):
        raise ValueError("a fault of ours")

    others = iter([("other 1", draw)])
    with pytest.raises(ValueError, match="of ours"):
        Renderer("first 1", draw, others).render([front(4)])
    assert next(others)  # untouched


def test_too_many_pixels_are_refused_before_memory_is_taken():
    r = open_renderer(wall())
    with pytest.raises(UsageError, match=r"1 images of 10000x10000 are 100,000,000 pixels, more than the 67,108,864"):
        r.render([Camera(level_pose([0, 0, 0]), 5e3, 5e3, 5e3, 5e3, 10000, 10000)])
    many = [front(8)] * (MAX_PIXELS // 64 + 1)
    with pytest.raises(UsageError, match="fewer at a time"):
        r.render(many)


def test_a_lens_without_meaning():
    for bad in ({"fx": 0.0}, {"fy": -1.0}, {"fx": math.nan}):
        with pytest.raises(ValueError, match="focal lengths must be positive"):
            replace(front(8), **bad)
    for bad in ({"fx": math.inf}, {"cx": math.nan}, {"cy": -math.inf}):
        with pytest.raises(ValueError, match="camera 1 has a lens that is not finite"):
            open_renderer(wall()).render([front(8), replace(front(8), **bad)])


@EACH
def test_behind_everything_and_inside_a_wall(backend):
    background = RenderSettings(supersample=1, shading="unlit", background=(0.25, 0.5, 1))
    r = open_renderer(wall(2.0, 5.0), background, backend)
    away = r.render([Camera.from_fov(level_pose([0, 3, 0]), 90.0, 8)])
    assert not away.alpha.any() and not away.depth.any()
    np.testing.assert_array_equal(away.rgb[0, 0, 0], [0.25, 0.5, 1])
    # From within its own plane nothing of a wall is seen, whatever way one looks; what is behind it is.
    through = open_renderer(together(wall(2.0, 5.0), wall(3.0, 5.0)), background, backend)
    for yaw in (0.0, 37.0, 90.0, 180.0):
        camera = Camera.from_fov(level_pose([0.1, 2.0, 0.2], yaw), 90.0, 9)
        assert not r.render([camera]).alpha.any()
        frames = through.render([camera])
        np.testing.assert_array_equal(frames.depth > 0, frames.alpha > 0)
        if yaw == 0:
            np.testing.assert_allclose(frames.depth, 1.0, rtol=1e-6)


def test_inside_a_splat():
    splats = random_splats(30, low=(-0.1, -0.1, -0.1), high=(0.1, 0.1, 0.1), sigma=1.0)
    frames = open_renderer(splats, backend="splat-cpu").render([facing(33)])
    for name in ("rgb", "depth", "alpha"):
        assert np.isfinite(getattr(frames, name)).all()


def test_settings_and_frames_check_themselves():
    for bad in ({"supersample": 0}, {"shading": "toon"}, {"depth": "mean"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            RenderSettings(**bad)
    assert Frames(()).warnings == ()
    assert open_renderer(wall(), UNLIT).render([]).warnings == ()
