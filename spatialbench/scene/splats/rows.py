"""What both PLY layouts of splats share: rows of fixed size, columns of harmonics, comments."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.folder import FileBytes
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.ply_header import PlyElement, PlyHeader
from spatialbench.scene.splats.raw import SH_REST, RawSplats
from spatialbench.types import Pose

__all__ = ["fixed_rows", "frame_comments", "is_antialiased", "note_comments", "read_frame",
           "rest_columns"]

_RENDER_MODE = re.compile(r"\bSplatRenderMode\s*[:=]?\s*(\w+)", re.IGNORECASE)
_ANTIALIASED = re.compile(r"^\s*anti-?aliased\b\s*[:=]?\s*(\w*)", re.IGNORECASE)
_FRAME = re.compile(r"^spatialbench (up|metres_per_unit|camera) ([-+0-9.eE ]+)$")
_NO = {"0", "false", "no", "off", "none"}


def fixed_rows(data: FileBytes, header: PlyHeader, name: str, log: ReadLog, where: str) -> NDArray | None:
    """The rows of an element as a record array (fields ``v0``, ``v1``, ...) over the file's own bytes.

    None when a list stands in this or an earlier element, so that the rows' place is unknown.

    Raises
    ------
    CorruptInputError : the file has fewer bytes than the header announces; nothing was allocated.
    """
    position = header.body
    for element in header.elements:
        if any(p.count_type for p in element.properties):
            return None
        if element.name == name:
            return _rows(data, position, header, element, log, where)
        position += element.count * element.least_row
    return None


def _rows(data: FileBytes, position: int, header: PlyHeader, element: PlyElement, log: ReadLog, where: str) -> NDArray:
    kind = np.dtype([(f"v{i}", header.order + p.type) for i, p in enumerate(element.properties)])
    need, have = element.count * kind.itemsize, max(len(data) - position, 0)
    if need > have:
        raise CorruptInputError(f"is cut off: the header announces {plural(element.count, 'row')} of "
                                f"'{element.name}', which take {need:,} bytes, the file has {have:,} left",
                                where=f"{where}, byte {min(position, len(data))}",
                                todo="Download or export it again")
    if element is header.elements[-1] and need < have:
        log.warn(f"{have - need:,} bytes after the last row are ignored")
    return np.frombuffer(data, kind, element.count, position)


def rest_columns(names: Sequence[str], where: str, stem: str = "f_rest_") -> list[str]:
    """The columns ``f_rest_*`` in the order [K,3]; in the file all of red comes first, then green, then blue.

    ``stem`` is what they are called in the file.

    Raises
    ------
    CorruptInputError : a number of them that is no degree from 0 to 4, one twice, or one missing.
    """
    rest = re.compile(re.escape(stem) + "([0-9]{1,6})$")
    numbers = [int(m[1]) for m in map(rest.match, names) if m]
    n = len(numbers)
    twice = sorted({i for i in numbers if numbers.count(i) > 1}) if n <= 1000 else []
    if twice:
        raise CorruptInputError(f"declares the property {stem}{twice[0]} twice", where=where, todo="Export it again")
    if n % 3 or n // 3 not in SH_REST.values():
        raise CorruptInputError(f"its splats have {plural(n, 'column')} {stem.rstrip('_')}, which is no whole degree "
                                "of spherical harmonics (0, 9, 24, 45 or 72)", where=where, todo="Export it again")
    k = n // 3
    columns = [f"{stem}{c * k + i}" for i in range(k) for c in range(3)]
    missing = sorted(set(columns) - set(names))
    if missing:
        raise CorruptInputError(f"its splats have no property {missing[0]}", where=where, todo="Export it again")
    return columns


def is_antialiased(header: PlyHeader) -> bool:
    """A comment says so: Brush's ``SplatRenderMode: mip``, or ``antialiased`` (with 1, true or nothing)."""
    for comment in header.comments:
        mode, flag = _RENDER_MODE.search(comment), _ANTIALIASED.match(comment)
        if (mode and mode[1].lower() == "mip") or (flag and flag[1].lower() not in _NO):
            return True
    return False


def note_comments(header: PlyHeader, log: ReadLog) -> None:
    """Keep the first comments for the report: exporters put conventions there."""
    comments = [c[:200] for c in header.comments if c]
    if comments:
        log.details["comments"] = comments[:20]


def frame_comments(up: NDArray[np.float64], unit_m: float | None, camera: Pose | None) -> list[str]:
    """Header lines that state the up axis, metres per unit and the initial camera; see ``read_frame``."""
    lines = [("up", up.ravel())]
    lines += [] if unit_m is None else [("metres_per_unit", np.array([unit_m]))]
    lines += [] if camera is None else [("camera", camera.matrix.ravel())]
    return [" ".join(["spatialbench", key, *(repr(float(v)) for v in values)]) for key, values in lines]


def read_frame(header: PlyHeader, raw: RawSplats, log: ReadLog) -> None:
    """Note in ``raw`` what comments state of the frame: ``spatialbench up x y z``, ``spatialbench metres_per_unit m``,
    ``spatialbench camera`` and the 16 numbers of a camera-to-world matrix by rows (axes as OpenCV).
    """
    for comment in header.comments:
        m = _FRAME.match(comment)
        if m is None:
            continue
        try:
            values = np.array([float(v) for v in m[2].split()])
            if m[1] == "camera":
                raw.cameras = (*raw.cameras, Pose(values.reshape(4, 4)))
            elif m[1] == "up" and values.shape == (3,) and 1e-6 < np.linalg.norm(values) < 1e6:
                raw.up = values / np.linalg.norm(values)
            elif m[1] == "metres_per_unit" and values.shape == (1,) and 1e-6 < values[0] < 1e6:
                raw.unit_m = float(values[0])
            else:
                raise ValueError(m[1])
        except ValueError:
            log.warn(f"the comment 'spatialbench {m[1]}' cannot be read; ignored")
