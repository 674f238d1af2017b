"""Which keys of the protocol change what is measured: prefixes, shared by metrics and observations."""

from __future__ import annotations

__all__ = ["COLLISION", "IMAGES", "WORLD"]

WORLD = ("scale", "finding", "gates", "views.lens", "views.ring_frames")
"""Where the initial camera stands, how long a metre is, and what the gates say: everything depends on it."""
IMAGES = (*WORLD, "views")
"""Images from that camera."""
COLLISION = (*WORLD, "crop", "fusion", "footprint")
"""The collision mesh and its plan."""
