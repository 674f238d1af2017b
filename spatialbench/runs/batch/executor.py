"""What runs units somewhere: the interface, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Event", "Executor", "Task"]


@dataclass(frozen=True)
class Task:
    """A unit to be run: ``message`` is JSON (see ``UnitJob.message``).

    Attributes
    ----------
    memory_limit : bytes of resident memory for this unit; the executor's own limit when None.
    """

    unit: str
    message: dict[str, Any] = field(repr=False)
    memory_limit: int | None = None


@dataclass(frozen=True)
class Event:
    """Something that happened to a unit.

    Attributes
    ----------
    kind : ``at`` (progress), ``done``, ``failed`` (its files say why), or it has no files: ``crash``, ``time``,
        ``memory``; ``disk``: results cannot be written, and no other unit's could.
    label, step, steps : of progress.
    reason : a sentence.
    measured : metrics that were run.
    judge : what was asked of the judge (``spending.asked_json``), where the worker could say.
    seconds, peak_bytes, where : how long, how much memory, and which worker.
    """

    kind: str
    unit: str
    label: str = ""
    step: int = 0
    steps: int = 0
    reason: str = ""
    note: str = ""
    measured: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_bytes: int = 0
    where: str = ""
    judge: Mapping[str, Any] | None = None


class Executor(Protocol):
    """Runs one unit in each of its slots. Whatever happens to a unit ends in exactly one event but ``at``."""

    def start(self, units: int) -> None:
        """Make ready for this many units."""

    def free(self) -> int:
        """How many tasks could be submitted now."""

    def places(self) -> int:
        """How many units may run at a time."""

    def submit(self, task: Task) -> None:
        """Start one; only when a slot is free."""

    def poll(self, timeout: float) -> list[Event]:
        """What has happened; waits up to ``timeout`` seconds for something."""

    def stop(self) -> None:
        """End all work at once, and leave no process. Safe to repeat."""
