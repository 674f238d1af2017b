"""Pictures of two worlds for a page: before and after side by side, what changed, masks, and disagreeing depths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.report.data import Picture
from spatialbench.report.images import mark_holes
from spatialbench.tracks.spatial.two_worlds import PairView

__all__ = ["GAIN", "PictureRow", "difference_map", "holes_row", "marked", "pair_row"]

GAIN = 4
"""A difference of a quarter of the range is as bright as the map goes."""
_MASK = (236, 64, 160)
_DISAGREE = (226, 60, 44)


@dataclass(eq=False)
class PictureRow:
    """One camera: name, pictures with captions, and a line about it."""

    name: str
    pictures: Sequence[tuple[str, Picture]]
    note: str = ""


def pair_row(name: str, view: PairView, note: str = "", *, changed: NDArray[np.bool_] | None = None,
             disagree: NDArray[np.bool_] | None = None) -> PictureRow:
    """Before, after and their difference; where the edit may change (outlined in the first two), or where depths
    disagree (red, over the world after), if given."""
    before, after = view.before, view.after
    if changed is not None:
        before, after = marked(before, changed), marked(after, changed)
    pictures = [("before", before), ("after", after), ("difference", difference_map(view.difference))]
    if disagree is not None:
        pictures.append(("depths that disagree", _painted(view.after, disagree)))
    return PictureRow(name, pictures, note)


def holes_row(name: str, view: PairView, before: NDArray[np.bool_], after: NDArray[np.bool_], note: str = ""
              ) -> PictureRow:
    """Before and after with their holes in stripes."""
    return PictureRow(name, [("before", mark_holes(view.before, before)), ("after", mark_holes(view.after, after))],
                      note)


def difference_map(difference: NDArray[np.uint8]) -> Picture:
    """[H,W,3]: black where nothing differs, over orange to white, at ``GAIN`` times the mean channel difference."""
    v = np.minimum(difference.astype(np.float64) / 255.0 * GAIN, 1.0)
    ramp = np.stack([np.minimum(2.0 * v, 1.0), v, np.maximum(2.0 * v - 1.0, 0.0)], axis=-1)
    return np.asarray(ramp * 255.0 + 0.5, dtype=np.uint8)


def marked(picture: Picture, mask: NDArray[np.bool_]) -> Picture:
    """The picture with the outline of a mask [H,W] of any size."""
    inside = _fitted(mask, picture)
    edge = np.zeros_like(inside)
    for shift, axis in ((1, 0), (-1, 0), (1, 1), (-1, 1)):
        edge |= inside & ~np.roll(inside, shift, axis)
    return np.where(edge[..., None], np.array(_MASK, np.uint8), picture)


def _painted(picture: Picture, mask: NDArray[np.bool_]) -> Picture:
    gray = np.repeat(picture.mean(axis=-1, keepdims=True), 3, axis=-1)
    inside = _fitted(mask, picture)[..., None]
    return np.asarray(np.where(inside, 0.35 * gray + 0.65 * np.array(_DISAGREE), 0.75 * gray + 40), dtype=np.uint8)


def _fitted(mask: NDArray[np.bool_], picture: Picture) -> NDArray[np.bool_]:
    h, w = picture.shape[:2]
    rows, columns = np.arange(h) * mask.shape[0] // h, np.arange(w) * mask.shape[1] // w
    return np.asarray(mask[rows[:, None], columns[None, :]])
