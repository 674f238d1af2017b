"""Undoes supercompression by Zstandard or ZLIB (KTX2, section 5.1); the size is known before, and may not be passed."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.ktx2.container import TODO, ZLIB, ZSTANDARD

__all__ = ["inflate"]

_EXPANSION = {ZSTANDARD: 1 << 15, ZLIB: 1032}
"""Bytes that one byte can become: Zstandard repeats one 128 Ki times in four, Deflate 258 times in two bits."""
_SLACK = 1 << 17


def inflate(data: memoryview, scheme: int, size: int, where: str) -> NDArray[np.uint8]:
    """The ``size`` bytes of a level, [size] uint8.

    Raises
    ------
    CorruptInputError : another size, or damaged data.
    """
    most = _EXPANSION.get(scheme, 1) * len(data) + (_SLACK if scheme else 0)
    if size > most or (scheme not in _EXPANSION and size != len(data)):
        raise CorruptInputError(f"its level 0 has {len(data):,} bytes, which cannot be the {size:,} of its pixels",
                                where=where, todo=TODO)
    if scheme == ZSTANDARD:
        out = _zstandard(data, size, where)
    elif scheme == ZLIB:
        unpack = zlib.decompressobj()
        try:
            out = unpack.decompress(data, size + 1)
        except zlib.error as e:
            raise CorruptInputError(f"its ZLIB data is damaged ({str(e)[:80]})", where=where, todo=TODO) from None
        if not unpack.eof and len(out) <= size:
            raise CorruptInputError("its ZLIB data breaks off", where=where, todo=TODO)
    else:
        return np.frombuffer(data, np.uint8)
    if len(out) != size:
        raise CorruptInputError(f"its level 0 unpacks to {'more than' if len(out) > size else f'{len(out):,} of'} "
                                f"{size:,} bytes", where=where, todo=TODO)
    return np.frombuffer(out, np.uint8)


def _zstandard(data: memoryview, size: int, where: str) -> bytes:
    import zstandard

    try:
        stated = zstandard.get_frame_parameters(data).content_size
        if stated not in (size, zstandard.CONTENTSIZE_UNKNOWN):
            raise CorruptInputError(f"its Zstandard frame holds {stated:,} bytes, its pixels take {size:,}",
                                    where=where, todo=TODO)
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError as e:
        raise CorruptInputError(f"its Zstandard data is damaged ({' '.join(str(e).split())[:80]})", where=where,
                                todo=TODO) from None
