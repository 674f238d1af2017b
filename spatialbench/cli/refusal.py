"""Refusals of commands with ``--json``: JSON on standard output like every answer of theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click

from spatialbench.errors import SpatialbenchError

__all__ = ["told_as_json"]


@contextmanager
def told_as_json(as_json: bool) -> Iterator[None]:
    """Print an error of ours as ``{"error": {"class", "message", "where"}}`` and let it go on to the entry point."""
    try:
        yield
    except SpatialbenchError as error:
        if as_json:
            click.echo(json.dumps({"error": {"class": type(error).__name__, "message": str(error),
                                             "where": error.where}}))
        raise
