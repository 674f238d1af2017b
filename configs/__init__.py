"""Configuration as data: protocols, normalisation constants, sample cases. No code but finding them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["config_names", "config_path"]

_HERE = Path(__file__).resolve().parent


def config_path(kind: str, name: str) -> Path:
    """Path of the packaged file ``<kind>/<name>.yaml`` (it may not exist)."""
    return _HERE / kind / f"{name}.yaml"


def config_names(kind: str) -> list[str]:
    """Names of the packaged files of one kind, sorted."""
    return sorted(p.stem for p in (_HERE / kind).glob("*.yaml"))
