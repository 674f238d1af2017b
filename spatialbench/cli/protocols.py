"""``spatialbench protocols``: list them, show one in full, say what differs between two."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click
import yaml

from spatialbench.cli.say import wide_console

__all__ = ["difference", "protocol_of", "protocols"]

_ABSENT = object()


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.pass_context
def protocols(context: click.Context, as_json: bool) -> None:
    """List the packaged protocols, or show or compare some.

    A protocol fixes every open choice of a track. Results under different hashes are never averaged.
    """
    if context.invoked_subcommand is not None:
        return
    from spatialbench.configs import config_names
    from spatialbench.types import load_protocol, protocol_hash

    found = [load_protocol(name) for name in config_names("protocols")]
    rows = [{"id": p.id, "version": p.version, "track": p.track, "fast": p.fast, "metrics": len(p.metrics),
             "hash": protocol_hash(p)} for p in found]
    if as_json:
        click.echo(json.dumps(rows))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("id", "version", "track", "metrics", "fast", "hash"):
        table.add_column(head, no_wrap=True)
    for row in rows:
        table.add_row(str(row["id"]), str(row["version"]), str(row["track"]), str(row["metrics"]),
                      "yes" if row["fast"] else "", str(row["hash"])[:12])
    wide_console().print(table)
    click.echo("Fast ones are for a first look, not for publishing. All keys of one: protocols show NAME.")


@protocols.command()
@click.argument("name")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override one key.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def show(name: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Print the protocol NAME (or a YAML file) with every key resolved, and its hash.

    The YAML can be saved, changed and given to --protocol.
    """
    from spatialbench.types import load_protocol, protocol_hash

    protocol = load_protocol(name, settings)
    data = protocol.model_dump(mode="json")
    if as_json:
        click.echo(json.dumps({"hash": protocol_hash(protocol), "protocol": data}))
    else:
        click.echo(f"# hash: {protocol_hash(protocol)}")
        click.echo(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=110), nl=False)


@protocols.command()
@click.argument("old")
@click.argument("new")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def diff(old: str, new: str, as_json: bool) -> None:
    """Say in which keys the protocols OLD and NEW differ, and give both hashes.

    Each is a name, a YAML file, or the result folder (or run.json, batch.json) of a run or batch.
    """
    (a, hash_a), (b, hash_b) = protocol_of(old), protocol_of(new)
    changes = difference(a, b)
    if as_json:
        click.echo(json.dumps({"old": {"name": old, "hash": hash_a}, "new": {"name": new, "hash": hash_b},
                               "changes": changes}))
        return
    click.echo(f"old: {hash_a}  {old}")
    click.echo(f"new: {hash_b}  {new}")
    for c in changes:
        click.echo(_line(c))
    if not changes:
        click.echo("no key differs")


def protocol_of(name: str) -> tuple[dict[str, Any], str]:
    """A protocol as nested JSON types, and its hash; of a run what it was run with, even by an older version.

    Raises
    ------
    UsageError : no such protocol, file or folder.
    ConfigError : a file with an unknown key or a wrong value.
    ResultError : a ``run.json`` that is none, or whose protocol does not have the hash it names.
    """
    from spatialbench.types import load_protocol, protocol_hash

    path = Path(name)
    try:
        if path.is_dir():
            return _of_run(path / ("batch.json" if (path / "batch.json").is_file() else "run.json"))
        if path.suffix == ".json":
            return _of_run(path)
    except (OSError, ValueError):  # a name too long, or with a zero byte: the loader below says so
        pass
    protocol = load_protocol(name)
    return protocol.model_dump(mode="json"), protocol_hash(protocol)


def _of_run(path: Path) -> tuple[dict[str, Any], str]:
    from spatialbench.errors import MissingInputError, ResultError

    if not path.is_file():
        raise MissingInputError("no such file", where=str(path), todo="Give a folder that a run has written")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        protocol, named = record["protocol"], record["protocol_hash"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        protocol, named = None, None
    if not isinstance(protocol, dict):
        raise ResultError("is not the record of a run: it holds no protocol", where=str(path),
                          todo="Give a folder that a run has written")
    text = json.dumps(protocol, sort_keys=True, separators=(",", ":"))
    if hashlib.sha256(text.encode()).hexdigest() != named:
        raise ResultError("its protocol does not have the hash it names: one of them was changed", where=str(path),
                          todo="Run the world again")
    return protocol, str(named)


def difference(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Keys (``path.to.key``, sorted) whose values differ, with ``old`` and ``new``; the side that lacks it has none."""
    a, b = _flat(old), _flat(new)
    out = []
    for key in sorted(a.keys() | b.keys()):
        x, y = a.get(key, _ABSENT), b.get(key, _ABSENT)
        if x != y or isinstance(x, bool) != isinstance(y, bool):
            out.append({"key": key, **({} if x is _ABSENT else {"old": x}), **({} if y is _ABSENT else {"new": y})})
    return out


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict) and value:
            out.update(_flat(value, f"{prefix}{key}."))
        else:
            out[prefix + key] = value
    return out


def _line(change: dict[str, Any]) -> str:
    x, y = change.get("old", _ABSENT), change.get("new", _ABSENT)
    if isinstance(x, list) and isinstance(y, list) and all(isinstance(i, str) for i in x + y):
        gone, come = [i for i in x if i not in y], [i for i in y if i not in x]
        parts = ([f"without {', '.join(gone)}"] if gone else []) + ([f"with {', '.join(come)}"] if come else [])
        return f"{change['key']}: {'; '.join(parts) or 'in another order'}"
    words = ["(not there)" if v is _ABSENT else json.dumps(v) for v in (x, y)]
    return f"{change['key']}: {words[0]} -> {words[1]}"
