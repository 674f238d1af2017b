"""``transforms.json`` of nerfstudio, instant-ngp and NeRF, and the frames that such a capture goes through."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

__all__ = ["Applied", "in_capture_frame", "in_training_frame", "parse_dataparser", "parse_nerfstudio",
           "write_nerfstudio"]

Applied = tuple[NDArray[np.float64], float]
"""Rigid [4,4] and scale: ``x -> scale * (matrix @ x)``."""
_OPENGL = np.array([1.0, -1.0, -1.0])
"""Signs that turn camera axes right, up, backward into right, down, forward, and back."""
_PINHOLES = {"", "PINHOLE", "SIMPLE_PINHOLE", "OPENCV", "SIMPLE_RADIAL", "RADIAL", "PERSPECTIVE"}
_DISTORTION = ("k1", "k2", "k3", "k4", "p1", "p2")


def parse_nerfstudio(data: Any, where: str) -> CameraList:
    """``frames``, each with ``transform_matrix`` (camera to world, axes as OpenGL) and ``file_path``.

    Intrinsics (``fl_x``, ``fl_y``, ``cx``, ``cy``, ``w``, ``h``, ``camera_angle_x``, ``camera_angle_y``) are those of
    the frame, else of the file. Without ``fl_y`` or its angle pixels are square; without ``cx`` and ``cy`` the
    principal point is the middle. Poses are as written, after ``applied_transform`` and ``applied_scale``.

    Raises
    ------
    CorruptInputError : a field that is missing or wrong, by name.
    """
    frames = data.get("frames") if isinstance(data, dict) else None
    if not isinstance(frames, list):
        raise CorruptInputError("has no list of 'frames'", where=where, todo=TODO)
    check_count(len(frames), where)
    cameras: list[ListedCamera] = []
    notes: set[str] = set()
    for k, frame in enumerate(frames):
        here = f"{where}, frames[{k}]"
        if not isinstance(frame, dict):
            raise CorruptInputError("is no JSON object", where=here, todo=TODO)
        m = matrix(frame.get("transform_matrix"), f"{here}.transform_matrix", (3, 4), 4)
        _last_row(m, f"{here}.transform_matrix")
        pose = rigid_pose(m[:3, :3] * _OPENGL, m[:3, 3], f"{here}.transform_matrix")
        lens, fov_x = _lens(data, frame, here, notes)
        cameras.append(ListedCamera(pose, text(frame.get("file_path"), f"{here}.file_path"), None, lens, fov_x))
    return CameraList(tuple(cameras), "nerfstudio", applied=_applied(data, where), notes=tuple(sorted(notes)))


def _last_row(m: NDArray[np.float64], where: str) -> None:
    if len(m) == 4 and np.abs(m[3] - [0, 0, 0, 1]).max() > 1e-6:
        raise CorruptInputError("has a last row other than 0 0 0 1", where=where, todo=TODO)


def _lens(data: dict[str, Any], frame: dict[str, Any], where: str, notes: set[str]
          ) -> tuple[Intrinsics | None, float | None]:
    def get(key: str) -> float | None:
        value = frame.get(key, data.get(key))
        return None if value is None else number(value, f"{where}.{key}")

    model = text(frame.get("camera_model", data.get("camera_model")), f"{where}.camera_model")
    if model.upper() not in _PINHOLES:
        notes.add(f"the lens {model[:40]!r} is no pinhole, its intrinsics are left out")
        return None, None
    if any(get(k) for k in _DISTORTION):
        notes.add("distortion of the lens is left out")
    angle_x, angle_y = (_angle(get(k), f"{where}.{k}") for k in ("camera_angle_x", "camera_angle_y"))
    if get("w") is None or get("h") is None:
        return None, angle_x
    w, h = (integer(get(k), f"{where}.{k}", 1) for k in ("w", "h"))
    fx = get("fl_x")
    if fx is None and angle_x is not None:
        fx = w / 2 / math.tan(angle_x / 2)
    fy = get("fl_y")
    if fy is None and angle_y is not None:
        fy = h / 2 / math.tan(angle_y / 2)
    fx, fy = fx if fx is not None else fy, fy if fy is not None else fx
    if fx is None or fy is None:
        return None, None
    cx, cy = get("cx"), get("cy")
    return Intrinsics(number(fx, f"{where}.fl_x", positive=True), number(fy, f"{where}.fl_y", positive=True),
                      w / 2 if cx is None else cx, h / 2 if cy is None else cy, w, h), None


def _angle(value: float | None, where: str) -> float | None:
    if value is not None and not 0 < value < math.pi:
        raise CorruptInputError(f"is {value:g}, not an angle between 0 and pi", where=where, todo=TODO)
    return value


def _applied(data: dict[str, Any], where: str) -> Applied | None:
    given, scale = data.get("applied_transform"), data.get("applied_scale")
    if given is None and scale is None:
        return None
    m = np.eye(4) if given is None else _rigid(given, f"{where}, applied_transform")
    return m, 1.0 if scale is None else number(scale, f"{where}, applied_scale", positive=True)


def _rigid(value: Any, where: str) -> NDArray[np.float64]:
    m = matrix(value, where, (3, 4), 4)
    _last_row(m, where)
    return rigid_pose(m[:3, :3], m[:3, 3], where).matrix


def parse_dataparser(data: Any, where: str) -> Applied:
    """``dataparser_transforms.json``: ``transform`` (3 by 4, rigid) and ``scale``, from capture to training.

    Raises
    ------
    CorruptInputError
    """
    if not isinstance(data, dict) or "transform" not in data or "scale" not in data:
        raise CorruptInputError("has no 'transform' and 'scale'", where=where, todo=TODO)
    return _rigid(data["transform"], f"{where}, transform"), number(data["scale"], f"{where}, scale", positive=True)


def in_capture_frame(cameras: CameraList) -> CameraList:
    """Poses before ``applied_transform`` and ``applied_scale``: those of COLMAP or the device that tracked them."""
    if cameras.applied is None:
        return cameras
    m, scale = cameras.applied
    r = m[:3, :3].T
    # scale * (R p + t) undone; moved() multiplies last, so the scale goes into the translation.
    moved = tuple(c.moved(r, -scale * (r @ m[:3, 3]), 1 / scale) for c in cameras.cameras)
    return replace(cameras, cameras=moved, applied=None)


def in_training_frame(cameras: CameraList, dataparser: Applied) -> CameraList:
    """Poses in the frame that nerfstudio trains and exports splats in.

    ``dataparser_transforms.json`` leads there from the capture's frame: its matrix is that of training times
    ``applied_transform``, its scale that of training times ``applied_scale``. Both factors are taken out again, as
    training never saw them apart from what is in the poses.
    """
    m, scale = dataparser
    if cameras.applied is not None:
        before = np.eye(4)
        r = cameras.applied[0][:3, :3].T
        before[:3, :3], before[:3, 3] = r, -r @ cameras.applied[0][:3, 3]
        m, scale = m @ before, scale / cameras.applied[1]
    moved = tuple(c.moved(m[:3, :3], m[:3, 3], scale) for c in cameras.cameras)
    return replace(cameras, cameras=moved, applied=None)


def write_nerfstudio(cameras: CameraList) -> str:
    """JSON that ``parse_nerfstudio`` reads back to the last bit; intrinsics are in each frame.

    Raises
    ------
    UsageError : a camera without intrinsics.
    """
    frames = []
    for k, c in enumerate(cameras.cameras):
        i = c.intrinsics
        if i is None:
            raise UsageError(f"camera '{c.name}' has no intrinsics", where="camera list",
                             todo="Give each camera focal lengths and a size")
        m = c.pose.matrix.copy()
        m[:3, :3] = m[:3, :3] * _OPENGL
        frames.append({"file_path": c.name or f"{k:05d}", "fl_x": i.fx, "fl_y": i.fy, "cx": i.cx, "cy": i.cy,
                       "w": i.width, "h": i.height, "transform_matrix": m.tolist()})
    head: dict[str, Any] = {"camera_model": "OPENCV"}
    if cameras.applied is not None:
        head |= {"applied_transform": cameras.applied[0][:3].tolist(), "applied_scale": cameras.applied[1]}
    return json.dumps({**head, "frames": frames}, indent=1) + "\n"
