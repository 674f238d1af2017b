"""``unit.json``: the last file of a unit to be written, which says that the others are complete and what they are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spatialbench.errors import ResultError
from spatialbench.runs.batch.keys import digest, hash_file
from spatialbench.runs.store import canonical_json, write_text
from spatialbench.types import Measurement

__all__ = ["NAME", "UnitFile", "check_owner", "clear_unit", "inputs_digest", "read_unit", "unit_content",
           "verify_files", "write_unit"]

NAME = "unit.json"
SCHEMA = 1
_TAIL = ',"sha256":"'
_HASHED = ("import.json", "summary.json", "units.jsonl")
_OTHERS = ("judge.jsonl", "report.html", "run.json", "timings.jsonl")
_MAX_BYTES = 64 << 20

Outcome = Literal["done", "unreadable", "missing", "crash", "time", "memory", "untested", "unsupported"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class UnitInput(_Strict):
    """A file that was read."""

    role: str
    name: str
    bytes: int
    sha256: str


class UnitFile(_Strict):
    """What ``unit.json`` holds: canonical JSON, closed by its own hash.

    Attributes
    ----------
    status : ``done``; ``failed`` (no output, unreadable, crashed or over a limit); ``skipped`` (nothing was to be run).
    outcome, reason : which of these, and why in a sentence.
    attempts : how each attempt ended, of a unit that failed by a crash or a limit.
    again : the failure is of a kind that costs nothing to look at again (a file that the world needs is not there).
    inputs, inputs_sha256 : what was read; the hash covers the case too.
    recipes : metric -> hash of what it was made by (``keys.recipes``).
    lacking : scorers (``vlm_judge`` is one) that metrics without a value name, and that could not be used, or not for
        all that was asked of them; None: no such metric names any, or it is not known (of an earlier version).
    normalization : table of the unit's own ``summary.json``.
    files : name -> SHA-256.
    measurements : without components, fields at their defaults left out.
    """

    schema_: Literal[1] = Field(alias="schema")
    unit: str
    system: str
    case: str
    status: Literal["done", "failed", "skipped"]
    outcome: Outcome
    reason: str = ""
    attempts: tuple[str, ...] = ()
    again: bool = False
    lacking: tuple[str, ...] | None = None
    inputs: tuple[UnitInput, ...]
    inputs_sha256: str
    recipes: dict[str, str]
    normalization: str
    files: dict[str, str]
    measurements: tuple[Measurement, ...]
    sha256: str

    def also(self) -> dict[str, list[str]]:
        """Role -> names of what was read, for ``keys.hash_inputs``."""
        out: dict[str, list[str]] = {}
        for f in self.inputs:
            out.setdefault(f.role, []).append(f.name)
        return out


def unit_content(*, system: str, case: str, status: str, outcome: str, inputs: list[dict[str, Any]],
                 inputs_sha256: str, recipes: Mapping[str, str], normalization: str, files: Mapping[str, str],
                 measurements: Iterable[Measurement], reason: str = "", attempts: Iterable[str] = (),
                 again: bool = False, lacking: Iterable[str] | None = None) -> dict[str, Any]:
    """The fields of a :class:`UnitFile`, but its own hash, as JSON types."""
    rest = {"reason": reason, "attempts": list(attempts), "again": again}
    return {"schema": SCHEMA, "unit": f"{system}/{case}", "system": system, "case": case, "status": status,
            "outcome": outcome, "inputs": inputs, "inputs_sha256": inputs_sha256, "recipes": dict(recipes),
            "normalization": normalization, "files": dict(files),
            "measurements": [m.model_dump(mode="json", exclude={"components"}, exclude_defaults=True)
                             for m in measurements],
            **{k: v for k, v in rest.items() if v},
            **({} if lacking is None else {"lacking": sorted(lacking)})}


def inputs_digest(inputs: list[dict[str, Any]], case: Mapping[str, Any] | None,
                  told: Mapping[str, Any] | None = None) -> str:
    """Over the content and names of all inputs, the case, and what the user says of the exporter (none, if empty)."""
    return digest({"files": inputs, "case": case, **({"told": dict(told)} if told else {})})


def write_unit(folder: Path, content: dict[str, Any]) -> None:
    """Write ``unit.json``; the other files must be there.

    Raises
    ------
    ResultError : the disk refuses.
    """
    body = canonical_json(content)[:-1].encode("utf-8", "replace").decode()
    write_text(folder / NAME, f'{body}{_TAIL}{hashlib.sha256(body.encode()).hexdigest()}"}}\n')


def clear_unit(folder: Path, *, keep: Iterable[str] = ()) -> None:
    """Remove the mark of completion first, then the other files of an earlier run but ``keep``, and what an
    interrupted write has left.

    Raises
    ------
    ResultError : the disk refuses.
    """
    kept = set(keep)
    try:
        for path in (folder / NAME, *folder.glob(".*.tmp"), *(folder / n for n in (*_HASHED, *_OTHERS)
                                                             if n not in kept)):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ResultError(f"cannot be replaced: {error.strerror}", where=str(folder),
                          todo="Remove it or choose another folder with -o") from error


def read_unit(folder: Path) -> UnitFile | None:
    """The record of a complete unit, its measurements checked; None where there is none (yet).

    Raises
    ------
    ResultError : cut off, edited, or of another version.
    """
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as f:
            data = f.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ResultError("is larger than any unit file", where=path, todo="It is run again")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ResultError(f"cannot be read: {error.strerror}", where=path, todo="Check the disk") from None
    body, tail, rest = data.rpartition(_TAIL.encode())
    if not tail or len(rest) != 67 or rest[64:] != b'"}\n' or hashlib.sha256(body).hexdigest() != rest[:64].decode(
            "latin-1"):
        raise ResultError("is cut off or was changed by hand", where=path, todo="It is run again")
    try:
        return UnitFile.model_validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise ResultError(f"is no unit file of this version ({what})", where=path,
                          todo="It is run again") from None


def check_owner(folder: Path, unit: UnitFile, system: str, case: str) -> None:
    """Whether a record and all its measurements are of this unit, each once and with its recipe.

    Raises
    ------
    ResultError
    """
    if (unit.system, unit.case) != (system, case):
        raise ResultError(f"is of the unit '{unit.unit}'", where=str(folder), todo="It is run again")
    seen = set()
    for m in unit.measurements:
        key = m.metric, m.object
        if (m.system, m.case) != (system, case) or m.metric not in unit.recipes or key in seen:
            raise ResultError(f"holds a measurement of {m.metric} that is not its own, or twice", where=str(folder),
                              todo="It is run again")
        seen.add(key)


def verify_files(folder: Path, unit: UnitFile) -> None:
    """Whether the files beside ``unit.json`` are those that it was written for.

    Raises
    ------
    ResultError : with the first that is not.
    """
    for name, sha in unit.files.items():
        if name not in _HASHED:
            raise ResultError(f"names the file '{name}', which no unit has", where=str(folder / NAME),
                              todo="It is run again")
        try:
            same = hash_file(os.path.join(folder, name))[1] == sha
        except OSError as error:
            raise ResultError(f"cannot be read: {error.strerror}", where=str(folder / name),
                              todo="It is run again") from None
        if not same:
            raise ResultError("is cut off or was changed by hand", where=str(folder / name), todo="It is run again")
