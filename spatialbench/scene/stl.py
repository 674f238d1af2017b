"""STL, binary and text: triangles without unit, colour or shared vertices."""

from __future__ import annotations

import re
import struct

import numpy as np

from spatialbench.errors import CorruptInputError, EmptyWorldError, UnsupportedFormatError
from spatialbench.scene.decimal_comma import COMMA_TODO, with_comma
from spatialbench.scene.log import MAX_FACES, ReadLog, Soup
from spatialbench.types import Material

__all__ = ["read_stl"]

_VERTEX = re.compile(rb"(?im)^[ \t]*vertex[ \t]+(\S+)[ \t]+(\S+)[ \t]+(\S+)[ \t]*$")
_TODO = "Download or export it again"


def read_stl(data: bytes, log: ReadLog, where: str) -> Soup:
    """Read an STL file; it is binary when its size fits the number of triangles at byte 80.

    Raises
    ------
    CorruptInputError, EmptyWorldError
    """
    n = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    binary = n >= 0 and len(data) == 84 + 50 * n
    corners = _binary(data, n) if binary else _text(data, log, where)
    log.details["encoding"] = "binary" if binary else "text"
    if len(corners) == 0:
        raise EmptyWorldError("holds no triangles", where=where, todo=_TODO)
    if len(corners) > 3 * MAX_FACES:
        raise UnsupportedFormatError(f"has {len(corners) // 3:,} triangles, more than {MAX_FACES:,}", where=where,
                                     todo="Simplify the mesh")
    faces = np.arange(len(corners), dtype=np.int32).reshape(-1, 3)
    return Soup(corners, faces, np.zeros(len(faces), np.int32), [Material()])


def _binary(data: bytes, n: int) -> np.ndarray:
    record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", 9), ("attribute", "<u2")])
    return np.frombuffer(data, record, n, 84)["corners"].astype(np.float64).reshape(-1, 3)


def _text(data: bytes, log: ReadLog, where: str) -> np.ndarray:
    text = data if b"\n" in data else data.replace(b"\r", b"\n")
    text = text.replace(b"\r\n", b"\n")
    rows = _VERTEX.findall(text)
    announced = len(re.findall(rb"(?im)^[ \t]*vertex\b", text))
    facets = len(re.findall(rb"(?im)^[ \t]*facet\b", text))
    if len(rows) != announced or len(rows) != 3 * facets:
        raise CorruptInputError(f"has {facets:,} facets and {len(rows):,} readable vertex lines of {announced:,}; "
                                "each facet must have three", where=where, todo=_TODO)
    if not re.search(rb"(?im)^[ \t]*endsolid\b", text):
        log.warn("the STL file has no 'endsolid' line: it may be cut off")
    try:
        values = [float(x) for row in rows for x in row]
    except ValueError:
        for match in _VERTEX.finditer(text):
            try:
                [float(x) for x in match.groups()]
            except ValueError:
                line = text.count(b"\n", 0, match.start()) + 1
                here = f"{where}, line {line}"
                if number := with_comma(match.groups()):
                    raise CorruptInputError(f"the vertex number '{number}' has a decimal comma", where=here,
                                            todo=COMMA_TODO) from None
                shown = match.group().decode("latin-1").strip()[:60]
                raise CorruptInputError(f"cannot read '{shown}' as numbers", where=here, todo=_TODO) from None
        raise
    return np.array(values, dtype=np.float64).reshape(-1, 3)
