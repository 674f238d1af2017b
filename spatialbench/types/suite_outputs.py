"""Whether what a suite says of the outputs of its systems tells cases and roles apart."""

from __future__ import annotations

import difflib
import posixpath
import re

from spatialbench.errors import ConfigError
from spatialbench.types.case import CASE_KINDS, Case
from spatialbench.types.case_parts import check_relative
from spatialbench.types.suite_file import ROLES, SuiteCase, SystemOutputs

__all__ = ["check_outputs", "check_pattern"]

_PLACEHOLDERS = ("case", "role", "system")
_MAX_STARS = 6


def check_outputs(name: str, system: SystemOutputs, cases: tuple[SuiteCase, ...], where: str) -> None:
    """The patterns of a system hold what is known, name cases that there are, and give each output a path of its own.

    Raises
    ------
    ConfigError : they do not; the message says which.
    """
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
        _check_placeholders(text, f"{where}, key 'outputs'")
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
            _check_placeholders(text, f"{where}, key 'overrides.{id}'")
    for c in cases:
        _check_roles(c.case, system, name, where)


def _check_placeholders(text: str, where: str) -> None:
    check_pattern(text, where)
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


def check_pattern(text: str, where: str) -> None:
    """A relative path or glob that stays in its folder.

    Raises
    ------
    ConfigError : it is none, or has too many ``*``.
    """
    try:
        check_relative(text)
    except ValueError as error:
        raise ConfigError(f"'{text:.100}' {error}", where=where, todo="Correct it") from None
    if posixpath.normpath(text).split("/")[0] == "..":
        raise ConfigError(f"'{text:.100}' leads out of the folder", where=where,
                          todo="Put the files below it; for outputs --worlds names another folder")
    if text.count("*") > _MAX_STARS:
        raise ConfigError(f"'{text:.100}' has more than {_MAX_STARS} '*'", where=where, todo="Write fewer")
