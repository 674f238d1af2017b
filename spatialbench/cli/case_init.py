"""``spatialbench case``: begin a case from what is found in a world, and list the keys of cases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spatialbench.cli.options import frame_options
from spatialbench.cli.progress import progress_line
from spatialbench.types.words import one_line

if TYPE_CHECKING:
    from spatialbench.types import Decision, Support, World
    from spatialbench.world import FrameOverrides

__all__ = ["case", "case_text"]

_SUPPORTS = 12
_CORNERS = 24
_SIMPLER = (0.005, 0.01, 0.02, 0.05)
"""Tolerances tried in turn for outlines with more corners, m."""
_COLUMN = 108


@click.group()
def case() -> None:
    """Work on cases: files that say what was asked of a world or a clip."""


@case.command()
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables of the documentation.")
@click.argument("kind", required=False)
def keys(kind: str | None, as_markdown: bool) -> None:
    """List the keys of all kinds of cases and of suites, or of KIND."""
    from spatialbench.cli.case_keys import markdown, print_keys

    if as_markdown:
        click.echo(markdown(kind), nl=False)
    else:
        print_keys(kind)


@case.command()
@click.argument("world", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path, allow_dash=True),
              help="Case file, or - for the terminal [default: WORLD.case.yaml in this folder].")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--protocol", default="happyworld-spatial-1", show_default=True,
              help="Packaged protocol or YAML file: its rules for camera, scale and supports are used.")
@frame_options(scale=False)
def init(world: Path, out: Path | None, force: bool, protocol: str, frame: FrameOverrides) -> None:
    """Import and anchor WORLD, and write what was found (camera, up, unit, supports) as a case to edit.

    Nothing is measured. All is in the file's own frame and unit, so that the case gives the same anchoring.
    """
    from spatialbench.errors import UsageError
    from spatialbench.runs.cache import ensure_kernel_cache
    from spatialbench.runs.store import write_text
    from spatialbench.scene import load_scene
    from spatialbench.types import load_protocol
    from spatialbench.world import build_world

    id = _id(world)
    to_terminal = out is not None and str(out) == "-"
    path = out if out is not None else Path(f"{id}.case.yaml")
    if not to_terminal and not path.parent.is_dir():
        raise UsageError("no such folder", where=str(path.parent), todo="Make it first, or choose another with -o")
    if not to_terminal and path.is_dir():
        raise UsageError("is a folder", where=str(path), todo="Give the name of a file with -o")
    if not to_terminal and path.exists() and not force:
        raise UsageError("is there already", where=str(path),
                         todo="Choose another with -o, or replace it with --force")
    rules = load_protocol(protocol)
    ensure_kernel_cache()
    with progress_line(not to_terminal) as tell:
        tell("reading the world", 0, 0)
        built = build_world(load_scene(world), rules, None, frame, progress=tell)
    text = case_text(built, id, world.name)
    if to_terminal:
        click.echo(text, nl=False)
    else:
        write_text(path, text)
        click.echo(f"{len(built.supports)} supports found; {'; '.join(_summary(built))}")
        click.echo(f"case: {path}")
    for warning in built.warnings:
        click.echo(f"warning: {warning}", err=to_terminal)


def case_text(world: World, id: str, name: str) -> str:
    """The case file (YAML with comments) that anchors the same file in the same way.

    Parameters
    ----------
    world : anchored; its first support becomes the case's own, the others comments.
    id : of the case.
    name : of the world file, for the first line.
    """
    d = world.decisions
    lines = [f"# What was found in {one_line(name)}, as a case to edit: correct what is wrong, add what was asked.",
             "# Coordinates are in the world file's own frame and unit.", "kind: snapshot", f"id: {json.dumps(id)}", "",
             "# text: The scene description that the world was generated from.",
             "# image: input.png   # relative to this file",
             "# categories: [table, lamp]   # what was asked for",
             "# objects: [{id: lamp, text: the brass lamp on the table}]   # looked at from all sides",
             "# profile: marble   # conventions of what wrote the world; below what is said here", ""]
    lines += _said("Up", d.get("up"))
    lines.append(f"up: {_axis(d['up'].value)}")
    lines += ["", *_said("Metres per unit", d.get("unit"))]
    unit = d["unit"].value if "unit" in d else None
    lines.append("# unit_m: 1.0" if unit is None else f"unit_m: {_number(unit)}")
    if world.splats is not None:
        opacity = d.get("opacity")
        told = opacity is not None and opacity.source in ("user", "case", "profile")
        lines += ["", *_said("Opacities", opacity)]
        lines.append(f"opacity: {opacity.value}" if told and opacity is not None else
                     "# opacity: activated   # where splats store opacities as they are")
    lines += ["", *_said("Initial camera", d.get("camera"))]
    camera = d["camera"].value
    lines += ["camera:", f"  position: {_vector(camera['position'])}", f"  forward: {_vector(camera['forward'])}", ""]
    lines += list(_supports(world))
    return "\n".join(lines) + "\n"


def _supports(world: World) -> Iterator[str]:
    if not world.supports:
        yield "# No support was found. To have plates put on one, give its corners:"
        yield "# support: {label: table, polygon: [[0, 0.7, 0], [1, 0.7, 0], [1, 0.7, 1], [0, 0.7, 1]]}"
        return
    yield f"# {len(world.supports)} supports were found; plates are put on this one, the largest."
    for k, support in enumerate(world.supports[:_SUPPORTS]):
        mark = "" if k == 0 else "# "
        if k == 1:
            yield ""
            yield "# The others, to be chosen instead:"
        area = f"{support.area:.2f} m2, {support.height - world.ground_z:.2f} m above the ground"
        yield f"{mark}support:   # {area}"
        yield f"{mark}  label: {json.dumps(support.id)}"
        yield f"{mark}  polygon:"
        for corner in _corners(world, support):
            yield f"{mark}    - {_vector(corner, 7)}"
    if len(world.supports) > _SUPPORTS:
        yield f"# {len(world.supports) - _SUPPORTS} smaller ones are left out."


def _corners(world: World, support: Support) -> list[list[float]]:
    """Outline of a support in the file's frame, with few corners."""
    import numpy as np
    import shapely

    outline = shapely.Polygon(support.boundary)
    shape = outline
    for tolerance in _SIMPLER:
        if len(shape.exterior.coords) - 1 <= _CORNERS:
            break
        simpler = outline.simplify(tolerance)
        shape = simpler if simpler.geom_type == "Polygon" and not simpler.is_empty else shape
    xy = np.array(shape.exterior.coords)[:-1]
    a, b, c = support.plane
    points = np.column_stack([xy, xy @ [a, b] + c])
    back = np.linalg.inv(world.transform)
    out: list[list[float]] = (points @ back[:3, :3].T + back[:3, 3]).tolist()
    return out


def _said(what: str, decision: Decision | None) -> list[str]:
    if decision is None:
        return []
    by = "nobody says" if decision.source == "none" else f"by {decision.source}, confidence {decision.confidence:.2f}"
    text = one_line(f"{what}: {by}" + (f"; {decision.note}" if decision.note else ""))
    lines, line = [], "#"
    for word in text.split(" "):
        if len(line) + 1 + len(word) > _COLUMN and line != "#":
            lines.append(line)
            line = "#  "
        line += f" {word}"
    return [*lines, line]


def _summary(world: World) -> Iterator[str]:
    for name in ("up", "unit", "camera"):
        if name in world.decisions:
            yield f"{name} by {world.decisions[name].source}"


def _axis(value: list[float]) -> str:
    main = max(range(3), key=lambda k: abs(value[k]))
    if all(x == 0 for k, x in enumerate(value) if k != main):
        return json.dumps(("+" if value[main] > 0 else "-") + "XYZ"[main])
    return _vector(value)


def _vector(values: Any, digits: int = 12) -> str:
    return "[" + ", ".join(_number(v, digits) for v in values) + "]"


def _number(value: float, digits: int = 12) -> str:
    """Digits enough that nothing moves: 12 for what anchors, 7 (micrometres in a room) for outlines."""
    short = float(f"{float(value):.{digits}g}")
    text = repr(short + 0.0)
    # YAML reads an exponent as a number only after a decimal point.
    return text if "e" not in text or "." in text.partition("e")[0] else text.replace("e", ".0e")


def _id(world: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", world.name.split(".")[0]).strip("-._")[:100] or "world"
