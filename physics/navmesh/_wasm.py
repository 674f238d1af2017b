"""Recast's WebAssembly module as an object: fresh instances, calls by readable name, bounded heap and work.

The module has six imports under one-letter names: heap growth, abort, exit, and three that a build never needs.
Its exports carry minified names; ``exports.json`` pairs them with readable ones (spec/navmesh.md section 7).
wasmtime is loaded, and the module compiled, on first use and once per process. The compiled code is not kept on
disk: loading native code from a place that others may write to is not safe, and compiling takes about a second.
It is compiled twice where a build has to count its instructions, which makes it slower by a fifth.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import threading
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.physics.navmesh._engine import ModuleFailure
from spatialbench.physics.navmesh._voxels import HEAP_LIMIT

__all__ = ["PACKAGE_VERSION", "RECAST_VERSION", "WORK_LIMIT", "Instance", "wasmtime_version"]

PACKAGE_VERSION = "0.43.1"
RECAST_VERSION = "1.6.0"
WORK_LIMIT = 500_000_000_000
"""Instructions that a metered build may use, as wasmtime counts fuel. It ends a build that would take hours, at the
same point on every machine, where a clock would not."""

_FOLDER = Path(__file__).resolve().parent / "_module"
_SHA256 = {
    "recast.wasm": "008696e1a67df34aa3c830417a520034a2a358c838fc631084681f7f8f1f7a38",
    "exports.json": "11578a8eec29d975bff828ffcfe06260f2025a039d3d0d32436e85ba19b9885b",
}
_PAGE = 1 << 16
_REINSTALL = ("Install spatialbench again (pip install .): the build fetches the module from npm, or from the file "
              "that SPATIALBENCH_RECAST_PACKAGE names")
_lock = threading.Lock()
_compiled: dict[bool, _Compiled] = {}


class _Compiled:
    """Engine, module and export table."""

    def __init__(self, metered: bool) -> None:
        try:
            import wasmtime
        except (ImportError, OSError) as e:
            raise BackendUnavailableError(f"wasmtime, which runs Recast, cannot be loaded ({e})", where="navmesh",
                                          todo="Install it: pip install wasmtime") from e
        code, table = _files()
        self.table: dict[str, str] = table
        try:
            config = wasmtime.Config()
            config.consume_fuel = metered
            self.engine = wasmtime.Engine(config)
            self.module = wasmtime.Module(self.engine, code)
        except wasmtime.WasmtimeError as e:
            raise BackendUnavailableError(f"wasmtime {wasmtime_version()} cannot compile the Recast module ({e})",
                                          where="navmesh", todo="Install another release of wasmtime") from e
        self.imports = self.module.imports


def _files() -> tuple[bytes, dict[str, str]]:
    """The module and its export table."""
    contents = {}
    for name, digest in _SHA256.items():
        try:
            contents[name] = (_FOLDER / name).read_bytes()
        except OSError as e:
            raise BackendUnavailableError(f"the Recast module is not there ({name}: {e.strerror})", where="navmesh",
                                          todo=_REINSTALL) from e
        if hashlib.sha256(contents[name]).hexdigest() != digest:
            raise BackendUnavailableError(f"{name} is not the one of @recast-navigation/wasm {PACKAGE_VERSION}",
                                          where="navmesh", todo=_REINSTALL)
    return contents["recast.wasm"], json.loads(contents["exports.json"])


def _get_compiled(metered: bool) -> _Compiled:
    with _lock:
        if metered not in _compiled:
            _compiled[metered] = _Compiled(metered)
            # wasmtime cannot free a module any more once the interpreter has begun to take itself apart.
            atexit.register(_compiled.clear)
        return _compiled[metered]


def wasmtime_version() -> str:
    """Version of wasmtime."""
    try:
        return metadata.version("wasmtime")
    except metadata.PackageNotFoundError:
        return "of unknown version"


class Instance:
    """One instance with a heap of its own. Making one takes about a millisecond, so that each build gets one:
    no build can see what another left behind, and a trap costs nothing but its own instance.

    Parameters
    ----------
    heap_limit : bytes.
    work_limit : instructions, counted; None: not counted.

    Raises
    ------
    BackendUnavailableError : wasmtime or the module is missing, or there is no memory for a heap.
    """

    def __init__(self, heap_limit: int = HEAP_LIMIT, work_limit: int | None = None) -> None:
        compiled = _get_compiled(work_limit is not None)
        import wasmtime

        self._heap_limit = heap_limit
        self._work_limit = work_limit
        self._refused = 0
        self._functions: dict[str, Any] = {}
        self._table = compiled.table
        self._store = wasmtime.Store(compiled.engine)
        if work_limit is not None:
            self._store.set_fuel(work_limit)
        self._linker = wasmtime.Linker(compiled.engine)
        host = {"a": _abort, "b": _abort, "c": _nothing, "d": _nothing, "e": _abort, "f": self._grow}
        try:
            for i in compiled.imports:
                function = wasmtime.Func(self._store, i.type, host[str(i.name)])  # type: ignore[arg-type]
                self._linker.define(self._store, i.module, str(i.name), function)
            instance = self._linker.instantiate(self._store, compiled.module)
            self._linker.define_instance(self._store, "recast", instance)
            memory = self._linker.get(self._store, "recast", "g")
            start = self._linker.get(self._store, "recast", "h")
            assert isinstance(memory, wasmtime.Memory) and isinstance(start, wasmtime.Func)
            self._memory = memory
            start(self._store)
        except (wasmtime.WasmtimeError, wasmtime.Trap) as e:
            self.close()
            raise BackendUnavailableError(f"the Recast module cannot be started ({_cause(e)})",
                                          where="navmesh", todo="Free memory, or raise the limit on address space "
                                          "(ulimit -v)") from e

    def close(self) -> None:
        """Free the heap. Nothing else does: the store holds the host's functions, and one of these the instance."""
        self._functions.clear()
        self._linker.close()
        self._store.close()

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, name: str, *args: int | float) -> int:
        """Call a function by its readable name, without the prefix that all bound methods share.

        Raises
        ------
        ModuleFailure : it trapped, aborted or ran out of work.
        """
        import wasmtime

        function = self._functions.get(name)
        if function is None:
            full = name if name.startswith("_") else f"_emscripten_bind_{name}"
            function = self._linker.get(self._store, "recast", self._table[full])
            assert isinstance(function, wasmtime.Func)
            self._functions[name] = function
        try:
            result = function(self._store, *args)
        except (wasmtime.WasmtimeError, wasmtime.Trap, _Abort) as e:
            raise ModuleFailure(self._why(e)) from e
        return int(result) & 0xFFFFFFFF if result is not None else 0

    def allocate(self, n_bytes: int) -> int:
        """Address of ``n_bytes`` of the heap."""
        address = self.call("_malloc", n_bytes)
        if address == 0:
            raise ModuleFailure(self.memory_reason())
        return address

    def write(self, address: int, array: NDArray[Any]) -> None:
        """Copy an array's bytes to ``address``."""
        self._memory.write(self._store, np.ascontiguousarray(array).tobytes(), address)

    def read(self, address: int, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """[count] values of ``dtype`` from ``address``, copied."""
        size = np.dtype(dtype).itemsize * count
        return np.frombuffer(self._memory.read(self._store, address, address + size), dtype=dtype)

    @property
    def heap_refused(self) -> bool:
        """Whether the heap had to be kept from growing."""
        return self._refused > 0

    def memory_reason(self) -> str:
        """What a failed allocation comes from, for people."""
        return f"needs more than {self._heap_limit / 2**30:.3g} GiB of memory"

    def _grow(self, requested: int) -> int:
        wanted = requested & 0xFFFFFFFF
        now = self._memory.data_len(self._store)
        if wanted > self._heap_limit:
            self._refused = wanted
            return 0
        # A fifth more than is needed: growing in small steps would cost more.
        size = min(max(wanted, now + now // 5), self._heap_limit)
        import wasmtime

        try:
            self._memory.grow(self._store, -(-(size - now) // _PAGE))
        except wasmtime.WasmtimeError:
            self._refused = wanted
            return 0
        return 1

    def _why(self, error: BaseException) -> str:
        if self._refused:
            return self.memory_reason()
        import wasmtime

        if isinstance(error, wasmtime.Trap) and error.trap_code == wasmtime.TrapCode.OUT_OF_FUEL:
            return f"takes more than {self._work_limit:.0e} instructions"
        return f"the module stopped: {_cause(error)}"


class _Abort(Exception):
    """The module called abort or exit."""


def _abort(*_: int) -> None:
    raise _Abort("it aborted")


def _nothing(*_: float) -> int | None:
    return 0 if len(_) else None


def _cause(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # wasmtime puts a trace of function numbers first and the cause last.
    return lines[-1] if lines else type(error).__name__
