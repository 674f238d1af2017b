"""Splats by the formulas, in float64, every splat at every pixel: slow, and shares no code with the renderer."""

from __future__ import annotations

import math
import warnings

import numpy as np
from scipy.spatial.transform import Rotation
from scipy.special import assoc_legendre_p_all

from spatialbench.types import Camera, GaussianSplats, Pose


def harmonics(directions, degree):
    """Real spherical harmonics [n,(degree+1)^2] from the associated Legendre functions (which carry (-1)^m).

    Splats use m = -l to l in each band, m < 0 with sin; their signs are those of (-1)^m kept.
    """
    x, y, z = directions.T
    phi = np.arctan2(y, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = assoc_legendre_p_all(degree, degree, z)[0]
    out = []
    for band in range(degree + 1):
        for m in range(-band, band + 1):
            k = abs(m)
            norm = math.sqrt((2 * band + 1) / (4 * math.pi) * math.factorial(band - k) / math.factorial(band + k))
            angle = 1.0 if m == 0 else math.sqrt(2) * (np.cos(k * phi) if m > 0 else np.sin(k * phi))
            out.append(norm * p[band, k] * angle)
    return np.stack(np.broadcast_arrays(*out), 1)


def covariances(splats: GaussianSplats):
    r = Rotation.from_quat(splats.quaternions.astype(np.float64)[:, [1, 2, 3, 0]]).as_matrix()
    a = r * splats.scales.astype(np.float64)[:, None]
    return a @ a.transpose(0, 2, 1)


def reference(splats: GaussianSplats, camera: Camera, near=0.01, background=(0.0, 0.0, 0.0)):
    """rgb [H,W,3], alpha, median depth, expected depth [H,W]."""
    f = np.float64
    w, h = camera.width, camera.height
    world_to_camera = camera.pose.rotation.T
    away = splats.means.astype(f) + splats.offset - camera.pose.position
    x, y, z = (away @ world_to_camera.T).T
    order = np.lexsort((np.arange(len(z)), z.astype(np.float32)))
    order = order[z[order] >= near]
    px, py = np.meshgrid(np.arange(w) + 0.5, np.arange(h) + 0.5)
    light, done = np.ones((h, w)), np.zeros((h, w), bool)
    rgb, median, mean = np.zeros((h, w, 3)), np.zeros((h, w)), np.zeros((h, w))
    degree = min(splats.sh_degree, 3)
    unit = away / np.linalg.norm(away, axis=1, keepdims=True)
    colour = np.maximum(0, 0.5 + np.einsum("nk,nkc->nc", harmonics(unit, degree), splats.sh[:, :(degree + 1) ** 2]))
    covariance = covariances(splats)
    for i in order:
        # Half the field of view's tangent is w / 2 fx; the clamp is 0.3 of it beyond the image's sides.
        tx = min(max(x[i] / z[i], -camera.cx / camera.fx - 0.3 * w / 2 / camera.fx),
                 (w - camera.cx) / camera.fx + 0.3 * w / 2 / camera.fx) * z[i]
        ty = min(max(y[i] / z[i], -camera.cy / camera.fy - 0.3 * h / 2 / camera.fy),
                 (h - camera.cy) / camera.fy + 0.3 * h / 2 / camera.fy) * z[i]
        jacobian = np.array([[camera.fx / z[i], 0, -camera.fx * tx / z[i] ** 2],
                             [0, camera.fy / z[i], -camera.fy * ty / z[i] ** 2]])
        m = jacobian @ world_to_camera
        small = m @ covariance[i] @ m.T
        c = small + 0.3 * np.eye(2)
        opacity = float(splats.opacities[i])
        if splats.antialiased:
            opacity *= math.sqrt(max(0.0, np.linalg.det(small) / np.linalg.det(c)))
        q = np.linalg.inv(c)
        dx, dy = px - (camera.fx * x[i] / z[i] + camera.cx), py - (camera.fy * y[i] / z[i] + camera.cy)
        alpha = np.minimum(0.999, opacity * np.exp(-0.5 * (q[0, 0] * dx * dx + 2 * q[0, 1] * dx * dy
                                                           + q[1, 1] * dy * dy)))
        alpha[alpha < 1 / 255] = 0
        rest = light * (1 - alpha)
        done |= rest <= 1e-4
        part = np.where(done, 0, light * alpha)
        median[(light > 0.5) & (rest <= 0.5) & ~done] = z[i]
        rgb += part[..., None] * colour[i]
        mean += part * z[i]
        light = np.where(done, light, rest)
    alpha = 1 - light
    rgb += light[..., None] * np.array(background)
    return np.minimum(rgb, 1), alpha, median, np.divide(mean, alpha, out=mean * 0, where=alpha > 0)


def make(means, scales=0.05, opacities=0.6, rgb=(1.0, 0.0, 0.0), quaternions=(1.0, 0.0, 0.0, 0.0), **more):
    """Splats of degree 0 from plain values, broadcast."""
    means = np.atleast_2d(np.asarray(means, np.float32))
    n = len(means)

    def full(a, *shape):
        return np.ascontiguousarray(np.broadcast_to(np.asarray(a, np.float32), (n, *shape)))

    sh = (full(rgb, 3) - np.float32(0.5)) * np.float32(2 * math.sqrt(math.pi))
    return GaussianSplats(means, full(scales, 3) if np.ndim(scales) else full(np.full(3, scales), 3),
                          full(quaternions, 4), full(opacities), sh[:, None], **more)


def random_splats(n, seed=0, degree=3, low=(-2, -2, 0.3), high=(2, 2, 5), sigma=0.08, **more):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(n, 4))
    f = np.float32
    return GaussianSplats(rng.uniform(low, high, (n, 3)).astype(f),
                          (sigma * np.exp(rng.normal(0, 0.8, (n, 3)))).astype(f),
                          (q / np.linalg.norm(q, axis=1, keepdims=True)).astype(f),
                          rng.uniform(0.02, 1, n).astype(f),
                          rng.normal(0, 0.35, (n, (degree + 1) ** 2, 3)).astype(f), **more)


def facing(width=65, height=None, f=64.0, fy=None, position=(0, 0, 0), rotation=None):
    """A camera along +Z, y down, its principal point in the middle."""
    height = width if height is None else height
    m = np.eye(4)
    m[:3, :3] = np.eye(3) if rotation is None else rotation
    m[:3, 3] = position
    return Camera(Pose(m), f, f if fy is None else fy, width / 2, height / 2, width, height)
