"""``spatialbench view``: a world in the browser, with what metrics found in it as layers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spatialbench.cli.options import frame_options, reading_options
from spatialbench.cli.progress import progress_line

if TYPE_CHECKING:
    from spatialbench.scene.reading import ReadOptions
    from spatialbench.world import FrameOverrides

__all__ = ["view"]

_DEFAULT = "happyworld-spatial-1"


@click.command()
@click.argument("world", type=click.Path(path_type=Path))
@click.option("--result", type=click.Path(path_type=Path), metavar="DIR",
              help="Result folder of a run of WORLD: its scores, gates and warnings stand in the panel, and its "
                   "protocol is used.")
@click.option("--score", is_flag=True, help="Measure all metrics before the page opens; a button there does it later.")
@click.option("--case", type=click.Path(path_type=Path), help="What was asked of the world: a YAML file.")
@click.option("--protocol", help=f"Packaged protocol or YAML file [default: the result's, else {_DEFAULT}].")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override one key of the protocol.")
@frame_options()
@reading_options
@click.option("--show-splats", type=click.IntRange(min=1), default=1_000_000, show_default=True, metavar="N",
              help="Send at most N splats to the browser, picked evenly by a fixed rule; scores see all.")
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen at; any other than this one lets other machines see the world.")
@click.option("--port", type=click.IntRange(0, 65535), help="[default: 8080, or the next that is free; 0: any]")
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
def view(world: Path, result: Path | None, score: bool, case: Path | None, protocol: str | None,
         settings: tuple[str, ...], frame: FrameOverrides, reading: ReadOptions, show_splats: int, host: str,
         port: int | None, no_open: bool) -> None:
    """Show WORLD in the browser: as it is scored, with NavMesh, collision mesh, cameras, supports and trials.

    Layers that need a computation are computed when they are first shown. Ends with Ctrl-C.
    """
    from spatialbench.errors import UsageError
    from spatialbench.runs.cache import kernels_compiled
    from spatialbench.runs.single import RunOptions, check_protocol, measure_world, prepare
    from spatialbench.types import load_case, load_protocol
    from spatialbench.viewer import View, open_server, page_address, read_result, scores_of
    from spatialbench.viewer.scores import measure
    from spatialbench.viewer.server import check_address, stop_server

    if result is not None and score:
        raise UsageError("the scores are either the result's or measured anew", where="--score --result",
                         todo="Give one of both")
    number = check_address(host, port)
    if not kernels_compiled():
        click.echo("The first run on a machine compiles: about half a minute more, once.", err=True)
    prepare()
    saved = None if result is None else read_result(result)
    rules = (saved.protocol if saved is not None and protocol is None and not settings
             else load_protocol(protocol or _DEFAULT, settings))
    check_protocol(rules)
    given = None if case is None else load_case(case)
    options = RunOptions(protocol=rules.id, settings=settings, case=case, frame=frame,
                         reading=reading.with_case(given, case))
    relay = _Relay()
    with progress_line() as tell:
        relay.tell = tell
        shown = measure_world(world, rules, given, options, metrics=(), progress=relay)
        scores = measure(shown) if score else scores_of(shown, saved)
        tell("opening the page", 0, 0)
        server = open_server(host, number, f"spatialbench: {world.name}")
        try:
            page = View(server, shown, scores, show_splats)
        except BaseException:
            stop_server(server)
            raise
    relay.tell = page.progress
    try:
        _announce(server, scores.notes, page_address, no_open)
        page.serve()
    finally:
        stop_server(server)


class _Relay:
    """Progress that goes to the terminal first and to the page later."""

    def __init__(self) -> None:
        self.tell: Callable[[str, int, int], None] = lambda label, done, total: None

    def __call__(self, label: str, done: int, total: int) -> None:
        self.tell(label, done, total)


def _announce(server: object, notes: tuple[str, ...], address: Callable[[object], tuple[str, bool]],
              no_open: bool) -> None:
    url, open_to_others = address(server)
    for note in notes:
        click.echo(f"warning: {note}", err=True)
    if open_to_others:
        click.echo("warning: other machines that reach this address see the world, and nobody is asked for a password",
                   err=True)
    click.echo(f"page:    {url}")
    click.echo("Ctrl-C ends it.")
    sys.stdout.flush()
    if no_open:
        return
    # Without a display a text browser would take over the terminal.
    if sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        import webbrowser

        webbrowser.open(url)
