"""How a batch goes, for people: a display that moves on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from spatialbench.runs.batch import Board, Watcher

__all__ = ["duration", "watching"]

_EVERY = 30.0


@contextmanager
def watching(quiet: bool) -> Iterator[Watcher]:
    """Gives what is told, on standard error. ``quiet``: only sentences about failures are left out too."""
    import sys

    if quiet:
        yield _Silent()
    elif not sys.stderr.isatty():
        yield _Plain()
    else:
        with _Live() as live:
            yield live


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def line_of(board: Board) -> str:
    """``12 of 200 done, 1 failed, 187 left, about 12 min``."""
    finished = board.done + board.kept - board.kept_failed
    text = f"{finished} of {board.total} done, {board.failed + board.kept_failed} failed, {board.left} left"
    if board.skipped:
        text += f", {board.skipped} skipped"
    left = board.seconds_left
    return f"{text}, about {duration(left)}" if left is not None and board.left else text


class _Silent:
    def update(self, board: Board) -> None:
        return None

    def say(self, text: str) -> None:
        return None


class _Plain:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def update(self, board: Board) -> None:
        now = time.monotonic()
        if now - self._last >= _EVERY:
            self._last = now
            click.echo(line_of(board), err=True)

    def say(self, text: str) -> None:
        click.echo(text, err=True)


class _Live:
    """A bar, and what each worker does."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._text = Text
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(Text("looking at what is finished"), console=self._console, transient=True,
                          refresh_per_second=4)

    def __enter__(self) -> _Live:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def update(self, board: Board) -> None:
        from rich.console import Group
        from rich.progress_bar import ProgressBar

        now, lines = time.monotonic(), []
        for where, r in sorted(board.running.items(), key=lambda item: (len(item[0]), item[0])):
            steps = f" {r.step}/{r.steps}" if r.steps else ""
            lines.append(self._text(f"  {where}: {r.unit}: {r.label}{steps} ({duration(now - r.since)})",
                                    overflow="ellipsis", no_wrap=True))
        bar = ProgressBar(total=max(1, board.total), completed=board.total - board.left, width=60)
        self._live.update(Group(self._text(line_of(board)), bar, *lines))

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)
