"""The one camera type: a pinhole with a camera-to-world pose, axes as in OpenCV."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Camera", "Pose", "level_pose", "look_at_pose"]

_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Pose:
    """Camera-to-world rigid transform; camera axes are x right, y down, z forward.

    Attributes
    ----------
    matrix : [4,4] float64, right-handed and orthonormal to 1e-6.

    Raises
    ------
    ValueError : when the matrix is not such a transform.
    """

    matrix: NDArray[np.float64]

    def __post_init__(self) -> None:
        m = np.array(self.matrix, dtype=np.float64)
        if m.shape != (4, 4) or not np.isfinite(m).all():
            raise ValueError(f"a pose is a finite 4x4 matrix, got shape {m.shape}")
        r = m[:3, :3]
        if np.abs(r.T @ r - np.eye(3)).max() > _TOLERANCE or np.linalg.det(r) < 0:
            raise ValueError("the rotation of a pose must be orthonormal (to 1e-6) and right-handed")
        if np.abs(m[3] - [0, 0, 0, 1]).max() > _TOLERANCE:
            raise ValueError("the last row of a pose must be 0 0 0 1")
        m.setflags(write=False)
        object.__setattr__(self, "matrix", m)

    @property
    def position(self) -> NDArray[np.float64]:
        """Camera centre [3] in the world."""
        return self.matrix[:3, 3]

    @property
    def rotation(self) -> NDArray[np.float64]:
        """Camera-to-world rotation [3,3]; its columns are right, down, forward."""
        return self.matrix[:3, :3]

    @property
    def forward(self) -> NDArray[np.float64]:
        """Viewing direction [3]."""
        return self.matrix[:3, 2]

    @property
    def world_to_camera(self) -> NDArray[np.float64]:
        """Inverse transform [4,4]."""
        w = np.eye(4)
        w[:3, :3] = self.rotation.T
        w[:3, 3] = -self.rotation.T @ self.position
        return w


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera: pose, focal lengths and principal point in pixels, image size.

    Pixel (i, j) has its centre at (i + 0.5, j + 0.5); x runs right, y down.
    """

    pose: Pose
    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise ValueError(f"image size {self.width}x{self.height} is not positive")
        if not (self.fx > 0 and self.fy > 0):
            raise ValueError("focal lengths must be positive")

    @classmethod
    def from_fov(cls, pose: Pose, fov_deg: float, width: int, height: int | None = None) -> Camera:
        """Square pixels, principal point in the middle, ``fov_deg`` across the width."""
        height = width if height is None else height
        f = 0.5 * width / math.tan(math.radians(fov_deg) / 2)
        return cls(pose, f, f, width / 2, height / 2, width, height)

    def key(self) -> tuple[float | int, ...]:
        """Hashable identity, exact to the last bit."""
        return (*self.pose.matrix[:3].ravel().tolist(), self.fx, self.fy, self.cx, self.cy,
                self.width, self.height)


def level_pose(position: ArrayLike, yaw_deg: float = 0.0, pitch_deg: float = 0.0) -> Pose:
    """Pose in a Z-up frame. Yaw 0 looks along +Y and grows clockwise seen from above; pitch grows upwards.

    Straight up and down (pitch of 90 and -90) are exact: the image's top is then towards the back and
    the front of the yaw direction respectively.
    """
    y, p = math.radians(yaw_deg), math.radians(pitch_deg)
    sy, cy = _sincos(yaw_deg, y)
    sp, cp = _sincos(pitch_deg, p)
    forward = np.array([sy * cp, cy * cp, sp])
    right = np.array([cy, -sy, 0.0])
    m = np.eye(4)
    m[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
    m[:3, 3] = np.asarray(position, dtype=np.float64)
    return Pose(m)


def look_at_pose(position: ArrayLike, target: ArrayLike) -> Pose:
    """Level-horizon pose (Z up) at ``position`` that looks at ``target``."""
    d = np.asarray(target, dtype=np.float64) - np.asarray(position, dtype=np.float64)
    return level_pose(position, math.degrees(math.atan2(d[0], d[1])),
                      math.degrees(math.atan2(d[2], math.hypot(d[0], d[1]))))


def _sincos(deg: float, rad: float) -> tuple[float, float]:
    """Sine and cosine, exact at multiples of 90 degrees."""
    q, r = divmod(deg, 90.0)
    if r == 0.0:
        return ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0))[int(q) % 4]
    return math.sin(rad), math.cos(rad)
