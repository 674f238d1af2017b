"""Readers of worlds made of 3D Gaussians: 3DGS PLY, compressed PLY, SPZ, .splat, KSPLAT and SOG."""

from spatialbench.scene.splats.blocks import thin
from spatialbench.scene.splats.judge import judge, report_splats
from spatialbench.scene.splats.load import SPLAT_KINDS, load_splats

__all__ = ["SPLAT_KINDS", "judge", "load_splats", "report_splats", "thin"]
