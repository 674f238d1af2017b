"""``cameras.json`` as the trainer of 3D Gaussian splatting leaves it beside its result."""

from __future__ import annotations

import json
from typing import Any

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

__all__ = ["parse_inria", "write_inria"]


def parse_inria(data: Any, where: str) -> CameraList:
    """A list of ``id``, ``img_name``, ``width``, ``height``, ``position`` [3], ``rotation`` [3][3], ``fx``, ``fy``.

    Position and rotation are camera to world, the rotation by rows: its columns are the camera's right, down and
    forward in the frame of the splats. The principal point is the picture's middle.

    Raises
    ------
    CorruptInputError : a field that is missing or wrong, by name.
    """
    if not isinstance(data, list):
        raise CorruptInputError("is no JSON list of cameras", where=where, todo=TODO)
    check_count(len(data), where)
    return CameraList(tuple(_camera(c, f"{where}, [{k}]") for k, c in enumerate(data)), "inria")


def _camera(c: Any, where: str) -> ListedCamera:
    if not isinstance(c, dict):
        raise CorruptInputError("is no JSON object", where=where, todo=TODO)
    position = matrix([c.get("position")], f"{where}.position", (1,), 3)[0]
    rotation = matrix(c.get("rotation"), f"{where}.rotation", (3,), 3)
    width, height = (integer(c.get(k), f"{where}.{k}", 1) for k in ("width", "height"))
    fx, fy = (number(c.get(k), f"{where}.{k}", positive=True) for k in ("fx", "fy"))
    id = c.get("id")
    return ListedCamera(rigid_pose(rotation, position, f"{where}.rotation"),
                        text(c.get("img_name"), f"{where}.img_name"),
                        None if id is None else integer(id, f"{where}.id"),
                        Intrinsics(fx, fy, width / 2, height / 2, width, height))


def write_inria(cameras: CameraList) -> str:
    """JSON that ``parse_inria`` reads back to the last bit.

    Raises
    ------
    UsageError : a camera without intrinsics, or whose principal point is not the picture's middle.
    """
    out = []
    for k, c in enumerate(cameras.cameras):
        i = c.intrinsics
        if i is None or (i.cx, i.cy) != (i.width / 2, i.height / 2):
            why = "has no intrinsics" if i is None else "has its principal point beside the picture's middle"
            raise UsageError(f"camera '{c.name}' {why}, which cameras.json cannot hold", where="camera list",
                             todo="Write another format")
        out.append({"id": k if c.id is None else c.id, "img_name": c.name, "width": i.width, "height": i.height,
                    "position": c.pose.position.tolist(), "rotation": c.pose.rotation.tolist(), "fy": i.fy,
                    "fx": i.fx})
    return json.dumps(out) + "\n"
