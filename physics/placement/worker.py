"""The process that :mod:`.workers` starts: releases come in as lines of JSON, motions go out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, SpatialbenchError
from spatialbench.physics.placement.release import Release
from spatialbench.physics.placement.session import Motion, Session, open_session

if TYPE_CHECKING:
    from spatialbench.types.placement import PlacedObject, PlacementSettings

__all__ = ["main", "read_job", "serve"]

Drop = Callable[[Session, Release, int], Motion]
Job = tuple[NDArray[np.float64], NDArray[np.int64], "PlacementSettings", "PlacedObject", dict[str, Any]]


def read_job(folder: Path) -> Job:
    """(vertices, faces, settings, body, the whole job) as :func:`.workers.write_job` has left them.

    Settings and body have the attributes of their types and no more: to import these takes longer than a trial.
    """
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    body = dict(job["placed"])
    body["size"], body["hull"] = tuple(body["size"]), np.array(body["hull"], dtype=np.float64).reshape(-1, 3)
    v, f = (np.load(folder / f"{name}.npy", allow_pickle=False) for name in ("vertices", "faces"))
    settings, placed = SimpleNamespace(**job["settings"]), SimpleNamespace(**body)
    return v, f, cast("PlacementSettings", settings), cast("PlacedObject", placed), job


def main() -> None:
    """Serve until there are no more releases."""
    serve(lambda session, release, record: session.drop(release, record))


def serve(drop: Drop) -> None:
    """Answer each release with its motion (tests give another ``drop``)."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)  # what PyBullet prints is no answer
    v, f, settings, placed, job = read_job(Path(sys.argv[1]))

    def say(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    try:
        with open_session(v, f, settings, placed) as session:
            say({"ready": True})
            for line in sys.stdin:
                data = json.loads(line)
                release = Release(data["id"], tuple(data["centre"]), tuple(data["quaternion"]), 0.0)
                say(asdict(drop(session, release, job["record"])))
    except SpatialbenchError as error:
        say({"refused": error.what, "where": error.where, "todo": error.todo,
             "unavailable": isinstance(error, BackendUnavailableError)})
