"""The worker's side of the protocol, for any environment: needs Python 3.8 and numpy, and nothing of spatialbench.

Copy this file beside your script, or import it where spatialbench is installed::

    serve({"frames": between}, model="AMT-S", versions={"torch": torch.__version__}, weights={"amt-s.pth": sha256})

A line of JSON on standard input names a job's folder. ``request.json`` there says what is asked, ``inputs.npz`` holds
the arrays; ``outputs.npz`` and ``answer.json`` are written beside them, then a line on standard output says so. The end
of standard input ends the worker. Everything else that is printed goes to standard error (docs/workers.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import traceback
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Handler = Callable[[dict[str, Any], dict[str, np.ndarray]], tuple[Mapping[str, np.ndarray], Mapping[str, Any]]]
    """From the request and its arrays to the arrays of the answer and its values."""

__all__ = ["PROTOCOL", "Unsupported", "save_npz", "serve", "sha256_of"]

PROTOCOL = 1


class Unsupported(Exception):
    """Raised by a handler: this model cannot do that, whatever the input (a number of frames that it has no way to
    make...). Any other exception says that it failed on this input."""


def serve(handlers: Mapping[str, Handler], *, model: str, versions: Mapping[str, str],
          weights: Mapping[str, str] | None = None) -> None:
    """Answer jobs until standard input ends.

    Parameters
    ----------
    handlers : capability (``tracks``, ``depth``, ``frames``) -> what does it.
    model : what it is, in words.
    versions : of the libraries that the result depends on.
    weights : file name -> SHA-256 of the weights that were loaded.
    """
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print, also from C, must not mix with the answers
    sys.stdout = sys.stderr
    about = {"protocol": PROTOCOL, "model": model, "versions": dict(versions), "weights": dict(weights or {}),
             "capabilities": sorted(handlers)}
    for line in sys.stdin:
        folder = json.loads(line)["job"]
        answer = dict(about, **_work(handlers, folder))
        part = os.path.join(folder, "answer.json.part")
        with open(part, "w", encoding="utf-8") as f:
            json.dump(answer, f)
        os.replace(part, os.path.join(folder, "answer.json"))
        lines.write(json.dumps({"spatialbench_worker": PROTOCOL, "job": folder, "done": True}) + "\n")
        lines.flush()


def sha256_of(path: str) -> str:
    """SHA-256 of a file, hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _work(handlers: Mapping[str, Handler], folder: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, "request.json"), encoding="utf-8") as f:
            request = json.load(f)
        capability = request.get("capability")
        if request.get("protocol") != PROTOCOL:
            raise Unsupported(f"protocol {request.get('protocol')}; this worker speaks {PROTOCOL}")
        if capability == "describe":
            return {"status": "ok"}
        if capability not in handlers:
            raise Unsupported(f"this worker does not do '{capability}'")
        path = os.path.join(folder, "inputs.npz")
        if sha256_of(path) != request["inputs"]["sha256"]:
            return {"status": "failed", "message": "inputs.npz is not what request.json says"}
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        outputs, values = handlers[capability](request, arrays)
        save_npz(os.path.join(folder, "outputs.npz"), outputs)
        return {"status": "ok", "values": dict(values)}
    except Unsupported as error:
        return {"status": "unsupported", "message": str(error)[:2000]}
    except Exception as error:
        traceback.print_exc()
        return {"status": "failed", "message": f"{type(error).__name__}: {error}"[:2000]}


def save_npz(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """As ``np.savez``: uncompressed .npy members, without times, so that equal arrays give equal bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as z:
        for name in sorted(arrays):
            with z.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=True) as f:
                np.lib.format.write_array(f, np.ascontiguousarray(arrays[name]), allow_pickle=False)
