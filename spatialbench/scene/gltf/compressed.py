"""Primitives whose geometry is in a Draco stream: their accessors are filled from it."""

from __future__ import annotations

from pydantic import ValidationError

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.draco import decode_draco
from spatialbench.scene.gltf.accessors import Accessors
from spatialbench.scene.gltf.schema import DracoStream, Primitive
from spatialbench.scene.log import MAX_FACES

__all__ = ["decompress"]

_DRACO = "KHR_draco_mesh_compression"
_TODO = "Download or export it again"


def decompress(p: Primitive, accessors: Accessors, by: str, where: str, room: int) -> bool:
    """Decode the primitive's stream unless plain data stands beside it; whether there was one to decode.

    Parameters
    ----------
    room : faces that may still be added to the world.

    Raises
    ------
    CorruptInputError : a stream that cannot be decoded, or that has not what the accessors announce.
    UnsupportedFormatError : more faces than there is room for.
    """
    block = p.extensions.get(_DRACO)
    if block is None:
        return False
    try:
        stream = DracoStream.model_validate(block)
    except ValidationError:
        raise CorruptInputError(f"its {_DRACO} cannot be read", where=where, todo=_TODO) from None
    ids = {name: i for name, i in stream.attributes.items() if name in p.attributes}
    own = [p.attributes[name] for name in ids] + ([] if p.indices is None else [p.indices])
    if "POSITION" not in ids or p.indices is None:
        raise CorruptInputError(f"its {_DRACO} has no positions, or the primitive no indices", where=where, todo=_TODO)
    if all(accessors.definition(i, by).bufferView is not None for i in own):
        return False
    if accessors.definition(p.indices, by).count > 3 * room:
        raise UnsupportedFormatError(f"places more than {MAX_FACES:,} faces", where=where, todo="Simplify the world")
    mesh = decode_draco(accessors.bytes_of(stream.bufferView, by), where)
    accessors.supply(p.indices, mesh.faces.reshape(-1, 1), by)
    for name, i in ids.items():
        if i not in mesh.attributes:
            raise CorruptInputError(f"its Draco stream has no attribute {i}, which is to be {name[:40]}", where=where,
                                    todo=_TODO)
        accessors.supply(p.attributes[name], mesh.attributes[i], f"{by} {name[:40]}")
    p.mode = 4  # a stream holds triangles, whatever they were before
    return True
