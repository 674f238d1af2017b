"""The lazy, keyed cache of observations of one context."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from typing import Protocol as Protocol_

from spatialbench.errors import SpatialbenchError
from spatialbench.observe.registry import REGISTRY, Registry
from spatialbench.types import MetricSpec, Protocol, World

__all__ = ["Context", "Observations", "Progress", "ScorerAccess"]

Progress = Callable[[str, int, int], None]
"""Called with a label, the steps done and the steps in all (0 when unknown)."""


class ScorerAccess(Protocol_):
    """Where learned scorers come from; each is opened once."""

    def lacking(self, id: str) -> str:
        """Why a scorer cannot be used here, or nothing; loads nothing."""

    def get(self, id: str) -> Any:
        """The scorer; raises ``BackendUnavailableError``."""


def _silent(label: str, done: int, total: int) -> None:
    return None


@dataclass(frozen=True, eq=False)
class Context:
    """What is observed: one or more worlds (``main``, or ``before`` and ``after``), a case, a protocol.

    Attributes
    ----------
    protocol : everything that fixes the result.
    worlds : anchored worlds by role.
    case : the case model of the track, or None when none was given.
    case_id, system : how the measurements are filed.
    media : other inputs by role (videos of later tracks).
    progress : told about every step.
    scorers : learned scorers by id; None: there are none.
    judge : a session with the model that judges (``scorers.judge.Judge``), or why there is none, in words.
    """

    protocol: Protocol
    worlds: Mapping[str, World]
    case: Any
    case_id: str
    system: str
    media: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress = _silent
    scorers: ScorerAccess | None = None
    judge: Any = "no judge is named"

    @property
    def world(self) -> World:
        """The world of a context that has just one."""
        return self.worlds["main"]


class Observations:
    """Makes each observation at most once; a failure is remembered like a value and raised again.

    ``timings`` holds (name, seconds) in the order things were made, each without the time of what it
    asked for in turn.
    """

    def __init__(self, context: Context, registry: Registry | None = None) -> None:
        self.context = context
        self._registry = registry or REGISTRY
        self._values: dict[str, Any] = {}
        self._failures: dict[str, SpatialbenchError] = {}
        self._stack: list[str] = []
        self._inner: list[float] = []
        self._metric: MetricSpec | None = None
        self.timings: list[tuple[str, float]] = []

    @property
    def world(self) -> World:
        """The context's only world."""
        return self.context.world

    @property
    def protocol(self) -> Protocol:
        """The context's protocol."""
        return self.context.protocol

    def progress(self, done: int, total: int) -> None:
        """Tell how far the observation being made is."""
        label = self._registry.observation(self._stack[-1]).label if self._stack else ""
        self.context.progress(label, done, total)

    def made(self, name: str) -> bool:
        """Whether it has been made already (without making it)."""
        return name in self._values

    def get(self, name: str) -> Any:
        """The observation, made now if it has not been.

        Raises
        ------
        UsageError : no such observation.
        SpatialbenchError : making it failed (now or before).
        """
        self._declared(name)
        if name in self._values:
            return self._values[name]
        if name in self._failures:
            raise self._failures[name]
        if name in self._stack:
            raise RuntimeError(f"observation '{name}' needs itself: {' -> '.join(self._stack)}")
        entry = self._registry.observation(name)
        self._stack.append(name)
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            self.context.progress(entry.label, 0, 0)
            self._values[name] = entry.make(self)
        except SpatialbenchError as error:
            self._failures[name] = error
            raise
        finally:
            spent = time.perf_counter() - start
            self._stack.pop()
            self.timings.append((name, spent - self._inner.pop()))
            if self._inner:
                self._inner[-1] += spent
        return self._values[name]

    @contextmanager
    def asked_by(self, spec: MetricSpec) -> Iterator[None]:
        """While a metric is computed: it may ask for the observations that it declares."""
        self._metric = spec
        try:
            yield
        finally:
            self._metric = None

    def _declared(self, name: str) -> None:
        """Who asks for an observation must have said so: kept results are trusted by what was said."""
        if self._stack:
            entry = self._registry.observation(self._stack[-1])
            who, said = f"observation '{entry.name}'", (*entry.needs, entry.name)
        elif self._metric is not None:
            who, said = f"metric {self._metric.id}", self._metric.observations
        else:
            return
        if name not in said:
            raise RuntimeError(f"{who} asks for '{name}', which it does not declare to need")
