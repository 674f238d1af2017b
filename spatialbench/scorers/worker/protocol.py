"""What goes between spatialbench and a worker: a job's folder, what is asked in it, and whether the answer is one.

A job's folder holds ``request.json`` and ``inputs.npz``; the worker adds ``outputs.npz`` and ``answer.json``. Names are
fixed, so nothing outside is ever read; arrays are checked from their headers before memory is taken, and pickles are
refused. World frame: metres, as the engine's. Cameras: OpenCV axes, camera-to-world; pixel (i, j) has its centre at
(i + 0.5, j + 0.5). Depth is along the camera's axis; 0 is where nothing was seen. A lost point is NaN in all three.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.worker.serve import PROTOCOL, save_npz

__all__ = ["CAPABILITIES", "MOST_BYTES", "PROTOCOL", "SEED", "Answer", "Capability", "bad_answer", "plain",
           "read_answer", "read_outputs", "write_request"]

Capability = Literal["describe", "tracks", "depth", "frames"]
CAPABILITIES: tuple[Capability, ...] = ("tracks", "depth", "frames")
SEED = 0
"""Of every job: a worker that draws random numbers seeds them with it."""
MOST_BYTES = 4 << 30
"""Of one array, in either direction."""
_MOST_ANSWER = 1 << 20
_MOST_HEADER = 10_000
_MOST_SHOWN = 400

_Word = Annotated[str, Field(max_length=300)]


class Answer(BaseModel):
    """``answer.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    protocol: Literal[1]
    status: Literal["ok", "failed", "unsupported"]
    """``unsupported``: this worker does not do that; ``failed``: it does, but not with this input."""
    message: str = Field("", max_length=4000)
    model: str = Field(min_length=1, max_length=300)
    versions: dict[_Word, _Word] = Field(default_factory=dict, max_length=100)
    weights: dict[_Word, _Word] = Field(default_factory=dict, max_length=100)
    """File name -> SHA-256."""
    capabilities: tuple[_Word, ...] = Field((), max_length=100)
    warnings: tuple[str, ...] = Field((), max_length=50)
    values: dict[_Word, bool | int | float | str] = Field(default_factory=dict, max_length=50)

    @property
    def identity(self) -> dict[str, str]:
        """What of it belongs to a result."""
        out = {"worker": self.model}
        out |= {f"worker/{name}": v for name, v in sorted(self.versions.items())}
        out |= {f"worker/weights/{name}": v for name, v in sorted(self.weights.items())}
        return {plain(name): plain(v) for name, v in out.items()}


@dataclass(frozen=True)
class Wanted:
    """An array of the answer: its shape (None: any length) and the types that it may have."""

    shape: tuple[int | None, ...]
    types: tuple[str, ...]


def write_request(folder: Path, capability: Capability, scorer: str, arrays: Mapping[str, NDArray[Any]],
                  parameters: Mapping[str, Any]) -> None:
    """Write ``inputs.npz`` and ``request.json``.

    Raises
    ------
    BackendUnavailableError : an array is larger than a job may hold.
    """
    for name, array in arrays.items():
        if array.nbytes > MOST_BYTES:
            raise BackendUnavailableError(f"'{name}' has {array.nbytes:,} bytes, and a job holds {MOST_BYTES:,}",
                                          where=scorer, todo="Give fewer or smaller frames")
    path = folder / "inputs.npz"
    save_npz(str(path), arrays)
    digest = hashlib.sha256()
    with path.open("rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    request = {"protocol": PROTOCOL, "capability": capability, "scorer": scorer, "seed": SEED,
               "parameters": dict(parameters),
               "inputs": {"sha256": digest.hexdigest(),
                          "arrays": {n: {"shape": list(a.shape), "dtype": str(a.dtype)} for n, a in arrays.items()}}}
    (folder / "request.json").write_text(json.dumps(request, sort_keys=True), encoding="utf-8")


def read_answer(folder: Path, scorer: str) -> Answer:
    """``answer.json``, checked.

    Raises
    ------
    BackendUnavailableError : it is missing or is no answer.
    """
    try:
        with _open(folder / "answer.json") as f:
            text = f.read(_MOST_ANSWER + 1)
        if len(text) > _MOST_ANSWER:
            raise ValueError("more than 1 MiB")
        return Answer.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        raise bad_answer(scorer, f"answer.json, key '{'.'.join(map(str, first['loc']))}': {first['msg']}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise bad_answer(scorer, f"answer.json: {_said(error)}") from None


def read_outputs(folder: Path, wanted: Mapping[str, Wanted], scorer: str) -> dict[str, NDArray[Any]]:
    """The arrays of ``outputs.npz``: exactly those that are wanted, of the shapes and types that they must have.

    Raises
    ------
    BackendUnavailableError
    """
    try:
        with _open(folder / "outputs.npz") as f, zipfile.ZipFile(f) as z:
            names = sorted(i.filename for i in z.infolist())
            if names != sorted(f"{n}.npy" for n in wanted):
                raise ValueError(f"holds {', '.join(names)[:200]}; wanted are {', '.join(wanted)}")
            return {n: _read(z, n, w) for n, w in wanted.items()}
    except Exception as error:  # zipfile, zlib, lzma, struct and numpy raise what they like on such a file
        raise bad_answer(scorer, f"outputs.npz: {_said(error)}") from None


def bad_answer(scorer: str, what: str) -> BackendUnavailableError:
    """The worker's answer is none."""
    return BackendUnavailableError(f"the worker's answer cannot be used ({plain(what)[:_MOST_SHOWN]})", where=scorer,
                                   todo=f"Correct the worker: python -m spatialbench.scorers.worker.check {scorer} "
                                        "--scorer-workers FILE")


def _said(error: Exception) -> str:
    """Without the job's folder, whose name is another one each time: it becomes part of results."""
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__


def plain(text: str, *, lines: bool = False) -> str:
    """What a worker says, without control characters, for messages and results; in one line, or with its own."""
    shown = "".join(c if c.isprintable() or c.isspace() else "?" for c in text)
    return re.sub(r"[^\S\n]+" if lines else r"\s+", " ", shown).strip()


def _open(path: Path) -> IO[bytes]:
    """A plain file, and no link to one; looked at when it is open, for its writer may still run."""
    if not stat.S_ISREG(path.lstat().st_mode):  # where an open of a link cannot be forbidden
        raise ValueError("is no plain file")
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
                     | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("is no plain file")
    return os.fdopen(handle, "rb")


def _read(z: zipfile.ZipFile, name: str, wanted: Wanted) -> NDArray[Any]:
    info = z.getinfo(f"{name}.npy")
    with z.open(info) as f:
        if np.lib.format.read_magic(f) != (1, 0):  # its header has at most 64 KiB; all that numpy writes here
            raise ValueError(f"'{name}' is no .npy of version 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(f, max_header_size=_MOST_HEADER)
    if len(shape) != len(wanted.shape) or any(w not in (None, n) for n, w in zip(shape, wanted.shape, strict=True)):
        meant = ", ".join("any" if n is None else str(n) for n in wanted.shape)
        raise ValueError(f"'{name}' has the shape {shape}, and must have ({meant})")
    if dtype.name not in wanted.types or dtype.hasobject:
        raise ValueError(f"'{name}' is {dtype.name}, and must be {' or '.join(wanted.types)}")
    size = dtype.itemsize
    for n in shape:
        size *= int(n)
    if size > MOST_BYTES or info.file_size < size:
        raise ValueError(f"'{name}' has {size:,} bytes, and a job holds {min(MOST_BYTES, info.file_size):,}")
    with z.open(info) as f:
        array = np.lib.format.read_array(f, allow_pickle=False)
    return np.ascontiguousarray(array.astype(dtype.newbyteorder("="), copy=False))
