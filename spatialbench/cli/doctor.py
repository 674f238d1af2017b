"""``spatialbench doctor``: what can be used on this machine, and what to install for the rest."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict, dataclass

import click

from spatialbench import __version__
from spatialbench.cli.say import wide_console

__all__ = ["Check", "checks", "doctor"]


_WEIGHTS = "their weights are not here: spatialbench weights list, then spatialbench weights fetch ID"


@dataclass(frozen=True)
class Check:
    """One part: its kind, name, whether it can be used, and its version or the remedy."""

    kind: str
    name: str
    usable: bool
    note: str


def checks() -> list[Check]:
    """Look at every backend and scorer."""
    from spatialbench.physics.navmesh import navmesh_backend_names, navmesh_backend_status
    from spatialbench.physics.placement import placement_backend_status
    from spatialbench.renderers import backends
    from spatialbench.scorers import scorers

    out = [Check("platform", f"{platform.system()} {platform.machine()}",
                 sys.platform == "linux" and platform.machine() == "x86_64",
                 "supported in full" if sys.platform == "linux" and platform.machine() == "x86_64"
                 else "works as far as its packages have builds for it"),
           Check("platform", f"Python {platform.python_version()}", (3, 10) <= sys.version_info[:2] < (3, 14),
                 "3.10 to 3.13 are supported")]
    out += [Check("renderer", b.name, b.usable, f"{b.version}; draws {b.draws}" if b.usable else b.reason)
            for b in backends() if b.name != "fake"]
    out += [Check("navmesh", name, *navmesh_backend_status(name)) for name in navmesh_backend_names()]
    out += [Check("placement", "pybullet", *placement_backend_status())]
    out += [Check("scorer", s.id, s.usable, s.reason or s.model) for s in scorers()]
    return out


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def doctor(as_json: bool) -> None:
    """Say which backends and scorers can be used here, and what to do about the rest."""
    found = checks()
    if as_json:
        click.echo(json.dumps({"version": __version__, "checks": [asdict(c) for c in found]}))
    else:
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=f"spatialbench {__version__}", title_justify="left", box=None, pad_edge=False)
        for head in ("part", "name", "usable", "version, or what to do"):
            table.add_column(head, overflow="fold")
        missing: dict[str, list[str]] = {}
        for c in found:
            if c.kind == "scorer" and not c.usable:
                missing.setdefault(_WEIGHTS if c.note.startswith("its weights are not here") else c.note,
                                   []).append(c.name)
        rows = [c for c in found if c.kind != "scorer" or c.usable]
        rows += [Check("scorer" if len(names) == 1 else "scorers", ", ".join(names), False, why)
                 for why, names in missing.items()]
        for c in rows:
            table.add_row(c.kind, c.name, "[green]yes[/]" if c.usable else "[yellow]no[/]", escape(c.note))
        wide_console(markup=True).print(table)
    needed = [c for c in found if (c.kind, c.name) in (("navmesh", "recast"), ("placement", "pybullet"))
              and not c.usable]
    renderers = [c for c in found if c.kind == "renderer"]
    if needed or not any(c.usable for c in renderers):
        raise SystemExit(1)
