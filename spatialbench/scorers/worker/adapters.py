"""Scorers that are workers: what they are asked, and whether what they say can be so.

Each satisfies its interface of ``scorers.contract`` and raises ``BackendUnavailableError`` when the worker cannot be
used or answers something impossible, ``ValueError`` when it is asked something that makes no sense.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.contract import DepthAndPoses, Image
from spatialbench.scorers.worker.files import WorkerCommand
from spatialbench.scorers.worker.process import Worker
from spatialbench.scorers.worker.protocol import Capability, Wanted, bad_answer, plain
from spatialbench.types import Camera

__all__ = ["WorkerDepth", "WorkerInterpolator", "WorkerTracker"]

_ORTHONORMAL = 1e-3
"""How far a rotation of a worker, which computes in single precision or less, may be from one."""


class _Adapter:
    """A worker that can do ``capability``; asked at once whether it does.

    Parameters
    ----------
    scorer : id.
    plan : how it is started.
    device : handed on to it: ``auto``, ``cpu``, ``cuda``...
    """

    capability: Capability

    def __init__(self, scorer: str, plan: WorkerCommand, device: str = "auto") -> None:
        self.scorer = scorer
        self._parameters = {"batch": plan.batch, "device": device}
        self.worker = Worker(scorer, plan.command, plan.timeout_s, plan.env)
        try:
            answer, _ = self.worker.ask("describe", {}, self._parameters, {})
            if self.capability not in answer.capabilities:
                does = plain(", ".join(answer.capabilities))[:200] or "nothing"
                raise BackendUnavailableError(
                    f"the worker does {does}, and '{self.capability}' is needed",
                    where=scorer, todo="Name another command in the workers file")
        except BaseException:
            self.worker.close()
            raise

    @property
    def identity(self) -> dict[str, str]:
        """What the worker says that it is: model, versions, hashes of its weights; part of results."""
        return self.worker.identity

    def close(self) -> int | None:
        """End the worker; as ``Worker.close``."""
        return self.worker.close()

    def _ask(self, arrays: Mapping[str, NDArray[Any]], wanted: Mapping[str, Wanted], **parameters: Any) -> tuple[
            dict[str, NDArray[Any]], dict[str, Any]]:
        answer, out = self.worker.ask(self.capability, arrays, {**self._parameters, **parameters}, wanted)
        return out, answer.values


class WorkerTracker(_Adapter):
    """``PointTracker``."""

    capability: Capability = "tracks"

    def track(self, frames: Sequence[Image], depth: NDArray[np.float32], cameras: Sequence[Camera],
              points: NDArray[np.float64]) -> NDArray[np.float64]:
        """[T,K,3] world positions, metres; NaN where a point was lost. All points are followed together.

        Parameters
        ----------
        frames : T images [H,W,3].
        depth : [T,H,W] metres along the camera's axis; 0, NaN and infinity: nothing there.
        cameras : T, of the images' size.
        points : [K,3] where they are in the first frame, metres.
        """
        clip = _stack(frames)
        count, height, width = clip.shape[:3]
        z = np.array(depth, dtype=np.float32)
        p = np.array(points, dtype=np.float64)
        if z.shape != (count, height, width) or len(cameras) != count:
            raise ValueError(f"{count} frames of {width}x{height} with depths {z.shape} and {len(cameras)} cameras")
        if any((c.width, c.height) != (width, height) for c in cameras):
            raise ValueError(f"the cameras are not for frames of {width}x{height}")
        if p.ndim != 2 or p.shape[1] != 3 or not np.isfinite(p).all():
            raise ValueError("points must be finite [K,3]")
        if not len(p):
            return np.empty((count, 0, 3))
        z[~(np.isfinite(z) & (z > 0))] = 0
        arrays: dict[str, NDArray[Any]] = {
            "frames": clip, "depth": z, "points": p,
            "poses": np.stack([c.pose.matrix for c in cameras]),
            "intrinsics": np.array([[[c.fx, 0, c.cx], [0, c.fy, c.cy], [0, 0, 1]] for c in cameras], float)}
        out, _ = self._ask(arrays, {"tracks": Wanted((count, len(p), 3), ("float64", "float32"))})
        tracks: NDArray[np.float64] = out["tracks"].astype(np.float64)
        lost = np.isnan(tracks)
        if np.isinf(tracks).any() or (lost.any(axis=2) != lost.all(axis=2)).any():
            raise bad_answer(self.scorer, "a position is infinite, or NaN in part: a lost point is NaN in x, y and z")
        if lost[0].any():
            raise bad_answer(self.scorer, "a point is lost in the first frame, where it is given")
        return tracks


class WorkerDepth(_Adapter):
    """``DepthEstimator``."""

    capability: Capability = "depth"

    def estimate(self, frames: Sequence[Image]) -> DepthAndPoses:
        """Depth of all frames together, 0 where the model knows none; poses with exact rotations (the nearest to the
        worker's, by SVD)."""
        clip = _stack(frames)
        count = len(clip)
        out, values = self._ask({"frames": clip}, {
            "depth": Wanted((count, None, None), ("float32",)),
            "poses": Wanted((count, 4, 4), ("float64", "float32")),
            "intrinsics": Wanted((count, 3, 3), ("float64", "float32"))})
        depth, poses, k = out["depth"], out["poses"].astype(np.float64), out["intrinsics"].astype(np.float64)
        if 0 in depth.shape or not np.isfinite(depth).all() or (depth < 0).any():
            raise bad_answer(self.scorer, "depths must be finite and not negative; 0 is where none is known")
        if not isinstance(values.get("metric"), bool):
            raise bad_answer(self.scorer, "the value 'metric' must say whether lengths are metres (true or false)")
        focal = k[:, [0, 1], [0, 1]]
        k_free = k.copy()
        k_free[:, [0, 1, 0, 1], [0, 1, 2, 2]] = 0
        if not np.isfinite(k).all() or (focal <= 0).any() or (k_free != [[0, 0, 0], [0, 0, 0], [0, 0, 1]]).any():
            raise bad_answer(self.scorer, "intrinsics must be [[fx, 0, cx], [0, fy, cy], [0, 0, 1]] with fx, fy > 0")
        return DepthAndPoses(depth, _rigid(poses, self.scorer), k, bool(values["metric"]))


class WorkerInterpolator(_Adapter):
    """``Interpolator``."""

    capability: Capability = "frames"

    def between(self, first: Image, second: Image, count: int) -> list[Image]:
        """``count`` images at i/(count + 1), i = 1 .. count, of the time between the two."""
        pair = _stack([first, second])
        if count < 0:
            raise ValueError("count must not be negative")
        if not count:
            return []
        out, _ = self._ask({"first": pair[0], "second": pair[1]},
                           {"frames": Wanted((count, *pair.shape[1:]), ("uint8",))}, count=count)
        return list(out["frames"])


def _stack(frames: Sequence[Image]) -> Image:
    if not frames:
        raise ValueError("there are no frames")
    first = frames[0].shape
    for f in frames:
        if f.dtype != np.uint8 or f.ndim != 3 or f.shape[2] != 3 or 0 in f.shape:
            raise ValueError(f"a frame must be [H,W,3] uint8, got {f.shape} {f.dtype}")
        if f.shape != first:
            raise ValueError(f"frames are of different sizes: {first} and {f.shape}")
    return np.stack(frames)


def _rigid(poses: NDArray[np.float64], scorer: str) -> NDArray[np.float64]:
    r = poses[:, :3, :3]
    if not np.isfinite(poses).all() or np.abs(poses[:, 3] - [0, 0, 0, 1]).max() > _ORTHONORMAL \
            or np.abs(np.swapaxes(r, 1, 2) @ r - np.eye(3)).max() > _ORTHONORMAL or (np.linalg.det(r) < 0).any():
        raise bad_answer(scorer, "poses must be camera-to-world: a rotation and a position, with a last row 0 0 0 1")
    u, _, vt = np.linalg.svd(r)
    out = np.zeros_like(poses)
    out[:, :3, :3], out[:, :3, 3], out[:, 3, 3] = u @ vt, poses[:, :3, 3], 1
    return out
