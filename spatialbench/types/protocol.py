"""A protocol: the metrics of a track and every open choice of its spec, fixed and hashed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, model_validator

from spatialbench.configs import config_names, config_path
from spatialbench.errors import ConfigError, UsageError
from spatialbench.types.judge import JudgeRules
from spatialbench.types.navmesh import NavMeshSettings
from spatialbench.types.placement import PlacementSettings
from spatialbench.types.protocol_rules import (
    ActionPath,
    Agreement,
    CameraFinding,
    Consistency,
    Crop,
    Editing,
    Expansion,
    Footprint,
    Fusion,
    Gates,
    Objects,
    Sampler,
    ScaleRule,
    StrictRules,
    SupportFinding,
    Usability,
    Views,
)
from spatialbench.types.scoring import ScorerRules
from spatialbench.types.strict import read_yaml, validate_strict

__all__ = ["Protocol", "load_protocol", "protocol_hash"]


class Protocol(StrictRules):
    """Everything that fixes a result. ``protocol_hash`` covers all of it."""

    id: str
    version: int
    track: str
    fast: bool = False
    """A cut-down profile for laptops and tests; its results are marked as such."""
    normalization: str = "wmbench-normalization-v1"
    metrics: tuple[str, ...] = Field(min_length=1)
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
    fusion: Fusion = Fusion()
    gates: Gates = Gates()
    editing: Editing = Editing()
    objects: Objects = Objects()
    expansion: Expansion = Expansion()
    agreement: Agreement = Agreement()
    scorers: ScorerRules = ScorerRules()
    judge: JudgeRules = JudgeRules()

    @model_validator(mode="after")
    def _metrics_once(self) -> Protocol:
        twice = sorted({m for m in self.metrics if self.metrics.count(m) > 1})
        if twice:
            raise ValueError(f"'metrics' names {twice[0]} twice")
        return self


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
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise ConfigError(f"the value of '{item}' is not valid YAML: {getattr(error, 'problem', None) or error}",
                              where="--set", todo="Quote it for the shell, and check brackets and quotes") from None
        _assign(data, key.strip().split("."), value)
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
    try:
        found = path.is_file()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        found = False
    if not found:
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
