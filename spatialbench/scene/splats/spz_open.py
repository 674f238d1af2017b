"""The containers of SPZ: one gzip stream (versions 1 to 3), or a Zstandard stream for every property (version 4)."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.splats.raw import SH_REST, check_count

__all__ = ["SPZ_MAGIC", "SpzHead", "open_spz"]

SPZ_MAGIC = b"NGSP"
_HEADER = struct.Struct("<4sIIBBBB")
_HEADER_4 = 32
_STREAM = struct.Struct("<QQ")
_LARGEST_RATIO = 1100
"""Deflate makes at most 1,032 bytes of one."""
_LARGEST_RATIO_4 = 1 << 15
"""A Zstandard block has at least 4 bytes and gives at most 128 KiB."""
_MAX_TRAILER = 1 << 20
_PIECE = 1 << 17
_TODO = "Download or export it again"


@dataclass(frozen=True)
class SpzHead:
    """What the header says."""

    version: int
    count: int
    degree: int
    fractional_bits: int
    flags: int

    @property
    def widths(self) -> tuple[int, int, int, int, int, int]:
        """Bytes a splat takes in the planes of positions, alphas, colours, scales, rotations and harmonics."""
        return (6 if self.version == 1 else 9, 1, 3, 3, 4 if self.version >= 3 else 3, 3 * SH_REST[self.degree])


def open_spz(data: bytes, log: ReadLog, where: str) -> tuple[SpzHead, list[NDArray[np.uint8]], bytes]:
    """The header, the six planes as bytes [count, width], and what stands where extensions are.

    Raises
    ------
    UnsupportedFormatError : version 5 or later. EmptyWorldError : no splats.
    CorruptInputError : a damaged or cut-off stream, a header that no reader could follow, or one that announces more
        than the stream holds (found before memory is taken).
    """
    if data.startswith(SPZ_MAGIC) and len(data) >= _HEADER.size and struct.unpack_from("<I", data, 4)[0] == 4:
        return _open_4(data, log, where)
    head, body = _open(data, log, where)
    planes, at = [], 0
    for width in head.widths:
        planes.append(np.frombuffer(body, np.uint8, width * head.count, at).reshape(head.count, width))
        at += width * head.count
    return head, planes, bytes(body[at:])


def _open(data: bytes, log: ReadLog, where: str) -> tuple[SpzHead, bytes | memoryview]:
    if data.startswith(SPZ_MAGIC):
        log.details["encoding"] = "not compressed"
        head = _head(data[:_HEADER.size], where)
        _check_size(head, len(data) - _HEADER.size, where)
        return head, data[_HEADER.size:]
    log.details["encoding"] = "gzip"
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        head = _head(stream.decompress(data, _HEADER.size), where)
        if head.version > 3:
            raise UnsupportedFormatError("is SPZ version 4 inside of gzip, which that version is not", where=where,
                                         todo="Unpack it and give the file inside")
        need = head.count * sum(head.widths)
        _check_size(head, _LARGEST_RATIO * len(data), where)
        most = need + _MAX_TRAILER + 1
        body, behind = _inflate(stream, stream.unconsumed_tail, most)
    except zlib.error as e:
        raise CorruptInputError(f"its gzip stream is damaged ({_reason(e)})", where=where, todo=_TODO) from None
    if len(body) == most:
        raise CorruptInputError("its gzip stream goes on for more than 1 MiB after the splats", where=where,
                                todo=_TODO)
    if not stream.eof:
        raise CorruptInputError(f"is cut off: its gzip stream ends early, {len(body):,} of {need:,} bytes were there",
                                where=where, todo=_TODO)
    _check_size(head, len(body), where)
    if behind:
        log.warn(f"{plural(behind, 'byte')} after the gzip stream are ignored")
    return head, body


def _inflate(stream: zlib._Decompress, packed: bytes, most: int) -> tuple[memoryview, int]:
    """At most so many bytes of a stream, and how many of ``packed`` are behind its end. Piece by piece, in the cache: a
    large output in one is put together twice."""
    out, at, start = bytearray(most), 0, 0
    while start < len(packed) and at < most and not stream.eof:
        piece = stream.decompress(packed[start:start + _PIECE], most - at)
        out[at:at + len(piece)] = piece
        at += len(piece)
        start += _PIECE
    return memoryview(out)[:at], len(stream.unused_data) + max(len(packed) - start, 0)


def _reason(error: zlib.error) -> str:
    return str(error).rpartition(": ")[2]


def _head(data: bytes, where: str) -> SpzHead:
    if len(data) < _HEADER.size:
        raise CorruptInputError(f"has {plural(len(data), 'byte')} of the 16 of an SPZ header", where=where, todo=_TODO)
    magic, version, count, degree, bits, flags, _ = _HEADER.unpack(data)
    if magic != SPZ_MAGIC:
        raise CorruptInputError("is no SPZ file: its stream does not begin with NGSP", where=where, todo=_TODO)
    if version > 4:
        raise UnsupportedFormatError(f"is SPZ version {version}, of which this version reads 1 to 4", where=where,
                                     todo="Export it as SPZ version 3 or 4, .ply or .sog")
    if version < 1:
        raise CorruptInputError("is SPZ version 0, which does not exist", where=where, todo=_TODO)
    if degree not in SH_REST:
        raise CorruptInputError(f"its SH degree is {degree}, not 0 to 4", where=f"{where}, byte 12", todo=_TODO)
    if version > 1 and bits > 24:
        raise CorruptInputError(f"its positions have {bits} fractional bits of 24", where=f"{where}, byte 13",
                                todo=_TODO)
    return SpzHead(version, count, degree, bits, flags)


def _check_size(head: SpzHead, most: int, where: str) -> None:
    need = head.count * sum(head.widths)
    if need > most:
        raise CorruptInputError(f"announces {plural(head.count, 'splat')}, which take {need:,} bytes, but holds at "
                                f"most {most:,}", where=where, todo=_TODO)
    check_count(head.count, where)


def _open_4(data: bytes, log: ReadLog, where: str) -> tuple[SpzHead, list[NDArray[np.uint8]], bytes]:
    """Header of 32 bytes, extensions, a table of the streams' sizes (packed, unpacked), the streams."""
    log.details["encoding"] = "Zstandard"
    head = _head(data[:_HEADER.size], where)
    if len(data) < _HEADER_4:
        raise CorruptInputError(f"has {plural(len(data), 'byte')} of the 32 of an SPZ header", where=where, todo=_TODO)
    streams, (table,) = data[15], struct.unpack_from("<I", data, 16)
    widths = [w for w in head.widths if w]
    if streams != len(widths):
        raise CorruptInputError(f"has {plural(streams, 'stream')}, where its harmonics of degree {head.degree} ask for "
                                f"{len(widths)}", where=f"{where}, byte 15", todo=_TODO)
    at = table + _STREAM.size * streams
    if table < _HEADER_4 or at > len(data):
        raise CorruptInputError(f"its table of streams at byte {table:,} is not within its {len(data):,} bytes",
                                where=f"{where}, byte 16", todo=_TODO)
    _check_size(head, _LARGEST_RATIO_4 * len(data), where)
    planes = []
    for i, width in enumerate(widths):
        packed, size = _STREAM.unpack_from(data, table + _STREAM.size * i)
        here = f"{where}, stream {i}"
        if size != width * head.count:
            raise CorruptInputError(f"announces {size:,} bytes for {plural(head.count, 'splat')}, which take "
                                    f"{width * head.count:,}", where=here, todo=_TODO)
        if packed > len(data) - at:
            raise CorruptInputError(f"is cut off: {packed:,} bytes are announced, {len(data) - at:,} are left",
                                    where=here, todo=_TODO)
        planes.append(_unpack(data[at:at + packed], size, here).reshape(head.count, width))
        at += packed
    if at < len(data):
        log.warn(f"{plural(len(data) - at, 'byte')} after the last stream are ignored")
    if not head.widths[-1]:
        planes.append(np.zeros((head.count, 0), np.uint8))
    return head, planes, data[_HEADER_4:table]


def _unpack(packed: bytes, size: int, where: str) -> NDArray[np.uint8]:
    import zstandard

    try:
        stated = zstandard.get_frame_parameters(packed).content_size
        if stated not in (size, zstandard.CONTENTSIZE_UNKNOWN):
            raise CorruptInputError(f"its frame holds {stated:,} bytes, {size:,} are needed", where=where, todo=_TODO)
        out = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
    except zstandard.ZstdError as e:
        raise CorruptInputError(f"its Zstandard data is damaged ({' '.join(str(e).split())[:80]})", where=where,
                                todo=_TODO) from None
    if len(out) != size:
        raise CorruptInputError(f"ends early: it holds {len(out):,} of {size:,} bytes", where=where, todo=_TODO)
    return np.frombuffer(out, np.uint8)
