"""Recast as Debian packages it (``librecast1``), called through ctypes: a second opinion on the same recipe.

Its functions are exported under their C++ names, so that neither a compiler nor headers are needed. A zeroed block
does as the context: while logging and timing are off, none of its virtual functions is called. The names fix the
signatures of release 1.5, which a later library does not export; that release is habitat-sim's before 0.3.4
(spec/navmesh.md section 3). Nothing contains a crash of it but the process; its inputs are checked like all others, and
meshes whose spans might not fit into the WebAssembly module's heap are rasterised by that first (a span takes twice the
memory here, so that this is at most 3.5 GiB).
"""

from __future__ import annotations

import ctypes as c
import functools
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spatialbench.errors import BackendUnavailableError

__all__ = ["LIBRARY", "SystemEngine"]

LIBRARY = "libRecast.so.1"
_P, _I, _F, _B = c.c_void_p, c.c_int, c.c_float, c.c_bool
_HF, _CHF = "13rcHeightfield", "20rcCompactHeightfield"

# Step: mangled name, result, arguments after the context.
_STEPS: dict[str, tuple[str, Any, tuple[Any, ...]]] = {
    "createHeightfield": (f"_Z19rcCreateHeightfieldP9rcContextR{_HF}iiPKfS4_ff", _B, (_P, _I, _I, _P, _P, _F, _F)),
    "markWalkableTriangles": ("_Z23rcMarkWalkableTrianglesP9rcContextfPKfiPKiiPh", None, (_F, _P, _I, _P, _I, _P)),
    "rasterizeTriangles": (f"_Z20rcRasterizeTrianglesP9rcContextPKfiPKiPKhiR{_HF}i", _B,
                           (_P, _I, _P, _P, _I, _P, _I)),
    "filterLowHangingWalkableObstacles": (f"_Z35rcFilterLowHangingWalkableObstaclesP9rcContextiR{_HF}", None,
                                          (_I, _P)),
    "filterLedgeSpans": (f"_Z18rcFilterLedgeSpansP9rcContextiiR{_HF}", None, (_I, _I, _P)),
    "filterWalkableLowHeightSpans": (f"_Z30rcFilterWalkableLowHeightSpansP9rcContextiR{_HF}", None, (_I, _P)),
    "getHeightFieldSpanCount": (f"_Z25rcGetHeightFieldSpanCountP9rcContextR{_HF}", _I, (_P,)),
    "buildCompactHeightfield": (f"_Z25rcBuildCompactHeightfieldP9rcContextiiR{_HF}R{_CHF}", _B, (_I, _I, _P, _P)),
    "erodeWalkableArea": (f"_Z19rcErodeWalkableAreaP9rcContextiR{_CHF}", _B, (_I, _P)),
    "buildDistanceField": (f"_Z20rcBuildDistanceFieldP9rcContextR{_CHF}", _B, (_P,)),
    "buildRegions": (f"_Z14rcBuildRegionsP9rcContextR{_CHF}iii", _B, (_P, _I, _I, _I)),
    "buildContours": (f"_Z15rcBuildContoursP9rcContextR{_CHF}fiR12rcContourSeti", _B, (_P, _F, _I, _P, _I)),
    "buildPolyMesh": ("_Z15rcBuildPolyMeshP9rcContextR12rcContourSetiR10rcPolyMesh", _B, (_P, _I, _P)),
}
_OBJECTS = {
    "Heightfield": ("_Z18rcAllocHeightfieldv", f"_Z17rcFreeHeightFieldP{_HF}"),
    "CompactHeightfield": ("_Z25rcAllocCompactHeightfieldv", f"_Z24rcFreeCompactHeightfieldP{_CHF}"),
    "ContourSet": ("_Z17rcAllocContourSetv", "_Z16rcFreeContourSetP12rcContourSet"),
    "PolyMesh": ("_Z15rcAllocPolyMeshv", "_Z14rcFreePolyMeshP10rcPolyMesh"),
}


@functools.cache
def _functions() -> dict[str, Any]:
    """By step, and ``new KIND`` and ``free KIND``."""
    todo = "Install Debian's librecast1 1.5 (apt-get install librecast1), or use the backend 'recast'"
    try:
        library = c.CDLL(LIBRARY)
    except OSError as e:
        raise BackendUnavailableError(f"the library {LIBRARY} cannot be loaded ({e})", where="navmesh backend "
                                      "'recast-system'", todo=todo) from None
    out = {}
    try:
        for step, (name, result, arguments) in _STEPS.items():
            out[step] = _declared(library, name, result, (_P, *arguments))
        for kind, (new, free) in _OBJECTS.items():
            out[f"new {kind}"] = _declared(library, new, _P, ())
            out[f"free {kind}"] = _declared(library, free, None, (_P,))
    except AttributeError as e:
        raise BackendUnavailableError(f"the library {LIBRARY} is not release 1.5 of Recast ({e})", where="navmesh "
                                      "backend 'recast-system'", todo=todo) from None
    return out


def _declared(library: c.CDLL, name: str, result: Any, arguments: tuple[Any, ...]) -> Any:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


class SystemEngine:
    """The library for one build; see :class:`~._engine.Engine`.

    Raises
    ------
    BackendUnavailableError : no such library, or another release of it.
    """

    clearance_offset = -1
    pointer = f"<u{c.sizeof(c.c_void_p)}"
    metered = True

    def __init__(self, metered: bool = True) -> None:
        self._do = _functions()
        self._context = (c.c_char * 64)()
        self._made: dict[int, str] = {}
        self._arrays: dict[int, NDArray[Any]] = {}

    def new(self, kind: str) -> int:
        address = self._do[f"new {kind}"]() or 0
        self._made[address] = kind
        return address

    def free(self, kind: str, address: int) -> None:
        del self._made[address]
        self._do[f"free {kind}"](address)

    def vector(self, data: NDArray[Any]) -> int:
        return self.array(data)

    def array(self, data: NDArray[Any]) -> int:
        kept = np.array(data, order="C")
        self._arrays[kept.ctypes.data] = kept
        return kept.ctypes.data

    def drop(self, array: int) -> None:
        del self._arrays[array]

    def call(self, step: str, *args: int | float) -> int:
        return int(self._do[step](c.addressof(self._context), *args) or 0)

    def read(self, address: int, count: int, dtype: DTypeLike) -> NDArray[Any]:
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer(c.string_at(address, size), dtype=dtype) if size else np.zeros(0, dtype)

    def why(self) -> str:
        return ""

    def close(self) -> None:
        for address, kind in list(self._made.items()):
            if address:
                self.free(kind, address)
        self._arrays.clear()
