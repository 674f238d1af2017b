"""A worker without weights that does all of the protocol: ``python -m spatialbench.scorers.worker.reference``.

For trying the protocol out, and as stand-ins: simple enough that every number follows by hand.

- ``tracks``: the world does not move. A point is seen in a frame when its depth there agrees with the given depth to
  5 %; its position is then the surface at its pixel, along the ray of its own projection. Otherwise it is lost.
- ``depth``: a plane 1 away, seen by a camera that does not move, 90 degrees wide. Not metric.
- ``frames``: linear blend, rounded half up.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.scorers.worker.serve import serve

__all__ = ["between", "depth", "main", "tracks"]

_AGREES = 0.05

Arrays = Mapping[str, NDArray[Any]]


def tracks(request: Mapping[str, Any], given: Arrays) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """[T,K,3] from depth [T,H,W], poses [T,4,4], intrinsics [T,3,3], points [K,3]; frame 0 is what was given."""
    points, maps = given["points"], given["depth"]
    height, width = maps.shape[1:]
    out = np.full((len(maps), *points.shape), np.nan)
    out[0] = points
    for t in range(1, len(maps)):
        pose, k = given["poses"][t], given["intrinsics"][t]
        local = (points - pose[:3, 3]) @ pose[:3, :3]
        z = local[:, 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            x, y = local[:, 0] / z * k[0, 0] + k[0, 2], local[:, 1] / z * k[1, 1] + k[1, 2]
        inside = (z > 0) & (x >= 0) & (x < width) & (y >= 0) & (y < height)
        i = np.flatnonzero(inside)
        surface = maps[t][y[i].astype(int), x[i].astype(int)].astype(float)
        i, surface = i[near := np.abs(surface - z[i]) <= _AGREES * z[i]], surface[near]
        out[t, i] = (local[i] * (surface / z[i])[:, None]) @ pose[:3, :3].T + pose[:3, 3]
    return {"tracks": out}, {}


def depth(request: Mapping[str, Any], given: Arrays) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Depth 1 everywhere, at the frames' size."""
    count, height, width = given["frames"].shape[:3]
    k = np.array([[width / 2, 0, width / 2], [0, width / 2, height / 2], [0, 0, 1]])
    return {"depth": np.ones((count, height, width), np.float32), "poses": np.tile(np.eye(4), (count, 1, 1)),
            "intrinsics": np.tile(k, (count, 1, 1))}, {"metric": False}


def between(request: Mapping[str, Any], given: Arrays) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """floor((1 - s) a + s b + 1/2) at s = i/(n + 1), in integers."""
    n = int(request["parameters"]["count"])
    a, b = given["first"].astype(np.int64), given["second"].astype(np.int64)
    blends = [(2 * ((n + 1 - i) * a + i * b) + n + 1) // (2 * (n + 1)) for i in range(1, n + 1)]
    return {"frames": np.stack(blends).astype(np.uint8)}, {}


def main() -> None:
    """Serve until standard input ends."""
    serve({"tracks": tracks, "depth": depth, "frames": between}, model="spatialbench reference worker, version 1",
          versions={"python": "{}.{}".format(*sys.version_info), "numpy": np.__version__})


if __name__ == "__main__":
    main()
