"""A protocol: the metrics of a track and every open choice of its spec, fixed and hashed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from spatialbench.configs import config_names, config_path
from spatialbench.errors import ConfigError, UsageError
from spatialbench.types.navmesh import NavMeshSettings
from spatialbench.types.placement import PlacementSettings
from spatialbench.types.strict import read_yaml, validate_strict

__all__ = ["Protocol", "load_protocol", "protocol_hash"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Lens(_Strict):
    """Image size and field of view (across the width) of a square-pixel camera."""

    width: int = Field(gt=0)
    height: int = Field(gt=0)
    fov_deg: float = Field(gt=0, lt=180)


class Views(_Strict):
    """OPEN-6, OPEN-12c."""

    ring_frames: int = Field(36, ge=1)
    lens: Lens = Lens(width=768, height=768, fov_deg=75.0)
    probe_size: int = Field(256, ge=8)
    supersample: int = Field(2, ge=1, le=4)
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    shading: Literal["auto", "unlit", "normal"] = "auto"


class ScaleRule(_Strict):
    """Spec section 3; OPEN-1."""

    camera_height: float = 1.6
    ray_tilt: float = 0.1
    min_distance: float = 1e-6
    min_hits: int = Field(1, ge=1, le=9)
    warn_below_hits: int = 5
    fallback_depth: float = 5.0
    fallback_percentile: float = 90.0
    assumed_ground_z: float = -1.6


class Crop(_Strict):
    """Heights kept for navigation, relative to the ground, m."""

    below_ground: float = 2.0
    above_ground: float = 10.0


class Footprint(_Strict):
    """Spec section 4.2."""

    cell: float = Field(0.05, gt=0)
    samples_per_cell: float = 16.0
    min_samples: int = 1_000
    max_samples: int = 20_000_000
    seed: int = 0


class Segment(_Strict):
    """A key held for some seconds."""

    keys: str = Field(pattern="^[WASD]{1,2}$")
    seconds: float = Field(gt=0)


class ActionPath(_Strict):
    """OPEN-12."""

    segments: tuple[Segment, ...] = ()
    speed: float = 1.0
    samples_per_second: float = 4.0


class Usability(_Strict):
    """Constants of M12 (spec section 8)."""

    hole_alpha: float = 0.5
    hole_margin: float = 0.10
    hole_cap: float = 0.5
    min_depth: float = 1e-6
    clearance: float = 0.10
    max_close_share: float = 0.5


class Sampler(_Strict):
    """The eight-location sampler (spec section 8; OPEN-14 to 16)."""

    radius_factors: tuple[float, ...] = (1.5, 1.0, 0.6, 0.3)
    quota: int = 2
    bearings: int = 8
    ring_views: int = 8


class Consistency(_Strict):
    """M13 and M14."""

    gain: float = 15.0
    eps: float = 1e-8
    gray_edges: tuple[int, ...] = (0, 64, 192, 256)
    hue_edges: tuple[int, ...] = (0, 16, 31, 61, 91, 121, 151, 180)


class SupportFinding(_Strict):
    """real-worlds.md section 5d; OPEN-11a."""

    band: tuple[float, float] = (0.35, 1.25)
    max_tilt_deg: float = 15.0
    headroom: float = 0.15
    peak_width: float = 0.04
    min_area: float = 0.04
    grid: float = 0.02
    plane_distance: float = 0.05


class CameraFinding(_Strict):
    """real-worlds.md section 5a to 5c."""

    seed: int = 0
    surfels_per_m2: float = 800.0
    min_surfels: int = 200_000
    max_surfels: int = 1_500_000
    voxel: float = 0.1
    max_voxels: float = 20e6
    eye_height: float = 1.6
    agent_height: float = 1.5
    reach: float = 25.0
    enclosure_keep: float = 0.7
    clearance_cap: float = 2.4
    warn_ratio: float = 2.0


class Gates(_Strict):
    """real-worlds.md section 7."""

    min_level_depth: float = 0.3
    level_depth_percentile: float = 10.0
    min_ray_hits: int = 5
    min_scale: float = 1 / 3
    max_scale: float = 3.0
    max_splat_sigma: float = 0.10
    min_enclosure: float = 0.35


class Protocol(_Strict):
    """Everything that fixes a result. ``protocol_hash`` covers all of it."""

    id: str
    version: int
    track: str
    fast: bool = False
    """A cut-down profile for laptops and tests; its results are marked as such."""
    normalization: str = "wmbench-normalization-v1"
    metrics: tuple[str, ...]
    views: Views = Views()
    scale: ScaleRule = ScaleRule()
    crop: Crop = Crop()
    footprint: Footprint = Footprint()
    navmesh: NavMeshSettings = NavMeshSettings()
    placement: PlacementSettings = PlacementSettings()
    path: ActionPath = ActionPath()
    usability: Usability = Usability()
    sampler: Sampler = Sampler()
    consistency: Consistency = Consistency()
    supports: SupportFinding = SupportFinding()
    finding: CameraFinding = CameraFinding()
    gates: Gates = Gates()


def load_protocol(name: str, overrides: tuple[str, ...] = ()) -> Protocol:
    """A packaged protocol by name, or one from a YAML file; ``overrides`` are ``path.to.key=value``.

    A file may say ``extends: NAME`` and give only what differs.

    Raises
    ------
    UsageError : no such protocol.
    ConfigError : an unknown key (the nearest one is named) or a wrong value.
    """
    data, where = _resolve(name, ())
    for item in overrides:
        key, sep, text = item.partition("=")
        if not sep or not key:
            raise UsageError(f"'{item}' is not of the form path.to.key=value", where="--set",
                             todo="Write for example --set views.ring_frames=18")
        _assign(data, key.strip().split("."), yaml.safe_load(text))
        where = f"{name} with --set {item}"
    return validate_strict(Protocol, data, where)


def protocol_hash(protocol: Protocol) -> str:
    """SHA-256 over the resolved protocol's canonical JSON."""
    text = json.dumps(protocol.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _resolve(name: str, seen: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    if name in seen:
        raise ConfigError(f"protocol '{name}' extends itself", where=" -> ".join(seen),
                          todo="Remove one 'extends'")
    path = config_path("protocols", name) if "/" not in name and not name.endswith((".yaml", ".yml")) \
        else Path(name)
    if not path.is_file():
        raise UsageError(f"no protocol '{name}'", where="--protocol",
                         todo=f"Known: {', '.join(config_names('protocols'))}; or give a YAML file")
    data = read_yaml(path)
    base = data.pop("extends", None)
    if base is None:
        return data, str(path.name)
    merged, _ = _resolve(str(base), (*seen, name))
    _merge(merged, data)
    return merged, str(path.name)


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for k, v in new.items():
        if isinstance(v, dict) and isinstance(into.get(k), dict):
            _merge(into[k], v)
        else:
            into[k] = v


def _assign(data: dict[str, Any], keys: list[str], value: Any) -> None:
    for k in keys[:-1]:
        data = data.setdefault(k, {})
        if not isinstance(data, dict):
            raise ConfigError(f"'{k}' is a value and has no keys below it", where="--set",
                              todo="Shorten the path")
    data[keys[-1]] = value
