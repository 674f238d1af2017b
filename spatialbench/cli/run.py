"""``spatialbench run``: one world, from file to page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import click

from spatialbench.cli.options import axis_option, export_options, max_splats_option, read_vector
from spatialbench.cli.progress import progress_line
from spatialbench.types.profile import ExporterProfile

__all__ = ["run"]


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("world", type=click.Path(path_type=Path))
@click.option("--case", "case", type=click.Path(path_type=Path),
              help="What was asked of the world: a YAML file with id, text, camera, up, unit_m, support... (README).")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Result folder [default: results/WORLD].")
@click.option("--protocol", default="happyworld-spatial-1", show_default=True,
              help="Packaged protocol or YAML file; happyworld-spatial-1-fast for a first look.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override one key of the protocol.")
@click.option("--system", default="local", show_default=True, help="Name of what made the world.")
@axis_option("--up", "Up in the file: +Y, -Y, +Z... or x,y,z.")
@click.option("--unit", type=click.FloatRange(min=0, min_open=True), metavar="METRES",
              help="Metres per unit of the file.")
@click.option("--scale", type=click.FloatRange(min=0, min_open=True), metavar="METRES",
              help="Fix the scale to this, instead of the protocol's rule (camera 1.6 m above the floor); "
                   "marks the result.")
@click.option("--camera", callback=read_vector, metavar="X,Y,Z", help="Initial camera, in the file's frame.")
@click.option("--forward", callback=read_vector, metavar="X,Y,Z",
              help="Direction that camera looks in [default: the format's own].")
@export_options
@max_splats_option
@click.option("--no-page", is_flag=True, help="Skip report.html.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON and nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def run(world: Path, case: Path | None, out: Path | None, protocol: str, settings: tuple[str, ...], system: str,
        up: tuple[float, float, float] | None, unit: float | None, scale: float | None,
        camera: tuple[float, float, float] | None, forward: tuple[float, float, float] | None,
        profile: ExporterProfile | None, opacity: Literal["logit", "activated"] | None, max_splats: int | None,
        no_page: bool, as_json: bool, quiet: bool) -> None:
    """Score WORLD (a mesh or Gaussian splats, in any format that is read) and write its folder with report.html.

    Without --case it runs all the same: up, unit and camera come from the file, a side-car or the format,
    and the page says which.
    """
    from spatialbench.report.collect import collect
    from spatialbench.report.page import render_page
    from spatialbench.report.text import terminal_table
    from spatialbench.runs.cache import kernels_compiled
    from spatialbench.runs.single import RunOptions, run_world, write_results
    from spatialbench.runs.store import check_folder
    from spatialbench.world import FrameOverrides

    frame = FrameOverrides(up=up, unit_m=unit, scale=scale, camera_position=camera, camera_forward=forward,
                           profile=profile, opacity=opacity)
    options = RunOptions(protocol=protocol, settings=settings, case=case, system=system, frame=frame,
                         max_splats=max_splats)
    check_folder(out if out is not None else Path("results"))
    if not (quiet or as_json or kernels_compiled()):
        click.echo("The first run on a machine compiles: about half a minute more, once.", err=True)
    with progress_line(not (quiet or as_json)) as tell:
        result = run_world(world, options, tell)
        folder = out if out is not None else Path("results") / result.case_id
        tell("writing the results", 0, 0)
        data = collect(result)
        write_results(result, folder, None if no_page else render_page(data))
    if as_json:
        click.echo(json.dumps(result.summary.model_dump(mode="json"), sort_keys=True))
    elif not quiet:
        from rich.console import Console

        console = Console(highlight=False)
        terminal_table(data.headline, data.metrics, console)
        for warning in result.report.warnings:
            console.print(f"warning: {warning}", style="yellow", markup=False)
        # Plain echo: a path must not be wrapped, or it cannot be clicked or copied.
        click.echo(f"results: {folder}")
        if not no_page:
            click.echo(f"page:    {(folder / 'report.html').resolve()}")
