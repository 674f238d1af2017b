"""Loading a world: sniff, read, clean, report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, InputError, UnsupportedFormatError
from spatialbench.scene.blocks import box, quantiles
from spatialbench.scene.checks import check_mesh, check_splats
from spatialbench.scene.clean import clean
from spatialbench.scene.draco import read_drc
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.gltf import read_gltf
from spatialbench.scene.images import UndecodedTextureError
from spatialbench.scene.layers import LAYERS_UP, read_layers
from spatialbench.scene.log import ReadLog, Soup
from spatialbench.scene.obj import read_obj
from spatialbench.scene.off import read_off
from spatialbench.scene.pair import join_pair
from spatialbench.scene.ply import read_ply
from spatialbench.scene.sidecar import WorldBox, read_side_car, read_side_cars
from spatialbench.scene.sky import without_sky
from spatialbench.scene.sniff import READABLE, Sniffed, refuse, sniff
from spatialbench.scene.splats import SPLAT_KINDS, judge, load_splats, report_splats, thin
from spatialbench.scene.stl import read_stl
from spatialbench.scene.threemf import read_3mf
from spatialbench.scene.usd import read_usd
from spatialbench.scene.world_files import WorldFiles, other_worlds, world_files
from spatialbench.types import ImportReport, Material, Scene, SideCar, TriangleMesh

__all__ = ["LARGEST_PLAUSIBLE", "PRIORS", "TOO_LONG", "load_scene"]

_Y, _Z = (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
PRIORS: dict[str, tuple[tuple[float, float, float], float | None]] = {
    "glb": (_Y, 1.0), "gltf": (_Y, 1.0), "obj": (_Y, None), "ply": (_Y, None), "off": (_Y, None), "stl": (_Z, None),
    "3mf": (_Z, 0.001), "drc": (_Y, None), "usd": (_Y, 0.01)}
"""Up axis and metres per unit that the convention of each format gives (design, section 7)."""
_WITH_OTHERS = {"glb": read_gltf, "gltf": read_gltf, "obj": read_obj, "ply": read_ply}
_ALONE = {"off": read_off, "drc": read_drc, "3mf": read_3mf, "stl": read_stl}
"""Readers by format: those of worlds that may refer to other files, and the others."""
_SUFFIXES = {"usd": ("usd", "usda", "usdc", "usdz"), "splat-ply": ("ply",), "sog": ("sog", "json", "zip")}
LARGEST_PLAUSIBLE = 1000.0
"""Metres: a world that is larger is warned about; a thousandth of it is a room."""
TOO_LONG = "not plausible for metres"
"""In that warning, which is of no use where somebody has said the unit."""


_VISIBLE, _BULK, _SAMPLE = 0.2, (0.01, 0.99), 200_000


@dataclass(frozen=True)
class _Sides:
    """Where side-cars come from: those that are given, else what lies beside the world's files."""

    files: WorldFiles
    given: tuple[Path, ...] = ()


def load_scene(path: Path, max_splats: int | None = None, side_cars: Sequence[Path] = (),
               drop_outliers: bool = False) -> Scene:
    """Read a world of any supported format, told by its content.

    Meshes (glTF, GLB, OBJ, PLY, STL, OFF, 3MF, Draco, USD) come with their scene graph flattened, splats (3DGS PLY,
    compressed PLY, SPZ, .splat, KSPLAT, SOG, also inside of glTF) with activated values. Both are in the file's own
    frame and unit. Everything that was repaired or ignored is in the report. Anchoring decides on the frame; nothing is
    decided here. For folders, layers and colliders see :func:`~spatialbench.scene.world_files.world_files`.

    Of more than ``max_splats`` splats a part is read, chosen by a fixed rule and spread evenly over the file.
    ``side_cars`` are files that say something about the frame; without any, those beside the world are looked for by
    their names (docs/sidecars.md). Outliers are reported, and left out where ``drop_outliers`` asks for it.

    Raises
    ------
    InputError, UsageError : one of ``side_cars`` cannot be used; one that was only found is a warning.
    MissingInputError : the file, or a file that its geometry needs, is not there; or a folder that is no one world.
    UnsupportedFormatError : something else than a world that can be read; the message says what it is.
    CorruptInputError : cut off, out-of-range indices, vertices that are not finite, and the like.
    EmptyWorldError : no face with an area, no splat that can be drawn.
    UsageError : ``max_splats`` is less than 1.
    """
    files = world_files(Path(path))
    sides = _Sides(files, tuple(Path(p) for p in side_cars))
    if files.layers:
        return _load_layers(files, sides, drop_outliers)
    scene = _load_file(files.main, max_splats, sides, drop_outliers)
    if files.collider is None:
        return scene
    try:
        collider = _load_file(files.collider, drop_outliers=drop_outliers)
    except InputError as e:
        scene.report.warnings.append(f"the collider '{files.collider.name}' is not used: it {e.what}")
        return scene
    return join_pair(scene, collider)


def _load_layers(files: WorldFiles, sides: _Sides, drop_outliers: bool) -> Scene:
    log = ReadLog(format="ply")
    if files.left_out:
        log.warn(f"beside the layers, {', '.join(files.left_out[:8])} in the folder is not read")
    if files.missing:
        numbers = ", ".join(map(str, files.missing[:8])) + (", ..." if len(files.missing) > 8 else "")
        log.warn(f"of the layers, {'number' if len(files.missing) == 1 else 'numbers'} {numbers} "
                 f"{'is' if len(files.missing) == 1 else 'are'} not there, though later ones are: part of the world "
                 "may be missing")
    folder = WorldFolder(files.main, log)

    def read() -> Soup:
        soup = read_layers(files.layers, folder, log)
        soup.up = LAYERS_UP
        return soup

    scene = _mesh_scene(files.main, "ply", read, folder, log, str(files.main.parent), sides=sides,
                        drop_outliers=drop_outliers)
    if scene.side.up_source == "file":  # no layer states it: it is what their maker does
        scene = replace(scene, side=replace(scene.side, up_source="profile"))
    return scene


def _load_file(path: Path, max_splats: int | None = None, sides: _Sides | None = None,
               drop_outliers: bool = False) -> Scene:
    """A scene of one file; without ``sides`` nothing beside it is read (a collider takes the frame of its splats)."""
    found = sniff(path)
    if found.kind not in READABLE:
        raise refuse(found, path)
    log = ReadLog(format=found.kind)
    suffix = path.suffix.lower().lstrip(".")
    if suffix and suffix not in _SUFFIXES.get(found.kind, (found.kind,)):
        log.warn(f"the file is named '.{suffix}' but holds {found.label}, and is read as that")
    folder = WorldFolder(path, log)
    where = str(path)
    if found.kind in SPLAT_KINDS:
        with _bounded(where):
            return _with_sides(load_splats(found.kind, path, folder, log, max_splats, drop_outliers), sides)
    return _mesh_scene(path, found.kind, lambda: _read(found, folder, log, where), folder, log, where, max_splats,
                       sides, drop_outliers)


@contextmanager
def _bounded(where: str) -> Iterator[None]:
    try:
        with np.errstate(all="ignore"):  # bad numbers are looked for and named; NumPy need not warn of them too
            yield
    except UndecodedTextureError as e:  # raised where the world's path is not known
        place = e.where if e.where.startswith(where) else f"{where}, {e.where}"
        raise UnsupportedFormatError(e.what, where=place, todo=e.todo) from None
    except MemoryError:
        raise CorruptInputError("needs more memory than there is", where=where, todo="Simplify the world") from None


def _with_sides(scene: Scene, sides: _Sides | None) -> Scene:
    """The scene with what side-cars say of it, and the account of them in its report."""
    if sides is None:
        return scene
    log = ReadLog()
    side = read_side_cars(scene.path, scene.side, _box(scene), log, others=lambda: other_worlds(sides.files),
                          given=sides.given)
    report = scene.report
    known = {(f.name, f.sha256) for f in report.files}
    report = report.model_copy(update={
        "files": [*report.files, *(f for f in log.files if (f.name, f.sha256) not in known)],
        "warnings": [*report.warnings, *log.warnings], "details": {**report.details, **log.details}})
    return replace(scene, side=side, report=report)


def _box(scene: Scene) -> WorldBox:
    return WorldBox(partial(_ends, scene), scene.splats is not None)


def _ends(scene: Scene) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of all but the sky, or of the bulk of visible splats (of at most 200,000, evenly spread over the file)."""
    if scene.splats is None:
        mesh = None if scene.mesh is None else without_sky(scene.mesh)
        low, high = np.array(scene.report.bounds) if mesh is None or not len(mesh.faces) else box(mesh.vertices)
        return low, high
    bulk = without_sky(scene.splats)
    splats = bulk if len(bulk) else scene.splats
    step = -(-len(splats) // _SAMPLE)
    seen = splats.opacities[::step] > _VISIBLE
    means = splats.means[::step][seen] if seen.any() else splats.means[::step]
    low, high = np.array([quantiles(means[:, k].astype(np.float64), _BULK) for k in range(3)]).T
    offset = np.zeros(3) if splats.offset is None else splats.offset
    return low + offset, high + offset


def _mesh_scene(path: Path, kind: str, read: Callable[[], Soup], folder: WorldFolder, log: ReadLog,
                where: str, max_splats: int | None = None, sides: _Sides | None = None,
                drop_outliers: bool = False) -> Scene:
    with _bounded(where):
        soup = read()
        side = _side(soup, read_side_car(folder, soup.cameras, log))
        splats = mesh = None
        if soup.splats is not None:
            splats = check_splats(judge(thin(soup.splats, max_splats, log), log, where), log, drop_outliers, where)
        if len(soup.faces) or splats is None:
            done = clean(soup, log, where)
            mesh = replace(check_mesh(done.mesh, log, drop_outliers, where, done.area, done.welded), lights=soup.lights)
    up, unit = PRIORS[kind]
    reports = [] if mesh is None else [_report(mesh, log)]
    reports += [] if splats is None else [report_splats(splats, log)]
    scene = _with_sides(Scene(
        path=path, mesh=mesh, prior_up=np.array(up), prior_unit_m=unit,
        report=reports[0] if len(reports) == 1 else _report_both(*reports), side=side, splats=splats), sides)
    if mesh is not None:
        _warn_large(mesh, scene.side.unit_m or unit or 1.0, scene.report)
    return scene


def _read(found: Sniffed, folder: WorldFolder, log: ReadLog, where: str) -> Soup:
    if found.kind == "usd":
        return read_usd(folder, log, where)
    if found.kind in _WITH_OTHERS:  # the bytes are handed over, not kept here: a reader may let go of them
        return _WITH_OTHERS[found.kind](folder.read_main(), folder, log, where)
    return _ALONE[found.kind](folder.read_main(), log, where)


def _side(soup: Soup, side: SideCar) -> SideCar:
    """What the side-car says, filled up by what the file itself does."""
    if side.up is None and soup.up is not None:
        side = replace(side, up=soup.up, up_source="file")
    if side.unit_m is None and soup.unit_m is not None:
        side = replace(side, unit_m=soup.unit_m, unit_source="file")
    return side


def _warn_large(mesh: TriangleMesh, unit_m: float, report: ImportReport) -> None:
    seen = without_sky(mesh)
    low, high = box((seen if len(seen.faces) else mesh).vertices)
    extent = float((high - low).max())
    if extent * unit_m > LARGEST_PLAUSIBLE:
        report.warnings.append(f"the world is {extent:g} units long: {TOO_LONG}, it looks like "
                               "millimetres (if so, say --unit 0.001, or --scale 0.001 to 'convert')")


def _report(mesh: TriangleMesh, log: ReadLog) -> ImportReport:
    bounds = box(mesh.vertices)  # faces use all of them
    return ImportReport(
        kind="mesh", format=log.format, files=log.files, n_vertices=len(mesh.vertices), n_faces=len(mesh.faces),
        n_materials=len(mesh.materials), n_textures=log.n_textures, has_color=_has_color(mesh),
        brings_lights=log.brings_lights, bounds=bounds.tolist(), repairs=list(log.repairs.values()),
        warnings=log.warnings, details=log.details)


def _report_both(mesh: ImportReport, splats: ImportReport) -> ImportReport:
    """Of a file with a mesh and splats; both were read into one log."""
    ends = np.array([mesh.bounds, splats.bounds])
    bounds = np.stack([ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)])
    return mesh.model_copy(update={"kind": "both", "n_splats": splats.n_splats, "sh_degree": splats.sh_degree,
                                   "has_color": True, "bounds": bounds.tolist(), "decisions": splats.decisions,
                                   "repairs": splats.repairs})


def _has_color(mesh: TriangleMesh) -> bool:
    """Textures, vertex colours or materials of more than one colour."""
    def tint(m: Material) -> tuple[float, ...]:
        return (*m.base_color, *m.emissive)

    painted = mesh.colors is not None and bool((mesh.colors != mesh.colors[0, 0]).any())
    return (painted or any(m.texture is not None for m in mesh.materials)
            or len({tint(m) for m in mesh.materials}) > 1)
