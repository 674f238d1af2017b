"""Files beside a world that say something about its frame."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import InputError
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.log import ReadLog
from spatialbench.types import Pose, SideCar

__all__ = ["read_side_car"]

_MAX_BYTES = 1 << 20


def read_side_car(folder: WorldFolder, cameras: tuple[Pose, ...], log: ReadLog) -> SideCar:
    """``NAME.stage_config.json`` (habitat: ``up``, ``front``, ``units_to_meters``) and the file's cameras.

    A side-car that cannot be read is a warning: the world is still there.
    """
    source: Any = "file" if cameras else "none"
    name = f"{folder.path.stem}.stage_config.json"
    config = _load(folder, name, log) if folder.has(name) else None
    if config is None:
        return SideCar(cameras=cameras, cameras_source=source)
    log.details["side_car"] = name
    up, front = _axis(config, "up", name, log), _axis(config, "front", name, log)
    unit = config.get("units_to_meters")
    if unit is not None and not (_is_number(unit) and 1e-6 < unit < 1e6):
        log.warn(f"'{name}': units_to_meters is not a positive number; ignored")
        unit = None
    asset = config.get("render_asset")
    notes = []
    if isinstance(asset, str) and asset.replace("\\", "/").split("/")[-1] != folder.path.name:
        log.warn(f"'{name}' names another file, '{asset[:80]}'; its axes are used all the same")
    if front is not None:
        notes.append(f"front {front.tolist()} ({name})")
    return SideCar(up=up, up_source="side-car" if up is not None else "none",
                   unit_m=None if unit is None else float(unit), unit_source="none" if unit is None else "side-car",
                   cameras=cameras, cameras_source=source, notes=tuple(notes))


def _load(folder: WorldFolder, name: str, log: ReadLog) -> dict[str, Any] | None:
    try:
        if (folder.path.parent / name).stat().st_size > _MAX_BYTES:
            log.warn(f"'{name}' is larger than 1 MiB and is not read")
            return None
        value = json.loads(folder.read(name).decode("utf-8-sig"))
    except (InputError, OSError, ValueError, RecursionError) as e:
        log.warn(f"'{name}' cannot be read ({type(e).__name__}); ignored")
        return None
    if not isinstance(value, dict):
        log.warn(f"'{name}' holds no JSON object; ignored")
        return None
    return value


def _axis(config: dict[str, Any], key: str, name: str, log: ReadLog) -> NDArray[np.float64] | None:
    value = config.get(key)
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 3 and all(_is_number(v) for v in value):
        axis = np.array(value, dtype=np.float64)
        length = float(np.linalg.norm(axis))
        if 1e-6 < length < 1e6:
            return axis / length
    log.warn(f"'{name}': {key} is not a direction of three numbers; ignored")
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e12
