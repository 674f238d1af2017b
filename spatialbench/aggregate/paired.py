"""Two systems on the cases that both were measured on, so that missing ones cannot flatter either."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spatialbench.aggregate.means import mean, population_std
from spatialbench.errors import ResultError
from spatialbench.types import Measurement

__all__ = ["PairedDifference", "paired_difference"]


@dataclass(frozen=True)
class PairedDifference:
    """Mean raw difference ``system`` - ``baseline`` of one metric over common cases and objects.

    ``mean`` and ``std`` (population) are None when ``n`` is 0; ``n_union`` counts what either has a record of.
    """

    metric: str
    system: str
    baseline: str
    n: int
    n_union: int
    mean: float | None
    std: float | None


def paired_difference(measurements: Iterable[Measurement], metric: str, system: str,
                      baseline: str) -> PairedDifference:
    """Compare two systems pair by pair (same case and object).

    Raises
    ------
    ResultError : a pair's measurement is there twice, or the two are of different versions.
    """
    sides: dict[str, dict[tuple[str, bool, str], Measurement]] = {system: {}, baseline: {}}
    for m in measurements:
        if m.metric != metric or m.system not in sides:
            continue
        key = (m.case, m.object is not None, m.object or "")
        if key in sides[m.system]:
            raise ResultError("the same measurement is there twice", where=f"{metric}, {m.system}, {m.case}",
                              todo="Give each result folder once")
        sides[m.system][key] = m
    a, b = sides[system], sides[baseline]
    if len({m.version for side in sides.values() for m in side.values()}) > 1:
        raise ResultError(f"versions of {metric} differ", where=f"{system} and {baseline}",
                          todo="Run the older results again")
    diffs = [x - y for k in sorted(a.keys() & b.keys())
             if (x := a[k].value) is not None and (y := b[k].value) is not None]
    return PairedDifference(metric, system, baseline, len(diffs), len(a.keys() | b.keys()),
                            mean(diffs) if diffs else None, population_std(diffs) if diffs else None)
