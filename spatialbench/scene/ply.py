"""Mesh PLY, text and binary of either byte order, with colours and texture coordinates."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, EmptyWorldError, InputError, UnsupportedFormatError
from spatialbench.scene.clean import check_indices
from spatialbench.scene.color import srgb_to_linear
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.images import TextureStore, UndecodedTextureError
from spatialbench.scene.log import MAX_FACES, MAX_VERTICES, ReadLog, Soup, warn_folded
from spatialbench.scene.ply_header import PlyElement, PlyHeader, parse_ply_header
from spatialbench.scene.ply_rows import Column, ListColumn, Table, read_tables
from spatialbench.scene.polygons import count_folded, fan
from spatialbench.types import Material

__all__ = ["linear_colors", "read_ply"]

_TODO = "Export it again"
_UV_NAMES = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))
_TEXTURE = re.compile(r"^TextureFile\s+(.+)$", re.IGNORECASE)


def read_ply(data: bytes, folder: WorldFolder, log: ReadLog, where: str) -> Soup:
    """Read a mesh PLY. Polygons are cut into fans; colours are taken as sRGB; texture v runs up, as in OBJ.

    Raises
    ------
    CorruptInputError : rows that do not match the header, indices out of range, polygons without corners.
    EmptyWorldError : no vertices or no faces.
    """
    header = parse_ply_header(data, where)
    log.details["encoding"] = {"": "text", "<": "binary, little-endian", ">": "binary, big-endian"}[header.order]
    vertex, face = header.element("vertex"), header.element("face")
    if vertex is None or face is None or vertex.count == 0 or face.count == 0:
        if header.element("tristrips"):
            raise UnsupportedFormatError("is a PLY of triangle strips, which is not read by this version",
                                         where=where, todo="Export it with plain faces")
        raise EmptyWorldError(f"has {vertex.count if vertex else 0:,} vertices and "
                              f"{face.count if face else 0:,} faces", where=where,
                              todo="Export the world as a mesh with faces")
    _check_columns(vertex, face, len(data), where)
    tables = read_tables(data, header, ("vertex", "face"), where)
    return _assemble(tables["vertex"], tables["face"], header, folder, log, where)


def _check_columns(vertex: PlyElement, face: PlyElement, size: int, where: str) -> None:
    for p in vertex.properties:
        if p.count_type:
            raise CorruptInputError(f"its vertices have the list property '{p.name}', so rows cannot be told apart",
                                    where=where, todo=_TODO)
    missing = [c for c in "xyz" if c not in vertex.names]
    if missing:
        raise CorruptInputError(f"its vertices have no property {', '.join(missing)}", where=where, todo=_TODO)
    if not any(p.count_type and p.name in ("vertex_indices", "vertex_index") for p in face.properties):
        raise CorruptInputError("its faces have no list 'vertex_indices'", where=where, todo=_TODO)
    most = max(vertex.count, face.count)  # a row takes a byte at the least: more rows than bytes are cut off
    if most <= size and (vertex.count > MAX_VERTICES or face.count > MAX_FACES):
        raise UnsupportedFormatError(f"has {face.count:,} faces and {vertex.count:,} vertices, more than "
                                     f"{MAX_FACES:,} faces", where=where, todo="Simplify the mesh")


def _assemble(vertex: Table, face: Table, header: PlyHeader, folder: WorldFolder, log: ReadLog,
              where: str) -> Soup:
    vertices = np.stack([np.asarray(vertex.columns[c].values, dtype=np.float64) for c in "xyz"], axis=1)
    indices = face.lists.get("vertex_indices") or face.lists["vertex_index"]
    if indices.values.dtype.kind == "f":
        raise CorruptInputError("its vertex indices are not integers", where=where, todo=_TODO)
    check_indices(indices.values, len(vertices), f"{where}, element face", "vertex index")
    corner, source = fan(indices.counts)
    if len(corner) > MAX_FACES:
        raise UnsupportedFormatError(f"has {len(corner):,} triangles, more than {MAX_FACES:,}", where=where,
                                     todo="Simplify the mesh")
    log.repair("faces_not_polygons", int((indices.counts < 3).sum()), "fewer than three corners; left out")
    if int((indices.counts > 3).sum()):
        log.details["polygons_cut_into_triangles"] = int((indices.counts > 3).sum())
    faces = indices.values[corner].astype(np.int32)
    warn_folded(count_folded(faces, source, vertices), log)
    colors = linear_colors(vertex, lambda a: a[faces])
    if colors is None:
        colors = linear_colors(face, lambda a: np.repeat(a[source][:, None], 3, axis=1))
    material, uv = _texture(vertex, face, indices, corner, faces, header, folder, log)
    return Soup(vertices, faces, np.zeros(len(faces), np.int32), [material], uv, colors)


def linear_colors(table: Table, spread: object) -> NDArray[np.float32] | None:
    """Linear RGBA, one for each corner, from red, green, blue and perhaps alpha columns."""
    for prefix in ("", "diffuse_"):
        rgb = [table.columns.get(prefix + c) for c in ("red", "green", "blue")]
        if all(c is not None for c in rgb):
            alpha = table.columns.get(prefix + "alpha")
            one = Column(np.ones(len(rgb[0].values), np.float32))  # type: ignore[union-attr]
            parts = [srgb_to_linear(_unit(c.values)) for c in rgb]  # type: ignore[union-attr]
            parts.append(_unit((alpha or one).values).astype(np.float32))
            out: NDArray[np.float32] = spread(np.stack(parts, axis=1))  # type: ignore[operator]
            return out
    return None


def _unit(values: NDArray) -> NDArray:
    """Integers as shares of their type's largest value (text files: of 255)."""
    if values.dtype.kind == "f":
        return values
    largest = np.iinfo(values.dtype).max if values.dtype.itemsize <= 2 else 255
    return np.clip(values / largest, 0, 1)


def _texture(vertex: Table, face: Table, indices: ListColumn, corner: NDArray, faces: NDArray, header: PlyHeader,
             folder: WorldFolder, log: ReadLog) -> tuple[Material, NDArray[np.float32] | None]:
    named = [m.group(1).strip() for m in map(_TEXTURE.match, header.comments) if m]
    if not named:
        return Material(), None
    if len(named) > 1:
        log.warn(f"the PLY file names {len(named)} textures; only the first is used")
    uv = None
    per_face = face.lists.get("texcoord")
    if per_face is not None and np.array_equal(per_face.counts, 2 * indices.counts):
        uv = per_face.values.reshape(-1, 2)[corner]
    for u, v in _UV_NAMES:
        if uv is None and u in vertex.columns and v in vertex.columns:
            uv = np.stack([vertex.columns[u].values, vertex.columns[v].values], axis=1)[faces]
    if uv is None:
        log.warn(f"texture '{named[0]}' is not used: the file has no texture coordinates for it")
        return Material(), None
    try:
        pixels = TextureStore(log).decode(folder.read(named[0]), named[0])
    except UndecodedTextureError:
        raise
    except InputError as e:
        log.warn(f"texture '{named[0]}' is left out: {e.what}")
        return Material(), None
    if pixels is None:
        return Material(), None
    uv = uv.astype(np.float32)
    uv[..., 1] = 1 - uv[..., 1]
    return Material(name=named[0], texture=pixels), uv


