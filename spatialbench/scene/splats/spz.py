"""SPZ, versions 1 to 3: one gzip stream with a 16-byte header and a plane of bytes for every property."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.splats.raw import SH_REST, RawSplats, check_count, smallest_three

__all__ = ["COORDINATES", "SPZ_MAGIC", "read_spz"]

SPZ_MAGIC = b"NGSP"
COORDINATES = dict(enumerate(["", "LDB", "RDB", "LUB", "RUB", "LDF", "RDF", "LUF", "RUF", "LFD", "RFD", "LFU", "RFU",
                              "LBD", "RBD", "LBU", "RBU"]))
"""Values of the extension ``SPZ_ADOBE_coordinate_system``: where the axes X, Y, Z point."""
_HEADER = struct.Struct("<4sIIBBBB")
_LARGEST_RATIO = 1100
"""Deflate makes at most 1,032 bytes of one."""
_MAX_TRAILER = 1 << 20
_COORDINATE_SYSTEM = 0xADBE0003
_TODO = "Download or export it again"


@dataclass(frozen=True)
class _Head:
    version: int
    count: int
    degree: int
    fractional_bits: int
    flags: int

    @property
    def widths(self) -> tuple[int, int, int, int, int, int]:
        """Bytes a splat takes in the planes of positions, alphas, colours, scales, rotations and harmonics."""
        return (6 if self.version == 1 else 9, 1, 3, 3, 4 if self.version >= 3 else 3, 3 * SH_REST[self.degree])


def read_spz(data: bytes, log: ReadLog, where: str) -> RawSplats:
    """Read SPZ 1 (half-float positions), 2 and 3 (24-bit fixed point), gzip-compressed or already unpacked.

    Raises
    ------
    UnsupportedFormatError : version 4 or later. EmptyWorldError : no splats.
    CorruptInputError : damaged or cut-off stream, a header that no reader could follow, or one that announces more
        than the stream holds (found before memory is taken).
    """
    head, body = _open(data, log, where)
    log.details.update(format_version=f"SPZ {head.version}", antialiased=bool(head.flags & 1))
    if head.version > 1:
        log.details["fractional_bits"] = head.fractional_bits
    planes, at = [], 0
    for width in head.widths:
        planes.append(np.frombuffer(body, np.uint8, width * head.count, at).reshape(head.count, width))
        at += width * head.count
    up = _trailer(body[at:], bool(head.flags & 2), log)
    position, alpha, color, scale, rotation, rest = planes
    step = np.arange(256, dtype=np.float64)
    sh = np.zeros((head.count, 1 + SH_REST[head.degree], 3), dtype=np.float32)
    sh[:, 0] = ((step / 255 - 0.5) / 0.15).astype(np.float32)[color]
    if head.degree:
        sh[:, 1:] = ((step - 128) / 128).astype(np.float32)[rest].reshape(head.count, -1, 3)
    return RawSplats(means=_positions(position, head), scales=np.exp(step / 16 - 10).astype(np.float32)[scale],
                     quaternions=_rotations(rotation, head.version),
                     opacities=(step / 255).astype(np.float32)[alpha[:, 0]], sh=sh,
                     antialiased=bool(head.flags & 1), up=up)


def _open(data: bytes, log: ReadLog, where: str) -> tuple[_Head, bytes]:
    if data.startswith(SPZ_MAGIC):
        log.details["encoding"] = "not compressed"
        head = _head(data[:_HEADER.size], where)
        body = data[_HEADER.size:]
        _check_size(head, len(body), where)
        return head, body
    log.details["encoding"] = "gzip"
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        head = _head(stream.decompress(data, _HEADER.size), where)
        need = head.count * sum(head.widths)
        _check_size(head, _LARGEST_RATIO * len(data), where)
        body = stream.decompress(stream.unconsumed_tail, need + _MAX_TRAILER)
    except zlib.error as e:
        raise CorruptInputError(f"its gzip stream is damaged ({_reason(e)})", where=where, todo=_TODO) from None
    if not stream.eof and not stream.unconsumed_tail and len(body) < need + _MAX_TRAILER:
        raise CorruptInputError(f"is cut off: its gzip stream ends early, {len(body):,} of {need:,} bytes were there",
                                where=where, todo=_TODO)
    if not stream.eof:
        raise CorruptInputError("its gzip stream goes on for more than 1 MiB after the splats", where=where,
                                todo=_TODO)
    _check_size(head, len(body), where)
    if stream.unused_data:
        log.warn(f"{plural(len(stream.unused_data), 'byte')} after the gzip stream are ignored")
    return head, body


def _reason(error: zlib.error) -> str:
    return str(error).rpartition(": ")[2]


def _head(data: bytes, where: str) -> _Head:
    if len(data) < _HEADER.size:
        raise CorruptInputError(f"has {plural(len(data), 'byte')} of the 16 of an SPZ header", where=where, todo=_TODO)
    magic, version, count, degree, bits, flags, _ = _HEADER.unpack(data)
    if magic != SPZ_MAGIC:
        raise CorruptInputError("is no SPZ file: its stream does not begin with NGSP", where=where, todo=_TODO)
    if version >= 4:
        raise UnsupportedFormatError(f"is SPZ version {version}, of which this version reads 1 to 3", where=where,
                                     todo="Export it as SPZ version 3, .ply or .sog")
    if version < 1:
        raise CorruptInputError("is SPZ version 0, which does not exist", where=where, todo=_TODO)
    if degree not in SH_REST:
        raise CorruptInputError(f"its SH degree is {degree}, not 0 to 4", where=f"{where}, byte 12", todo=_TODO)
    if version > 1 and bits > 24:
        raise CorruptInputError(f"its positions have {bits} fractional bits of 24", where=f"{where}, byte 13",
                                todo=_TODO)
    return _Head(version, count, degree, bits, flags)


def _check_size(head: _Head, most: int, where: str) -> None:
    need = head.count * sum(head.widths)
    if need > most:
        raise CorruptInputError(f"announces {plural(head.count, 'splat')}, which take {need:,} bytes, but holds at "
                                f"most {most:,}", where=where, todo=_TODO)
    check_count(head.count, where)


def _positions(plane: NDArray[np.uint8], head: _Head) -> NDArray[np.float32]:
    if head.version == 1:
        return np.ascontiguousarray(plane).view("<f2").astype(np.float32)
    b = plane.reshape(-1, 3, 3).astype(np.int32)
    fixed = b[..., 0] | (b[..., 1] << 8) | (b[..., 2] << 16)
    fixed -= (fixed & 0x800000) << 1
    return fixed.astype(np.float32) / np.float32(1 << head.fractional_bits)  # exact: 24 bits


def _rotations(plane: NDArray[np.uint8], version: int) -> NDArray[np.float32]:
    """wxyz. Before version 3 x, y, z as bytes and w >= 0 from them; then three of xyzw, sign and 9 bits each."""
    if version < 3:
        xyz = plane.astype(np.float64) / 127.5 - 1
        w = np.sqrt(np.maximum(0, 1 - np.einsum("ij,ij->i", xyz, xyz)))
        return np.concatenate([w[:, None], xyz], axis=1).astype(np.float32)
    words = np.ascontiguousarray(plane).view("<u4")
    fields = (words >> np.array([20, 10, 0], dtype=np.uint32)) & 1023
    size = (fields & 511) / 511 * 0.5**0.5
    return smallest_three(np.where(fields & 512, -size, size), words[:, 0] >> 30)[:, [3, 0, 1, 2]]


def _trailer(data: bytes, announced: bool, log: ReadLog) -> NDArray[np.float64] | None:
    """Extensions after the planes (type, length, content); only the coordinate system is known here."""
    if not announced:
        if data:
            log.warn(f"{plural(len(data), 'byte')} after the splats are ignored")
        return None
    at, ignored = 0, 0
    up = None
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        at += 8
        if kind == _COORDINATE_SYSTEM and size == 4 and at + 4 <= len(data):
            up = _up_of(struct.unpack_from("<I", data, at)[0], log)
        else:
            ignored += 1
        at += size
    if ignored or at != len(data):
        log.warn("extensions of the SPZ file are ignored")
    return up


def _up_of(value: int, log: ReadLog) -> NDArray[np.float64] | None:
    name = COORDINATES.get(value, "")
    if not name:
        log.warn(f"the SPZ file states the coordinate system {value}, which says nothing")
        return None
    log.details["coordinate_system"] = name
    axis = next(i for i, c in enumerate(name) if c in "UD")
    up = np.zeros(3)
    up[axis] = 1.0 if name[axis] == "U" else -1.0
    if _left_handed(name):
        log.warn(f"the SPZ file states the left-handed frame {name}; it is read as it is, so it may be mirrored")
    return up


def _left_handed(name: str) -> bool:
    directions = {"R": (1, 0, 0), "L": (-1, 0, 0), "U": (0, 1, 0), "D": (0, -1, 0), "B": (0, 0, 1), "F": (0, 0, -1)}
    return bool(np.linalg.det(np.array([directions[c] for c in name], dtype=np.float64)) < 0)
