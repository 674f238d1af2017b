"""What a result depends on, as hashes: of the inputs, and for each metric of the recipe it was made by.

A measurement is still good when both are what they were. The recipe covers the metric's version, the protocol's
values that it and its observations declare to read, and the observations' versions; not the package's version.
"""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from spatialbench.observe import REGISTRY
from spatialbench.observe.registry import RegisteredObservation, Registry
from spatialbench.runs.store import canonical_json
from spatialbench.scene.sidecar_names import side_car_names
from spatialbench.types import Protocol

__all__ = ["ANCHORING", "digest", "hash_file", "hash_inputs", "recipes"]

ANCHORING = 3
"""Version of import and anchoring, which no observation covers: raised when the world that they give can change."""
_BLOCK = 1 << 20

Inputs = list[dict[str, Any]]
"""``role``, ``name`` (relative to that role's file), ``bytes`` and ``sha256`` of everything that was read."""


def recipes(protocol: Protocol, metrics: Iterable[str], registry: Registry | None = None) -> dict[str, str]:
    """Metric id -> SHA-256 of how it is made.

    Raises
    ------
    UsageError : no such metric.
    """
    registry = registry or REGISTRY
    values = protocol.model_dump(mode="json")
    out = {}
    for id in metrics:
        spec = registry.metric(id).spec
        needs = _closure(spec.observations, registry)
        reads = sorted({*spec.reads, *(key for o in needs for key in o.reads)})
        out[id] = digest({
            "metric": [id, spec.version],
            "scorers": list(spec.scorers),
            "observations": [[o.name, o.version] for o in needs],
            "protocol": {key: _value(values, key) for key in reads},
            **({"anchoring": ANCHORING} if reads or needs else {})})
    return out


def digest(data: Any) -> str:
    """SHA-256 of canonical JSON; a file name that is no UTF-8 is hashed as it is."""
    return hashlib.sha256(canonical_json(data).encode("utf-8", "surrogatepass")).hexdigest()


KNOWN: dict[str, tuple[int, str] | None] = {}
"""Path -> what ``hash_file`` gives, of files that only stand for others (``remote``); None when it is not known."""


def hash_file(path: str | Path) -> tuple[int, str]:
    """Bytes and SHA-256 of a file, read in blocks.

    Raises
    ------
    OSError
    """
    if KNOWN and (name := os.fspath(path)) in KNOWN:
        if (known := KNOWN[name]) is None:
            raise FileNotFoundError(errno.ENOENT, "is not here", name)
        return known
    h, size = hashlib.sha256(), 0
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))  # a batch does this some ten thousand times
    try:
        step = min(_BLOCK, os.fstat(handle).st_size + 1)
        while block := os.read(handle, step):
            h.update(block)
            size += len(block)
    finally:
        os.close(handle)
    return size, h.hexdigest()


def hash_inputs(roles: Mapping[str, str], image: str, also: Mapping[str, Iterable[str]], *,
                skip: Container[str] = ()) -> Inputs:
    """What is there now of a unit's inputs: each role's file, its side-cars, the case's image, and ``also``.

    Nothing is loaded. A file that is not there, or cannot be read, is left out.

    Parameters
    ----------
    also : role -> names of further files, relative to that role's folder, as an earlier run has read them.
    skip : names that need not be looked at.
    """
    out: Inputs = []
    for role, text in sorted(roles.items()):
        folder, own = os.path.split(text)
        names = dict.fromkeys([own, *side_car_names(own), *also.get(role, ())])
        for name in names:
            clean = posixpath.normpath(name)
            if clean in skip or clean.startswith(("../", "/")) or clean == "..":
                continue  # of the latter the reader refuses all: someone has edited the record
            _add(out, role, clean, os.path.join(folder, clean))
    if image:
        _add(out, "image", os.path.basename(image), image)
    return sorted(out, key=lambda f: (f["role"], f["name"]))


def _add(out: Inputs, role: str, name: str, path: str) -> None:
    try:
        if os.path.isfile(path):  # and no pipe, which would be waited for
            size, sha = hash_file(path)
            out.append({"role": role, "name": name, "bytes": size, "sha256": sha})
    except (OSError, ValueError):
        return


def _closure(names: Iterable[str], registry: Registry) -> list[RegisteredObservation]:
    """The observations by name, and those that they declare to need in turn."""
    found: dict[str, RegisteredObservation] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = registry.observation(name)
            todo += found[name].needs
    return [found[name] for name in sorted(found)]


def _value(values: dict[str, Any], key: str) -> Any:
    at: Any = values
    for part in key.split("."):
        at = at[part]
    return at
