"""From the data of a page to what its templates need: pictures encoded, charts drawn, sentences made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spatialbench.report.charts import consistency_chart, hole_chart, score_bar
from spatialbench.report.data import MapData, MetricRow, ObjectCard, Picture, ProbeRow, ReportData, TrialRow
from spatialbench.report.images import jpeg_uri, mark_holes, panorama_strip
from spatialbench.report.map import map_views, swatch
from spatialbench.report.raster import components
from spatialbench.report.text import (
    DASH,
    STATUS_WORDS,
    cause_words,
    degrees,
    metres,
    number,
    percent,
    plain_words,
    status_counts,
)
from spatialbench.report.why import evidence_of, lowest_metrics, sentence
from spatialbench.types.measurement import Status

__all__ = ["build_view"]

FACES = ("front", "right", "back", "left", "up", "down")
_MAX_PROBES = 6
_REFERENCES = {"footprint_median": "the median height", "plane": "the fitted plane",
               "footprint_max": "the highest point"}
_PREVIEW = "preview of one case, not a benchmark result"


def build_view(data: ReportData, detail: float = 1.0) -> dict[str, Any]:
    """The templates' variables. ``detail`` scales the longest side of every photo."""
    def photo(picture: Picture | None, side: int, quality: int = 80) -> str:
        return "" if picture is None else jpeg_uri(picture, max(16, round(side * detail)), quality)

    frames = _ring(data)
    note = data.preview_note.strip()
    return {
        "data": data,
        "preview_note": "" if note.rstrip(".").lower() == _PREVIEW else note,
        "raised": [g for g in data.gates if g.raised],
        "lowest": [{"row": m, "anchor": evidence_of(m, data), "sentence": _as_sentence(sentence(m, data))}
                   for m in lowest_metrics(data.metrics)],
        "counts": status_counts(data.metrics),
        "measured": Status.MEASURED,
        "levels": _levels(data),
        "status_words": STATUS_WORDS,
        "strip": photo(panorama_strip(frames, data.panorama_yaws, data.panorama_fov_deg), 1440, 84)
        if frames else "",
        "ring": [{"uri": photo(f, 176, 78), "yaw": number(yaw, 0), "caption": _ring_caption(data, i, yaw)}
                 for i, (f, yaw) in enumerate(zip(frames, data.panorama_yaws, strict=False))],
        "holes_known": bool(data.hole_masks),
        "mean_holes": float(np.mean([np.mean(m) for m in data.hole_masks])) if data.hole_masks else None,
        "maps": map_views(data.map) if data.map is not None else [],
        "legend": _legend(data.map) if data.map is not None else [],
        "collision": None if data.collision is None else {
            "views": [(name, photo(seen, 320, 78), photo(mesh, 320, 78)) for name, seen, mesh in data.collision.views],
            "facts": data.collision.facts},
        "path": _path(data),
        "probes": [_probe(p, photo) for p in data.probes[:_MAX_PROBES]],
        "hidden_probes": max(0, len(data.probes) - _MAX_PROBES),
        "trials": [_trial(t, photo) for t in data.trials],
        "objects": [_object(o, photo) for o in data.objects],
        "score_bar": score_bar,
        "swatch": swatch,
        "dash": DASH,
    }


def _as_sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _ring(data: ReportData) -> list[Picture]:
    if not data.hole_masks:
        return list(data.panorama)
    return [mark_holes(f, m) for f, m in zip(data.panorama, data.hole_masks, strict=True)]


def _ring_caption(data: ReportData, i: int, yaw: float) -> str:
    holes = f", holes {percent(float(np.mean(data.hole_masks[i])))}" if data.hole_masks else ""
    return f"{number(yaw, 0)}°{holes}"


def _levels(data: ReportData) -> list[dict[str, Any]]:
    """Rows by level, in the order of the headline, then of appearance."""
    order = [g.level for g in data.headline]
    order += [m.level for m in data.metrics if m.level not in order]
    groups = {g.level: g for g in data.headline}
    rows: dict[str, list[MetricRow]] = {}
    for m in data.metrics:
        rows.setdefault(m.level, []).append(m)
    return [{"level": lv, "name": groups[lv].name if lv in groups else "", "group": groups.get(lv), "rows": rows[lv]}
            for lv in dict.fromkeys(order) if lv in rows]


def _legend(data: MapData) -> list[tuple[str, str]]:
    parts = components(data)
    out = [("footprint", f"geometry seen from above: {number(data.footprint.area, 1)}\u00a0m²")]
    if data.nav_labels is None:
        out.append(("largest", "walkable areas are not known: no navigation mesh"))
    elif not parts:
        out.append(("largest", "nothing can be walked on"))
    else:
        out.append(("largest", f"largest walkable area: {number(parts[0].area, 1)}\u00a0m²"))
    if len(parts) > 1:
        shown = ", ".join(number(p.area, 1) for p in parts[1:5])
        more = f" and {len(parts) - 5} smaller ones" if len(parts) > 5 else ""
        out.append(("other", f"{len(parts) - 1} other walkable area{'s' * (len(parts) > 2)}: {shown}\u00a0m²{more}"))
    out.append(("camera", "initial camera; the arrow points forward"))
    if data.path is not None and len(data.path):
        out.append(("path", f"action path, {len(data.path)} samples"))
        bad = int(np.sum(data.path_oob)) if data.path_oob is not None else 0
        if bad:
            out.append(("oob", f"{bad} out-of-bounds sample{'s' * (bad > 1)}"))
    good = sum(p.accepted for p in data.locations)
    if good:
        out.append(("accepted", f"{good} of 8 locations, accepted, with their slots"))
    if len(data.locations) > good:
        out.append(("rejected", f"{len(data.locations) - good} probed and rejected"))
    if data.supports:
        out.append(("support", f"support surface{'s' * (len(data.supports) > 1)}; the solid outline was used"
                    if any(s.chosen for s in data.supports) else "support surfaces; none was used"))
    stayed = sum(t[2] for t in data.trials)
    if stayed:
        out.append(("plate-ok", f"{stayed} plate{'s' * (stayed > 1)} that stayed"))
    if len(data.trials) > stayed:
        out.append(("plate-bad", f"{len(data.trials) - stayed} plate{'s' * (len(data.trials) - stayed > 1)} "
                    "that did not"))
    return out


def _path(data: ReportData) -> dict[str, Any] | None:
    c = data.path_chart
    if c is None or not len(c.times):
        return None
    steps = [i for i, bad in enumerate(c.oob) if bad]
    scores = c.brightness is not None or c.hue is not None
    return {"oob": len(steps), "steps": len(c.times), "first": steps[0] if steps else None,
            "rule": c.rule,
            "holes": hole_chart(c) if len(c.hole_rate) else None,
            "consistency": consistency_chart(c) if scores else None,
            "close": c.close_share is not None, "limit": c.threshold is not None,
            "has_brightness": c.brightness is not None, "has_hue": c.hue is not None}


def _probe(row: ProbeRow, photo: Any) -> dict[str, Any]:
    if len(row.faces) != len(FACES):
        raise ValueError(f"probe '{row.title}' has {len(row.faces)} faces, not six")
    position: Sequence[float] = row.position
    return {"row": row, "position": f"({', '.join(number(float(v)) for v in position)}) m",
            "faces": [(name, photo(f, 200, 78)) for name, f in zip(FACES, row.faces, strict=True)]}


def _object(card: ObjectCard, photo: Any) -> dict[str, Any]:
    return {"card": card, "views": [(v, photo(v.picture, 160, 76)) for v in card.views]}


def _trial(row: TrialRow, photo: Any) -> dict[str, Any]:
    facts = [("drop", metres(row.drop)), ("tilt", degrees(row.tilt_deg)), ("moved sideways", metres(row.displacement)),
             ("penetration at the start", metres(row.penetration))]
    facts += [(f"above {_REFERENCES.get(k, plain_words(k))}", "would stay" if ok else "would fail")
              for k, ok in row.other_references.items()]
    return {"row": row, "facts": facts, "reasons": ", ".join(cause_words(r) for r in row.reasons),
            "release": photo(row.release_picture, 420), "rest": photo(row.rest_picture, 420)}
