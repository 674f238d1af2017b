"""From the world frame to the conventions of file formats, and the file that is read back without any option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.log import ReadLog
from spatialbench.scene.splats.raw import RawSplats
from spatialbench.scene.splats.rows import frame_comments
from spatialbench.scene.splats.transform import transform_splats
from spatialbench.scene.splats.write_ply import write_splat_ply
from spatialbench.scene.write_glb import write_glb
from spatialbench.types import GaussianSplats, Pose, TriangleMesh

__all__ = ["WORLD_TO_3DGS", "WORLD_TO_GLTF", "in_3dgs_frame", "in_gltf_frame", "write_source_ply", "write_world_glb",
           "write_world_ply"]

WORLD_TO_GLTF: NDArray[np.float64] = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
"""X right, Y forward, Z up to X right, Y up, Z back."""
WORLD_TO_3DGS: NDArray[np.float64] = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
"""X right, Y forward, Z up to x right, y down, z forward, as the axes of a camera."""
_AT_ORIGIN = Pose(np.eye(4))
_GLTF_CAMERA = Pose(np.diag([1.0, -1.0, -1.0, 1.0]))


def in_gltf_frame(mesh: TriangleMesh) -> TriangleMesh:
    """A mesh of the world frame in glTF's."""
    return mesh.transformed(WORLD_TO_GLTF)


def in_3dgs_frame(splats: GaussianSplats) -> GaussianSplats:
    """Splats of the world frame in that of 3DGS files; harmonics are turned with them."""
    offset = np.zeros(3) if splats.offset is None else splats.offset
    raw = RawSplats(splats.means, splats.scales, splats.quaternions, splats.opacities, splats.sh)
    out = transform_splats(raw, WORLD_TO_3DGS, ReadLog(), "")
    return replace(splats, means=out.means.astype(np.float32), scales=out.scales, quaternions=out.quaternions,
                   sh=out.sh, offset=WORLD_TO_3DGS[:3, :3] @ offset)


def write_world_glb(mesh: TriangleMesh, path: Path) -> None:
    """Write an anchored mesh (world frame, metres) so that it is anchored alike when it is read again.

    Y is up, the initial camera is a node at the origin that looks along -Z. Its lights are in the world frame too.

    Raises
    ------
    As ``write_glb``.
    """
    write_glb(in_gltf_frame(mesh), path, (_GLTF_CAMERA,))


def write_world_ply(splats: GaussianSplats, path: Path, *, metric: bool = True) -> None:
    """Write anchored splats (world frame) as 3DGS PLY so that they are anchored alike when they are read again.

    x is right, y down, z forward, the initial camera is at the origin; comments in the header say so, and, where the
    scale is known (``metric``), that the unit is the metre.

    Raises
    ------
    As ``write_splat_ply``.
    """
    comments = frame_comments(np.array([0.0, -1.0, 0.0]), 1.0 if metric else None, _AT_ORIGIN)
    write_splat_ply(in_3dgs_frame(splats), path, comments)


def write_source_ply(splats: GaussianSplats, path: Path, up: NDArray[np.float64], unit_m: float | None,
                     cameras: Sequence[Pose] = ()) -> None:
    """Write splats as they stand in their source frame; comments state its up axis, unit and first camera.

    Raises
    ------
    As ``write_splat_ply``.
    """
    write_splat_ply(splats, path, frame_comments(up, unit_m, cameras[0] if cameras else None))
