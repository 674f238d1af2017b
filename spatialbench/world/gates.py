"""Checks of whether a world can be judged as an interior (real-worlds.md section 7). They only flag."""

from __future__ import annotations

import math

from spatialbench.types import Gate, Protocol, ScaleRecord

__all__ = ["check_gates"]


def check_gates(*, enclosure: float, floor: float = math.inf, level_depth: float | None, scale: ScaleRecord,
                unit_m: float | None, protocol: Protocol, blur: float | None = None) -> tuple[Gate, ...]:
    """All gates, in the order of ``Gate.name``'s list.

    Parameters
    ----------
    enclosure : e of the best standing place.
    floor : area of its floor, m2.
    level_depth : percentile of level range at the initial camera, m; None when nothing is near.
    scale : how metres were fixed.
    unit_m : metres per source unit when something gives it.
    blur : median of the largest sigma of the visible splats, m; None for a mesh.
    """
    return (_interior(enclosure, floor, protocol), _blur(blur, protocol), _inside(level_depth, protocol),
            _scale(scale, unit_m, protocol))


def _interior(e: float, floor: float, protocol: Protocol) -> Gate:
    least, smallest = protocol.gates.min_enclosure, protocol.gates.min_floor
    raised = not e >= least
    if e > 0 and not floor >= smallest:
        return Gate("no_interior", True, e, least, f"the best place to stand has {floor:.2f} m2 of floor, {smallest:g} "
                    "are needed")
    return Gate("no_interior", raised, e, least,
                f"{e:.2f} of the directions meet something at the best place" if e > 0 else "no floor to stand on")


def _blur(sigma: float | None, protocol: Protocol) -> Gate:
    most, name = protocol.gates.max_splat_sigma, "too_blurry_for_geometry"
    if sigma is None:
        return Gate(name, False, None, most, "no splats to judge")
    raised = not sigma < most
    return Gate(name, raised, sigma, most, f"half of the visible splats are larger than {sigma:.3g} m (their largest "
                f"sigma)" + ("; their geometry means nothing" if raised else ""))


def _inside(level_depth: float | None, protocol: Protocol) -> Gate:
    least, p = protocol.gates.min_level_depth, protocol.gates.level_depth_percentile
    if level_depth is None:
        return Gate("camera_inside_geometry", False, None, least, f"fewer than {p:g} % of the level rays meet "
                    "anything")
    return Gate("camera_inside_geometry", not level_depth > least, level_depth, least,
                f"{p:g} % of the level rays end within {level_depth:.2f} m")


def _scale(record: ScaleRecord, unit_m: float | None, protocol: Protocol) -> Gate:
    g, name = protocol.gates, "scale_doubtful"
    if record.branch == "user":
        return Gate(name, False, None, float(g.min_ray_hits), "the scale was given")
    hits = sum(d is not None for d in record.ray_distances)
    if record.factor is None or hits < g.min_ray_hits:
        return Gate(name, True, float(hits), float(g.min_ray_hits), f"{hits} of nine rays meet a floor")
    if unit_m is None:
        return Gate(name, False, float(hits), float(g.min_ray_hits), "nothing says how long a unit is")
    ratio = record.factor / unit_m
    raised = not g.min_scale < ratio < g.max_scale
    return Gate(name, raised, ratio, g.max_scale if ratio > 1 else g.min_scale,
                f"the rule's metre is {ratio:.3g} times the file's")
