"""Lights of KHR_lights_punctual, placed where the nodes of the default scene put them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spatialbench.errors import CorruptInputError
from spatialbench.scene.gltf.nodes import Placed
from spatialbench.scene.gltf.schema import Gltf
from spatialbench.scene.log import ReadLog
from spatialbench.types import Light

__all__ = ["MAX_LIGHTS", "read_lights"]

PUNCTUAL = "KHR_lights_punctual"
MAX_LIGHTS = 256
"""Placed lights that are used, in the order of their nodes."""

_TODO = "Export it again"


def read_lights(doc: Gltf, placed: Placed, log: ReadLog, where: str) -> tuple[Light, ...]:
    """Lights in the file's frame; a light shines along its node's -Z, and a node's scale does not change it.

    Raises
    ------
    CorruptInputError : a node names a light that is not there, or a light has values without meaning.
    """
    block = doc.extensions.get(PUNCTUAL)
    kinds = block.get("lights", []) if isinstance(block, dict) else []
    lights: list[Light] = []
    for index in sorted(placed.worlds):
        own = doc.nodes[index].extensions.get(PUNCTUAL)
        if not isinstance(own, dict):
            continue
        k = own.get("light")
        if not isinstance(kinds, list) or type(k) is not int or not 0 <= k < len(kinds):
            raise CorruptInputError(f"node {index} places a light that is not there", where=where, todo=_TODO)
        matrix = placed.worlds[index]
        axis = -matrix[:3, 2]
        length = float(np.linalg.norm(axis))
        try:
            axis = axis / length if length > 0 else np.array([0.0, 0.0, -1.0])
            light = _light(kinds[k], matrix[:3, 3].tolist(), axis.tolist())
        except (AttributeError, KeyError, TypeError, ValueError):
            raise CorruptInputError(f"light {k} is not what KHR_lights_punctual says", where=where,
                                    todo=_TODO) from None
        if length == 0 and light.kind != "point":
            log.warn(f"the light of node {index} has no direction and is left out")
            continue
        lights.append(light)
    if len(lights) > MAX_LIGHTS:
        log.warn(f"only the first {MAX_LIGHTS} of {len(lights)} lights are used")
    return tuple(lights[:MAX_LIGHTS])


def _light(given: dict[str, Any], position: list[float], axis: list[float]) -> Light:
    red, green, blue = (float(c) for c in given.get("color", (1, 1, 1)))
    spot = given.get("spot", {})
    inner, outer = float(spot.get("innerConeAngle", 0.0)), float(spot.get("outerConeAngle", math.pi / 4))
    intensity, reach = float(given.get("intensity", 1.0)), float(given.get("range", 0.0))
    values = (red, green, blue, intensity, reach, inner, outer)
    if given["type"] not in ("directional", "point", "spot") or not all(map(math.isfinite, values)) or \
            min(values) < 0 or not inner < outer <= math.pi / 2:
        raise ValueError
    return Light(given["type"], (red, green, blue), intensity, (position[0], position[1], position[2]),
                 (axis[0], axis[1], axis[2]), reach, inner, outer)
