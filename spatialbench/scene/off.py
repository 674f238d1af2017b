"""OFF (Geomview's text format): polygons, with colours of vertices or faces."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, EmptyWorldError, UnsupportedFormatError
from spatialbench.scene.clean import check_indices
from spatialbench.scene.color import srgb_to_linear
from spatialbench.scene.decimal_comma import COMMA_TODO, with_comma
from spatialbench.scene.log import MAX_FACES, MAX_VERTICES, ReadLog, Soup, warn_folded
from spatialbench.scene.polygons import count_folded, fan
from spatialbench.types import Material

__all__ = ["OFF_HEADER", "read_off"]

OFF_HEADER = re.compile(rb"(ST)?(C)?(N)?(4)?(n)?OFF(?=[ \t\r\n#])([ \t]+BINARY)?")
_TODO = "Download or export it again"


def read_off(data: bytes, log: ReadLog, where: str) -> Soup:
    """Read an OFF file, one vertex and one face a line. Polygons are cut into fans; colours are taken as sRGB.

    Raises
    ------
    CorruptInputError : cut off, or a line that is none of numbers; named by its number.
    EmptyWorldError : no vertices or no faces.
    UnsupportedFormatError : binary, or of four or n dimensions.
    """
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    header = OFF_HEADER.match(start)
    if header is None:
        raise CorruptInputError("does not begin with OFF", where=f"{where}, line 1", todo=_TODO)
    if header[4] or header[5] or header[6]:
        kind = "binary" if header[6] else "of more than three dimensions"
        raise UnsupportedFormatError(f"is an OFF file that is {kind}, which is not read", where=where,
                                     todo="Export it as plain OFF or as .glb")
    rows, numbers = _lines(data, header[0])
    n_vertices, n_faces = _counts(rows, numbers, where)
    if n_vertices == 0 or n_faces == 0:
        raise EmptyWorldError(f"has {n_vertices:,} vertices and {n_faces:,} faces", where=where,
                              todo="Export the world as a mesh with faces")
    have = len(rows) - 1
    if n_vertices + n_faces > have:
        raise CorruptInputError(f"announces {n_vertices:,} vertices and {n_faces:,} faces, but has {have:,} lines "
                                "of them", where=where, todo=_TODO)
    if n_vertices > MAX_VERTICES or n_faces > MAX_FACES:
        raise UnsupportedFormatError(f"has {n_faces:,} faces, more than {MAX_FACES:,}", where=where,
                                     todo="Simplify the mesh")
    if have > n_vertices + n_faces:
        log.warn(f"{have - n_vertices - n_faces:,} lines after the faces are ignored")
    table, decimal = _table(rows[1:1 + n_vertices], numbers[1:1 + n_vertices], where)
    vertices = np.ascontiguousarray(table[:, :3])
    per_vertex = _vertex_colors(table, decimal, header, log)
    counts, corners, shades = _faces(rows[1 + n_vertices:1 + n_vertices + n_faces],
                                     numbers[1 + n_vertices:1 + n_vertices + n_faces], log, where)
    check_indices(corners, n_vertices, where, "vertex index")
    position, source = fan(counts)
    if len(position) > MAX_FACES:
        raise UnsupportedFormatError(f"has {len(position):,} triangles, more than {MAX_FACES:,}", where=where,
                                     todo="Simplify the mesh")
    log.repair("faces_not_polygons", int((counts < 3).sum()), "fewer than three corners; left out")
    faces = corners[position].astype(np.int32).reshape(-1, 3)
    warn_folded(count_folded(faces, source, vertices), log)
    colors = None
    if per_vertex is not None:
        colors = per_vertex[faces]
    elif shades is not None:
        colors = np.repeat(shades[source][:, None], 3, axis=1)
    return Soup(vertices, faces, np.zeros(len(faces), np.int32), [Material()], colors=colors)


def _lines(data: bytes, header: bytes) -> tuple[list[bytes], list[int]]:
    """Lines that say something, without comments and without the header's word, and their numbers."""
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    rows: list[bytes] = []
    numbers: list[int] = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if b"#" in line:
            line = line[:line.index(b"#")]
        line = line.strip()
        if not rows and not numbers and line.startswith(header):
            line, header = line[len(header):].strip(), b"\xff"
        if line:
            rows.append(line)
            numbers.append(number)
    return rows, numbers


def _counts(rows: list[bytes], numbers: list[int], where: str) -> tuple[int, int]:
    if not rows:
        raise CorruptInputError("ends before its counts", where=where, todo=_TODO)
    parts = rows[0].split()
    if len(parts) not in (2, 3) or not all(re.fullmatch(rb"\d{1,18}", p) for p in parts):
        raise CorruptInputError(f"cannot read '{_show(rows[0])}' as the numbers of vertices, faces and edges",
                                where=f"{where}, line {numbers[0]}", todo=_TODO)
    return int(parts[0]), int(parts[1])


def _table(rows: list[bytes], numbers: list[int], where: str) -> tuple[NDArray[np.float64], bool]:
    """[V,K] the lines of vertices, and whether a decimal point stands in what follows the coordinates."""
    width = len(rows[0].split())
    values: NDArray[np.float64] | None = None
    if width >= 3:
        parts = b" ".join(rows).split()
        if len(parts) == width * len(rows):
            try:
                values = np.array(parts, dtype=np.float64).reshape(len(rows), width)
            except ValueError:
                values = None
            else:
                # A line with one number more and one with one less would come out shifted.
                if any(len(r.split()) != width for r in rows):
                    values = None
    if values is not None:
        return values, b"." in b"".join(rows[0].split()[3:])
    for row, number in zip(rows, numbers, strict=True):
        try:
            n = len([float(p) for p in row.split()])
        except ValueError:
            n = 0
        if n != width or n < 3:
            if comma := with_comma(row.split()):
                raise CorruptInputError(f"the vertex number '{comma}' has a decimal comma",
                                        where=f"{where}, line {number}", todo=COMMA_TODO)
            raise CorruptInputError(f"cannot read '{_show(row)}' as a vertex of {max(width, 3)} numbers",
                                    where=f"{where}, line {number}", todo=_TODO)
    raise CorruptInputError("its vertices cannot be read as numbers", where=where, todo=_TODO)


def _vertex_colors(table: NDArray[np.float64], decimal: bool, header: re.Match[bytes],
                   log: ReadLog) -> NDArray[np.float32] | None:
    """Linear RGBA [V,4] of a header with C: after the coordinates and the normal, before texture coordinates."""
    extra = table.shape[1] - 3
    if not header[2]:
        if extra and not header[3] and not header[1]:
            log.warn(f"{extra} numbers after the coordinates of vertices are ignored: the header 'OFF' names none")
        return None
    n = extra - (3 if header[3] else 0) - (2 if header[1] else 0)
    if n not in (3, 4):
        log.warn(f"the colours of vertices are ignored: they have {n} numbers")
        return None
    first = 6 if header[3] else 3
    return _linear(table[:, first:first + n], decimal)


def _faces(rows: list[bytes], numbers: list[int], log: ReadLog, where: str
           ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32] | None]:
    """Corners of each face, all corners one after the other, and linear RGBA [P,4] of faces that have a colour."""
    plain = _plain_faces(rows)
    if plain is not None:
        return np.full(len(rows), plain.shape[1], np.int64), plain.reshape(-1), None
    counts, corners = np.zeros(len(rows), np.int64), []
    shades: NDArray[np.float32] | None = None
    indexed = 0
    for k, (row, number) in enumerate(zip(rows, numbers, strict=True)):
        parts = row.split()
        try:
            n = int(parts[0])
            if not 0 <= n < len(parts):
                raise ValueError
            face = [int(p) for p in parts[1:1 + n]]
            color = [float(p) for p in parts[1 + n:]]
        except ValueError:
            raise CorruptInputError(f"cannot read '{_show(row)}' as a face", where=f"{where}, line {number}",
                                    todo=_TODO) from None
        counts[k] = n
        corners.append(face)
        if len(color) in (3, 4):
            if shades is None:
                shades = np.ones((len(rows), 4), np.float32)
            shades[k] = _linear(np.array([color]), b"." in b"".join(parts[1 + n:]))[0]
        elif color:
            indexed += 1
    if indexed:
        log.warn(f"the colours of {indexed:,} faces are ignored: they are no three or four numbers")
    flat = [i for face in corners for i in face]
    if flat and not -2**62 < min(flat) <= max(flat) < 2**62:
        raise CorruptInputError("has vertex indices of more than 62 bits", where=where, todo=_TODO)
    return counts, np.array(flat, dtype=np.int64), shades


def _plain_faces(rows: list[bytes]) -> NDArray[np.int64] | None:
    """[P,n] corners where every face has the same number and no colour, which is read at once; None if not."""
    n = rows[0].split()[0]
    if not re.fullmatch(rb"\d{1,4}", n) or int(n) < 3:
        return None
    if any(len(r.split()) != int(n) + 1 for r in rows):
        return None
    try:
        table = np.array(b" ".join(rows).split(), dtype=np.int64).reshape(len(rows), int(n) + 1)
    except (ValueError, OverflowError):
        return None
    return table[:, 1:] if (table[:, 0] == int(n)).all() else None


def _linear(values: NDArray[np.float64], decimal: bool) -> NDArray[np.float32]:
    """Linear RGBA of sRGB rows [N,3 or 4]: shares where written with a decimal point, else of 255."""
    share = values if decimal else values / 255.0
    out = np.ones((len(values), 4), np.float32)
    out[:, :3] = srgb_to_linear(np.clip(share[:, :3], 0, 1))
    if values.shape[1] == 4:
        out[:, 3] = np.clip(share[:, 3], 0, 1)
    return out


def _show(row: bytes) -> str:
    return row.decode("latin-1")[:60]
