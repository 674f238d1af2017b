"""Side-cars are checked against the world: the camera by the gates, the floor by the nine rays, up by the cameras."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Protocol, Scene
from spatialbench.world.camera import InitialCamera, try_camera
from spatialbench.world.subject import Subject
from spatialbench.world.up import axis_words

__all__ = ["GROUND_SHARE", "MAX_TILT_DEG", "checked_camera", "side_car_words"]

GROUND_SHARE = 0.2
"""Of the rays' distance to the floor, by which the floor of a side-car may differ without a word."""
MAX_TILT_DEG = 35.0
"""Between the decided up axis and the mean up of a list of cameras, without a word: people look down by less."""
_MIN_CAMERAS, _MIN_MEAN = 3, 0.7
"""Cameras that have a mean up: so many of them, whose mean is so long. Turned every way, they have none."""
_LEVEL = math.cos(math.radians(20.0))


def checked_camera(camera: InitialCamera | None, subject: Subject, up: NDArray[np.float64], unit_m: float | None,
                   protocol: Protocol) -> tuple[InitialCamera | None, list[str]]:
    """A side-car's camera if it passes the gates that the file's origin must pass, else None and words about it.

    Cameras of other sources pass. A list of cameras says where pictures were taken, which may be anywhere.
    """
    if camera is None or camera.source != "side-car":
        return camera, []
    trial = try_camera(camera, subject, up, unit_m, protocol)
    if not trial.reason:
        return camera, []
    named = f" ({camera.note})" if camera.note else ""
    return None, [f"the side-car's first camera{named} is not taken for the initial camera: there {trial.reason}; "
                  "--camera decides"]


def side_car_words(scene: Scene, up: NDArray[np.float64], camera: InitialCamera,
                   rays: Sequence[float | None]) -> list[str]:
    """What a person should know where a side-car and the world disagree; nothing is decided here.

    Parameters
    ----------
    up : decided axis [3], source frame.
    camera : initial camera, source frame.
    rays : distances of the nine rays, source unit.
    """
    return [w for w in (_ground(scene, up, camera, rays), _mean_up(scene, up)) if w]


def _ground(scene: Scene, up: NDArray[np.float64], camera: InitialCamera, rays: Sequence[float | None]) -> str | None:
    """Whether the side-car's floor lies where the rays end: both as the camera's height over it, m."""
    side = scene.side
    valid = [d for d in rays if d is not None]
    if side.ground_m is None or side.ground_axis is None or side.unit_m is None or not valid:
        return None
    axis = side.ground_axis
    if abs(float(up @ axis)) < _LEVEL:
        return (f"the side-car gives the height of a floor along {axis_words(axis)}, which is not level where up is "
                f"{axis_words(up)}: is --up right?")
    sign = 1.0 if up @ axis > 0 else -1.0
    seen = statistics.median(valid) * side.unit_m
    at = float(camera.position @ axis) * side.unit_m
    told, mirrored = (sign * (at - g) for g in (side.ground_m, -side.ground_m))
    if abs(told - seen) <= GROUND_SHARE * seen:
        return None
    hint = ""
    if abs(mirrored - seen) <= GROUND_SHARE * seen:
        hint = ("; with the opposite sign it would fit: the file seems to have been turned after the side-car was "
                "written")
    return (f"by the side-car the floor is {told:.2f} m below the initial camera, the rays down end {seen:.2f} m below "
            f"(at its {side.unit_m:g} m per unit){hint}. The protocol's scale goes by the rays; look at the floor, or "
            "at where the camera stands")


def _mean_up(scene: Scene, up: NDArray[np.float64]) -> str | None:
    """Whether the cameras of a list were held upright, by the decided axis."""
    side = scene.side
    if side.cameras_source != "side-car" or len(side.cameras) < _MIN_CAMERAS:
        return None
    mean = -np.mean([pose.rotation[:, 1] for pose in side.cameras], axis=0)
    length = float(np.linalg.norm(mean))
    if length < _MIN_MEAN:
        return None
    tilt = math.degrees(math.acos(float(np.clip(mean @ up / length, -1, 1))))
    if tilt <= MAX_TILT_DEG:
        return None
    return (f"the {len(side.cameras)} cameras of the side-car have their up at {axis_words(mean / length)}, "
            f"{tilt:.0f} degrees from the decided {axis_words(up)}, which is kept; --up decides")
