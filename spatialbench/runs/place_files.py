"""What ``spatialbench place`` writes: ``place.json``, a plan, a picture of each release and rest, films on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import ResultError
from spatialbench.physics.placement.studio import Studio, plan_camera, project, viewpoint
from spatialbench.renderers.video import film_backend, write_film
from spatialbench.runs.place import PlaceResult
from spatialbench.runs.store import prepare_folder, sole_writer, write_json
from spatialbench.types import Support, TrialResult

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

__all__ = ["MAX_PICTURED", "SUPPORT_RULE", "place_json", "write_place"]

MAX_PICTURED = 60
"""Trials that pictures are made of; more only fill the disk."""
SUPPORT_RULE = "the largest connected patch that looks up at table height, is nearly level and has room above it"
_ROOM = 1.5
_ABOVE = 0.35
"""The plan leaves out faces whose middle is so far above the support, m."""
_RATE = 30
_GOOD, _BAD, _LINE, _OTHER = (20, 130, 60), (200, 40, 30), (20, 40, 160), (120, 130, 150)
Progress = Callable[[str, int, int], None]


def place_json(r: PlaceResult) -> dict[str, Any]:
    """The answer as JSON types: ``trials`` of the reference that counts, and all that explains them.

    Lengths in metres, Z up. A trial that the simulator did not answer has ``success`` null and its ``error``.
    """
    return {
        "world": r.path.name, "object": r.placed.name, "benchmark": r.placed.benchmark and r.world is not None,
        "object_note": r.placed.note, "object_mass": r.placed.mass, "backend": r.backend,
        "settings": r.settings.model_dump(mode="json"), "reference": r.reference, "status": r.status,
        "reason": r.reason, "score": r.score, "succeeded": sum(t.success for t in r.counted),
        "trials": [_trial(t) for t in r.counted],
        "by_reference": {name: [{"id": t.id, "success": None if t.error else t.success, "reasons": list(t.reasons),
                                 "surface_z": t.surface_z, "drop": t.drop} for t in rows]
                         for name, rows in r.results.items()} if r.world is not None else {},
        "planned": [{"id": p.id, "x": p.x, "y": p.y, "surface": p.surface, "kept": p.kept, "reason": p.reason}
                    for p in r.planned],
        "support": _support(r.supports[0]) if r.supports else None,
        "supports": [{**_support(s), "boundary": None, "rank": k} for k, s in enumerate(r.supports)],
        "support_rule": SUPPORT_RULE if r.supports and r.supports[0].source == "found" else "",
        "boundary": [] if r.boundary is None else r.boundary.outline.tolist(),
        "warnings": list(r.warnings),
    }


def _trial(t: TrialResult) -> dict[str, Any]:
    row = asdict(t)
    row.pop("path")
    row["success"] = None if t.error else t.success
    row["reasons"] = list(t.reasons)
    return row


def _support(s: Support) -> dict[str, Any]:
    return {"id": s.id, "source": s.source, "confidence": s.confidence, "area": s.area, "height": s.height,
            "plane": list(s.plane), "note": s.note, "boundary": s.boundary.tolist(), "holes": len(s.holes)}


def write_place(r: PlaceResult, folder: Path, video: bool = False, progress: Progress | None = None) -> list[str]:
    """Write all into a folder; the names of the files, relative to it.

    Films need the paths of the trials (``PlaceOptions.record``).

    Raises
    ------
    UsageError, ResultError : the folder or a file cannot be written.
    BackendUnavailableError : films without PyAV, pictures without PyBullet.
    """
    tell: Progress = progress or (lambda label, done, total: None)
    if video:
        film_backend()
    prepare_folder(folder)
    files: list[str] = []
    with sole_writer(folder):
        try:
            for old in (*folder.glob("trial-*-release.png"), *folder.glob("trial-*-rest.png"),
                        *folder.glob("trial-*.mp4"), folder / "places.png"):
                old.unlink(missing_ok=True)
            if r.boundary is not None and r.counted:
                files += _draw(r, folder, video, tell)
        except OSError as error:
            raise ResultError(f"cannot be written: {error.strerror}", where=str(folder),
                              todo="Free some space or choose another folder with -o") from None
        write_json(folder / "place.json", {**place_json(r), "files": files})
    return [*files, "place.json"]


def _draw(r: PlaceResult, folder: Path, video: bool, tell: Progress) -> list[str]:
    from PIL import Image

    level = min(t.surface_z for t in r.counted) - 0.1
    files = ["places.png"]
    tell("drawing the plan", 0, 0)
    _plan(r, level).save(folder / "places.png")
    shown = [t for t in r.counted if not t.error][:MAX_PICTURED]
    if not shown or r.raycaster is None:
        return files
    centres = np.array([t.release_centre for t in shown])
    with Studio(r.vertices, _near(r, centres.min(axis=0)[:2] - _ROOM, centres.max(axis=0)[:2] + _ROOM), r.placed,
                level) as studio:
        for k, t in enumerate(shown):
            tell("drawing the trials", k, len(shown))
            camera = viewpoint(t, r.placed, r.raycaster)
            for name, centre, quaternion in (("release", t.release_centre, t.release_quaternion),
                                             ("rest", t.rest_centre, t.rest_quaternion)):
                picture = Image.fromarray(studio.picture(camera, (*centre, *quaternion)))
                _caption(picture, f"trial {t.id}, {name}: {_verdict(t)}", _GOOD if t.success else _BAD)
                files.append(f"trial-{t.id}-{name}.png")
                picture.save(folder / files[-1])
            if video and t.path:
                files.append(f"trial-{t.id}.mp4")
                _film(folder / files[-1], studio.film(camera, t.path), len(t.path), tell, t.id)
    return files


def _plan(r: PlaceResult, level: float) -> Any:
    """From above: the outlines of all supports, the one that is used in full, and the places with their outcome."""
    from PIL import Image, ImageDraw

    assert r.boundary is not None
    x0, y0, x1, y1 = r.boundary.bounds()
    centres = np.array([t.release_centre for t in r.counted])
    box = (min(x0, centres[:, 0].min()) - 0.15, min(y0, centres[:, 1].min()) - 0.15,
           max(x1, centres[:, 0].max()) + 0.15, max(y1, centres[:, 1].max()) + 0.15)
    top = max(t.surface_z for t in r.counted)
    f = _near(r, np.array(box[:2]) - 0.5, np.array(box[2:]) + 0.5)
    f = f[r.vertices[f][:, :, 2].mean(axis=1) < top + _ABOVE]
    camera = plan_camera(box, top)
    with Studio(r.vertices, f, r.placed, level) as studio:
        picture = Image.fromarray(studio.picture(camera, None))
    pen = ImageDraw.Draw(picture)

    def ring(points: NDArray[np.float64], z: float, color: tuple[int, int, int], width: int) -> None:
        xy = project(camera, np.column_stack([points, np.full(len(points), z)]))[:, :2]
        pen.line([tuple(p) for p in np.vstack([xy, xy[:1]]).tolist()], fill=color, width=width)

    for s in r.supports[1:]:
        if s.height < top + _ABOVE:
            ring(s.boundary, s.height, _OTHER, 1)
    for outline in (r.boundary.outline, *r.boundary.holes):
        ring(outline, top, _LINE, 3)
    from spatialbench.physics.placement.objects import plan_radius

    a = 2 * np.pi * np.arange(48) / 48
    circle = plan_radius(r.placed) * np.column_stack([np.cos(a), np.sin(a)])
    for p in r.planned:
        if not p.kept:
            ring(circle + [p.x, p.y], top, _OTHER, 2)
    for t in r.counted:
        color = _GOOD if t.success else _BAD
        ring(circle + t.release_centre[:2], t.surface_z, color, 3)
        _label(pen, project(camera, [t.release_centre])[0, :2], str(t.id), color)
    where = r.supports[0].id if r.supports else "the given support"
    words = f"{len(r.counted)} places for the {r.placed.name} on {where}; green stays, red fails"
    _caption(picture, words, (40, 40, 40))
    return picture


def _near(r: PlaceResult, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.int64]:
    from spatialbench.physics.placement.static_scene import crop_to_plan

    faces = r.faces if r.shown is None else r.shown
    return crop_to_plan(r.vertices, faces, (float(low[0]), float(low[1]), float(high[0]), float(high[1])), 0.0)


def _verdict(t: TrialResult) -> str:
    if t.success:
        return f"stays, drop {t.drop * 1000:.1f} mm, tilt {t.tilt_deg:.1f} deg"
    return ", ".join(reason.replace("_", " ") for reason in t.reasons)


def _caption(picture: Any, text: str, color: tuple[int, int, int]) -> None:
    from PIL import ImageDraw

    pen = ImageDraw.Draw(picture)
    pen.rectangle((0, 0, picture.width, 22), fill=(255, 255, 255))
    pen.text((6, 4), text, fill=color, font=_font(13))


def _label(pen: ImageDraw, at: NDArray[np.float64], text: str, color: tuple[int, int, int]) -> None:
    pen.text((float(at[0]), float(at[1])), text, fill=color, font=_font(18), anchor="mm")


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _film(path: Path, frames: Iterable[NDArray[np.uint8]], count: int, tell: Progress, trial: int) -> None:
    """An MP4 of 30 frames a second."""
    def told() -> Iterator[NDArray[np.uint8]]:
        for k, frame in enumerate(frames):
            tell(f"filming trial {trial}", k, count)
            yield frame

    write_film(path, told(), _RATE)
