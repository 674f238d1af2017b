"""Readers of worlds made of 3D Gaussians: 3DGS PLY, compressed PLY, SPZ, .splat and SOG."""

from spatialbench.scene.splats.load import SPLAT_KINDS, load_splats

__all__ = ["SPLAT_KINDS", "load_splats"]
