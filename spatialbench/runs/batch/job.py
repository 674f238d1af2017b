"""One unit of work: a case, a system, and the metrics that are asked of its output."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spatialbench.errors import UsageError
from spatialbench.types import Protocol

__all__ = ["UnitJob", "check_unique", "safe_name", "unit_folder"]

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, eq=False)
class UnitJob:
    """What a worker needs to know of one unit, all of it JSON.

    Attributes
    ----------
    system, case_id : how its measurements are filed; together they name the unit.
    roles : role -> absolute path of the system's output (``main``; ``before`` and ``after``).
    case : the case as a mapping, or None when none was given.
    metrics : asked for, in the protocol's order.
    root : folder that the paths of this unit are named relative to in messages.
    image : absolute path of the case's input image; empty without.
    absent : why there is no output; empty when there is one.
    unsupported : the system cannot express the case: nothing is expected of it.
    told : what the user says of all worlds: ``profile`` (a mapping), ``opacity``, ``max_splats`` and ``drop_outliers``,
        where given.
    """

    system: str
    case_id: str
    roles: Mapping[str, str]
    metrics: tuple[str, ...]
    case: Mapping[str, Any] | None = None
    root: str = ""
    image: str = ""
    absent: str = ""
    unsupported: bool = False
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """``system/case``."""
        return f"{self.system}/{self.case_id}"

    @property
    def kind(self) -> str:
        """Kind of the case; without one it is a snapshot."""
        return "snapshot" if self.case is None else str(self.case.get("kind", "snapshot"))

    def message(self, protocol: Protocol, folder: Path, *, metrics: tuple[str, ...], keep: tuple[str, ...],
                settings: tuple[str, ...], page: bool, scoring: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What is sent to a worker: JSON types only."""
        return {"system": self.system, "case_id": self.case_id, "roles": dict(self.roles), "case": self.case,
                "root": self.root, "image": self.image, "metrics": list(metrics), "keep": list(keep),
                "protocol": protocol.model_dump(mode="json"), "settings": list(settings), "folder": str(folder),
                "page": page, "told": dict(self.told), "scoring": dict(scoring or {})}


@dataclass(frozen=True)
class Work:
    """A job as a worker got it (fields as in :class:`UnitJob` and its ``message``)."""

    system: str
    case_id: str
    roles: dict[str, str]
    case: dict[str, Any] | None
    root: str
    image: str
    metrics: tuple[str, ...]
    keep: tuple[str, ...]
    protocol: dict[str, Any] = field(repr=False)
    settings: tuple[str, ...]
    folder: Path
    page: bool
    told: dict[str, Any] = field(default_factory=dict)
    scoring: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def read(data: dict[str, Any]) -> Work:
        """From a message."""
        return Work(**{**data, "metrics": tuple(data["metrics"]), "keep": tuple(data["keep"]),
                       "settings": tuple(data["settings"]), "folder": Path(data["folder"])})


def safe_name(text: str) -> str:
    """A file name for an id: itself where it is one, else its letters and a hash, so that two never meet."""
    if _SAFE.fullmatch(text) and not text.endswith("."):
        return text
    letters = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:80] or "x"
    return f"{letters}~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def unit_folder(out: Path, system: str, case_id: str) -> Path:
    """``OUT/units/<system>/<case>``."""
    return out / "units" / safe_name(system) / safe_name(case_id)


def check_unique(jobs: tuple[UnitJob, ...]) -> None:
    """No two units in one folder, also where the file system does not tell letter cases apart.

    Raises
    ------
    UsageError
    """
    seen: dict[str, UnitJob] = {}
    for job in jobs:
        name = f"{safe_name(job.system)}/{safe_name(job.case_id)}".lower()
        other = seen.setdefault(name, job)
        if other is not job:
            raise UsageError(f"'{job.unit}' and '{other.unit}' would share a result folder", where="plan",
                             todo="Give one of them another name")
