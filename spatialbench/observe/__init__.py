"""Shared observations of a world (or of two, or of a video), and the metrics computed from them.

Tracks and suites register both here; nothing in this package knows any of them.
"""

from spatialbench.observe.context import Context, Observations
from spatialbench.observe.outcome import Outcome, inapplicable, invalid, measured, unavailable, untested
from spatialbench.observe.registry import REGISTRY, Registry, metric, observation

__all__ = [
    "REGISTRY",
    "Context",
    "Observations",
    "Outcome",
    "Registry",
    "inapplicable",
    "invalid",
    "measured",
    "metric",
    "observation",
    "unavailable",
    "untested",
]
