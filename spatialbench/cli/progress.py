"""Progress on the terminal: a line that moves, and nothing at all where nobody is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_line"]


@contextmanager
def progress_line(enabled: bool = True) -> Iterator[Callable[[str, int, int], None]]:
    """Gives a function (label, done, total) that draws on standard error when that is a terminal."""
    if not enabled or not sys.stderr.isatty():
        yield lambda label, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=30),
                  TextColumn("{task.fields[steps]}"), TimeElapsedColumn(),
                  console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None, steps="")

        def tell(label: str, done: int, total: int) -> None:
            bar.update(task, description=label, completed=done, total=total or None,
                       steps=f"{done}/{total}" if total else "")
        yield tell
