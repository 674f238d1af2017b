"""The usual OBJ turned into arrays a block of lines at a time, without a Python object for each line.

Anything out of the ordinary in a block (continued lines, comments behind numbers, rows of different
widths, corners written in different ways, anything that is no number) makes the functions here return
None; the block is then read line by line, which also finds the words for what is wrong.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FACE", "OTHER", "POSITION", "TEXCOORD", "Block", "scan"]

POSITION, TEXCOORD, FACE, OTHER = 1, 2, 3, 4
_NEWLINE, _SPACE = 10, 32
_PLAIN = np.zeros(256, bool)
_PLAIN[np.frombuffer(b"0123456789/-+ \n", np.uint8)] = True
_KEYS = {b"v", b"vt", b"f", b"fo"}


@dataclass
class Block:
    """Lines of one block of bytes: ``kind`` [L] of each, and its first byte and the one after its last."""

    data: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def line(self, index: int | np.integer) -> bytes:
        """One line without its end."""
        return self.data[self.starts[index]:self.ends[index]].tobytes()

    def table(self, kind: int) -> NDArray[np.float64] | None:
        """[rows, width] of all numbers of that kind; None if the rows are not alike."""
        text = self._only(kind)
        text[(text == ord("v")) | (text == ord("t"))] = _SPACE
        words, _, _ = _words(text)
        if len(words) == 0 or (words != words[0]).any() or words[0] == 0:
            return None
        values = _numbers(text, np.float64)
        if values is None or len(values) != len(words) * int(words[0]):
            return None
        return values.reshape(len(words), int(words[0]))

    def corners(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Corners of each face [F], and [corners,2] vertex and texture index as written (0: none)."""
        text = self._only(FACE)
        text[text == ord("f")] = _SPACE
        if not _PLAIN[text].all():
            return None
        before = text[np.flatnonzero((text == ord("-")) | (text == ord("+"))) - 1]
        if not ((before == _SPACE) | (before == ord("/"))).all():
            return None
        counts, first, last = _words(text)
        slash = np.concatenate([[0], np.cumsum(text == ord("/"))])
        of_word = slash[last] - slash[first]
        if len(of_word) == 0 or (of_word != of_word[0]).any() or of_word[0] > 2:
            return None
        n = int(of_word[0]) + 1
        doubles = int(((text[:-1] == ord("/")) & (text[1:] == ord("/"))).sum())
        if doubles:
            if n != 3 or doubles != len(of_word):
                return None
            n = 2
        text[text == ord("/")] = _SPACE
        values = _numbers(text, np.int64)
        if values is None or len(values) != n * len(of_word):
            return None
        rows = values.reshape(-1, n)
        out = np.zeros((len(rows), 2), np.int64)
        out[:, 0] = rows[:, 0]
        if n > 1 and not doubles:
            out[:, 1] = rows[:, 1]
            if (rows[:, 1] == 0).any():
                return None
        return counts, out

    def _only(self, kind: int) -> NDArray[np.uint8]:
        """The bytes of all lines of a kind, each with a line end."""
        take = np.repeat(self.kind == kind, np.diff(np.append(self.starts, len(self.data))))
        return self.data[take]


def scan(text: bytes) -> Block | None:
    """Tell the lines of a block (which ends in a line end) apart by their keyword."""
    if b"\\\n" in text or not text.endswith(b"\n"):
        return None
    a = np.frombuffer(text.replace(b"\t", b" "), np.uint8)
    ends = np.flatnonzero(a == _NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    c0, c1, c2 = a[starts], a[np.minimum(starts + 1, ends)], a[np.minimum(starts + 2, ends)]
    kind = np.full(len(starts), OTHER, np.uint8)
    v = c0 == ord("v")
    kind[v & (c1 == _SPACE)] = POSITION
    kind[v & (c1 == ord("t")) & (c2 == _SPACE)] = TEXCOORD
    kind[(c0 == ord("f")) & (c1 == _SPACE)] = FACE
    kind[(v & (c1 == ord("n"))) | (c0 == ord("#")) | (c0 == _NEWLINE)] = 0
    remarks = np.flatnonzero(a == ord("#"))
    inside = kind[np.searchsorted(ends, remarks)]
    if ((inside > 0) & (inside < OTHER)).any():
        return None
    block = Block(a, kind, starts, ends)
    for i in np.flatnonzero(kind == OTHER):
        words = block.line(i).split(None, 1)
        if words and words[0] in _KEYS:
            return None
    return block


def _words(text: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Words on each line, and the first byte and the one after the last of every word."""
    solid = np.concatenate([[False], text > _SPACE, [False]])
    change = np.flatnonzero(solid[1:] != solid[:-1])
    first, last = change[0::2], change[1::2]
    upto = np.searchsorted(first, np.flatnonzero(text == _NEWLINE))
    return np.diff(upto, prepend=0), first, last


def _numbers(text: NDArray[np.uint8], kind: type) -> NDArray | None:
    """All numbers in a text; None where something is no number."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.fromstring(text.tobytes(), dtype=kind, sep=" ")
    except (DeprecationWarning, ValueError):
        return None
