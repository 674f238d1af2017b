"""Plates, or other bodies, on one world, or by a file of explicit releases: what ``spatialbench place`` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from spatialbench.errors import UnsupportedFormatError, UsageError
from spatialbench.metrics.placement import tabletop_ready_rate, without_trials
from spatialbench.observe import Context, Observations
from spatialbench.physics.placement import Boundary, placement_backend_status, plan_trials, run_plan, run_trials
from spatialbench.runs.place_file import read_trials, to_z_up
from spatialbench.runs.place_object import read_object
from spatialbench.runs.single import prepare
from spatialbench.scene.reading import ReadOptions
from spatialbench.tracks.spatial.gating import invalidated
from spatialbench.types import (
    PlacedObject,
    PlacementSettings,
    PlannedTrial,
    Protocol,
    SnapshotCase,
    Support,
    TrialResult,
    World,
    load_case,
    load_protocol,
)
from spatialbench.types.case_parts import SupportAnnotation
from spatialbench.world import FrameOverrides

if TYPE_CHECKING:
    from spatialbench.renderers.raycast import MeshRayCaster

__all__ = ["PlaceOptions", "PlaceResult", "parse_support", "place_by_file", "place_on_world"]

Progress = Callable[[str, int, int], None]
GATES = ("no_interior", "too_blurry_for_geometry")
"""Those that make M25 invalid where no case was given."""
RECORD = 8
"""Steps between poses that are kept: 30 a second at 240 steps."""


@dataclass(frozen=True)
class PlaceOptions:
    """What a user can ask of ``place``.

    Attributes
    ----------
    protocol, settings, case, frame, reading : as for ``run``.
    support : ``case``, ``found``, the id or rank of a found one, ``none``, or the corners of a polygon; see
        :func:`parse_support`. Empty: the case's, else the largest found.
    object : a built-in name, or a file. mass : kilograms of one from a file. object_up : ``y`` or ``z``, up in that
        file; None: as its format has it.
    workers : processes; 0 for none but this one.
    record : keep the paths.
    """

    protocol: str = "happyworld-spatial-1"
    settings: tuple[str, ...] = ()
    case: Path | None = None
    frame: FrameOverrides = field(default_factory=FrameOverrides)
    reading: ReadOptions = field(default_factory=ReadOptions)
    support: str = ""
    object: str = "plate"
    mass: float | None = None
    object_up: str | None = None
    workers: int = 1
    record: bool = False


@dataclass(frozen=True, eq=False)
class PlaceResult:
    """Everything there is to show.

    Attributes
    ----------
    vertices, faces : collision mesh, Z up, m.
    shown : [F,3] the same faces as they are wound in the world, for pictures; None: as in ``faces``.
    boundary : outline that counts; None without a support.
    supports : all that are known, the one used first; empty for a file of trials.
    planned : places asked for; empty for a file of trials.
    results : by reference height (``given`` for a file of trials).
    reference : the one that counts.
    status, reason : how M25's rules see the set of trials: ``measured``, ``inapplicable``, ``invalid``...
    score : share that succeeded, or what a rule says; None when there is none. M25 only if ``placed.benchmark`` and the
        trials were planned on a world.
    world : anchored; None for a file of trials.
    """

    path: Path
    placed: PlacedObject
    settings: PlacementSettings
    vertices: NDArray[np.float64]
    faces: NDArray[np.int64]
    boundary: Boundary | None
    supports: tuple[Support, ...]
    planned: tuple[PlannedTrial, ...]
    results: dict[str, tuple[TrialResult, ...]]
    reference: str
    status: str
    reason: str
    score: float | None
    warnings: tuple[str, ...]
    world: World | None = None
    raycaster: MeshRayCaster | None = None
    shown: NDArray[np.int64] | None = None

    @property
    def counted(self) -> tuple[TrialResult, ...]:
        """The trials that count."""
        return self.results.get(self.reference, ())

    @property
    def backend(self) -> str:
        """Name and version of the simulator."""
        return placement_backend_status()[1]


def parse_support(text: str) -> tuple[str, SupportAnnotation | None]:
    """(choice, polygon) of what ``--support`` says.

    ``case``, ``found``, ``none``, the id of a found support (``support_2``) or its rank (``2``, the largest is 0); or
    corners separated by blanks or semicolons: ``x,y,z`` each in the world file's own frame, or ``u,v`` each in the
    first view of the origin ring, in [0,1] with v down.

    Raises
    ------
    UsageError
    """
    text = text.strip()
    if "," not in text:
        return (f"support_{int(text)}" if text.isdecimal() and len(text) < 6 else text or "default"), None
    try:
        corners = [tuple(float(n) for n in corner.split(",")) for corner in text.replace(";", " ").split()]
        widths = {len(c) for c in corners}
        if widths == {3}:
            return "polygon", SupportAnnotation(label="given", polygon=corners)
        if widths == {2}:
            return "polygon", SupportAnnotation(label="given", image_polygon=corners)
    except ValidationError as error:
        first = error.errors()[0]
        said = first["msg"].removeprefix("Value error, ")
        corner = next((f"corner {int(k) + 1}: " for k in first["loc"] if isinstance(k, int)), "")
        raise _no_polygon(corner + said) from None
    except ValueError as error:
        raise _no_polygon(str(error)) from None
    raise UsageError("mixes corners of different length", where="--support",
                     todo="Write all as x,y,z in the file's frame, or all as u,v in the first view")


def _no_polygon(why: str) -> UsageError:
    return UsageError(f"is no polygon: {why[:120]}", where="--support",
                      todo="Write at least three corners x,y,z, or u,v in [0,1]")


def place_on_world(path: Path, options: PlaceOptions, progress: Progress | None = None) -> PlaceResult:
    """Import and anchor a world as ``run`` does, and try the body on the chosen support.

    Raises
    ------
    InputError, UsageError : the world, the case or an option is at fault.
    BackendUnavailableError, SimulationError : no PyBullet, or it failed.
    """
    from spatialbench.renderers.raycast import MeshRayCaster
    from spatialbench.scene import load_scene
    from spatialbench.world import build_world
    from spatialbench.world.collision import true_facing

    tell: Progress = progress or (lambda label, done, total: None)
    prepare()
    choice, polygon = parse_support(options.support)
    protocol = load_protocol(options.protocol, options.settings)
    settings = protocol.placement
    placed = read_object(options.object, settings, options.mass, options.object_up)
    given = None if options.case is None else load_case(options.case)
    case = _with_support(given, choice, polygon)
    tell("reading the world", 0, 0)
    scene = load_scene(path, **options.reading.with_case(given, options.case).as_arguments())
    world = build_world(scene, protocol, case, options.frame, progress=tell)
    supports = _chosen(world.supports, choice)
    mesh, seen = world.collision.mesh, true_facing(world.collision)
    vertices = np.zeros((0, 3)) if mesh is None else mesh.vertices
    faces = np.zeros((0, 3), np.int64) if mesh is None else mesh.faces.astype(np.int64)
    base = PlaceResult(path, placed, settings, vertices, faces, None, supports, (), {}, settings.reference,
                       "measured", "", None, world.warnings, world)
    if mesh is None or seen is None or not supports or not world.has_scale:
        return _ruled(base, world, protocol, given, choice)
    rays = MeshRayCaster(seen.vertices, seen.faces)
    tell("looking for places", 0, 0)
    planned = tuple(plan_trials(supports[0], rays, settings, None if placed.benchmark else placed))
    results = run_plan(mesh.vertices, mesh.faces, supports[0], planned, settings, raycaster=rays,
                       placed=placed, workers=options.workers, record=RECORD if options.record else 0,
                       progress=lambda done, total: tell(f"dropping the {placed.name}", done, total))
    done = replace(base, boundary=Boundary.of(supports[0]), planned=planned, raycaster=rays,
                   shown=seen.faces.astype(np.int64),
                   results={k: tuple(v) for k, v in results.items()})
    return _ruled(done, world, protocol, given, choice)


def place_by_file(path: Path, trials: Path, options: PlaceOptions, progress: Progress | None = None) -> PlaceResult:
    """Make the explicit releases of a file on a mesh that is neither anchored nor scaled.

    Raises
    ------
    InputError, UsageError : the mesh, the file or an option is at fault.
    BackendUnavailableError, SimulationError : no PyBullet, or it refuses the mesh.
    """
    from spatialbench.renderers.raycast import MeshRayCaster
    from spatialbench.scene import load_scene
    from spatialbench.world.collision import sky_materials

    tell: Progress = progress or (lambda label, done, total: None)
    prepare()
    if options.support or options.case is not None or options.frame != FrameOverrides():
        raise UsageError("the file of trials fixes frame, support and releases", where="--trials",
                         todo="Leave out --support, --case and the options of the frame")
    if options.reading.max_splats is not None:
        raise UsageError("the file of trials is for a mesh, and of splats nothing is read", where="--max-splats",
                         todo="Leave it out")
    protocol = load_protocol(options.protocol, options.settings)
    asked = read_trials(trials, protocol.placement)
    placed = read_object(options.object, asked.settings, options.mass, options.object_up)
    tell("reading the mesh", 0, 0)
    mesh = load_scene(path, **options.reading.as_arguments()).mesh
    if mesh is None:
        raise UnsupportedFormatError("holds splats and no surface", where=str(path),
                                     todo="Give a mesh with --trials, or leave --trials out")
    notes = list(asked.notes)
    if asked.mesh and path.name not in (PurePosixPath(asked.mesh).name, PureWindowsPath(asked.mesh).name):
        notes.append(f"the trials were made for '{asked.mesh[:80]}'")
    sky = np.isin(mesh.material_ids, sky_materials(mesh))
    if sky.any():
        mesh = mesh.select(~sky)
        notes.append(f"{int(sky.sum())} faces of the sky are no obstacle")
    vertices, faces = to_z_up(mesh.vertices, asked.up, asked.unit_m), mesh.faces.astype(np.int64)
    rays = MeshRayCaster(vertices, faces)
    results = run_trials(vertices, faces, asked.releases, asked.boundary, asked.settings, placed=placed, raycaster=rays,
                         workers=options.workers, record=RECORD if options.record else 0,
                         progress=lambda done, total: tell(f"dropping the {placed.name}", done, total))
    answered = [r.success for r in results if not r.error]
    failed = len(results) - len(answered)
    return PlaceResult(path, placed, asked.settings, vertices, faces, asked.boundary, (), (),
                       {"given": tuple(results)}, "given", "invalid" if failed else "measured",
                       f"the simulator failed in {failed} of {len(results)} trials" if failed else "",
                       None if failed else sum(answered) / len(answered), tuple(notes), None, rays)


def _with_support(case: SnapshotCase | None, choice: str, polygon: SupportAnnotation | None) -> SnapshotCase | None:
    """The case that says what the user says about the support."""
    named = case is not None and case.support is not None
    if choice == "case" and not named:
        raise UsageError("no case names a support", where="--support case", todo="Give one with --case")
    if polygon is not None:
        return (case or SnapshotCase(id="place")).model_copy(update={"support": polygon})
    if named and choice not in ("default", "case"):
        assert case is not None
        return case.model_copy(update={"support": None})
    return case


def _chosen(supports: Sequence[Support], choice: str) -> tuple[Support, ...]:
    """The supports, the chosen one first; none for ``none``."""
    if choice == "none":
        return ()
    if choice == "polygon":  # to the world it was a case's
        return tuple(replace(s, source="user") if s.source == "case" else s for s in supports)
    if choice in ("default", "case", "found"):
        return tuple(supports)
    mine = [s for s in supports if s.id == choice]
    if not mine:
        there = f"found are {', '.join(s.id for s in supports[:12])}" if supports else "none was found"
        raise UsageError(f"no support '{choice[:60]}'; {there}", where="--support",
                         todo="Write one of those, found, case, none, or the corners of a polygon")
    return (mine[0], *(s for s in supports if s is not mine[0]))


def _ruled(result: PlaceResult, world: World, protocol: Protocol, case: SnapshotCase | None,
           choice: str) -> PlaceResult:
    """The result with what M25's own rules say about it; the share of another body gets the same."""
    if choice == "none":
        return replace(result, status="inapplicable", reason="no support was to be looked at")
    gated = invalidated(Observations(Context(protocol, {"main": world}, case, "place", "local")), GATES)
    if gated is not None:
        return replace(result, status=gated.status.value, reason=gated.reason)
    ruling = without_trials(mesh=world.collision.mesh is not None, scale=world.has_scale,
                            support=bool(result.supports), annotated=world.support_annotated)
    ruling = ruling or tabletop_ready_rate([r.success for r in result.counted])
    return replace(result, status=ruling.status.value, score=ruling.value, reason=ruling.reason)
