"""Result files: written to a temporary name and renamed, so that none is ever half there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from spatialbench.errors import MissingInputError, ResultError, UsageError
from spatialbench.types import Measurement

__all__ = ["canonical_json", "check_folder", "prepare_folder", "read_units", "sole_writer", "units_text", "write_json",
           "write_result", "write_text", "write_units"]


def canonical_json(data: Any, *, indent: int | None = None) -> str:
    """JSON with sorted keys and no NaN; the same data gives the same bytes."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(data, sort_keys=True, allow_nan=False, ensure_ascii=False, indent=indent,
                      separators=separators)


def check_folder(folder: Path) -> None:
    """Whether the result folder is there or could be made; makes nothing. So it is known before hours of work.

    Raises
    ------
    UsageError : it or what it would be in is a file, or may not be written to.
    """
    reason = ""
    try:
        at = folder.absolute()
        while not os.path.lexists(at):
            at = at.parent
        if not at.is_dir():
            reason = f"'{at.name}' is not a folder"
        elif not os.access(at, os.W_OK | os.X_OK):
            reason = f"'{at.name or at}' may not be written to"
        else:
            os.lstat(folder)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    if reason:
        raise UsageError(f"the result folder cannot be made: {reason}", where=str(folder),
                         todo="Choose another with -o")


def prepare_folder(folder: Path) -> Path:
    """Make the result folder.

    Raises
    ------
    UsageError : it is a file, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the result folder cannot be made: {error.strerror}", where=str(folder),
                         todo="Choose another with -o") from None
    return folder


def write_text(path: Path, text: str) -> None:
    """Replace a file as a whole.

    Raises
    ------
    ResultError : when the disk refuses.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape and UTF-8 cannot hold
        text = text.encode("utf-8", "replace").decode("utf-8")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise ResultError(f"cannot be written: {error.strerror}", where=str(path),
                          todo="Free some space or choose another folder with -o") from None


def write_json(path: Path, data: Any) -> None:
    """Write indented canonical JSON."""
    write_text(path, canonical_json(data, indent=1) + "\n")


def write_units(path: Path, measurements: Iterable[Measurement]) -> None:
    """One line of canonical JSON a Measurement, in the order given."""
    write_text(path, units_text(measurements))


def units_text(measurements: Iterable[Measurement]) -> str:
    """What ``write_units`` writes."""
    return "".join(canonical_json(m.model_dump(mode="json")) + "\n" for m in measurements)


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Holds a folder, so that the files of two runs into it never mix: the later run's replace the earlier's.

    Where the system knows no such locks, nothing is held.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_result(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files of one result, ``run.json`` last; an earlier one's goes first, with what may not come again.

    Raises
    ------
    UsageError : the folder cannot be made.
    ResultError : the disk refuses.
    """
    prepare_folder(folder)
    with sole_writer(folder):
        for name in ("run.json", "report.html", "judge.jsonl"):
            try:
                (folder / name).unlink(missing_ok=True)
            except OSError as error:
                raise ResultError(f"cannot be replaced: {error.strerror}", where=str(folder / name),
                                  todo="Remove it or choose another folder with -o") from None
        for name, text in texts.items():
            write_text(folder / name, text)


def read_units(path: Path) -> list[Measurement]:
    """Measurements of a ``units.jsonl``.

    Raises
    ------
    MissingInputError, ResultError : with the line.
    """
    if not path.is_file():
        raise MissingInputError("no such file", where=str(path), todo="Give a folder that a run has written")
    out = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, start=1):
            try:
                out.append(Measurement.model_validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                raise ResultError(f"is not a measurement: {first['msg']}", where=f"{path}, line {number}",
                                  todo="Run the world again") from None
    return out
