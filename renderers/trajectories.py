"""Where the cameras stand: rings, cube faces, downward rays, timed action paths, sampler locations.

Everything is in a Z-up frame: X right, Y forward; yaw and bearing 0 look along +Y and grow clockwise
seen from above (OPEN-6a, OPEN-15).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import CorruptInputError, MissingInputError
from spatialbench.types import Camera, Pose, level_pose

__all__ = ["CUBE_FACES", "WORLD_FRAME", "TimedPath", "action_path", "bearings", "cube_faces", "down_rays",
           "load_cameras", "location_plan", "ring", "save_cameras"]

WORLD_FRAME = "world: X right, Y forward, Z up, metres"
"""Default frame that a camera file states."""

CUBE_FACES = ("front", "right", "back", "left", "up", "down")
"""Order of ``cube_faces``: +Y, +X, -Y, -X, +Z, -Z."""

_KEYS = {"W": (0, 1), "S": (0, -1), "A": (-1, 0), "D": (1, 0)}
_AXES = "camera to world; camera axes x right, y down, z forward"


@dataclass(frozen=True, eq=False)
class TimedPath:
    """A camera's timed walk with fixed heading and free motion (spec 2.2, equations 28 and 29).

    Attributes
    ----------
    times : [T] float64 seconds, first 0.
    positions : [T,3] float64, relative to the start; places visited twice are equal to the last bit.
    keys : T-1 strings, the keys held from each sample on.
    """

    times: NDArray[np.float64]
    positions: NDArray[np.float64]
    keys: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.times)


def ring(position: ArrayLike, frames: int, width: int, height: int | None = None, fov_deg: float = 75.0,
         yaw0: float = 0.0) -> list[Camera]:
    """A level turn on the spot, clockwise, without a repeated end frame (OPEN-6a, OPEN-16).

    Parameters
    ----------
    position : [3] camera centre.
    frames : number of cameras, ``360 / frames`` degrees apart.
    width, height : pixels; height None for a square image.
    fov_deg : field of view across the width.
    yaw0 : yaw of the first camera, degrees.
    """
    return [Camera.from_fov(level_pose(position, yaw0 + 360.0 * k / frames), fov_deg, width, height)
            for k in range(frames)]


def cube_faces(position: ArrayLike, size: int) -> list[Camera]:
    """Six square 90-degree cameras that see everything, in the order of ``CUBE_FACES`` (M11, M12)."""
    angles = ((0, 0), (90, 0), (180, 0), (270, 0), (0, 90), (0, -90))
    return [Camera.from_fov(level_pose(position, yaw, pitch), 90.0, size) for yaw, pitch in angles]


def down_rays(tilt: float = 0.1) -> NDArray[np.float64]:
    """Unit directions [9,3] around straight down (OPEN-1a).

    Tangents -tilt, 0, tilt along X (slow) and Y (fast), so that row 4 is straight down. A hit's vertical
    distance is its distance times ``-z`` of its row.
    """
    t = np.array([-tilt, 0.0, tilt])
    x, y = np.meshgrid(t, t, indexing="ij")
    d = np.stack([x.ravel(), y.ravel(), np.full(9, -1.0)], axis=1)
    return np.asarray(d / np.linalg.norm(d, axis=1, keepdims=True))


def bearings(n: int = 8) -> NDArray[np.float64]:
    """Unit directions [n,2] in the plan: (sin, cos) of ``360 k / n`` degrees, exact along the axes (OPEN-15)."""
    return np.stack([level_pose(np.zeros(3), 360.0 * k / n).forward[:2] for k in range(n)]) + 0.0


def location_plan(distance: float, radius_factors: Sequence[float], n_bearings: int = 8
                  ) -> Iterator[list[tuple[int, NDArray[np.float64]]]]:
    """Candidates of the eight-location sampler (spec section 8), one list for each radius j.

    Yields
    ------
    (bearing index, position [3] relative to the origin, at its height), in the order j, j + n/2, then the
    others ascending.
    """
    directions = bearings(n_bearings)
    for j, factor in enumerate(radius_factors):
        first = [j % n_bearings, (j + n_bearings // 2) % n_bearings]
        order = list(dict.fromkeys([*first, *range(n_bearings)]))
        yield [(b, np.array([*(distance * factor * directions[b]), 0.0])) for b in order]


def action_path(segments: Iterable[tuple[str, float]], speed: float, samples_per_second: float) -> TimedPath:
    """Samples of a walk by held keys, ``t = 0`` included (OPEN-12a, b, d).

    Displacements are summed as exact fractions of the decimal numbers given and rounded once, which is
    what makes revisited places equal to the last bit. Two keys are normalised to unit speed; opposite
    keys stand still. A last interval shorter than a sample is not sampled.

    Parameters
    ----------
    segments : (keys, seconds) in order, keys of ``WASD``.
    speed : m/s.
    samples_per_second : sampling rate.

    Raises
    ------
    ValueError : an unknown key, or a number that is not positive.
    """
    legs = [("".join(dict.fromkeys(keys)), _exact(seconds)) for keys, seconds in segments]
    rate, v = _exact(samples_per_second), _exact(speed)
    unknown = sorted({k for keys, _ in legs for k in keys} - set(_KEYS))
    if unknown:
        raise ValueError(f"unknown key '{unknown[0]}', known: W, A, S, D")
    if rate <= 0 or v <= 0 or any(s <= 0 for _, s in legs):
        raise ValueError("speed, samples_per_second and every segment's seconds must be positive")
    total = sum((s for _, s in legs), Fraction(0))
    times = [Fraction(k) / rate for k in range(math.floor(total * rate) + 1)]
    positions, held = [], []
    for t in times:
        straight, diagonal = [Fraction(0), Fraction(0)], [Fraction(0), Fraction(0)]
        key, left = "", t
        for keys, seconds in legs:
            x, y = (sum(_KEYS[k][i] for k in keys) for i in (0, 1))
            spent = min(left, seconds)
            into = diagonal if x and y else straight
            into[0] += x * spent
            into[1] += y * spent
            left -= spent
            key = keys
            if spent < seconds:
                break
        positions.append([float(v * s) + float(v * d) * math.sqrt(0.5)
                          for s, d in zip(straight, diagonal, strict=True)] + [0.0])
        held.append(key)
    return TimedPath(np.array([float(t) for t in times]), np.array(positions), tuple(held[:-1]))


def save_cameras(path: Path, cameras: Sequence[Camera], frame: str = WORLD_FRAME) -> None:
    """Write cameras as JSON, exact to the last bit; ``frame`` says in words what the poses refer to."""
    data = {"frame": frame, "pose": _AXES,
            "cameras": [{"matrix": c.pose.matrix.tolist(), "fx": c.fx, "fy": c.fy, "cx": c.cx, "cy": c.cy,
                         "width": c.width, "height": c.height} for c in cameras]}
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def load_cameras(path: Path) -> tuple[list[Camera], str]:
    """Cameras that ``save_cameras`` wrote, and the frame that the file states.

    Raises
    ------
    MissingInputError, CorruptInputError
    """
    if not path.is_file():
        raise MissingInputError("no such file", where=str(path), todo="Check the path")
    where, todo = str(path), "Give a file with 'frame' and 'cameras' (matrix, fx, fy, cx, cy, width, height)"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        frame, entries = str(data["frame"]), list(data["cameras"])
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptInputError(f"is no camera file ({e})", where=where, todo=todo) from None
    cameras = []
    for k, c in enumerate(entries):
        try:
            cameras.append(Camera(Pose(np.array(c["matrix"], dtype=np.float64)), float(c["fx"]), float(c["fy"]),
                                  float(c["cx"]), float(c["cy"]), int(c["width"]), int(c["height"])))
        except (ValueError, KeyError, TypeError) as e:
            raise CorruptInputError(f"is no camera ({e})", where=f"{where}, cameras[{k}]", todo=todo) from None
    return cameras, frame


def _exact(x: float) -> Fraction:
    """The decimal number that was written, 0.1 rather than its nearest binary fraction."""
    if not math.isfinite(x):
        raise ValueError(f"{x} is not a finite number")
    return Fraction(repr(float(x)))
