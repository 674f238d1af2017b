"""Arrays out of a glTF document, each range checked against the bytes before memory is taken."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.gltf.container import Buffers
from spatialbench.scene.gltf.schema import Accessor, Gltf

__all__ = ["Accessors"]

_COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4", 5130: "<f8"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
_MAX_UNBACKED = 16_000_000
_TODO = "Download or export it again"


class Accessors:
    """Reads accessors by index.

    Raises (all methods)
    --------------------
    CorruptInputError : no such accessor, a type it must not have, a range beyond its buffer.
    """

    def __init__(self, doc: Gltf, buffers: Buffers, where: str) -> None:
        self._doc, self._buffers, self._where = doc, buffers, where
        self._supplied: dict[int, NDArray] = {}

    def supply(self, index: int, values: NDArray, by: str) -> None:
        """Elements [count, width] of an accessor that come out of a compressed stream instead of its buffer view."""
        count = self.definition(index, by).count
        if len(values) != count:
            raise CorruptInputError(f"announces {count:,} elements, the compressed stream has {len(values):,}",
                                    where=f"{self._where}, {by}, accessor {index}", todo=_TODO)
        self._supplied[index] = values

    def bytes_of(self, view: int, by: str) -> bytes:
        """All bytes of a buffer view."""
        return bytes(self._buffers.view(view, by)[0])

    def definition(self, index: int, by: str) -> Accessor:
        """The accessor's definition."""
        if index >= len(self._doc.accessors):
            raise CorruptInputError(f"accessor {index} does not exist, there are {len(self._doc.accessors)}",
                                    where=f"{self._where}, {by}", todo=_TODO)
        return self._doc.accessors[index]

    def check(self, index: int, by: str, widths: tuple[int, ...]) -> int:
        """Number of elements, after a check that all of them are there."""
        return len(self._raw(index, by, widths))

    def singles(self, index: int, by: str, widths: tuple[int, ...]) -> NDArray[np.float32]:
        """[count, width] float32, as :meth:`floats` rounded; without a copy in float64 of what is float32 already."""
        raw = self._raw(index, by, widths)
        return (raw if raw.dtype.kind == "f" else self.floats(index, by, widths)).astype(np.float32)

    def floats(self, index: int, by: str, widths: tuple[int, ...]) -> NDArray[np.float64]:
        """[count, width] float64; normalised integers become [0,1] or [-1,1] (glTF 2.0, section 3.6.2.2)."""
        raw = self._raw(index, by, widths)
        out = raw.astype(np.float64)
        if raw.dtype.kind != "f" and self._doc.accessors[index].normalized:
            out /= np.iinfo(raw.dtype).max
            np.maximum(out, -1.0, out=out)
        return out

    def indices(self, index: int, by: str) -> NDArray:
        """[count] vertex indices as they are stored, in place."""
        raw = self._raw(index, by, (1,))
        if raw.dtype.kind != "u":
            raise CorruptInputError(f"accessor {index} holds indices of a type that is not unsigned",
                                    where=f"{self._where}, {by}", todo=_TODO)
        return raw[:, 0]

    def _raw(self, index: int, by: str, widths: tuple[int, ...]) -> NDArray:
        a = self.definition(index, by)
        by = f"{by}, accessor {index}"
        width = _WIDTHS.get(a.type, 0)
        if width not in widths:
            raise CorruptInputError(f"has the type {a.type[:20]!r} where {widths} components are needed",
                                    where=f"{self._where}, {by}", todo=_TODO)
        if index in self._supplied:
            out = self._supplied[index]
            if out.shape[1] != width:
                raise CorruptInputError(f"has {out.shape[1]} components in the compressed stream, not {width}",
                                        where=f"{self._where}, {by}", todo=_TODO)
            return out
        if a.bufferView is not None:
            out = self._range(a.bufferView, a.byteOffset, a.componentType, a.count, width, by)
        elif a.sparse is None:
            raise CorruptInputError("has no bufferView, so there is no data", where=f"{self._where}, {by}", todo=_TODO)
        elif a.count > _MAX_UNBACKED:
            raise CorruptInputError(f"announces {a.count:,} elements that no bytes stand behind",
                                    where=f"{self._where}, {by}", todo=_TODO)
        else:
            out = np.zeros((a.count, width), self._component(a.componentType, by))
        if a.sparse is not None:
            s = a.sparse
            at = self._range(s.indices.bufferView, s.indices.byteOffset, s.indices.componentType, s.count, 1, by)[:, 0]
            values = self._range(s.values.bufferView, s.values.byteOffset, a.componentType, s.count, width, by)
            if at.dtype.kind != "u" or (len(at) and int(at.max()) >= a.count):
                raise CorruptInputError("has sparse indices out of range", where=f"{self._where}, {by}", todo=_TODO)
            out = out.copy()
            out[at] = values
        return out

    def _component(self, code: int, by: str) -> np.dtype:
        if code not in _COMPONENTS:
            raise CorruptInputError(f"has the unknown componentType {code}", where=f"{self._where}, {by}", todo=_TODO)
        return np.dtype(_COMPONENTS[code])

    def _range(self, view: int, offset: int, code: int, count: int, width: int, by: str) -> NDArray:
        """[count, width] in place, without a copy."""
        kind = self._component(code, by)
        data, definition = self._buffers.view(view, by)
        size = kind.itemsize * width
        stride = definition.byteStride or size
        if stride < size:
            raise CorruptInputError(f"has elements of {size} bytes in steps of {stride}", where=f"{self._where}, {by}",
                                    todo=_TODO)
        need = offset + stride * (count - 1) + size if count else 0
        if need > len(data):
            raise CorruptInputError(f"needs {need:,} bytes of bufferView {view}, which has {len(data):,}",
                                    where=f"{self._where}, {by}", todo=_TODO)
        if count == 0:
            return np.zeros((0, width), kind)
        return np.ndarray((count, width), kind, data, offset, (stride, kind.itemsize))
