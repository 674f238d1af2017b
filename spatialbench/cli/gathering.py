"""What ``summarize`` and ``compare`` share: folders with names for their systems, and settings of intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spatialbench.errors import ResultError, UsageError
from spatialbench.types.words import one_line

if TYPE_CHECKING:
    from spatialbench.aggregate import IntervalSettings
    from spatialbench.runs.gather import Gathered, Pick

__all__ = ["check_strict", "interval_options", "interval_settings", "picks", "warn"]


def interval_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options ``--interval`` and ``--replicates``."""
    for option in (
            click.option("--replicates", type=click.IntRange(100, 100_000), default=2000, show_default=True,
                         metavar="N", help="Resamples of a bootstrap."),
            click.option("--interval", type=click.FloatRange(0.5, 0.999), default=0.95, show_default=True,
                         metavar="LEVEL", help="Confidence of intervals.")):
        command = option(command)
    return command


def interval_settings(level: float, replicates: int) -> IntervalSettings:
    """Of the options.

    Raises
    ------
    UsageError : too few resamples for the level.
    """
    from pydantic import ValidationError

    from spatialbench.aggregate import IntervalSettings

    try:
        return IntervalSettings(level=level, replicates=replicates)
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(said, where="--replicates", todo="Give more") from None


def picks(folders: Sequence[Path], names: Sequence[str]) -> list[Pick]:
    """Folders, some with a new name for their one system (``NAME=FOLDER``; such a folder need not be in the list).

    Raises
    ------
    UsageError : not of that form, a folder of several systems, or one that is named twice.
    MissingInputError, ResultError : no folder of results.
    """
    from spatialbench.runs.gather import Pick, systems_of

    new: dict[Path, tuple[Path, str]] = {}
    for item in names:
        name, sep, folder = item.partition("=")
        if not sep or not name.strip() or not folder:
            raise UsageError(f"'{item}' is not of the form NAME=FOLDER", where="--system",
                             todo="Write for example --system before=results/one")
        path = Path(folder)
        if path.resolve() in new:
            raise UsageError(f"'{folder}' is named twice", where="--system", todo="Name it once")
        has = systems_of(path)
        if len(has) != 1:
            raise UsageError(f"'{folder}' holds {len(has)} systems ({', '.join(has[:5])}), not one", where="--system",
                             todo="Only the system of a folder with one can be given another name")
        new[path.resolve()] = path, name.strip()
    out, seen = [], set()
    for path in [*folders, *(p for p, _ in new.values())]:
        real = path.resolve()
        if real in seen:
            if path in folders and real not in new:
                raise UsageError("the same folder is given twice", where=str(path), todo="Give each once")
            continue
        seen.add(real)
        out.append(Pick(path, {systems_of(path)[0]: new[real][1]} if real in new else {}))
    return out


def check_strict(gathered: Gathered) -> None:
    """Refuse what is not complete.

    Raises
    ------
    ResultError : units that are not finished, are damaged or hold what is out of date.
    """
    lacking = gathered.lacking
    if lacking or gathered.stale:
        said = [w for w in gathered.warnings if "failed, and counted" not in w]
        more = next((f" ({u.reason})" for u in lacking if u.status == "damaged"), "")
        raise ResultError("; ".join(said) + more, where="--strict", todo="Give the command of the batch again")


def warn(sentences: Sequence[str]) -> None:
    """On standard error, one a line."""
    for text in sentences:
        click.echo(f"warning: {one_line(text)}", err=True)
