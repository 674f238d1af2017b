"""Words, axes and signs over the pictures of a contact sheet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.report.map import nice_length
from spatialbench.types import Camera

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

__all__ = ["mark_plan", "mark_view", "project"]

Pixel = tuple[float, float]
_INK, _PAPER = (25, 28, 34), (255, 255, 255)
_AXES = {"X": (190, 50, 40), "Y": (40, 120, 60), "Z": (40, 80, 190)}
_CAMERA, _RAY = (150, 30, 150), (235, 140, 20)
_TEXT = 14
_TICK = 6


def project(camera: Camera, points: ArrayLike) -> NDArray[np.float64]:
    """[N,2] pixels (x right, y down) of points [N,3] in front of a camera."""
    x, y, z = ((np.atleast_2d(np.asarray(points, dtype=np.float64)) - camera.pose.position) @ camera.pose.rotation).T
    return np.stack([camera.cx + camera.fx * x / z, camera.cy + camera.fy * y / z], axis=1)


def mark_view(pixels: NDArray[np.uint8], camera: Camera, name: str) -> NDArray[np.uint8]:
    """A view with its name and the directions of the three axes.

    Parameters
    ----------
    pixels : [H,W,3].
    camera : that it was seen from, in the axes that are drawn.
    """
    image, draw = _canvas(pixels)
    _words(draw, (8, 6), name)
    start = (40.0, camera.height - 40.0)
    for k, (axis, color) in enumerate(_AXES.items()):
        right, down, _ = np.eye(3)[k] @ camera.pose.rotation
        end = (start[0] + 26 * float(right), start[1] + 26 * float(down))
        draw.line([start, end], fill=color, width=3)
        _words(draw, (start[0] + 36 * float(right), start[1] + 36 * float(down)), axis, color, "mm")
    return np.asarray(image)


def mark_plan(pixels: NDArray[np.uint8], camera: Camera, name: str, unit: str, with_camera: bool,
              rays: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The plan with scales along its edges, the initial camera at the origin, its direction (+Y) and the rays' ends.

    Parameters
    ----------
    pixels : [S,S,3], +Y up.
    camera : that it was seen from.
    rays : [K,3] world frame.
    """
    image, draw = _canvas(pixels)
    ground = float(rays[:, 2].mean()) if len(rays) else 0.0
    _scales(draw, camera, unit, ground)
    said = [name]
    if with_camera:
        (x, y), = project(camera, (0.0, 0.0, 0.0)).tolist()
        draw.line([(x, y), (x, y - 46)], fill=_CAMERA, width=4)
        draw.polygon([(x, y - 62), (x - 9, y - 42), (x + 9, y - 42)], fill=_CAMERA, outline=_PAPER)
        draw.ellipse([x - 8, y - 8, x + 8, y + 8], fill=_CAMERA, outline=_PAPER, width=2)
        said.append("purple: initial camera, looking along Y")
        said.append(f"orange: where {len(rays)} of nine rays down end" if len(rays) else "no ray down meets anything")
    for x, y in project(camera, rays) if len(rays) else ():
        draw.ellipse([x - 3, y - 3, x + 3, y + 3], fill=_RAY, outline=_INK)
    for k, line in enumerate(said):
        _words(draw, (64, 6 + k * (_TEXT + 8)), line)
    return np.asarray(image)


def _scales(draw: ImageDraw, camera: Camera, unit: str, ground: float) -> None:
    """Ticks with coordinates along the left and the lower edge, at the height ``ground``."""
    size = camera.width
    corner, far = (_unproject(camera, p, ground) for p in ((0.0, float(size)), (float(size), 0.0)))
    step = nice_length(max(far[0] - corner[0], 1e-30) / 4)
    for k, axis in enumerate("XY"):
        for i in range(math.ceil(corner[k] / step), math.floor(far[k] / step) + 1):
            at = [corner[0], corner[1], ground]
            at[k] = i * step
            (x, y), = project(camera, at).tolist()
            tick: list[Pixel] = [(x, size), (x, size - _TICK)] if k == 0 else [(0, y), (_TICK, y)]
            draw.line(tick, fill=_INK, width=2)
            if 40 < (x if k == 0 else y) < size - 70:
                _words(draw, (x, size - _TICK - 3) if k == 0 else (_TICK + 4, y), f"{i * step:g}", _INK,
                       "mb" if k == 0 else "lm")
        name = f"{axis} {'right' if k == 0 else 'forward'}, {unit}"
        _words(draw, (size - 8, size - _TICK - 22) if k == 0 else (_TICK + 4, size - 56), name, _AXES[axis],
               "rb" if k == 0 else "lb")


def _unproject(camera: Camera, pixel: Pixel, height: float) -> Pixel:
    """Plan coordinates at ``height`` of a pixel of a camera that looks straight down, its image's top towards +Y."""
    x, y, z = camera.pose.position.tolist()
    return (x + (pixel[0] - camera.cx) / camera.fx * (z - height),
            y - (pixel[1] - camera.cy) / camera.fy * (z - height))


def _canvas(pixels: NDArray[np.uint8]) -> tuple[Image, ImageDraw]:
    from PIL import Image as images
    from PIL import ImageDraw as drawing

    image = images.fromarray(np.ascontiguousarray(pixels))
    return image, drawing.Draw(image)


def _words(draw: ImageDraw, at: Pixel, text: str, color: tuple[int, int, int] = _INK, anchor: str = "la") -> None:
    from PIL import ImageFont

    draw.text(at, text, fill=color, font=ImageFont.load_default(_TEXT), anchor=anchor, stroke_width=3,
              stroke_fill=_PAPER)
