"""Lines for the terminal that may hold names or words from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spatialbench.types.words import one_line

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["echo_line", "wide_console"]

_ANY_WIDTH = 1000
"""Columns of what goes into a file or a pipe: a table takes no more than it needs."""


def echo_line(text: str) -> None:
    """One line on standard output, neither wrapped nor cut."""
    click.echo(one_line(text))


def wide_console(markup: bool = False) -> Console:
    """Standard output for tables and words; nothing is wrapped or cut where it is no terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=markup)
    return console if console.is_terminal else Console(highlight=False, markup=markup, width=_ANY_WIDTH)
