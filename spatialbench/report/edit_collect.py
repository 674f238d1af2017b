"""From a finished run of two worlds to the data of its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import spatialbench
from spatialbench.observe import REGISTRY
from spatialbench.report.collect import LEVELS, scorer_rows
from spatialbench.report.data import DecisionRow, GateRow, GroupRow, MetricRow, ReportData
from spatialbench.report.edit_pictures import PictureRow, holes_row, pair_row
from spatialbench.report.expand_plan import GrowthPlan
from spatialbench.report.text import number, percent
from spatialbench.runs.machine import machine_info, versions
from spatialbench.runs.pair import PAIR_LEVEL, backends_of
from spatialbench.types import Measurement, protocol_hash

if TYPE_CHECKING:
    from spatialbench.observe import Observations
    from spatialbench.runs.pair import PairResult

__all__ = ["PairPage", "collect_pair", "pair_head"]

_PROBES = ("front", "right", "back", "left", "up", "down")
_MAX_ROWS = 12
_SCORE_NAMES = {"M26": "Area score", "M27": "Junction score", "M32": "Background RGB retention",
                "M33": "Background LPIPS similarity", "M34": "Background DINO similarity"}


@dataclass(eq=False)
class PairPage:
    """A page of two worlds: what all pages have, and rows of pictures.

    Attributes
    ----------
    data : head, scores, metrics, import and run; its panorama and map are empty.
    kind : ``edit`` or ``expand``.
    instruction : as the system was told; empty without a case.
    targets : views of the edited object. origin : the six origin probes. junction, connection : of an expansion.
    plan, plan_note : of an expansion.
    """

    data: ReportData
    kind: str
    instruction: str = ""
    targets: Sequence[PictureRow] = ()
    targets_note: str = ""
    origin: Sequence[PictureRow] = ()
    origin_note: str = ""
    junction: Sequence[PictureRow] = ()
    junction_note: str = ""
    connection: Sequence[PictureRow] = ()
    plan: GrowthPlan | None = None
    plan_facts: Sequence[tuple[str, str]] = field(default_factory=tuple)


def collect_pair(result: PairResult, kept: Sequence[str] = ()) -> PairPage:
    """Fill a page's data; pictures that no metric asked for are drawn now.

    Parameters
    ----------
    kept : metrics of an earlier run, which the page says.
    """
    obs, case = result.observations, result.case
    by_id = {m.metric: m for m in result.measurements}
    page = PairPage(pair_head(result, kept), result.kind, (case.instruction if case else None) or "")
    if result.kind == "edit":
        _edit(page, obs, by_id)
    else:
        _expand(page, obs, by_id)
    return page


def pair_head(result: PairResult, kept: Sequence[str] = ()) -> ReportData:
    """What all pages have: scores, metrics, import and run, without any picture."""
    protocol, before = result.protocol, result.worlds["before"]
    names = [result.paths[r].name for r in ("before", "after")]
    title = "Was the edit carried out, and nothing else?" if result.kind == "edit" else "Did the world grow, and hold?"
    decisions = [DecisionRow(f"{k} ({role})", d.value, d.source, d.confidence, d.note)
                 for role, report in result.reports.items() for k, d in report.decisions.items()]
    warnings = [*result.warnings, *(f"{role}: {w}" for role, r in result.reports.items() for w in r.warnings)]
    return ReportData(
        title=title, world_name=f"{names[0]} → {names[1]}", system=result.options.system, case_id=result.case_id,
        protocol_id=protocol.id, protocol_hash=protocol_hash(protocol), protocol_fast=protocol.fast,
        version=spatialbench.__version__, created=result.created, preview_note=_note(result, kept),
        headline=_headline(result), metrics=[_row(m, result) for m in result.measurements], decisions=decisions,
        gates=[GateRow(g.name, g.raised, g.value, g.threshold, g.note) for g in before.gates],
        repairs=[(f"{x.name} ({role})", x.count, x.note) for role, r in result.reports.items() for x in r.repairs],
        warnings=warnings,
        inputs=[(f"{role}: {f.name}", f.bytes, f.sha256) for role, r in result.reports.items() for f in r.files],
        machine=[(k, str(v)) for k, v in {**machine_info(), **versions()}.items()],
        backends=list(backends_of(result).items()), scorers=scorer_rows(result.options.scoring, result.judge))


def _note(result: PairResult, kept: Sequence[str]) -> str:
    note = "" if result.case is not None else "No case was given: what was asked for is not known."
    if result.options.settings:
        note += f" Protocol overridden: {', '.join(result.options.settings)}."
    if kept:
        note += (f" Kept from an earlier run: {', '.join(kept)}. With --force the batch measures and draws all again.")
    return note.strip()


def _headline(result: PairResult) -> list[GroupRow]:
    g = result.summary.system(result.options.system).group(PAIR_LEVEL[result.kind])
    return [GroupRow(g.level, LEVELS.get(g.level, ""), g.score, g.n_available, g.n_retained,
                     [gap.metric for gap in g.missing])]


def _row(m: Measurement, result: PairResult) -> MetricRow:
    spec = REGISTRY.metric(m.metric).spec
    summary = result.summary.system(result.options.system).metric(m.metric)
    return MetricRow(m.metric, spec.name, spec.title, spec.level, spec.retained, m.value, spec.unit,
                     spec.higher_is_better, summary.normalised if summary else None, m.status, m.reason, m.flags,
                     m.components, m.counts, score_name=_SCORE_NAMES.get(m.metric, ""), geometry=m.geometry or "")


def _edit(page: PairPage, obs: Observations, by_id: dict[str, Measurement]) -> None:
    views, pair = obs.get("spatial.edit_views"), obs.get("spatial.origin_pair")
    if views.numbers:
        frames = obs.get("spatial.edit_frames")
        for k, number_of in enumerate(views.numbers):
            psnr = frames.psnr[k] if not views.reason else None
            note = "" if psnr is None else f"background PSNR {number(psnr, 1)} dB"
            page.targets = [*page.targets, pair_row(f"orbit view {number_of:02d}", frames.pictures[k], note,
                                                    changed=views.changed[k])]
        page.targets_note = ("The outline is where the operation may change the image; all else is background."
                             if not views.reason else f"No mask of the target, so nothing is measured here: "
                             f"{views.reason}.")
    elif views.target is not None:
        page.targets_note = "The target is seen in none of the orbit views."
    else:
        page.targets_note = f"There are no views of an edited object: {views.reason or 'it was not found'}."
    show = "M35" in by_id
    page.origin = [pair_row(name, pair.pictures[k], "" if not show else _agreement(pair.agreement[k]),
                            disagree=pair.disagree[k] if show else None) for k, name in enumerate(_PROBES)]
    page.origin_note = ("Differences are shown four times as strong as they are. Depths disagree where they differ by "
                        f"more than {percent(obs.protocol.editing.depth_tolerance)} of the nearer one.")


def _expand(page: PairPage, obs: Observations, by_id: dict[str, Measurement]) -> None:
    before, after = (obs.context.worlds[r] for r in ("before", "after"))
    growth = obs.get("spatial.growth")
    place = None if growth.reason else obs.get("spatial.new_place")
    page.plan = GrowthPlan(before.footprint, after.footprint, None if place is None else place.centroid,
                           None if place is None else place.location[:2])
    page.plan_facts = [("footprint before", f"{number(before.footprint_area, 1)} m²"),
                       ("footprint after", f"{number(after.footprint_area, 1)} m²")]
    area = by_id.get("M26")
    if area is not None and "new_area" in area.components:
        page.plan_facts = [*page.plan_facts, ("new", f"{number(area.components['new_area'], 1)} m²"),
                           ("lost", f"{number(area.components['lost_area'], 1)} m²"),
                           ("new regions", str(area.components["new_regions"]))]
    pair = obs.get("spatial.origin_pair")
    page.origin = [pair_row(name, pair.pictures[k]) for k, name in enumerate(_PROBES)]
    page.origin_note = "What was there before, from the initial camera. Differences are shown four times as strong."
    if place is None:
        page.junction_note = f"There is no expansion location: {growth.reason or 'no ground at any new cell'}."
        return
    x, y, z = place.location
    moved = " (the nearest new cell with ground; the centroid has none)" if place.moved else ""
    page.junction_note = (f"All around at ({number(x)}, {number(y)}, {number(z)}) m, {number(z - place.ground)} m "
                          f"above the ground there{moved}. Striped pink marks holes.")
    junction = obs.get("spatial.junction")
    count = len(junction.pictures)
    chosen = [k * count // min(count, _MAX_ROWS) for k in range(min(count, _MAX_ROWS))]
    page.junction = [holes_row(f"{number(360.0 * k / count, 0)}°", junction.pictures[k], junction.masks_before[k],
                               junction.masks_after[k], f"holes {percent(float(junction.holes_before[k]))} → "
                               f"{percent(float(junction.holes_after[k]))}") for k in chosen]
    connection = obs.get("spatial.connection")
    page.connection = [pair_row(f"{k + 1} of {len(connection)}", view) for k, view in enumerate(connection)]


def _agreement(share: float | None) -> str:
    return "too few common pixels" if share is None else f"{percent(share)} of common depths agree"
