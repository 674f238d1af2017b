"""Scenes made in code, in a file's own frame, for tests of anchoring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types import (
    ImportReport,
    Pose,
    Protocol,
    Scene,
    SideCar,
    TriangleMesh,
    load_protocol,
)

TO_Y_UP = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
"""Analytic frame (Z up, looking along +Y) to glTF's (Y up, looking along -Z): (x, y, z) -> (x, z, -y)."""


def y_up(points: ArrayLike) -> NDArray[np.float64]:
    """Points or directions of the analytic frame in a Y-up file."""
    return np.asarray(points, dtype=np.float64) @ TO_Y_UP.T


def moved(mesh: TriangleMesh, linear: ArrayLike, offset: ArrayLike = (0.0, 0.0, 0.0)) -> TriangleMesh:
    """A mesh under ``x -> linear x + offset``."""
    m = np.eye(4)
    m[:3, :3], m[:3, 3] = linear, offset
    return mesh.transformed(m)


def scene_of(mesh: TriangleMesh | None, up: ArrayLike = (0.0, 1.0, 0.0), unit_m: float | None = 1.0, *,
             up_axis: ArrayLike | None = None, side_unit: float | None = None, **side: Any) -> Scene:
    """A scene whose format says ``up`` and ``unit_m``; the rest is what a side-car says."""
    car = SideCar(up=None if up_axis is None else np.array(up_axis, dtype=np.float64), unit_m=side_unit, **side)
    return Scene(Path("made.glb"), mesh, np.array(up, dtype=np.float64), unit_m,
                 ImportReport(kind="mesh", format="glb"), car)


def y_up_scene(mesh: TriangleMesh, shift: ArrayLike = (0.0, 0.0, 0.0), unit_m: float | None = 1.0,
               per_metre: float = 1.0, **side: Any) -> Scene:
    """An analytic mesh in a Y-up file: moved by ``shift`` (analytic frame), ``per_metre`` units a metre."""
    at = moved(mesh, np.eye(3), shift)
    return scene_of(moved(at, per_metre * TO_Y_UP), unit_m=unit_m, **side)


def quick_protocol(*overrides: str) -> Protocol:
    """The protocol with fewer surfels and a small ring, for tests of rules that do not depend on them."""
    return load_protocol("happyworld-spatial-1", (
        "finding.min_surfels=40000", "finding.max_surfels=40000", "views.ring_frames=4",
        "views.lens={width: 48, height: 48, fov_deg: 75.0}", *overrides))


def pose_looking(position: ArrayLike, forward: ArrayLike, up: ArrayLike) -> Pose:
    """Pose (x right, y down, z forward) by plain cross products."""
    f = np.asarray(forward, dtype=np.float64) / np.linalg.norm(forward)
    right = np.cross(f, up)
    right = right / np.linalg.norm(right)
    m = np.eye(4)
    m[:3, :3] = np.stack([right, np.cross(f, right), f], axis=1)
    m[:3, 3] = position
    return Pose(m)
