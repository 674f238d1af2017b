"""Camera lists as spatialbench writes them: exact, with the frame in words."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from spatialbench.errors import CorruptInputError, UsageError
from spatialbench.scene.cameras.listed import (
    TODO,
    CameraList,
    Intrinsics,
    ListedCamera,
    check_count,
    integer,
    matrix,
    number,
    rigid_pose,
    text,
)

__all__ = ["SOURCE_FRAME", "WORLD_FRAME", "parse_own", "write_own"]

WORLD_FRAME = "world: X right, Y forward, Z up, metres"
"""Poses after anchoring."""
SOURCE_FRAME = "source: axes and unit of the world's file"
"""Poses as a side-car gives them."""
_AXES = "camera to world; camera axes x right, y down, z forward"


def parse_own(data: Any, where: str) -> CameraList:
    """``{"frame": words, "cameras": [{"matrix": 4 by 4, "fx", "fy", "cx", "cy", "width", "height", "name"}]}``.

    Raises
    ------
    CorruptInputError : a field that is missing or wrong, by name.
    """
    entries = data.get("cameras") if isinstance(data, dict) else None
    if not isinstance(entries, list) or not isinstance(data.get("frame"), str):
        raise CorruptInputError("has no 'frame' in words and list of 'cameras'", where=where, todo=TODO)
    check_count(len(entries), where)
    return CameraList(tuple(_camera(c, f"{where}, cameras[{k}]") for k, c in enumerate(entries)), "spatialbench",
                      frame=text(data["frame"], f"{where}, frame"))


def _camera(c: Any, where: str) -> ListedCamera:
    if not isinstance(c, dict):
        raise CorruptInputError("is no JSON object", where=where, todo=TODO)
    m = matrix(c.get("matrix"), f"{where}.matrix", (4,), 4)
    if np.abs(m[3] - [0, 0, 0, 1]).max() > 1e-6:
        raise CorruptInputError("has a last row other than 0 0 0 1", where=f"{where}.matrix", todo=TODO)
    fx, fy = (number(c.get(k), f"{where}.{k}", positive=True) for k in ("fx", "fy"))
    cx, cy = (number(c.get(k), f"{where}.{k}") for k in ("cx", "cy"))
    width, height = (integer(c.get(k), f"{where}.{k}", 1) for k in ("width", "height"))
    id = c.get("id")
    return ListedCamera(rigid_pose(m[:3, :3], m[:3, 3], f"{where}.matrix"), text(c.get("name"), f"{where}.name"),
                        None if id is None else integer(id, f"{where}.id"),
                        Intrinsics(fx, fy, cx, cy, width, height))


def write_own(cameras: CameraList) -> str:
    """JSON that ``parse_own`` reads back to the last bit. A list without a frame is said to be in the world's file's.

    Raises
    ------
    UsageError : a camera without intrinsics.
    """
    out = []
    for c in cameras.cameras:
        i = c.intrinsics
        if i is None:
            raise UsageError(f"camera '{c.name}' has no intrinsics", where="camera list",
                             todo="Give each camera focal lengths and a size")
        out.append({"matrix": c.pose.matrix.tolist(), "fx": i.fx, "fy": i.fy, "cx": i.cx, "cy": i.cy,
                    "width": i.width, "height": i.height, **({"name": c.name} if c.name else {}),
                    **({} if c.id is None else {"id": c.id})})
    return json.dumps({"frame": cameras.frame or SOURCE_FRAME, "pose": _AXES, "cameras": out}, indent=1) + "\n"
