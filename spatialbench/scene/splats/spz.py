"""SPZ, versions 1 to 4: a plane of bytes for every property of the splats."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.splats.raw import SH_REST, RawSplats, smallest_three
from spatialbench.scene.splats.spz_open import SPZ_MAGIC, SpzHead, open_spz
from spatialbench.scene.splats.transform import flip_axes
from spatialbench.types import Decision

__all__ = ["COORDINATES", "SPZ_MAGIC", "read_spz"]

COORDINATES = dict(enumerate(["", "LDB", "RDB", "LUB", "RUB", "LDF", "RDF", "LUF", "RUF", "LFD", "RFD", "LFU", "RFU",
                              "LBD", "RBD", "LBU", "RBU"]))
"""Values of the extension ``SPZ_ADOBE_coordinate_system``: where the axes X, Y, Z point."""
_SIZE = np.arange(512) / 511 * 0.5**0.5
_COMPONENT = np.concatenate([_SIZE, -_SIZE])
"""Of a rotation, by its ten bits."""
_COORDINATE_SYSTEM = 0xADBE0003
_OPPOSITE = dict(zip("LRUDFB", "RLDUBF", strict=True))


def read_spz(data: bytes, log: ReadLog, where: str) -> RawSplats:
    """Read SPZ 1 (half-float positions), 2, 3 (24-bit fixed point; gzip-compressed or already unpacked) and 4.

    A coordinate system that the file states decides on its up axis; where it is left-handed, the third axis is turned
    over.

    Raises
    ------
    As ``open_spz``.
    """
    head, (position, alpha, color, scale, rotation, rest), extensions = open_spz(data, log, where)
    log.details.update(format_version=f"SPZ {head.version}", antialiased=bool(head.flags & 1))
    if head.version > 1:
        log.details["fractional_bits"] = head.fractional_bits
    frame = _frame(extensions, bool(head.flags & 2), log)
    n = head.count
    step = np.arange(256, dtype=np.float64)
    share = (step / 255).astype(np.float32)
    shade, size = ((step / 255 - 0.5) / 0.15).astype(np.float32), np.exp(step / 16 - 10).astype(np.float32)
    means, scales = np.empty((n, 3), np.float32), np.empty((n, 3), np.float32)
    quaternions, opacities = np.empty((n, 4), np.float32), np.empty(n, np.float32)
    sh = np.empty((n, 1 + SH_REST[head.degree], 3), dtype=np.float32)
    flat = sh.reshape(n, -1)

    def block(part: slice) -> None:
        means[part] = _positions(position[part], head)
        scales[part] = np.take(size, scale[part])
        _rotations(rotation[part], head.version, quaternions[part])
        opacities[part] = np.take(share, alpha[part, 0])
        if head.degree:
            values = flat[part]  # with the colours, which are filled in after: all of a row in one go
            values[:, :3], values[:, 3:] = 0, rest[part]
            values -= np.float32(128)
            values *= np.float32(1 / 128)
        flat[part, :3] = np.take(shade, color[part])

    in_blocks(n, block)
    raw = RawSplats(means, scales, quaternions, opacities, sh, antialiased=bool(head.flags & 1), finite_sh=True)
    return _decide(raw, frame, log) if frame else raw


def _positions(plane: NDArray[np.uint8], head: SpzHead) -> NDArray[np.float32]:
    if head.version == 1:
        return np.ascontiguousarray(plane).view("<f2").astype(np.float32)
    low, middle, high = (plane.reshape(-1, 3)[:, k].astype(np.int32) for k in range(3))
    fixed = low | (middle << 8) | (high << 16)
    fixed -= (fixed & 0x800000) << 1
    return (fixed.astype(np.float32) / np.float32(1 << head.fractional_bits)).reshape(-1, 3)  # exact: 24 bits


def _rotations(plane: NDArray[np.uint8], version: int, into: NDArray[np.float32]) -> None:
    """Fill in wxyz. Before version 3 x, y, z are bytes and w >= 0 from them; then three of xyzw, sign and 9 bits."""
    if version < 3:
        xyz = plane.astype(np.float64) / 127.5 - 1
        into[:, 0] = np.sqrt(np.maximum(0, 1 - np.einsum("ij,ij->i", xyz, xyz)))
        into[:, 1:] = xyz
        return
    words = np.ascontiguousarray(plane).view("<u4")[:, 0]
    parts = [np.take(_COMPONENT, (words >> np.uint32(shift)) & np.uint32(1023)) for shift in (20, 10, 0)]
    smallest_three(parts, words >> np.uint32(30), [into[:, k] for k in (1, 2, 3, 0)])


def _frame(data: bytes, announced: bool, log: ReadLog) -> str:
    """Where the axes point, as the extensions say (type, length, content); only this one of them is known here."""
    if not announced:
        if data:
            log.warn(f"{plural(len(data), 'byte')} after the splats are ignored")
        return ""
    at, ignored = 0, 0
    frame = ""
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        at += 8
        if kind == _COORDINATE_SYSTEM and size == 4 and at + 4 <= len(data):
            value = struct.unpack_from("<I", data, at)[0]
            frame = COORDINATES.get(value, "")
            if not frame:
                log.warn(f"the SPZ file states the coordinate system {value}, which says nothing")
        else:
            ignored += 1
        at += size
    if ignored or at != len(data):
        log.warn("extensions of the SPZ file are ignored")
    return frame


def _decide(raw: RawSplats, frame: str, log: ReadLog) -> RawSplats:
    """The splats in the right-handed frame that the file states, with its up axis."""
    log.details["coordinate_system"] = frame
    log.decisions["file_frame"] = Decision(value=frame, source="file", confidence=0.95,
                                           note="where X, Y and Z point: SPZ_ADOBE_coordinate_system")
    if _left_handed(frame):
        turned = frame[:2] + _OPPOSITE[frame[2]]
        log.warn(f"the SPZ file states the left-handed frame {frame}; its third axis is turned over, to {turned}")
        frame, raw = turned, flip_axes(raw, (1, 1, -1))
    axis = next(i for i, c in enumerate(frame) if c in "UD")
    raw.up = np.zeros(3)
    raw.up[axis] = 1.0 if frame[axis] == "U" else -1.0
    return raw


def _left_handed(name: str) -> bool:
    directions = {"R": (1, 0, 0), "L": (-1, 0, 0), "U": (0, 1, 0), "D": (0, -1, 0), "B": (0, 0, 1), "F": (0, 0, -1)}
    return bool(np.linalg.det(np.array([directions[c] for c in name], dtype=np.float64)) < 0)
