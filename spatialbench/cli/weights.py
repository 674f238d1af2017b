"""``spatialbench weights``: which weights there are, fetch them, and see whether they are what they must be."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from spatialbench.scorers.weights import WeightsEntry

__all__ = ["markdown", "weights"]

_DIR = click.option("--dir", "folder", type=click.Path(path_type=Path), metavar="FOLDER",
                    help="Weights folder [default: SPATIALBENCH_WEIGHTS, else in the user's data folder].")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


@click.group()
def weights() -> None:
    """List, fetch and verify the weights of learned scorers (docs/scorers.md).

    Only 'fetch' asks the network. Scoring never does; a folder copied by hand is as good.
    """


@weights.command("list")
@_DIR
@_JSON
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables of the documentation.")
def list_(folder: Path | None, as_json: bool, as_markdown: bool) -> None:
    """What there is: what needs it, its licence and size, and whether it is here (by names and sizes alone)."""
    from spatialbench.scorers.weights import load_lock

    if as_markdown:
        click.echo(markdown(), nl=False)
        return
    at = _folder(folder)
    needed = _needed()
    rows = [_row(entry, at, needed.get(entry.id, ((), ()))) for entry in load_lock().weights]
    if as_json:
        click.echo(json.dumps({"dir": str(at), "weights": rows}))
        return
    for r in rows:
        click.echo(f"{r['id']}: {r['state']}; {_licence(r)}; size {_size(r['bytes'])}")
        click.echo(f"    {r['model']}; needed by {', '.join([*r['scorers'], *r['metrics']]) or 'no scorer'}")
    click.echo(f"in {at}")


@weights.command()
@click.argument("ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All there are.")
@click.option("--for", "purposes", multiple=True, metavar="METRIC",
              help="What a metric (M19) or a scorer (sam3) needs; may be repeated.")
@click.option("--accept-licence", is_flag=True, help="You accept the licences that ask for it: non-commercial, gated.")
@click.option("--offline", is_flag=True, help="Refuse to ask the network.")
@_DIR
@_JSON
def fetch(ids: tuple[str, ...], everything: bool, purposes: tuple[str, ...], accept_licence: bool, offline: bool,
          folder: Path | None, as_json: bool) -> None:
    """Fetch the weights IDS (see 'weights list') that are missing or wrong here.

    Shows licences first. Can be stopped and continued. The hub is HF_ENDPOINT [huggingface.co]; HF_TOKEN, or the token
    that its own command line keeps, is sent to it alone.
    """
    from spatialbench.cli.progress import progress_line
    from spatialbench.errors import UsageError
    from spatialbench.scorers.fetch import fetch as fetch_weights
    from spatialbench.scorers.settings import scorer_settings
    from spatialbench.scorers.weights import load_lock, weights_entry

    chosen = [*ids, *(e for purpose in purposes for e in _of(purpose))]
    if everything:
        chosen += [e.id for e in load_lock().weights]
    if not chosen and purposes:
        click.echo(f"{', '.join(purposes)}: no weights are needed{_asks_judge(purposes)}", err=True)
    elif not chosen:
        raise UsageError("nothing is named", todo="Name ids (spatialbench weights list), --for METRIC or --all")
    entries = [weights_entry(i) for i in dict.fromkeys(chosen)]
    settings = scorer_settings(folder, offline=offline or None)
    for entry in entries:
        click.echo(f"{entry.id}: {entry.model}; licence {entry.licence}"
                   f"{f' ({entry.asks})' if entry.asks else ''}; size {_size(entry.bytes)}", err=True)
    for extra, scorers in _extras(e.id for e in entries).items():
        click.echo(f'{", ".join(scorers)}: needs packages too: pip install "spatialbench[{extra}]"', err=True)
    with progress_line(not as_json) as tell:
        done = fetch_weights([e.id for e in entries], settings.weights, accept_licence=accept_licence,
                             offline=settings.offline, said=lambda line: click.echo(line, err=True),
                             tell=lambda label, at, total: tell(f"{label}, MB", at // 10**6, total // 10**6))
    if as_json:
        click.echo(json.dumps({"dir": str(settings.weights),
                               "weights": {i: [asdict(f) for f in files] for i, files in done.items()}}))
        return
    for id, files in done.items():
        for f in files:
            click.echo(f"{id}/{f.path}: {f.outcome}, {f.bytes:,} bytes, sha256 {f.sha256}")


@weights.command()
@click.argument("ids", nargs=-1)
@_DIR
@_JSON
def verify(ids: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Compute the hashes of what is here [all, or IDS] and compare them with the lock file.

    'locked' is what the lock file says; 'noted' what was found at the first fetch; 'not pinned' is known to neither,
    and its own hash is part of results. Ends with 1 when something is wrong, or missing of what is named.
    """
    from spatialbench.cli.progress import progress_line
    from spatialbench.scorers.verify import check_entry
    from spatialbench.scorers.weights import load_lock, weights_entry

    at = _folder(folder)
    entries = [weights_entry(i) for i in dict.fromkeys(ids)] if ids else [
        e for e in load_lock().weights if _state(e, at) not in ("not here", "its package is not installed")]
    with progress_line(not as_json) as tell:
        found = {e.id: check_entry(e.id, at, fresh=True, tell=lambda label, done, total: tell(
            f"{label}, MB", done // 10**6, total // 10**6)) for e in entries}
    bad = [c for checks in found.values() for c in checks if c.state in ("wrong", "missing")]
    if as_json:
        click.echo(json.dumps({"dir": str(at), "ok": not bad,
                               "weights": {i: [asdict(c) for c in checks] for i, checks in found.items()}}))
    else:
        for i, checks in found.items():
            for c in checks:
                click.echo(f"{c.state:<10}  {c.sha256 or '-' * 64}  {i}/{c.path}")
        for c in bad:
            click.echo(f"error: {c.note}", err=True)
        if not found:
            click.echo(f"no weights are in {at}", err=True)
    if bad:
        raise SystemExit(1)


def markdown() -> str:
    """The tables of docs/scorers.md: scorers, then weights."""
    from spatialbench.scorers.registry import scorer_specs
    from spatialbench.scorers.weights import load_lock

    needed = _needed()
    scorers = [(s.id, s.model, s.role, s.gives, s.extra or "none", ", ".join(_weights_of(s.id)) or "none",
                s.stands_in_for) for s in scorer_specs().values()]
    weights = [(e.id, e.model, e.licence, e.asks, _size(e.bytes), e.repo or e.source,
                ", ".join(needed.get(e.id, ((), ()))[0])) for e in load_lock().weights]
    return (_rows(("scorer", "model", "used for", "gives", "extra", "weights", "stands in for"), scorers) + "\n"
            + _rows(("weights", "model", "licence", "asks for consent", "size", "from", "needed by"), weights))


def _folder(told: Path | None) -> Path:
    from spatialbench.scorers.settings import scorer_settings

    return scorer_settings(told).weights


def _needed() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Entry -> scorers, and metrics that name them."""
    from spatialbench.observe import REGISTRY
    from spatialbench.scorers.registry import scorer_specs
    from spatialbench.tracks import load_tracks

    load_tracks()
    out: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for id in scorer_specs():
        for entry in _weights_of(id):
            scorers, metrics = out.get(entry, ((), ()))
            more = tuple(m for m, s in REGISTRY.specs().items() if id in s.scorers and m not in metrics)
            out[entry] = (*scorers, id), (*metrics, *more)
    return out


def _weights_of(scorer: str) -> tuple[str, ...]:
    from spatialbench.scorers.registry import scorer_specs
    from spatialbench.scorers.worker.declared import WORKER_WEIGHTS

    return tuple(dict.fromkeys([*scorer_specs()[scorer].weights, *WORKER_WEIGHTS.get(scorer, ())]))


def _of(purpose: str) -> list[str]:
    """Entries that a metric or a scorer needs."""
    from spatialbench.observe import REGISTRY
    from spatialbench.scorers.registry import scorer_specs
    from spatialbench.tracks import load_tracks

    if purpose in scorer_specs():
        return list(_weights_of(purpose))
    load_tracks()
    named = REGISTRY.metric(purpose).spec.scorers
    return [e for s in named if s in scorer_specs() for e in _weights_of(s)]


def _asks_judge(purposes: Iterable[str]) -> str:
    from spatialbench.observe import REGISTRY
    from spatialbench.scorers.catalogue import JUDGE
    from spatialbench.scorers.registry import scorer_specs

    asked = any(JUDGE in REGISTRY.metric(p).spec.scorers for p in purposes if p not in scorer_specs())
    return ", but a judge (docs/judges.md)" if asked else ""


def _extras(entries: Iterable[str]) -> dict[str, list[str]]:
    """Extra of spatialbench -> scorers that need it, of those that use these entries and lack a package."""
    from spatialbench.scorers.registry import scorer_specs

    chosen, out = set(entries), dict[str, list[str]]()
    for spec in scorer_specs().values():
        if chosen & set(spec.weights) and any(find_spec(p) is None for p in spec.packages):
            out.setdefault(spec.extra, []).append(spec.id)
    return out


def _row(entry: WeightsEntry, at: Path, needed: tuple[tuple[str, ...], tuple[str, ...]]) -> dict[str, Any]:
    return {"id": entry.id, "model": entry.model, "scorers": list(needed[0]), "metrics": list(needed[1]),
            "licence": entry.licence, "commercial": entry.commercial, "gated": entry.gated,
            "bytes": entry.bytes, "source": entry.repo or entry.source, "revision": entry.revision,
            "state": _state(entry, at), "files": [f.path for f in entry.files]}


def _state(entry: WeightsEntry, at: Path) -> str:
    from spatialbench.scorers.weights import file_path, weights_missing

    paths = [file_path(entry, f, at) for f in entry.files]
    there = [p for p in paths if p is not None and os.path.isfile(p)]
    if not weights_missing(entry.id, at):
        return "here, in its package" if all(f.package for f in entry.files) else "here"
    if "cannot be read" in weights_missing(entry.id, at):
        return "cannot be read"
    if not there:
        return "its package is not installed" if all(f.package for f in entry.files) else "not here"
    return "in part" if len(there) < len(paths) else "wrong size"


def _licence(row: dict[str, Any]) -> str:
    marks = [w for w, so in (("non-commercial", not row["commercial"]), ("gated", row["gated"])) if so]
    return f"{row['licence']} ({', '.join(marks)})" if marks else str(row["licence"])


def _size(count: int | None) -> str:
    if count is None:
        return "not known"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _rows(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |\n" for line in lines)
