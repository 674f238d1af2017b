"""What ``spatialbench render`` does: a world is read and anchored, and pictures of it are drawn that are not there yet.

Each PNG carries the digest of its recipe (inputs, anchoring, camera, settings, what drew it), each NPZ too; a file
appears under its name when it is whole. So a run that was stopped goes on where it was, and a run that asks for
something else draws anew exactly what is different.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from spatialbench import __version__
from spatialbench.errors import ResultError, UsageError
from spatialbench.renderers import open_renderer
from spatialbench.renderers.panorama import panorama_cameras
from spatialbench.renderers.trajectories import CUBE_FACES
from spatialbench.renderers.video import film_backend
from spatialbench.runs.cache import ensure_kernel_cache
from spatialbench.runs.machine import versions
from spatialbench.runs.render_cameras import Shots, Views, check_views, listed, planned_shots
from spatialbench.runs.render_files import LIST_FILES, Job, films_before, sweep, write_film_of, write_lists
from spatialbench.runs.render_frame import frame_of
from spatialbench.runs.store import check_folder, prepare_folder, sole_writer, write_json
from spatialbench.scene import load_scene
from spatialbench.scene.reading import ReadOptions
from spatialbench.types import RenderSettings, load_case, load_protocol, protocol_hash
from spatialbench.types.frames import DEPTHS
from spatialbench.world import FrameOverrides
from spatialbench.world.anchoring import Anchoring, anchor_world, gates_json, reader_warnings, scale_json

__all__ = ["LIST_FILES", "RenderOptions", "RenderResult", "render_world"]

_PANORAMA = (2048, 1024)
_MAX_SIDE = 8192
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class RenderOptions:
    """What a user can ask of ``render``.

    Attributes
    ----------
    protocol, settings, case, frame, reading : as for ``run``.
    views : which cameras.
    backend : renderer that is forced.
    depth, alpha : whether an NPZ with them is written beside each picture.
    depth_kind : of splats, one of ``DEPTHS``.
    video : whether films are made of all that is a sequence.
    lists : further formats of the camera list, keys of ``LIST_FILES``.
    """

    protocol: str = "happyworld-spatial-1"
    settings: tuple[str, ...] = ()
    case: Path | None = None
    frame: FrameOverrides = field(default_factory=FrameOverrides)
    reading: ReadOptions = field(default_factory=ReadOptions)
    views: Views = field(default_factory=Views)
    backend: str | None = None
    depth: bool = False
    alpha: bool = False
    depth_kind: str = "median"
    video: bool = False
    lists: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class RenderResult:
    """What was written.

    Attributes
    ----------
    folder : of all files. files : relative names.
    drawn, kept : pictures made now, and kept from before.
    record : what ``render.json`` holds.
    """

    folder: Path
    files: tuple[str, ...]
    drawn: int
    kept: int
    record: dict[str, Any]


def render_world(path: Path, folder: Path, options: RenderOptions, progress: Progress | None = None) -> RenderResult:
    """Import and anchor a world as ``run`` does and write pictures of it.

    Writes a PNG for each camera, an NPZ (``depth``, ``alpha``; float32) and films on request, ``cameras.json`` and,
    last, ``render.json``. Depths are in the unit of the stated frame, along the camera's axis; those of a
    panorama are distances.

    Raises
    ------
    InputError, UsageError : the world, the case, the list of cameras or an option is at fault.
    BackendUnavailableError : no renderer, or no film, can be made here.
    ResultError : the folder cannot be written.
    """
    tell: Progress = progress or (lambda label, done, total: None)
    ensure_kernel_cache()
    views = options.views
    cameras = check_views(views)
    _check(options)
    check_folder(folder)
    home = path if path.is_dir() else path.parent
    if folder.resolve() == home.resolve():
        raise UsageError("is the folder of the world: the list of cameras that is written there would be taken for "
                         "the world's own from then on", where=str(folder), todo="Choose another with -o")
    protocol = load_protocol(options.protocol, options.settings)
    case = None if options.case is None else load_case(options.case)
    options = replace(options, reading=options.reading.with_case(case, options.case))
    tell("reading the world", 0, 0)
    scene = load_scene(path, **options.reading.as_arguments())
    at = anchor_world(scene, protocol, case, options.frame, tell)
    frame = frame_of(views.frame, cameras, views.cameras, at)
    sets = planned_shots(views, cameras, protocol, at, frame)
    if options.video:
        _check_films(sets)
    look = protocol.views
    settings = RenderSettings(supersample=look.supersample, background=look.background, shading=look.shading,
                              depth=options.depth_kind)
    tell("preparing the renderer", 0, 0)
    prepare_folder(folder)
    with sole_writer(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said in the result: what falls back is in the renderer's words
        renderer = open_renderer(at.seen(), settings, options.backend)
        recipe = {"version": __version__, "inputs": [f.sha256 for f in at.scene.report.files],
                  "max_splats": options.reading.max_splats,
                  "drop_outliers": options.reading.drop_outliers, "transform": at.transform.tolist(),
                  "opacity": [d.value for name, d in at.decisions.items() if name == "opacity"],
                  "settings": asdict(settings), "frame": frame.name}
        try:
            job = Job(folder, renderer, recipe, _want(options), frame, tell)
            record = {
                "schema": 1, "world": path.name, "inputs": [f.model_dump(mode="json") for f in at.scene.report.files],
                "versions": versions(), "protocol": protocol.id, "protocol_hash": protocol_hash(protocol),
                "protocol_overrides": list(options.settings), "settings": asdict(settings), "frame": frame.words,
                "depth_unit_m": frame.factor, "transform_source_to_world": at.transform.tolist(),
                **_anchored(at)}
            return _write(job, sets, record, options, at)
        except OSError as error:
            raise ResultError(f"cannot be written: {error.strerror}", where=str(folder),
                              todo="Free some space or choose another folder with -o") from None


def _check(options: RenderOptions) -> None:
    v = options.views
    if options.depth_kind not in DEPTHS:
        raise UsageError(f"no depth '{options.depth_kind}'", where="--depth-kind", todo=f"Choose {', '.join(DEPTHS)}")
    if v.size is not None and not all(1 <= side <= _MAX_SIDE for side in v.size):
        raise UsageError(f"pictures of {v.size[0]}x{v.size[1]} pixels", where="--size",
                         todo=f"Ask for 1 to {_MAX_SIDE} pixels each way")
    if options.video:
        film_backend()
        if not (v.ring or v.orbit or v.path is not None or v.connect is not None or v.cameras is not None):
            raise UsageError("a film of a panorama or a probe is none", where="--video",
                             todo="Give --ring, --orbit, --path, --connect or --cameras as well")


def _check_films(sets: list[Shots]) -> None:
    for shots in sets:
        if shots.rate and len({(c.width, c.height) for c in shots.cameras}) > 1:
            raise UsageError("the cameras have pictures of different sizes", where="--video", todo="Give --size")


def _want(options: RenderOptions) -> tuple[str, ...]:
    return ("rgb", *(["depth"] if options.depth else []), *(["alpha"] if options.alpha else []))


def _anchored(at: Anchoring) -> dict[str, Any]:
    words = [*at.warnings, *([at.unit_warning] if at.unit_warning else []),
             *reader_warnings(at.scene.report, at.decisions)]
    return {"scale": scale_json(at.scale), "gates": gates_json(at.gates), "warnings": list(dict.fromkeys(words)),
            "decisions": {k: d.model_dump(mode="json") for k, d in at.decisions.items()}}


def _write(job: Job, sets: list[Shots], record: dict[str, Any], options: RenderOptions, at: Anchoring) -> RenderResult:
    folder, views = job.folder, options.views
    before = films_before(folder)
    (folder / "render.json").unlink(missing_ok=True)
    given = [c for s in sets for c in s.given]
    place = np.zeros(3) if views.at is None else job.frame.world(views.at)
    size = views.size or _PANORAMA
    if views.panorama:
        faces = panorama_cameras(place, size[0])
        given += [job.frame.from_world(listed(c, f"panorama-{f}")) for c, f in zip(faces, CUBE_FACES, strict=True)]
    files = write_lists(folder, given, job.frame, options.lists)
    if views.panorama:
        job.panorama(place, size, max(2, record["settings"]["supersample"]))
    for shots in sets:
        job.draw(shots)
    done: dict[str, Any] = {}
    for shots in sets:
        entry: dict[str, Any] = {"pictures": [f"{f}.png" for f in shots.files], **shots.words}
        if options.video and shots.rate:
            entry["film"] = write_film_of(job, shots, before)
            files.append(f"{shots.name}.mp4")
        done[shots.name] = entry
    if views.panorama:
        done["panorama"] = {"pictures": ["panorama.png"], "at": place.tolist(), "size": list(size)}
    pictures = sorted(job.digests)
    sweep(folder, set(pictures), {f for f in files if f.endswith(".mp4")}, before)
    files = [*(f"{p}.png" for p in pictures), *(f"{p}.npz" for p in pictures if len(job.want) > 1), *files]
    record |= {"sets": done, "recipes": job.digests, "backend": sorted(job.backends), "files": files,
               "warnings": [*record["warnings"], *job.renderer.warnings]}
    write_json(folder / "render.json", record)
    return RenderResult(folder, (*files, "render.json"), job.drawn, job.kept, record)
