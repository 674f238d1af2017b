"""Rows of an OBJ file turned into arrays line by line, with the words for what is wrong in a line."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.decimal_comma import COMMA_TODO, with_comma

__all__ = ["Chunk", "Faces", "make_faces", "parse_faces", "parse_numbers", "resolve"]

_TODO = "Export it again"


@dataclass
class Chunk:
    """What stands behind a keyword, and the line it stands in."""

    rows: list[bytes] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def add(self, row: bytes, line: int) -> None:
        """Take a row, without a comment at its end."""
        self.rows.append(row.split(b"#", 1)[0] if b"#" in row else row)
        self.lines.append(line)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass
class Faces:
    """Polygons: ``counts`` and ``lines`` [P]; ``vertex`` and ``texture`` [sum of counts], 0-based.

    ``texture`` is -1 where a corner has none, and None where none has. An index that pointed before the
    first element is the smallest int32, so that it is out of range in any case.
    """

    counts: NDArray[np.int32]
    lines: NDArray[np.int32]
    vertex: NDArray[np.int32]
    texture: NDArray[np.int32] | None

    def texture_or_none(self) -> NDArray[np.int32]:
        """``texture``, with -1 everywhere for None."""
        return np.full(len(self.vertex), -1, np.int32) if self.texture is None else self.texture


_BAD, _TOP = np.iinfo(np.int32).min, np.iinfo(np.int32).max


def parse_numbers(chunk: Chunk, widths: tuple[int, ...], where: str, noun: str) -> tuple[NDArray, NDArray]:
    """A table of the rows, as wide as the widest, 1.0 where a row is shorter, and each row's width.

    Raises
    ------
    CorruptInputError : a word that is no number or a row of another width; the message has line and text.
    """
    words = [row.split() for row in chunk.rows]
    found = sorted(set(map(len, words)))
    try:
        flat = list(map(float, chain.from_iterable(words)))
    except ValueError:
        raise _bad_number(words, chunk, where, noun) from None
    for i, w in enumerate(words) if not set(found) <= set(widths) else ():
        if len(w) not in widths:
            raise CorruptInputError(f"a {noun} has {len(w)} numbers ('{chunk.rows[i].decode('latin-1').strip()[:60]}')",
                                    where=f"{where}, line {chunk.lines[i]}", todo=_TODO)
    if len(found) == 1:
        return np.array(flat).reshape(len(words), found[0]), np.full(len(words), found[0])
    width = np.array([len(w) for w in words])
    table = np.ones((len(words), found[-1]))
    table[np.arange(found[-1]) < width[:, None]] = flat
    return table, width


def _bad_number(words: list[list[bytes]], chunk: Chunk, where: str, noun: str) -> CorruptInputError:
    for row, line in zip(words, chunk.lines, strict=True):
        for word in row:
            try:
                float(word)
            except ValueError:
                shown = word.decode("latin-1")[:40]
                if with_comma([word]):
                    return CorruptInputError(f"the {noun} number '{shown}' has a decimal comma",
                                             where=f"{where}, line {line}", todo=COMMA_TODO)
                return CorruptInputError(f"cannot read '{shown}' as a {noun} number", where=f"{where}, line {line}",
                                         todo=_TODO)
    raise AssertionError("no bad number")  # pragma: no cover


def parse_faces(chunk: Chunk, before: NDArray[np.int64], where: str) -> Faces:
    """Corners of polygons; ``before`` [P,2] counts positions and texture coordinates above each line.

    Raises
    ------
    CorruptInputError : a corner that cannot be read, or the index 0; with its line.
    """
    words = [row.split() for row in chunk.rows]
    counts = np.fromiter(map(len, words), np.int64, len(words))
    lines = np.array(chunk.lines, np.int64)
    return make_faces(_corners(list(chain.from_iterable(words)), counts, lines, where), counts, lines, before, where)


def make_faces(table: NDArray[np.int64], counts: NDArray[np.int64], lines: NDArray[np.int64],
               before: NDArray[np.int64], where: str) -> Faces:
    """Indices as written (from 1, negative from the end so far) made to count from 0.

    Parameters
    ----------
    table : [corners,2] vertex and texture index, 0 for none.
    before : [P,2] positions and texture coordinates above each face's line.

    Raises
    ------
    CorruptInputError : the vertex index 0.
    """
    if (table[:, 0] == 0).any():
        line = int(np.repeat(lines, counts)[np.flatnonzero(table[:, 0] == 0)[0]])
        raise CorruptInputError("a face uses vertex 0, but an OBJ counts from 1", where=f"{where}, line {line}",
                                todo=_TODO)
    out = []
    for k in range(2):
        index = table[:, k]
        value = index - 1
        if (index < 0).any():
            back = np.repeat(before[:, k], counts) + index
            value = np.where(index >= 0, value, np.where(back >= 0, back, _BAD))
        out.append(np.clip(value, _BAD, _TOP).astype(np.int32))
    return Faces(counts.astype(np.int32), lines.astype(np.int32), out[0], out[1] if table[:, 1].any() else None)


def _corners(flat: list[bytes], counts: NDArray, lines: NDArray, where: str) -> NDArray[np.int64]:
    """[corners,2] of vertex and texture index as written."""
    out = np.zeros((len(flat), 2), np.int64)
    for i, word in enumerate(flat):
        parts = word.split(b"/")
        try:
            if len(parts) > 3:
                raise ValueError
            out[i, 0] = int(parts[0])
            if len(parts) > 1 and parts[1]:
                out[i, 1] = int(parts[1])
                if out[i, 1] == 0:
                    raise ValueError
        except (ValueError, OverflowError):
            line = int(np.repeat(lines, counts)[i])
            raise CorruptInputError(f"cannot read '{word.decode('latin-1')[:40]}' as the corner of a face",
                                    where=f"{where}, line {line}", todo=_TODO) from None
    return out


def resolve(indices: NDArray[np.int32], counts: NDArray, lines: NDArray, n: int, where: str, noun: str, *,
            optional: bool = False) -> NDArray[np.int32]:
    """The indices, checked against the number of elements that the whole file has.

    Raises
    ------
    CorruptInputError : names line, index (from 1, as written) and number of elements.
    """
    bad = (indices >= n) | (indices < (-1 if optional else 0))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        value = int(indices[first])
        line = int(np.repeat(lines, counts)[first])
        shown = "before the first" if value == _BAD else str(value + 1)
        raise CorruptInputError(f"a face uses {noun} {shown} where there are {n:,} ({int(bad.sum()):,} indices out "
                                "of range in all)", where=f"{where}, line {line}", todo=_TODO)
    return indices
