"""The header of a PLY file: elements, their properties, and where the body begins."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field

import numpy as np

from spatialbench.errors import CorruptInputError

__all__ = ["MAX_HEADER", "PlyElement", "PlyHeader", "PlyProperty", "parse_ply_header"]

MAX_HEADER = 1 << 20
_TYPES = {"char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
          "ushort": "u2", "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
          "float": "f4", "float32": "f4", "double": "f8", "float64": "f8"}
_FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_TODO = "Export it again"


@dataclass(frozen=True)
class PlyProperty:
    """A column; ``count_type`` is set for a list."""

    name: str
    type: str
    count_type: str = ""


@dataclass
class PlyElement:
    """A table of ``count`` rows."""

    name: str
    count: int
    properties: list[PlyProperty] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [p.name for p in self.properties]

    @property
    def least_row(self) -> int:
        """Bytes that a row has at the least in a binary body (lists empty)."""
        return sum(np.dtype(p.count_type or p.type).itemsize for p in self.properties)


@dataclass
class PlyHeader:
    """Parsed header of ``lines`` lines; ``order`` is ``""`` (text), ``<`` or ``>``; ``body`` is the byte after it."""

    order: str
    elements: list[PlyElement]
    body: int
    comments: list[str]
    lines: int

    def element(self, name: str) -> PlyElement | None:
        """The element of that name, if there is one."""
        return next((e for e in self.elements if e.name == name), None)


def parse_ply_header(data: bytes | mmap.mmap, where: str) -> PlyHeader:
    """Parse the header at the start of ``data``.

    Lines end as the first one does, in LF (which a CR may precede, in any of them) or in CR alone, so that the first
    byte of a binary body is never taken for a part of a line end.

    Raises
    ------
    CorruptInputError : a line that cannot be read, named by its number; or no end within 1 MiB.
    """
    head = bytes(data[:MAX_HEADER])
    if head[3:4] == b"\n" or head[3:5] == b"\r\n":
        end = b"\n"
    elif head[3:4] == b"\r":
        end = b"\r"
    else:
        raise CorruptInputError("its first line is not 'ply'", where=f"{where}, line 1", todo=_TODO)
    order: str | None = None
    elements: list[PlyElement] = []
    comments: list[str] = []
    position, number = head.find(end) + 1, 1
    while True:
        stop = head.find(end, position)
        number += 1
        here = f"{where}, line {number}"
        if stop < 0:
            if head[position:].strip() == b"end_header" and len(head) == len(data):
                stop = len(head)  # a file without a body, and without a last line end
            else:
                raise CorruptInputError("its PLY header has no end_header line", where=here,
                                        todo=_TODO + "; it may be cut off")
        words = head[position:stop].decode("latin-1").split()
        position = min(stop + 1, len(head))
        key = words[0] if words else ""
        if key == "end_header":
            break
        if key in ("comment", "obj_info", ""):
            comments.append(" ".join(words[1:]))
        elif key == "format":
            if len(words) < 2 or words[1] not in _FORMATS:
                raise CorruptInputError(f"unknown PLY format '{' '.join(words[1:])[:40]}'", where=here, todo=_TODO)
            order = _FORMATS[words[1]]
        elif key == "element":
            elements.append(_element(words, elements, here))
        elif key == "property":
            if not elements:
                raise CorruptInputError("a property stands before any element", where=here, todo=_TODO)
            elements[-1].properties.append(_property(words, elements[-1], here))
        else:
            raise CorruptInputError(f"unknown word {key[:20]!r} in the PLY header", where=here, todo=_TODO)
    if order is None:
        raise CorruptInputError("its PLY header names no format", where=where, todo=_TODO)
    return PlyHeader(order, elements, position, comments, number)


def _element(words: list[str], elements: list[PlyElement], here: str) -> PlyElement:
    if len(words) != 3 or not (words[2].isascii() and words[2].isdigit()) or len(words[2]) > 18:
        raise CorruptInputError("an element line must be 'element NAME COUNT'", where=here, todo=_TODO)
    if any(e.name == words[1] for e in elements):
        raise CorruptInputError(f"element '{words[1]}' is declared twice", where=here, todo=_TODO)
    return PlyElement(words[1], int(words[2]))


def _property(words: list[str], element: PlyElement, here: str) -> PlyProperty:
    is_list = len(words) == 5 and words[1] == "list"
    types = words[2:4] if is_list else words[1:2]
    if not (is_list or len(words) == 3) or any(t not in _TYPES for t in types):
        raise CorruptInputError(f"cannot read the property line '{' '.join(words)[:60]}'", where=here, todo=_TODO)
    if words[-1] in element.names:
        raise CorruptInputError(f"property '{words[-1]}' is declared twice", where=here, todo=_TODO)
    if not is_list:
        return PlyProperty(words[2], _TYPES[words[1]])
    if _TYPES[words[2]][0] == "f":
        raise CorruptInputError("the length of a list must be an integer type", where=here, todo=_TODO)
    return PlyProperty(words[4], _TYPES[words[3]], _TYPES[words[2]])
