"""From a finished run to the data of its page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import spatialbench
from spatialbench.aggregate import load_normalization
from spatialbench.aggregate.collect import summarise_metric
from spatialbench.observe import REGISTRY, Observations
from spatialbench.report.collision import collision_card
from spatialbench.report.data import (
    DecisionRow,
    GateRow,
    GroupRow,
    LocationDot,
    MapData,
    MetricRow,
    PathChart,
    ProbeRow,
    ReportData,
    SupportShape,
    TrialRow,
)
from spatialbench.report.object_cards import object_cards
from spatialbench.report.plates import plate_pictures
from spatialbench.runs.machine import machine_info, versions
from spatialbench.runs.run_files import backends_used
from spatialbench.runs.scoring import LentJudge, Scoring, scorers_used
from spatialbench.types import Measurement, protocol_hash, to_uint8

if TYPE_CHECKING:
    from spatialbench.runs import RunResult

__all__ = ["collect", "scorer_rows"]

LEVELS = {"W1": "Generative construction", "W2": "Interactive simulation", "W3": "State persistence",
          "W4": "Programmable dynamics", "W5": "Scalable shared world"}
_SCORE_NAMES = {"M07": "Hole-free ratio", "M12": "In-bounds ratio", "M13": "Brightness consistency",
                "M14": "Hue consistency"}


def collect(result: RunResult) -> ReportData:
    """Fill a page's data from a run; parts that the run did not make stay empty."""
    obs, world, protocol = result.observations, result.world, result.protocol
    by_id = {m.metric: m for m in result.measurements}
    trials, trials_note = _trials(obs)
    ring = obs.get("spatial.origin_ring") if obs.made("spatial.origin_ring") else None
    yaws = [] if ring is None else [360.0 * i / len(ring.cameras) for i in range(len(ring.cameras))]
    return ReportData(
        title=f"{result.path.name}: does this world hold up?",
        world_name=result.path.name, system=result.options.system, case_id=result.case_id,
        protocol_id=protocol.id, protocol_hash=protocol_hash(protocol), protocol_fast=protocol.fast,
        version=spatialbench.__version__, created=result.created,
        preview_note=_preview_note(result),
        headline=_headline(result),
        metrics=[_metric_row(m, result) for m in result.measurements],
        panorama=[] if ring is None else list(ring.thumbnails), panorama_yaws=yaws,
        hole_masks=None if ring is None else list(ring.hole_thumbnails),
        panorama_fov_deg=protocol.views.lens.fov_deg,
        map=_map(obs, by_id),
        collision=collision_card(world, obs.get("spatial.renderer")) if obs.made("spatial.renderer") else None,
        trials=trials, trials_note=trials_note, support_note=_support_note(obs),
        probes=_probes(obs), path_chart=_path_chart(obs), objects=object_cards(obs, result.measurements),
        decisions=[DecisionRow(k, _plain(d.value), d.source, d.confidence, d.note)
                   for k, d in result.report.decisions.items()],
        gates=[GateRow(g.name, g.raised, g.value, g.threshold, g.note) for g in world.gates],
        repairs=[(r.name, r.count, r.note) for r in result.report.repairs],
        warnings=result.report.warnings,
        inputs=[(f.name, f.bytes, f.sha256) for f in result.report.files],
        machine=[(k, str(v)) for k, v in {**machine_info(), **versions()}.items()],
        backends=list(backends_used(result).items()), scorers=scorer_rows(result.options.scoring, result.judge))


def scorer_rows(scoring: Scoring, judge: LentJudge | None) -> list[tuple[str, str]]:
    """Learned scorers and the judge that were used, and in a few words with what."""
    used = scorers_used(scoring, judge)
    rows = []
    for id, about in used.get("scorers", {}).items():
        files = [f"{name} {digest[:12]}" for name, digest in about.items() if "/" in name and len(digest) == 64]
        rows.append((id, "; ".join([about.get("model", about.get("given", "")), *files])))
    if "judge" in used:
        said = used["judge"]
        rows.append(("judge", "; ".join([f"{said['model']} at {said['endpoint']}", *said["doubts"]])))
    return rows


def _preview_note(result: RunResult) -> str:
    note = "" if result.case is not None else "No case was given: what the world was asked to be is not known."
    if result.options.settings:
        note += f" Protocol overridden: {', '.join(result.options.settings)}."
    return note.strip()


def _headline(result: RunResult) -> list[GroupRow]:
    system = result.summary.system(result.options.system)
    return [GroupRow(g.level, LEVELS.get(g.level, ""), g.score, g.n_available, g.n_retained,
                     [gap.metric for gap in g.missing]) for g in system.groups]


def _metric_row(m: Measurement, result: RunResult) -> MetricRow:
    spec = REGISTRY.metric(m.metric).spec
    summary = result.summary.system(result.options.system).metric(m.metric)
    if m.object is not None:  # the summary is of all objects
        summary = summarise_metric([m], spec, load_normalization(result.protocol.normalization))
    title = spec.title if m.object is None else f"{spec.title}: {m.object}"
    return MetricRow(m.metric, spec.name, title, spec.level, spec.retained, m.value, spec.unit,
                     spec.higher_is_better, summary.normalised if summary else None, m.status, m.reason, m.flags,
                     m.components, m.counts, why=_why(m), score_name=_SCORE_NAMES.get(m.metric, ""),
                     geometry=m.geometry or "")


def _why(m: Measurement) -> str:
    """A sentence where the evidence on the page alone would mislead."""
    if m.metric == "M08" and "facing_disagrees" in m.flags and m.components.get("reversed"):
        walked, covered = m.components["largest_component_area"], m.components["footprint_area"]
        return (f"The largest walkable area is {walked:.1f} of {covered:.1f} m², after the protocol's facing rule "
                "turned all faces over; what the camera sees says that they were right, so this value probably "
                "misjudges the world.")
    return ""


def _map(obs: Observations, by_id: dict[str, Measurement]) -> MapData | None:
    world = obs.world
    if world.footprint is None or world.footprint.count == 0:
        return None
    labels = None
    if obs.made("spatial.walkable"):
        walk = obs.get("spatial.walkable")
        if walk.navmesh is not None:
            labels = _align_labels(walk, world.footprint)
    data = MapData(footprint=world.footprint, nav_labels=labels,
                   supports=[SupportShape(s.id, s.boundary, i == 0 and obs.made("spatial.placement"))
                             for i, s in enumerate(world.supports)])
    if obs.made("spatial.path_probes"):
        probes = obs.get("spatial.path_probes")
        data.path, data.path_oob = probes.path.positions[:, :2], np.array(probes.result.out)
    if obs.made("spatial.locations"):
        data.locations = [LocationDot(t.position[0], t.position[1], t.accepted, t.cause, t.slot)
                          for t in obs.get("spatial.locations").tried]
    if obs.made("spatial.placement"):
        placement = obs.get("spatial.placement")
        results = placement.results.get(obs.protocol.placement.reference, ())
        data.trials = [(r.release_centre[0], r.release_centre[1], r.success) for r in results]
        data.trial_ids = [r.id for r in results]
    return data


def _align_labels(walk: Any, footprint: Any) -> NDArray[np.int32]:
    """Component labels in the extent of the footprint's array."""
    out = np.zeros(footprint.mask.shape, np.int32)
    a, b = walk.grid_i0 - footprint.i0, walk.grid_j0 - footprint.j0
    lo = np.maximum([a, b], 0)
    hi = np.minimum([a + walk.labels.shape[0], b + walk.labels.shape[1]], out.shape)
    if (hi > lo).all():
        out[lo[0]:hi[0], lo[1]:hi[1]] = walk.labels[lo[0] - a:hi[0] - a, lo[1] - b:hi[1] - b]
    return out


def _trials(obs: Observations) -> tuple[list[TrialRow], str]:
    if not obs.made("spatial.placement"):
        return [], ""
    placement, settings = obs.get("spatial.placement"), obs.protocol.placement
    results = placement.results.get(settings.reference, ())
    if placement.support is None or not results:
        return [], "No plate could be tried."
    pictures = plate_pictures(obs.get("spatial.renderer"), results, settings)
    rows = []
    for i, r in enumerate(results):
        others = {name: row.success for name, rs in placement.results.items() if name != settings.reference
                  for row in rs if row.id == r.id}
        release, rest = pictures[i]
        rows.append(TrialRow(r.id, r.success, r.reasons, r.drop, r.tilt_deg, r.horizontal_displacement,
                             r.initial_penetration, others, release, rest))
    dropped = [p for p in placement.planned if not p.kept]
    note = f"{len(results)} of {settings.trials} places were tried"
    if dropped:
        note += "; dropped: " + "; ".join(f"{p.id} ({p.reason})" for p in dropped)
    height = f"{settings.release_height * 100:.0f} cm above the {_words(settings.reference)}"
    above = f"Released {height}, which is what counts"
    return rows, (f"{note}. {above}; below each plate stands what would happen above two other heights. Places are "
                  "spread over the support, and what lies on it is part of the world.")


def _support_note(obs: Observations) -> str:
    world = obs.world
    if not world.supports:
        return ("The case names a support that the world does not have." if world.support_annotated
                else "No support surface was found.")
    s = world.supports[0]
    origin = {"case": "named by the case", "user": "given by the user"}.get(
        s.source, f"found, the largest of {len(world.supports)}")
    x, y, z = np.linalg.inv(world.transform)[:3] @ [*s.boundary.mean(axis=0), s.height, 1.0]
    text = (f"{s.id} ({origin}): {s.area:.2f} m², {s.height - world.ground_z:.2f} m above the floor, around "
            f"({x:.3f}, {y:.3f}, {z:.3f}) in the file's frame.")
    return f"{text} {s.note}".strip()


def _probes(obs: Observations) -> list[ProbeRow]:
    """Pictures of the first out-of-bounds sample of each cause."""
    if not obs.made("spatial.path_probes"):
        return []
    from spatialbench.renderers.trajectories import cube_faces

    probes = obs.get("spatial.path_probes")
    rows = []
    for cause in dict.fromkeys(c for c in probes.result.causes if c):
        step = probes.result.causes.index(cause)
        position = probes.path.positions[step]
        frames = obs.get("spatial.renderer").render(cube_faces(position, obs.protocol.views.probe_size), want=("rgb",))
        rows.append(ProbeRow(f"Step {step}", cause, step, float(probes.path.times[step]), position.tolist(),
                             [to_uint8(f) for f in frames.rgb], probes.samples[step].hole_rate,
                             probes.origin.hole_rate))
    return rows


def _path_chart(obs: Observations) -> PathChart | None:
    if not obs.made("spatial.path_probes"):
        return _likeness_alone(obs)
    probes = obs.get("spatial.path_probes")
    close = [s.close_share for s in probes.samples]
    chart = PathChart(times=probes.path.times.tolist(), hole_rate=[s.hole_rate for s in probes.samples],
                      threshold=probes.result.limit,
                      close_share=[0.0 if c is None else c for c in close] if obs.world.has_scale else None,
                      oob=list(probes.result.out), rule=_bounds_rule(obs))
    if obs.made("spatial.path_images"):
        chart.brightness, chart.hue = _likeness(obs)
    return chart


def _bounds_rule(obs: Observations) -> str:
    use = obs.protocol.usability
    rule = ("A step is out of bounds when its six probes have more holes than the threshold (those of the start and "
            f"{100 * use.hole_margin:g} points more, at most {use.hole_cap:.0%}) and it is not over the footprint")
    if obs.world.has_scale:
        rule += f", or when over {use.max_close_share:.0%} of what it sees is closer than {use.clearance:g} m"
    return f"{rule}. The same rule accepts locations."


def _likeness_alone(obs: Observations) -> PathChart | None:
    """M13 and M14 have values where M12 is invalid; their chart stays then."""
    if not obs.made("spatial.path_images"):
        return None
    chart = PathChart(times=obs.get("spatial.path").times.tolist(), hole_rate=[], threshold=None)
    chart.brightness, chart.hue = _likeness(obs)
    return chart


def _likeness(obs: Observations) -> tuple[list[float], list[float]]:
    from spatialbench.metrics.consistency import brightness_consistency, color_temperature_constraint

    images, rule = obs.get("spatial.path_images"), obs.protocol.consistency
    return (brightness_consistency(images.gray, rule)[1].tolist(),
            color_temperature_constraint(images.hue, rule)[1].tolist())


def _plain(value: Any) -> Any:
    """Numbers of a decision's value rounded for reading."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value


def _words(name: str) -> str:
    return {"footprint_median": "median surface height under it", "plane": "plane fitted to the surface",
            "footprint_max": "highest point under it"}.get(name, name)
