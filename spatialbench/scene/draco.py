"""Draco streams, in glTF and bare (.drc), through DracoPy; counts are looked at before anything is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, EmptyWorldError, UnsupportedFormatError
from spatialbench.scene.clean import check_indices
from spatialbench.scene.color import srgb_to_linear
from spatialbench.scene.log import MAX_FACES, MAX_VERTICES, ReadLog, Soup
from spatialbench.types import Material

__all__ = ["DracoMesh", "decode_draco", "read_drc", "read_drc_points"]

_MESH = 1
_SEQUENTIAL = 0
_METADATA = 0x8000
_POSITION, _COLOR = 0, 2
_TODO = "Download or export it again"


@dataclass(frozen=True)
class DracoMesh:
    """What a stream holds.

    Attributes
    ----------
    faces : [F,3] uint32, in range.
    attributes : [V,K] by unique id, in the type that was compressed.
    kinds : Draco's kind of each (0 position, 1 normal, 2 colour, 3 texture coordinates, 4 other).
    """

    faces: NDArray[np.uint32]
    attributes: dict[int, NDArray]
    kinds: dict[int, int]


def decode_draco(data: bytes, where: str) -> DracoMesh:
    """Decode a stream of a mesh.

    Raises
    ------
    CorruptInputError : it cannot be decoded, or uses vertices that it does not have.
    UnsupportedFormatError : a cloud of points, more faces than a world may have, or DracoPy is not installed.
    """
    _check_header(data, where)
    mesh = _decoded(data, where)
    faces = getattr(mesh, "faces", None)
    if faces is None:
        raise UnsupportedFormatError("is a point cloud (Draco, no faces)", where=where,
                                     todo="Give a mesh: a point cloud has no surface to draw or to walk on")
    faces = np.asarray(faces, dtype=np.uint32).reshape(-1, 3)
    attributes, kinds = {}, {}
    for a in mesh.attributes:
        values = np.asarray(a["data"])
        attributes[int(a["unique_id"])] = values.reshape(len(values), -1)
        kinds[int(a["unique_id"])] = int(a["attribute_type"])
    check_indices(faces, min((len(v) for v in attributes.values()), default=0), where, "vertex index")
    return DracoMesh(faces, attributes, kinds)


def _decoded(data: bytes, where: str) -> Any:
    try:
        import DracoPy  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise UnsupportedFormatError("its geometry is compressed with Draco, which needs DracoPy", where=where,
                                     todo="pip install DracoPy, or export it without mesh compression") from None
    try:
        return DracoPy.decode(data)
    except Exception as e:  # the decoder raises several classes, and says little
        raise CorruptInputError(f"its Draco stream cannot be decoded ({' '.join(str(e).split())[:80]})", where=where,
                                todo=_TODO) from None


def read_drc(data: bytes, log: ReadLog, where: str) -> Soup:
    """A bare stream as a world; colours are taken as sRGB.

    Raises
    ------
    As :func:`decode_draco`; EmptyWorldError : no faces.
    """
    mesh = decode_draco(data, where)
    place = next((i for i, k in mesh.kinds.items() if k == _POSITION and mesh.attributes[i].shape[1] == 3), None)
    if place is None or not len(mesh.faces):
        raise EmptyWorldError("its Draco stream has no faces", where=where, todo="Export the world as a mesh")
    faces = mesh.faces.astype(np.int32)
    log.details["vertices_read"] = len(mesh.attributes[place])
    color = next((mesh.attributes[i] for i, k in mesh.kinds.items() if k == _COLOR), None)
    rgba = None if color is None else _linear(color)
    return Soup(mesh.attributes[place].astype(np.float64), faces, np.zeros(len(faces), np.int32), [Material()],
                colors=None if rgba is None else rgba[faces])


def read_drc_points(data: bytes, where: str) -> tuple[NDArray[np.float64], NDArray[np.float32] | None] | None:
    """Positions [N,3] and linear RGBA [N,4] (or None) of a bare stream of points; None for one of a mesh.

    Raises
    ------
    CorruptInputError : it cannot be decoded, or holds no positions.
    UnsupportedFormatError : more points than a world may have vertices, or DracoPy is not installed.
    """
    if len(data) < 11 or data[:5] != b"DRACO":
        raise CorruptInputError("holds no Draco stream", where=where, todo=_TODO)
    if data[7] == _MESH:
        return None
    if not int.from_bytes(data[9:11], "little") & _METADATA and len(data) >= 15:
        count = int.from_bytes(data[11:15], "little")
        if count > MAX_VERTICES:
            raise UnsupportedFormatError(f"its Draco stream announces {count:,} points, more than {MAX_VERTICES:,}",
                                         where=where, todo="Thin it out")
    cloud = _decoded(data, where)
    by_kind = {int(a["attribute_type"]): np.asarray(a["data"]) for a in reversed(cloud.attributes)}
    positions = by_kind.get(_POSITION, np.zeros(0))
    if positions.ndim != 2 or positions.shape[1] != 3:
        raise CorruptInputError("its Draco stream holds no positions", where=where, todo=_TODO)
    color = by_kind.get(_COLOR)
    rgba = None if color is None or color.ndim != 2 or len(color) != len(positions) else _linear(color)
    return positions.astype(np.float64), rgba


def _linear(color: NDArray) -> NDArray[np.float32] | None:
    """Linear RGBA [N,4] of colours [N,3] or [N,4] that are taken as sRGB; None for others."""
    if color.shape[1] not in (3, 4):
        return None
    share = color if color.dtype.kind == "f" else color / np.iinfo(color.dtype).max
    rgba = np.ones((len(color), 4), np.float32)
    rgba[:, :3] = srgb_to_linear(np.clip(share[:, :3], 0, 1))
    if share.shape[1] == 4:
        rgba[:, 3] = share[:, 3]
    return rgba


def _check_header(data: bytes, where: str) -> None:
    """The counts that the stream announces, where they can be had without decoding it (Draco 2.2)."""
    if len(data) < 11 or data[:5] != b"DRACO":
        raise CorruptInputError("holds no Draco stream", where=where, todo=_TODO)
    major, minor, kind, method = data[5:9]
    if kind != _MESH:
        raise UnsupportedFormatError("is a point cloud (Draco)", where=where,
                                     todo="Give a mesh: a point cloud has no surface to draw or to walk on")
    if (major, minor) < (2, 2) or int.from_bytes(data[9:11], "little") & _METADATA:
        return  # counts lie elsewhere; the decoder checks them against the stream
    first, at = _varint(data, 11 if method == _SEQUENTIAL else 12)
    second, _ = _varint(data, at)
    faces, vertices = (first, second) if method == _SEQUENTIAL else (second, first)
    if faces > MAX_FACES or vertices > MAX_VERTICES:
        raise UnsupportedFormatError(f"its Draco stream announces {faces:,} faces and {vertices:,} vertices, more than "
                                     f"{MAX_FACES:,} faces", where=where, todo="Simplify the mesh")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, low ones first; and where the next begins."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            break
        value |= (data[at] & 127) << shift
        at += 1
        if not data[at - 1] & 128:
            break
    return value, at
