"""``spatialbench compare``: two systems on the cases that both were measured on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spatialbench.cli.gathering import check_strict, interval_options, interval_settings, warn
from spatialbench.errors import UsageError

if TYPE_CHECKING:
    from spatialbench.runs.gather import Pick

__all__ = ["compare"]


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path), required=False)
@click.option("--system-a", metavar="NAME", help="System of A, where it has several.")
@click.option("--system-b", metavar="NAME", help="System of B (or of A, when it is the only folder).")
@interval_options
@click.option("--aggregation", metavar="NAME", help="How levels are made [default: the track's own].")
@click.option("--no-verify", is_flag=True, help="Do not hash the files beside each unit's record; faster.")
@click.option("--strict", is_flag=True, help="Fail when a unit is not finished, damaged or out of date.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for comparison.json and comparison.md.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but warnings and errors.")
def compare(a: Path, b: Path | None, system_a: str | None, system_b: str | None, interval: float, replicates: int,
            aggregation: str | None, no_verify: bool, strict: bool, out: Path | None, as_json: bool,
            quiet: bool) -> None:
    """Compare the systems of the result folders A and B (or two systems of A) on the cases that both have.

    Each metric: difference of the means with interval, sign test over cases, adjusted for all metrics. Each level:
    difference of the scores with interval. Verdicts are in words.
    """
    from spatialbench.report.leaderboard.versus import make_versus, print_versus, versus_json, versus_markdown
    from spatialbench.runs.collector import quiet_collector
    from spatialbench.runs.gather import gather
    from spatialbench.runs.single import prepare
    from spatialbench.runs.store import check_folder, prepare_folder, write_text

    settings = interval_settings(interval, replicates)
    if out is not None:
        check_folder(out)
    prepare()
    chosen, left, right = two_sides(a, b, system_a, system_b)
    with quiet_collector():
        gathered = gather(chosen, verify=not no_verify)
        if strict:
            check_strict(gathered)
        versus = make_versus(gathered, left, right, settings, aggregation)
        warn(versus.warnings)
        texts = {"comparison.json": versus_json(versus), "comparison.md": versus_markdown(versus)}
        if out is not None:
            prepare_folder(out)
            for name, text in texts.items():
                write_text(out / name, text)
        if as_json:
            click.echo(texts["comparison.json"], nl=False)
        elif not quiet:
            from rich.console import Console

            print_versus(versus, Console(highlight=False, markup=False))
            for name in texts if out is not None else ():
                click.echo(f"file:    {Path(str(out)) / name}")


def two_sides(a: Path, b: Path | None, system_a: str | None, system_b: str | None) -> tuple[list[Pick], str, str]:
    """What to read, and the names of both sides: systems called alike get the name of their folder too.

    Raises
    ------
    UsageError : which systems are meant is not clear. MissingInputError, ResultError : no folder of results.
    """
    from spatialbench.runs.gather import Pick, systems_of

    has_a = systems_of(a)
    if b is None or b.resolve() == a.resolve():
        if system_a is None and system_b is None and len(has_a) == 2:
            system_a, system_b = has_a
        one = _one(a, has_a, system_a, "--system-a")
        rest = [s for s in has_a if s != one]
        two = _one(a, rest if system_b is None else has_a, system_b, "--system-b") if rest else one
        if one == two:
            raise UsageError(f"'{one}' cannot be compared with itself", where=str(a),
                             todo="Give a second folder, or another --system-b")
        return [Pick(a, {one: one, two: two})], one, two
    one, two = _one(a, has_a, system_a, "--system-a"), _one(b, systems_of(b), system_b, "--system-b")
    left, right = (one, two) if one != two else (f"{one} ({_label(a, b)})", f"{two} ({_label(b, a)})")
    return [Pick(a, {one: left}), Pick(b, {two: right})], left, right


def _one(path: Path, systems: tuple[str, ...] | list[str], wanted: str | None, option: str) -> str:
    if wanted is None and len(systems) == 1:
        return systems[0]
    if wanted is None or wanted not in systems:
        known = ", ".join(systems[:20])
        what = f"holds {len(systems)} systems" if wanted is None else f"has no system '{wanted}'"
        raise UsageError(what, where=str(path), todo=f"Name one with {option}: {known}")
    return wanted


def _label(path: Path, other: Path) -> str:
    """The shortest end of a path that the other does not have."""
    mine, theirs = path.resolve().parts, other.resolve().parts
    n = next((i for i in range(1, len(mine) + 1) if mine[-i:] != theirs[-i:]), len(mine))
    return "/".join(mine[-n:])
