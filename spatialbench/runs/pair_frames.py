"""Writes the frames that models judge, so that masks, answers and rewards can be made elsewhere, as evidence."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spatialbench.errors import ResultError
from spatialbench.runs.store import canonical_json, prepare_folder, write_text
from spatialbench.types import Camera, EditCase, to_uint8

if TYPE_CHECKING:
    from spatialbench.runs.pair import PairResult

__all__ = ["write_frames"]

Progress = Callable[[str, int, int], None]


def write_frames(result: PairResult, folder: Path, progress: Progress | None = None) -> int:
    """``<set>-<before|after>-<view>.png`` (8-bit sRGB) and ``cameras.json``; gives the number of images.

    Sets: ``probe`` (six origin probes); for an object edit whose target is known ``orbit``; for an expansion
    ``origin``, and where it has a location ``junction`` and ``path``. Poses are camera-to-world, axes as in OpenCV,
    in the world frame of the run.

    Raises
    ------
    UsageError : the folder cannot be made.
    ResultError : the disk refuses.
    """
    tell = progress or (lambda label, done, total: None)
    sets = frame_cameras(result)
    prepare_folder(folder)
    total, done = 2 * sum(map(len, sets.values())), 0
    for name, cameras in sets.items():
        for k, camera in enumerate(cameras):
            for role in ("before", "after"):
                frames = result.observations.get(f"spatial.{role}_renderer").render([camera], want=("rgb",))
                _write_png(folder / f"{name}-{role}-{k:02d}.png", to_uint8(frames.rgb[0]))
                done += 1
                tell("writing the frames", done, total)
    text = {name: [_camera(c) for c in cameras] for name, cameras in sets.items()}
    write_text(folder / "cameras.json", canonical_json(text, indent=1) + "\n")
    return done


def frame_cameras(result: PairResult) -> dict[str, list[Camera]]:
    """The sets of views and their cameras, in order."""
    from spatialbench.renderers.trajectories import orbit, ring
    from spatialbench.tracks.spatial.expansion_views import connecting_cameras, junction_cameras
    from spatialbench.tracks.spatial.two_worlds import origin_cameras

    obs, rule, lens = result.observations, result.protocol.editing, result.protocol.views.lens
    sets = {"probe": origin_cameras(result.protocol.views.probe_size)}
    if result.kind == "edit":
        target = obs.get("spatial.edit_target")
        if isinstance(result.case, EditCase) and result.case.scope == "object" and target is not None:
            sets["orbit"] = orbit(target.centre, target.radius, rule.orbit_views, lens.width, lens.height,
                                  rule.orbit_fov_deg, start=(0.0, 0.0, 0.0))
        return sets
    sets["origin"] = ring((0.0, 0.0, 0.0), result.protocol.views.ring_frames, lens.width, lens.height, lens.fov_deg)
    if not obs.get("spatial.growth").reason and obs.get("spatial.new_place") is not None:
        sets["junction"], sets["path"] = junction_cameras(obs), connecting_cameras(obs)
    return sets


def _camera(c: Camera) -> dict[str, Any]:
    return {"camera_to_world": np.asarray(c.pose.matrix).tolist(), "fx": c.fx, "fy": c.fy, "cx": c.cx, "cy": c.cy,
            "width": c.width, "height": c.height}


def _write_png(path: Path, image: Any) -> None:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    try:
        path.write_bytes(buffer.getvalue())
    except OSError as error:
        raise ResultError(f"cannot be written: {error.strerror}", where=str(path),
                          todo="Free some space or choose another folder") from None
