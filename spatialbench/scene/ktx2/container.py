"""The container: header, level index, data format descriptor and metadata, each checked against the file.

Offsets and names are those of the KTX file format specification, version 2 (sections 3 to 5); the descriptor's are
those of the Khronos data format specification, version 1.3 (section 5).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from spatialbench.errors import CorruptInputError, UnsupportedFormatError

__all__ = ["BASIS_LZ", "MAGIC", "NO_SCHEME", "TODO", "ZLIB", "ZSTANDARD", "Container", "read_container"]

MAGIC = b"\xabKTX 20\xbb\r\n\x1a\n"
NO_SCHEME, BASIS_LZ, ZSTANDARD, ZLIB = range(4)
TODO = "Download or export it again"
_HEADER = struct.Struct("<9I4I2Q")
_LEVEL = struct.Struct("<3Q")
_AT_LEVELS = 80
_MAX_METADATA = 1 << 20
_PREMULTIPLIED = 1


@dataclass(frozen=True)
class Container:
    """What a file says of its largest image, and the bytes of it.

    Attributes
    ----------
    width, height : pixels, at least 1.
    vk_format : Vulkan's number of the format; 0 where only the descriptor says it.
    model, transfer : colour model and transfer function of the descriptor; 0 without one.
    premultiplied : colours are multiplied by alpha.
    channels : the descriptor's channel of each sample.
    scheme : how the level is supercompressed.
    level : bytes of level 0 as they lie in the file; ``level_size`` after supercompression is undone (0: not said).
    shared : global data of the supercompression.
    n_levels : levels in the file, at least 1.
    orientation, swizzle : metadata, as written; their defaults are ``rd`` and ``rgba``.
    """

    width: int
    height: int
    vk_format: int
    model: int
    transfer: int
    premultiplied: bool
    channels: tuple[int, ...]
    scheme: int
    level: memoryview
    level_size: int
    shared: memoryview
    n_levels: int
    orientation: str
    swizzle: str


def read_container(data: bytes, where: str) -> Container:
    """Look through a file; nothing is decoded.

    Raises
    ------
    CorruptInputError : cut off, or a field that cannot be.
    UnsupportedFormatError : a volume, an array, a cube map or a line of pixels.
    """
    if len(data) < _AT_LEVELS + _LEVEL.size or not data.startswith(MAGIC):
        raise _broken("its header breaks off", where)
    (vk_format, _, width, height, depth, layers, faces, levels, scheme,
     at_dfd, n_dfd, at_kvd, n_kvd, at_shared, n_shared) = _HEADER.unpack_from(data, len(MAGIC))
    if width == 0 or faces not in (1, 6):
        raise _broken(f"its header announces a width of {width:,} and {faces:,} faces", where)
    shape = ("a cube map" if faces == 6 else "a volume" if depth else "an array of images" if layers > 1
             else "a line of pixels" if height == 0 else "")
    if shape:
        raise UnsupportedFormatError(f"is KTX2 with {shape}", where=where, todo="Export it with flat textures")
    if levels > max(width, height).bit_length():
        raise _broken(f"its header announces {levels:,} levels for {width:,} x {height:,} pixels", where)
    n_levels = max(levels, 1)
    if len(data) < _AT_LEVELS + n_levels * _LEVEL.size:
        raise _broken("its level index breaks off", where)
    at_level, n_level, level_size = _LEVEL.unpack_from(data, _AT_LEVELS)
    view = memoryview(data)
    model, transfer, flags, channels = _descriptor(_part(view, at_dfd, n_dfd, "descriptor", where), where)
    metadata = _metadata(_part(view, at_kvd, n_kvd, "metadata", where), where)
    return Container(width, height, vk_format, model, transfer, bool(flags & _PREMULTIPLIED), channels, scheme,
                     _part(view, at_level, n_level, "level 0", where), level_size,
                     _part(view, at_shared, n_shared, "global data", where), n_levels,
                     metadata.get("KTXorientation", "rd"), metadata.get("KTXswizzle", "rgba"))


def _broken(what: str, where: str) -> CorruptInputError:
    return CorruptInputError(what, where=where, todo=TODO)


def _part(view: memoryview, at: int, size: int, name: str, where: str) -> memoryview:
    if at + size > len(view):
        raise _broken(f"its {name} lies at bytes {at:,} to {at + size:,} of {len(view):,}", where)
    return view[at:at + size]


def _descriptor(part: memoryview, where: str) -> tuple[int, int, int, tuple[int, ...]]:
    """Colour model, transfer function, flags and channels of the basic block, which comes first."""
    if not len(part):
        return 0, 0, 0, ()
    if len(part) < 28 or struct.unpack_from("<I", part, 4)[0] != 0:
        raise _broken("its descriptor does not begin with a basic block", where)
    size = int(struct.unpack_from("<H", part, 10)[0])
    if size < 24 or size % 16 != 8 or 4 + size > len(part):
        raise _broken(f"its descriptor's basic block of {size:,} bytes cannot be", where)
    channels = tuple(part[at + 3] & 15 for at in range(28, 4 + size, 16))
    return part[12], part[14], part[15], channels


def _metadata(part: memoryview, where: str) -> dict[str, str]:
    """Values of the keys that are used here, without what they are closed with."""
    if len(part) > _MAX_METADATA:
        raise _broken(f"its metadata has {len(part):,} bytes", where)
    out: dict[str, str] = {}
    at = 0
    while at + 4 <= len(part):
        size = int(struct.unpack_from("<I", part, at)[0])
        entry = bytes(part[at + 4:at + 4 + size])
        key, closed, value = entry.partition(b"\0")
        if size < 2 or len(entry) < size or not closed:
            raise _broken(f"its metadata breaks off at byte {at:,}", where)
        if key in (b"KTXorientation", b"KTXswizzle"):
            out[key.decode()] = value.rstrip(b"\0").decode("latin-1")
        at += 4 + size + -size % 4
    return out
