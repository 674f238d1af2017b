"""Does an object stay itself all around? M16 to M24 (eqs. 53 to 61), from masks, rewards, tracks and answers.

Everything is of one object. ``None`` in place of a list of views means that it could not be lifted from the input view:
then there is no orbit, recalls and composites are 0 and what is conditional is undefined (OPEN-17d).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.harmonic import harmonic, inverse_dispersion, population_std
from spatialbench.metrics.ruling import Ruling, no_value, ruled
from spatialbench.types import Status

__all__ = ["NOT_LIFTED", "JudgedObject", "closed_points", "judged_object", "object_dispersion", "object_f1",
           "object_recall", "orbit_radius", "reward_precision", "start_points", "track_accuracy", "track_order"]

NOT_LIFTED = "target_not_lifted"


def object_recall(detected: Sequence[bool] | None, least: int = 2) -> Ruling:
    """M16 r_s (eq. 53): share of the orbit views in which the object is detected; 0 with fewer than ``least``."""
    if detected is None:
        return ruled(0.0, NOT_LIFTED)
    n = sum(bool(d) for d in detected)
    if n < least or n == 0:
        return ruled(0.0, "too_few_detections" if n else "not_detected")
    return ruled(n / len(detected))


def object_dispersion(rewards: Sequence[float] | None, least: int = 2) -> Ruling:
    """M17 s_o (eq. 54): population standard deviation of the rewards of the scored crops; invalid with fewer than
    ``least``."""
    if rewards is None:
        return no_value(Status.INVALID, NOT_LIFTED)
    if len(rewards) < least or not rewards:
        return no_value(Status.INVALID, "too_few_crops")
    return ruled(population_std(rewards))


def reward_precision(dispersion: Ruling) -> Ruling:
    """p_h of M18 (eq. 55): 1/(1 + s_o); without a spread as that is."""
    return dispersion if dispersion.value is None else ruled(inverse_dispersion(dispersion.value))


def object_f1(precision: Ruling, recall: Ruling) -> Ruling:
    """M18, M20 and M24 (eqs. 55, 57, 61): H(p, r).

    A recall of 0 gives 0 whatever the precision; above 0 and without a precision there is no value, with the
    precision's status (M20's rule, and OPEN-19 for M18).
    """
    if recall.value is None:
        return recall
    if recall.value == 0:
        return ruled(0.0, recall.reason or "zero_recall")
    if precision.value is None:
        return precision
    return ruled(harmonic(precision.value, recall.value), "" if precision.value else "zero_precision")


def track_order(detected: Sequence[bool]) -> tuple[int, ...]:
    """Views in the order in which points are followed (M19): shifted to the first visible one (OPEN-20a), which is
    repeated at the end. Empty when none is visible.

    >>> track_order([False, True, False])
    (1, 2, 0, 1)
    """
    n = len(detected)
    start = next((k for k, d in enumerate(detected) if d), None)
    return () if start is None else tuple((start + k) % n for k in range(n + 1))


def start_points(usable: NDArray[np.bool_], count: int = 64, seed: int = 0) -> NDArray[np.int64]:
    """[count,2] row and column of pixels to follow: uniform over those that are True in ``usable`` [H,W], without
    replacement; with it where there are fewer; [0,2] where there is none (OPEN-20b)."""
    pixels = np.argwhere(usable)
    if not len(pixels):
        return pixels.astype(np.int64)
    draw = np.random.default_rng(seed).choice(len(pixels), count, replace=len(pixels) < count)
    return pixels[draw].astype(np.int64)


def closed_points(tracks: NDArray[np.floating], tolerance: float) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which of the points [T,K,3] end within ``tolerance`` of where they began, and how far they end from it [K].

    Only the ends count. A point that is lost (NaN) at either of them is not closed.
    """
    a, b = (np.asarray(tracks[k], dtype=np.float64) for k in (0, -1))
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.sqrt(((b - a) ** 2).sum(axis=-1))
    return distance <= tolerance, distance


def track_accuracy(closed: Sequence[bool]) -> Ruling:
    """M19 A_o (eq. 56): share of the points that close."""
    share = sum(bool(c) for c in closed) / len(closed)
    return ruled(share, "" if share else "no_point_closes")


@dataclass(frozen=True)
class JudgedObject:
    """What the judge's answers give.

    Attributes
    ----------
    recall, artifact_free, complete, f1 : M21 to M24.
    precision : p_v, the mean of the second and third.
    valid : for each view whether it is valid; None: no answer.
    """

    recall: Ruling
    artifact_free: Ruling
    complete: Ruling
    precision: Ruling
    f1: Ruling
    valid: tuple[bool | None, ...] = ()


def judged_object(views: Sequence[Mapping[str, bool] | None] | None) -> JudgedObject:
    """M21 to M24 (eqs. 58 to 61).

    Parameters
    ----------
    views : answers of each view by key: ``inside_scene``, ``target_visible``, ``artifact_free``, ``complete``. A view
        is valid when the first two hold, and only then the others count. A view without an answer (None) is left out
        of every share (OPEN-25).
    """
    known = [v for v in views or () if v is not None]
    valid = tuple(None if v is None else _valid(v) for v in views or ())
    good = [v for v in known if _valid(v)]
    if views is None:
        recall, why = ruled(0.0, NOT_LIFTED), NOT_LIFTED
    elif not known:
        missing = no_value(Status.UNAVAILABLE, "no view has an answer")
        return JudgedObject(missing, missing, missing, missing, missing, valid)
    else:
        recall, why = ruled(len(good) / len(known), "" if good else "no_valid_view"), "no_valid_view"
    if not good:
        none = no_value(Status.INVALID, why)
        return JudgedObject(recall, none, none, none, object_f1(none, recall), valid)
    a, c = (_share([v[key] for v in good], why_zero) for key, why_zero in (
        ("artifact_free", "artifacts_in_every_valid_view"), ("complete", "incomplete_in_every_valid_view")))
    assert a.value is not None and c.value is not None
    precision = ruled((a.value + c.value) / 2)
    return JudgedObject(recall, a, c, precision, object_f1(precision, recall), valid)


def orbit_radius(diagonal: float, factor: float = 1.5, limits: tuple[float, float] = (0.5, 4.0)) -> float:
    """Radius of an object's orbit in plan, m, from the diagonal of its box (OPEN-17b)."""
    return min(max(factor * diagonal, limits[0]), limits[1])


def _valid(view: Mapping[str, bool]) -> bool:
    return bool(view["inside_scene"] and view["target_visible"])


def _share(answers: Sequence[bool], why_zero: str) -> Ruling:
    share = sum(bool(a) for a in answers) / len(answers)
    return ruled(share, "" if share else why_zero)
