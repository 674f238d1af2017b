"""A glTF or GLB file as one soup of triangles: every node's copy of every primitive of the default scene."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, EmptyWorldError, UnsupportedFormatError
from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.clean import check_indices, check_used_finite
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.gltf.accessors import Accessors
from spatialbench.scene.gltf.compressed import decompress
from spatialbench.scene.gltf.container import Buffers, parse_document, split_glb
from spatialbench.scene.gltf.deform import Skinning, expand_instances, joint_matrices, morph, skinning_of
from spatialbench.scene.gltf.extensions import check_extensions, holds_splats
from spatialbench.scene.gltf.gaussians import read_gaussians
from spatialbench.scene.gltf.lights import read_lights
from spatialbench.scene.gltf.materials import Look, Materials
from spatialbench.scene.gltf.nodes import Placed, place_nodes, transform
from spatialbench.scene.gltf.schema import Gltf, Primitive
from spatialbench.scene.log import MAX_FACES, MAX_VERTICES, ReadLog, Soup
from spatialbench.types import Material

__all__ = ["read_gltf"]

_TRIANGLES, _STRIP, _FAN = 4, 5, 6
_TODO = "Download or export it again"


def read_gltf(data: bytes, folder: WorldFolder, log: ReadLog, where: str) -> Soup:
    """Read a GLB (by its magic) or a glTF document with its buffers; Gaussians in it are in ``Soup.splats``.

    Raises
    ------
    CorruptInputError, MissingInputError, UnsupportedFormatError, EmptyWorldError
    """
    text, binary = split_glb(data, log, where) if data[:4] == b"glTF" else (data, None)
    doc = parse_document(text, log, where)
    check_extensions(doc, log, where)
    placed = place_nodes(doc, log, where)
    buffers = Buffers(doc, binary, folder, where)
    accessors = Accessors(doc, buffers, where)
    n_instances = expand_instances(doc, placed, accessors, where)
    splats = read_gaussians(doc, placed, accessors, buffers, log, where)
    builder = _Builder(doc, placed, accessors, Materials(doc, buffers, folder, log, where), log, where)
    soup = builder.build()
    builder.materials.note_missing()
    log.details |= {"generator": str(doc.asset.generator)[:120] if doc.asset.generator else "",
                    "nodes": placed.n_nodes, "meshes": len(doc.meshes), "primitives_placed": builder.n_placed}
    if n_instances:
        log.details["instances"] = n_instances
    if builder.n_compressed:
        log.details["primitives_draco"] = builder.n_compressed
    soup.cameras, soup.splats = tuple(placed.cameras), splats
    soup.lights = read_lights(doc, placed, log, where)
    return soup


@dataclass
class _Piece:
    """One decoded primitive: faces [F,3] into block ``block``, uv and colours for each vertex or None."""

    faces: NDArray[np.int32]
    block: int
    look: Look
    uv: NDArray[np.float32] | None
    colors: NDArray[np.float32] | None


@dataclass(frozen=True)
class _Pose:
    """A mesh with the weights of its morph targets (empty when all are 0) and its skin."""

    mesh: int
    weights: tuple[float, ...] = ()
    skin: int | None = None

    def block(self, p: Primitive, k: int) -> tuple[int, int, int]:
        """Primitives with the same key share their vertices."""
        joints = -1 if self.skin is None else p.attributes.get("JOINTS_0", -1)
        return p.attributes["POSITION"], joints, k if self.weights and p.targets else -1


@dataclass
class _Decoded:
    """A mesh: blocks of vertices, shared by the primitives that share an accessor, each with its skinning."""

    blocks: list[NDArray[np.float64]] = field(default_factory=list)
    skinnings: list[Skinning | None] = field(default_factory=list)
    pieces: list[_Piece] = field(default_factory=list)


class _Builder:
    def __init__(self, doc: Gltf, placed: Placed, accessors: Accessors, materials: Materials, log: ReadLog,
                 where: str) -> None:
        self.doc, self.placed, self.accessors, self.materials = doc, placed, accessors, materials
        self.log, self.where = log, where
        self.n_placed = self.n_compressed = 0
        self.skipped = {"points": 0, "lines": 0, "splats": 0}

    def build(self) -> Soup:
        """Count first, then fill arrays of the final size, mesh by mesh."""
        copies: dict[_Pose, list[NDArray[np.float64]]] = {}
        for node, mesh, matrix in self.placed.meshes:
            copies.setdefault(self._pose(node, mesh), []).append(matrix)
        n_faces, n_vertices, textured, colored = self._count(copies)
        self._refuse_without_faces(n_faces)
        vertices = np.empty((n_vertices, 3))
        faces = np.empty((n_faces, 3), np.int32)
        ids = np.empty(n_faces, np.int32)
        uv = np.zeros((n_faces, 3, 2), np.float32) if textured else None
        colors = np.ones((n_faces, 3, 4), np.float32) if colored else None
        table: dict[int, int] = {}
        looks: list[Material] = []
        v = f = 0
        for pose, matrices in copies.items():
            decoded = self._decode(pose)
            joints = None if pose.skin is None else joint_matrices(self.doc, pose.skin, self.placed, self.accessors,
                                                                   self.where)
            for matrix in matrices:
                turned_over = bool(np.linalg.det(matrix[:3, :3]) < 0)
                starts, mirrored = [], []
                for block, skinning in zip(decoded.blocks, decoded.skinnings, strict=True):
                    mirrored.append(turned_over)
                    if joints is None or skinning is None:
                        transform(block, matrix, vertices[v:v + len(block)])
                    else:
                        vertices[v:v + len(block)], mirrored[-1] = skinning.apply(block, joints, self.where)
                    starts.append(v)
                    v += len(block)
                for piece in decoded.pieces:
                    material = piece.look.material
                    if id(material) not in table:
                        table[id(material)] = len(looks)
                        looks.append(material)
                    span = slice(f, f + len(piece.faces))
                    turned = piece.faces[:, [0, 2, 1]] if mirrored[piece.block] else piece.faces
                    np.add(turned, np.int32(starts[piece.block]), out=faces[span])
                    ids[span] = table[id(material)]
                    if uv is not None and piece.uv is not None:
                        _of_corners(piece.uv, turned, uv[span])
                    if colors is not None and piece.colors is not None:
                        _of_corners(piece.colors, turned, colors[span])
                    f += len(piece.faces)
                    self.n_placed += 1
        return Soup(vertices, faces, ids, looks, uv, colors)

    def _pose(self, node: int, mesh: int) -> _Pose:
        weights = self.doc.nodes[node].weights or self.doc.meshes[mesh].weights or []
        skin = self.doc.nodes[node].skin
        if skin is not None and not any("JOINTS_0" in p.attributes for p in self.doc.meshes[mesh].primitives):
            skin = None
        return _Pose(mesh, tuple(weights) if any(weights) else (), skin)

    def _count(self, copies: dict[_Pose, list[NDArray[np.float64]]]) -> tuple[int, int, bool, bool]:
        """Faces and vertices as placed, whether there are textures and colours; no array is made yet."""
        n_faces = n_vertices = 0
        textured = colored = False
        for pose, matrices in copies.items():
            blocks = set()
            for k, p in enumerate(self.doc.meshes[pose.mesh].primitives):
                by = f"mesh {pose.mesh} primitive {k}"
                if not self._is_surface(p, len(matrices)):
                    continue
                positions = p.attributes["POSITION"]
                if decompress(p, self.accessors, by, f"{self.where}, {by}", MAX_FACES - n_faces):
                    self.n_compressed += 1
                count = self.accessors.check(positions, by, (3,))
                corners = count if p.indices is None else self.accessors.check(p.indices, by, (1,))
                n_faces += len(matrices) * (corners // 3 if p.mode == _TRIANGLES else max(corners - 2, 0))
                if pose.block(p, k) not in blocks:
                    blocks.add(pose.block(p, k))
                    n_vertices += len(matrices) * count
                textured = textured or self.materials.look(p.material, by).material.texture is not None
                colored = colored or "COLOR_0" in p.attributes
        for name, n in (("points", self.skipped["points"]), ("lines", self.skipped["lines"])):
            self.log.repair(f"primitives_of_{name}_skipped", n, "no faces; left out")
        if n_faces > MAX_FACES or n_vertices > MAX_VERTICES:
            raise UnsupportedFormatError(f"places {n_faces:,} faces and {n_vertices:,} vertices, more than "
                                         f"{MAX_FACES:,} faces", where=self.where, todo="Simplify the world")
        return n_faces, n_vertices, textured, colored

    def _is_surface(self, p: Primitive, copies: int) -> bool:
        if holds_splats(p):
            self.skipped["splats"] += copies  # read apart
            return False
        if p.mode < _TRIANGLES:
            self.skipped["points" if p.mode == 0 else "lines"] += copies
            return False
        if "POSITION" not in p.attributes:
            self.log.warn("a primitive without positions is left out")
            return False
        return True

    def _refuse_without_faces(self, n_faces: int) -> None:
        if n_faces or self.skipped["splats"]:
            return
        if self.skipped["points"]:
            raise UnsupportedFormatError("is a point cloud (glTF points and no faces)", where=self.where,
                                         todo="Give a mesh: a point cloud has no surface to draw or to walk on")
        lines = f" (only {self.skipped['lines']} primitives of lines)" if self.skipped["lines"] else ""
        raise EmptyWorldError(f"places no faces{lines}", where=self.where,
                              todo="Export the world as a mesh, with its nodes in the default scene")

    def _decode(self, pose: _Pose) -> _Decoded:
        out = _Decoded()
        block_of: dict[tuple[int, int, int], int] = {}
        for k, p in enumerate(self.doc.meshes[pose.mesh].primitives):
            by = f"mesh {pose.mesh} primitive {k}"
            if holds_splats(p) or p.mode < _TRIANGLES or "POSITION" not in p.attributes:
                continue
            key, where = pose.block(p, k), f"{self.where}, {by}"
            if key not in block_of:
                block_of[key] = len(out.blocks)
                points = self.accessors.floats(p.attributes["POSITION"], by, (3,))
                out.blocks.append(morph(points, p, pose.weights, self.accessors, by, where))
                out.skinnings.append(None if pose.skin is None
                                     else skinning_of(p, len(points), self.accessors, by, where))
            block = out.blocks[block_of[key]]
            faces = self._faces(p, len(block), by)
            check_used_finite(block, faces, where)
            look = self.materials.look(p.material, by)
            uv = self._uv(p, look, len(block), by)
            if uv is None and look.material.texture is not None:
                self.log.warn(f"{by} has no texture coordinates for its material; drawn without the texture")
                look = self._bare(look)
            out.pieces.append(_Piece(faces, block_of[key], look, uv, self._colors(p, len(block), by)))
        return out

    def _bare(self, look: Look) -> Look:
        cache = self.__dict__.setdefault("_bare_looks", {})
        return cache.setdefault(id(look), look.bare())

    def _faces(self, p: Primitive, n_vertices: int, by: str) -> NDArray[np.int32]:
        where = f"{self.where}, {by}"
        corners: NDArray
        if p.indices is None:
            corners = np.arange(n_vertices, dtype=np.int32)
        else:
            corners = self.accessors.indices(p.indices, by)
            check_indices(corners, n_vertices, f"{where}, accessor {p.indices}")
        if p.mode == _TRIANGLES:
            if len(corners) % 3:
                self.log.warn(f"{by} has {len(corners)} corners, which is no multiple of three; the rest is left out")
            return corners[:len(corners) // 3 * 3].astype(np.int32).reshape(-1, 3)
        n = max(len(corners) - 2, 0)
        i = np.arange(n)
        if p.mode == _STRIP:
            odd = i % 2
            pattern = np.stack([i, i + 1 + odd, i + 2 - odd], axis=1)
        else:
            pattern = np.stack([i + 1, i + 2, np.zeros_like(i)], axis=1)
        return corners[pattern].astype(np.int32).reshape(-1, 3)

    def _uv(self, p: Primitive, look: Look, n_vertices: int, by: str) -> NDArray[np.float32] | None:
        name = f"TEXCOORD_{look.texcoord}"
        if look.material.texture is None or name not in p.attributes:
            return None
        if look.uv_map is None:
            return self._attribute(p, name, (2,), n_vertices, by)
        uv = self.accessors.floats(p.attributes[name], f"{by} {name}", (2,))
        self._check_count(len(uv), name, n_vertices, by)
        return (uv @ look.uv_map[:, :2].T + look.uv_map[:, 2]).astype(np.float32)

    def _colors(self, p: Primitive, n_vertices: int, by: str) -> NDArray[np.float32] | None:
        if "COLOR_0" not in p.attributes:
            return None
        values = self._attribute(p, "COLOR_0", (3, 4), n_vertices, by)
        if values.shape[1] == 4:
            return values
        out = np.ones((n_vertices, 4), np.float32)
        out[:, :3] = values
        return out

    def _attribute(self, p: Primitive, name: str, widths: tuple[int, ...], n_vertices: int,
                   by: str) -> NDArray[np.float32]:
        values = self.accessors.singles(p.attributes[name], f"{by} {name}", widths)
        self._check_count(len(values), name, n_vertices, by)
        return values

    def _check_count(self, count: int, name: str, n_vertices: int, by: str) -> None:
        if count != n_vertices:
            raise CorruptInputError(f"{name} has {count:,} elements, POSITION has {n_vertices:,}",
                                    where=f"{self.where}, {by}", todo=_TODO)


def _of_corners(values: NDArray[np.float32], faces: NDArray[np.int32], out: NDArray[np.float32]) -> None:
    """From values [V,K] of vertices to those of corners [F,3,K]; faces are within range."""
    def block(part: slice) -> None:
        np.take(values, faces[part], axis=0, out=out[part], mode="clip")  # clip: without a temporary

    in_blocks(len(faces), block)
