"""Options about learned scorers and the judge, which several commands share."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any, Literal

import click

__all__ = ["scoring_options"]


def scoring_options(command: Any) -> Any:
    """Given to the command as ``scoring``, a ``runs.scoring.Scoring``."""
    options = [
        click.option("--weights", type=click.Path(path_type=Path), metavar="DIR",
                     help="Folder with weights of learned scorers [default: SPATIALBENCH_WEIGHTS, or the user's data "
                          "folder; see 'spatialbench weights list']."),
        click.option("--device", metavar="cpu|cuda|cuda:N",
                     help="Where they compute [default: SPATIALBENCH_DEVICE, or CUDA where torch finds it]."),
        click.option("--scorer-workers", type=click.Path(path_type=Path), metavar="FILE",
                     help="Commands of external workers, such as TAPIP3D's (docs/workers.md)."),
        click.option("--judge", type=click.Path(path_type=Path), metavar="FILE",
                     help="Judge file: which model answers questions about views (docs/judges.md)."),
        click.option("--max-cost", type=click.FloatRange(min=0), metavar="AMOUNT",
                     help="The judge stops before the call that could pass it; needs a known price."),
        click.option("--judge-dry-run", is_flag=True,
                     help="Ask the judge nothing and write no results; say how many calls, tokens and how much "
                          "money it would take. Of one world, not of a batch."),
        click.option("--no-judge-cache", "judge_cache", flag_value="off",
                     help="Neither look up the judge's answers nor keep them."),
        click.option("--refresh-judge-cache", "judge_cache", flag_value="refresh",
                     help="Ask the judge anew, and keep the new answers.")]

    @wraps(command)
    def collected(*args: Any, weights: Path | None, device: str | None, scorer_workers: Path | None,
                  judge: Path | None, max_cost: float | None, judge_dry_run: bool,
                  judge_cache: Literal["off", "refresh"] | None, **rest: Any) -> Any:
        from spatialbench.runs.scoring import Scoring

        return command(*args, scoring=Scoring(weights, device, scorer_workers, None, judge, judge_cache or "use",
                                              max_cost, judge_dry_run), **rest)

    for option in reversed(options):
        collected = option(collected)
    return collected
