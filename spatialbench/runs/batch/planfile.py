"""``batch.json``: what a result folder is of. It holds no times and no paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import spatialbench
from spatialbench.errors import MissingInputError, ResultError
from spatialbench.runs.batch.job import UnitJob
from spatialbench.runs.store import canonical_json, write_text
from spatialbench.types import Protocol, protocol_hash

__all__ = ["NAME", "BatchFile", "BatchPlan", "read_batch"]

NAME = "batch.json"


class BatchFile(BaseModel):
    """What ``batch.json`` holds.

    Attributes
    ----------
    suite, suite_version : of the suite file; empty and 0 for a folder of worlds.
    recipes : metric -> hash of what it is made by now; a unit's measurement by another recipe is out of date.
    units : (system, case) of all that is planned, whatever is finished.
    told : what the user says of all worlds (``UnitJob.told``).
    version : of spatialbench.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_: Literal[1] = Field(alias="schema")
    suite: str
    suite_version: int
    protocol: dict[str, Any]
    protocol_hash: str
    settings: tuple[str, ...]
    recipes: dict[str, str]
    units: tuple[tuple[str, str], ...]
    version: str
    told: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """The plan of this call, to be compared with what is written down, and to be written."""

    jobs: tuple[UnitJob, ...]
    protocol: Protocol
    settings: tuple[str, ...]
    recipes: Mapping[str, str]
    suite: str = ""
    suite_version: int = 0
    told: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """The content of the file."""
        return canonical_json({
            "schema": 1, "suite": self.suite, "suite_version": self.suite_version,
            "protocol": self.protocol.model_dump(mode="json"), "protocol_hash": protocol_hash(self.protocol),
            "settings": list(self.settings), "recipes": dict(self.recipes),
            "units": [[j.system, j.case_id] for j in self.jobs], "version": spatialbench.__version__,
            **({"told": dict(self.told)} if self.told else {})}) + "\n"

    def is_written(self, out: Path) -> bool:
        """Whether the folder's plan is this one."""
        try:
            return (out / NAME).read_text(encoding="utf-8") == self.text()
        except (OSError, ValueError):
            return False

    def write(self, out: Path) -> None:
        """Replace the folder's plan.

        Raises
        ------
        ResultError : the disk refuses.
        """
        write_text(out / NAME, self.text())


def read_batch(out: Path) -> BatchFile:
    """The plan of a result folder.

    Raises
    ------
    MissingInputError : no batch was started there.
    ResultError : the file is damaged, or of another version.
    """
    path = out / NAME
    try:
        return BatchFile.model_validate_json(path.read_bytes(), strict=True)
    except FileNotFoundError:
        raise MissingInputError(f"has no '{NAME}'", where=str(out), todo="Give a batch's result folder") from None
    except OSError as error:
        raise ResultError(f"cannot be read: {error.strerror}", where=str(path), todo="Check the disk") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise ResultError(f"is damaged or of another version ({'.'.join(map(str, first['loc']))}: {first['msg']})",
                          where=str(path), todo="Give the command of the batch again") from None

