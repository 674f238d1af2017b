"""Bodies from files for ``spatialbench place --object``: a URDF, an OBJ, or any other mesh that is read.

Each becomes the convex hull of its collision geometry, one rigid body: on a surface without deep hollows nothing else
of it touches. A URDF's joints stand at zero; its mass and centre of mass are those of its links.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import ConfigError, CorruptInputError, MissingInputError, UsageError
from spatialbench.physics.placement import BUILT_IN, built_in, hull_object
from spatialbench.runs.place_file import to_z_up
from spatialbench.types import PlacedObject, PlacementSettings
from spatialbench.types.case_parts import resolve_reference

__all__ = ["read_object"]

_DEFAULT_DENSITY = 500.0
"""Kilograms per cubic metre of a mesh's hull, when no mass is given: about a hollow household thing."""
_MAX_BYTES = 4 << 20
_MAX_LINKS = 200
_LARGEST = 3.0
_SMALLEST = 0.005
"""Metres: what is larger or smaller is not in metres, or not to be put on a table."""

_UP = {"y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}

Pose = NDArray[np.float64]


def read_object(what: str, settings: PlacementSettings, mass: float | None = None, up: str | None = None
                ) -> PlacedObject:
    """A built-in body by name (``plate``, ``mug``, ``book``, ``ball``), or one from a file.

    A URDF is Z up and in metres; other files are by their format's convention (OBJ: Y up), in metres where the format
    has no unit. The note of the body says which axis was up.

    Parameters
    ----------
    what : name or path.
    mass : kilograms, instead of what the file or its size gives.
    up : ``y`` or ``z``, up in the file, instead of what it or its format says.

    Raises
    ------
    InputError : the file is not there or is no mesh or URDF.
    ConfigError : a URDF that leads out of its folder, or numbers that make no body.
    UsageError : no such built-in; or a body of implausible size.
    SimulationError : a flat or empty body.
    """
    if what in BUILT_IN:
        if mass is not None:
            raise UsageError(f"the mass of '{what}' is fixed", where="--mass", todo="Give a file with --object")
        if up is not None:
            raise UsageError(f"'{what}' lies as it is", where="--object-up", todo="Give a file with --object")
        return built_in(what, settings)
    path = Path(what)
    if not path.is_file():
        if path.suffix or "/" in what:
            raise MissingInputError("no such file", where=what, todo=f"Check the path, or use {', '.join(BUILT_IN)}")
        return built_in(what, settings)  # says which names there are
    if path.suffix.lower() == ".urdf":
        points, found, centre = _read_urdf(path)
        mass = mass or found
        if up == "y":
            points = to_z_up(points, _UP[up], 1.0)
            centre = None if centre is None else to_z_up(centre[None], _UP[up], 1.0)[0]
        note = f"convex hull of a URDF, joints at zero, {_up_words(up or 'z', up, 'URDF')}"
    else:
        points, taken = _mesh_points(path, up)
        centre, note = None, f"convex hull of a mesh, {taken}"
    size = float(np.ptp(points, axis=0).max())
    if not _SMALLEST <= size <= _LARGEST:
        raise UsageError(f"the object measures {size:.3g} m", where=what,
                         todo=f"Give one between {_SMALLEST} and {_LARGEST:g} m; a file without a unit is in metres")
    body = hull_object(path.stem, points, centre, mass or 1.0, settings.plate_friction, note)
    if not mass:
        from scipy.spatial import ConvexHull

        body = hull_object(path.stem, points, centre, float(ConvexHull(points).volume) * _DEFAULT_DENSITY,
                           settings.plate_friction, f"{note}, {_DEFAULT_DENSITY:g} kg/m3")
    return body


def _mesh_points(path: Path, said: str | None) -> tuple[NDArray[np.float64], str]:
    """[N,3] m, Z up, of a mesh file; and which axis of it was up, in words."""
    from spatialbench.scene import load_scene

    scene = load_scene(path)
    if scene.mesh is None:
        raise UsageError("holds no surface", where=str(path), todo="Give a mesh")
    own = scene.side.up if scene.side.up is not None else scene.prior_up
    up = (float(own[0]), float(own[1]), float(own[2])) if said is None else _UP[said]
    unit = scene.side.unit_m or scene.prior_unit_m or 1.0
    axis = int(np.argmax(np.abs(up)))
    name = ("-" if up[axis] < 0 else "") + "xyz"[axis]
    return to_z_up(scene.mesh.vertices, up, unit), _up_words(name, said, "" if scene.side.up is not None
                                                             else scene.report.format)


def _up_words(axis: str, said: str | None, convention: str) -> str:
    by = ("by --object-up" if said is not None else f"as {convention} files are by convention" if convention
          else "by the file")
    return f"{axis.upper()} up {by}"


def _read_urdf(path: Path) -> tuple[NDArray[np.float64], float | None, NDArray[np.float64] | None]:
    """(points of all collision geometry, mass, centre of mass) in the root link's frame."""
    root = _xml(path)
    links = {str(e.get("name")): e for e in root.findall("link")}
    if not 0 < len(links) <= _MAX_LINKS:
        raise ConfigError(f"has {len(links)} links, 1 to {_MAX_LINKS} are taken", where=str(path),
                          todo="Give the URDF of one object")
    poses = _link_poses(root, links, path)
    points, masses, centres = [], [], []
    for name, link in links.items():
        shapes = link.findall("collision") or link.findall("visual")
        for shape in shapes:
            geometry = shape.find("geometry")
            if geometry is not None and len(geometry):
                here = poses[name] @ _origin(shape, path)
                points += [p @ here[:3, :3].T + here[:3, 3] for p in _geometry(geometry[0], path)]
        inertial = link.find("inertial")
        value = None if inertial is None else inertial.find("mass")
        if inertial is not None and value is not None:
            (m,) = _numbers(value.get("value"), 1, path)
            if m > 0:
                masses.append(m)
                centres.append((poses[name] @ _origin(inertial, path))[:3, 3])
    if not points:
        raise ConfigError("has no collision and no visual geometry", where=str(path), todo="Give it a shape")
    if not masses:
        return np.vstack(points), None, None
    weights = np.array(masses)
    return np.vstack(points), float(weights.sum()), np.array(centres).T @ weights / weights.sum()


def _xml(path: Path) -> ET.Element:
    try:
        data = path.read_bytes() if path.stat().st_size <= _MAX_BYTES else None
    except OSError as error:
        raise MissingInputError(f"cannot be read ({error.strerror})", where=str(path), todo="Check it") from None
    if data is None:
        raise ConfigError("is larger than 4 MiB, which no URDF of an object is", where=str(path), todo="Check the file")
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data or b"\x00" in data:
        raise ConfigError("declares entities, which are not read", where=str(path), todo="Remove its DOCTYPE")
    try:
        root = ET.fromstring(data)
    except (ET.ParseError, ValueError, RecursionError) as error:
        raise CorruptInputError(f"is not valid XML: {error}", where=str(path), todo="Correct it") from None
    if root.tag != "robot":
        raise ConfigError(f"is XML, but no URDF: its root is <{root.tag[:40]}>", where=str(path), todo="Give a URDF")
    return root


def _link_poses(root: ET.Element, links: dict[str, ET.Element], path: Path) -> dict[str, Pose]:
    """[4,4] of each link in the root link, all joints at zero."""
    parents: dict[str, tuple[str, Pose]] = {}
    for joint in root.findall("joint"):
        parent, child = joint.find("parent"), joint.find("child")
        if parent is None or child is None:
            continue
        parents[str(child.get("link"))] = (str(parent.get("link")), _origin(joint, path))
    out: dict[str, Pose] = {}
    for name in links:
        pose, at, steps = np.eye(4), name, 0
        while at in parents:
            at, origin = parents[at]
            pose, steps = origin @ pose, steps + 1
            if steps > len(links) or at not in links:
                raise ConfigError(f"the joints above the link '{name:.60}' lead nowhere or in a circle",
                                  where=str(path), todo="Correct the URDF")
        out[name] = pose
    return out


def _geometry(shape: ET.Element, path: Path) -> Iterator[NDArray[np.float64]]:
    """Points whose hull is the shape's."""
    a = 2 * math.pi * np.arange(64) / 64
    if shape.tag == "box":
        e = np.array(_numbers(shape.get("size"), 3, path)) / 2
        yield np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * e
    elif shape.tag == "cylinder":
        (r,), (h,) = _numbers(shape.get("radius"), 1, path), _numbers(shape.get("length"), 1, path)
        for z in (-h / 2, h / 2):
            yield np.column_stack([r * np.cos(a), r * np.sin(a), np.full(64, z)])
    elif shape.tag == "sphere":
        (r,) = _numbers(shape.get("radius"), 1, path)
        for t in np.linspace(-math.pi / 2, math.pi / 2, 33).tolist():
            yield r * np.column_stack([np.cos(a) * math.cos(t), np.sin(a) * math.cos(t), np.full(64, math.sin(t))])
    elif shape.tag == "mesh":
        yield _urdf_mesh(shape, path)
    else:
        raise ConfigError(f"has the geometry <{shape.tag[:40]}>", where=str(path),
                          todo="Use box, cylinder, sphere or mesh")


def _urdf_mesh(shape: ET.Element, path: Path) -> NDArray[np.float64]:
    """Vertices of a mesh file in the URDF's folder or below, taken as they are (URDF: Z up, metres)."""
    from spatialbench.scene import load_scene
    from spatialbench.types.case_parts import check_relative

    name = str(shape.get("filename", "")).removeprefix("package://").removeprefix("file://")
    try:
        check_relative(name)
    except ValueError as error:
        raise ConfigError(f"the mesh '{name:.100}' {error}", where=str(path), todo="Put it beside the URDF") from None
    scene = load_scene(resolve_reference(name, path.parent, path.parent, f"{path}, mesh"))
    if scene.mesh is None:
        raise ConfigError(f"'{name:.100}' holds no surface", where=str(path), todo="Give a mesh")
    scale = np.array(_numbers(shape.get("scale", "1 1 1"), 3, path))
    return scene.mesh.vertices * scale


def _origin(element: ET.Element, path: Path) -> Pose:
    """[4,4] of its ``origin``: xyz in metres, then roll, pitch and yaw about fixed axes."""
    origin = element.find("origin")
    out = np.eye(4)
    if origin is None:
        return out
    out[:3, 3] = _numbers(origin.get("xyz", "0 0 0"), 3, path)
    r, p, y = _numbers(origin.get("rpy", "0 0 0"), 3, path)
    cr, sr, cp, sp, cy, sy = math.cos(r), math.sin(r), math.cos(p), math.sin(p), math.cos(y), math.sin(y)
    out[:3, :3] = [[cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
                   [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr], [-sp, cp * sr, cp * cr]]
    return out


def _numbers(text: str | None, count: int, path: Path) -> list[float]:
    try:
        out = [float(t) for t in (text or "").split()]
    except ValueError:
        out = []
    if len(out) != count or not all(math.isfinite(x) and abs(x) < 1e6 for x in out):
        raise ConfigError(f"'{(text or '')[:60]}' is not {count} finite numbers", where=str(path),
                          todo="Correct the URDF")
    return out
