"""What the readers hand on: raw triangles, and a running account of what was read, mended and noticed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Decision, InputFile, Light, Material, Pose, Repair

if TYPE_CHECKING:
    from spatialbench.scene.splats.raw import RawSplats

__all__ = ["MAX_FACES", "MAX_VERTICES", "ReadLog", "Soup", "plural", "warn_folded"]

MAX_FACES = 50_000_000
"""Triangles that one world may place; more are refused before memory is taken for them."""
MAX_VERTICES = 3 * MAX_FACES
_MAX_WARNINGS = 100


def plural(count: int, noun: str) -> str:
    """``1 face``, ``2,000 faces``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


@dataclass
class ReadLog:
    """Account of one import; it becomes the :class:`ImportReport`."""

    format: str = ""
    files: list[InputFile] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    repairs: dict[str, Repair] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    brings_lights: bool = False
    n_textures: int = 0

    def warn(self, text: str) -> None:
        """Note something that did not stop the import; said once, and at most a hundred of them."""
        if text in self.warnings:
            return
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(text)
        else:
            self.details["warnings_left_out"] = self.details.get("warnings_left_out", 0) + 1

    def repair(self, name: str, count: int, note: str = "") -> None:
        """Add ``count`` to a repair; nothing happens when it is 0."""
        if count:
            before = self.repairs[name].count if name in self.repairs else 0
            self.repairs[name] = Repair(name=name, count=before + int(count), note=note)


@dataclass
class Soup:
    """Triangles as a reader leaves them: indices in range, nothing removed or judged yet.

    Attributes
    ----------
    vertices : [V,3] float64, source frame; may hold NaN.
    faces : [F,3] int32 in range.
    material_ids : [F] int32 into ``materials``.
    uv : [F,3,2] float32, v down, or None.
    colors : [F,3,4] float32 linear RGBA, or None.
    cameras : poses that the file brings.
    lights : that the file brings, source frame.
    up : unit vector [3] that the file states, or None.
    unit_m : metres per unit that the file states, or None.
    splats : Gaussians beside the triangles, of which there may then be none.
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    material_ids: NDArray[np.int32]
    materials: list[Material]
    uv: NDArray[np.float32] | None = None
    colors: NDArray[np.float32] | None = None
    cameras: tuple[Pose, ...] = ()
    lights: tuple[Light, ...] = ()
    up: NDArray[np.float64] | None = None
    unit_m: float | None = None
    splats: RawSplats | None = None


def warn_folded(n_polygons: int, log: ReadLog) -> None:
    """Say that concave polygons were cut as fans."""
    if n_polygons:
        log.warn(f"{plural(n_polygons, 'concave polygon')} cut as a fan around the first corner, which covers more "
                 "than the polygon; triangulate on export")
