"""Runs Open3D on the images of a folder: a script of its own, started by ``open3d_backend``.

It imports nothing of this package. Reads ``depths.npy`` [N,S,S], ``extrinsics.npy`` [N,4,4] and ``numbers.json``,
writes ``vertices.npy`` [V,3] and ``faces.npy`` [F,3]. The frame's origin is the centre of the grid's first voxel.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

_BLOCK = 16
_LEAST_WEIGHT = 1.0
"""Looks at each corner of a cell that has a surface."""


def main(folder: Path) -> None:
    """Allocate the blocks that any image has a surface in, integrate every image into all, extract."""
    import open3d.core as o3c
    from open3d.t.geometry import Image, VoxelBlockGrid

    numbers = json.loads((folder / "numbers.json").read_text(encoding="utf-8"))
    images = np.load(folder / "depths.npy", mmap_mode="r", allow_pickle=False)
    poses = np.load(folder / "extrinsics.npy", allow_pickle=False)
    voxel, truncation, shape = float(numbers["voxel"]), float(numbers["truncation"]), np.array(numbers["shape"])
    half = 0.5 * numbers["image"]
    # A pixel's centre is at whole numbers there, at halves here.
    lens = o3c.Tensor(np.array([[half, 0, half - 0.5], [0, half, half - 0.5], [0, 0, 1.0]]))
    last = -(-shape // _BLOCK)
    deepest = float(np.linalg.norm(shape) * voxel)
    device = o3c.Device("CPU:0")

    def looks() -> Any:
        for image, pose in zip(images, poses, strict=True):
            depth = np.where(image < deepest, image, np.float32(0.0))
            if depth.any():
                yield Image(o3c.Tensor(np.ascontiguousarray(depth[:, :, None]), device=device)), o3c.Tensor(pose)

    def grid(blocks: int) -> Any:
        return VoxelBlockGrid(attr_names=("tsdf", "weight"), attr_dtypes=(o3c.float32, o3c.float32),
                              attr_channels=((1,), (1,)), voxel_size=voxel, block_resolution=_BLOCK,
                              block_count=blocks, device=device)

    found: set[tuple[int, int, int]] = set()
    probe = grid(1)
    for depth, pose in looks():
        blocks = probe.compute_unique_block_coordinates(depth, lens, pose, 1.0, deepest, truncation).numpy()
        inside = ((blocks >= 0) & (blocks < last)).all(axis=1)
        found.update(map(tuple, blocks[inside].tolist()))
    vertices, faces = np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32)
    if found:
        volume = grid(len(found))
        blocks = o3c.Tensor(np.array(sorted(found), np.int32), device=device)
        for depth, pose in looks():
            volume.integrate(blocks, depth, lens, pose, 1.0, deepest, truncation)
        mesh = volume.extract_triangle_mesh(weight_threshold=_LEAST_WEIGHT)
        if len(mesh.vertex.positions) and len(mesh.triangle.indices):
            vertices = mesh.vertex.positions.numpy().astype(np.float32)
            faces = mesh.triangle.indices.numpy().astype(np.int32)
    np.save(folder / "vertices.npy", vertices)
    np.save(folder / "faces.npy", faces)


if __name__ == "__main__":
    del sys.path[0]  # this folder: its modules are no top-level ones
    main(Path(sys.argv[1]))
