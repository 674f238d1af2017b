"""Worlds of splats under attack: none too small, too large, too bright or too far for one clear outcome."""

from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest

from spatialbench.renderers import open_renderer, splat_cpu
from spatialbench.renderers.splat_cpu import SplatCpuBackend
from spatialbench.types import Camera, GaussianSplats, Pose, RenderSettings, ScaleRecord, TriangleMesh
from spatialbench.types.frames import to_uint8
from spatialbench.world import build_world
from spatialbench.world.fusion.grid import Grid
from spatialbench.world.fusion.quality import compare
from spatialbench.world.scale import scale_decision
from spatialbench.world.sight import depth_renderer
from tests.splats import splat_scene
from tests.worlds import quick_protocol

f = np.float32


def balls(means: object, sigma: float = 0.02, opacity: float = 0.9, sh: float = 0.3, terms: int = 1) -> GaussianSplats:
    at = np.asarray(means, f)
    n = len(at)
    return GaussianSplats(at, np.full((n, 3), sigma, f), np.tile(np.array([1, 0, 0, 0], f), (n, 1)),
                          np.full(n, opacity, f), np.full((n, terms, 3), sh, f))


def ahead(size: int = 64) -> Camera:
    """At the origin, looking along +Z."""
    return Camera.from_fov(Pose(np.eye(4)), 90.0, size, size)


@pytest.mark.parametrize("means", [[[0.0, 0.0, 0.0]], np.ones((50, 3))], ids=["one", "all at one point"])
def test_a_world_without_extent_is_anchored_and_asked_about(means: object) -> None:
    world = build_world(splat_scene(balls(means), unit_m=None), quick_protocol("fusion.rounds=[1, 0, 0]"))
    assert "no_interior" in world.raised()
    (words,) = [w for w in world.warnings if "less than a person is tall" in w]
    assert words.endswith("metres per unit of the file")


def test_images_drawn_in_bands_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    splats = replace(balls(np.column_stack([rng.uniform(-2, 2, (3000, 2)), rng.uniform(0.5, 4, 3000)]), 0.1, 0.4),
                     sh=rng.normal(0, 1, (3000, 4, 3)).astype(f))
    camera = Camera.from_fov(Pose(np.eye(4)), 90.0, 150, 110)  # 10 x 7 tiles, the last of both cut
    for kind in ("median", "expected"):
        whole = SplatCpuBackend(splats, RenderSettings(), kind)([camera], ("rgb", "depth", "alpha"))
        for entries in (1, 1500, 4000):
            monkeypatch.setattr(splat_cpu, "_ENTRIES", entries)
            parts = SplatCpuBackend(splats, RenderSettings(), kind)([camera], ("rgb", "depth", "alpha"))
            assert [a.tobytes() for a in parts] == [a.tobytes() for a in whole]
        monkeypatch.undo()


def test_splats_as_large_as_the_image_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 splats in each of 32 x 32 tiles: lists of 8 x 20,000 x 1,024 = 164 MB, of one row of tiles 5 MB."""
    monkeypatch.setattr(splat_cpu, "_ENTRIES", 1 << 20)
    splats = balls(np.tile([0.0, 0.0, 2.0], (20_000, 1)), sigma=5.0, opacity=0.9)
    backend = SplatCpuBackend(splats, RenderSettings())
    backend([ahead(16)], ("depth",))
    tracemalloc.start()
    try:
        _, depth, _ = backend([ahead(512)], ("depth",))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert depth is not None
    np.testing.assert_array_equal(depth, f(2.0))
    # A band holds 2^20 entries of 8 bytes; three images take 5 MB, the counts by share and tile less than 1 MB.
    assert peak < 8 * (1 << 20) + 8e6


@pytest.mark.parametrize("size", [1e4, 3e38])
def test_harmonics_of_any_size_give_colours(size: float) -> None:
    rng = np.random.default_rng(1)
    means = np.column_stack([rng.uniform(-2, 2, (500, 2)), rng.uniform(1, 3, 500)])
    signs = rng.choice([-1.0, 1.0], (500, 16, 3))
    splats = replace(balls(means, 0.2, terms=16), sh=(signs * size).astype(f))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rgb, _, _ = SplatCpuBackend(splats, RenderSettings())([ahead()], ("rgb",))
        assert rgb is not None
        assert np.isfinite(rgb).all()
        to_uint8(rgb)


def test_centres_at_both_ends_of_float32_are_drawn_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backend = SplatCpuBackend(balls([[3e38, 0, 0], [-3e38, 0, 0], [0, 0, 2]], 0.5), RenderSettings())
        _, depth, _ = backend([ahead()], ("depth",))
        far = np.eye(4)
        far[2, 3] = -4e38
        _, nothing, _ = backend([Camera.from_fov(Pose(far), 90.0, 64, 64)], ("depth",))
    assert depth is not None
    assert depth[0, 32, 32] == 2.0
    assert nothing is not None
    assert not nothing.any()


def test_what_is_seen_beyond_what_was_fused_is_no_hole() -> None:
    """A wall 2 m ahead in the mesh, half a face wide; behind it a sky at 500 m, and inside the grid a wall it lacks."""
    v = np.array([[-50, 2, -50], [0, 2, -50], [0, 2, 50], [-50, 2, 50]], float)
    mesh = TriangleMesh(v, np.array([[0, 1, 2], [0, 2, 3]], np.int32))
    images = np.full((6, 16, 16), 500.0, f)
    images[0, :, :8] = 2.0
    images[0, :, 8:12] = 3.0  # a quarter of the face in front, within 4 m all of it
    views = [(np.zeros(3), images)]
    grid = Grid(np.full(3, -4.0), 0.1, (80, 80, 80))
    assert compare(mesh, views, 0.1, grid).holes == pytest.approx(4 / 12)
    assert compare(None, views, 0.1, grid).holes == 1.0
    empty = np.full((6, 16, 16), 500.0, f)
    assert compare(mesh, [(np.zeros(3), empty)], 0.1, grid).holes is None


@pytest.mark.parametrize(("rays", "said"), [
    ((1.6,) * 9, False),
    ((1.6,) * 6 + (0.85,) * 3, False),  # a table beside the camera: two thirds see the floor
    ((1.6,) * 4 + (0.85,) * 5, True),  # more of the table than of the floor
    ((1.6, 1.18, 0.41, 0.06, 1.6, 1.4, 0.06, 0.06, 0.97), True),  # needles in the air, measured
])
def test_a_scale_from_rays_that_disagree_is_said(rays: tuple[float, ...], said: bool) -> None:
    protocol = quick_protocol()
    _, words = scale_decision(ScaleRecord("floor", 1.6 / float(np.median(rays)), rays), protocol)
    assert any("is that the floor?" in w for w in words) is said


def test_depth_is_drawn_without_a_copy_of_the_harmonics() -> None:
    rng = np.random.default_rng(2)
    n = 20_000
    means = np.column_stack([rng.uniform(-2, 2, (n, 2)), rng.uniform(1, 3, n)])
    splats = replace(balls(means, 0.05), sh=rng.normal(0, 1, (n, 16, 3)).astype(f))
    want = ("depth", "alpha")
    whole = open_renderer(splats).render([ahead()], want)
    tracemalloc.start()
    try:
        renderer = depth_renderer(splats)
        held = tracemalloc.get_traced_memory()[0]
        bare = renderer.render([ahead()], want)
    finally:
        tracemalloc.stop()
    for a, b in ((whole.depth, bare.depth), (whole.alpha, bare.alpha)):
        assert a is not None
        assert b is not None
        assert a.tobytes() == b.tobytes()
    # 14 numbers of shape and 3 of colour, 4 bytes each, and an index: 72 bytes; with all harmonics it would be 252.
    assert held < 100 * n
