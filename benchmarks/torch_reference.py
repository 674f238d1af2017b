"""Splats in plain torch on the CPU, as one would write it without kernels: what splat-cpu is compared with.

Every splat is projected at once; each tile of 16 x 16 pixels then evaluates all splats whose circle of three standard
deviations touches it at all of its pixels, and blends by a cumulative product. The convention is splat-cpu's.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers._threads import thread_count
from spatialbench.types import Camera, GaussianSplats

__all__ = ["TorchReference", "torch_missing"]

TILE = 16
NEAR, DILATION, ALPHA_MIN, ALPHA_MAX, OPAQUE = 0.01, 0.3, 1 / 255, 0.999, 1e-4


def torch_missing() -> bool:
    """Whether torch cannot be imported here."""
    return importlib.util.find_spec("torch") is None


def _basis(t: Any, d: Any) -> Any:
    """[n,16] real spherical harmonics of unit vectors [n,3], in the order and with the signs of trained splats."""
    x, y, z = d.unbind(1)
    s = [math.sqrt(v / math.pi) for v in (1 / 4, 3 / 4, 15 / 4, 5 / 16, 15 / 16, 35 / 32, 105 / 4, 21 / 32, 7 / 16,
                                          105 / 16)]
    r = 5 * z * z - 1
    return t.stack([s[0] + 0 * x, -s[1] * y, s[1] * z, -s[1] * x,
                    s[2] * x * y, -s[2] * y * z, s[3] * (3 * z * z - 1), -s[2] * x * z, s[4] * (x * x - y * y),
                    -s[5] * y * (3 * x * x - y * y), s[6] * x * y * z, -s[7] * y * r, s[8] * z * (5 * z * z - 3),
                    -s[7] * x * r, s[9] * z * (x * x - y * y), -s[5] * x * (x * x - 3 * y * y)], 1)


class TorchReference:
    """Draws splats of degree 3 over black."""

    def __init__(self, splats: GaussianSplats, dtype: str = "float64") -> None:
        t = self._torch = importlib.import_module("torch")
        t.set_num_threads(thread_count())
        self._type = getattr(t, dtype)
        self._means, self._scales, self._opacities, self._sh, quaternions = (
            t.from_numpy(a).to(self._type)
            for a in (splats.means, splats.scales, splats.opacities, splats.sh, splats.quaternions))
        w, x, y, z = t.nn.functional.normalize(quaternions).unbind(1)
        self._axes = t.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
                              2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                              2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], 1).view(-1, 3, 3)

    def render(self, camera: Camera) -> NDArray[np.float32]:
        """Colours [H,W,3]; alpha and depth are worked out as well."""
        t = self._torch
        with t.inference_mode():
            at, inverse, depth, opacity, colour, radius = self._project(camera)
            image = t.zeros(camera.height, camera.width, 5, dtype=self._type)
            for top in range(0, camera.height, TILE):
                for left in range(0, camera.width, TILE):
                    bottom, right = min(top + TILE, camera.height), min(left + TILE, camera.width)
                    near = ((at[:, 0] + radius > left) & (at[:, 0] - radius < right)
                            & (at[:, 1] + radius > top) & (at[:, 1] - radius < bottom)).nonzero()[:, 0]
                    y, x = t.meshgrid(t.arange(top, bottom, dtype=self._type) + 0.5,
                                      t.arange(left, right, dtype=self._type) + 0.5, indexing="ij")
                    image[top:bottom, left:right] = self._blend(
                        x.reshape(-1, 1), y.reshape(-1, 1), at[near], inverse[near], depth[near], opacity[near],
                        colour[near]).view(bottom - top, right - left, 5)
            return np.asarray(image[..., :3].clamp(max=1).numpy(), np.float32)

    def _project(self, camera: Camera) -> tuple[Any, ...]:
        """Centres [n,2], inverse covariances [n,3], depths, opacities, colours [n,3] and radii, near to far."""
        t, w, h = self._torch, camera.width, camera.height
        rotation = t.tensor(camera.pose.rotation.T.copy(), dtype=self._type)
        away = self._means - t.tensor(camera.pose.position, dtype=self._type)
        x, y, z = (away @ rotation.T).unbind(1)
        slope_x = (x / z).clamp(-camera.cx / camera.fx - 0.15 * w / camera.fx,
                                (w - camera.cx) / camera.fx + 0.15 * w / camera.fx)
        slope_y = (y / z).clamp(-camera.cy / camera.fy - 0.15 * h / camera.fy,
                                (h - camera.cy) / camera.fy + 0.15 * h / camera.fy)
        zero = t.zeros_like(z)
        jacobian = t.stack([camera.fx / z, zero, -camera.fx * slope_x / z,
                            zero, camera.fy / z, -camera.fy * slope_y / z], 1).view(-1, 2, 3)
        shape = jacobian @ rotation @ self._axes * self._scales[:, None, :]
        covariance = shape @ shape.transpose(1, 2)
        xx, xy, yy = covariance[:, 0, 0] + DILATION, covariance[:, 0, 1], covariance[:, 1, 1] + DILATION
        det = xx * yy - xy * xy
        at = t.stack([x / z * camera.fx + camera.cx, y / z * camera.fy + camera.cy], 1)
        # Where alpha falls to its least value, at most where it does for opacity 1.
        reach = (2 * (self._opacities * 255).clamp(min=1).log()).sqrt()
        radius = reach * (0.5 * (xx + yy) + (0.25 * (xx - yy) ** 2 + xy * xy).sqrt()).sqrt()
        seen = ((z >= NEAR) & (self._opacities >= ALPHA_MIN) & (at[:, 0] + radius > 0) & (at[:, 0] - radius < w)
                & (at[:, 1] + radius > 0) & (at[:, 1] - radius < h)).nonzero()[:, 0]
        seen = seen[z[seen].argsort(stable=True)]
        basis = _basis(t, t.nn.functional.normalize(away[seen]))
        colour = (0.5 + t.einsum("nk,nkc->nc", basis, self._sh[seen])).clamp(min=0)
        inverse = t.stack([yy, -xy, xx], 1)[seen] / det[seen, None]
        return at[seen], inverse, z[seen], self._opacities[seen], colour, radius[seen]

    def _blend(self, x: Any, y: Any, at: Any, inverse: Any, depth: Any, opacity: Any, colour: Any) -> Any:
        """[pixels,5]: colour, alpha, median depth."""
        t = self._torch
        dx, dy = x - at[:, 0], y - at[:, 1]
        power = -0.5 * (inverse[:, 0] * dx * dx + inverse[:, 2] * dy * dy) - inverse[:, 1] * dx * dy
        alpha = (opacity * power.exp()).clamp(max=ALPHA_MAX)
        alpha = t.where(alpha < ALPHA_MIN, 0.0, alpha)
        # What would leave too little light ends the pixel: it and all behind it are not drawn.
        alpha = t.where((1 - alpha).cumprod(1) <= OPAQUE, 0.0, alpha)
        left = (1 - alpha).cumprod(1)
        before = t.cat([t.ones_like(left[:, :1]), left], 1)
        crossed = (before[:, :-1] > 0.5) & (left <= 0.5)
        return t.cat([(alpha * before[:, :-1]) @ colour, 1 - before[:, -1:], (crossed * depth).sum(1, keepdim=True)], 1)
