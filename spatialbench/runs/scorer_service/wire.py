"""Messages between workers and the scorer service: a JSON header with its length, then the raw bytes of arrays.

Values are those of ``scorers.contract``: numbers, texts, lists, tuples, mappings, arrays, and its records. Nothing in a
message can run code. Sizes are checked before memory is taken.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from typing import Any

import numpy as np

from spatialbench import errors
from spatialbench.errors import SpatialbenchError
from spatialbench.scorers.contract import DepthAndPoses, Detection, TextVectors
from spatialbench.types import Camera, Pose

__all__ = ["MOST_BYTES", "WireError", "error_of", "error_value", "pack", "unpack"]

MOST_BYTES = 4 << 30
"""Of one message: ten times as much as the frames of the largest clip that is scored take."""
_MOST_HEADER, _MOST_ARRAYS = 64 << 20, 1 << 16
_LENGTH = struct.Struct(">I")
_KINDS = "buif"
_RECORDS: dict[str, type] = {c.__name__: c for c in (Camera, DepthAndPoses, Detection, Pose, TextVectors)}


class WireError(ValueError):
    """Bytes that are no message, or a value that no message can hold."""


def pack(value: Any) -> bytes:
    """A message.

    Raises
    ------
    WireError : it holds something else than the above, or too much of it.
    """
    arrays: list[np.ndarray] = []
    data = _encoded(value, arrays)
    table = [[a.dtype.str, list(a.shape)] for a in arrays]
    header = json.dumps({"value": data, "arrays": table}, separators=(",", ":")).encode("ascii")
    raw = [_raw(a) for a in arrays]
    if len(header) > _MOST_HEADER or len(arrays) > _MOST_ARRAYS or sum(map(len, raw)) > MOST_BYTES - _MOST_HEADER:
        raise WireError("a message to or from the scorer service would be too large")
    return b"".join([_LENGTH.pack(len(header)), header, *raw])


def unpack(blob: bytes) -> Any:
    """What ``pack`` was given; arrays can be written to.

    Raises
    ------
    WireError : it is no such message.
    """
    data = memoryview(bytearray(blob))
    try:
        (length,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + length
        if length > _MOST_HEADER or at > len(data):
            raise WireError(f"a header of {length} bytes in a message of {len(data)}")
        header = json.loads(bytes(data[_LENGTH.size:at]))
        arrays = []
        for kind, shape in header["arrays"]:
            array, at = _array(data, at, kind, shape)
            arrays.append(array)
        if at != len(data):
            raise WireError(f"{len(data) - at} bytes more than the header says")
        return _decoded(header["value"], arrays)
    except WireError:
        raise
    except (struct.error, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError,
            OverflowError) as error:
        raise WireError(f"no message ({type(error).__name__}: {error})") from None


def error_value(error: SpatialbenchError) -> list[str]:
    """An error as part of a message."""
    return [type(error).__name__, error.what, error.where, error.todo]


def error_of(value: Any) -> SpatialbenchError:
    """The error that it was; of another tree than ours it becomes the base of it."""
    name, what, where, todo = (str(v) for v in value)
    cls = getattr(errors, name, None)
    if not (isinstance(cls, type) and issubclass(cls, SpatialbenchError)):
        cls = SpatialbenchError
    return cls(what, where=where, todo=todo)


def _encoded(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS:
            raise WireError(f"arrays of {value.dtype} cannot be sent")
        arrays.append(value)
        return {"a": len(arrays) - 1}
    if isinstance(value, list | tuple):
        return {"l" if isinstance(value, list) else "t": [_encoded(v, arrays) for v in value]}
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {"d": {k: _encoded(v, arrays) for k, v in value.items()}}
    if dataclasses.is_dataclass(value) and _RECORDS.get(type(value).__name__) is type(value):
        fields = {f.name: _encoded(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}
        return {"r": [type(value).__name__, fields]}
    raise WireError(f"a {type(value).__name__} cannot be sent")


def _decoded(data: Any, arrays: list[np.ndarray]) -> Any:
    if not isinstance(data, dict):
        return data
    ((tag, held),) = data.items()
    if tag == "a":
        return arrays[held]
    if tag in "lt":
        values = [_decoded(v, arrays) for v in held]
        return values if tag == "l" else tuple(values)
    if tag == "d":
        return {k: _decoded(v, arrays) for k, v in held.items()}
    name, fields = held
    return _RECORDS[name](**{k: _decoded(v, arrays) for k, v in fields.items()})


def _raw(array: np.ndarray) -> bytes:
    """Row by row; of masks eight pixels a byte."""
    return (np.packbits(array) if array.dtype.kind == "b" else array).tobytes()


def _array(data: memoryview, at: int, kind: str, shape: list[int]) -> tuple[np.ndarray, int]:
    dtype = np.dtype(kind)
    if dtype.kind not in _KINDS or not all(type(n) is int and n >= 0 for n in shape):
        raise WireError(f"an array of {kind!r:.20} and {shape!r:.80}")
    count = 1
    for n in shape:
        count *= n
    size = (count + 7) // 8 if dtype.kind == "b" else count * dtype.itemsize
    if size > len(data) - at:
        raise WireError(f"an array of {size} bytes, and {len(data) - at} are there")
    part = np.frombuffer(data, np.uint8, size, at)
    if dtype.kind == "b":
        return np.unpackbits(part, count=count).astype(bool).reshape(shape), at + size
    if (at % dtype.itemsize) and dtype.itemsize > 1:
        part = part.copy()  # aligned, as an array that was made here is
    return part.view(dtype).reshape(shape), at + size
