"""The initial camera: user > case > file or side-car > the file's origin if it passes the gates > found."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import UsageError
from spatialbench.types import Decision, Protocol, Scene, SnapshotCase
from spatialbench.types.scene import Source
from spatialbench.world.decide import CONFIDENCE, FrameOverrides, default_forward, level_rotation
from spatialbench.world.interior import InteriorAnalysis
from spatialbench.world.probe import enclosure_at, level_percentile, level_ranges, nine_rays
from spatialbench.world.sight import Sight
from spatialbench.world.subject import Subject

__all__ = ["InitialCamera", "OriginTrial", "find_camera", "given_camera", "look_around", "try_camera",
           "try_origin", "without_floor"]

_SEES_NOTHING = 0.25  # of 50 directions; on an endless plain 17 meet the ground
_VERTICAL = 1e-3  # horizontal part of a unit direction, below which no heading can be read from it


@dataclass(frozen=True, eq=False)
class InitialCamera:
    """Where the world is seen from first.

    Attributes
    ----------
    position : [3] source frame and unit.
    forward : [3] horizontal unit direction, source frame; the camera is level.
    """

    position: NDArray[np.float64]
    forward: NDArray[np.float64]
    source: Source
    confidence: float
    note: str = ""

    def decision(self) -> Decision:
        """For the report."""
        value = {"position": [float(x) for x in self.position], "forward": [float(x) for x in self.forward]}
        return Decision(value=value, source=self.source, confidence=self.confidence, note=self.note)


def given_camera(scene: Scene, case: SnapshotCase | None, overrides: FrameOverrides,
                 up: NDArray[np.float64]) -> tuple[InitialCamera | None, list[str]]:
    """The camera that the user, the case or the file gives, or None; and what a person should know.

    Raises
    ------
    UsageError : the user's or the case's camera looks straight up or down.
    """
    if overrides.camera_position is not None:
        if overrides.camera_forward is None:
            return InitialCamera(np.array(overrides.camera_position, dtype=np.float64), default_forward(up), "user",
                                 CONFIDENCE["user"], "the format's viewing direction"), []
        return _told(overrides.camera_position, overrides.camera_forward, up, "user", "--camera"), []
    if case is not None and case.camera is not None:
        at = case.camera.position
        toward = case.camera.forward
        if toward is None and case.camera.look_at is not None:
            toward = tuple(b - a for a, b in zip(at, case.camera.look_at, strict=True))  # type: ignore[assignment]
        assert toward is not None
        return _told(at, toward, up, "case", f"case {case.id}, key 'camera'"), []
    warnings = []
    for k, pose in enumerate(scene.side.cameras):
        forward = _horizontal(pose.forward, up)
        if forward is None:
            warnings.append(f"camera {k} of the {scene.side.cameras_source} looks straight up or down and was "
                            "passed over: a level camera has no heading there")
            continue
        names = scene.side.camera_names
        words = [] if k == 0 else [f"camera {k}, the first that does not look straight up or down"]
        words += [f"'{names[k][:80]}'"] if k < len(names) and names[k] else []
        note = ", ".join(words)
        source = scene.side.cameras_source
        return InitialCamera(pose.position.copy(), forward, source, CONFIDENCE[source], note), warnings
    return None, warnings


def _told(position: Sequence[float], toward: Sequence[float], up: NDArray[np.float64], source: Source, where: str
          ) -> InitialCamera:
    forward = _horizontal(toward, up)
    if forward is None:
        raise UsageError(f"the initial camera's viewing direction {[float(x) for x in toward]} is straight up or "
                         f"down for the up axis {[round(float(x), 3) for x in up]}", where=where,
                         todo="Give a direction with a horizontal part, or correct the up axis")
    return InitialCamera(np.array(position, dtype=np.float64), forward, source, CONFIDENCE[source])


def _horizontal(direction: ArrayLike, up: NDArray[np.float64]) -> NDArray[np.float64] | None:
    d = np.asarray(direction, dtype=np.float64)
    if not np.any(d):
        return None
    d = d / np.abs(d).max()  # so that no square under- or overflows
    flat = d / np.linalg.norm(d)
    flat = flat - up * (up @ flat)
    size = np.linalg.norm(flat)
    return None if size < _VERTICAL else np.asarray(flat / size)


@dataclass(frozen=True, eq=False)
class OriginTrial:
    """Whether a place, mostly the file's origin, can be the initial camera.

    Attributes
    ----------
    camera : that was tried; at the origin it looks the format's way.
    reason : which gate of real-worlds.md section 7 fails there, in words; empty when none does.
    enclosed : surroundings are there and not too near; only the floor may be missing.
    behind : most of what is seen from there is seen from behind: it lies inside something solid, unless
        all faces are wound inside out.
    """

    camera: InitialCamera
    reason: str
    enclosed: bool
    behind: bool


def try_origin(subject: Subject, up: NDArray[np.float64], unit_m: float | None, protocol: Protocol) -> OriginTrial:
    """Put the gates of real-worlds.md section 7 to the file's origin; see ``try_camera``."""
    camera = InitialCamera(np.zeros(3), default_forward(up), "origin", CONFIDENCE["origin"],
                           "the file's origin, looking the format's way; it passes the gates")
    return try_camera(camera, subject, up, unit_m, protocol)


def try_camera(camera: InitialCamera, subject: Subject, up: NDArray[np.float64], unit_m: float | None,
               protocol: Protocol) -> OriginTrial:
    """Put the gates of real-worlds.md section 7 to a camera that nobody vouches for.

    Without a unit the nine rays' own scale makes the lengths, and is itself judged by the height that it gives the
    world: an origin just over a floor or inside a splat would make a giant of any room. Without such a scale either,
    surroundings count only where they are complete and far enough for the world's own width.
    """
    gates, finding, sight = protocol.gates, protocol.finding, subject.sight
    at, rotation = camera.position, level_rotation(up, camera.forward)
    low, high = subject.box(rotation)
    rays = [d for d in nine_rays(sight, at, rotation, protocol.scale) if d is not None]
    scale = protocol.scale.camera_height / statistics.median(rays) if rays else None
    metres = unit_m if unit_m is not None else scale
    near = level_percentile(level_ranges(sight, at, rotation), gates.level_depth_percentile)
    e, front = enclosure_at(sight, at, rotation, math.inf if metres is None else finding.reach / metres)
    if metres is None:
        least_near, least_e = finding.blind_clearance * float((high - low)[:2].max()), finding.blind_enclosure
    else:
        least_near, least_e = gates.min_level_depth / metres, gates.min_enclosure
    around = ""
    if near is not None and not near > least_near:
        around = f"geometry within {near * (metres or 1.0):.2g} {'m' if metres else 'units'}"
    elif e < least_e:
        around = f"only {e:.2f} of the directions meet something"
    below = ""
    if len(rays) < gates.min_ray_hits:
        below = f"{len(rays)} of nine rays meet a floor, {gates.min_ray_hits} are needed"
    elif unit_m is not None and scale is not None and not gates.min_scale < scale / unit_m < gates.max_scale:
        below = f"the floor is {statistics.median(rays) * unit_m:.2g} m below, far from eye height"
    elif unit_m is None and scale is not None and (high - low)[2] * scale > finding.plausible_height:
        below = (f"the floor is {statistics.median(rays):.2g} units below: were that eye height, the world would be "
                 f"{(high - low)[2] * scale:.0f} m high")
    return OriginTrial(camera, below or around, not around, front is not None and front < 0.5)


def without_floor(origin: OriginTrial, subject: Subject, up: NDArray[np.float64], protocol: Protocol
                  ) -> InitialCamera:
    """Somewhere to look from when no floor is found: the file's origin if it is enclosed, else outside.

    Outside means level with the middle of the world's box, looking the format's way, as far back as the
    lens needs to hold the box.
    """
    why = f"no floor was found to stand on, and at the file's origin {origin.reason}"
    if origin.enclosed:
        return replace(origin.camera, confidence=0.2, note=f"the file's origin, which has surroundings; {why}")
    forward = default_forward(up)
    rotation = level_rotation(up, forward)
    low, high = subject.box(rotation)
    half = (high - low) / 2
    back = half[1] + max(half[0], half[2]) / math.tan(math.radians(protocol.views.lens.fov_deg) / 2) * 1.1
    middle = (low + high) / 2
    position = rotation.T @ (middle - [0.0, back, 0.0])
    return InitialCamera(position, forward, "none", 0.0, f"outside, looking at all of it: {why}")


def find_camera(interior: InteriorAnalysis, sight: Sight, unit_m: float, protocol: Protocol, refused: str
                ) -> InitialCamera | None:
    """The camera of real-worlds.md section 5c, or None when there is no floor to stand on.

    A place that sees next to nothing, or a floor no larger than a pedestal, is none: who stands there sees less of an
    object than who looks at it from outside.

    Parameters
    ----------
    interior : analysis of the decided up axis, metres by ``unit_m``.
    sight : source frame.
    refused : why the file's origin is not taken, for the note.
    """
    if not interior.places:
        return None
    place = interior.places[0]
    if place.enclosure < _SEES_NOTHING or place.area < protocol.gates.min_floor:
        return None
    position = place.position / unit_m
    forward = look_around(sight, position, interior.up, protocol.finding.reach / unit_m,
                          protocol.views.lens.fov_deg)
    sure = place.enclosure >= protocol.gates.min_enclosure
    note = (f"found: {place.area:.1f} m2 of floor, {place.enclosure:.2f} enclosed, {place.clearance:.1f} m clear; "
            f"the file's origin was refused: {refused}")
    return InitialCamera(position, forward, "found", CONFIDENCE["found"] if sure else 0.1, note)


def look_around(sight: Sight, position: ArrayLike, up: NDArray[np.float64], reach: float, fov_deg: float
                ) -> NDArray[np.float64]:
    """Horizontal direction [3] whose field of view misses least, then sees farthest (real-worlds.md 5c).

    360 level rays; a window is ``fov_deg`` wide; misses are rays without a hit within ``reach``; then the
    greatest median distance, to a thousandth of ``reach``; then the least turn from the format's own viewing direction,
    clockwise before anticlockwise.
    """
    rotation = level_rotation(up, default_forward(up))
    ranges = level_ranges(sight, position, rotation)
    n = len(ranges)
    half = int(n * fov_deg / 720)
    miss = ranges > reach
    turn = np.arange(n)
    window = (turn[:, None] + np.arange(-half, half + 1)) % n
    misses = miss[window].sum(axis=1)
    median = np.median(np.minimum(ranges, reach)[window], axis=1)
    off = np.minimum(turn, n - turn) * 2 + (turn > n / 2)
    best = int(np.lexsort((off, -np.round(median / reach, 3), misses))[0])
    angle = 2 * np.pi * best / n
    return np.asarray(np.array([np.sin(angle), np.cos(angle), 0.0]) @ rotation)
