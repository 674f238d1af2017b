"""The workers file: which command answers for which scorer. It is the user's, and changes nothing that is asked."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.scorers.settings import WORKERS_VARIABLE, ScorerSettings
from spatialbench.scorers.weights import weights_missing
from spatialbench.types.strict import load_strict

__all__ = ["WorkerCommand", "WorkerEntry", "WorkersFile", "command_of", "read_workers"]

_WEIGHTS = re.compile(r"\{weights:([^{}]*)\}")


class WorkerEntry(BaseModel):
    """How one scorer's worker is started."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: Annotated[tuple[str, ...], Field(min_length=1, max_length=100)]
    """Program and arguments, without a shell. A program with a '/' in it is relative to the workers file;
    ``{weights:ID}`` is the folder of an entry of the lock file."""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    """For one job, the start of the worker included."""
    env: dict[str, str] = Field(default_factory=dict, max_length=100)
    batch: Annotated[int, Field(ge=1, le=4096)] = 8
    """How many images it may have on its device at a time; told to it, and without influence on results."""


class WorkersFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    workers: dict[str, WorkerEntry] = Field(max_length=100)


@dataclass(frozen=True)
class WorkerCommand:
    """A worker as it is to be started; ``repr`` does not show its variables."""

    command: tuple[str, ...]
    timeout_s: float = 600.0
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    batch: int = 8


def read_workers(path: Path) -> WorkersFile:
    """Read the file.

    Raises
    ------
    MissingInputError, ConfigError
    """
    return load_strict(WorkersFile, path)


def command_of(scorer: str, settings: ScorerSettings, *, verify: bool = False) -> WorkerCommand:
    """What the user's file says for a scorer.

    Parameters
    ----------
    verify : compute the hashes of the weights that the command names too, which takes time.

    Raises
    ------
    BackendUnavailableError : nothing is named for it, its program is not there, or weights are missing or wrong.
    MissingInputError, ConfigError : the file cannot be used.
    UsageError : its command names weights that the lock file does not have.
    """
    if settings.workers is None:
        raise BackendUnavailableError(
            "it runs as an external worker, and no workers file is named",
            todo=f"Write one (docs/workers.md) and name it with --scorer-workers or {WORKERS_VARIABLE}")
    found = read_workers(settings.workers).workers
    if scorer not in found:
        raise BackendUnavailableError(f"the workers file names no command for '{scorer}'", where=str(settings.workers),
                                      todo=f"It has: {', '.join(sorted(found)) or 'nothing'}. See docs/workers.md")
    entry = found[scorer]
    command = tuple(_filled(a, scorer, settings, verify) for a in entry.command)
    program = command[0]
    if "/" in program or "\\" in program:
        program = str(settings.workers.absolute().parent / program)
    if shutil.which(program) is None:
        raise BackendUnavailableError(f"the program '{command[0]}' of the worker '{scorer}' is not there, or may not "
                                      "be run", where=str(settings.workers), todo="Correct its command")
    return WorkerCommand((program, *command[1:]), entry.timeout_s, entry.env, entry.batch)


def _filled(argument: str, scorer: str, settings: ScorerSettings, verify: bool) -> str:
    def folder(found: re.Match[str]) -> str:
        from spatialbench.scorers.verify import verified_folder

        try:
            if verify:
                return str(verified_folder(found[1], settings.weights).absolute())
            if why := weights_missing(found[1], settings.weights):
                raise BackendUnavailableError(why)
        except UsageError as error:
            raise UsageError(f"the command of '{scorer}' names {{weights:{found[1]:.60}}}: {error.what}",
                             where=str(settings.workers), todo=error.todo) from None
        return str((settings.weights / found[1]).absolute())
    return _WEIGHTS.sub(folder, argument)
