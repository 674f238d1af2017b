"""The metrics of the spatial track that need no learned weights: M07, M08, M12, M13, M14, M25, M38's geometry."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.consistency import brightness_consistency, color_temperature_constraint
from spatialbench.metrics.coverage import mean_hole_rate
from spatialbench.metrics.harmonic import usable_recall
from spatialbench.metrics.navigation import navigable_ratio
from spatialbench.metrics.placement import NO_LOCATION, NO_MESH, NO_SCALE, NO_SUPPORT, tabletop_ready_rate
from spatialbench.observe import Observations, Outcome, inapplicable, invalid, measured, unavailable
from spatialbench.tracks.spatial.gating import invalidated, world_flags
from spatialbench.tracks.spatial.inventory import spatial_metric
from spatialbench.tracks.spatial.learned import lacking
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
    gated = invalidated(obs, ("no_interior", "too_blurry_for_geometry"))
    if gated:
        return gated
    collision, area = obs.world.collision, obs.world.footprint_area
    if collision.mesh is None or area == 0.0:
        return invalid("empty_footprint: no geometry is left within the crop heights "
                       f"[{collision.crop[0]:.1f}, {collision.crop[1]:.1f}] m", geometry=collision.geometry)
    walk = obs.get("spatial.walkable")
    flags = (*world_flags(obs), *(("facing_disagrees",) if collision.facing_disagrees else ()))
    navmesh = walk.navmesh
    components = {
        "footprint_area": area,
        "largest_component_area": walk.areas[0] if walk.areas else 0.0,
        "component_areas": list(walk.areas[:10]),
        "attempts": [{"cell_size": a.cell_size, "ok": a.ok, "stage": a.stage, "reason": a.reason}
                     for a in navmesh.attempts],
        "cell_size": navmesh.cell_size, "profile": navmesh.profile, "backend": navmesh.backend,
        "facing_share": collision.facing_share, "first_hit_share": collision.first_hit_share,
        "reversed": collision.reversed, "cropped_faces": collision.cropped_faces, **_fusion(obs),
    }
    counts = {"polygons": len(navmesh.polygons), "components": len(walk.areas)}
    built = navmesh.cell_size is not None
    ruling = navigable_ratio((walk.areas[0] if walk.areas else 0.0) if built else None, area)
    reason = ruling.reason
    if not built and navmesh.attempts:
        reason += f": {navmesh.attempts[-1].reason}"
    return measured(ruling.value or 0.0, reason, components=components, counts=counts, flags=flags,
                    geometry=collision.geometry)


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


@spatial_metric("M13", observations=("spatial.path_images",), reads=(*IMAGES, "path", "consistency"))
def brightness(obs: Observations) -> Outcome:
    """M13, eq. (46)-(47): gray histograms along the path against the first."""
    images = obs.get("spatial.path_images")
    value, scores = brightness_consistency(images.gray, obs.protocol.consistency)
    return _consistency(obs, value, scores)


@spatial_metric("M14", observations=("spatial.path_images",), reads=(*IMAGES, "path", "consistency"))
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

    def zero(rule: str, **what: Any) -> Outcome:
        ruling = tabletop_ready_rate((), rule)
        return measured(ruling.value or 0.0, ruling.reason, flags=flags, geometry=geometry, **what)

    if world.collision.mesh is None:
        return zero(NO_MESH)
    if not world.has_scale:
        return zero(NO_SCALE)
    if not world.supports:
        if world.support_annotated:
            return zero(NO_SUPPORT)
        return inapplicable("no support surface was found, and no case names one", flags=flags)
    placement = obs.get("spatial.placement")
    support, results = placement.support, placement.results.get(obs.protocol.placement.reference, ())
    components: dict[str, Any] = {
        "support": support.id, "support_source": support.source, "support_height": support.height,
        "support_area": support.area, "reference": obs.protocol.placement.reference, **_fusion(obs)}
    counts = {"planned": len(placement.planned), "retained": len(results),
              "succeeded": sum(r.success for r in results)}
    if not results:
        return zero(NO_LOCATION, components=components, counts=counts)
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


@spatial_metric("M38", observations=("spatial.locations",), scorers=("hpsv3",),
                reads=(*IMAGES, *COLLISION, "sampler", "usability"))
def place_recall(obs: Observations) -> Outcome:
    """M38, eq. (50)-(51): usable and scored slots of eight; only the geometric part without HPSv3."""
    gated = invalidated(obs, ("no_interior",))
    if gated:
        return gated
    plan = obs.get("spatial.locations")
    slots = plan.usable_slots
    return unavailable(lacking(("hpsv3",)),
                       components={"r_usable": usable_recall(slots, len(slots)), "median_depth": plan.median_depth,
                                   "usable_slots": list(slots)},
                       counts={"usable_locations": sum(slots), "slots": len(slots),
                               "tried": len(plan.tried)},
                       flags=world_flags(obs), geometry=obs.world.seen_geometry)


def _fusion(obs: Observations) -> dict[str, Any]:
    """How good a fused collision mesh is, for the metrics that stand on it."""
    quality = obs.world.collision.fusion
    return {} if quality is None else {"fusion": asdict(quality)}


def _consistency(obs: Observations, value: float, scores: NDArray[np.float64]) -> Outcome:
    worst = int(np.argmin(scores))
    return measured(value, components={"worst_step": worst, "worst_score": float(scores[worst]),
                                       "step_scores": [float(s) for s in scores]},
                    counts={"frames": len(scores)}, flags=world_flags(obs), geometry=obs.world.seen_geometry)
