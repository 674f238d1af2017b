"""KSPLAT 0.1, the format of a web viewer: sections of splats, positions perhaps as offsets from bucket centres."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.folder import FileBytes
from spatialbench.scene.log import ReadLog
from spatialbench.scene.splats.raw import SH_REST, RawSplats, check_count, dc_of_color

__all__ = ["HEADER", "SECTION", "read_ksplat"]

HEADER, SECTION = 4096, 1024
"""Bytes of the file's header, and of that of every section."""
_MAX_DEGREE = 2
_MAX_SECTIONS = 100_000
_HALF_RANGE = 1.5
"""Harmonics of level 2 run from minus this to this where the header says nothing."""
_TODO = "Download or export it again"
_OTHER = "Export it as .ply, .spz or .sog"


@dataclass(frozen=True)
class _Section:
    """``splats`` of ``room`` places are in use; ``start`` is the first byte of the section's data."""

    splats: int
    room: int
    bucket_size: int
    buckets: int
    block: float
    bucket_bytes: int
    span: int
    full: int
    partial: int
    degree: int
    start: int = 0

    @property
    def head(self) -> int:
        """Bytes before the splats: sizes of the buckets that are not full, then the centres."""
        return 4 * self.partial + self.bucket_bytes * self.buckets


def read_ksplat(data: FileBytes, log: ReadLog, where: str) -> RawSplats:
    """Read KSPLAT of compression level 0 (float32), 1 (half floats) or 2 (half floats, harmonics as bytes).

    At levels 1 and 2 a position is a 16-bit offset from the centre of its bucket. Scales are linear, colours and
    opacity bytes and activated, rotations wxyz. Harmonics stand band by band, within a band by channel. Sections
    may differ in degree; what a section lacks is 0.

    Raises
    ------
    UnsupportedFormatError : another version, level or degree. EmptyWorldError : no splats.
    CorruptInputError : sections that do not fit into the file (found before memory is taken) or buckets that do not
        add up.
    """
    level, sections, low, high = _open(data, log, where)
    total = sum(s.splats for s in sections)
    check_count(total, where)
    degree = max(s.degree for s in sections if s.splats)
    means, scales = np.empty((total, 3), np.float32), np.empty((total, 3), np.float32)
    quaternions, opacities = np.empty((total, 4), np.float32), np.empty(total, np.float32)
    sh = np.zeros((total, 1 + SH_REST[degree], 3), np.float32)
    share = np.arange(256) / 255
    shades, opacity = dc_of_color(share).astype(np.float32), share.astype(np.float32)
    step = (low + share * (high - low)).astype(np.float32)
    first = 0
    for i, s in enumerate(sections):
        if not s.splats:
            continue
        _read_section(data, s, level, f"{where}, section {i}", (shades, opacity, step),
                      [a[first:first + s.splats] for a in (means, scales, quaternions, opacities, sh)])
        first += s.splats
    return RawSplats(means=means, scales=scales, quaternions=quaternions, opacities=opacities, sh=sh)


def _read_section(data: FileBytes, s: _Section, level: int, where: str, tables: tuple[NDArray[np.float32], ...],
                  into: list[NDArray[np.float32]]) -> None:
    """Fill in means, scales, rotations, opacities and harmonics of one section; ``tables`` [256] are constants,
    opacities and harmonics by their bytes."""
    means, scales, quaternions, opacities, sh = into
    rows = np.frombuffer(data, _row(level, s.degree), s.splats, s.start + s.head)
    centers = None if level == 0 else _centers(data, rows["center"], s, where)
    shades, opacity, step = tables
    order = [3 * (b * b - 1) + c * (2 * b + 1) + i for b in range(1, s.degree + 1) for i in range(2 * b + 1)
             for c in range(3)]
    flat = sh.reshape(len(sh), -1)

    def block(part: slice) -> None:
        some = rows[part]
        means[part] = some["center"] if centers is None else centers[part]
        scales[part], quaternions[part] = some["scale"], some["rotation"]
        sh[part, 0] = np.take(shades, some["color"][:, :3])
        opacities[part] = np.take(opacity, some["color"][:, 3])
        if s.degree:
            values = np.take(some["bands"], order, axis=1, mode="clip")
            flat[part, 3:3 + len(order)] = np.take(step, values) if level == 2 else values

    in_blocks(s.splats, block)


def _open(data: FileBytes, log: ReadLog, where: str) -> tuple[int, list[_Section], float, float]:
    """Compression level, sections that lie within the file, and the range of harmonics."""
    if len(data) < HEADER:
        raise CorruptInputError(f"is cut off: a KSPLAT header takes {HEADER:,} bytes, the file has {len(data):,}",
                                where=where, todo=_TODO)
    major, minor = data[0], data[1]
    room, _, _, splats, level = struct.unpack_from("<4IH", data, 4)
    if (major, minor) != (0, 1):
        raise UnsupportedFormatError(f"is KSPLAT version {major}.{minor}, of which this version reads 0.1", where=where,
                                     todo=_OTHER)
    if level > 2:
        raise UnsupportedFormatError(f"has the KSPLAT compression level {level}, of which this version reads 0 to 2",
                                     where=f"{where}, byte 20", todo=_OTHER)
    if room > _MAX_SECTIONS or HEADER + SECTION * room > len(data):
        raise CorruptInputError(f"announces {room:,} sections, whose headers do not fit into its {len(data):,} bytes",
                                where=f"{where}, byte 4", todo=_TODO)
    log.details.update(format_version="KSPLAT 0.1", compression_level=level)
    low, high = struct.unpack_from("<2f", data, 36)
    low, high = (v if np.isfinite(v) and v else d for v, d in ((low, -_HALF_RANGE), (high, _HALF_RANGE)))
    sections, start = [], HEADER + SECTION * room
    for i in range(room):
        s = _section(data, i, level, start, where)
        end = start + s.head + _row(level, s.degree).itemsize * s.room
        if end > len(data):
            raise CorruptInputError(f"is cut off: section {i} ends at byte {end:,}, the file has {len(data):,}",
                                    where=f"{where}, byte {HEADER + SECTION * i}", todo=_TODO)
        sections.append(s)
        start = end
    if start < len(data):
        log.warn(f"{len(data) - start:,} bytes after the last section are ignored")
    log.details["sections"] = len(sections)
    found = sum(s.splats for s in sections)
    if splats != found:
        log.warn(f"the header announces {splats:,} splats, its sections hold {found:,}, which are read")
    return level, sections, low, high


def _section(data: FileBytes, index: int, level: int, start: int, where: str) -> _Section:
    at = HEADER + SECTION * index
    splats, room, bucket_size, buckets, block, bucket_bytes, span, _, full, partial, degree = struct.unpack_from(
        "<4IfHxx4IH", data, at)
    where = f"{where}, byte {at}"
    if degree > _MAX_DEGREE:
        raise UnsupportedFormatError(f"has harmonics of degree {degree} in section {index}; KSPLAT defines 0 to 2",
                                     where=where, todo=_OTHER)
    if splats > room:
        raise CorruptInputError(f"section {index} has {splats:,} splats and room for {room:,}", where=where, todo=_TODO)
    if level and splats and (full + partial > buckets or bucket_bytes < 12 or not np.isfinite(block)):
        raise CorruptInputError(f"the buckets of section {index} do not add up: {full:,} full and {partial:,} others "
                                f"of {buckets:,}, {bucket_bytes} bytes each", where=where, todo=_TODO)
    return _Section(splats, room, bucket_size, buckets, block, bucket_bytes, span or 32767, full, partial, degree,
                    start)


def _row(level: int, degree: int) -> np.dtype:
    """One splat; harmonics band by band, within a band by channel."""
    whole, real = ("<f4", "<f4") if level == 0 else ("<u2", "<f2")
    bands = [("bands", "u1" if level == 2 else real, 3 * SH_REST[degree])] if degree else []
    return np.dtype([("center", whole, 3), ("scale", real, 3), ("rotation", real, 4), ("color", "u1", 4), *bands])


def _centers(data: FileBytes, offsets: NDArray[np.uint16], s: _Section, where: str) -> NDArray[np.float64]:
    """Positions [N,3]: full buckets come first, then the others, whose sizes are listed."""
    sizes = np.frombuffer(data, "<u4", s.partial, s.start).astype(np.int64)
    ends = np.concatenate([np.arange(1, s.full + 1, dtype=np.int64) * s.bucket_size,
                           s.full * s.bucket_size + np.cumsum(sizes)])
    if len(offsets) and (not len(ends) or ends[-1] < len(offsets)):
        raise CorruptInputError(f"its buckets hold {int(ends[-1]) if len(ends) else 0:,} of {len(offsets):,} splats",
                                where=where, todo=_TODO)
    storage = np.frombuffer(data, np.uint8, s.bucket_bytes * s.buckets, s.start + 4 * s.partial)
    centers = np.ascontiguousarray(storage.reshape(s.buckets, s.bucket_bytes)[:, :12]).view("<f4")
    bucket = np.searchsorted(ends, np.arange(len(offsets)), side="right")
    return (offsets.astype(np.float64) - s.span) * (s.block / 2 / s.span) + centers[bucket]
