"""Quality and fidelity of views (M01 to M06, M09 to M11, eqs. 31 to 41), from what scorers gave."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.ruling import Ruling, no_value, ruled
from spatialbench.types import Status

__all__ = ["cosines", "mean_rating", "object_coverage", "spread_views", "top_mean", "vlm_score"]


def mean_rating(ratings: NDArray[np.floating]) -> float:
    """Mean over frames [T] (eqs. 31, 32, 34 to 36); the order of the frames does not matter.

    Raises
    ------
    ValueError : no frame, or a rating that is not finite.
    """
    values = np.asarray(ratings, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError(f"ratings of shape {values.shape} must be [T] finite numbers, T at least 1")
    return math.fsum(values.tolist()) / len(values)


def cosines(vectors: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.float64]:
    """[T] cosines of vectors [T,D] and one other [D] (eqs. 39, 40).

    Raises
    ------
    ValueError : shapes that do not fit, or a vector without a length.
    """
    a, b = np.asarray(vectors, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if a.ndim != 2 or b.shape != a.shape[1:]:
        raise ValueError(f"vectors {a.shape} and {b.shape} do not fit")
    lengths = np.sqrt(np.einsum("td,td->t", a, a) * np.einsum("d,d->", b, b))
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError("an embedding has no length")
    # Not BLAS: the same bits for any number of threads and of vectors.
    return np.clip(np.einsum("td,d->t", a, b) / lengths, -1.0, 1.0)


def top_mean(values: NDArray[np.floating], count: int = 3) -> Ruling:
    """M10 (eq. 40): mean of the ``count`` largest; invalid with fewer (OPEN-7)."""
    if len(values) < count:
        return no_value(Status.INVALID, f"needs {count} views, and there are {len(values)}")
    return ruled(math.fsum(np.sort(np.asarray(values, dtype=np.float64))[-count:].tolist()) / count)


def spread_views(frames: int, count: int = 18) -> tuple[int, ...]:
    """``count`` of ``frames``, evenly spaced from the first (M06); all when there are fewer."""
    n = min(frames, count)
    return tuple(k * frames // n for k in range(n))


def vlm_score(views: Sequence[Mapping[str, bool] | None]) -> tuple[Ruling, dict[str, float]]:
    """M06 (eq. 37): share of yes among the answers of all views that were answered.

    Parameters
    ----------
    views : answers by question of each view, all about the same questions; None for one without an answer, which is
        left out.

    Returns
    -------
    The score, and the share of yes by question.
    """
    known = [v for v in views if v is not None]
    if not known:
        return no_value(Status.UNAVAILABLE, "no view has an answer"), {}
    rates = {key: sum(bool(v[key]) for v in known) / len(known) for key in known[0]}
    yes = sum(bool(a) for v in known for a in v.values())
    return ruled(yes / sum(len(v) for v in known)), rates


def object_coverage(found: Mapping[str, bool]) -> Ruling:
    """M11 (eq. 41): share of the requested categories that were detected in any probe; inapplicable for none."""
    if not found:
        return no_value(Status.INAPPLICABLE, "no category is requested")
    share = sum(found.values()) / len(found)
    return ruled(share, "" if share else "no_category_detected")
