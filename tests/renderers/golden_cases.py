"""The one list of golden images, of the sample worlds and of soups made in code, by every renderer that draws them.

Each case is an 8-bit PNG of colours beside a 16-bit PNG of depth in millimetres (0 for none, 65535 for more), both of
64 x 48 pixels, as one image file each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from spatialbench.renderers import open_renderer
from spatialbench.scene.load import load_scene
from spatialbench.types import Camera, Light, RenderSettings, Scene, level_pose, to_uint8

from .splat_reference import facing, random_splats
from .test_render import soup

FOLDER = Path(__file__).parent / "golden"
W, H = 64, 48
TO_GLTF = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
TO_SPLATS = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])


@dataclass(frozen=True)
class GoldenCase:
    """A name, what is drawn from where, and the renderers that must give this image."""

    name: str
    geometry: Callable[[], Any]
    camera: Callable[[], Camera]
    settings: RenderSettings
    renderers: tuple[str, ...]


@cache
def asset(name: str) -> Scene:
    return load_scene(Path(str(resources.files("spatialbench.assets"))) / name)


def in_file(matrix: np.ndarray, height: float) -> Camera:
    """A camera over the origin of a sample room, in the frame of its file."""
    c = Camera.from_fov(level_pose([0, 0, height], 20.0, -10.0), 75.0, W, H)
    return replace(c, pose=type(c.pose)(matrix @ c.pose.matrix))


def inside() -> Camera:
    return Camera(level_pose([0.1, 0.2, 0.3], 30.0), 40.0, 33.0, 29.0, 26.0, W, H)


def lit_soup() -> Any:
    mesh = soup(8)
    opaque = replace(mesh, material_ids=np.minimum(mesh.material_ids, 1).astype(np.int32))
    return replace(opaque, lights=(Light("point", (1.0, 0.8, 0.6), 5.0, (0.5, 0.5, 1.5)),
                                   Light("directional", intensity=1.0, direction=(0.0, 0.6, -0.8))))


MESHES = ("embree", "raster", "gl")
CASES = (
    GoldenCase("room_mesh", lambda: asset("sample_room.glb").mesh, lambda: in_file(TO_GLTF, 1.6),
               RenderSettings(), MESHES),
    GoldenCase("room_splats", lambda: asset("sample_room_splats.ply").splats, lambda: in_file(TO_SPLATS, 0.0),
               RenderSettings(), ("splat-cpu", "gsplat")),
    GoldenCase("soup", lambda: soup(7), inside, RenderSettings(background=(0.2, 0.3, 0.4)), MESHES),
    GoldenCase("soup_culled", lambda: soup(7), inside, RenderSettings(cull=True), MESHES),
    GoldenCase("soup_lit", lit_soup, inside, RenderSettings(), MESHES),
    GoldenCase("splats_plane", lambda: random_splats(300, 21, 3), lambda: facing(W, H, 50.0, 40.0),
               RenderSettings(background=(1.0, 1.0, 1.0), depth="plane"), ("splat-cpu",)),
    GoldenCase("splats_antialiased", lambda: random_splats(300, 22, 2, sigma=0.02, antialiased=True),
               lambda: facing(W, H, 50.0), RenderSettings(depth="expected"), ("splat-cpu", "gsplat")),
)

RECORDED = {"mesh": (2, "345fb1dc7904aae6"), "splats": (1, "0220b3b1c5ca79d6")}
"""The renderers' versions (``_version``) and digests of the images that they gave: both change, or neither."""


def draw(case: GoldenCase, renderer: str) -> tuple[np.ndarray, np.ndarray]:
    """Colours [H,W,3] uint8 and depth [H,W] uint16, millimetres."""
    frames = open_renderer(case.geometry(), case.settings, renderer).render([case.camera()])
    millimetres = np.floor(np.minimum(frames.depth[0].astype(np.float64) * 1000, 65535) + 0.5)
    return to_uint8(frames.rgb[0]), millimetres.astype(np.uint16)


def paths(case: GoldenCase) -> tuple[Path, Path]:
    return FOLDER / f"{case.name}.png", FOLDER / f"{case.name}_depth.png"
