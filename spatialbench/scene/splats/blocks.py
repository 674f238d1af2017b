"""The rule by which a world is thinned out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import UsageError
from spatialbench.scene.log import ReadLog
from spatialbench.scene.splats.raw import RawSplats

__all__ = ["thin", "thinned"]


def thinned(count: int, most: int | None, log: ReadLog) -> NDArray[np.int64] | None:
    """Which of ``count`` splats are read where there are more than ``most``, in the file's order; None for all.

    Those whose number in the file has the smallest hash (the finaliser of splitmix64, seed 0): a fixed choice spread
    evenly over the file, and one of fewer splats is a part of one of more. Opacities and sizes stay as they are.

    Raises
    ------
    UsageError : ``most`` is less than 1.
    """
    if most is None:
        return None
    if most < 1:
        raise UsageError(f"{most} is no number of splats to keep", where="--max-splats", todo="Give at least 1")
    if count <= most:
        return None
    h = np.arange(1, count + 1, dtype=np.uint64)
    h *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        h ^= h >> np.uint64(shift)
        h *= np.uint64(factor)
    h ^= h >> np.uint64(31)
    kept = np.flatnonzero(h <= np.partition(h, most - 1)[most - 1])  # the hashes of different numbers differ
    log.repair("splats_thinned_out", count - most, f"left out: at most {most:,} were asked for")
    log.warn(f"only {most:,} of {count:,} splats are read, picked evenly by a fixed rule; opacities and sizes are as "
             "in the file, so surfaces have gaps")
    log.details["splats_in_file"] = count
    return kept.astype(np.int64, copy=False)


def thin(raw: RawSplats, most: int | None, log: ReadLog) -> RawSplats:
    """What was read, thinned out to at most ``most`` splats; see ``thinned``."""
    kept = thinned(len(raw.means), most, log)
    return raw if kept is None else raw.select(kept)
