"""The one registry of metrics and observations.

Tracks and suites fill it with two decorators; other distributions through the entry-point group
``spatialbench.plugins`` (a module whose import registers). It is frozen once a run has begun.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from spatialbench.errors import UsageError
from spatialbench.types import MetricSpec

if TYPE_CHECKING:
    from spatialbench.observe.context import Observations
    from spatialbench.observe.outcome import Outcome

__all__ = ["REGISTRY", "RegisteredMetric", "RegisteredObservation", "Registry", "metric", "observation"]

MetricFunction = Callable[["Observations"], "Outcome | Mapping[str, Outcome]"]
"""Gives one outcome, or one for each object by its id."""
ObservationFunction = Callable[["Observations"], Any]
PLUGIN_GROUP = "spatialbench.plugins"


@dataclass(frozen=True)
class RegisteredMetric:
    """A metric's declaration and the function that computes it."""

    spec: MetricSpec
    compute: MetricFunction


@dataclass(frozen=True)
class RegisteredObservation:
    """A named observation: made once for a context and shared by the metrics that ask for it.

    Attributes
    ----------
    name : e.g. ``spatial.origin_ring``.
    make : from the other observations and the context.
    version : raised when what it gives can change.
    reads : prefixes of the protocol keys it depends on.
    label : what progress shows.
    needs : names of all observations that it may ask for itself, so that a change of theirs is known to reach it.
    """

    name: str
    make: ObservationFunction
    version: int
    reads: tuple[str, ...]
    label: str
    needs: tuple[str, ...] = ()


class Registry:
    """Metrics and observations by id, each once."""

    def __init__(self) -> None:
        self._metrics: dict[str, RegisteredMetric] = {}
        self._observations: dict[str, RegisteredObservation] = {}
        self._frozen = False

    def add_metric(self, spec: MetricSpec, compute: MetricFunction) -> None:
        """Register a metric.

        Raises
        ------
        ValueError : the id is taken, or the registry is frozen.
        """
        self._check(spec.id, self._metrics)
        self._metrics[spec.id] = RegisteredMetric(spec, compute)

    def add_observation(self, entry: RegisteredObservation) -> None:
        """Register an observation; raises as ``add_metric``."""
        self._check(entry.name, self._observations)
        self._observations[entry.name] = entry

    def metric(self, id: str) -> RegisteredMetric:
        """By id.

        Raises
        ------
        UsageError : unknown; the message names the nearest ids.
        """
        return _lookup(id, self._metrics, "metric")

    def observation(self, name: str) -> RegisteredObservation:
        """By name; raises as ``metric``."""
        return _lookup(name, self._observations, "observation")

    def specs(self, track: str | None = None) -> Mapping[str, MetricSpec]:
        """Declarations by id, sorted, of one track or all."""
        return MappingProxyType({k: m.spec for k, m in sorted(self._metrics.items())
                                 if track is None or m.spec.track == track})

    def freeze(self) -> None:
        """Refuse further registrations, so that a run cannot change under its own feet."""
        self._frozen = True

    def _check(self, key: str, table: Mapping[str, object]) -> None:
        if self._frozen:
            raise ValueError(f"'{key}' comes too late: the registry is frozen while a run is going on")
        if key in table:
            raise ValueError(f"'{key}' is registered twice")


def load_plugins() -> list[str]:
    """Import what other distributions offer in the group ``spatialbench.plugins``; returns their names."""
    names = []
    for point in sorted(entry_points(group=PLUGIN_GROUP), key=lambda p: p.name):
        point.load()
        names.append(point.name)
    return names


def metric(*, registry: Registry | None = None, **declaration: Any) -> Callable[[MetricFunction], MetricFunction]:
    """Decorator that registers a function as a metric; keywords are the fields of ``MetricSpec``."""
    def register(function: MetricFunction) -> MetricFunction:
        (registry or REGISTRY).add_metric(MetricSpec(**declaration), function)
        return function
    return register


def observation(name: str, *, label: str, version: int = 1, reads: Iterable[str] = (), needs: Iterable[str] = (),
                registry: Registry | None = None) -> Callable[[ObservationFunction], ObservationFunction]:
    """Decorator that registers a function as an observation (fields as ``RegisteredObservation``)."""
    def register(function: ObservationFunction) -> ObservationFunction:
        (registry or REGISTRY).add_observation(
            RegisteredObservation(name, function, version, tuple(reads), label, tuple(needs)))
        return function
    return register


def _lookup(key: str, table: Mapping[str, Any], kind: str) -> Any:
    try:
        return table[key]
    except KeyError:
        near = difflib.get_close_matches(key, table, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(sorted(table))}"
        raise UsageError(f"no {kind} '{key}'", todo=hint) from None


REGISTRY = Registry()
