"""Buffer views compressed by EXT_meshopt_compression or KHR_meshopt_compression."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.gltf.schema import MeshoptView

__all__ = ["MESHOPT", "decode_view", "meshopt_of"]

MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")
_MAX_BYTES = 4 << 30
_EXPANSION = 2048
"""Largest ratio of decoded to compressed bytes: a block of 256 vertices takes a byte for every four at the least."""
_TODO = "Download or export it again"


def meshopt_of(extensions: dict[str, object], where: str) -> MeshoptView | None:
    """The view's compressed form, or None.

    Raises
    ------
    CorruptInputError : fields of wrong types.
    """
    for name in MESHOPT:
        if name in extensions:
            try:
                return MeshoptView.model_validate(extensions[name])
            except ValidationError as e:
                field = ".".join(str(p) for p in e.errors(include_url=False, include_context=False)[0]["loc"])
                raise CorruptInputError(f"its {name} cannot be read (field '{field}')", where=where,
                                        todo=_TODO) from None
    return None


def decode_view(data: memoryview, view: MeshoptView, where: str) -> memoryview:
    """The plain bytes [count * byteStride] of a compressed view.

    Raises
    ------
    CorruptInputError : a stream that breaks off, runs over, or is of another kind.
    UnsupportedFormatError : a filter that is not read.
    """
    n, stride = view.count, view.byteStride
    if n * stride > min(_MAX_BYTES, _EXPANSION * len(data) + 65536):
        raise CorruptInputError(f"announces {n * stride:,} bytes in a meshopt stream of {len(data):,}", where=where,
                                todo=_TODO)
    if view.filter in ("OCTAHEDRAL", "COLOR"):
        raise UnsupportedFormatError(f"its data is packed with meshopt's {view.filter} filter, which is not read",
                                     where=where, todo="Export it again without mesh compression")
    if not (stride % 4 == 0 and stride <= 256 if view.mode == "ATTRIBUTES" else stride in (2, 4)):
        raise CorruptInputError(f"has meshopt data of {stride} bytes each, which cannot be", where=where, todo=_TODO)
    if n == 0:
        return memoryview(b"")
    raw = np.frombuffer(data, np.uint8)
    from spatialbench.scene.gltf import _meshopt_kernels as kernels

    if view.mode == "ATTRIBUTES":
        out = np.zeros((n, stride), np.uint8)
        good = kernels.decode_vertices(raw, n, stride, out)
        result = _filtered(out, view, where)
    else:
        indices = np.zeros(n, np.int64)
        decode = kernels.decode_triangles if view.mode == "TRIANGLES" else kernels.decode_sequence
        good = decode(raw, n, indices)
        result = indices.astype("<u2" if stride == 2 else "<u4").view(np.uint8)
    if not good:
        raise CorruptInputError("its meshopt stream cannot be decoded", where=where, todo=_TODO)
    return memoryview(result.tobytes())


def _filtered(out: NDArray[np.uint8], view: MeshoptView, where: str) -> NDArray:
    if view.filter == "EXPONENTIAL":
        word = out.view("<i4")
        with np.errstate(all="ignore"):
            return np.ldexp(((word << 8) >> 8).astype(np.float64), word >> 24).astype("<f4")
    if view.filter == "QUATERNION":
        if view.byteStride != 8:
            raise CorruptInputError("has quaternions that are not of 8 bytes", where=where, todo=_TODO)
        q = out.view("<i2").astype(np.float64)
        three = q[:, :3] * (2**-0.5 / (q[:, 3].astype(np.int64) | 3))[:, None]
        four = np.concatenate([np.sqrt(np.maximum(1 - (three**2).sum(axis=1), 0))[:, None], three], axis=1)
        place = ((q[:, 3].astype(np.int64) & 3)[:, None] + np.arange(4)) & 3
        turned = np.zeros_like(four)
        np.put_along_axis(turned, place, four, axis=1)
        return np.clip(np.round(turned * 32767), -32767, 32767).astype("<i2")
    return out
