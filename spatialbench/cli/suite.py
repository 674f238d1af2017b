"""``spatialbench suite check``: what a suite has, lacks and calls by another name, before any work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spatialbench.cli.say import wide_console

if TYPE_CHECKING:
    from spatialbench.runs.suite import Problem, SuitePlan

__all__ = ["plan_json", "suite"]

_SHOWN = 20
_HEADS = {"missing": "missing: no such file", "misnamed": "misnamed: rename it, or add it under 'overrides'",
          "ambiguous": "ambiguous: several files match", "refused": "refused: not what a case of its kind needs"}


@click.group()
def suite() -> None:
    """Work on suites: lists of cases with the outputs of several systems."""


@suite.command()
@click.argument("file", metavar="SUITE", type=click.Path(path_type=Path))
@click.option("--worlds", type=click.Path(path_type=Path), metavar="DIR",
              help="Folder of the outputs [default: the suite file's own].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.pass_context
def check(context: click.Context, file: Path, worlds: Path | None, as_json: bool) -> None:
    """List what SUITE lacks, what is misnamed and what is extra. Nothing is run or loaded.

    Ends with 1 when something is missing, misnamed, ambiguous or refused; extra files are no fault.
    """
    from spatialbench.runs.suite import plan_suite
    from spatialbench.types.suite import load_suite

    plan = plan_suite(load_suite(file), worlds)
    if as_json:
        click.echo(json.dumps(plan_json(plan), sort_keys=True))
    else:
        _print(plan)
    context.exit(1 if plan.problems else 0)


def plan_json(plan: SuitePlan) -> dict[str, Any]:
    """The plan of a suite, JSON types; paths relative to its root."""
    from spatialbench.types import load_protocol, protocol_hash

    assert plan.suite is not None
    protocol = load_protocol(plan.suite.protocol)
    out: dict[str, Any] = {
        "suite": plan.suite.id, "version": plan.suite.version, "protocol": protocol.id,
        "protocol_hash": protocol_hash(protocol), "root": str(plan.root), "cases": len(plan.suite.cases),
        "systems": list(plan.suite.systems), "ready": len(plan.ready),
        "worlds": [{"case": w.case_id, "system": w.system, "kind": w.kind, "state": w.state,
                    "paths": {r: p.relative_to(plan.root).as_posix() for r, p in w.paths.items()}}
                   for w in plan.worlds],
        "extra": list(plan.extra), "notes": list(plan.notes)}
    for kind in _HEADS:
        out[kind] = [{"system": p.system, "case": p.case_id, "role": p.role, "expected": p.expected,
                      "found": list(p.found), "note": p.note} for p in plan.having(kind)]
    return out


def _print(plan: SuitePlan) -> None:
    from rich.table import Table

    assert plan.suite is not None
    s = plan.suite
    click.echo(f"{s.id} version {s.version}: {len(s.cases)} cases, {len(s.systems)} systems, outputs in {plan.root}")
    table = Table(box=None, pad_edge=False)
    for head in ("system", "ready", "missing", "misnamed", "ambiguous", "refused", "unsupported"):
        table.add_column(head, justify="left" if head == "system" else "right")
    for name in s.systems:
        worlds = [w for w in plan.worlds if w.system == name]
        counts = [sum(w.state == "ready" for w in worlds),
                  *(len([p for p in plan.having(kind) if p.system == name]) for kind in _HEADS),
                  sum(w.state == "unsupported" for w in worlds)]
        table.add_row(name, *(str(n) if n else "-" for n in counts))
    wide_console().print(table)
    for kind, head in _HEADS.items():
        _list(head, [_words(p) for p in plan.having(kind)])
    _list("extra: no case claims them", list(plan.extra))
    _list("notes", list(plan.notes))
    if not plan.problems:
        click.echo("everything is there")


def _words(p: Problem) -> str:
    own = {"image": "input image", "sidecar": "side-car"}.get(p.role, "")
    what = f"case {p.case_id}, {own}" if own else f"{p.system}, case {p.case_id}"
    role = "" if own or p.role == "main" else f", {p.role}"
    there = f"; there is {', '.join(p.found[:4])}" if p.found and p.kind != "refused" else ""
    note = "" if not p.note else f" (differs in {p.note})" if p.kind == "misnamed" else f" ({p.note})"
    return f"{p.expected}  [{what}{role}]{there}{note}"


def _list(head: str, lines: list[str]) -> None:
    if lines:
        click.echo(f"{head}:")
        for line in lines[:_SHOWN]:
            click.echo(f"  {line}")
        if len(lines) > _SHOWN:
            click.echo(f"  ... and {len(lines) - _SHOWN} more; --json lists all")
