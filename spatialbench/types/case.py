"""What was asked of a world: the case file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spatialbench.types.strict import load_strict

__all__ = ["CameraAnnotation", "ObjectAnnotation", "SnapshotCase", "SupportAnnotation", "load_case",
           "parse_axis"]

_Coordinate = Annotated[float, Field(ge=-1e12, le=1e12)]
_InImage = Annotated[float, Field(ge=0, le=1)]
Vec3 = Annotated[tuple[_Coordinate, _Coordinate, _Coordinate], Field(description="x, y, z")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CameraAnnotation(_Strict):
    """Initial camera, in the world file's own frame and unit."""

    position: Vec3
    forward: Vec3 | None = None
    """Viewing direction; only its horizontal part is used."""
    look_at: Vec3 | None = None
    """A point instead of a direction."""

    @model_validator(mode="after")
    def _one_direction(self) -> CameraAnnotation:
        if (self.forward is None) == (self.look_at is None):
            raise ValueError("give either 'forward' or 'look_at'")
        return self


class SupportAnnotation(_Strict):
    """A table top or the like, as a polygon in the file's frame or in the input view."""

    label: str = "support"
    polygon: tuple[Vec3, ...] | None = None
    """At least three corners on the surface, in the world file's own frame and unit."""
    image_polygon: tuple[tuple[_InImage, _InImage], ...] | None = None
    """At least three corners in the first view of the origin ring, each in [0,1], y down."""

    @model_validator(mode="after")
    def _one_polygon(self) -> SupportAnnotation:
        if (self.polygon is None) == (self.image_polygon is None):
            raise ValueError("give either 'polygon' or 'image_polygon'")
        if len(self.polygon or self.image_polygon or ()) < 3:
            raise ValueError("a support polygon needs at least three corners")
        return self


class ObjectAnnotation(_Strict):
    """An object that the world was asked to have."""

    id: str
    text: str


class SnapshotCase(_Strict):
    """One world and what it should show. Everything but the id may be left out."""

    kind: Literal["snapshot"] = "snapshot"
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    text: str | None = None
    """Scene description the world was generated from."""
    image: str | None = None
    """Input image, relative to the case file."""
    categories: tuple[str, ...] = ()
    """Object categories that were asked for (M11)."""
    objects: tuple[ObjectAnnotation, ...] = ()
    support: SupportAnnotation | None = None
    camera: CameraAnnotation | None = None
    up: str | Vec3 | None = None
    """``+Y``, ``-Z``... or a vector, in the world file's own frame."""
    unit_m: float | None = Field(None, gt=1e-12, lt=1e12)
    """Metres per unit of the world file."""


def parse_axis(text: str) -> tuple[float, float, float]:
    """Unit vector of ``x``, ``+Y``, ``-z``...

    Raises
    ------
    ValueError : for anything else.

    >>> parse_axis("-Y")
    (0.0, -1.0, 0.0)
    """
    t = text.strip().lower()
    sign = -1.0 if t.startswith("-") else 1.0
    name = t.lstrip("+-")
    if name not in ("x", "y", "z"):
        raise ValueError(f"'{text}' is not an axis; use one of +X -X +Y -Y +Z -Z")
    v = [0.0, 0.0, 0.0]
    v["xyz".index(name)] = sign
    return v[0], v[1], v[2]


def load_case(path: Path) -> SnapshotCase:
    """Read a case file (YAML).

    Raises
    ------
    MissingInputError, ConfigError : with the key, its place and the nearest known one.
    """
    return load_strict(SnapshotCase, path)
