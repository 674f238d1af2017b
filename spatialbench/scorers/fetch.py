"""``weights fetch``: what is missing of an entry, where from, and what the hub says that it must be.

Where the lock file knows no commit or hash, the hub is asked once; what it names is noted in the entry's folder, and
from then on the files must be that (trust on first use).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.scorers.download import Expected, download, git_blob_sha1
from spatialbench.scorers.verify import file_sha256
from spatialbench.scorers.web import Web, retried
from spatialbench.scorers.weights import (
    NOTE,
    Note,
    WeightsEntry,
    WeightsFile,
    file_path,
    read_note,
    weights_entry,
    weights_missing,
)

__all__ = ["Fetched", "fetch", "hub"]

_HUB = "https://huggingface.co"
_SPARE = 64 << 20
_LISTING = 32 << 20

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Fetched:
    """What became of one file: ``fetched``, ``here`` (it was, and is right), ``kept`` (it was; nothing is known that it
    could be compared with) or ``package`` (comes with one)."""

    path: str
    outcome: str
    bytes: int
    sha256: str


def hub(environment: Mapping[str, str] | None = None) -> Web:
    """The hub: ``HF_ENDPOINT``, else huggingface.co; the token from ``HF_TOKEN``, ``HUGGING_FACE_HUB_TOKEN`` or the
    file that its own command line keeps.

    Raises
    ------
    UsageError : the endpoint is no address, or the token is not one line of plain characters.
    """
    env = os.environ if environment is None else environment
    endpoint = (env.get("HF_ENDPOINT") or _HUB).rstrip("/")
    if not re.fullmatch(r"https?://[^\s@?#]+", endpoint):
        raise UsageError("is no http or https address", where="HF_ENDPOINT", todo=f"Such as {_HUB}")
    token = env.get("HF_TOKEN") or env.get("HUGGING_FACE_HUB_TOKEN") or ""
    where = "HF_TOKEN"
    if not token:
        home = env.get("HF_HOME") or str(Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface"))
        file = Path(env.get("HF_TOKEN_PATH") or Path(home, "token"))
        where = str(file)
        try:
            token = file.read_text(encoding="ascii") if file.stat().st_size < 4096 else ""
        except (OSError, ValueError):
            token = ""
    token = token.strip()
    if token and not re.fullmatch(r"[\x21-\x7e]+", token):
        raise UsageError("does not hold a token: it must be one line of plain characters", where=where,
                         todo="Set it again")
    return Web(endpoint, token)


def fetch(ids: Sequence[str], weights: Path, *, accept_licence: bool = False, offline: bool = False,
          web: Web | None = None, tell: Tell = lambda label, done, total: None,
          said: Callable[[str], None] = lambda line: None) -> dict[str, list[Fetched]]:
    """Fetch what is missing or wrong of these entries.

    Parameters
    ----------
    weights : the weights folder.
    accept_licence : the user accepts the licences that ask for it.
    said : told what is noteworthy, in lines.

    Returns
    -------
    What became of each entry's files.

    Raises
    ------
    UsageError : offline, a licence that is not accepted, or no such entry.
    BackendUnavailableError : something cannot be fetched or is not what it must be; what is whole by then stays.
    """
    entries = [weights_entry(id) for id in dict.fromkeys(ids)]
    asking = [f"{e.id} ({e.licence}; {e.asks})" for e in entries if e.asks]
    if asking and not accept_licence:
        raise UsageError(f"these weights ask for your consent: {'; '.join(asking)}",
                         todo="Read their licences, then add --accept-licence, or leave them out")
    if offline and any(f.package is None for e in entries for f in e.files):
        raise UsageError("nothing is fetched offline", where="--offline, SPATIALBENCH_OFFLINE or HF_HUB_OFFLINE",
                         todo="Leave it off, or copy the folder there by hand")
    return {e.id: _fetch_entry(e, weights, web or hub(), tell, said) for e in entries}


def _fetch_entry(entry: WeightsEntry, weights: Path, web: Web, tell: Tell,
                 said: Callable[[str], None]) -> list[Fetched]:
    folder = weights / entry.id
    note = read_note(folder)
    commit, wanted = _wanted(entry, note, web)
    if note.revision and commit and note.revision != commit:
        said(f"{entry.id}: the lock file now names the commit {commit[:12]}; fetched first was {note.revision[:12]}")
    out: list[Fetched] = []
    todo: list[tuple[WeightsFile, Path, str, Expected]] = []
    hashes: dict[str, dict[str, Any]] = {p: {"sha256": h} for p, h in note.sha256.items()
                                         if p in {f.path for f in entry.files}}
    for file in entry.files:
        path = file_path(entry, file, weights)
        if file.package is not None:
            if path is None or not path.is_file():
                raise BackendUnavailableError(f"{entry.model}: {weights_missing(entry.id, weights)}")
            out.append(Fetched(file.path, "package", path.stat().st_size, file_sha256(path)))
            continue
        assert path is not None
        url, expected = wanted[file.path]
        here = _here(path, expected)
        if here is None:
            todo.append((file, path, url, expected))
            continue
        out.append(_found(file, here, path))
        if here == "here":
            hashes[file.path] = {"bytes": out[-1].bytes, "sha256": out[-1].sha256}
        else:
            said(f"{entry.id}/{file.path} was copied by hand and nothing is known to compare it with: kept, not pinned")
    _check_room(folder, [e.bytes for _, _, _, e in todo])
    for file, path, url, expected in todo:
        if path.is_file():
            said(f"{entry.id}/{file.path} is not what it must be: fetched again")
        label = f"{entry.id}/{file.path}"
        got = download(url, path, web, expected, lambda a, b, label=label: tell(label, a, b))  # type: ignore[misc]
        out.append(Fetched(file.path, "fetched", got.bytes, got.sha256))
        hashes[file.path] = {"bytes": got.bytes, "sha256": got.sha256}
        _write_note(entry, folder, commit, hashes)
    if hashes:
        _write_note(entry, folder, commit, hashes)
    order = [f.path for f in entry.files]
    return sorted(out, key=lambda f: order.index(f.path))


def _found(file: WeightsFile, outcome: str, path: Path) -> Fetched:
    """A file that need not be fetched."""
    return Fetched(file.path, outcome, path.stat().st_size, file_sha256(path))


def _wanted(entry: WeightsEntry, note: Note, web: Web) -> tuple[str | None, dict[str, tuple[str, Expected]]]:
    """The commit, and for each file its address and what it must be: by the lock file, else the note, else the hub."""
    from_hub = [f for f in entry.files if f.package is None and f.url is None]
    commit = entry.revision or note.revision
    noted = note.sha256 if commit == (note.revision or commit) else {}
    listed: dict[str, Expected] = {}
    if from_hub and (commit is None or any(f.bytes is None or not (f.sha256 or noted.get(f.path)) for f in from_hub)):
        commit, listed = _ask(entry, commit, web)
    out = {}
    for f in entry.files:
        if f.package is not None:
            continue
        told = listed.get(f.path, Expected())
        if f in from_hub and listed and f.path not in listed:
            raise BackendUnavailableError(f"has no file '{f.path}'", where=f"{web.endpoint}/{entry.repo}",
                                          todo="Report it: the lock file names what the hub does not have")
        sha256 = f.sha256 or noted.get(f.path, "")
        if sha256 and told.sha256 and sha256 != told.sha256:
            raise BackendUnavailableError(
                f"the hub now has '{f.path}' with the SHA-256 {told.sha256}, and "
                f"{'the lock file' if f.sha256 else 'the note of the first fetch'} says {sha256}",
                where=f"{web.endpoint}/{entry.repo}", todo="Do not use it, and report it")
        expected = Expected(f.bytes if f.bytes is not None else told.bytes, sha256 or told.sha256,
                            "" if sha256 or told.sha256 else told.git)
        out[f.path] = (f.url or f"{web.endpoint}/{entry.repo}/resolve/{commit}/{quote(f.path)}", expected)
    return commit, out


def _ask(entry: WeightsEntry, commit: str | None, web: Web) -> tuple[str, dict[str, Expected]]:
    """The commit of a repository of the hub, and what its files are."""
    url = f"{web.endpoint}/api/models/{entry.repo}/revision/{commit or 'main'}?blobs=true"
    text = _small(url, web)
    try:
        data = json.loads(text)
        found = str(data["sha"])
        if not re.fullmatch("[0-9a-f]{40}", found) or (commit and found != commit):
            raise ValueError(f"commit '{found:.60}'")
        listed = {}
        for s in data["siblings"]:
            lfs = s.get("lfs") or {}
            expected = Expected(s.get("size"), lfs.get("sha256", ""), "" if lfs else s.get("blobId") or "")
            if not re.fullmatch("([0-9a-f]{64})?", expected.sha256) or not re.fullmatch(
                    "([0-9a-f]{40})?", expected.git) or not isinstance(expected.bytes, int):
                raise ValueError(f"file '{s['rfilename']:.60}'")
            listed[str(s["rfilename"])] = expected
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BackendUnavailableError(f"the hub's answer cannot be used ({error})", where=url.partition("?")[0],
                                      todo="Check HF_ENDPOINT, or try again later") from None
    return found, listed


def _small(url: str, web: Web) -> bytes:
    def once() -> bytes:
        with web.open(url) as response:
            body = bytes(response.read(_LISTING + 1))
            length = response.headers.get("Content-Length")
        if len(body) > _LISTING or (length is not None and str(len(body)) != length):
            raise HTTPException("the answer is cut off or too long")
        return body

    return retried(url, once)


def _here(path: Path, expected: Expected) -> str | None:
    """``here``: the file is what it must be; ``kept``: nobody knows what; None: it must be fetched."""
    if not path.is_file() or (expected.bytes is not None and path.stat().st_size != expected.bytes):
        return None
    if expected.sha256:
        return "here" if file_sha256(path, fresh=True) == expected.sha256 else None
    if expected.git:
        return "here" if git_blob_sha1(path) == expected.git else None
    return "kept"


def _check_room(folder: Path, sizes: Sequence[int | None]) -> None:
    needed = sum(s or 0 for s in sizes)
    if not needed:
        return
    there = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    parts = sum(p.stat().st_size for p in folder.rglob("*.part") if p.is_file())
    free = shutil.disk_usage(there).free
    if needed - parts + _SPARE > free:
        raise BackendUnavailableError(f"{needed - parts:,} bytes are to be fetched, and {free:,} are free",
                                      where=str(folder), todo="Free some, or name another folder with --dir")


def _write_note(entry: WeightsEntry, folder: Path, commit: str | None, files: dict[str, dict[str, Any]]) -> None:
    data = {"version": 1, "id": entry.id, "repo": entry.repo, "revision": commit,
            "meaning": "What was found when these files were fetched first; later they must be the same.",
            "files": dict(sorted(files.items()))}
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{NOTE}.part"
    part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    os.replace(part, folder / NOTE)
