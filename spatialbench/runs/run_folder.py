"""The folder of a single run: its record and its measurements, as one finished unit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spatialbench.errors import MissingInputError, ResultError, SpatialbenchError
from spatialbench.runs.batch.finished import UnitRecord
from spatialbench.runs.batch.planfile import NAME
from spatialbench.runs.store import read_units

__all__ = ["differing", "listed", "read_run", "run_record", "text_of"]

_MAX_RECORD = 64 << 20
_SHOWN = 5


def read_run(path: Path) -> UnitRecord:
    """The run as a unit, ``damaged`` when its measurements cannot be read or are of something else.

    Raises
    ------
    MissingInputError, ResultError : as :func:`run_record`.
    """
    record = run_record(path)
    system, case = text_of(record, "system", path), text_of(record, "case", path)
    try:
        found = tuple(read_units(path / "units.jsonl"))
        other = next((m for m in found if (m.system, m.case) != (system, case)), None)
        if other is not None:
            raise ResultError(f"holds a measurement of {other.system}/{other.case}", where=str(path),
                              todo="Run the world again")
    except SpatialbenchError as error:
        return UnitRecord(system, case, "damaged", str(error))
    except (OSError, ValueError) as error:
        return UnitRecord(system, case, "damaged", f"{path / 'units.jsonl'}: cannot be read: {error}")
    return UnitRecord(system, case, "done", measurements=found)


def run_record(path: Path) -> dict[str, Any]:
    """``run.json`` of a folder.

    Raises
    ------
    MissingInputError : it is no folder of results. ResultError : the record is damaged, or the run did not end.
    """
    file = path / "run.json"
    try:
        if not path.is_dir():
            raise MissingInputError("is not a folder", where=str(path), todo="Give folders that a batch or run wrote")
        if not file.is_file():
            inside = [p.name for p in sorted(path.iterdir())[:1000]
                      if (p / NAME).is_file() or (p / "run.json").is_file()]
            if (path / "units.jsonl").exists():
                raise ResultError("has no 'run.json': the run was stopped while it wrote", where=str(path),
                                  todo="Run the world again")
            raise MissingInputError("is no folder of results: it has neither 'batch.json' nor 'run.json'",
                                    where=str(path), todo=f"Folders in it have: give {path}/* for {listed(inside)}"
                                    if inside else "Give folders that a batch or run wrote")
        if file.stat().st_size > _MAX_RECORD:
            raise ResultError("is larger than any record of a run", where=str(file), todo="Run the world again")
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ResultError(f"is not the record of a run ({error})", where=str(file),
                          todo="Run the world again") from None
    if not isinstance(record, dict):
        raise ResultError("is not the record of a run", where=str(file), todo="Run the world again")
    return record


def text_of(record: Mapping[str, Any], key: str, path: Path) -> str:
    """A name in the record.

    Raises
    ------
    ResultError : it is not there.
    """
    value = record.get(key)
    if not isinstance(value, str) or not value:
        raise ResultError(f"names no {key}", where=str(path / "run.json"), todo="Run the world again")
    return value


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def differing(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Keys with other values, as ``path.to.key (x, y)``."""
    out = []
    for key in sorted(a.keys() | b.keys()):
        x, y = a.get(key), b.get(key)
        if isinstance(x, dict) and isinstance(y, dict):
            out += differing(x, y, f"{prefix}{key}.")
        elif x != y or (key in a) != (key in b):
            words = [json.dumps(v) for v in (x, y)]
            out.append(f"{prefix}{key} ({', '.join(w if len(w) <= 40 else w[:37] + '...' for w in words)})")
    return out
