"""Points of a glTF or GLB file that places nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.gltf.accessors import Accessors
from spatialbench.scene.gltf.container import Buffers, parse_document, split_glb
from spatialbench.scene.gltf.deform import expand_instances
from spatialbench.scene.gltf.extensions import check_extensions, holds_splats
from spatialbench.scene.gltf.nodes import place_nodes, transform
from spatialbench.scene.gltf.schema import Primitive
from spatialbench.scene.log import MAX_VERTICES, ReadLog

__all__ = ["read_gltf_points"]

_POINTS, _TRIANGLES = 0, 4


def read_gltf_points(data: bytes, folder: WorldFolder, log: ReadLog, where: str
                     ) -> tuple[NDArray[np.float64], NDArray[np.float32] | None] | None:
    """Positions [N,3] of every node's copy of every primitive of points, in the scene's frame, and linear RGBA [N,4]
    (white where a primitive has no colours; None where none has). None where the default scene places faces or splats,
    or no points.

    Raises
    ------
    CorruptInputError, MissingInputError : it cannot be read.
    UnsupportedFormatError : more points than a world may have vertices, or an extension that is not read.
    """
    text, binary = split_glb(data, log, where) if data[:4] == b"glTF" else (data, None)
    doc = parse_document(text, log, where)
    check_extensions(doc, log, where)
    placed = place_nodes(doc, log, where)
    accessors = Accessors(doc, Buffers(doc, binary, folder, where), where)
    expand_instances(doc, placed, accessors, where)
    found: list[tuple[Primitive, str, NDArray[np.float64]]] = []
    count = 0
    for _, mesh, matrix in placed.meshes:
        for k, p in enumerate(doc.meshes[mesh].primitives):
            by = f"mesh {mesh} primitive {k}"
            if p.mode >= _TRIANGLES or holds_splats(p):
                return None
            if p.mode == _POINTS and "POSITION" in p.attributes:
                found.append((p, by, matrix))
                count += accessors.check(p.attributes["POSITION"], by, (3,))
    if not count:
        return None
    if count > MAX_VERTICES:
        raise UnsupportedFormatError(f"has {count:,} points, more than {MAX_VERTICES:,}", where=where,
                                     todo="Thin it out")
    positions = np.empty((count, 3))
    colors = np.ones((count, 4), np.float32) if any("COLOR_0" in p.attributes for p, _, _ in found) else None
    at = 0
    for p, by, matrix in found:
        points = accessors.floats(p.attributes["POSITION"], by, (3,))
        part = slice(at, at + len(points))
        transform(points, matrix, positions[part])
        if colors is not None and "COLOR_0" in p.attributes:
            own = accessors.singles(p.attributes["COLOR_0"], f"{by} COLOR_0", (3, 4))
            if len(own) != len(points):
                raise CorruptInputError(f"COLOR_0 has {len(own):,} elements, POSITION has {len(points):,}",
                                        where=f"{where}, {by}", todo="Download or export it again")
            colors[part, :own.shape[1]] = own
        at = part.stop
    return positions, colors
