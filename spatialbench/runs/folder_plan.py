"""What a folder of worlds gives to run: every world in it, told by content and named by its path."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from spatialbench.errors import UsageError
from spatialbench.runs.listing import Contents, list_files
from spatialbench.runs.suite import PlannedWorld, Problem, SuitePlan
from spatialbench.scene.sniff import READABLE

__all__ = ["plan_folder"]


def plan_folder(root: Path, *, by_folder: bool = False) -> SuitePlan:
    """Every world in a folder, told by content. Case ids come from the paths.

    The id of ``a/b c.glb`` is ``a-b-c``. Where two would be equal, whatever their letter case, all of them get
    their suffix as well (``room.glb``, ``room.ply``), and what is still equal a number in the order of the paths.
    What is meant as a world and cannot be read is a problem of the kind ``refused``. Links are not followed.

    Parameters
    ----------
    by_folder : the first folder of a path is the system; otherwise, and for worlds in ``root`` itself, it is ``local``.

    Raises
    ------
    MissingInputError : no such folder.
    UsageError : there is no world in it, or two folders would be one system.
    """
    root = Path(root)
    listing = list_files(root, links=False)
    contents = Contents(listing)
    worlds_by_content = [f for f in listing.files if contents.accepts(f, False)]
    parts = {p for f in worlds_by_content for p in contents.parts_of(f)}
    found = dict.fromkeys(f for f in worlds_by_content if f not in parts)
    problems = tuple(Problem("refused", _split(f, by_folder)[0], "", "main", "", (f,), contents.refusal(f, False))
                     for f in listing.files if f not in found and f not in parts and contents.looks_like_a_world(f))
    if not found:
        refused = f"; '{problems[0].found[0]}' {problems[0].note}" if problems else ""
        raise UsageError(f"no world among the {len(listing.files):,} files of the folder: looked for {_readable()}, "
                         f"by content{refused}", where=str(root), todo="Give the folder of the worlds")
    if by_folder:
        _apart(found, root)
    worlds = []
    systems = {f: _split(f, by_folder) for f in found}
    for system in sorted({s for s, _ in systems.values()}):
        ids = _ids([(f, inside) for f, (s, inside) in systems.items() if s == system])
        worlds += [PlannedWorld(ids[f], system, "snapshot", {"main": root / f}, "ready") for f in ids]
    return SuitePlan(root, None, tuple(worlds), problems, (), listing.notes)


def _readable() -> str:
    return ", ".join(sorted(set(READABLE) - {"splat-ply"}))


def _split(name: str, by_folder: bool) -> tuple[str, str]:
    """System and path within it."""
    first, slash, rest = name.partition("/")
    return (_clean(first) or "local", rest) if by_folder and slash else ("local", name)


def _apart(files: Iterable[str], root: Path) -> None:
    seen: dict[str, str] = {}
    for f in files:
        folder, slash, _ = f.partition("/")
        name = _split(f, True)[0]
        own = f"'{folder}'" if slash else "the folder itself"
        other = seen.setdefault(name, own)
        if other != own:
            raise UsageError(f"{other} and {own} would both be the system '{name}', and their worlds be mixed",
                             where=str(root), todo="Give them names that differ in letters A-Z and digits")


def _ids(files: list[tuple[str, str]]) -> dict[str, str]:
    """Case id by file; ``files`` are (path, path within the system), sorted."""
    plain = {f: _clean(_stem(inside)) or "world" for f, inside in files}
    count = Counter(i.lower() for i in plain.values())
    longer = {f: _clean(inside) or "world" if count[plain[f].lower()] > 1 else plain[f] for f, inside in files}
    out: dict[str, str] = {}
    used = {i.lower() for i in longer.values()}
    taken: set[str] = set()
    for f, id in longer.items():
        number, own = 2, id
        while own.lower() in taken or (own != id and own.lower() in used):
            own, number = f"{id}-{number}", number + 1
        taken.add(own.lower())
        out[f] = own
    return out


def _stem(inside: str) -> str:
    """Without suffix; an unbundled SOG is named by its folder, for its file is always ``meta.json``."""
    if posixpath.basename(inside).lower() == "meta.json" and "/" in inside:
        return posixpath.dirname(inside)
    return posixpath.splitext(inside)[0]


def _clean(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100].rstrip("-._")
