"""What a user can ask of reading a world; the fields are the arguments of ``load_scene``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from spatialbench.types.case import WORLD_CASES, Case, side_cars_of

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

    def with_case(self, case: Case | None, file: Path | None = None) -> ReadOptions:
        """What the user asks, filled up by what a case does; ``file`` is where it was read from, and what its side-cars
        are relative to (without it they are left out).

        Raises
        ------
        ConfigError : a side-car leads out of the case's folder.
        """
        if not isinstance(case, WORLD_CASES):
            return self
        found = () if file is None or self.side_cars else side_cars_of(case, file.parent, file.parent, str(file))
        return ReadOptions(case.max_splats if self.max_splats is None else self.max_splats, self.side_cars or found,
                           self.drop_outliers or case.drop_outliers)
