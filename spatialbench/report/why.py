"""Why a score is low, in a sentence, and where on the page the evidence is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from spatialbench.report.data import MetricRow, PathChart, ReportData
from spatialbench.report.raster import components
from spatialbench.report.text import cause_words, component_text, number, percent, plain_words, reason_words
from spatialbench.types.measurement import Status

__all__ = ["EVIDENCE", "evidence_of", "lowest_metrics", "sentence"]

EVIDENCE = {"M07": "panorama", "M08": "map", "M08c": "map", "M12": "path", "M13": "path", "M14": "path",
            "M15": "map", **{f"M{k}": "objects" for k in range(16, 25)}, "M25": "trials", "M38": "map", "M39": "map"}
"""Metric id → section of the page that shows where the number comes from."""

_PERFECT = 0.9995


def lowest_metrics(metrics: Sequence[MetricRow], limit: int = 6) -> list[MetricRow]:
    """Measured, retained metrics that lose something, worst first; those outside the scores if none is retained."""
    measured = [m for m in metrics if m.status is Status.MEASURED and m.normalised is not None
                and np.isfinite(m.normalised)]
    pool = [m for m in measured if m.retained] or measured
    return sorted((m for m in pool if (m.normalised or 0.0) < _PERFECT),
                  key=lambda m: (m.normalised, m.id))[:limit]


def evidence_of(metric: MetricRow, data: ReportData) -> str:
    """Anchor of the evidence: a section if it has content, else the metric's own row."""
    section = EVIDENCE.get(metric.id, "")
    shown = {"panorama": len(data.panorama) > 0, "map": data.map is not None, "trials": len(data.trials) > 0,
             "objects": len(data.objects) > 0,
             "path": data.path_chart is not None or len(data.probes) > 0}
    return section if shown.get(section) else f"metric-{metric.id}"


def sentence(metric: MetricRow, data: ReportData) -> str:
    """``metric.why``, else one made from the evidence, else from reason and components."""
    if metric.why.strip():
        return metric.why.strip()
    made = _MAKERS[metric.id](data) if metric.id in _MAKERS else ""
    if made:
        return made
    if metric.id == "M06" and isinstance(rates := metric.components.get("rates"), dict):
        return "Yes for " + ", ".join(f"{plain_words(k)} {percent(r)}" for k, r in rates.items()) + " of the views."
    parts = [reason_words(metric.reason)] if metric.reason.strip() else []
    plain = [(k, v) for k, v in metric.components.items() if isinstance(v, (int, float, bool, str))][:4]
    parts += [", ".join(f"{plain_words(k)} {component_text(v)}" for k, v in plain)] if plain else []
    if not parts and metric.counts:
        parts = [", ".join(f"{n} {plain_words(k)}" for k, n in metric.counts.items())]
    return "; ".join(parts) or "The result holds no details; see its row in the table."


def _panorama(data: ReportData) -> str:
    if not data.hole_masks:
        return ""
    rates = [float(np.mean(m)) for m in data.hole_masks]
    worst = int(np.argmax(rates))
    text = f"{percent(float(np.mean(rates)))} of all pixels show nothing"
    if worst < len(data.panorama_yaws):
        text += (f"; most in the view at {number(data.panorama_yaws[worst], 0)}° "
                 f"({percent(rates[worst])})")
    return text


def _navigable(data: ReportData) -> str:
    if data.map is None or data.map.nav_labels is None:
        return ""
    parts = components(data.map)
    total = number(data.map.footprint.area, 1)
    if not parts:
        return f"nothing of the {total}\u00a0m² footprint can be walked on"
    split = "one component" if len(parts) == 1 else f"{len(parts)} components"
    return f"the largest walkable area is {number(parts[0].area, 1)} of {total}\u00a0m²; {split}"


def _out_of_bounds(data: ReportData) -> str:
    bad: Sequence[bool] | None = None
    if data.path_chart is not None and len(data.path_chart.oob):
        bad = data.path_chart.oob
    elif data.map is not None and data.map.path_oob is not None:
        bad = data.map.path_oob.tolist()
    if bad is None:
        return ""
    steps = [i for i, b in enumerate(bad) if b]
    first = f", first at step {steps[0]}" if steps else ""
    return f"{len(steps)} of {len(bad)} steps leave the world{first}"


def _series(name: str, what: str) -> Callable[[ReportData], str]:
    def make(data: ReportData) -> str:
        chart: PathChart | None = data.path_chart
        values = getattr(chart, name, None)
        if chart is None or values is None or not np.isfinite(np.asarray(values, dtype=np.float64)).any():
            return ""
        worst = int(np.nanargmin(np.asarray(values, dtype=np.float64)))
        low = sum(v < 0.5 for v in values)
        return (f"{what} changes most at {number(chart.times[worst], 2)} s (step {worst}, score "
                f"{number(values[worst])}); {low} of {len(values)} frames score below 0.5")
    return make


def _plates(data: ReportData) -> str:
    if not data.trials:
        return ""
    stayed = sum(t.success for t in data.trials)
    causes: dict[str, int] = {}
    for t in data.trials:
        for r in t.reasons if not t.success else ():
            causes[cause_words(r)] = causes.get(cause_words(r), 0) + 1
    listed = ", ".join(f"{n} {r}" for r, n in causes.items())
    return f"{stayed} of {len(data.trials)} plates stayed" + (f"; {listed}" if listed else "")


def _locations(data: ReportData) -> str:
    if data.map is None or not data.map.locations:
        return ""
    good = sum(p.accepted for p in data.map.locations)
    return f"{good} of 8 locations are usable; {len(data.map.locations)} places were probed"


_MAKERS: dict[str, Callable[[ReportData], str]] = {
    "M07": _panorama, "M08": _navigable, "M12": _out_of_bounds, "M13": _series("brightness", "brightness"),
    "M14": _series("hue", "the palette"), "M25": _plates, "M38": _locations,
}
