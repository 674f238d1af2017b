"""``spatialbench expand``: a world before and after it was made larger (level W5)."""

from __future__ import annotations

from typing import Any

import click

from spatialbench.cli.edit import pair_options, score_pair

__all__ = ["expand"]


@click.command()
@pair_options
def expand(**given: Any) -> None:
    """Score an expansion: the world BEFORE and the larger world AFTER, in one frame and on one grid (M26 to M30).

    AFTER is put where BEFORE stands, under the same transform and scale. Options about the frame are those of BEFORE.
    """
    score_pair("expand", **given)
