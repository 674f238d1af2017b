"""A collision mesh out of rendered depth: viewpoints in free space, voxels, surfaces, and how good they are."""

from spatialbench.world.fusion.fuse import FusedMesh, fuse

__all__ = ["FusedMesh", "fuse"]
