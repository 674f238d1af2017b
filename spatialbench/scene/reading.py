"""What a user can ask of reading a world; the fields are the arguments of ``load_scene``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

__all__ = ["ReadOptions"]


@dataclass(frozen=True)
class ReadOptions:
    """Attributes are as for :func:`spatialbench.scene.load_scene`.

    Attributes
    ----------
    max_splats : of larger worlds only so many splats are read; None for all.
    side_cars : files about the world's frame; empty to look for them beside it.
    drop_outliers : leave out what lies far from the rest or floats alone.
    """

    max_splats: int | None = None
    side_cars: tuple[Path, ...] = ()
    drop_outliers: bool = False

    def as_arguments(self) -> dict[str, Any]:
        """For ``load_scene``."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
