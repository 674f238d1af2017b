"""Files with lists of cameras: told by their content, read and written whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from spatialbench.errors import CorruptInputError, MissingInputError, UnsupportedFormatError, UsageError
from spatialbench.scene.cameras.colmap import parse_colmap, write_colmap
from spatialbench.scene.cameras.inria import parse_inria, write_inria
from spatialbench.scene.cameras.listed import CameraList, ListFormat
from spatialbench.scene.cameras.nerfstudio import parse_nerfstudio, write_nerfstudio
from spatialbench.scene.cameras.own import parse_own, write_own

__all__ = ["LIST_FORMATS", "MAX_JSON", "MAX_TEXT", "parse_camera_json", "parse_json", "read_cameras", "recognise",
           "write_cameras"]

MAX_JSON = 32 << 20
"""Bytes of a JSON file that is looked at."""
MAX_TEXT = 256 << 20
"""Bytes of ``images.txt``, most of which are 2D points."""
LIST_FORMATS: tuple[ListFormat, ...] = ("spatialbench", "nerfstudio", "inria", "colmap")
_TODO = "Give a camera list of spatialbench, nerfstudio (transforms.json), 3DGS (cameras.json) or COLMAP (images.txt)"


def parse_json(data: bytes, where: str) -> Any:
    """The value of JSON text in UTF-8; NaN and infinities stay for the checks of each field to name.

    Raises
    ------
    CorruptInputError
    """
    try:
        return json.loads(bytes(data).decode("utf-8-sig"))
    except (ValueError, RecursionError) as e:
        raise CorruptInputError(f"is no JSON ({str(e)[:100]})", where=where, todo="Write it again") from None


def recognise(value: Any) -> ListFormat | None:
    """Which list of cameras a JSON value is, by its fields; None for anything else."""
    if isinstance(value, list):
        first = value[0] if value else None
        return "inria" if isinstance(first, dict) and {"position", "rotation"} <= set(first) else None
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("frames"), list):
        return "nerfstudio"
    return "spatialbench" if isinstance(value.get("cameras"), list) and "frame" in value else None


def parse_camera_json(value: Any, where: str) -> CameraList:
    """A list of cameras from the value of a JSON file.

    Raises
    ------
    UnsupportedFormatError : it is none. CorruptInputError : a field that is missing or wrong, by name.
    """
    kind = recognise(value)
    if kind == "inria":
        return parse_inria(value, where)
    if kind == "nerfstudio":
        return parse_nerfstudio(value, where)
    if kind == "spatialbench":
        return parse_own(value, where)
    raise UnsupportedFormatError("is JSON, but no list of cameras", where=where, todo=_TODO)


def read_cameras(path: Path) -> CameraList:
    """Read a JSON list, or COLMAP's text model: its ``images.txt``, beside which ``cameras.txt`` lies, or their folder.

    Poses come out camera to world with axes as OpenCV, in the list's own frame and order.

    Raises
    ------
    MissingInputError, UnsupportedFormatError, CorruptInputError
    """
    path = Path(path)
    if path.is_dir() or path.name in ("images.txt", "cameras.txt"):
        folder = path if path.is_dir() else path.parent
        if path.is_dir() and not (path / "images.txt").is_file() and (path / "images.bin").is_file():
            raise UnsupportedFormatError("is a binary model of COLMAP", where=str(path),
                                         todo="Write it as text: colmap model_converter --output_type TXT")
        lenses = folder / "cameras.txt"
        return parse_colmap(_read(folder / "images.txt", MAX_TEXT),
                            _read(lenses, MAX_JSON) if lenses.is_file() else None, f"{folder}{os.sep}")
    return parse_camera_json(parse_json(_read(path, MAX_JSON), str(path)), str(path))


def _read(path: Path, most: int) -> bytes:
    try:
        if not path.is_file():
            raise MissingInputError("no such file", where=str(path), todo="Check the path")
        size = path.stat().st_size
        if size > most:
            raise CorruptInputError(f"has {size:,} bytes, at most {most:,} are read", where=str(path), todo=_TODO)
        return path.read_bytes()
    except (OSError, ValueError) as e:
        raise MissingInputError(f"cannot be read ({e})", where=str(path), todo="Check the path") from None


def write_cameras(cameras: CameraList, path: Path, format: ListFormat | None = None) -> None:
    """Write a list; ``path`` is a JSON file, or for COLMAP a folder that exists. By default the list's own format.

    Raises
    ------
    UsageError : the format cannot hold the list.
    OSError
    """
    kind = format or cameras.format
    if kind == "colmap":
        lenses, images = write_colmap(cameras)
        (path / "cameras.txt").write_text(lenses, encoding="utf-8", newline="\n")
        (path / "images.txt").write_text(images, encoding="utf-8", newline="\n")
        return
    writers = {"spatialbench": write_own, "nerfstudio": write_nerfstudio, "inria": write_inria}
    if kind not in writers:
        raise UsageError(f"no format of camera lists '{kind}'", where="camera list",
                         todo=f"Known: {', '.join(LIST_FORMATS)}")
    path.write_text(writers[kind](cameras), encoding="utf-8", newline="\n")
