"""A clip whose truth is known: a textured plane, seen by a camera that moves sideways."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Camera, level_pose

__all__ = ["Clip", "make_clip"]

DISTANCE = 4.0
_STEP = 0.1


@dataclass(frozen=True, eq=False)
class Clip:
    """T frames [H,W,3], their depth [T,H,W] in metres, cameras, and points [K,3] of the plane that all frames show."""

    frames: list[NDArray[np.uint8]]
    depth: NDArray[np.float32]
    cameras: list[Camera]
    points: NDArray[np.float64]


def make_clip(count: int, width: int, height: int, points: int = 4) -> Clip:
    """The plane y = 4 m of the world (Z up), seen along +Y from x = 0, 0.1, 0.2 ... m, 70 degrees wide."""
    cameras = [Camera.from_fov(level_pose((_STEP * t, 0.0, 1.5)), 70.0, width, height) for t in range(count)]
    frames = []
    for c in cameras:
        u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        x = c.pose.position[0] + DISTANCE * (u - c.cx) / c.fx
        z = c.pose.position[2] - DISTANCE * (v - c.cy) / c.fy
        waves = [np.sin(3 * x + 1) + np.sin(5 * z), np.sin(7 * x - 2 * z), np.sin(4 * x + 6 * z) + np.sin(11 * x)]
        frames.append(np.clip(127.5 + 60 * np.stack(waves, axis=2), 0, 255).astype(np.uint8))
    side = np.linspace(-0.8, 0.8, points)
    placed = np.stack([side + _STEP * (count - 1) / 2, np.full(points, DISTANCE), 1.5 + 0.5 * side[::-1]], axis=1)
    return Clip(frames, np.full((count, height, width), DISTANCE, np.float32), cameras, placed)
