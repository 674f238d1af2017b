"""The table of projected splats: what its columns hold, which both halves of drawing splats read."""

from __future__ import annotations

import numpy as np

from spatialbench.renderers import _jit

__all__ = ["BLUE", "COLUMNS", "DEPTH", "GREEN", "HALF_HEIGHT", "HALF_WIDTH", "HELPER", "INLINE", "KERNEL", "LOWEST",
           "OPACITY", "RED", "TILE", "XX", "XY", "YY", "X", "Y", "f32", "u64"]

f32 = np.float32
u64 = np.uint64

TILE = 16
"""Side of a tile, pixels."""
COLUMNS = 16
"""Columns of the table, by the names below: one row is one line of the cache."""
X, Y, XX, XY, YY, LOWEST, OPACITY, RED, GREEN, BLUE, DEPTH, HALF_WIDTH, HALF_HEIGHT = range(13)
# XX, XY, YY: (dx, dy) of the centre -> exponent / 8 is XX dx^2 + XY dx dy + YY dy^2, nowhere positive;
# LOWEST: that value where alpha is ALPHA_MIN.

FAST = {"fastmath": {"nsz", "arcp", "contract", "afn"}}
"""Sums may be contracted by the compiler, alike for every call."""
KERNEL = {**_jit.KERNEL, **FAST}
HELPER = {**_jit.HELPER, **FAST}
INLINE = {**_jit.INLINE, **FAST}
