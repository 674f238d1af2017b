"""Versions of what is drawn, whoever draws it; they are part of every renderer's version.

Each is raised with a change after which any pixel may differ: ``spatialbench render`` keeps pictures of an earlier
command by it. The test of golden images fails when those change and this does not.
"""

from __future__ import annotations

__all__ = ["MESH_IMAGES", "PANORAMAS", "SPLAT_IMAGES"]

MESH_IMAGES = 2
SPLAT_IMAGES = 1
PANORAMAS = 1
"""How faces become one picture."""
