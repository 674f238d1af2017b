"""Runs the metrics of a protocol over one context; one failure costs one metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spatialbench.errors import BackendUnavailableError, SpatialbenchError
from spatialbench.observe.context import Observations
from spatialbench.observe.outcome import Outcome, invalid, unavailable
from spatialbench.observe.registry import REGISTRY, Registry
from spatialbench.types import Measurement

__all__ = ["evaluate"]


def evaluate(metrics: Iterable[str], observations: Observations,
             registry: Registry | None = None) -> list[Measurement]:
    """A Measurement for every metric id, in the order given; several, one for each object in the order of the case, for
    a metric that is scored below the case.

    A backend or scorer that cannot be used makes the metric ``unavailable``; any other of our errors
    makes it ``invalid`` with the error's own sentence. Programming errors are not caught.
    """
    registry = registry or REGISTRY
    context = observations.context
    results = []
    for id in metrics:
        entry = registry.metric(id)
        try:
            with observations.asked_by(entry.spec):
                outcome: Outcome | Mapping[str, Outcome] = entry.compute(observations)
        except BackendUnavailableError as error:
            outcome = unavailable(str(error))
        except SpatialbenchError as error:
            outcome = invalid(str(error))
        by_object = {None: outcome} if isinstance(outcome, Outcome) else outcome
        results += [o.as_measurement(entry.spec, context.case_id, context.system, name)
                    for name, o in by_object.items()]
    return results
