"""Which cameras ``spatialbench render`` uses: from its options, the protocol and what anchoring found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import UsageError
from spatialbench.renderers.trajectories import (
    CUBE_FACES,
    action_path,
    connecting_path,
    cube_faces,
    orbit,
    orbit_of_box,
    parse_actions,
    path_cameras,
    ring,
)
from spatialbench.runs.render_frame import Frame
from spatialbench.scene.cameras import CameraList, Intrinsics, ListedCamera, in_capture_frame, read_cameras
from spatialbench.types import Camera, Protocol
from spatialbench.world.anchoring import Anchoring

__all__ = ["MAX_FRAMES", "SET_NAMES", "Shots", "Views", "check_views", "listed", "planned_shots"]

SET_NAMES = ("ring", "probe", "orbit", "path", "connect", "camera")
"""Of sets of pictures; the panorama is one by itself."""
MAX_FRAMES = 20_000
"""Of one command."""
_TURN = 6.0
"""Seconds that a full turn takes in a film, unless the rate is given."""
_FASTEST = 30.0
Vec3 = tuple[float, float, float]


@dataclass(frozen=True)
class Views:
    """What a user can ask to see. Places and lengths are in the stated frame and its unit.

    Attributes
    ----------
    ring, panorama, probe, orbit : whether they are drawn.
    path : actions (``parse_actions``), or ``protocol`` for the protocol's own path; None for none.
    connect : where a connecting path from ``at`` leads (W5).
    cameras : a file with a list of cameras.
    frame : as ``render_frame.frame_of`` takes it.
    at : where ring, panorama, probe, path and connecting path begin; None for the initial camera.
    target : what the orbit goes around, a place (3 numbers) or two corners of a box (6); None for the world's bulk.
    radius, elevation : of the orbit; None for OPEN-17's rules.
    frames : of ring, orbit or connecting path; None for 36, 24 and 16.
    speed, turn_rate : of the path, m/s and degrees/s; None for the protocol's and 45.
    size, fov : width and height in pixels, degrees across the width; None for the protocol's, or the list's own.
    fps : samples of the path and frames of films a second; None for 24, and for turns for one in six seconds.
    """

    ring: bool = False
    panorama: bool = False
    probe: bool = False
    orbit: bool = False
    path: str | None = None
    connect: Vec3 | None = None
    cameras: Path | None = None
    frame: str | None = None
    at: Vec3 | None = None
    target: tuple[float, ...] | None = None
    radius: float | None = None
    elevation: float | None = None
    frames: int | None = None
    speed: float | None = None
    turn_rate: float | None = None
    size: tuple[int, int] | None = None
    fov: float | None = None
    fps: float | None = None


@dataclass(frozen=True, eq=False)
class Shots:
    """Pictures that belong together.

    Attributes
    ----------
    name : begins the names of its files.
    cameras : world frame.
    given : the same in the stated frame, named as their files.
    files : names of the pictures without suffix.
    rate : frames a second of a film of them; 0 where a film makes no sense.
    words : what it is.
    """

    name: str
    cameras: tuple[Camera, ...]
    given: tuple[ListedCamera, ...]
    files: tuple[str, ...]
    rate: float
    words: dict[str, object] = field(default_factory=dict)


def listed(camera: Camera, name: str) -> ListedCamera:
    """A camera as an entry of a list."""
    return ListedCamera(camera.pose, name, None, Intrinsics(camera.fx, camera.fy, camera.cx, camera.cy, camera.width,
                                                            camera.height))


def check_views(views: Views) -> CameraList | None:
    """What can be known before the world is read; the list of cameras, if one is named.

    Raises
    ------
    InputError : the list cannot be read. UsageError : nothing is asked for, or what makes no sense.
    """
    sets = (views.ring, views.panorama, views.probe, views.orbit, views.path is not None, views.connect is not None,
            views.cameras is not None)
    if not any(sets):
        raise UsageError("nothing is asked for", where="render",
                         todo="Give --panorama, --ring, --orbit, --probe, --path KEYS, --connect X,Y,Z or --cameras F")
    if views.panorama and views.size is not None and views.size[0] != 2 * views.size[1]:
        raise UsageError(f"a panorama of {views.size[0]}x{views.size[1]} pixels is no full sphere", where="--size",
                         todo="Give twice the height as width, or leave it out")
    if views.probe and views.size is not None and views.size[0] != views.size[1]:
        raise UsageError("faces of a cube are square", where="--size", todo="Give equal width and height")
    if not views.orbit and any(v is not None for v in (views.target, views.radius, views.elevation)):
        raise UsageError("there is no orbit", where="--target, --radius, --elevation", todo="Give --orbit")
    if views.path is not None and not _protocols(views.path):
        try:
            parse_actions(views.path)
        except ValueError as error:
            raise UsageError(str(error), where="--path", todo="Write keys and seconds: W2,W+D1.5,Left3") from None
    cameras = None if views.cameras is None else read_cameras(views.cameras)
    if views.frame == "capture":
        if cameras is None or cameras.applied is None:
            raise UsageError("the list states no 'applied_transform' or 'applied_scale'", where="--frame capture",
                             todo="Use --frame file")
        cameras = in_capture_frame(cameras)
    return cameras


def planned_shots(views: Views, cameras: CameraList | None, protocol: Protocol, at: Anchoring, frame: Frame
                  ) -> list[Shots]:
    """All sets of pictures but the panorama, in the order of ``SET_NAMES``.

    Raises
    ------
    UsageError : too many frames, a list without lenses, an orbit or path that is none.
    """
    turns = (views.frames or protocol.views.ring_frames) * views.ring + (views.frames or 24) * views.orbit
    _check_count(turns + (views.frames or 16) * (views.connect is not None) + (0 if cameras is None else len(cameras)))
    start = np.zeros(3) if views.at is None else frame.world(views.at)
    lens = protocol.views.lens
    width, height = views.size or (lens.width, lens.height)
    fov = views.fov or lens.fov_deg
    out: list[Shots] = []
    if views.ring:
        n = views.frames or protocol.views.ring_frames
        out.append(_shots("ring", ring(start, n, width, height, fov), frame, _turn(views, n)))
    if views.probe:
        side = views.size[0] if views.size else protocol.views.probe_size
        out.append(_shots("probe", cube_faces(start, side), frame, 0.0, CUBE_FACES))
    if views.orbit:
        out.append(_orbit(views, at, frame, width, height))
    if views.path is not None:
        out.append(_path(views, protocol, frame, start, (width, height, fov)))
    if views.connect is not None:
        n = views.frames or 16
        made = connecting_path(start, frame.world(views.connect), n, width, height, fov)
        out.append(_shots("connect", made, frame, views.fps or 4.0))
    if cameras is not None:
        out.append(_list(views, cameras, frame))
    _check_count(sum(len(s.cameras) for s in out))
    return out


def _check_count(total: int) -> None:
    if total > MAX_FRAMES:
        raise UsageError(f"{total:,} pictures are asked for, at most {MAX_FRAMES:,} are drawn at once", where="render",
                         todo="Give fewer --frames, a shorter --path or a lower --fps")


def _shots(name: str, cameras: Sequence[Camera], frame: Frame, rate: float, endings: Sequence[str] = (),
           words: dict[str, object] | None = None) -> Shots:
    digits = max(3, len(str(len(cameras) - 1)))
    files = tuple(f"{name}-{e}" for e in (endings or [f"{k:0{digits}d}" for k in range(len(cameras))]))
    given = tuple(frame.from_world(listed(c, f)) for c, f in zip(cameras, files, strict=True))
    return Shots(name, tuple(cameras), given, files, rate, words or {})


def _turn(views: Views, frames: int) -> float:
    return views.fps or min(_FASTEST, max(1.0, frames / _TURN))


def _orbit(views: Views, at: Anchoring, frame: Frame, width: int, height: int) -> Shots:
    if views.target is None:
        low, high = (at.factor * (end - at.rotation @ at.camera.position) for end in at.subject.box(at.rotation))
        centre, radius = orbit_of_box(low, high, (1e-6, math.inf))
    else:
        ends = [frame.world(views.target[k:k + 3]) for k in range(0, len(views.target), 3)]
        centre, radius = orbit_of_box(np.minimum(ends[0], ends[-1]), np.maximum(ends[0], ends[-1]))
    if views.radius is not None:
        radius = views.radius * frame.factor
    n = views.frames or 24
    try:
        made = orbit(centre, radius, n, width, height, views.fov or 60.0, views.elevation, np.zeros(3))
    except ValueError as error:
        raise UsageError(str(error), where="--orbit", todo="Correct --radius or --elevation") from None
    return _shots("orbit", made, frame, _turn(views, n), words={"centre": centre.tolist(), "radius": radius})


def _protocols(path: str) -> bool:
    return path.strip().lower() == "protocol"


def _path(views: Views, protocol: Protocol, frame: Frame, start: NDArray[np.float64],
          lens: tuple[int, int, float]) -> Shots:
    text = views.path or ""
    rate = views.fps or (protocol.path.samples_per_second if _protocols(text) else 24.0)
    legs = [(s.keys, s.seconds) for s in protocol.path.segments] if _protocols(text) else parse_actions(text)
    try:
        walk = action_path(legs, views.speed or protocol.path.speed, rate, views.turn_rate or 45.0)
    except ValueError as error:
        raise UsageError(str(error), where="--path", todo="Correct the path, --fps, --speed or --turn-rate") from None
    _check_count(len(walk))
    words: dict[str, object] = {"actions": [list(leg) for leg in legs], "speed": views.speed or protocol.path.speed,
                                "turn_rate": views.turn_rate or 45.0, "samples_per_second": rate}
    return _shots("path", path_cameras(walk, *lens, start), frame, rate, words=words)


def _list(views: Views, cameras: CameraList, frame: Frame) -> Shots:
    made = [_lens(views, frame.to_world(c)) for c in cameras.cameras]
    digits = max(3, len(str(len(made) - 1)))
    files = tuple(f"camera-{k:0{digits}d}" for k in range(len(made)))
    # The poses as they were given, to the last bit.
    given = tuple(replace(listed(m, f), pose=c.pose) for c, m, f in zip(cameras.cameras, made, files, strict=True))
    words: dict[str, object] = {"list": cameras.format, "names": [c.name for c in cameras.cameras],
                                "notes": list(cameras.notes)}
    return Shots("camera", tuple(made), given, files, views.fps or 24.0, words)


def _lens(views: Views, c: ListedCamera) -> Camera:
    if views.fov is None:
        return c.camera(*(views.size or (None, None)))
    size = views.size or (None if c.intrinsics is None else (c.intrinsics.width, c.intrinsics.height))
    if size is None:
        raise UsageError(f"its camera '{c.name[:80]}' has no size", where=str(views.cameras), todo="Give --size")
    return Camera.from_fov(c.pose, views.fov, *size)
