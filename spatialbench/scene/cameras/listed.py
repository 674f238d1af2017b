"""Cameras of a list: a pose each, with what the list says of the lens, and the checks that all list formats share."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import CorruptInputError, UsageError
from spatialbench.types import Camera, Pose

__all__ = ["MAX_CAMERAS", "TODO", "CameraList", "Intrinsics", "ListFormat", "ListedCamera", "check_count", "integer",
           "matrix", "number", "rigid_pose", "text"]

MAX_CAMERAS = 20_000
"""Of one list; more are refused before any is looked at."""
LARGEST = 1e12
"""Of a number in a list."""
RIGID = 1e-3
"""A rotation that is farther from orthonormal is none; one that is nearer is taken for the nearest that is."""
_EXACT = 5e-7
"""Up to here it is kept to the last bit; ``Pose`` allows 1e-6."""
TODO = "Write the cameras again, or leave the file out"
_DIGITS = re.compile(r"(\d+)")
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

ListFormat = Literal["spatialbench", "nerfstudio", "inria", "colmap"]


@dataclass(frozen=True)
class Intrinsics:
    """Pinhole: focal lengths and principal point in pixels, whose first one has its centre at (0.5, 0.5)."""

    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int


@dataclass(frozen=True, eq=False)
class ListedCamera:
    """One camera of a list.

    Attributes
    ----------
    pose : camera to the list's frame, camera axes as OpenCV.
    name : mostly of its picture; may be empty.
    id : the list's number for it, or None.
    intrinsics : None where the list gives none, or those of a lens that is no pinhole.
    fov_x : radians across the width, where that is all that is given.
    """

    pose: Pose
    name: str = ""
    id: int | None = None
    intrinsics: Intrinsics | None = None
    fov_x: float | None = None

    def camera(self, width: int | None = None, height: int | None = None) -> Camera:
        """As a camera of ``width`` by ``height`` pixels; by default the list's own, or as ``width`` would have it.

        A picture of another size shows the same: focal lengths and principal point scale with each side.

        Raises
        ------
        UsageError : the list gives no lens, or no size and none is asked for.
        """
        i = self.intrinsics
        if i is not None:
            w = i.width if width is None else width
            h = (i.height if width is None else max(1, round(i.height * w / i.width))) if height is None else height
            x, y = w / i.width, h / i.height
            return Camera(self.pose, i.fx * x, i.fy * y, i.cx * x, i.cy * y, w, h)
        if self.fov_x is None:
            raise UsageError(f"its camera '{self.name}' has no intrinsics of a pinhole", where="camera list",
                             todo="Give a list with focal lengths")
        if width is None:
            raise UsageError(f"its camera '{self.name}' has a field of view but no size", where="camera list",
                             todo="Give the pictures' width and height")
        return Camera.from_fov(self.pose, math.degrees(self.fov_x), width, height)

    def moved(self, rotation: NDArray[np.float64], translation: NDArray[np.float64], scale: float) -> ListedCamera:
        """In the frame of ``scale * (rotation @ x + translation)``; rotation [3,3], translation [3]."""
        m = np.eye(4)
        m[:3, :3] = rotation @ self.pose.rotation
        m[:3, 3] = scale * (rotation @ self.pose.position + translation)
        return replace(self, pose=rigid_pose(m[:3, :3], m[:3, 3], "a moved camera"))


@dataclass(frozen=True, eq=False)
class CameraList:
    """What a file of cameras holds, in the file's order.

    Attributes
    ----------
    frame : what the poses refer to in the file's words; most formats have none.
    applied : nerfstudio alone: rigid [4,4] and scale that the capture's frame went through before the poses were
        written, ``x = scale * (matrix @ x_capture)``; None where none is stated.
    notes : what was not taken over, in words.
    """

    cameras: tuple[ListedCamera, ...]
    format: ListFormat
    frame: str = ""
    applied: tuple[NDArray[np.float64], float] | None = None
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.cameras)

    def ordered(self) -> tuple[ListedCamera, ...]:
        """By number, else by name with its numbers as numbers, else as in the file."""
        if all(c.id is not None for c in self.cameras):
            return tuple(sorted(self.cameras, key=lambda c: c.id or 0))
        if all(c.name for c in self.cameras):
            return tuple(sorted(self.cameras, key=lambda c: _natural(c.name)))
        return self.cameras


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part[:18]), "") if part.isdecimal() and part.isascii() else (-1, part)
            for part in _DIGITS.split(name) if part]


def check_count(n: int, where: str) -> None:
    """A list of at least one camera and no more than ``MAX_CAMERAS``.

    Raises
    ------
    CorruptInputError
    """
    if not 1 <= n <= MAX_CAMERAS:
        raise CorruptInputError(f"lists {n:,} cameras, 1 to {MAX_CAMERAS:,} are read", where=where, todo=TODO)


def number(value: Any, where: str, *, positive: bool = False) -> float:
    """A finite number of JSON, at most 1e12 large.

    Raises
    ------
    CorruptInputError
    """
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST
    if not fine or (positive and not value > 0):
        shown = repr(value) if isinstance(value, (int, float)) else f"of the kind {type(value).__name__}"
        raise CorruptInputError(f"is {shown[:40]}, not a finite {'positive ' if positive else ''}number", where=where,
                                todo=TODO)
    return float(value)


def integer(value: Any, where: str, least: int = 0) -> int:
    """A whole number of JSON, at least ``least`` and less than 2^31; 3.0 is one.

    Raises
    ------
    CorruptInputError
    """
    n = number(value, where)
    if n != int(n) or not least <= n < 2**31:
        raise CorruptInputError(f"is {n:g}, not a whole number of at least {least}", where=where, todo=TODO)
    return int(n)


def matrix(value: Any, where: str, rows: Sequence[int], columns: int) -> NDArray[np.float64]:
    """[R,columns] float64 of nested lists, R one of ``rows``.

    Raises
    ------
    CorruptInputError
    """
    if not isinstance(value, list) or len(value) not in rows or any(
            not isinstance(r, list) or len(r) != columns for r in value):
        wanted = " or ".join(f"{r} by {columns}" for r in rows)
        raise CorruptInputError(f"is no matrix of {wanted} numbers", where=where, todo=TODO)
    return np.array([[number(v, f"{where}[{i}][{j}]") for j, v in enumerate(r)] for i, r in enumerate(value)])


def text(value: Any, where: str, *, most: int = 1000) -> str:
    """A string of JSON, cut to ``most`` characters; None is empty. What no report could hold (control characters,
    halves of surrogate pairs) becomes a question mark.

    Raises
    ------
    CorruptInputError
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise CorruptInputError(f"is of the kind {type(value).__name__}, not text", where=where, todo=TODO)
    return _UNFIT.sub("?", value[:most])


def rigid_pose(rotation: ArrayLike, position: ArrayLike, where: str) -> Pose:
    """A pose of a rotation [3,3] and a centre [3].

    A rotation that was rounded is replaced by the nearest one (at most 1e-3 off); an exact one stays to the last bit.

    Raises
    ------
    CorruptInputError : it mirrors, scales or shears, or is not finite.
    """
    r, m = np.asarray(rotation, dtype=np.float64), np.eye(4)
    with np.errstate(all="ignore"):
        off = float(np.abs(r.T @ r - np.eye(3)).max())
        right = bool(np.linalg.det(r) > 0) if np.isfinite(r).all() else False
    if not off <= RIGID or not right:
        why = f"off by {off:.2g}" if right else "it mirrors or is singular"
        raise CorruptInputError(f"has a rotation that is not rigid ({why})", where=where, todo=TODO)
    if off > _EXACT:
        u, _, vt = np.linalg.svd(r)
        r = u @ vt
    m[:3, :3], m[:3, 3] = r, position
    try:
        return Pose(m)
    except ValueError as e:
        raise CorruptInputError(f"is no pose ({e})", where=where, todo=TODO) from None
