"""``spatialbench inspect``: what the importer sees and decides, in words, as JSON, from four sides and from above."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spatialbench.cli.options import frame_options, reading_options
from spatialbench.cli.progress import progress_line
from spatialbench.cli.refusal import told_as_json

if TYPE_CHECKING:
    from spatialbench.runs.inspection import Inspection
    from spatialbench.scene.reading import ReadOptions
    from spatialbench.world import FrameOverrides

__all__ = ["inspect"]

_SHOWN = 3
"""Candidates for up and camera."""
_HEAD = 10


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--case", "case", type=click.Path(path_type=Path), help="Case file: its frame keys are used.")
@click.option("-o", "--out", type=click.Path(path_type=Path),
              help="Folder for inspect.json and the contact sheet [default: nothing is written].")
@click.option("--protocol", default="happyworld-spatial-1", show_default=True,
              help="Packaged protocol or YAML file: its rules for camera and scale are used.")
@frame_options()
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else; a refusal is JSON too.")
def inspect(file: Path, case: Path | None, out: Path | None, protocol: str, frame: FrameOverrides,
            reading: ReadOptions, as_json: bool) -> None:
    """Say what FILE is, what was read, repaired and decided, and draw it from four sides and from above.

    FILE is read and anchored as by `run`, and nothing is measured. What cannot be anchored, such as a cloud of points,
    is inspected as far as it goes.
    """
    from spatialbench.runs.cache import ensure_kernel_cache
    from spatialbench.runs.inspection import inspect_world
    from spatialbench.runs.store import check_folder
    from spatialbench.types import load_case, load_protocol

    ensure_kernel_cache()
    with told_as_json(as_json):
        rules, asked = load_protocol(protocol), None if case is None else load_case(case)
        if out is not None:
            check_folder(out)
        with progress_line(not as_json) as tell:
            found = inspect_world(file, rules, asked, frame, reading.with_case(asked, case), tell)
            if out is not None:
                tell("drawing it (the first time on a machine it compiles)", 0, 0)
                _write(out, found)
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    for line in _lines(file.name, found.as_json()):
        click.echo(line)
    if out is not None:
        click.echo(f"{'sheet':<{_HEAD}}{(out / 'sheet.png').resolve()}")


def _write(out: Path, found: Inspection) -> None:
    from PIL import Image

    from spatialbench.report.contact import SheetFrame, contact_sheet, splats_of_points
    from spatialbench.runs.store import prepare_folder, write_json

    scene = found.scene
    if found.points is not None:
        geometry: Any = splats_of_points(found.points.positions, found.points.colors)
    else:
        geometry = scene.splats if scene.splats is not None else scene.mesh
    sheet = contact_sheet(geometry, SheetFrame.of(found.up, found.anchoring))
    prepare_folder(out)
    Image.fromarray(sheet).save(out / "sheet.png")
    write_json(out / "inspect.json", found.as_json())


def _lines(name: str, found: dict[str, Any]) -> Iterator[str]:
    """The words, one line for each thing, in two columns."""
    yield f"{name}: {found['format']}, {' and '.join(_contents(found))}"
    low, high = found["bounds"]
    yield _row("bounds", f"{_vector(low)} to {_vector(high)}, {_size(low, high)} units of the file")
    if found["world"] is not None:
        low, high = found["world"]["bounds"]
        unit = "m" if found["scale"]["factor"] is not None else "(no scale)"
        yield _row("world", f"{_size(low, high)} {unit} (right, forward, up), the ground "
                            f"{-found['world']['ground_z']:.3g} m below the camera"
                            f"{' is assumed' if found['world']['ground_assumed'] else ''}")
    width = max(len(_value(k, d["value"])) for k, d in found["decisions"].items() if k != "frame")
    for key, d in found["decisions"].items():
        note = f": {d['note']}" if d["note"] else ""
        by = f"by {d['source']} ({d['confidence']:.2f})"
        yield _row(key, f"{_value(key, d['value']):<{width}}  {by}{note}")
    if found["scale"] is not None:
        s = found["scale"]
        rays = " ".join("-" if d is None else f"{d:.3g}" for d in s["ray_distances"])
        middle = "" if s["median_distance"] is None else f", median {s['median_distance']:.4g}"
        factor = "no scale" if s["factor"] is None else f"{s['factor']:.4g} m a unit"
        yield _row("rays", f"{rays} units down{middle}; by {s['branch']}: {factor}")
    for g in found["gates"]:
        yield _row("gate", f"{'RAISED' if g['raised'] else 'passed'}  {g['name']}: {g['note']}")
    for c in found["estimates"].get("up", [])[:_SHOWN]:
        yield _row("up?", f"{_value('up', c['axis'])}, evidence {c['evidence']:.3g}, enclosed {c['enclosure']:.2f}")
    for c in found["estimates"].get("cameras", [])[:_SHOWN]:
        yield _row("camera?", f"{_vector(c['position'])}, {c['area']:.3g} m2 of floor, enclosed {c['enclosure']:.2f}")
    if found["collision"] is not None:
        c = found["collision"]
        faces = "made by a run" if c["faces"] is None else f"{c['faces']:,} faces"
        yield _row("collision", f"{c['geometry']}, {faces}")
    yield from _surface(found["details"].get("topology"))
    for r in found["repairs"]:
        yield _row("mended", f"{r['name']} ({r['count']:,}) {r['note']}".rstrip())
    for f in found["files"][:_HEAD]:
        yield _row("file", f"{f['name']}, {f['bytes']:,} bytes")
    if len(found["files"]) > _HEAD:
        yield _row("file", f"and {len(found['files']) - _HEAD} more")
    for w in found["warnings"]:
        yield _row("warning:", w)


def _surface(topology: dict[str, int] | None) -> Iterator[str]:
    """What makes a mesh no closed surface; nothing where it is one."""
    if topology is None:
        return
    words = {"boundary_edges": "open", "nonmanifold_edges": "of three faces or more",
             "inconsistent_edges": "of faces wound against each other"}
    odd = [f"{topology[k]:,} {v}" for k, v in words.items() if topology[k]]
    if odd:
        yield _row("edges", f"{', '.join(odd)}, of {topology['edges']:,}")
    if topology["inward_components"]:
        yield _row("wound", f"{topology['inward_components']:,} of {topology['closed_components']:,} closed pieces "
                            "inwards")


def _contents(found: dict[str, Any]) -> Iterator[str]:
    kind = found["kind"]
    if kind in ("splats", "both"):
        yield f"{found['n_splats']:,} splats, SH degree {found['sh_degree']}"
    if kind in ("mesh", "both"):
        yield f"{found['n_faces']:,} faces, {found['n_vertices']:,} vertices, {found['n_textures']} textures"
    if kind == "points":
        yield f"{found['n_vertices']:,} points without faces"


def _row(head: str, text: str) -> str:
    return f"{head:<{_HEAD}}{text}"


def _value(key: str, value: Any) -> str:
    """Short words for the value of a decision."""
    if value is None:
        return "-"
    if key == "up":
        main = max(range(3), key=lambda k: abs(value[k]))
        return ("+" if value[main] > 0 else "-") + "XYZ"[main] if abs(value[main]) > 1 - 1e-9 else _vector(value)
    if isinstance(value, dict):
        return f"{_vector(value['position'])} looking {_vector(value['forward'])}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _vector(values: list[float]) -> str:
    return "(" + ", ".join(f"{round(v, 4) + 0.0:g}" for v in values) + ")"


def _size(low: list[float], high: list[float]) -> str:
    return " x ".join(f"{b - a:.4g}" for a, b in zip(low, high, strict=True))
