"""Anchors what was read: one metric frame, scale, ground, collision mesh, footprint and supports."""

from spatialbench.world.anchoring import Anchoring, anchor_world
from spatialbench.world.build import build_world
from spatialbench.world.decide import FrameOverrides

__all__ = ["Anchoring", "FrameOverrides", "anchor_world", "build_world"]
