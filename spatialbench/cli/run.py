"""``spatialbench run``: one world, from file to page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spatialbench.cli.options import frame_options, reading_options
from spatialbench.cli.progress import progress_line
from spatialbench.cli.scoring_options import scoring_options

if TYPE_CHECKING:
    from spatialbench.runs.scoring import Scoring
    from spatialbench.scene.reading import ReadOptions
    from spatialbench.world import FrameOverrides

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
@frame_options()
@reading_options
@scoring_options
@click.option("--no-page", is_flag=True, help="Skip report.html.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON and nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def run(world: Path, case: Path | None, out: Path | None, protocol: str, settings: tuple[str, ...], system: str,
        frame: FrameOverrides, reading: ReadOptions, scoring: Scoring, no_page: bool, as_json: bool,
        quiet: bool) -> None:
    """Score WORLD (a mesh or Gaussian splats, in any format that is read) and write its folder with report.html.

    Without --case it runs all the same: up, unit and camera come from the file, a side-car or the format,
    and the page says which.
    """
    from spatialbench.cli.judge import say_judge
    from spatialbench.report.collect import collect
    from spatialbench.report.page import render_page
    from spatialbench.report.text import terminal_table
    from spatialbench.runs.cache import kernels_compiled
    from spatialbench.runs.run_files import write_results
    from spatialbench.runs.single import RunOptions, run_world
    from spatialbench.runs.store import check_folder

    options = RunOptions(protocol=protocol, settings=settings, case=case, system=system, frame=frame,
                         reading=reading, scoring=scoring)
    check_folder(out if out is not None else Path("results"))
    if not (quiet or as_json or kernels_compiled()):
        click.echo("The first run on a machine compiles: about half a minute more, once.", err=True)
    with progress_line(not (quiet or as_json)) as tell:
        result = run_world(world, options, tell)
        folder = out if out is not None else Path("results") / result.case_id
        tell("writing the results", 0, 0)
        data = collect(result)
        if not scoring.judge_dry_run:
            write_results(result, folder, None if no_page else render_page(data))
    if as_json:
        click.echo(json.dumps(result.summary.model_dump(mode="json"), sort_keys=True))
    elif not quiet:
        from rich.console import Console

        console = Console(highlight=False)
        terminal_table(data.headline, data.metrics, console)
        for warning in result.report.warnings:
            console.print(f"warning: {warning}", style="yellow", markup=False)
        say_judge(result.judge)
        if scoring.judge_dry_run:
            click.echo("nothing was written: a dry run of the judge")
            return
        # Plain echo: a path must not be wrapped, or it cannot be clicked or copied.
        click.echo(f"results: {folder}")
        if not no_page:
            click.echo(f"page:    {(folder / 'report.html').resolve()}")
