"""The frame that ``spatialbench render`` is given cameras and places in, and writes cameras and depths in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import UsageError
from spatialbench.scene.cameras import CameraList, ListedCamera
from spatialbench.scene.cameras.own import SOURCE_FRAME, WORLD_FRAME
from spatialbench.world.anchoring import Anchoring

__all__ = ["STATED_FRAMES", "Frame", "frame_of"]

STATED_FRAMES = ("world", "file", "capture")
"""``capture``: the list's cameras before nerfstudio's ``applied_transform``, then as ``file``."""


@dataclass(frozen=True, eq=False)
class Frame:
    """The frame that cameras are given and written in, and how the world frame is reached from it.

    ``x_world = factor * (rotation @ x + shift)``.

    Attributes
    ----------
    name : ``world`` or ``file``. words : as camera lists say it.
    """

    name: str
    words: str
    rotation: NDArray[np.float64]
    shift: NDArray[np.float64]
    factor: float

    def world(self, place: Sequence[float]) -> NDArray[np.float64]:
        """A place [3] in the world frame."""
        return np.asarray(self.factor * (self.rotation @ np.asarray(place, dtype=np.float64) + self.shift))

    def to_world(self, camera: ListedCamera) -> ListedCamera:
        """A camera of this frame in the world frame."""
        return camera if self.name == "world" else camera.moved(self.rotation, self.shift, self.factor)

    def from_world(self, camera: ListedCamera) -> ListedCamera:
        """A camera of the world frame in this frame."""
        if self.name == "world":
            return camera
        back = self.rotation.T
        return camera.moved(back, -self.factor * (back @ self.shift), 1 / self.factor)


def frame_of(stated: str | None, cameras: CameraList | None, source: Path | None, at: Anchoring) -> Frame:
    """The stated frame: what the option says, else the list of cameras, else ``file`` with a list, ``world`` without.

    Parameters
    ----------
    stated : one of ``STATED_FRAMES``, or None. cameras, source : the list and its file. at : the anchored world.

    Raises
    ------
    UsageError : a list of our own whose frame is neither and that no option explains, or another than the option's.
    """
    name = stated
    listed = None if cameras is None else {WORLD_FRAME: "world", SOURCE_FRAME: "file"}.get(cameras.frame)
    if stated is not None and listed is not None and listed != stated:
        raise UsageError(f"states the frame '{listed}', and --frame says '{stated}'", where=str(source),
                         todo="Leave --frame away: the list's own frame counts")
    if name is None and cameras is not None and cameras.frame:
        name = listed
        if name is None:
            raise UsageError(f"states the frame {cameras.frame[:80]!r}", where=str(source),
                             todo="Say with --frame world or --frame file which it is")
    if name is None:
        name = "world" if cameras is None else "file"
    if name == "world":
        return Frame("world", WORLD_FRAME, np.eye(3), np.zeros(3), 1.0)
    return Frame("file", SOURCE_FRAME, at.rotation, -at.rotation @ at.camera.position, at.factor)
