"""Rendered images with the cameras that made them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.types.camera import Camera

__all__ = ["DEPTHS", "SHADINGS", "Frames", "RenderSettings", "to_uint8"]

SHADINGS = ("auto", "unlit", "normal")
"""What ``RenderSettings.shading`` may be."""
DEPTHS = ("median", "expected", "plane")
"""What ``RenderSettings.depth`` may be."""


@dataclass(frozen=True)
class RenderSettings:
    """What every backend is asked to do alike.

    Attributes
    ----------
    supersample : colour samples per pixel side, for backends that sample points (2 means 2x2).
    background : linear blend target behind what is not covered, RGB in [0,1].
    shading : ``auto`` lights meshes that bring lights, shows textures and vertex colours of others unlit and shades
        assets that have neither by their world-space normal; ``unlit`` and ``normal`` force one.
    near : nearest depth that is drawn, metres.
    depth : of splats. ``median``: of the centre of the splat at which half of the light is gone; what geometry
        needs. ``plane``: where the ray meets that splat's plane. ``expected``: mean of the centres, weighted by what
        each adds to alpha; only to compare with other renderers. Meshes have one depth and ignore it.
    cull : leave out faces of single-sided materials that are seen from behind, as viewers of glTF do.

    Raises
    ------
    ValueError : ``supersample`` below 1, or an unknown word.
    """

    supersample: int = 2
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    shading: str = "auto"
    near: float = 0.0
    depth: str = "median"
    cull: bool = False

    def __post_init__(self) -> None:
        if self.supersample < 1:
            raise ValueError(f"supersample must be at least 1, got {self.supersample}")
        for name, word, known in (("shading", self.shading, SHADINGS), ("depth", self.depth, DEPTHS)):
            if word not in known:
                raise ValueError(f"{name} is one of {', '.join(known)}, not {word!r}")


@dataclass(frozen=True, eq=False)
class Frames:
    """T images of one size.

    Attributes
    ----------
    cameras : the T cameras.
    rgb : [T,H,W,3] float32 in [0,1], sRGB-encoded, composited over the background; None if not asked for.
    depth : [T,H,W] float32, metres along the camera axis, 0 where there is nothing; or None.
    alpha : [T,H,W] float32, opacity before any background; or None.
    backend : name and version of what drew them.
    warnings : what went otherwise than asked, e.g. another backend that failed first.
    """

    cameras: tuple[Camera, ...]
    rgb: NDArray[np.float32] | None = None
    depth: NDArray[np.float32] | None = None
    alpha: NDArray[np.float32] | None = None
    backend: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        t = len(self.cameras)
        size = {(c.height, c.width) for c in self.cameras}
        if len(size) > 1:
            raise ValueError("all cameras of one Frames must have the same image size")
        shape = (t, *next(iter(size))) if size else (0, 0, 0)
        for name, array in (("rgb", self.rgb), ("depth", self.depth), ("alpha", self.alpha)):
            if array is None:
                continue
            want = (*shape, 3) if name == "rgb" else shape
            if t and array.shape != want:
                raise ValueError(f"{name} has shape {array.shape}, cameras ask for {want}")
            if array.dtype != np.float32:
                raise ValueError(f"{name} must be float32, got {array.dtype}")

    def __len__(self) -> int:
        return len(self.cameras)


def to_uint8(rgb: NDArray[np.float32]) -> NDArray[np.uint8]:
    """8-bit sRGB of an image in [0,1], rounded half up."""
    return (np.clip(rgb, 0.0, 1.0) * np.float32(255.0) + np.float32(0.5)).astype(np.uint8)
