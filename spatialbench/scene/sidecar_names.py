"""Names of the files beside a world that are looked for: nothing else is ever opened (docs/sidecars.md)."""

from __future__ import annotations

import os

__all__ = ["CAMERAS", "CAPTURE", "COLMAP", "DATAPARSER", "SEMANTICS", "SHARED", "own_names", "side_car_names"]

SEMANTICS = "semantics_metadata.json"
CAMERAS = "cameras.json"
CAPTURE = "transforms.json"
DATAPARSER = "dataparser_transforms.json"
COLMAP = ("sparse/0/images.txt", "sparse/0/cameras.txt")
SHARED = (SEMANTICS, CAMERAS, CAPTURE, DATAPARSER, *COLMAP)
"""Names that do not say which world they are of: they count where one world lies in the folder."""


def own_names(world: str) -> tuple[str, str, str]:
    """``NAME.stage_config.json``, ``NAME.json`` and ``NAME.cameras.json`` of a world's file name."""
    stem = os.path.splitext(world)[0]
    return f"{stem}.stage_config.json", f"{stem}.json", f"{stem}.cameras.json"


def side_car_names(world: str) -> tuple[str, ...]:
    """All names that may be read beside a world's file, relative to its folder, with forward slashes."""
    return tuple(name for name in (*own_names(world), *SHARED) if name != world)
