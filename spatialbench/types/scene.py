"""A world as it was exported: geometry in the file's own frame, and a report of what was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from spatialbench.types.camera import Pose
from spatialbench.types.mesh import TriangleMesh
from spatialbench.types.splats import GaussianSplats

__all__ = ["Decision", "ImportReport", "InputFile", "Repair", "Scene", "SideCar", "Source"]

Source = Literal["user", "case", "file", "side-car", "profile", "prior", "origin", "found", "rule", "none"]
"""Who decided, strongest first; ``rule`` is the protocol's own, ``none`` means undecided."""


class Decision(BaseModel):
    """One choice about the frame, with where it came from."""

    model_config = ConfigDict(extra="forbid")

    value: Any = None
    source: Source
    confidence: float = Field(1.0, ge=0.0, le=1.0)
    note: str = ""


class InputFile(BaseModel):
    """A file that was read."""

    name: str
    """Path relative to the world's folder; never absolute."""
    bytes: int
    sha256: str


class Repair(BaseModel):
    """Something that was mended on reading."""

    name: str
    """e.g. ``faces_degenerate``, ``vertices_unreferenced``."""
    count: int
    note: str = ""


class ImportReport(BaseModel):
    """Everything the importer saw and decided; written to ``import.json``."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["mesh", "splats", "points", "both"]
    format: str
    files: list[InputFile] = Field(default_factory=list)
    n_vertices: int = 0
    n_faces: int = 0
    n_splats: int = 0
    sh_degree: int | None = None
    n_materials: int = 0
    n_textures: int = 0
    has_color: bool = False
    """Textures, vertex colours or distinct material colours."""
    brings_lights: bool = False
    bounds: list[list[float]] = Field(default_factory=list)
    """[2][3], source frame and unit."""
    decisions: dict[str, Decision] = Field(default_factory=dict)
    """``frame``, ``up``, ``unit``, ``camera``, ``scale``, ``opacity``; ``collider`` where one was turned to fit."""
    repairs: list[Repair] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    details: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SideCar:
    """What the file, or a file beside it, says about the frame; None where it says nothing.

    Attributes
    ----------
    up : unit vector [3] in the source frame, with ``up_source`` ``file`` or ``side-car``.
    unit_m : metres per source unit, with ``unit_source``.
    cameras : poses in the source frame (camera axes as OpenCV), first one first.
    camera_names : of their pictures; as many as cameras, or none.
    ground_m : where the floor lies along ``ground_axis`` from the origin, metres by ``unit_m`` of the side-car.
    ground_axis : unit vector [3] in the source frame; None without ``ground_m``.
    notes : what else it says, in words.
    """

    up: NDArray[np.float64] | None = None
    up_source: Source = "none"
    unit_m: float | None = None
    unit_source: Source = "none"
    cameras: tuple[Pose, ...] = ()
    cameras_source: Source = "none"
    camera_names: tuple[str, ...] = ()
    ground_m: float | None = None
    ground_axis: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Scene:
    """One world in its source frame; never empty.

    Attributes
    ----------
    path : file that was given.
    mesh : the surface, scene graph flattened; None for a world of splats alone.
    prior_up : up axis [3] that the format's convention gives.
    prior_unit_m : metres per unit that the format's convention gives, or None.
    side : what the file or a side-car says.
    splats : the Gaussians, source frame; None for a world of a mesh alone.
    report : import report, to be completed by anchoring.
    """

    path: Path
    mesh: TriangleMesh | None
    prior_up: NDArray[np.float64]
    prior_unit_m: float | None
    report: ImportReport
    side: SideCar = field(default_factory=SideCar)
    splats: GaussianSplats | None = None
