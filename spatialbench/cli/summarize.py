"""``spatialbench summarize``: folders of results to tables, files and a page."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spatialbench.cli.gathering import check_strict, interval_options, interval_settings, picks, warn
from spatialbench.errors import UsageError

if TYPE_CHECKING:
    from spatialbench.report.leaderboard import Board

__all__ = ["summarize"]

FORMATS = {"table": "", "csv": "leaderboard.csv", "md": "leaderboard.md", "tex": "leaderboard.tex",
           "json": "summary.json", "parquet": "measurements.parquet", "html": "leaderboard.html"}


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path), metavar="DIR...")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the files; without it only a table.")
@click.option("--format", "formats", metavar="LIST",
              help="Of table, csv, md, tex, json, parquet, html [default: all; parquet where pyarrow is installed].")
@click.option("--system", "names", multiple=True, metavar="NAME=FOLDER",
              help="Another name for the system of a folder, so that two called alike can stand side by side.")
@click.option("--metrics", metavar="LIST", help="Metrics (or patterns) in the tables of metrics [default: all].")
@click.option("--no-intervals", is_flag=True, help="Means and counts only; faster.")
@interval_options
@click.option("--aggregation", metavar="NAME", help="How levels are made [default: the track's own].")
@click.option("--no-verify", is_flag=True, help="Do not hash the files beside each unit's record; faster.")
@click.option("--strict", is_flag=True, help="Fail when a unit is not finished, damaged or out of date.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json and nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but warnings and errors.")
def summarize(folders: tuple[Path, ...], out: Path | None, formats: str | None, names: tuple[str, ...],
              metrics: str | None, no_intervals: bool, interval: float, replicates: int, aggregation: str | None,
              no_verify: bool, strict: bool, as_json: bool, quiet: bool) -> None:
    """Make the leaderboard of the results in DIR...: folders of `batch` or of `run`.

    Every mean comes with its count and interval. Results of different protocols are refused; what was not measured
    is counted and never becomes a number.
    """
    from spatialbench.report.leaderboard import board_json, make_board, print_board
    from spatialbench.runs.collector import quiet_collector
    from spatialbench.runs.gather import gather
    from spatialbench.runs.single import prepare
    from spatialbench.runs.store import check_folder

    wanted = _formats(formats, out)
    settings = None if no_intervals else interval_settings(interval, replicates)
    if not folders and not names:
        raise UsageError("no folder was given", where="summarize",
                         todo="Write: spatialbench summarize RESULTS -o TABLES")
    if out is not None:
        check_folder(out)
    prepare()
    with quiet_collector():
        gathered = gather(picks(folders, names), verify=not no_verify)
        if strict:
            check_strict(gathered)
        board = make_board(gathered, settings, aggregation=aggregation, metrics=_chosen(metrics, gathered.metrics))
        warn(board.warnings)
        written = [] if out is None else _write(board, out, wanted)
        if as_json:
            click.echo(board_json(board), nl=False)
        elif not quiet:
            if "table" in wanted:
                from rich.console import Console

                print_board(board, Console(highlight=False, markup=False))
            for path in written:
                click.echo(f"{'page:  ' if path.suffix == '.html' else 'file:  '} {path}")


def _formats(text: str | None, out: Path | None) -> list[str]:
    from spatialbench.report.leaderboard.parquet import have_pyarrow, need_pyarrow

    if text is None:
        return ["table"] if out is None else [f for f in FORMATS if f != "parquet" or have_pyarrow()]
    wanted = [w.strip().lower() for w in text.split(",") if w.strip()]
    for w in wanted:
        if w not in FORMATS:
            raise UsageError(f"no format '{w}'", where="--format", todo=f"Known: {', '.join(FORMATS)}")
    if out is None and wanted != ["table"]:
        raise UsageError("files need a folder", where="--format", todo="Name one with -o")
    if "parquet" in wanted:
        need_pyarrow()
    return wanted


def _chosen(text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return ()
    patterns = [p.strip() for p in text.split(",") if p.strip()]
    for p in patterns:
        if not any(fnmatch.fnmatchcase(id, p) for id in known):
            raise UsageError(f"no metric '{p}' in these results", where="--metrics",
                             todo=f"There are: {', '.join(known)}")
    found = tuple(id for id in known if any(fnmatch.fnmatchcase(id, p) for p in patterns))
    if not found:
        raise UsageError("names no metric", where="--metrics", todo=f"There are: {', '.join(known)}")
    return found


def _write(board: Board, out: Path, wanted: list[str]) -> list[Path]:
    from spatialbench.report.leaderboard import board_json, csv_text, latex_text, markdown_text, render_board
    from spatialbench.report.leaderboard.parquet import write_parquet
    from spatialbench.runs.store import prepare_folder, write_text

    def page(b: Board) -> str:
        return render_board(b, out)

    makers: dict[str, Callable[[Board], str]] = {"csv": csv_text, "md": markdown_text, "tex": latex_text,
                                                 "json": board_json, "html": page}
    # All texts before the first file, so that a fault in one of them leaves nothing.
    texts = {f: make(board) for f, make in makers.items() if f in wanted}
    prepare_folder(out)
    written = []
    for f in FORMATS:
        path = out / FORMATS[f]
        if f in texts:
            write_text(path, texts[f])
        elif f == "parquet" and f in wanted:
            write_parquet(path, board.gathered.measurements, board.gathered.protocol_hash)
        else:
            continue
        written.append(path)
    return written
