"""A suite: which cases there are, and where each system's outputs for them lie."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from spatialbench.errors import ConfigError
from spatialbench.types.case import (
    CASE_KINDS,
    WORLD_CASES,
    Case,
    EmbodiedCase,
    ProfileName,
    check_references,
    parse_case,
    with_profile,
)
from spatialbench.types.case_parts import Id, Strict, check_relative, resolve_reference
from spatialbench.types.protocol import load_protocol
from spatialbench.types.strict import load_strict, read_yaml, validate_strict

__all__ = ["ROLES", "Suite", "SuiteCase", "SystemOutputs", "load_suite"]

ROLES: dict[str, tuple[str, ...]] = {"snapshot": ("main",), "edit": ("before", "after"), "expand": ("before", "after"),
                                     "video": ("main",), "embodied": ("main",)}
"""What a system gives for each kind of case."""
_TRACKS = {"snapshot": "happyworld.spatial", "edit": "happyworld.spatial", "expand": "happyworld.spatial",
           "video": "happyworld.video", "embodied": "happyworld.embodied"}
_PLACEHOLDERS = ("case", "role", "system")
_MAX_CASES = 100_000
_MAX_STARS = 6
_CASE_SUFFIXES = (".yaml", ".yml")


class SystemOutputs(Strict):
    """Where the outputs of one system lie, relative to the suite file or to ``--worlds``."""

    outputs: dict[str, str] = Field(min_length=1, description="pattern, or one for each kind of case")
    """A path with ``{case}``, and ``{role}`` (``before``, ``after``) for edit and expand; ``{system}`` is its name.
    ``*`` stands for any part of a name, ``**`` for any folders."""
    overrides: dict[str, str | dict[str, str]] = Field(
        default_factory=dict, description="case id: pattern, or one for each role")
    """Other places for single cases."""
    unsupported: tuple[Id, ...] = ()
    """Cases that the system cannot express: nothing is expected, and no score is zero for it."""

    profile: ProfileName | None = None
    """Conventions of what writes its worlds, for cases that name none; below what a file says."""

    @field_validator("outputs", mode="before")
    @classmethod
    def _one_for_all(cls, value: object) -> object:
        return {"*": value} if isinstance(value, str) else value

    def pattern(self, case_id: str, kind: str, role: str, system: str) -> str | None:
        """The path or glob for one output, with its placeholders filled in; None when there is none."""
        own = self.overrides.get(case_id)
        if isinstance(own, dict):
            own = own.get(role)
        text = own if own is not None else self.outputs.get(kind, self.outputs.get("*"))
        if text is None:
            return None
        for name, value in (("case", case_id), ("role", role), ("system", system)):
            text = text.replace(f"{{{name}}}", value)
        return posixpath.normpath(text)


class SuiteFile(Strict):
    """Which cases there are, and where each system's outputs for them lie."""

    id: Id
    """Names the suite in results."""
    version: int = Field(ge=1)
    """Raised when a case or the protocol changes."""
    protocol: str
    """A packaged protocol, or a YAML file relative to this one."""
    cases: tuple[Any, ...] = Field(min_length=1, description="path, or list of paths and cases")
    """Case files, globs of them, folders (their ``.yaml`` files), or cases written out here."""
    systems: dict[Id, dict[str, Any]] = Field(min_length=1, description="name: mapping")
    """The systems under test."""

    @field_validator("cases", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return (value,) if isinstance(value, str | dict) else value


@dataclass(frozen=True, eq=False)
class SuiteCase:
    """A case, the folder that its paths are relative to, and where it was written."""

    case: Case
    folder: Path
    where: str

    @property
    def image(self) -> Path | None:
        """Its input image, whether or not it is there."""
        return None if self.case.image is None else self.folder / self.case.image

    @property
    def side_cars(self) -> tuple[Path, ...]:
        """Its side-cars, whether or not they are there; ``load_suite`` has checked where they lie."""
        names = self.case.sidecar if isinstance(self.case, WORLD_CASES) else ()
        return tuple(self.folder / name for name in names)


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
        _check_patterns(name, system, cases, f"{path}, system '{name}'")
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
    _relative_pattern(entry, where)
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


def _relative_pattern(text: str, where: str) -> None:
    try:
        check_relative(text)
    except ValueError as error:
        raise ConfigError(f"'{text:.100}' {error}", where=where, todo="Correct it") from None
    if posixpath.normpath(text).split("/")[0] == "..":
        raise ConfigError(f"'{text:.100}' leads out of the folder", where=where,
                          todo="Put the files below it; for outputs --worlds names another folder")
    if text.count("*") > _MAX_STARS:
        raise ConfigError(f"'{text:.100}' has more than {_MAX_STARS} '*'", where=where, todo="Write fewer")


def _check_patterns(name: str, system: SystemOutputs, cases: tuple[SuiteCase, ...], where: str) -> None:
    for kind in system.outputs:
        if kind != "*" and kind not in CASE_KINDS:
            near = difflib.get_close_matches(kind, CASE_KINDS, n=1)
            raise ConfigError(f"key 'outputs': there are no '{kind:.80}' cases", where=where,
                              todo=f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(CASE_KINDS)}")
    by_id = {c.case.id: c.case for c in cases}
    for key, ids in (("overrides", tuple(system.overrides)), ("unsupported", system.unsupported)):
        for id in ids:
            if id not in by_id:
                near = difflib.get_close_matches(id[:200], by_id, n=1)
                raise ConfigError(f"key '{key}': the suite has no case '{id:.80}'", where=where,
                                  todo=f"Did you mean '{near[0]}'?" if near else "Correct the id")
    for key, text in system.outputs.items():
        _check_pattern(text, f"{where}, key 'outputs'")
        if "{case}" not in text and len([c for c in cases if key in ("*", c.case.kind)]) > 1:
            raise ConfigError(f"'{text:.100}' does not hold {{case}}, so all cases would have one output",
                              where=f"{where}, key 'outputs'", todo="Write for example worlds/{case}.glb")
    for id, own in system.overrides.items():
        roles = ROLES[by_id[id].kind]
        for role in own if isinstance(own, dict) else ():
            if role not in roles:
                raise ConfigError(f"key 'overrides.{id}': a case of the kind '{by_id[id].kind}' has no '{role:.80}'",
                                  where=where, todo=f"Known: {', '.join(roles)}")
        for text in own.values() if isinstance(own, dict) else (own,):
            _check_pattern(text, f"{where}, key 'overrides.{id}'")
    for c in cases:
        _check_roles(c.case, system, name, where)


def _check_pattern(text: str, where: str) -> None:
    _relative_pattern(text, where)
    for found in re.findall(r"\{([^{}]*)\}", text):
        if found not in _PLACEHOLDERS:
            near = difflib.get_close_matches(found, _PLACEHOLDERS, n=1)
            raise ConfigError(f"unknown placeholder '{{{found:.40}}}' in '{text:.100}'", where=where,
                              todo=f"Did you mean '{{{near[0]}}}'?" if near else "Known: {case}, {role}, {system}")


def _check_roles(case: Case, system: SystemOutputs, name: str, where: str) -> None:
    if case.id in system.unsupported:
        return
    paths = [system.pattern(case.id, case.kind, role, name) for role in ROLES[case.kind]]
    if None in paths:
        raise ConfigError(f"nothing says where the output for case '{case.id}' of the kind '{case.kind}' lies",
                          where=where, todo=f"Add 'outputs.{case.kind}', or list it under 'unsupported'")
    if len(set(paths)) < len(paths):
        raise ConfigError(f"for case '{case.id}' of the kind '{case.kind}' both roles lie at '{paths[0]}'",
                          where=where, todo="Write {role} into the pattern, or 'outputs' as a mapping by kind")
    own = system.overrides.get(case.id) or system.outputs.get(case.kind, system.outputs.get("*", ""))
    if len(paths) == 1 and "{role}" in str(own):
        raise ConfigError(f"'{own}' holds {{role}}, and case '{case.id}' of the kind '{case.kind}' has no roles",
                          where=where, todo="Write 'outputs' as a mapping from kinds of cases to patterns")
