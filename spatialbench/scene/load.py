"""Loading a world: sniff, read, clean, report."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spatialbench.errors import CorruptInputError
from spatialbench.scene.clean import clean
from spatialbench.scene.folder import WorldFolder, main_file
from spatialbench.scene.gltf import read_gltf
from spatialbench.scene.log import ReadLog, Soup
from spatialbench.scene.obj import read_obj
from spatialbench.scene.ply import read_ply
from spatialbench.scene.sidecar import read_side_car
from spatialbench.scene.sniff import READABLE, Sniffed, refuse, sniff
from spatialbench.scene.splats import SPLAT_KINDS, load_splats
from spatialbench.scene.stl import read_stl
from spatialbench.types import ImportReport, Material, Scene, TriangleMesh

__all__ = ["LARGEST_PLAUSIBLE", "PRIORS", "load_scene"]

_Y, _Z = (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
PRIORS: dict[str, tuple[tuple[float, float, float], float | None]] = {
    "glb": (_Y, 1.0), "gltf": (_Y, 1.0), "obj": (_Y, None), "ply": (_Y, None), "stl": (_Z, None)}
"""Up axis and metres per unit that the convention of each format gives (design, section 7)."""
_SUFFIXES = {"splat-ply": ("ply",), "sog": ("sog", "json", "zip")}
LARGEST_PLAUSIBLE = 1000.0
"""Metres: a world that is larger is warned about; a thousandth of it is a room."""


def load_scene(path: Path) -> Scene:
    """Read a world file of any supported format, told by its content.

    Meshes (glTF, GLB, OBJ, PLY, STL) come with their scene graph flattened, splats (3DGS PLY, compressed PLY, SPZ,
    .splat, SOG) with activated values. Both are in the file's own frame and unit. Everything that was repaired or
    ignored is in the report. Anchoring decides on the frame; nothing is decided here.

    Raises
    ------
    MissingInputError : the file, or a file that its geometry needs, is not there; or a folder was given.
    UnsupportedFormatError : something else than a world that can be read; the message says what it is.
    CorruptInputError : cut off, out-of-range indices, vertices that are not finite, and the like.
    EmptyWorldError : no face with an area, no splat that can be drawn.
    """
    path = main_file(Path(path))
    found = sniff(path)
    if found.kind not in READABLE:
        raise refuse(found, path)
    log = ReadLog(format=found.kind)
    suffix = path.suffix.lower().lstrip(".")
    if suffix and suffix not in _SUFFIXES.get(found.kind, (found.kind,)):
        log.warn(f"the file is named '.{suffix}' but holds {found.label}, and is read as that")
    folder = WorldFolder(path, log)
    where = str(path)
    try:
        with np.errstate(all="ignore"):  # bad numbers are looked for and named; NumPy need not warn of them too
            if found.kind in SPLAT_KINDS:
                return load_splats(found.kind, path, folder, log)
            soup = _read(found, folder, log, where)
            side = read_side_car(folder, soup.cameras, log)
            mesh = clean(soup, log, where)
    except MemoryError:
        raise CorruptInputError("needs more memory than there is", where=where, todo="Simplify the world") from None
    report = _report(mesh, log)
    up, unit = PRIORS[found.kind]
    return Scene(path=path, mesh=mesh, prior_up=np.array(up), prior_unit_m=unit, report=report, side=side)


def _read(found: Sniffed, folder: WorldFolder, log: ReadLog, where: str) -> Soup:
    data = folder.read_main()
    if found.kind in ("glb", "gltf"):
        return read_gltf(data, folder, log, where)
    if found.kind == "obj":
        return read_obj(data, folder, log, where)
    if found.kind == "ply":
        return read_ply(data, folder, log, where)
    return read_stl(data, log, where)


def _report(mesh: TriangleMesh, log: ReadLog) -> ImportReport:
    bounds = np.stack([mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)])  # faces use all of them
    extent = float((bounds[1] - bounds[0]).max())
    if extent > LARGEST_PLAUSIBLE:
        log.warn(f"the world is {extent:g} units long: not plausible for metres, it looks like millimetres "
                 "(set the scale, 0.001 for millimetres)")
    return ImportReport(
        kind="mesh", format=log.format, files=log.files, n_vertices=len(mesh.vertices), n_faces=len(mesh.faces),
        n_materials=len(mesh.materials), n_textures=log.n_textures, has_color=_has_color(mesh),
        brings_lights=log.brings_lights, bounds=bounds.tolist(), repairs=list(log.repairs.values()),
        warnings=log.warnings, details=log.details)


def _has_color(mesh: TriangleMesh) -> bool:
    """Textures, vertex colours or materials of more than one colour."""
    def tint(m: Material) -> tuple[float, ...]:
        return (*m.base_color, *m.emissive)

    painted = mesh.colors is not None and bool((mesh.colors != mesh.colors[0, 0]).any())
    return (painted or any(m.texture is not None for m in mesh.materials)
            or len({tint(m) for m in mesh.materials}) > 1)
