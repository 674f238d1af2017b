"""Wavefront OBJ: positions, colours, texture coordinates, polygons and materials, read in pieces of 1 MiB."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import EmptyWorldError, InputError, UnsupportedFormatError
from spatialbench.scene.color import srgb_to_linear
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.images import TextureStore
from spatialbench.scene.log import MAX_FACES, MAX_VERTICES, ReadLog, Soup, plural, warn_folded
from spatialbench.scene.mtl import ObjMaterial, build_materials, parse_mtl
from spatialbench.scene.obj_fast import FACE, OTHER, POSITION, TEXCOORD, Block, scan
from spatialbench.scene.obj_rows import Chunk, Faces, make_faces, parse_faces, parse_numbers, resolve
from spatialbench.scene.polygons import count_folded, fan
from spatialbench.types import Material

__all__ = ["read_obj"]

_CHUNK = 1 << 19
_FACES = 1 << 16
_V, _VT = (3, 4, 6, 7), (1, 2, 3)  # numbers that a vertex and a texture coordinate may have
_IGNORED = {b"vn", b"vp", b"o", b"g", b"s", b"mg", b"lod", b"bevel", b"c_interp", b"d_interp", b"usemap", b"maplib",
            b"shadow_obj", b"trace_obj", b"cstype", b"deg", b"bmat", b"step", b"parm", b"trim", b"hole", b"scrv",
            b"sp", b"end", b"con", b"call", b"csh", b"ctech", b"stech"}
_NOT_FACES = {b"l": "lines", b"p": "points", b"curv": "curves", b"curv2": "curves", b"surf": "free-form surfaces"}


def read_obj(data: bytes, folder: WorldFolder, log: ReadLog, where: str) -> Soup:
    """Read an OBJ and the material libraries beside it.

    Polygons are cut into fans. Texture v runs up in an OBJ and is turned. Vertex colours and Kd are taken
    as sRGB. A library or texture that is missing is a warning.

    Raises
    ------
    CorruptInputError : a number that cannot be read or an index out of range, with its line.
    EmptyWorldError : no faces.
    """
    reader = _Reader(log, where)
    reader.read(data)
    del data  # it is as large as what is made of it
    if reader.n_faces == 0:
        extra = ", ".join(f"{n:,} {kind}" for kind, n in sorted(reader.skipped.items()))
        raise EmptyWorldError(f"has {reader.n_positions:,} vertices{', ' + extra if extra else ''} and no faces",
                              where=where, todo="Export the world as a mesh with faces")
    return reader.build(folder)


class _Reader:
    def __init__(self, log: ReadLog, where: str) -> None:
        self.log, self.where = log, where
        self.positions: list[NDArray] = []
        self.colors: list[NDArray | None] = []
        self.texcoords: list[NDArray] = []
        self.faces: list[Faces] = []
        self.n_positions = self.n_texcoords = self.n_faces = 0
        self.libraries: list[str] = []
        self.uses: list[tuple[int, str]] = []
        self.skipped: dict[str, int] = {}
        self.unknown: list[int] = []

    def read(self, data: bytes) -> None:
        """Go through the file; a piece ends at a line end."""
        end = b"\n" if b"\n" in data[:_CHUNK] else b"\r"
        position, line, pending = 0, 0, b""
        while position < len(data):
            stop = min(position + _CHUNK, len(data))
            if stop < len(data):
                cut = data.rfind(end, position, stop)
                cut = data.find(end, stop) if cut < 0 else cut
                stop = len(data) if cut < 0 else cut + 1
            text = data[position:stop].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            block = None if pending else scan(text)
            if block is None or not self._block(block, line):
                lines = text.split(b"\n")
                if text.endswith(b"\n"):
                    lines.pop()
                pending = self._lines(lines, line, pending)
            line += text.count(b"\n")
            position = stop

    def _block(self, block: Block, before: int) -> bool:
        """Take a whole piece at once; False, with nothing taken, when it has to be read line by line."""
        is_v, is_vt, is_f = (block.kind == k for k in (POSITION, TEXCOORD, FACE))
        v = block.table(POSITION) if is_v.any() else None
        vt = block.table(TEXCOORD) if is_vt.any() else None
        f = block.corners() if is_f.any() else None
        if (is_v.any() and (v is None or v.shape[1] not in _V)) or (is_f.any() and f is None) or (
                is_vt.any() and (vt is None or vt.shape[1] not in _VT)):
            return False
        for i in np.flatnonzero(block.kind == OTHER):
            words = block.line(i).split(None, 1)
            if words and words[0] not in _IGNORED:
                self._other(words[0], words[1] if len(words) > 1 else b"", before + int(i) + 1,
                            self.n_faces + int(is_f[:i].sum()))
        if f is not None:
            above = np.stack([self.n_positions + np.cumsum(is_v)[is_f], self.n_texcoords + np.cumsum(is_vt)[is_f]], 1)
            self.faces.append(make_faces(f[1], f[0], np.flatnonzero(is_f) + before + 1, above, self.where))
            self.n_faces += len(f[0])
        if v is not None:
            self._add_positions(v, np.full(len(v), v.shape[1]))
        if vt is not None:
            self._add_texcoords(vt)
        self._check_size()
        return True

    def _lines(self, lines: list[bytes], before: int, pending: bytes) -> bytes:
        """Sort the lines of a piece by what they say, then turn them into arrays."""
        v, vt, f = Chunk(), Chunk(), Chunk()
        offset: list[tuple[int, int]] = []
        for number, raw in enumerate(lines, before + 1):
            line = pending + raw if pending else raw
            pending = b""
            if line.endswith(b"\\"):
                pending = line[:-1] + b" "
                continue
            words = line.split(None, 1)
            if not words:
                continue
            key, rest = words[0], words[1] if len(words) > 1 else b""
            if key == b"v":
                v.add(rest, number)
            elif key == b"f" or key == b"fo":
                f.add(rest, number)
                offset.append((self.n_positions + len(v), self.n_texcoords + len(vt)))
            elif key == b"vt":
                vt.add(rest, number)
            elif key not in _IGNORED and key[:1] != b"#":
                self._other(key, rest, number, self.n_faces + len(f))
        if len(f):
            self.faces.append(parse_faces(f, np.array(offset, np.int64), self.where))
            self.n_faces += len(f)
        if len(v):
            self._add_positions(*parse_numbers(v, _V, self.where, "vertex"))
        if len(vt):
            self._add_texcoords(parse_numbers(vt, _VT, self.where, "texture coordinate")[0])
        self._check_size()
        return pending

    def _check_size(self) -> None:
        if self.n_positions > MAX_VERTICES or self.n_faces > MAX_FACES:
            raise UnsupportedFormatError(f"has more than {MAX_FACES:,} faces or {MAX_VERTICES:,} vertices",
                                         where=self.where, todo="Simplify the mesh")

    def _other(self, key: bytes, rest: bytes, number: int, n_faces: int) -> None:
        if key == b"usemtl":
            self.uses.append((n_faces, _text(rest)))
        elif key == b"mtllib":
            self.libraries.append(_text(rest))
        elif key in _NOT_FACES:
            kind = _NOT_FACES[key]
            self.skipped[kind] = self.skipped.get(kind, 0) + 1
        else:
            self.unknown.append(number)

    def _add_positions(self, table: NDArray, width: NDArray) -> None:
        self.n_positions += len(table)
        self.positions.append(np.ascontiguousarray(table[:, :3]))
        colored = table.shape[1] >= 6
        self.colors.append(np.where((width >= 6)[:, None], table[:, 3:6], 1.0) if colored else None)

    def _add_texcoords(self, table: NDArray) -> None:
        self.n_texcoords += len(table)
        if table.shape[1] == 1:
            table = np.concatenate([table, np.zeros_like(table)], axis=1)
        self.texcoords.append(table[:, :2].astype(np.float32))

    def build(self, folder: WorldFolder) -> Soup:
        """Put the pieces together."""
        log, where = self.log, self.where
        if self.unknown:
            log.warn(f"{plural(len(self.unknown), 'line')} not understood, the first is line {self.unknown[0]}")
        for kind, n in sorted(self.skipped.items()):
            log.repair(f"{kind.replace(' ', '_')}_skipped", n, "not faces; left out")
        counts = np.concatenate([c.counts for c in self.faces])
        lines = np.concatenate([c.lines for c in self.faces])
        sizes = [len(p) for p in self.positions]
        vertices = np.concatenate(self.positions) if sizes else np.zeros((0, 3))
        self.positions.clear()
        texcoords = np.concatenate(self.texcoords) if self.texcoords else np.zeros((0, 2), np.float32)
        self.texcoords.clear()
        textures = [c.texture_or_none() for c in self.faces] if any(c.texture is not None for c in self.faces) else []
        corners = [c.vertex for c in self.faces]
        self.faces.clear()
        vi, ti = _joined(corners), _joined(textures) if textures else None
        resolve(vi, counts, lines, len(vertices), where, "vertex")
        if ti is not None:
            resolve(ti, counts, lines, len(texcoords), where, "texture coordinate", optional=True)
        del lines
        log.repair("faces_not_polygons", int((counts < 3).sum()), "fewer than three corners; left out")
        source = None
        if (counts == 3).all():
            faces, tex = vi.reshape(-1, 3), None if ti is None else ti.reshape(-1, 3)
        else:
            corner, source = fan(counts)
            faces, tex = vi[corner], None if ti is None else ti[corner]
            warn_folded(count_folded(faces, source, vertices), log)
        if len(faces) > MAX_FACES:
            raise UnsupportedFormatError(f"has {len(faces):,} triangles, more than {MAX_FACES:,}", where=where,
                                         todo="Simplify the mesh")
        if int((counts > 3).sum()):
            log.details["polygons_cut_into_triangles"] = int((counts > 3).sum())
        ids, materials, uv = self._materials(counts, source, tex, texcoords, folder)
        return Soup(vertices, faces, ids, materials, uv, self._corner_colors(faces, sizes))

    def _corner_colors(self, faces: NDArray[np.int32], sizes: list[int]) -> NDArray[np.float32] | None:
        if all(c is None for c in self.colors):
            return None
        rgb = np.concatenate([np.ones((n, 3)) if c is None else c
                              for n, c in zip(sizes, self.colors, strict=True)])
        largest = float(np.nanmax(rgb)) if np.isfinite(rgb).any() else 1.0
        if 1.0 < largest <= 255.0:
            self.log.warn("vertex colours go beyond 1 and are read as 0 to 255")
            rgb = rgb / 255.0
        rgba = np.ones((len(rgb), 4), np.float32)
        rgba[:, :3] = srgb_to_linear(np.clip(rgb, 0, 1))
        return rgba[faces]

    def _materials(self, counts: NDArray, source: NDArray | None, tex: NDArray | None, texcoords: NDArray,
                   folder: WorldFolder) -> tuple[NDArray[np.int32], list[Material], NDArray[np.float32] | None]:
        """Material of each triangle, materials in order of first use, uv where something is textured."""
        starts = [0] + [s for s, _ in self.uses]
        names = [""] + [n for _, n in self.uses]
        spans = np.diff(np.array(starts + [len(counts)]))
        order = list(dict.fromkeys(names))
        of_polygon = np.repeat(np.array([order.index(n) for n in names], np.int32), spans)
        ids = of_polygon if source is None else of_polygon[source]
        library = self._library(folder)
        used = [name for i, name in enumerate(order) if name and (ids == i).any()]
        missing = [n for n in used if n not in library]
        if missing and library:
            self.log.warn(f"material '{missing[0]}' is in no library"
                          + (f", nor are {len(missing) - 1} others" if len(missing) > 1 else ""))
        store = TextureStore(self.log)
        materials = [build_materials(library.get(n, ObjMaterial(n)) if n in used else ObjMaterial(n), folder, store,
                                     self.log) for n in order]
        if not any(m.texture is not None for m in materials):
            return ids, materials, None
        bare = np.ones(len(ids), bool) if tex is None else (tex < 0).any(axis=1)
        uv = np.zeros((len(ids), 3, 2), np.float32)
        if tex is not None:
            for start in range(0, len(uv), _FACES):
                part = slice(start, start + _FACES)
                np.take(texcoords, tex[part], axis=0, mode="clip", out=uv[part])
            uv[bare] = 0
            uv[..., 1] = 1 - uv[..., 1]
        for i, m in enumerate(list(materials)):
            lost = bare & (ids == i) if m.texture is not None else np.zeros(0, bool)
            if lost.any():
                self.log.warn(f"{plural(int(lost.sum()), 'face')} of material '{m.name}' without texture "
                              "coordinates: drawn without the texture")
                ids[lost] = len(materials)
                materials.append(Material(name=m.name, base_color=m.base_color, alpha_mode=m.alpha_mode))
        return ids, materials, uv

    def _library(self, folder: WorldFolder) -> dict[str, ObjMaterial]:
        out: dict[str, ObjMaterial] = {}
        for entry in dict.fromkeys(self.libraries):
            whole = folder.has(entry) or len(entry.split()) < 2
            for name in [entry] if whole else entry.split():
                try:
                    data = folder.read(name, needed_by="mtllib")
                except InputError as e:
                    self.log.warn(f"material library '{name}' is left out: {e.what}")
                    continue
                for material in parse_mtl(data, name, self.log):
                    out.setdefault(material.name, material)
        return out


def _joined(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """All parts behind one another; the list is emptied, as each is large."""
    out = np.concatenate(parts)
    parts.clear()
    return out


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").strip()
