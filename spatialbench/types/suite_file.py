"""The parts of a suite: its file, its cases, and where the outputs of its systems lie."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from spatialbench.types.case import WORLD_CASES, Case, ProfileName
from spatialbench.types.case_parts import Id, Strict

__all__ = ["ROLES", "SuiteCase", "SuiteFile", "SystemOutputs"]

ROLES: dict[str, tuple[str, ...]] = {"snapshot": ("main",), "edit": ("before", "after"), "expand": ("before", "after"),
                                     "video": ("main",), "embodied": ("main",)}
"""What a system gives for each kind of case."""


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
