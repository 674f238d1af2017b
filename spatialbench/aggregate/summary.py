"""The whole way: measurements to a summary of one or many systems. It needs nothing but the measurements."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from spatialbench.aggregate._record import Record
from spatialbench.aggregate._resample import values_by_case
from spatialbench.aggregate.collect import MetricSummary, check_measurements, official, summarise_metric, why_missing
from spatialbench.aggregate.groups import GroupScore, Level, group_score, levels_from_specs
from spatialbench.aggregate.intervals import IntervalSettings
from spatialbench.aggregate.joint import level_interval
from spatialbench.aggregate.normalization import NormalizationTable, load_normalization
from spatialbench.errors import UsageError
from spatialbench.types import Measurement, MetricSpec, Status

__all__ = ["PREVIEW_NOTE", "Summary", "SystemSummary", "summarise", "summary_json"]

PREVIEW_NOTE = "This is a single case's preview, not a benchmark result."


class SystemSummary(Record):
    """One system: its metrics by id, its levels in order."""

    system: str
    n_cases: int
    metrics: tuple[MetricSummary, ...]
    groups: tuple[GroupScore, ...]

    def metric(self, id: str) -> MetricSummary | None:
        """The summary of one metric, if there was any record of it."""
        return next((m for m in self.metrics if m.metric == id), None)

    def group(self, level: str, track: str | None = None) -> GroupScore:
        """The score of one level.

        Raises
        ------
        UsageError : no such level.
        """
        for g in self.groups:
            if g.level == level and track in (None, g.track):
                return g
        raise UsageError(f"no level '{level}'", where=f"system {self.system}",
                         todo=f"Known: {', '.join(g.level for g in self.groups)}")


class Summary(Record):
    """What ``summary.json`` holds. Every score keeps the counts that it stands on."""

    normalization: str
    preview: bool
    note: str
    """Says so when this is one case's preview; empty otherwise."""
    n_cases: int
    systems: tuple[SystemSummary, ...]

    def system(self, name: str) -> SystemSummary:
        """One system's part.

        Raises
        ------
        UsageError : no such system.
        """
        for s in self.systems:
            if s.system == name:
                return s
        raise UsageError(f"no system '{name}'", where="summary",
                         todo=f"Known: {', '.join(s.system for s in self.systems)}")


def summarise(measurements: Iterable[Measurement], specs: Mapping[str, MetricSpec],
              normalization: str | NormalizationTable, preview: bool = False, *,
              levels: Sequence[Level] | None = None, unscored: Sequence[str] = (),
              cases: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
              intervals: IntervalSettings | None = None) -> Summary:
    """Measurements -> model means -> normalised -> levels, for every system in them.

    The result depends on the set of measurements only, not on their order or on how they were split into files.

    Parameters
    ----------
    measurements : of one or many systems, cases and tracks; each (metric, system, case, object) once.
    specs : declarations of all metrics that may occur; the retained ones make up the levels.
    normalization : a table, the name of a packaged one, or a YAML file.
    preview : these are one case's numbers, and the summary says so.
    levels : how metrics form levels, where a plain mean per level is not the rule.
    unscored : levels that get a dash although no metric names them.
    cases : what every system was asked for: a case of which it has no record of a metric then counts as
        untested in ``n_total``, for every metric of which it has a record elsewhere. A mapping when the levels of
        the metrics have cases of their own: level -> its cases.
    intervals : also give every mean and score its interval; each system's from its own cases alone.

    Raises
    ------
    ResultError : duplicates, mixed versions, unknown metrics.
    UsageError : no such normalisation, a retained metric without a rule, or a preview of several cases.
    """
    items = list(measurements)
    check_measurements(items, specs)
    all_cases = sorted({m.case for m in items})
    if preview and len(all_cases) > 1:
        raise UsageError(f"a preview is of one case, got {len(all_cases)}", where="summarise",
                         todo="Leave 'preview' off for several cases")
    table = load_normalization(normalization) if isinstance(normalization, str) else normalization
    plan = levels_from_specs(specs, unscored) if levels is None else tuple(levels)
    by_system: dict[str, dict[str, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
    for m in items:
        by_system[m.system][m.metric].append(m)
    systems = []
    for system, by_metric in sorted(by_system.items()):
        found = {}
        for id, records in sorted(by_metric.items()):
            asked = cases.get(specs[id].level, ()) if isinstance(cases, Mapping) else cases or ()
            absent = sorted(set(asked) - {m.case for m in records})
            records = records + [_untested(records[0], case) for case in absent]
            found[id] = summarise_metric(records, specs[id], table, intervals)
        values = {} if intervals is None else {id: values_by_case(records) for id, records in by_metric.items()
                                               if official(records)}
        groups = tuple(group_score(
            level, {id: s.normalised for id, s in found.items()},
            why={id: why_missing(found.get(id)) for id in level.metrics},
            coverage={id: s.coverage for id, s in found.items() if s.partial},
            interval=None if intervals is None else level_interval(level, values, table, intervals))
            for level in plan)
        systems.append(SystemSummary(system=system, metrics=tuple(found.values()), groups=groups,
                                     n_cases=len({m.case for ms in by_metric.values() for m in ms})))
    return Summary(normalization=table.id, preview=preview, note=PREVIEW_NOTE if preview else "",
                   n_cases=len(all_cases), systems=tuple(systems))


def summary_json(summary: Summary) -> str:
    """Canonical text of a summary: the same summary is always the same bytes."""
    return json.dumps(summary.model_dump(mode="json"), sort_keys=True, indent=1, ensure_ascii=False,
                      allow_nan=False) + "\n"


def _untested(like: Measurement, case: str) -> Measurement:
    return Measurement(metric=like.metric, version=like.version, case=case, system=like.system,
                       status=Status.UNTESTED, reason="no record of this case")
