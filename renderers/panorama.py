"""Equirectangular panoramas: six cube faces with a rim, resampled into one picture without seams.

Column i looks at the yaw ``360 (i + 0.5) / width - 180`` degrees (the middle of the picture is forward, +Y, and yaw
grows to the right), row j at the pitch ``90 - 180 (j + 0.5) / height`` degrees.

Filter: each pixel is the mean of ``samples`` x ``samples`` points on a regular grid of its yaws and pitches, in encoded
values; each point is interpolated bilinearly on the face that it lies on. Faces are drawn wider than 90 degrees
(``PANORAMA_RIM``), and where two or three overlap, one is faded into the other: splats look a little different from
face to face, as each camera flattens them in its own way. Depth is the distance from the centre, of the face's pixel
that the middle of the panorama's pixel falls into: distances must not be mixed across an edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.renderers._threads import in_chunks, thread_count
from spatialbench.renderers._version import PANORAMAS
from spatialbench.renderers.trajectories import CUBE_FACES, cube_faces
from spatialbench.types import Camera, Frames

__all__ = ["PANORAMAS", "PANORAMA_RIM", "Panorama", "face_size", "panorama", "panorama_cameras", "panorama_directions"]

PANORAMA_RIM = 1.125
"""Where faces end, in tangents of the angle from their axis; their borders are at 1."""
_ROWS = 64
"""Rows that one thread works on at a time."""
Draw = Callable[[Sequence[Camera], Sequence[str]], Frames]


@dataclass(frozen=True, eq=False)
class Panorama:
    """Pictures of all directions.

    Attributes
    ----------
    rgb : [H,W,3] float32 in [0,1], as ``Frames.rgb``; None if not asked for.
    depth : [H,W] float32 distance from the centre, 0 where there is nothing; or None.
    alpha : [H,W] float32; or None.
    backend : what drew the faces.
    warnings : of the renderer.
    """

    rgb: NDArray[np.float32] | None
    depth: NDArray[np.float32] | None
    alpha: NDArray[np.float32] | None
    backend: str = ""
    warnings: tuple[str, ...] = ()


def face_size(width: int) -> int:
    """Pixels of 90 degrees of a face, rim apart, that are nowhere coarser than a panorama of ``width`` pixels.

    A face is coarsest in its middle, where a pixel is ``2 / size`` radians; the panorama's is ``2 pi / width``.
    """
    return max(1, math.ceil(width / math.pi))


def panorama_cameras(position: ArrayLike, width: int) -> list[Camera]:
    """The six faces with their rim, in the order of ``CUBE_FACES``, for a panorama of ``width`` pixels."""
    size = face_size(width)
    full = size + 2 * (math.ceil((PANORAMA_RIM - 1) * size / 2) + 1)  # a pixel more, to interpolate
    return [Camera(c.pose, size / 2, size / 2, full / 2, full / 2, full, full) for c in cube_faces(position, size)]


def panorama_directions(width: int, height: int) -> NDArray[np.float64]:
    """Unit directions [H,W,3] of the pixels' middles."""
    yaw, pitch = _grid(width, height, 1)
    return np.stack([pitch[:, 1:] * yaw[:, 0], pitch[:, 1:] * yaw[:, 1],
                     np.broadcast_to(pitch[:, :1], (height, width))], axis=-1)


def panorama(draw: Draw, position: ArrayLike, width: int, height: int | None = None,
             want: Sequence[str] = ("rgb",), samples: int = 2,
             progress: Callable[[int, int], None] | None = None) -> Panorama:
    """Draw the faces around a place [3], one at a time, and assemble the picture.

    Parameters
    ----------
    draw : ``Renderer.render``.
    width, height : pixels; height None for half the width, which is a full sphere of square pixels.
    want : as for ``draw``.
    samples : points per side of a pixel.
    progress : is told how many faces are done, of six.

    Raises
    ------
    ValueError : a width, height or number of samples below 1.
    """
    from spatialbench.renderers._panorama_kernels import distance_of, spread

    rows = max(1, width // 2) if height is None else height
    if width < 1 or rows < 1 or samples < 1:
        raise ValueError(f"a panorama of {width}x{rows} pixels and {samples} samples is none")
    out = {name: np.zeros((rows, width, *((3,) if name == "rgb" else ())), np.float32) for name in want}
    backend, warnings = "", tuple[str, ...]()
    points, middles = _grid(width, rows, samples), _grid(width, rows, 1)
    for k, camera in enumerate(panorama_cameras(position, width)):
        frames = draw([camera], tuple(want))
        backend, warnings = frames.backend, frames.warnings
        if progress is not None:
            progress(k, len(CUBE_FACES))
        lens = (np.ascontiguousarray(camera.pose.rotation), camera.fx, camera.cx)
        for name, picture in out.items():
            image = np.ascontiguousarray(getattr(frames, name)[0])
            if name == "depth":
                _in_rows(distance_of, rows, image, k, *lens, *middles, picture)
            elif name == "rgb":
                _in_rows(spread, rows, image, *lens, *points, samples, PANORAMA_RIM, picture)
            else:
                _in_rows(spread, rows, image[..., None], *lens, *points, samples, PANORAMA_RIM, picture[..., None])
    if progress is not None:
        progress(len(CUBE_FACES), len(CUBE_FACES))
    return Panorama(out.get("rgb"), out.get("depth"), out.get("alpha"), backend, warnings)


def _angles(count: int, samples: int, first: float, span: float) -> NDArray[np.float64]:
    """Sine and cosine [count * samples, 2] of angles on a regular grid."""
    a = first + span * (np.arange(count * samples) + 0.5) / (count * samples)
    return np.stack([np.sin(a), np.cos(a)], axis=1)


def _grid(width: int, height: int, samples: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return _angles(width, samples, -np.pi, 2 * np.pi), _angles(height, samples, np.pi / 2, -np.pi)


def _in_rows(kernel: Callable[..., None], rows: int, *arguments: Any) -> None:
    in_chunks(lambda first, last: kernel(first, last, *arguments), rows, _ROWS, thread_count())
