"""What the kinds of cases are made of."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from spatialbench.errors import ConfigError

__all__ = ["CameraAnnotation", "Id", "ImagePolygon", "RelativePath", "Strict", "SupportAnnotation", "Vec3",
           "check_relative", "listed_once", "parse_axis", "resolve_reference"]

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_relative(text: str) -> str:
    """The text, if it can be a path relative to something; raises ValueError that says why not."""
    if not text.strip() or _CONTROL.search(text):
        raise ValueError("is no file name")
    if text.startswith(("/", "~")) or _SCHEME.match(text):
        raise ValueError("is an absolute or network address; write a path relative to this file")
    if "\\" in text:
        raise ValueError("holds a backslash; separate folders by '/'")
    return text


_Coordinate = Annotated[float, Field(ge=-1e12, le=1e12)]
_InImage = Annotated[float, Field(ge=0, le=1)]
Vec3 = Annotated[tuple[_Coordinate, _Coordinate, _Coordinate], Field(description="x, y, z")]
ImagePolygon = Annotated[tuple[tuple[_InImage, _InImage], ...], Field(description="list of x, y")]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128, description="id")]
"""Letters, digits, dot, dash and underscore: it names files and rows."""
RelativePath = Annotated[str, AfterValidator(check_relative), Field(description="path")]
"""Relative to the file it is written in; never absolute."""


class Strict(BaseModel):
    """An unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CameraAnnotation(Strict):
    """Initial camera, in the world file's own frame and unit."""

    position: Vec3
    """Where the eye is."""
    forward: Vec3 | None = None
    """Viewing direction; only its horizontal part is used."""
    look_at: Vec3 | None = None
    """A point instead of a direction."""

    @model_validator(mode="after")
    def _one_direction(self) -> CameraAnnotation:
        if (self.forward is None) == (self.look_at is None):
            raise ValueError("give either 'forward' or 'look_at'")
        return self


class SupportAnnotation(Strict):
    """A table top or the like, as a polygon in the file's frame or in the input view."""

    label: str = "support"
    """What it is called in the result."""
    polygon: tuple[Vec3, ...] | None = None
    """At least three corners on the surface, in the world file's own frame and unit."""
    image_polygon: ImagePolygon | None = None
    """At least three corners in the first view of the origin ring, each in [0,1], y down."""

    @model_validator(mode="after")
    def _one_polygon(self) -> SupportAnnotation:
        if (self.polygon is None) == (self.image_polygon is None):
            raise ValueError("give either 'polygon' or 'image_polygon'")
        if len(self.polygon or self.image_polygon or ()) < 3:
            raise ValueError("a support polygon needs at least three corners")
        return self


def listed_once(what: str, ids: list[str]) -> None:
    """Raises ValueError when an id is there twice."""
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise ValueError(f"'{what}' has the id '{twice[0]}' twice")


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


def resolve_reference(reference: str, folder: Path, root: Path, where: str) -> Path:
    """``folder / reference``, checked to lie in ``root``, as written and with its links followed.

    It need not be there.

    Parameters
    ----------
    reference : a :data:`RelativePath`.
    folder : that it is relative to; in ``root``.
    where : file and key, for the message.

    Raises
    ------
    ConfigError : it leads out of ``root``.
    """
    path = Path(posixpath.normpath((folder.absolute() / reference).as_posix()))
    try:
        inside = (path.is_relative_to(posixpath.normpath(root.absolute().as_posix()))
                  and path.resolve().is_relative_to(root.resolve()))
    except (OSError, ValueError, RuntimeError):  # a name too long, links in a circle
        inside = False
    if not inside:
        raise ConfigError(f"'{reference:.100}' leads out of the folder '{root}'", where=where,
                          todo="Put the file into that folder")
    return path
