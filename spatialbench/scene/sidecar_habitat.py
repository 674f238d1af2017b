"""A stage's configuration of habitat: axes and unit of its asset."""

from __future__ import annotations

from typing import Any

from spatialbench.errors import CorruptInputError
from spatialbench.scene.cameras.listed import number, text
from spatialbench.scene.sidecar_says import SideCarSays, direction, json_object

__all__ = ["is_habitat", "parse_habitat"]

_KEYS = {"render_asset", "collision_asset", "up", "front", "units_to_meters"}
_UNIT = (1e-6, 1e6)


def is_habitat(value: Any) -> bool:
    """Whether a JSON value has fields of a stage's configuration."""
    return isinstance(value, dict) and bool(value.keys() & _KEYS)


def parse_habitat(value: Any, where: str, world: str) -> SideCarSays:
    """``up``; ``units_to_meters`` times an even ``scale``, metres per unit; the rest as notes.

    Parameters
    ----------
    world : name of the world's file, which ``render_asset`` or ``collision_asset`` should be.

    Raises
    ------
    CorruptInputError : a field of another kind, by name.
    """
    config = json_object(value, where)
    up, front = (direction(config.get(k), f"{where}, {k}") for k in ("up", "front"))
    unit, warnings = _unit(config, where)
    notes = [] if front is None else [f"front {front.tolist()} ({where})"]
    notes += [] if up is None else [f"up {up.tolist()} ({where})"]
    notes += [] if unit is None else [f"{unit:g} m per unit ({where})"]
    notes += [f"{key} {config[key]!r:.80} ({where})" for key in ("origin", "margin") if config.get(key) is not None]
    assets = [text(v, f"{where}, {k}").replace("\\", "/").split("/")[-1] for k in ("render_asset", "collision_asset")
              if isinstance(v := config.get(k), str)]
    if assets and world not in assets:
        warnings.append(f"'{where}' names another file, '{assets[0][:80]}'; its axes are used all the same")
    return SideCarSays("habitat", up=up, unit_m=unit, notes=tuple(notes), warnings=tuple(warnings))


def _unit(config: dict[str, Any], where: str) -> tuple[float | None, list[str]]:
    """Metres per unit, None where neither field speaks of it, and warnings."""
    unit, scale = config.get("units_to_meters"), config.get("scale")
    metres = None if unit is None else number(unit, f"{where}, units_to_meters", positive=True)
    warnings = []
    if scale is not None:
        parts = scale if isinstance(scale, list) else [scale]
        factors = [number(v, f"{where}, scale", positive=True) for v in parts]
        if len(factors) not in (1, 3):
            raise CorruptInputError("is neither a number nor three", where=f"{where}, scale",
                                    todo="Correct it, or leave it out")
        if max(factors) - min(factors) > 1e-9 * max(factors):
            warnings.append(f"'{where}': scale stretches the world unevenly, which is not done here")
        elif metres is not None or factors[0] != 1:
            metres = (1.0 if metres is None else metres) * factors[0]
    if metres is not None and not _UNIT[0] < metres < _UNIT[1]:
        raise CorruptInputError(f"makes a unit {metres:g} m", where=f"{where}, units_to_meters",
                                todo="Correct it, or leave it out")
    return metres, warnings
