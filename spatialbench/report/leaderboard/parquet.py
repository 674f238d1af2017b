"""Measurements as a Parquet file, one row each. It needs pyarrow, which is an extra."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spatialbench.errors import BackendUnavailableError, ResultError
from spatialbench.types import Measurement

__all__ = ["COLUMNS", "have_pyarrow", "need_pyarrow", "write_parquet"]

COLUMNS = ("system", "case", "metric", "version", "object", "status", "value", "reason", "flags", "geometry")
_ROWS = 100_000


def have_pyarrow() -> bool:
    """Whether it is installed; it is not imported."""
    from importlib.util import find_spec

    return find_spec("pyarrow") is not None


def need_pyarrow() -> None:
    """Raises
    ------
    BackendUnavailableError : it is not installed.
    """
    if not have_pyarrow():
        raise BackendUnavailableError("Parquet files need pyarrow, which is not installed", where="--format parquet",
                                      todo='Run: pip install "spatialbench[parquet]"')


def write_parquet(path: Path, measurements: Sequence[Measurement], protocol_hash: str) -> None:
    """One row a measurement, in the order given; no value is null, never a number. The hash is in the file's metadata.

    Raises
    ------
    BackendUnavailableError : pyarrow is not installed.
    ResultError : the disk refuses.
    """
    need_pyarrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    words = pa.dictionary(pa.int32(), pa.string())
    kinds: dict[str, Any] = {"version": pa.int32(), "value": pa.float64(), "flags": pa.list_(pa.string()),
                             "object": pa.string()}
    schema = pa.schema([pa.field(c, kinds.get(c, words)) for c in COLUMNS],
                       metadata={"spatialbench.protocol_hash": protocol_hash})
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for start in range(0, max(1, len(measurements)), _ROWS):
                part = measurements[start:start + _ROWS]
                arrays = [pa.array([_cell(m, c) for m in part], type=schema.field(c).type) for c in COLUMNS]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        os.replace(temporary, path)
    except OSError as error:
        raise ResultError(f"cannot be written: {error.strerror or error}", where=str(path),
                          todo="Free some space or choose another folder with -o") from None
    finally:
        temporary.unlink(missing_ok=True)


def _cell(m: Measurement, column: str) -> Any:
    value = getattr(m, column)
    if column == "status":
        return value.value
    if column == "flags":
        return list(value)
    # Half of a surrogate pair can come out of JSON, and no file of texts can hold it.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
