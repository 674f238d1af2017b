"""The adapter of gsplat: what it hands over, drawn by the float64 reference; and the real one where there is CUDA."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spatialbench.errors import BackendUnavailableError
from spatialbench.renderers import open_renderer
from spatialbench.renderers.gsplat import GsplatBackend, gsplat_version
from spatialbench.renderers.splat_cpu import SplatCpuBackend
from spatialbench.types import Camera, GaussianSplats, Pose, RenderSettings

from .splat_reference import facing, make, random_splats, reference
from .usable import needs

ALL = ("rgb", "depth", "alpha")


class Tensor:
    """As much of a tensor as the adapter uses."""

    def __init__(self, array, device):
        assert array.dtype == np.float32 and array.flags.c_contiguous
        self.array, self.device = array, device

    def cpu(self):
        return Tensor(self.array, "cpu")

    def numpy(self):
        assert self.device == "cpu"
        return self.array


def rasterization(means, quats, scales, opacities, colors, viewmats, Ks, width, height, near_plane=0.01,
                  far_plane=1e10, radius_clip=0.0, eps2d=0.3, sh_degree=None, packed=True, backgrounds=None,
                  render_mode="RGB", rasterize_mode="classic"):
    """gsplat 1.5's function in meaning, by the reference; only what the adapter may use."""
    tensors = means, quats, scales, opacities, colors, viewmats, Ks
    assert {t.device for t in tensors} == {"cuda"}
    means, quats, scales, opacities, colors, viewmats, lenses = (t.array for t in tensors)
    assert (sh_degree + 1) ** 2 == colors.shape[1]
    assert eps2d == 0.3 and radius_clip == 0 and backgrounds is None and far_plane > 1e10
    splats = GaussianSplats(means, scales, quats, opacities, colors, antialiased=rasterize_mode == "antialiased")
    images, covers = [], []
    for m, k in zip(viewmats.astype(np.float64), lenses.astype(np.float64), strict=True):
        pose = np.eye(4)
        # float32 matrices are orthonormal to 1e-7 only.
        pose[:3, :3] = Rotation.from_matrix(m[:3, :3].T).as_matrix()
        pose[:3, 3] = -m[:3, :3].T @ m[:3, 3]
        camera = Camera(Pose(pose), k[0, 0], k[1, 1], k[0, 2], k[1, 2], width, height)
        rgb, alpha, _, mean = reference(splats, camera, near=near_plane)
        images.append({"RGB": rgb, "ED": mean[..., None], "RGB+ED": np.dstack([rgb, mean])}[render_mode])
        covers.append(alpha[..., None])
    return tuple(Tensor(np.array(a, np.float32), "cuda") for a in (images, covers)) + ({},)


@pytest.fixture
def fake(monkeypatch):
    calls = []
    torch, gsplat = ModuleType("torch"), ModuleType("gsplat")
    torch.as_tensor = lambda array, device: Tensor(array, device)
    torch.no_grad = nullcontext
    gsplat.rasterization = lambda **given: calls.append(given) or rasterization(**given)
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    monkeypatch.setitem(__import__("sys").modules, "gsplat", gsplat)
    return calls


TURN = Rotation.from_rotvec([0.1, -0.2, 0.3]).as_matrix()
CAMERAS = [Camera(facing(position=(0.1, 0.2, -0.1), rotation=TURN).pose, 50.0, 41.0, 27.0, 20.0, 61, 37),
           facing(61, 37)]


@pytest.mark.parametrize("antialiased", [False, True])
def test_the_same_images_as_splat_cpu(fake, antialiased):
    splats = random_splats(120, 3, 3, antialiased=antialiased)
    for settings in (RenderSettings(background=(0.2, 0.4, 0.6)),
                     RenderSettings(background=(0.2, 0.4, 0.6), near=1.5, depth="expected")):
        ours, theirs = (b(splats, settings)(CAMERAS, ALL) for b in (SplatCpuBackend, GsplatBackend))
        # As splat-cpu against the reference: a pixel at 1/255 may go either way.
        for a, b in zip(ours, theirs, strict=True):
            assert a.shape == b.shape and b.dtype == np.float32
            assert np.quantile(np.abs(a - b), 0.99) < 2e-5


def test_median_and_plane_depth_are_splat_cpus_own(fake):
    splats = random_splats(120, 4, 1)
    for kind in ("median", "plane"):
        settings = RenderSettings(depth=kind)
        ours, theirs = (b(splats, settings)(CAMERAS, ("depth",)) for b in (SplatCpuBackend, GsplatBackend))
        assert ours[1].tobytes() == theirs[1].tobytes()
    assert not fake


def test_what_is_wanted_decides_what_is_drawn(fake):
    splats = random_splats(20, 5, 0)
    backend, expected = GsplatBackend(splats, RenderSettings()), GsplatBackend(splats, RenderSettings(depth="expected"))
    for b, want, mode in ((backend, ("rgb",), "RGB"), (backend, ("alpha",), "ED"), (expected, ("depth",), "ED"),
                          (expected, ("rgb", "depth"), "RGB+ED"), (expected, ("rgb",), "RGB")):
        got = b(CAMERAS[:1], want)
        assert fake.pop()["render_mode"] == mode
        assert [name for name, a in zip(ALL, got, strict=True) if a is not None] == list(want)


def test_degenerate_splats_never_get_there(fake):
    bad = make([[0, 0, 2], [0, np.nan, 2], [0, 0, 3], [0, 0, 4], [0, 0, 5]], 0.2, [0.5, 0.5, 0.003, 0.5, 0.5])
    bad.quaternions[3] = 0
    bad.scales[4] = np.inf
    GsplatBackend(bad, RenderSettings())([facing(9)], ("rgb",))
    assert len(fake[0]["means"].array) == 1
    settings = RenderSettings(background=(0.1, 0.2, 0.3))
    rgb, depth, alpha = GsplatBackend(bad.select(np.array([1, 2])), settings)([facing(9)], ALL)
    assert len(fake) == 1  # nothing to draw, so nothing is asked
    assert not depth.any() and not alpha.any()
    np.testing.assert_allclose(rgb, np.broadcast_to([0.1, 0.2, 0.3], rgb.shape), rtol=1e-6)


def test_offset_is_subtracted_in_float64(fake):
    splats = random_splats(60, 6, 1)
    far = np.array([512345.25, -4312345.5, 77.125])
    there = GaussianSplats(splats.means, splats.scales, splats.quaternions, splats.opacities, splats.sh, far)
    GsplatBackend(splats, RenderSettings())([facing(9)], ("rgb",))
    GsplatBackend(there, RenderSettings())([facing(9, position=far)], ("rgb",))
    np.testing.assert_array_equal(fake[0]["viewmats"].array, fake[1]["viewmats"].array)


def test_degree_four_is_drawn_as_three(fake):
    backend = GsplatBackend(random_splats(5, 9, 4), RenderSettings())
    backend([facing(9)], ("rgb",))
    assert fake[0]["sh_degree"] == 3 and fake[0]["colors"].array.shape == (5, 16, 3)


def test_cuda_that_fails_is_one_error(fake, monkeypatch):
    def fails(**given):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB\nmore")

    backend = GsplatBackend(random_splats(5), RenderSettings())
    monkeypatch.setattr(__import__("sys").modules["gsplat"], "rasterization", fails)
    with pytest.raises(BackendUnavailableError, match=r"'gsplat' failed \(RuntimeError: CUDA out of memory"):
        backend([facing(9)], ("rgb",))


def test_reason_when_it_cannot_be_used():
    version, reason = gsplat_version()
    assert bool(version) != bool(reason)
    if find_spec("gsplat") is None:
        assert reason.startswith("Run 'pip install \"spatialbench[gsplat]\"'")


@pytest.mark.skipif(not (find_spec("gsplat") and find_spec("torch")), reason="gsplat or torch is not installed")
def test_the_fake_has_the_real_signature():
    import gsplat

    real, used = inspect.signature(gsplat.rasterization).parameters, inspect.signature(rasterization).parameters
    assert set(used) <= set(real)
    for name, p in used.items():
        assert p.default == real[name].default, name


@needs("gsplat")
@pytest.mark.parametrize("degree", [0, 3])
@pytest.mark.parametrize("antialiased", [False, True])
def test_the_real_one_against_the_reference(degree, antialiased):
    splats = random_splats(2000, degree, degree, antialiased=antialiased)
    settings = RenderSettings(background=(0.2, 0.4, 0.6), depth="expected")
    theirs = open_renderer(splats, settings, "gsplat").render(CAMERAS)
    ours = open_renderer(splats, settings, "splat-cpu").render(CAMERAS)
    assert theirs.backend.startswith("gsplat 1 (gsplat ")
    for name in ALL:
        a, b = getattr(ours, name), getattr(theirs, name)
        # gsplat's exponential is good to 2e-6 of the exponent; a splat at 1/255 may go either way.
        assert np.quantile(np.abs(a - b), 0.99) < 1e-4
        assert np.abs(a - b).mean() < 1e-4
