"""Cutting polygons into triangles: fans, as Recast's and trimesh's readers do, so that NavMeshes agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["count_folded", "fan"]


def fan(counts: NDArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Fans around the first corner, for polygons whose corners lie one after the other in one list.

    Parameters
    ----------
    counts : [P] corners of each polygon; those with fewer than three give no triangle.

    Returns
    -------
    corner : [F,3] positions in the list of corners.
    source : [F] the polygon that each triangle comes from.
    """
    n = np.asarray(counts, dtype=np.int64)
    first = np.cumsum(n) - n
    pieces = np.maximum(n - 2, 0)
    source = np.repeat(np.arange(len(n)), pieces)
    step = np.arange(len(source)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = first[source]
    return np.stack([start, start + step + 1, start + step + 2], axis=1), source


def count_folded(faces: NDArray, source: NDArray[np.int64], vertices: NDArray[np.float64]) -> int:
    """Polygons whose fan folds over itself (they are concave), so that it covers what the polygon does not.

    Parameters
    ----------
    faces : [F,3] vertex indices of the triangles of :func:`fan`.
    source : [F] the polygon of each.
    """
    if len(source) == 0:
        return 0
    first = np.flatnonzero(np.diff(source, prepend=-1))
    pieces = np.diff(np.append(first, len(source)))
    many = np.repeat(pieces > 1, pieces)
    if not many.any():
        return 0
    t = vertices[faces[many]]
    with np.errstate(all="ignore"):
        area = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0])
        pieces = pieces[pieces > 1]
        whole = np.repeat(np.add.reduceat(area, np.cumsum(pieces) - pieces, axis=0), pieces, axis=0)
        folded = (area * whole).sum(axis=1) < -1e-3 * (whole * whole).sum(axis=1)
    return len(np.unique(source[many][folded]))
