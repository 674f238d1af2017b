"""Recast's WebAssembly module as an engine of the recipe."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spatialbench.physics.navmesh._wasm import WORK_LIMIT, Instance

__all__ = ["WasmEngine"]

_FREE = {"Heightfield": "Recast_freeHeightfield_1", "CompactHeightfield": "Recast_freeCompactHeightfield_1",
         "ContourSet": "Recast_freeContourSet_1", "PolyMesh": "Recast_freePolyMesh_1"}
_HEADER = 16
_WORTH_FREEING = 1 << 20


class WasmEngine:
    """One instance of the module, made for one build; see :class:`~._engine.Engine`."""

    clearance_offset = 0
    pointer = "<u4"

    def __init__(self, metered: bool) -> None:
        self.metered = metered
        self._i = Instance(work_limit=WORK_LIMIT if metered else None)
        self._large: set[int] = set()
        self._recast = self._i.call("Recast_Recast_0")
        self._context = self._i.call("RecastBuildContext_RecastBuildContext_1", 0)
        # Without an implementation behind it the context would call through a null pointer.
        self._i.call("RecastBuildContext_enableLog_1", self._context, 0)
        self._i.call("RecastBuildContext_enableTimer_1", self._context, 0)

    def new(self, kind: str) -> int:
        return self._i.call(f"Recast_alloc{kind}_0", self._recast)

    def free(self, kind: str, address: int) -> None:
        self._i.call(_FREE[kind], self._recast, address)

    def vector(self, data: NDArray[Any]) -> int:
        address = self._i.allocate(data.nbytes)
        self._i.write(address, data)
        return address

    def array(self, data: NDArray[Any]) -> int:
        # The module's array object, laid out by hand: pointer, length, and that it does not own what it points to.
        # Making one through its functions takes three calls, which is felt in builds of a few milliseconds.
        array = self._i.allocate(_HEADER + data.nbytes)
        self._i.write(array, np.array([array + _HEADER, data.size, 1, 0], "<u4"))
        self._i.write(array + _HEADER, data)
        if data.nbytes >= _WORTH_FREEING:
            self._large.add(array)
        return array

    def drop(self, array: int) -> None:
        if array in self._large:
            self._large.remove(array)
            self._i.call("_free", array)

    def call(self, step: str, *args: int | float) -> int:
        return self._i.call(f"Recast_{step}_{len(args) + 1}", self._recast, self._context, *args)

    def read(self, address: int, count: int, dtype: DTypeLike) -> NDArray[Any]:
        return self._i.read(address, count, dtype)

    def why(self) -> str:
        return self._i.memory_reason() if self._i.heap_refused else ""

    def close(self) -> None:
        self._i.close()
