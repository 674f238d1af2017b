"""Cutting polygons into triangles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["fan", "triangulate"]


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


def triangulate(counts: NDArray, corners: NDArray, vertices: NDArray[np.float64]
                ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """As :func:`fan`, but a polygon whose fan folds over itself (it is concave) is cut by ear clipping.

    Parameters
    ----------
    counts, corners : corners of each polygon, and vertex index of every corner.
    vertices : [V,3]; polygons with vertices that are not finite keep their fan.

    Returns
    -------
    corner, source : as :func:`fan`.
    n_concave : polygons that were cut by ear clipping.
    """
    corner, source = fan(counts)
    if len(counts) == 0 or int(np.max(counts)) <= 3:
        return corner, source, 0
    many = np.flatnonzero(np.asarray(counts)[source] > 3)
    t = vertices[corners[corner[many]]]
    with np.errstate(all="ignore"):
        area = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0])
        owner, start = np.unique(source[many], return_index=True)
        whole = np.add.reduceat(area, start, axis=0)
        pieces = np.diff(np.append(start, len(many)))
        along = (area * np.repeat(whole, pieces, axis=0)).sum(axis=1)
        size = np.repeat((whole * whole).sum(axis=1), pieces)
        folded = np.unique(source[many][along < -1e-9 * size])
    n_concave = 0
    first = np.cumsum(counts) - np.asarray(counts)
    for k in np.searchsorted(owner, folded):
        p, rows = owner[k], many[start[k]:start[k] + pieces[k]]
        places = np.arange(first[p], first[p] + counts[p])
        ears = _ears(vertices[corners[places]], whole[k])
        if ears is not None:
            corner[rows] = places[ears]
            n_concave += 1
    return corner, source, n_concave


def _ears(points: NDArray[np.float64], normal: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """[n-2,3] triangles of one polygon, wound along ``normal``; None where ear clipping does not work out."""
    import mapbox_earcut

    if not np.isfinite(points).all():
        return None
    drop = int(np.argmax(np.abs(normal)))
    flat = np.ascontiguousarray(np.delete(points, drop, axis=1))
    ears = np.asarray(mapbox_earcut.triangulate_float64(flat, np.array([len(flat)], np.uint32)), np.int64)
    if len(ears) != 3 * (len(points) - 2):
        return None
    ears = ears.reshape(-1, 3)
    t = points[ears]
    backwards = (np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) @ normal) < 0
    ears[backwards] = ears[backwards][:, [0, 2, 1]]
    return ears
