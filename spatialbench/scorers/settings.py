"""The user's part of the configuration of scorers: where weights lie, which device computes, which workers run."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from spatialbench.errors import UsageError

__all__ = ["DEVICE_VARIABLE", "OFFLINE_VARIABLE", "WEIGHTS_VARIABLE", "WORKERS_VARIABLE", "ScorerSettings",
           "default_weights", "scorer_settings"]

WEIGHTS_VARIABLE = "SPATIALBENCH_WEIGHTS"
DEVICE_VARIABLE = "SPATIALBENCH_DEVICE"
OFFLINE_VARIABLE = "SPATIALBENCH_OFFLINE"
WORKERS_VARIABLE = "SPATIALBENCH_WORKERS"
_DEVICE = re.compile("auto|cpu|mps|cuda(:[0-9]{1,3})?")


@dataclass(frozen=True)
class ScorerSettings:
    """Nothing here changes what is computed, but for rounding on another device.

    Attributes
    ----------
    weights : folder with one folder for each entry of the lock file.
    device : ``cpu``, ``cuda``, ``cuda:1``...; ``auto`` takes CUDA where torch finds it.
    workers : YAML file that names the commands of external workers; None: there are none.
    offline : never ask a network for anything, not even when weights are fetched.
    """

    weights: Path = field(default_factory=lambda: default_weights())
    device: str = "auto"
    workers: Path | None = None
    offline: bool = False


def default_weights() -> Path:
    """``SPATIALBENCH_WEIGHTS``, else ``spatialbench/weights`` in the user's data folder."""
    told = os.environ.get(WEIGHTS_VARIABLE)
    if told:
        return Path(told)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home(), "spatialbench", "weights")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "spatialbench" / "weights"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share", "spatialbench", "weights")


def scorer_settings(weights: Path | None = None, device: str | None = None, workers: Path | None = None,
                    offline: bool | None = None) -> ScorerSettings:
    """What is given, else what the environment says.

    Raises
    ------
    UsageError : a device that is none.
    """
    chosen = device or os.environ.get(DEVICE_VARIABLE) or "auto"
    if not _DEVICE.fullmatch(chosen):
        raise UsageError(f"'{chosen:.60}' is no device", where="--device" if device else DEVICE_VARIABLE,
                         todo="Use cpu, cuda, cuda:0... or auto")
    named = os.environ.get(WORKERS_VARIABLE)
    if offline is None:
        offline = any(os.environ.get(v, "").lower() in ("1", "true", "yes", "on")
                      for v in (OFFLINE_VARIABLE, "HF_HUB_OFFLINE"))
    return ScorerSettings(weights or default_weights(), chosen, workers or (Path(named) if named else None), offline)
