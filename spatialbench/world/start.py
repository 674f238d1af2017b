"""The initial camera: given, the file's origin, or looked for; and what was learnt on the way."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Protocol
from spatialbench.world.camera import InitialCamera, OriginTrial, find_camera, try_origin, without_floor
from spatialbench.world.decide import level_rotation
from spatialbench.world.interior import InteriorAnalysis, analyse_interior
from spatialbench.world.probe import nine_rays
from spatialbench.world.subject import Subject
from spatialbench.world.surfels import Surfels
from spatialbench.world.up import UpEstimate, estimate_up

__all__ = ["Start", "start"]


@dataclass(frozen=True, eq=False)
class Start:
    """The initial camera and what was learnt while it was looked for.

    ``unit_m`` is what the search took for a unit: the decided one, else the scale that the user gives or
    that the nine rays give at a camera that is known, else 1.
    """

    camera: InitialCamera
    unit_m: float
    estimate: UpEstimate
    interior: InteriorAnalysis
    inside_out: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Search:
    """What a camera is looked for with."""

    subject: Subject
    up: NDArray[np.float64]
    unit: float | None
    scale: float | None
    protocol: Protocol


def start(subject: Subject, up: NDArray[np.float64], unit: float | None, camera: InitialCamera | None,
          protocol: Protocol, scale: float | None = None) -> Start:
    """The given camera, else the file's origin if it passes the gates, else one that is found (design section 7).

    Parameters
    ----------
    up : decided axis [3], source frame.
    unit : metres per source unit that something gives.
    camera : that something gives.
    scale : metres per source unit that the user puts in place of the rule.
    """
    seek = _Search(subject, up, unit, scale, protocol)
    if camera is not None:
        return _search(seek, camera, None)
    origin = try_origin(subject, up, unit, protocol)
    if origin.reason:
        return _search(seek, None, origin)
    if origin.behind:
        # If a room is there by the faces' winding, then it is not the origin that lies in it.
        refused = replace(origin, reason="most of what it sees is seen from behind")
        found = _search(seek, None, refused)
        if not found.inside_out and found.interior.enclosure >= protocol.gates.min_enclosure:
            return found
    return _search(seek, origin.camera, origin)


def _search(seek: _Search, camera: InitialCamera | None, origin: OriginTrial | None) -> Start:
    """Estimate up and interior; find a camera when there is none yet."""
    protocol, subject, up = seek.protocol, seek.subject, seek.up
    unit = seek.unit or seek.scale
    if unit is None and camera is not None:
        rays = nine_rays(subject.sight, camera.position, level_rotation(up, camera.forward), protocol.scale)
        valid = [d for d in rays if d is not None]
        unit = protocol.scale.camera_height / statistics.median(valid) if valid else None
    warnings = []
    if unit is None:
        unit = 1.0
        if camera is None:
            warnings.append("nothing gives the file's unit: the camera was looked for as if it were the metre")
    surfels = subject.surfels(unit, protocol.finding)
    estimate = estimate_up(surfels, up, protocol.finding)
    interior, inside_out = _either_winding(surfels, estimate.decided, protocol)
    if inside_out:
        warnings.append("an interior is there only when the faces are seen from behind: they seem to be wound "
                        "inside out")
    if camera is None:
        assert origin is not None
        camera = find_camera(interior, subject.sight, unit, protocol, origin.reason)
        if camera is None:
            camera = without_floor(origin, subject, up, protocol)
            warnings.append(f"the initial camera is a guess: {camera.note}")
    return Start(camera, unit, estimate, interior, inside_out, tuple(warnings))


def _either_winding(surfels: Surfels, decided: InteriorAnalysis, protocol: Protocol
                    ) -> tuple[InteriorAnalysis, bool]:
    """The interior, and whether it is only there with all normals turned over."""
    least = protocol.gates.min_enclosure
    if decided.enclosure >= least or not surfels.signed:
        return decided, False
    other = analyse_interior(surfels.flipped(), decided.up, protocol.finding)
    return (decided, False) if other.enclosure < least else (other, True)
