"""Where to look from next: places in free space, far from everything and from each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.world.fusion.volume import Volume

__all__ = ["farthest_places"]


def farthest_places(volume: Volume, start: ArrayLike, taken: NDArray[np.float64], count: int, clearance: float,
                    spacing: float) -> NDArray[np.float64]:
    """Up to ``count`` voxel centres [N,3] of free space, each the farthest from all places before it.

    Candidates are farther than ``clearance`` from the centre of anything not free (beyond the grid nothing is),
    and in the component (by faces) of the voxel of ``start`` [3], or in the largest component when that voxel is
    in none. Nothing closer than ``spacing`` to another place is added. Ties go to the first voxel in C order.

    Parameters
    ----------
    taken : [P,3] places that there are, P > 0.
    """
    from scipy import ndimage

    grid = volume.grid
    away = ndimage.distance_transform_edt(np.pad(volume.free(), 1))[1:-1, 1:-1, 1:-1]
    labels, found = ndimage.label(away > clearance / grid.voxel + 1e-6)
    del away
    if not found or not count:
        return np.zeros((0, 3))
    at = grid.index(start)
    label = labels[at] if at is not None else 0
    if not label:
        label = 1 + int(np.bincount(labels.ravel())[1:].argmax())
    places = np.argwhere(labels == label) + 0.5  # in voxels from here on

    def squared(place: NDArray[np.float64]) -> NDArray[np.float64]:
        # Rounded, so that ties do not depend on the last bits of where the grid lies.
        return np.asarray(np.round(((places - place) ** 2).sum(axis=1), 6))

    near = np.full(len(places), np.inf)
    for place in (taken - grid.low) / grid.voxel:
        near = np.minimum(near, squared(place))
    chosen: list[int] = []
    while len(chosen) < count:
        best = int(near.argmax())
        if near[best] < (spacing / grid.voxel) ** 2 - 1e-6:
            break
        chosen.append(best)
        near = np.minimum(near, squared(places[best]))
    return np.asarray(grid.low + grid.voxel * places[chosen])
