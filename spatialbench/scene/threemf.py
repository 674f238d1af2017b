"""3MF: an archive of model parts whose build places objects; the file gives its unit."""

from __future__ import annotations

import posixpath
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, EmptyWorldError, UnsupportedFormatError
from spatialbench.scene.archive import Archive
from spatialbench.scene.clean import check_indices
from spatialbench.scene.color import srgb_to_linear
from spatialbench.scene.images import TextureStore
from spatialbench.scene.log import MAX_FACES, MAX_VERTICES, ReadLog, Soup
from spatialbench.scene.threemf_model import Instance, ModelObject, ModelPart, Palette, parse_model
from spatialbench.types import Material

__all__ = ["UNITS", "read_3mf"]

UNITS = {"micron": 1e-6, "millimeter": 1e-3, "centimeter": 1e-2, "inch": 0.0254, "foot": 0.3048, "meter": 1.0}
"""Metres; millimetre when the file does not say."""
_MODEL = "3D/3dmodel.model"
_MODEL_TYPE = "http://schemas.microsoft.com/3dmanufacturing/2013/01/3dmodel"
_WRAP = {"wrap": "repeat", "mirror": "mirror", "clamp": "clamp", "none": "clamp"}
_MAX_DEPTH = 64
_MAX_PLACED = 200_000
_TODO = "Download or export it again"


def read_3mf(data: bytes, log: ReadLog, where: str) -> Soup:
    """Read what the build of a 3MF file places, components unfolded; base materials, colours and textures.

    Raises
    ------
    CorruptInputError : a part that is not XML, an object that does not exist or holds itself, indices out of range.
    MissingInputError : a part or a texture that is named but is not in the archive.
    UnsupportedFormatError : encrypted, or geometry of an extension that is not read.
    EmptyWorldError : the build places no triangles.
    """
    reader = _Reader(Archive(data, where), log, where)
    soup = reader.read()
    log.details |= {"objects_placed": reader.n_placed, "parts": len(reader.parts)}
    return soup


class _Reader:
    def __init__(self, archive: Archive, log: ReadLog, where: str) -> None:
        self.archive, self.log, self.where = archive, log, where
        self.parts: dict[str, ModelPart] = {}
        self.n_placed = self._visits = 0
        self._store = TextureStore(log)
        self._materials: dict[tuple[str, str, int], int] = {}
        self._looks: list[Material] = []

    def read(self) -> Soup:
        root = self._root()
        model = self._part(root, "")
        placed: list[tuple[str, ModelObject, NDArray[np.float64]]] = []
        for item in model.items:
            self._place(item, root, np.eye(4), placed, 0)
        self.n_placed = len(placed)
        n_faces = sum(len(o.corners) // 3 for _, o, _ in placed)
        n_vertices = sum(len(o.vertices) // 3 for _, o, _ in placed)
        if n_faces == 0:
            raise EmptyWorldError("its build places no triangles", where=self.where,
                                  todo="Export the world with its objects in the build")
        if n_faces > MAX_FACES or n_vertices > MAX_VERTICES:
            raise UnsupportedFormatError(f"places {n_faces:,} triangles and {n_vertices:,} vertices, more than "
                                         f"{MAX_FACES:,} triangles", where=self.where, todo="Simplify the world")
        return self._fill(placed, n_vertices, n_faces, model.unit)

    def _fill(self, placed: list[tuple[str, ModelObject, NDArray[np.float64]]], n_vertices: int, n_faces: int,
              unit: str | None) -> Soup:
        vertices, faces = np.empty((n_vertices, 3)), np.empty((n_faces, 3), np.int32)
        ids = np.empty(n_faces, np.int32)
        uv, colors = np.zeros((n_faces, 3, 2), np.float32), np.ones((n_faces, 3, 4), np.float32)
        v = f = 0
        for part, o, matrix in placed:
            points = np.asarray(o.vertices).reshape(-1, 3)
            corners = np.asarray(o.corners).reshape(-1, 3)
            check_indices(corners, len(points), f"{self.where}, object '{o.name}'", "vertex index")
            swap = [0, 2, 1] if np.linalg.det(matrix[:3, :3]) < 0 else [0, 1, 2]
            span = slice(f, f + len(corners))
            vertices[v:v + len(points)] = points @ matrix[:3, :3].T + matrix[:3, 3]
            faces[span] = corners[:, swap] + v
            ids[span], own_uv, own_colors = self._paint(part, o, len(corners))
            uv[span], colors[span] = own_uv[:, swap], own_colors[:, swap]
            v, f = v + len(points), f + len(corners)
        known = UNITS.get(unit) if unit is not None else None
        if unit is not None and known is None:
            self.log.warn(f"its unit '{unit[:40]}' is none of 3MF's; taken as millimetres")
        return Soup(vertices, faces, ids, self._looks, uv if any(m.texture is not None for m in self._looks) else None,
                    colors if (colors != 1).any() else None, unit_m=known)

    def _root(self) -> str:
        """Name of the part where the build is: as the package's relationships say, else the usual one."""
        if not self.archive.has("_rels/.rels"):
            return _MODEL
        found: list[str] = []

        def start(tag: str, a: dict[str, str]) -> None:
            if tag.rpartition("}")[2] == "Relationship" and a.get("Type") == _MODEL_TYPE:
                found.append(a.get("Target", ""))

        parser = expat.ParserCreate(namespace_separator="}")
        parser.StartElementHandler = start
        try:
            parser.Parse(self.archive.read("_rels/.rels", 1 << 20), True)
        except (expat.ExpatError, LookupError, ValueError) as e:
            raise CorruptInputError(f"its relationships cannot be read ({str(e)[:60]})",
                                    where=f"{self.where}, _rels/.rels", todo=_TODO) from None
        return self.archive.clean(found[0], "", "_rels/.rels") if found else _MODEL

    def _part(self, name: str, by: str) -> ModelPart:
        if name not in self.parts:
            self.parts[name] = parse_model(self.archive.read(name, by=by), f"{self.where}, {name}")
        return self.parts[name]

    def _place(self, item: Instance, part: str, above: NDArray[np.float64],
               placed: list[tuple[str, ModelObject, NDArray[np.float64]]], depth: int) -> None:
        if item.path:
            part = self.archive.clean(item.path, posixpath.dirname(part), part)
        o = self._part(part, f"object {item.object}").objects.get(item.object)
        if o is None:
            raise CorruptInputError(f"object {item.object[:20]!r} does not exist", where=f"{self.where}, {part}",
                                    todo=_TODO)
        if depth > _MAX_DEPTH:
            raise CorruptInputError(f"object {item.object[:20]!r} holds itself (or lies below {_MAX_DEPTH} others)",
                                    where=f"{self.where}, {part}", todo=_TODO)
        matrix = above @ item.matrix
        if o.corners:
            placed.append((part, o, matrix))
        self._visits += 1
        if self._visits > _MAX_PLACED:
            raise UnsupportedFormatError(f"places more than {_MAX_PLACED:,} objects", where=self.where,
                                         todo="Simplify the world")
        for child in o.components:
            self._place(child, part, matrix, placed, depth + 1)

    def _paint(self, part: str, o: ModelObject, n: int
               ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        """Material ids [n], texture coordinates [n,3,2] and linear colours [n,3,4] of an object's triangles."""
        ids, uv, colors = np.empty(n, np.int32), np.zeros((n, 3, 2), np.float32), np.ones((n, 3, 4), np.float32)
        picks = np.full((n, 3), -1, np.int64)
        own = np.array(o.pids + [""] * (n - len(o.pids)), dtype=object)
        picks[:len(o.picks) // 3] = np.asarray(o.picks, dtype=np.int64).reshape(-1, 3)
        bare = picks[:, 0] < 0
        picks[bare] = o.pindex
        own[bare | (own == "")] = o.pid
        for pid in sorted(set(own.tolist())):
            rows = np.flatnonzero(own == pid)
            palette = self.parts[part].palettes.get(pid)
            if palette is None:
                if pid:
                    self.log.warn(f"'{o.name}' uses the properties {pid[:20]}, which are not there or not read; "
                                  "drawn white")
                ids[rows] = self._material(part, "", 0, Material())
                continue
            check_indices(picks[rows], len(palette), f"{self.where}, {part}, properties {pid}")
            if palette.texture:
                ids[rows] = self._textured(part, pid, palette)
                table = np.asarray(palette.uv).reshape(-1, 2)
                uv[rows] = np.stack([table[:, 0], 1 - table[:, 1]], axis=1)[picks[rows]]
            else:
                shades = np.array(palette.colors)
                shades[:, :3] = srgb_to_linear(shades[:, :3])
                colors[rows] = shades[picks[rows]]
                for first in np.unique(picks[rows, 0]).tolist():
                    name = palette.names[first]
                    same = rows[picks[rows, 0] == first]
                    ids[same] = self._material(part, name, 0, Material(name=name))
        return ids, uv, colors

    def _material(self, part: str, pid: str, index: int, material: Material) -> int:
        key = (part, pid, index)
        if key not in self._materials:
            self._materials[key] = len(self._looks)
            self._looks.append(material)
        return self._materials[key]

    def _textured(self, part: str, pid: str, palette: Palette) -> int:
        key = (part, f"texture {pid}", 1)
        if key in self._materials:
            return self._materials[key]
        by = f"{part}, texture {palette.texture}"
        known = self.parts[part].textures.get(palette.texture)
        if known is None:
            raise CorruptInputError(f"texture {palette.texture[:20]!r} does not exist", where=f"{self.where}, {part}",
                                    todo=_TODO)
        name = self.archive.clean(known[0], posixpath.dirname(part), by)
        pixels = self._store.decode(self.archive.read(name, by=by), name)
        return self._material(*key, Material(name=name, texture=pixels,
                                             wrap=(_WRAP.get(known[1], "repeat"), _WRAP.get(known[2], "repeat"))))
