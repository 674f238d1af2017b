"""The text model of COLMAP: ``cameras.txt`` (lenses) and ``images.txt`` (poses)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spatialbench.errors import CorruptInputError, UsageError
from spatialbench.scene.cameras.listed import (
    MAX_CAMERAS,
    RIGID,
    TODO,
    CameraList,
    Intrinsics,
    ListedCamera,
    check_count,
    integer,
    number,
    rigid_pose,
    text,
)

__all__ = ["parse_colmap", "write_colmap"]

# Names of the first parameters of each model; the rest is distortion.
_ONE, _TWO = ("f", "cx", "cy"), ("fx", "fy", "cx", "cy")
_MODELS = {"SIMPLE_PINHOLE": _ONE, "PINHOLE": _TWO, "SIMPLE_RADIAL": _ONE, "RADIAL": _ONE, "OPENCV": _TWO,
           "FULL_OPENCV": _TWO}
_MAX_LINE = 10_000
"""Characters of a line with a pose or a lens; lines of points may be longer."""


def parse_colmap(images: bytes, cameras: bytes | None, where: str) -> CameraList:
    """Poses of ``images.txt``, world to camera as a quaternion wxyz and a translation, with lenses of ``cameras.txt``.

    Parameters
    ----------
    cameras : bytes of ``cameras.txt``; None where it is not there, and then there are no intrinsics.
    where : the folder of both, for messages.

    Raises
    ------
    CorruptInputError : a line that is wrong, by file and number; two images of one number.
    """
    notes: set[str] = set()
    lenses = {} if cameras is None else _lenses(cameras, f"{where}cameras.txt", notes)
    out: list[ListedCamera] = []
    seen: set[int] = set()
    for line, row in _pose_lines(images):
        here = f"{where}images.txt, line {line}"
        parts = _decode(row, here).split(None, 9)
        if len(parts) not in (9, 10):
            raise CorruptInputError("is no image (IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME)", where=here, todo=TODO)
        id, lens = (_whole(parts[k], here) for k in (0, 8))
        if id in seen:
            raise CorruptInputError(f"has the image number {id} again", where=here, todo=TODO)
        seen.add(id)
        check_count(len(seen), f"{where}images.txt")
        if cameras is not None and lens not in lenses:
            raise CorruptInputError(f"names camera {lens}, which cameras.txt does not have", where=here, todo=TODO)
        numbers = np.array([_real(p, here) for p in parts[1:8]])
        name = text(parts[9].strip(), here) if len(parts) == 10 else ""
        out.append(_image(numbers, name, id, lenses.get(lens), here))
    check_count(len(out), f"{where}images.txt")
    return CameraList(tuple(out), "colmap", notes=tuple(sorted(notes)))


def _image(n: np.ndarray, name: str, id: int, lens: Intrinsics | None, where: str) -> ListedCamera:
    from spatialbench.scene.gltf.nodes import rotation_matrix

    norm = float(np.linalg.norm(n[:4]))
    if not abs(norm - 1) <= RIGID:
        raise CorruptInputError(f"has a quaternion of length {norm:.6g}, which is no rotation", where=where, todo=TODO)
    w, x, y, z = n[:4] / norm
    to_world = rotation_matrix(np.array([x, y, z, w])).T
    return ListedCamera(rigid_pose(to_world, -to_world @ n[4:7], where), name, id, lens)


def _pose_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of every line with a pose; the line after it has 2D points, or nothing, and is passed over."""
    points = False
    for line, row in _lines(data):
        if points:
            points = False
            continue
        bare = row.strip()
        if bare and not bare.startswith(b"#"):
            points = True
            yield line, bare


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number from 1 and bytes of each line, one at a time: points make some of them megabytes long."""
    start, line = data.startswith(b"\xef\xbb\xbf") * 3, 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line += 1
        yield line, data[start:end]
        start = end + 1


def _lenses(data: bytes, where: str, notes: set[str]) -> dict[int, Intrinsics | None]:
    out: dict[int, Intrinsics | None] = {}
    for line, row in _lines(data):
        bare = row.strip()
        if not bare or bare.startswith(b"#"):
            continue
        here = f"{where}, line {line}"
        parts = _decode(bare, here).split()
        if len(parts) < 5:
            raise CorruptInputError("is no camera (CAMERA_ID MODEL WIDTH HEIGHT PARAMS)", where=here, todo=TODO)
        id = _whole(parts[0], here)
        if id in out or len(out) >= MAX_CAMERAS:
            why = f"has camera {id} again" if id in out else f"has more than {MAX_CAMERAS:,} cameras"
            raise CorruptInputError(why, where=here, todo=TODO)
        out[id] = _lens(parts, here, notes)
    return out


def _lens(parts: list[str], where: str, notes: set[str]) -> Intrinsics | None:
    model, values = parts[1], [_real(p, where) for p in parts[4:]]
    width, height = (_whole(p, where, 1) for p in parts[2:4])
    names = _MODELS.get(model)
    if names is None:
        notes.add(f"the lens {model[:40]!r} is no pinhole, its intrinsics are left out")
        return None
    if len(values) < len(names):
        raise CorruptInputError(f"has {len(values)} parameters, too few for {model}", where=where, todo=TODO)
    if any(values[len(names):]):
        notes.add("distortion of the lens is left out")
    p = dict(zip(names, values, strict=False))
    fx, fy = (number(p.get(k, p.get("f")), where, positive=True) for k in ("fx", "fy"))
    return Intrinsics(fx, fy, p["cx"], p["cy"], width, height)


def _decode(row: bytes, where: str) -> str:
    if len(row) > _MAX_LINE:
        raise CorruptInputError(f"is {len(row):,} bytes long", where=where, todo=TODO)
    try:
        return row.decode("utf-8")
    except UnicodeDecodeError:
        raise CorruptInputError("is no text (UTF-8)", where=where, todo=TODO) from None


def _real(word: str, where: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise CorruptInputError(f"has {word[:40]!r} where a number belongs", where=where, todo=TODO) from None
    return number(value, where)


def _whole(word: str, where: str, least: int = 0) -> int:
    return integer(_real(word, where), where, least)


def write_colmap(cameras: CameraList) -> tuple[str, str]:
    """Texts of ``cameras.txt`` and ``images.txt``; one PINHOLE for each different lens, numbers from 1.

    Read back, intrinsics are the same to the last bit; poses to some 1e-15 of a radian and of the distance to the
    origin, as they go through quaternions.

    Raises
    ------
    UsageError : a camera without intrinsics, a name with a line break, two cameras of one number.
    """
    from spatialbench.scene.splats.transform import quaternion_of

    lenses: dict[Intrinsics, int] = {}
    rows = ["# IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME", "# (a line of 2D points, empty here)"]
    ids = [k + 1 if c.id is None else c.id for k, c in enumerate(cameras.cameras)]
    if len(set(ids)) != len(ids):
        raise UsageError("two cameras have the same number", where="camera list", todo="Number them anew")
    for id, c in zip(ids, cameras.cameras, strict=True):
        if c.intrinsics is None or len(c.name.splitlines()) > 1:
            why = "has no intrinsics" if c.intrinsics is None else "has a name of several lines"
            raise UsageError(f"camera '{c.name[:80]!r}' {why}", where="camera list", todo="Correct the list")
        r = c.pose.rotation.T
        q = quaternion_of(r)
        q = q if q[0] >= 0 else -q
        t = -r @ c.pose.position
        lens = lenses.setdefault(c.intrinsics, len(lenses) + 1)
        rows += [" ".join([str(id), *(repr(float(v)) for v in (*q, *t)), str(lens), c.name or f"{id:05d}"]), ""]
    head = ["# CAMERA_ID MODEL WIDTH HEIGHT PARAMS[]"]
    head += [f"{k} PINHOLE {i.width} {i.height} {i.fx!r} {i.fy!r} {i.cx!r} {i.cy!r}" for i, k in lenses.items()]
    return "\n".join(head) + "\n", "\n".join(rows) + "\n"
