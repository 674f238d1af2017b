"""Lights of UsdLux, as the one kind of light that meshes carry.

UsdLux gives the luminance L of what emits, in cd/m2: ``intensity`` 2^``exposure`` ``color``, times ``diffuse`` (all
surfaces here are matt) and the colour of a black body if asked for; with ``normalize`` divided by the emitting area in
the world, for a distant light of half angle a by pi sin^2 a. From that,

- a distant light is directional, of L pi sin^2 a lux (L where the angle is 0);
- a dome is ambient, of pi L lux, L meant over its texture (as far as that is PNG or JPEG; otherwise white);
- what is convex and emits all around (sphere, cylinder) is a point of L A / 4 candela, the mean of the area that is
  seen; a cone of up to 90 degrees makes it a spot, its softness the share of the cone that fades;
- what emits from one side (rectangle, disk) is a spot along -Z of L A candela. Its cosine is drawn as a fade from
  arccos 3/4 to 90 degrees, which has the same flux: off by at most 1/4 of the axis' value.

So approximated: every light is a point, also near it; there is no ``focus``, no IES profile, no texture of a
rectangle, no light linking and no filter. A radius of 0 with ``normalize`` off gives no light, as it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.color import srgb_to_linear
from spatialbench.scene.gltf.lights import MAX_LIGHTS
from spatialbench.scene.log import ReadLog, plural
from spatialbench.types import Light

__all__ = ["usd_lights"]

_LAMBERT = math.acos(0.75), math.pi / 2
_SHARP = 1e-3
"""Share of a cone that fades at least: a spot needs some."""
_ALL_AROUND = ("SphereLight", "CylinderLight")
_ONE_SIDED = ("RectLight", "DiskLight")
_DOMES = ("DomeLight", "DomeLight_1")

F64 = NDArray[np.float64]
Texture = Callable[[dict[str, Any]], NDArray[np.uint8] | None]


def usd_lights(found: list[dict[str, Any]], n_found: int, texture: Texture, log: ReadLog) -> tuple[Light, ...]:
    """Lights in the stage's frame, the first ``MAX_LIGHTS`` of them.

    Parameters
    ----------
    found : as ``usd_extract`` writes them, visible ones.
    n_found : how many the stage has.
    texture : pixels [H,W,4] of a dome's texture, or None after saying why.
    """
    lights: list[Light] = []
    for said in found[:MAX_LIGHTS]:
        name = str(said["path"])[:80]
        light = None
        if said["kind"] not in (*_ALL_AROUND, *_ONE_SIDED, *_DOMES, "DistantLight"):
            log.warn(f"the light {name} is a {said['kind'][:40]}, which is not used")
            continue
        for what, there in said["unused"].items():
            if there:
                log.warn(f"the light {name}: its {what} is not used")
        with suppress(OverflowError):
            light = _light(said, texture)
        if light is None:
            log.warn(f"the light {name} has values that are no light and is left out")
        elif light.intensity > 0 and max(light.color) > 0:
            lights.append(light)
    if n_found > MAX_LIGHTS:
        log.warn(f"only the first {MAX_LIGHTS} of {plural(n_found, 'light')} are used")
    return tuple(lights)


def _light(said: dict[str, Any], texture: Texture) -> Light | None:
    """None for values that are no light."""
    matrix = np.array(said["matrix"], np.float64)
    color = np.array(said["color"], np.float64) * np.array(said["body"], np.float64)
    luminance = float(said["intensity"]) * 2.0 ** float(said["exposure"]) * float(said["diffuse"])
    sizes = [float(said[k]) for k in ("radius", "width", "height", "length", "angle")]
    if not np.isfinite([*matrix.ravel(), *color, luminance, *sizes, said["cone"], said["softness"]]).all() or \
            min(*color, luminance, *sizes, said["cone"]) < 0:
        return None
    kind = said["kind"]
    if kind in _DOMES:
        pixels = texture(said) if said.get("file") else None
        color = color if pixels is None else color * _mean_of(pixels)
        return _made("ambient", color, math.pi * luminance, matrix)
    inner, outer = _LAMBERT
    if kind == "DistantLight":
        half = math.radians(min(sizes[4], 360.0)) / 2
        size = math.pi * (math.sin(half) ** 2 if half <= math.pi / 2 else 2 - math.sin(half) ** 2) if half > 0 else 1.0
        return _made("directional", color, luminance if said["normalize"] else luminance * size, matrix)
    area = _area(kind, sizes, matrix[:3, :3])
    one_sided = kind in _ONE_SIDED
    share = 1.0 if one_sided else 0.25
    candela = luminance * share * (1.0 if said["normalize"] else area)
    cone = math.radians(said["cone"])
    if said["shaped"] and (cone < math.pi / 2 or (cone == math.pi / 2 and not one_sided)):
        if cone == 0:
            return _made("point", color, 0.0, matrix)
        outer = cone
        inner = cone * (1.0 - min(max(float(said["softness"]), _SHARP), 1.0))
    elif not one_sided:
        return _made("point", color, candela, matrix)
    return _made("spot", color, candela, matrix, inner, outer)


def _made(kind: str, color: F64, intensity: float, matrix: F64, inner: float = 0.0, outer: float = np.pi / 4
          ) -> Light | None:
    """A light at a matrix' origin, along its -Z; None where that has no direction and the light needs one."""
    axis = -matrix[:3, 2]
    length = float(np.linalg.norm(axis))
    if not math.isfinite(intensity) or (length == 0 and kind in ("directional", "spot")):
        return None
    axis = axis / length if length > 0 else np.array([0.0, 0.0, -1.0])
    (red, green, blue), (x, y, z), (a, b, c) = color.tolist(), matrix[:3, 3].tolist(), axis.tolist()
    return Light(kind, (red, green, blue), intensity, (x, y, z), (a, b, c), 0.0, inner, outer)


def _area(kind: str, sizes: list[float], m: F64) -> float:
    """Of what emits, in the world; of a sphere or cylinder that is stretched, about."""
    radius, width, height, length = sizes[:4]
    x, y, z = (float(np.linalg.norm(m[:, k])) for k in range(3))
    if kind in _ONE_SIDED:
        flat = width * height if kind == "RectLight" else math.pi * radius**2
        return flat * float(np.linalg.norm(np.cross(m[:, 0], m[:, 1])))
    if kind == "CylinderLight":  # along X, without its ends
        return 2 * math.pi * radius * math.sqrt(y * z) * length * x
    return 4 * math.pi * radius**2 * abs(float(np.linalg.det(m))) ** (2 / 3)


def _mean_of(pixels: NDArray[np.uint8]) -> F64:
    """[3] linear mean over the sphere of an image of latitude and longitude, top row up."""
    linear = np.stack([srgb_to_linear(row[:, :3] / 255.0).mean(axis=0, dtype=np.float64) for row in pixels])
    weight = np.sin((np.arange(len(pixels)) + 0.5) / len(pixels) * np.pi)
    mean: F64 = (linear * weight[:, None]).sum(axis=0) / weight.sum()
    return mean
