"""``spatialbench place``: plates, or other things, on a support; a table, pictures, a window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spatialbench.cli.options import frame_options, reading_options
from spatialbench.cli.progress import progress_line
from spatialbench.cli.refusal import told_as_json
from spatialbench.cli.say import echo_line, wide_console
from spatialbench.types.words import one_line

if TYPE_CHECKING:
    from spatialbench.runs.place import PlaceResult
    from spatialbench.scene.reading import ReadOptions
    from spatialbench.types import TrialResult
    from spatialbench.world import FrameOverrides

__all__ = ["place"]

_CHOSEN = {"case": "named by the case", "user": "given by --support"}


@click.command()
@click.argument("world", type=click.Path(path_type=Path))
@click.option("--support", default="", metavar="CHOICE",
              help="case, found, the id or rank of a found one (support_2, 2), none, or corners: 'x,y,z x,y,z x,y,z' "
                   "in the file's frame, 'u,v u,v u,v' in the first view [default: the case's, else the largest "
                   "found].")
@click.option("--trials", type=click.Path(path_type=Path), metavar="JSON",
              help="Explicit releases. The mesh is then taken as it is: neither anchored nor scaled.")
@click.option("--object", "object_", default="plate", show_default=True, metavar="NAME|FILE",
              help="plate, mug, book, ball, or a URDF, OBJ or other mesh. All but the plate are not the benchmark's.")
@click.option("--mass", type=click.FloatRange(min=0, min_open=True, max=1e6), metavar="KG",
              help="Mass of an object from a file [default: the URDF's, else 500 kg/m3].")
@click.option("--object-up", type=click.Choice(["y", "z"]),
              help="Up in the file of --object [default: as its format has it].")
@click.option("--case", type=click.Path(path_type=Path), help="What was asked of the world: a YAML file.")
@click.option("--protocol", default="happyworld-spatial-1", show_default=True, help="Packaged protocol or YAML file.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Override one key of the protocol: placement.reference=plane, placement.release=plane_aligned...")
@frame_options()
@reading_options
@click.option("--workers", type=click.IntRange(min=0, max=256), metavar="N",
              help="Processes [default: one a CPU]. 0: this one, which a crash of the simulator would end.")
@click.option("--gui", is_flag=True, help="Open PyBullet's window and play the trials; needs a display.")
@click.option("--video", is_flag=True, help="Write a film of each trial (MP4: H.264 with PyAV, else VP9).")
@click.option("-o", "--out", type=click.Path(path_type=Path),
              help="Folder for pictures and place.json [default: results/WORLD-place; none with --json].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else; a refusal is JSON too.")
def place(world: Path, support: str, trials: Path | None, object_: str, mass: float | None, object_up: str | None,
          case: Path | None, protocol: str, settings: tuple[str, ...], frame: FrameOverrides, reading: ReadOptions,
          workers: int | None, gui: bool, video: bool, out: Path | None, as_json: bool) -> None:
    """Put a plate on a support of WORLD, six times or as a file says, and show what becomes of it."""
    from spatialbench.physics.placement.window import check_display
    from spatialbench.renderers._threads import thread_count
    from spatialbench.renderers.video import film_backend
    from spatialbench.runs.place import PlaceOptions, place_by_file, place_on_world
    from spatialbench.runs.place_files import place_json, write_place
    from spatialbench.runs.store import check_folder

    folder = out if out is not None or as_json else Path("results") / f"{world.name.split('.')[0] or 'world'}-place"
    with told_as_json(as_json), progress_line(not as_json) as tell:
        if folder is not None:
            check_folder(folder)
        if gui:
            check_display()
        if video:
            film_backend()
        options = PlaceOptions(protocol, settings, case, frame, reading, support, object_, mass,
                               object_up, thread_count() if workers is None else workers, video)
        result = (place_on_world(world, options, tell) if trials is None
                  else place_by_file(world, trials, options, tell))
        files = [] if folder is None else write_place(result, folder, video, tell)
    if as_json:
        click.echo(json.dumps({**place_json(result), "files": files}, sort_keys=True))
    else:
        _print(result)
        if folder is not None:
            click.echo(f"results: {folder} ({len(files)} files)")
    if gui and result.boundary is not None and result.counted:
        from spatialbench.physics.placement.window import show_trials

        show_trials(result.vertices, result.faces, result.boundary, result.counted, result.settings, result.placed)


def _print(r: PlaceResult) -> None:
    from rich.console import Console

    if r.supports:
        s = r.supports[0]
        by = _CHOSEN.get(s.source, f"found, 1 of {len(r.supports)}")
        echo_line(f"support: {s.id} ({by}, confidence {s.confidence:.2f}): {s.area:.2f} m2, "
                  f"{s.height - (0.0 if r.world is None else r.world.ground_z):.3f} m above the floor; {s.note}")
    what = "" if r.placed.benchmark else f" - {r.placed.name} ({r.placed.note}): NOT the benchmark's plate"
    if r.counted:
        above = "as given" if r.world is None else f"above the {r.reference.replace('_', ' ')}"
        echo_line(f"released {above}{what}")
        _table(r)
    for p in r.planned:
        if not p.kept:
            echo_line(f"place {p.id} was dropped: {p.reason}")
    total = len(r.counted)
    if r.score is not None and total:
        echo_line(f"{sum(t.success for t in r.counted)} of {total} stay: {r.score:.3f}"
                  + (" (M25)" if r.placed.benchmark and r.world is not None else ""))
    elif r.score is not None:
        echo_line(f"{r.score:g} by rule: {r.reason}")
    if r.score is None:
        echo_line(f"{r.status}: {r.reason}")
    console = Console(highlight=False)
    for warning in r.warnings:
        console.print(f"warning: {one_line(warning)}", style="yellow", markup=False, soft_wrap=True)


def _table(r: PlaceResult) -> None:
    """The trials; only a terminal too narrow for the words of an outcome gets these in several lines."""
    from rich.table import Table

    names = [n for n in r.results if n != r.reference]
    table = Table(box=None, pad_edge=False)
    for head in ("trial", "outcome", "deep\nmm", "drop\nmm", "moved\nmm", "tilt\ndeg", "gap\nmm", "rim\nfree",
                 *(f"above\n{n.removeprefix('footprint_')}" for n in names)):
        words = head == "outcome"
        table.add_column(head, justify="left" if words else "right", no_wrap=not words)
    for k, t in enumerate(r.counted):
        table.add_row(str(t.id), *(one_line(cell) for cell in _row(t)),
                      *("stays" if r.results[n][k].success else "fails" for n in names))
    wide_console().print(table)


def _row(t: TrialResult) -> list[str]:
    if t.error:
        return [t.error, *[""] * 6]
    d: dict[str, Any] = t.diagnostics
    words = "stays" if t.success else ", ".join(reason.replace("_", " ") for reason in t.reasons)
    if d.get("inside_solid"):
        words += " (inside of a solid)"
    fell = "dropped" in t.reasons  # then where it ends means nothing
    return [words, f"{t.initial_penetration * 1000:.1f}", f"{t.drop * 1000:.1f}",
            "" if fell else f"{t.horizontal_displacement * 1000:.1f}", "" if fell else f"{t.tilt_deg:.2f}",
            f"{d['resting_gap'] * 1000:.2f}" if "resting_gap" in d else "",
            f"{d['unsupported_rim_share']:.0%}" if "unsupported_rim_share" in d else ""]
