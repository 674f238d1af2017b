"""A second opinion: Open3D's voxel block grid on the same depth images, in a process of its own.

Open3D needs the system library libusb-1.0, and its TBB does not get along with numba's: it is never imported here,
only looked for. The images, and where they were taken from, go to the child through files of a temporary folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from spatialbench.errors import BackendUnavailableError
from spatialbench.types import TriangleMesh
from spatialbench.types.protocol_rules import Fusion
from spatialbench.world.fusion.depths import Depths
from spatialbench.world.fusion.grid import Grid
from spatialbench.world.fusion.sheets import Sheets, without_small_pieces

__all__ = ["open3d_sheets", "open3d_version"]

_LIMIT_S = 1800.0
_WHERE = "fusion.backend=open3d"
_TODO = 'pip install "spatialbench[open3d]" and the system library libusb-1.0, or leave fusion.backend at fusion'


def open3d_version() -> str:
    """``open3d`` and its version, without loading it.

    Raises
    ------
    BackendUnavailableError : it is not installed.
    """
    try:
        if find_spec("open3d") is not None:
            return f"open3d {version('open3d')}"
    except PackageNotFoundError:
        return "open3d"
    raise BackendUnavailableError("Open3D is not installed", where=_WHERE, todo=_TODO)


def open3d_sheets(depths: Depths, grid: Grid, settings: Fusion) -> Sheets:
    """Surfaces of the depths of all viewpoints by Open3D, small pieces left out as ``extract_sheets`` does.

    Unlike the own fusion's: truncation is ``front`` voxels on both sides, along the axis of the image; all looks
    weigh the same, free space included; a cell has a surface when all eight corners were seen. Every image is
    integrated into every block of 16^3 voxels that any image has a surface in and the grid reaches. One thread, on the
    CPU; vertices and faces are sorted, so that the same images give the same bytes.

    Raises
    ------
    BackendUnavailableError : Open3D cannot be loaded, or fails.
    """
    with tempfile.TemporaryDirectory(prefix="open3d-") as name:
        folder = Path(name)
        _write(folder, depths, grid, settings)
        _run(folder)
        vertices, faces = (np.load(folder / f"{part}.npy", allow_pickle=False) for part in ("vertices", "faces"))
    if not len(faces):
        return Sheets(None)
    world = vertices.astype(np.float64) + grid.low + 0.5 * grid.voxel
    # The last blocks reach beyond the grid.
    faces = faces[(world <= grid.high).all(axis=1)[faces].all(axis=1)]
    return without_small_pieces(TriangleMesh(*_sorted(world, faces)), settings.min_faces, grid.voxel)


def _write(folder: Path, depths: Depths, grid: Grid, settings: Fusion) -> None:
    """Images [V*6,S,S], world-to-camera matrices [V*6,4,4] and numbers; voxel 0's centre is the origin."""
    from spatialbench.renderers.trajectories import cube_faces

    size, centre = settings.image, grid.low + 0.5 * grid.voxel
    images = np.lib.format.open_memmap(folder / "depths.npy", mode="w+", dtype=np.float32,
                                       shape=(6 * len(depths), size, size))
    extrinsics = np.zeros((6 * len(depths), 4, 4))
    for v, position in enumerate(depths.positions):
        images[6 * v:6 * v + 6] = depths.kept(v)
        extrinsics[6 * v:6 * v + 6] = [c.pose.world_to_camera for c in cube_faces(position - centre, size)]
    images.flush()
    np.save(folder / "extrinsics.npy", extrinsics)
    numbers: dict[str, Any] = {"voxel": grid.voxel, "shape": grid.shape, "truncation": settings.front, "image": size}
    (folder / "numbers.json").write_text(json.dumps(numbers), encoding="utf-8")


def _run(folder: Path) -> None:
    script = Path(__file__).with_name("open3d_child.py")  # run as a file, so that it starts without this package
    one = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    try:
        with (folder / "said.txt").open("wb") as said:
            done = subprocess.run([sys.executable, str(script), str(folder)], stdin=subprocess.DEVNULL, stdout=said,
                                  stderr=said, timeout=_LIMIT_S, check=False, env={**os.environ, **one})
    except OSError as e:
        raise BackendUnavailableError(f"Open3D's process cannot be started ({e.strerror})", where=_WHERE,
                                      todo=_TODO) from None
    except subprocess.TimeoutExpired:
        raise BackendUnavailableError(f"Open3D takes more than {_LIMIT_S:g} s", where=_WHERE,
                                      todo="Lower fusion.image or fusion.rounds, or set fusion.backend to fusion"
                                      ) from None
    if done.returncode or not (folder / "faces.npy").is_file():
        last = (folder / "said.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise BackendUnavailableError(f"Open3D failed (exit status {done.returncode}): {''.join(last)[:200]}",
                                      where=_WHERE, todo=_TODO)


def _sorted(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices by coordinates, faces by their smallest corner first: the order of Open3D's hash map is no matter."""
    order = np.lexsort(vertices.T)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    turned = rank[faces]
    start = turned.argmin(axis=1)
    turned = np.take_along_axis(turned, (start[:, None] + np.arange(3)) % 3, axis=1)
    return vertices[order], turned[np.lexsort(turned.T[::-1])]
