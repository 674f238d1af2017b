"""A renderer of splats on CUDA, by gsplat 1.5: the same convention as ``splat_cpu``, which follows gsplat's.

- ``rgb`` and ``alpha`` come from one call of ``rasterization``: dilation 0.3, near plane 0.01 unless the settings
  say otherwise, no far plane, ``classic`` or ``antialiased`` as the splats say, pinhole cameras. The background is
  blended here, with gsplat's alpha.
- Depth: gsplat blends depths (``expected``) and has no median of them. ``settings.depth`` of ``median`` or ``plane`` is
  therefore drawn by ``splat_cpu``, on the CPU: the two mean the same splats in the same order, and geometry does not
  depend on what drew the colours.
- Splats that ``splat_cpu`` would not draw (not finite, below 1/255, without a rotation) never reach the GPU.
- Centres are float32 and not moved to the camera first: far from their origin gsplat loses what ``splat_cpu`` keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers._gpu import library_errors, one_line
from spatialbench.renderers._splat_pack import drawn_harmonics, visible_splats
from spatialbench.renderers._version import SPLAT_IMAGES
from spatialbench.renderers.splat_cpu import NEAR, SplatCpuBackend
from spatialbench.types import Camera, GaussianSplats, RenderSettings

__all__ = ["GsplatBackend", "gsplat_version"]

_FAR = 1e30
_OLDEST = (1, 5)
"""Before it, splats ended at 3 standard deviations whatever their opacity."""

F32 = NDArray[np.float32]


class GsplatBackend:
    """Draws splats; what the images mean is said at the top of this module.

    Raises
    ------
    BackendUnavailableError : whatever gsplat, torch or CUDA fails with, here or later while drawing.

    Spherical harmonics of degree 4 are drawn as degree 3; the import report says so.
    """

    def __init__(self, splats: GaussianSplats, settings: RenderSettings) -> None:
        self._splats, self._settings = splats, settings
        self._offset = splats.offset if splats.offset is not None else np.zeros(3)
        self._of_depth: SplatCpuBackend | None = None
        which = visible_splats(splats)
        terms = drawn_harmonics(splats)
        self._degree = round(terms**0.5) - 1
        self._n = len(which)
        with library_errors("gsplat"):
            self._means, self._quats, self._scales, self._opacities, self._sh = map(
                _to_device, (splats.means[which], splats.quaternions[which], splats.scales[which],
                             splats.opacities[which], splats.sh[which, :terms]))

    def __call__(self, cameras: Sequence[Camera], want: Sequence[str]) -> tuple[
            F32 | None, F32 | None, F32 | None]:
        """Images of cameras of one size."""
        expected = self._settings.depth == "expected"
        ours = {"rgb", "alpha", "depth"} if expected else {"rgb", "alpha"}
        rgb = depth = alpha = None
        if ours & set(want):
            rgb, depth, alpha = self._rasterize(cameras, "rgb" in want, expected and "depth" in want)
        if "depth" in want and not expected:
            if self._of_depth is None:
                self._of_depth = SplatCpuBackend(self._splats, self._settings)
            depth = self._of_depth(cameras, ("depth",))[1]
        return rgb, depth, alpha if "alpha" in want else None

    def _rasterize(self, cameras: Sequence[Camera], colours: bool, depths: bool) -> tuple[F32 | None, F32 | None, F32]:
        """rgb over the background, expected depth (None each if not asked for) and alpha."""
        t, h, w = len(cameras), cameras[0].height, cameras[0].width
        background = np.array(self._settings.background, np.float32)
        if self._n == 0:
            nothing = np.zeros((t, h, w), np.float32)
            return (np.broadcast_to(background, (t, h, w, 3)).copy() if colours else None,
                    nothing.copy() if depths else None, nothing)
        mode = "RGB+ED" if colours and depths else "RGB" if colours else "ED"
        with library_errors("gsplat"):
            gsplat, torch = import_module("gsplat"), import_module("torch")
            with torch.no_grad():
                drawn, covered, _ = gsplat.rasterization(
                    means=self._means, quats=self._quats, scales=self._scales, opacities=self._opacities,
                    colors=self._sh, sh_degree=self._degree, viewmats=_to_device(self._views(cameras)),
                    Ks=_to_device(_lenses(cameras)), width=w, height=h, eps2d=0.3, radius_clip=0.0, far_plane=_FAR,
                    near_plane=self._settings.near if self._settings.near > 0 else NEAR, packed=True,
                    render_mode=mode, rasterize_mode="antialiased" if self._splats.antialiased else "classic")
                image, alpha = _to_host(drawn), _to_host(covered)[..., 0].copy()
        rgb = depth = None
        if colours:
            rgb = np.minimum(image[..., :3] + (1 - alpha[..., None]) * background, np.float32(1))
        if depths:
            depth = np.where(alpha > 0, image[..., -1], np.float32(0))
        return rgb, depth, alpha

    def _views(self, cameras: Sequence[Camera]) -> F32:
        """World to camera [T,4,4], of the frame of the means; subtracted in float64."""
        out = np.tile(np.eye(4), (len(cameras), 1, 1))
        for m, c in zip(out, cameras, strict=True):
            m[:3, :3] = c.pose.rotation.T
            m[:3, 3] = -c.pose.rotation.T @ (c.pose.position - self._offset)
        return out.astype(np.float32)


def _lenses(cameras: Sequence[Camera]) -> F32:
    """Intrinsics [T,3,3]; gsplat's pixel centres are at halves too."""
    return np.array([[[c.fx, 0, c.cx], [0, c.fy, c.cy], [0, 0, 1]] for c in cameras], np.float32)


def _to_device(array: F32) -> Any:
    return import_module("torch").as_tensor(np.ascontiguousarray(array, np.float32), device="cuda")


def _to_host(tensor: Any) -> F32:
    return np.asarray(tensor.cpu().numpy(), np.float32)


@cache
def gsplat_version() -> tuple[str, str]:
    """Version and an empty string, or an empty string and the reason.

    Imports torch only where gsplat is installed; gsplat may compile its kernels then, once for each machine.
    """
    if find_spec("gsplat") is None or find_spec("torch") is None:
        return "", "Run 'pip install \"spatialbench[gsplat]\"' (needs torch with CUDA)"
    try:
        version = metadata.version("gsplat")
        if tuple(int(p) for p in version.split("+")[0].split(".")[:2]) < _OLDEST:
            return "", f"gsplat {version} is too old; run 'pip install \"gsplat>=1.5\"'"
        torch = import_module("torch")
        if not torch.cuda.is_available():
            return "", "torch finds no CUDA device"
        if import_module("gsplat.cuda._backend")._C is None:
            return "", "gsplat's kernels could not be compiled; install a wheel that has them, or the CUDA toolkit"
    except Exception as e:  # anything may go wrong in a compiler or a driver
        return "", f"gsplat cannot be used ({one_line(e)})"
    return f"{SPLAT_IMAGES} (gsplat {version}, {torch.cuda.get_device_name()})", ""
