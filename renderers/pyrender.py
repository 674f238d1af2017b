"""A renderer of meshes by pyrender, as a second opinion: opt-in, and less exact than the others by its own nature.

- Surfaces must be opaque: pyrender draws no holes of masks, and sorts blended surfaces by object. Others are refused.
- Colours are 8 bits. pyrender multiplies and filters encoded values: a texture is multiplied by its material's factor
  beforehand, and so exact; vertex colours are exact at the corners and mixed as encoded values between them, and
  where they meet a texture their product is only near.
- Alpha is where there is depth (pyrender drops its own alpha on OSMesa).
- Depth comes from a 24-bit buffer: off by ``z^2 / near / 2^24``, ``near`` being a 512th of the mesh's radius unless
  the settings say more; what is nearer is cut away. It is drawn by a pass of its own, as pyrender's ``SEG``: in
  others, on EGL, a pixel's depth is that of one of several samples, not of its centre, and on slanted surfaces off by
  centimetres.

``PYOPENGL_PLATFORM`` chooses between ``egl`` and ``osmesa``; it is read once in a process, and set to ``egl`` when it
is not set. OSMesa needs a newer PyOpenGL than pyrender 0.1.45 asks for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import cache
from importlib import import_module, metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.renderers._gpu import library_errors, one_line
from spatialbench.renderers._pack import BY_LIGHTS, BY_NORMAL, pack_mesh, srgb_decode, srgb_encode
from spatialbench.renderers._version import MESH_IMAGES
from spatialbench.types import Camera, Material, RenderSettings, TriangleMesh

__all__ = ["PyrenderBackend", "pyrender_version"]

_PLATFORM = "PYOPENGL_PLATFORM"
_NEAR = 2.0**-9
"""Near plane unless the settings say more, relative to the mesh's radius."""
_LIGHT = np.array([0.3, 0.4, 0.87]) / np.linalg.norm([0.3, 0.4, 0.87])
_LOCK = threading.RLock()

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


class PyrenderBackend:
    """Draws one mesh; what the images mean, and how far they can be trusted, is said at the top of this module.

    Raises
    ------
    BackendUnavailableError : a mesh that pyrender cannot draw rightly (masks, blending, lights); later, from drawing:
        whatever pyrender or its platform fails with.
    """

    def __init__(self, mesh: TriangleMesh, settings: RenderSettings) -> None:
        packed = pack_mesh(mesh, settings)  # checks it
        used = {int(m) for m in np.unique(mesh.material_ids)}
        for m in (mesh.materials[k] for k in sorted(used)):
            if m.alpha_mode != "opaque":
                raise BackendUnavailableError(f"pyrender draws opaque surfaces only, material '{m.name}' is "
                                              f"{m.alpha_mode}", todo="Use embree")
        if packed.lit[0] == BY_LIGHTS:
            raise BackendUnavailableError("pyrender does not draw a mesh's lights as the others do",
                                          todo="Use embree")
        self._mesh, self._settings = mesh, settings
        self._by_normal = bool(packed.lit[0] == BY_NORMAL)
        self._normals = packed.normals
        corners = mesh.triangles
        self._center = (corners.min(axis=(0, 1)) + corners.max(axis=(0, 1))) / 2 if len(corners) else np.zeros(3)
        self._corners = corners - self._center
        self._radius = float(np.linalg.norm(self._corners.reshape(-1, 3), axis=1).max(initial=0.0))
        with library_errors("pyrender"):
            self._parts = [(np.flatnonzero(mesh.material_ids == k), *self._look(mesh.materials[k]))
                           for k in sorted(used)]

    def __call__(self, cameras: Sequence[Camera], want: Sequence[str]) -> tuple[
            F32 | None, F32 | None, F32 | None]:
        """Images of cameras of one size."""
        t, h, w, ss = len(cameras), cameras[0].height, cameras[0].width, self._settings.supersample
        rgb = np.empty((t, h, w, 3), np.float32) if "rgb" in want else None
        depth = np.empty((t, h, w), np.float32) if {"depth", "alpha"} & set(want) else None
        with library_errors("pyrender"), _LOCK:
            for k, c in enumerate(cameras):
                if rgb is not None:
                    image = _draw(*self._scene(c, ss, False), w * ss, h * ss)[0].reshape(h, ss, w, ss, 3)
                    rgb[k] = image.mean(axis=(1, 3), dtype=np.float64) / 255
            for k, c in enumerate(cameras):
                if depth is not None:
                    depth[k] = _draw(*self._scene(c, 1, True), w, h)[1]
        return rgb, depth if "depth" in want else None, \
            (depth > 0).astype(np.float32) if depth is not None and "alpha" in want else None

    def _look(self, m: Material) -> tuple[Any, F64 | None]:
        """pyrender's material of one of ours, and the factor [4] that colours of corners are still to be given."""
        pyrender = import_module("pyrender")
        culled = self._settings.cull and not m.double_sided
        if m.texture is None or self._mesh.uv is None:
            return pyrender.MetallicRoughnessMaterial(baseColorFactor=(1.0, 1.0, 1.0, 1.0), doubleSided=not culled), \
                np.array(m.base_color, np.float64)
        linear = srgb_decode(m.texture[..., :3] / 255.0) * np.array(m.base_color[:3]) + np.array(m.emissive)
        texels = np.full(m.texture.shape, 255, np.uint8)
        texels[..., :3] = np.floor(srgb_encode(np.clip(linear, 0, 1)) * 255 + 0.5)
        kind = 9728 if m.filter == "nearest" else 9729  # GL_NEAREST, GL_LINEAR
        wraps = {"repeat": 10497, "mirror": 33648, "clamp": 33071}
        sampler = pyrender.Sampler(magFilter=kind, minFilter=kind, wrapS=wraps[m.wrap[0]], wrapT=wraps[m.wrap[1]])
        texture = pyrender.Texture(sampler=sampler, source=texels, source_channels="RGBA")
        return pyrender.MetallicRoughnessMaterial(baseColorTexture=texture, doubleSided=not culled), None

    def _scene(self, camera: Camera, ss: int, of_depth: bool) -> tuple[Any, Any]:
        """pyrender's scene for a camera; and colours of nodes, for a pass of depth alone."""
        pyrender = import_module("pyrender")
        origin = camera.pose.position - self._center
        scene = pyrender.Scene(bg_color=[*self._settings.background, 0.0])
        nodes = []
        for faces, material, factor in self._parts:
            corners = self._corners[faces]
            if of_depth and not material.doubleSided:
                nodes.append(scene.add(pyrender.Mesh([_bare(corners)])))
            elif of_depth:  # passes of depth leave out what is seen from behind
                nodes.append(scene.add(pyrender.Mesh([_bare(np.concatenate([corners, corners[:, ::-1]]))])))
            else:
                scene.add(pyrender.Mesh([self._primitive(faces, material, factor, origin)]))
        pose = np.eye(4)
        pose[:3, :3] = camera.pose.rotation @ np.diag([1.0, -1.0, -1.0])
        pose[:3, 3] = origin
        near = max(self._settings.near, _NEAR * max(self._radius, 1e-6))
        far = max(float(np.linalg.norm(origin)) + self._radius, near) * 1.01
        scene.add(pyrender.IntrinsicsCamera(camera.fx * ss, camera.fy * ss, camera.cx * ss, camera.cy * ss,
                                            znear=near, zfar=far), pose=pose)
        return scene, dict.fromkeys(nodes, (255, 255, 255)) if of_depth else None

    def _primitive(self, faces: NDArray[np.int64], material: Any, factor: F64 | None, origin: F64) -> Any:
        pyrender = import_module("pyrender")
        mesh = self._mesh
        colours = np.ones((len(faces), 3, 4))
        if mesh.colors is not None:
            colours *= mesh.colors[faces]
        if factor is not None:
            colours *= factor
        if self._by_normal:
            n = self._normals[faces].astype(np.float64)
            gap = np.einsum("ij,ij->i", n, origin - self._corners[faces, 0])
            colours[..., :3] *= (0.625 + 0.375 * np.where(gap >= 0, 1.0, -1.0) * (n @ _LIGHT))[:, None, None]
        if factor is not None:
            emissive = np.array([m.emissive for m in mesh.materials])[mesh.material_ids[faces]]
            colours[..., :3] += emissive[:, None]
        colours[..., :3] = srgb_encode(np.clip(colours[..., :3], 0, 1))
        colours[..., 3] = 1.0
        uv = None if factor is not None or mesh.uv is None else \
            (mesh.uv[faces].reshape(-1, 2) * [1, -1] + [0, 1]).astype(np.float32)
        return pyrender.Primitive(positions=self._corners[faces].reshape(-1, 3).astype(np.float32), texcoord_0=uv,
                                  color_0=colours.reshape(-1, 4).astype(np.float32), material=material)


def _bare(corners: F64) -> Any:
    pyrender = import_module("pyrender")
    return pyrender.Primitive(positions=corners.reshape(-1, 3).astype(np.float32))


def _draw(scene: Any, nodes: Any, width: int, height: int) -> tuple[NDArray[np.uint8], F32]:
    """[H,W,3] and depth [H,W], 0 for none, of what ``_scene`` gives."""
    pyrender = import_module("pyrender")
    target = _target()
    target.viewport_width, target.viewport_height = width, height
    return target.render(scene, pyrender.RenderFlags.FLAT if nodes is None else pyrender.RenderFlags.SEG, nodes)


@cache
def _target() -> Any:
    """The one target of this process; never deleted, as pyrender would end everybody's EGL display with it."""
    pyrender = import_module("pyrender")
    return pyrender.OffscreenRenderer(4, 4)


@cache
def pyrender_version() -> tuple[str, str]:
    """Version and an empty string, or an empty string and the reason. Draws one pixel, once."""
    try:
        version = metadata.version("pyrender")
    except metadata.PackageNotFoundError:
        return "", "Run 'pip install \"spatialbench[pyrender]\"'"
    platform = os.environ.setdefault(_PLATFORM, "egl")
    try:
        pyrender = import_module("pyrender")
        with _LOCK:
            _draw(pyrender.Scene(nodes=[pyrender.Node(camera=pyrender.PerspectiveCamera(1.0))]), None, 4, 4)
    except Exception as e:  # anything may be wrong with a driver, or between pyrender, PyOpenGL and numpy
        return "", f"pyrender cannot draw on {platform} ({one_line(e)}); on Debian: apt install libegl1 libgl1-mesa-dri"
    return f"{MESH_IMAGES} (pyrender {version}, {platform})", ""
