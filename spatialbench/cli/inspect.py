"""``spatialbench inspect``: what the importer sees, in words, as JSON, and from four sides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from spatialbench.cli.options import axis_option, max_splats_option
from spatialbench.cli.progress import progress_line
from spatialbench.errors import InputError
from spatialbench.types import Decision, Scene

__all__ = ["inspect", "inspection"]


def inspection(scene: Scene, decisions: dict[str, Decision]) -> dict[str, Any]:
    """What the importer saw and decided, JSON types, without the details that only ``import.json`` needs."""
    report = scene.report
    return {"kind": report.kind, "format": report.format, "n_splats": report.n_splats, "sh_degree": report.sh_degree,
            "n_vertices": report.n_vertices, "n_faces": report.n_faces, "n_materials": report.n_materials,
            "n_textures": report.n_textures, "bounds": report.bounds,
            "decisions": {k: d.model_dump(mode="json") for k, d in decisions.items()},
            "repairs": [r.model_dump(mode="json") for r in report.repairs], "warnings": report.warnings,
            "files": [f.model_dump(mode="json") for f in report.files], "details": report.details}


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@axis_option("--up", "Up in the file: +Y, -Y, +Z... or x,y,z.")
@max_splats_option
@click.option("-o", "--out", type=click.Path(path_type=Path),
              help="Folder for inspect.json and the contact sheet [default: nothing is written].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else; a refusal is JSON too.")
def inspect(file: Path, up: tuple[float, float, float] | None, max_splats: int | None, out: Path | None,
            as_json: bool) -> None:
    """Say what FILE is, what was read, repaired and decided, and draw it from four sides."""
    from spatialbench.scene import load_scene
    from spatialbench.world import FrameOverrides
    from spatialbench.world.decide import decide_unit, decide_up

    try:
        with progress_line(not as_json) as tell:
            tell("reading the world", 0, 0)
            scene = load_scene(file, max_splats)
            overrides = FrameOverrides(up=up)
            axis, up_decision = decide_up(scene, None, overrides)
            _, unit_decision = decide_unit(scene, None, overrides)
            found = inspection(scene, {"up": up_decision, "unit": unit_decision})
            if out is not None:
                tell("drawing four sides (the first time on a machine it compiles)", 0, 0)
                _write(out, scene, axis, found)
    except InputError as error:
        if as_json:
            click.echo(json.dumps({"error": {"class": type(error).__name__, "message": str(error),
                                             "where": error.where}}))
        raise
    if as_json:
        click.echo(json.dumps(found))
        return
    _print(file, found)
    if out is not None:
        click.echo(f"sheet:   {(out / 'sheet.png').resolve()}")


def _write(out: Path, scene: Scene, up: Any, found: dict[str, Any]) -> None:
    from PIL import Image

    from spatialbench.report.contact import contact_sheet
    from spatialbench.runs.store import prepare_folder, write_json

    sheet = contact_sheet(scene, up)
    prepare_folder(out)
    Image.fromarray(sheet).save(out / "sheet.png")
    write_json(out / "inspect.json", found)


def _print(file: Path, found: dict[str, Any]) -> None:
    kind, what = found["kind"], []
    if kind in ("splats", "both"):
        what.append(f"{found['n_splats']:,} splats, SH degree {found['sh_degree']}")
    if kind != "splats":
        what.append(f"{found['n_faces']:,} faces, {found['n_vertices']:,} vertices, {found['n_textures']} textures")
    click.echo(f"{file.name}: {found['format']}, {' and '.join(what)}")
    low, high = found["bounds"]
    size = " x ".join(f"{b - a:.3g}" for a, b in zip(low, high, strict=True))
    click.echo(f"bounds:  {[round(x, 4) for x in low]} to {[round(x, 4) for x in high]} ({size} units of the file)")
    for name, d in found["decisions"].items():
        note = f": {d['note']}" if d["note"] else ""
        click.echo(f"{name + ':':<8} {d['value']} by {d['source']}, confidence {d['confidence']:.2f}{note}")
    for r in found["repairs"]:
        click.echo(f"mended:  {r['name']} ({r['count']:,}) {r['note']}".rstrip())
    for w in found["warnings"]:
        click.echo(f"warning: {w}")
