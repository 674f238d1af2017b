"""The body of a PLY file: rows of columns and lists, checked against the bytes that are there."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.decimal_comma import COMMA_TODO, with_comma
from spatialbench.scene.ply_header import PlyElement, PlyHeader

__all__ = ["Column", "ListColumn", "Table", "read_tables"]

_TODO = "Download or export it again"
_LONGEST = 4096  # longer lists are read row by row


@dataclass
class Column:
    """A scalar property: ``values`` [N]."""

    values: NDArray


@dataclass
class ListColumn:
    """A list property: ``counts`` [N] int64 and ``values``, all lists one after the other."""

    counts: NDArray[np.int64]
    values: NDArray


@dataclass
class Table:
    """An element's columns by name."""

    columns: dict[str, Column] = field(default_factory=dict)
    lists: dict[str, ListColumn] = field(default_factory=dict)


def read_tables(data: bytes, header: PlyHeader, wanted: tuple[str, ...], where: str) -> dict[str, Table]:
    """Read the wanted elements; those before them are stepped over, those after the last are not looked at.

    Raises
    ------
    CorruptInputError : fewer bytes, lines or numbers than the header announces; said before memory is taken.
    """
    read = _read_text if header.order == "" else _read_binary
    last = max(i for i, e in enumerate(header.elements) if e.name in wanted)
    tables: dict[str, Table] = {}
    position = header.body
    lines = data[header.body:].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n") if not header.order else []
    cursor = 0
    first_line = header.lines + 1
    for element in header.elements[:last + 1]:
        if read is _read_text:
            table, cursor = _read_text(lines, cursor, element, where, first_line)
        else:
            table, position = _read_binary(data, position, header.order, element, where)
        if element.name in wanted:
            tables[element.name] = table
    return tables


def _short(element: PlyElement, need: str, have: str, where: str, place: str) -> CorruptInputError:
    return CorruptInputError(f"is cut off: the header announces {element.count:,} rows of '{element.name}', "
                             f"which take {need}, the file has {have} left", where=f"{where}, {place}", todo=_TODO)


def _read_binary(data: bytes, position: int, order: str, element: PlyElement, where: str) -> tuple[Table, int]:
    left = len(data) - position
    if element.count * element.least_row > left:
        raise _short(element, f"at least {element.count * element.least_row:,} bytes", f"{left:,}", where,
                     f"byte {position}")
    if element.count == 0 or not element.properties:
        return _empty(element), position
    lists = [p for p in element.properties if p.count_type]
    counts = _first_counts(data, position, order, element) if lists else []
    if counts is not None:
        fields: list[tuple] = []
        length = iter(counts)
        for i, p in enumerate(element.properties):
            if p.count_type:
                fields += [(f"n{i}", order + p.count_type), (f"v{i}", order + p.type, (next(length),))]
            else:
                fields.append((f"v{i}", order + p.type))
        row = np.dtype(fields)
        if element.count * row.itemsize <= left:
            rows = np.frombuffer(data, row, element.count, position)
            if all((rows[f"n{i}"] == rows[f"n{i}"][0]).all() for i, p in enumerate(element.properties) if p.count_type):
                return _from_rows(rows, element), position + element.count * row.itemsize
        if not lists:
            raise _short(element, f"{element.count * row.itemsize:,} bytes", f"{left:,}", where, f"byte {position}")
    return _read_ragged(data, position, order, element, where)


def _first_counts(data: bytes, position: int, order: str, element: PlyElement) -> list[int] | None:
    """Lengths of the lists of the first row; None when they do not fit the file."""
    counts = []
    for p in element.properties:
        kind = np.dtype(order + (p.count_type or p.type))
        if position + kind.itemsize > len(data):
            return None
        if p.count_type:
            n = int(np.frombuffer(data, kind, 1, position)[0])
            position += kind.itemsize + n * np.dtype(p.type).itemsize
            if not 0 <= n <= _LONGEST or position > len(data):
                return None
            counts.append(n)
        else:
            position += kind.itemsize
    return counts


def _from_rows(rows: NDArray, element: PlyElement) -> Table:
    table = Table()
    for i, p in enumerate(element.properties):
        values = rows[f"v{i}"]
        native = values.astype(values.dtype.newbyteorder("="))
        if p.count_type:
            table.lists[p.name] = ListColumn(rows[f"n{i}"].astype(np.int64), native.reshape(-1))
        else:
            table.columns[p.name] = Column(native)
    return table


def _read_ragged(data: bytes, position: int, order: str, element: PlyElement, where: str) -> tuple[Table, int]:
    """Rows whose lists differ in length, one by one."""
    kinds = [(np.dtype(order + (p.count_type or p.type)), np.dtype(order + p.type), bool(p.count_type))
             for p in element.properties]
    pieces: list[list[bytes]] = [[] for _ in kinds]
    counts: list[list[int]] = [[] for _ in kinds]
    size = len(data)
    for _ in range(element.count):
        for k, (head, item, is_list) in enumerate(kinds):
            stop = position + head.itemsize
            if is_list:
                n = int.from_bytes(data[position:stop], "little" if order == "<" else "big",
                                   signed=head.kind == "i")
                position, stop = stop, stop + n * item.itemsize
                counts[k].append(n)
                if n < 0:
                    raise CorruptInputError(f"a list of '{element.name}' has the length {n}",
                                            where=f"{where}, byte {position}", todo=_TODO)
            if stop > size:
                raise _short(element, f"more than {size - position:,} bytes", f"{max(size - position, 0):,}", where,
                             f"byte {min(position, size)}")
            pieces[k].append(data[position:stop])
            position = stop
    table = Table()
    for k, p in enumerate(element.properties):
        values = np.frombuffer(b"".join(pieces[k]), kinds[k][1]).astype(p.type)
        if p.count_type:
            table.lists[p.name] = ListColumn(np.array(counts[k], np.int64), values)
        else:
            table.columns[p.name] = Column(values)
    return table, position


def _read_text(lines: list[bytes], cursor: int, element: PlyElement, where: str,
               first_line: int) -> tuple[Table, int]:
    """Rows of numbers, one on each line; empty lines are stepped over."""
    if element.count > len(lines) - cursor:
        raise _short(element, f"{element.count:,} lines", f"{len(lines) - cursor:,}", where,
                     f"line {first_line + cursor}")
    columns: list[list[float]] = [[] for _ in element.properties]
    counts: list[list[int]] = [[] for _ in element.properties]
    for _ in range(element.count if element.properties else 0):
        while cursor < len(lines) and not lines[cursor].strip():
            cursor += 1
        if cursor >= len(lines):
            raise _short(element, f"{element.count:,} lines", "fewer", where, f"line {first_line + cursor}")
        words = lines[cursor].split()
        here = f"{where}, line {first_line + cursor}"
        cursor += 1
        try:
            at = 0
            for k, p in enumerate(element.properties):
                n = 1
                if p.count_type:
                    n = int(words[at])
                    at += 1
                    counts[k].append(n)
                if n < 0 or at + n > len(words):
                    raise IndexError
                convert = float if p.type[0] == "f" else int
                columns[k].extend(map(convert, words[at:at + n]))
                at += n
            if at != len(words):
                raise IndexError
        except IndexError:
            raise CorruptInputError(f"a row of '{element.name}' has {len(words)} numbers, not those that the header "
                                    "announces", where=here, todo=_TODO) from None
        except ValueError:
            if number := with_comma(words):
                raise CorruptInputError(f"the number '{number}' of '{element.name}' has a decimal comma", where=here,
                                        todo=COMMA_TODO) from None
            shown = lines[cursor - 1].decode("latin-1").strip()[:60]
            raise CorruptInputError(f"cannot read '{shown}' as numbers for '{element.name}'", where=here,
                                    todo=_TODO) from None
    table = Table()
    for k, p in enumerate(element.properties):
        values = _as_type(columns[k], p.type, element, where)
        if p.count_type:
            table.lists[p.name] = ListColumn(np.array(counts[k], np.int64), values)
        else:
            table.columns[p.name] = Column(values)
    return table, cursor


def _as_type(values: list[float], kind: str, element: PlyElement, where: str) -> NDArray:
    if kind[0] == "f":
        return np.array(values, dtype=np.float64)  # a text file's digits are worth more than float32
    info = np.iinfo(kind)
    if values and not (info.min <= min(values) and max(values) <= info.max):
        raise CorruptInputError(f"a number of '{element.name}' does not fit its type", where=where, todo=_TODO)
    return np.array(values, dtype=kind)


def _empty(element: PlyElement) -> Table:
    table = Table()
    for p in element.properties:
        if p.count_type:
            table.lists[p.name] = ListColumn(np.zeros(0, np.int64), np.zeros(0, p.type))
        else:
            table.columns[p.name] = Column(np.zeros(0, p.type))
    return table
