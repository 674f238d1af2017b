"""``spatialbench edit``: a world before and after an instruction (level W4)."""

from __future__ import annotations

import json
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spatialbench.cli.options import frame_options, reading_options
from spatialbench.cli.progress import progress_line
from spatialbench.cli.scoring_options import scoring_options

if TYPE_CHECKING:
    from spatialbench.runs.pair import PairKind
    from spatialbench.runs.scoring import Scoring
    from spatialbench.scene.reading import ReadOptions
    from spatialbench.world import FrameOverrides

__all__ = ["edit", "pair_options", "score_pair"]


def pair_options(command: Any) -> Any:
    """Arguments and options of the commands that take two worlds, all passed on to :func:`score_pair`."""
    options = [
        click.argument("before", type=click.Path(path_type=Path)),
        click.argument("after", type=click.Path(path_type=Path)),
        click.option("--case", "case", type=click.Path(path_type=Path),
                     help="What was asked for, with evidence if there is any: a YAML file (docs/editing.md)."),
        click.option("-o", "--out", type=click.Path(path_type=Path), help="Result folder [default: results/CASE]."),
        click.option("--protocol", default="happyworld-spatial-1", show_default=True,
                     help="Packaged protocol or YAML file; happyworld-spatial-1-fast for a first look."),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override one key of the protocol."),
        click.option("--system", default="local", show_default=True, help="Name of what made the world."),
        frame_options(),
        reading_options,
        scoring_options,
        click.option("--frames", type=click.Path(path_type=Path), metavar="DIR",
                     help="Also write the images that models judge, to make evidence of them elsewhere."),
        click.option("--no-page", is_flag=True, help="Skip report.html."),
        click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON and nothing else."),
        click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")]

    @wraps(command)
    def passed(**given: Any) -> Any:
        return command(**given)

    for option in reversed(options):
        passed = option(passed)
    return passed


@click.command()
@pair_options
def edit(**given: Any) -> None:
    """Score an edit: the world BEFORE and the world AFTER an instruction, in one frame (M31 to M37).

    AFTER is put where BEFORE stands, under the same transform and scale. Options about the frame are those of BEFORE.
    """
    score_pair("edit", **given)


def score_pair(kind: PairKind, before: Path, after: Path, case: Path | None, out: Path | None, protocol: str,
               settings: tuple[str, ...], system: str, frame: FrameOverrides, reading: ReadOptions,
               scoring: Scoring, frames: Path | None, no_page: bool, as_json: bool, quiet: bool) -> None:
    """Run two worlds, write the folder, print the table."""
    from spatialbench.cli.judge import say_judge
    from spatialbench.report.edit_collect import pair_head
    from spatialbench.report.edit_page import make_pair_page
    from spatialbench.report.text import terminal_table
    from spatialbench.runs.cache import kernels_compiled
    from spatialbench.runs.pair import run_pair, write_pair
    from spatialbench.runs.pair_frames import write_frames
    from spatialbench.runs.single import RunOptions
    from spatialbench.runs.store import check_folder

    options = RunOptions(protocol=protocol, settings=settings, case=case, system=system, frame=frame, reading=reading,
                         scoring=scoring)
    for folder in (out if out is not None else Path("results"), *([] if frames is None else [frames])):
        check_folder(folder)
    if not (quiet or as_json or kernels_compiled()):
        click.echo("The first run on a machine compiles: about half a minute more, once.", err=True)
    with progress_line(not (quiet or as_json)) as tell:
        result = run_pair(kind, before, after, options, tell)
        folder = out if out is not None else Path("results") / result.case_id
        written = 0 if frames is None else write_frames(result, frames, tell)
        tell("writing the results", 0, 0)
        if not scoring.judge_dry_run:
            write_pair(result, folder, None if no_page else make_pair_page(result))
    if as_json:
        click.echo(json.dumps(result.summary.model_dump(mode="json"), sort_keys=True))
    elif not quiet:
        from rich.console import Console

        console, data = Console(highlight=False), pair_head(result)
        terminal_table(data.headline, data.metrics, console)
        for warning in data.warnings:
            console.print(f"warning: {warning}", style="yellow", markup=False)
        say_judge(result.judge)
        if frames is not None:
            click.echo(f"frames:  {frames} ({written} images)")
        if scoring.judge_dry_run:
            click.echo("nothing else was written: a dry run of the judge" if frames else
                       "nothing was written: a dry run of the judge")
            return
        click.echo(f"results: {folder}")
        if not no_page:
            click.echo(f"page:    {(folder / 'report.html').resolve()}")
