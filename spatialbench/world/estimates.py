"""What was found beside the decisions: JSON types for the report, and the warnings that follow from it."""

from __future__ import annotations

import math
from typing import Any

from spatialbench.types import Protocol
from spatialbench.world.interior import InteriorAnalysis, StandingPlace
from spatialbench.world.up import UpEstimate

__all__ = ["estimates_json", "guess_unit", "storeys", "unit_warning"]

_PLAUSIBLE_HEIGHT = (1.5, 8.0)
_ROOM_HEIGHT = (2.2, 4.5)
_FACTORS = {0.01: "centimetres", 0.0254: "inches", 0.3048: "feet", 0.001: "millimetres", 100.0: "hectometres"}
_STOREY = 1.8
_SMALLEST = 1.5


def guess_unit(height: float) -> float | None:
    """The one factor that makes ``height`` (m by the decided unit) a room's, or None (real-worlds.md 5e).

    None too when the height is plausible as it is, or when several factors fit.

    >>> guess_unit(270.0), guess_unit(2.7)
    (0.01, None)
    """
    if _PLAUSIBLE_HEIGHT[0] <= height <= _PLAUSIBLE_HEIGHT[1]:
        return None
    fits = [f for f in _FACTORS if _ROOM_HEIGHT[0] <= height * f <= _ROOM_HEIGHT[1]]
    return fits[0] if len(fits) == 1 else None


def unit_warning(interior: InteriorAnalysis, unit_m: float | None, assumed: float, extent: float,
                 doubtful: bool) -> str | None:
    """Words for a person when the world's size asks for another unit.

    A height that one factor would make a room's is a hint only where the decided unit did not lead to a room
    (``doubtful``): storeys, halls and streets are high, too.

    Parameters
    ----------
    unit_m : as decided; None when nobody says.
    assumed : metres per unit that the search took.
    extent : longest side of the world by ``assumed``, m.
    doubtful : a gate is up.
    """
    said = f"the unit of {unit_m:g} m" if unit_m is not None else f"an assumed {assumed:.3g} m per unit"
    if extent < _SMALLEST:
        room = 5 * assumed / extent if extent > 0 else math.inf
        example = f" (for a room of 5 m: --unit {room:.2g})" if math.isfinite(room) else ""
        return (f"by {said} the whole world is {extent:.3g} m long, less than a person is tall: is that right? "
                f"Give --unit with metres per unit of the file{example}")
    factor = guess_unit(interior.height)
    if factor is None or not doubtful:
        return None
    return (f"by {said} the world is {interior.height:.3g} m high; times {factor:g} ({_FACTORS[factor]} in place "
            f"of metres) it would be a room's height. If so, give --unit {factor * assumed:.3g}")


def storeys(places: tuple[StandingPlace, ...]) -> list[dict[str, float]]:
    """Floors at least 1.8 m apart in height, lowest first: ``height`` (m along up, source axes) and ``area``."""
    out: list[dict[str, float]] = []
    for p in sorted(places, key=lambda p: p.floor):
        if out and p.floor - out[-1]["height"] < _STOREY:
            out[-1]["area"] += p.area
        else:
            out.append({"height": p.floor, "area": p.area})
    return out


def estimates_json(up: UpEstimate, interior: InteriorAnalysis, search_unit: float, protocol: Protocol
                   ) -> dict[str, Any]:
    """For ``World.estimates``: lengths are metres by ``search_unit_m``, positions in the source frame and unit."""
    return {
        "up": up.as_json(),
        "up_ratio": up.ratio,
        "up_agrees": up.agrees,
        "up_warn_ratio": protocol.finding.warn_ratio,
        "search_unit_m": search_unit,
        "height": interior.height,
        "unit_factor": guess_unit(interior.height),
        "enclosure": interior.enclosure,
        "voxel": interior.voxel,
        "storeys": storeys(interior.places),
        "cameras": [{"position": [float(x) for x in p.position / search_unit], "floor": p.floor, "area": p.area,
                     "enclosure": p.enclosure, "clearance": p.clearance, "ceiling": p.ceiling}
                    for p in interior.places],
    }
