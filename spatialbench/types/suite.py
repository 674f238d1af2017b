"""A suite: which cases there are, and where each system's outputs for them lie."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spatialbench.errors import ConfigError
from spatialbench.types.case import EmbodiedCase, check_references, parse_case, with_profile
from spatialbench.types.case_parts import resolve_reference
from spatialbench.types.protocol import load_protocol
from spatialbench.types.strict import load_strict, read_yaml, validate_strict
from spatialbench.types.suite_file import SuiteCase, SuiteFile, SystemOutputs
from spatialbench.types.suite_outputs import check_outputs, check_pattern

__all__ = ["Suite", "load_suite"]

_TRACKS = {"snapshot": "happyworld.spatial", "edit": "happyworld.spatial", "expand": "happyworld.spatial",
           "video": "happyworld.video", "embodied": "happyworld.embodied"}
_MAX_CASES = 100_000
_CASE_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, eq=False)
class Suite:
    """A suite that was read and checked.

    Attributes
    ----------
    path : of the file; everything it names lies in its folder.
    protocol : for ``load_protocol``: a packaged name or the path of a file.
    cases : in the order listed, those of a glob by name.
    systems : by name, in the order listed.
    """

    path: Path
    id: str
    version: int
    protocol: str
    cases: tuple[SuiteCase, ...]
    systems: dict[str, SystemOutputs]

    @property
    def folder(self) -> Path:
        """Where the suite file lies."""
        return self.path.parent


def load_suite(path: Path) -> Suite:
    """Read a suite file (YAML) and its cases. No output and no image is opened.

    Raises
    ------
    MissingInputError : no such file.
    ConfigError : an unknown key (the nearest is named) or a wrong value; cases that are not there, that have the same
        id, lie outside the suite's folder or are of another track than the protocol; a pattern that cannot tell cases
        or roles apart; branches of one embodied group that contradict each other.
    UsageError : no such protocol.
    """
    path = Path(path)
    file = load_strict(SuiteFile, path)
    cases = tuple(_cases(file.cases, path))
    _once(cases, path)
    _same_groups(cases)
    systems = {name: _system(name, data, path) for name, data in file.systems.items()}
    _unlike(list(systems), f"{path}, key 'systems'", "two systems have the name")
    protocol = _protocol(file.protocol, path)
    track = load_protocol(protocol).track
    for c in cases:
        own = _TRACKS[c.case.kind]
        if track != own and track in _TRACKS.values():
            raise ConfigError(f"case '{c.case.id}' is of the kind '{c.case.kind}', and protocol '{file.protocol}' of "
                              f"the track '{track}'", where=c.where, todo="Put it into a suite of its own track")
    for name, system in systems.items():
        check_outputs(name, system, cases, f"{path}, system '{name}'")
    return Suite(path, file.id, file.version, protocol, cases, systems)


def _system(name: str, data: dict[str, Any], path: Path) -> SystemOutputs:
    where = f"{path}, system '{name}'"
    return validate_strict(SystemOutputs, with_profile(data, path.parent, path.parent, where), where)


def _protocol(name: str, path: Path) -> str:
    if "/" not in name and not name.endswith(_CASE_SUFFIXES):
        return name
    return str(resolve_reference(name, path.parent, path.parent, f"{path}, key 'protocol'"))


def _cases(entries: tuple[Any, ...], path: Path) -> Iterator[SuiteCase]:
    folder, number = path.parent, 0
    for k, entry in enumerate(entries):
        where = f"{path}, key 'cases.{k}'"
        if isinstance(entry, dict):
            found = [(entry, path)]
        elif isinstance(entry, str):
            found = [(read_yaml(p), p) for p in _case_files(entry, path, where)]
        else:
            raise ConfigError(f"is {type(entry).__name__}, neither a path nor a case", where=where,
                              todo="Write a path, a glob or a case")
        for data, source in found:
            number += 1
            if number > _MAX_CASES:
                raise ConfigError(f"there are more than {_MAX_CASES:,} cases", where=where, todo="Split the suite")
            said = where if source is path else str(source)
            case = parse_case(with_profile(data, source.parent, folder, said), said)
            check_references(case, source.parent, folder, said)
            yield SuiteCase(case, source.parent, said)


def _case_files(entry: str, suite: Path, where: str) -> list[Path]:
    folder = suite.parent
    check_pattern(entry, where)
    try:
        direct = resolve_reference(entry, folder, folder, where)
        if direct.is_file():
            return [direct]
        what = f"'{entry}'"
        if direct.is_dir():
            found = [p for p in direct.iterdir() if p.suffix.lower() in _CASE_SUFFIXES]
            what = f"*.yaml in '{entry}'"
        else:
            found = list(folder.glob(posixpath.normpath(entry)))
        found = sorted(p for p in found if p.is_file() and p.name != suite.name)
    except (OSError, ValueError, NotImplementedError) as error:
        raise ConfigError(f"'{entry:.100}' cannot be looked for: {error}", where=where,
                          todo="Correct the pattern") from None
    if not found:
        raise ConfigError(f"no case matches: looked for {what} in the folder '{folder.absolute()}'", where=where,
                          todo="Correct the path; it is relative to the suite file")
    return [resolve_reference(p.relative_to(folder).as_posix(), folder, folder, where) for p in found]


def _once(cases: tuple[SuiteCase, ...], path: Path) -> None:
    seen: dict[str, SuiteCase] = {}
    for c in cases:
        other = seen.setdefault(c.case.id.lower(), c)
        if other is not c:
            same = "the id" if other.case.id == c.case.id else f"but for its case the id of '{other.case.id}':"
            raise ConfigError(f"a second case has {same} '{c.case.id}'; the first is in {other.where}", where=c.where,
                              todo="Give each case an id of its own")


def _unlike(names: list[str], where: str, what: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if seen.setdefault(name.lower(), name) != name:
            raise ConfigError(f"{what} '{name}' but for its case", where=where, todo="Rename one of them")


def _same_groups(cases: tuple[SuiteCase, ...]) -> None:
    groups: dict[str, dict[str, SuiteCase]] = {}
    for c in cases:
        if not isinstance(c.case, EmbodiedCase) or c.case.pair is None:
            continue
        pair = c.case.pair
        branches = groups.setdefault(pair.group, {})
        for other in branches.values():
            theirs = other.case.pair if isinstance(other.case, EmbodiedCase) else None
            assert theirs is not None
            for key in ("branch", "changes", "difference"):
                if (getattr(pair, key) == getattr(theirs, key)) == (key == "branch"):
                    raise ConfigError(f"'{other.case.id}' and '{c.case.id}' are of the group '{pair.group}', and their "
                                      f"'pair.{key}' {'is the same' if key == 'branch' else 'differs'}", where=c.where,
                                      todo="A group has a branch a and a branch b that differ in one condition")
        branches[pair.branch] = c
