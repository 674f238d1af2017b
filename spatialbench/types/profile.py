"""What an exporter's files are like: conventions that no file states, each with its evidence."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from spatialbench.configs import config_names, config_path
from spatialbench.errors import UsageError
from spatialbench.types.case_parts import parse_axis
from spatialbench.types.strict import load_strict

__all__ = ["ExporterProfile", "is_profile_path", "load_profile", "profile_names", "profile_value"]

Axis = Annotated[tuple[float, float, float], Field(description="x, y, z")]


class ExporterProfile(BaseModel):
    """Conventions of one exporter. They stand above a format's and below what a file, a case or a user says."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    maker: str
    files: str
    """What it writes, in words."""
    evidence: str
    """Where this is known from, and how sure it is."""
    up: Axis | None = None
    forward: Axis | None = None
    """Direction that the initial camera looks in."""
    camera: Literal["origin"] | None = None
    """Where the initial camera stands."""
    unit_m: float | None = Field(None, gt=1e-12, lt=1e12)
    opacity: Literal["logit", "activated"] | None = None
    """How opacities of splats are stored, where it is not as the format asks."""
    notes: tuple[str, ...] = ()
    """For people who choose it."""

    @field_validator("up", "forward", mode="before")
    @classmethod
    def _axis(cls, value: object) -> object:
        return parse_axis(value) if isinstance(value, str) else value


def profile_names() -> list[str]:
    """Those that come with the package."""
    return config_names("profiles")


def is_profile_path(name: str) -> bool:
    """Whether it names a YAML file, and not a packaged profile."""
    return "/" in name or name.endswith((".yaml", ".yml"))


def profile_value(value: object) -> object:
    """The packaged profile of a name, for models that hold one; anything else as it is.

    Raises
    ------
    ValueError : no such profile.
    """
    if not isinstance(value, str):
        return value
    near = difflib.get_close_matches(value[:80], profile_names(), n=1)
    if value not in profile_names():
        raise ValueError(f"no profile '{value[:80]}'; " + (f"did you mean '{near[0]}'?" if near else
                                                           f"known: {', '.join(profile_names())}, or a YAML file"))
    return load_profile(value)


def load_profile(name: str) -> ExporterProfile:
    """A packaged profile by name, or one from a YAML file.

    Raises
    ------
    UsageError : no such profile.
    ConfigError : an unknown key (the nearest one is named) or a wrong value.
    """
    path = Path(name) if is_profile_path(name) else config_path("profiles", name)
    try:
        found = path.is_file()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        found = False
    if not found:
        raise UsageError(f"no profile '{name}'", where="--profile",
                         todo=f"Known: {', '.join(profile_names())}; or give a YAML file")
    return load_strict(ExporterProfile, path)
