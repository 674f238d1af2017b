"""The metrics of the spatial track that need no learned weights: M07, M08, M12, M13, M14, M25."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.consistency import brightness_consistency, color_temperature_constraint
from spatialbench.metrics.coverage import mean_hole_rate
from spatialbench.metrics.placement import NO_LOCATION, tabletop_ready_rate, without_trials
from spatialbench.observe import Observations, Outcome, inapplicable, measured
from spatialbench.tracks.spatial.gating import invalidated, world_flags
from spatialbench.tracks.spatial.inventory import spatial_metric
from spatialbench.tracks.spatial.navigation import fusion_components, navigable_outcome
from spatialbench.tracks.spatial.reads import COLLISION, IMAGES
from spatialbench.tracks.spatial.simulators import REFERENCES

__all__: list[str] = []


@spatial_metric("M07", observations=("spatial.origin_ring",), reads=(*IMAGES, "usability"))
def hole_rate(obs: Observations) -> Outcome:
    """M07, eq. (38): share of pixels of the origin ring whose raw opacity is under 0.5."""
    ring = obs.get("spatial.origin_ring")
    rates = ring.hole_rates
    return measured(mean_hole_rate(rates),
                    components={"worst_frame": int(np.argmax(rates)), "worst_rate": float(rates.max()),
                                "frame_rates": [float(r) for r in rates]},
                    counts={"frames": len(rates)}, flags=world_flags(obs), geometry=obs.world.seen_geometry)


@spatial_metric("M08", observations=("spatial.walkable",), reads=(*COLLISION, "navmesh"))
def navigable_ratio_of_world(obs: Observations) -> Outcome:
    """M08, eq. (42): largest four-connected walkable area over the footprint's area."""
    return navigable_outcome(obs, "spatial.walkable")


@spatial_metric("M12", observations=("spatial.path_probes",),
                reads=(*IMAGES, *COLLISION, "usability", "path"))
def oob_ratio_of_path(obs: Observations) -> Outcome:
    """M12, eq. (44)-(45): share of path samples that are outside the world or inside its matter."""
    gated = invalidated(obs, ("no_interior",))
    if gated:
        return gated
    probes = obs.get("spatial.path_probes")
    result = probes.result
    steps = [i for i, out in enumerate(result.out) if out]
    return measured(
        result.value,
        components={"reference_hole_rate": probes.origin.hole_rate, "hole_limit": result.limit,
                    "causes": {c: result.causes.count(c) for c in sorted(set(result.causes) - {""})},
                    "first_step": steps[0] if steps else None,
                    "first_time_s": float(probes.path.times[steps[0]]) if steps else None,
                    "clearance_tested": obs.world.has_scale},
        counts={"samples": len(result.out), "outside": len(steps)}, flags=world_flags(obs),
        geometry=obs.world.seen_geometry)


@spatial_metric("M13", version=2, observations=("spatial.path_images",), reads=(*IMAGES, "path", "consistency"))
def brightness(obs: Observations) -> Outcome:
    """M13, eq. (46)-(47): gray histograms along the path against the first."""
    images = obs.get("spatial.path_images")
    value, scores = brightness_consistency(images.gray, obs.protocol.consistency)
    return _consistency(obs, value, scores)


@spatial_metric("M14", version=2, observations=("spatial.path_images",), reads=(*IMAGES, "path", "consistency"))
def color_temperature(obs: Observations) -> Outcome:
    """M14, eq. (48): hue histograms along the path against the first and the one before."""
    images = obs.get("spatial.path_images")
    value, scores = color_temperature_constraint(images.hue, obs.protocol.consistency)
    return _consistency(obs, value, scores)


@spatial_metric("M25", observations=("spatial.placement",),
                reads=(*COLLISION, "placement", "supports"))
def tabletop_ready_rate_of_world(obs: Observations) -> Outcome:
    """M25, eq. (43): share of the retained plate trials that succeed; zero by rule where none can be made."""
    gated = invalidated(obs, ("no_interior", "too_blurry_for_geometry"))
    if gated:
        return gated
    world = obs.world
    flags, geometry = world_flags(obs), world.collision.geometry
    rule = without_trials(mesh=world.collision.mesh is not None, scale=world.has_scale,
                          support=bool(world.supports), annotated=world.support_annotated)
    if rule is not None:
        return (inapplicable(rule.reason, flags=flags) if rule.value is None
                else measured(rule.value, rule.reason, flags=flags, geometry=geometry))
    placement = obs.get("spatial.placement")
    support, results = placement.support, placement.results.get(obs.protocol.placement.reference, ())
    components: dict[str, Any] = {
        "support": support.id, "support_source": support.source, "support_height": support.height,
        "support_area": support.area, "reference": obs.protocol.placement.reference, **fusion_components(obs)}
    counts = {"planned": len(placement.planned), "retained": len(results),
              "succeeded": sum(r.success for r in results)}
    dropped = [{"id": p.id, "reason": p.reason} for p in placement.planned if not p.kept]
    if dropped:
        components["dropped_places"] = dropped
    if not results:
        ruling = tabletop_ready_rate((), NO_LOCATION)
        return measured(ruling.value or 0.0, ruling.reason, components=components, counts=counts, flags=flags,
                        geometry=geometry)
    components["by_reference"] = {name: {"succeeded": sum(r.success for r in placement.results[name]),
                                         "retained": len(placement.results[name])}
                                  for name in REFERENCES if name in placement.results}
    components["trials"] = [{"id": r.id, "success": r.success, "reasons": list(r.reasons),
                             "initial_penetration": r.initial_penetration, "drop": r.drop,
                             "outside": r.outside, "horizontal_displacement": r.horizontal_displacement,
                             "tilt_deg": r.tilt_deg, "release_centre": list(r.release_centre)}
                            for r in results]
    ruling = tabletop_ready_rate([r.success for r in results])
    return measured(ruling.value or 0.0, components=components, counts=counts,
                    flags=flags, geometry=geometry)


def _consistency(obs: Observations, value: float, scores: NDArray[np.float64]) -> Outcome:
    worst = int(np.argmin(scores))
    return measured(value, components={"worst_step": worst, "worst_score": float(scores[worst]),
                                       "step_scores": [float(s) for s in scores]},
                    counts={"frames": len(scores)}, flags=world_flags(obs), geometry=obs.world.seen_geometry)
