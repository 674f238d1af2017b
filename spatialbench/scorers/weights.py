"""Weights of scorers: what the lock file says of them, and where they lie here.

Nothing is ever downloaded while scoring: ``spatialbench weights fetch`` does that when asked, and a folder copied by
hand is as good.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from spatialbench.configs import config_names, config_path
from spatialbench.errors import UsageError
from spatialbench.types.case_parts import check_relative
from spatialbench.types.strict import load_strict

__all__ = ["Lock", "WeightsEntry", "WeightsFile", "load_lock", "weights_entry", "weights_missing"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WeightsFile(_Strict):
    """One file of an entry."""

    path: str
    """Relative to the entry's folder, and to the root of the repository."""
    bytes: int | None = Field(None, ge=0)
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """None: not known to this version; ``weights fetch`` then notes the one that the hub names."""
    url: str | None = None
    """Of a file that lies in no repository of the hub."""
    package: str | None = None
    """``distribution:path`` of a file that a Python package brings along."""

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        check_relative(path)
        return path


class WeightsEntry(_Strict):
    """The frozen weights of one model."""

    id: str = Field(pattern="^[a-z0-9][a-z0-9.-]*$")
    """Also the name of its folder below the weights folder."""
    model: str
    licence: str
    commercial: bool = True
    """Whether its licence allows commercial use."""
    gated: bool = False
    """Whether the hub asks for an account and consent first."""
    repo: str | None = None
    """On the hub, ``organisation/name``."""
    revision: str | None = None
    """Commit, 40 hexadecimal digits; None: not known to this version, noted when fetched."""
    source: Literal["hub", "url", "package"] = "hub"
    files: tuple[WeightsFile, ...] = Field(min_length=1)


class Lock(_Strict):
    """The lock file: ``configs/weights/scorers.yaml``."""

    version: int
    weights: tuple[WeightsEntry, ...]


@lru_cache(maxsize=1)
def load_lock() -> Lock:
    """The packaged lock file."""
    parts = [load_strict(Lock, config_path("weights", name)) for name in config_names("weights")]
    return Lock(version=parts[0].version, weights=tuple(e for part in parts for e in part.weights))


def weights_entry(id: str) -> WeightsEntry:
    """One entry.

    Raises
    ------
    UsageError : unknown.
    """
    for entry in load_lock().weights:
        if entry.id == id:
            return entry
    raise UsageError(f"no weights '{id}'", todo=f"Known: {', '.join(e.id for e in load_lock().weights)}")


def weights_missing(id: str, folder: Path) -> str:
    """Why the weights of an entry cannot be used, from names and sizes alone, and what to do; empty when they can."""
    entry = weights_entry(id)
    for file in entry.files:
        if file.package is not None:
            continue
        path = folder / id / file.path
        if not path.is_file():
            return (f"its weights are not here ({path}): spatialbench weights fetch {id}, or copy the folder there "
                    "by hand")
        if file.bytes is not None and path.stat().st_size != file.bytes:
            return (f"{path} has {path.stat().st_size:,} bytes and should have {file.bytes:,}: fetch it again with "
                    f"spatialbench weights fetch {id}")
    return ""
