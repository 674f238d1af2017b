"""``spatialbench metrics``: the registry as a table."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from spatialbench.cli.say import wide_console
from spatialbench.types import MetricSpec

__all__ = ["markdown", "metrics"]

_HEADS = ("id", "name", "level", "group", "better", "range", "unit", "scored on", "retained", "version", "scorers",
          "source")


def markdown(specs: list[MetricSpec]) -> str:
    """The table of the documentation."""
    lines = ["| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS)]
    lines += ["| " + " | ".join(c.replace("|", "\\|") for c in _cells(s)) + " |" for s in specs]
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("ids", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table of the documentation.")
def metrics(ids: tuple[str, ...], as_json: bool, as_markdown: bool) -> None:
    """List metrics (all, or the IDS given) with direction, range, version and source."""
    from spatialbench.observe import REGISTRY
    from spatialbench.tracks import load_tracks

    load_tracks()
    specs = [REGISTRY.metric(i).spec for i in ids] if ids else list(REGISTRY.specs().values())
    if as_json:
        click.echo(json.dumps([asdict(s) for s in specs]))
    elif as_markdown:
        click.echo(markdown(specs), nl=False)
    else:
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for head in ("id", "name", "level", "better", "range", "needs"):
            table.add_column(head, no_wrap=head in ("id", "level", "better"))
        for s in specs:
            table.add_row(s.id, s.name, s.level, "higher" if s.higher_is_better else "lower", s.range,
                          ", ".join(s.scorers))
        wide_console().print(table)
        click.echo("All fields and sources: --markdown or --json.")


def _cells(s: MetricSpec) -> list[str]:
    return [s.id, s.name, s.level, s.group, "higher" if s.higher_is_better else "lower", s.range, s.unit,
            s.scored_on, "yes" if s.retained else "no", str(s.version), ", ".join(s.scorers), s.source]
