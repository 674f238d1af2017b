"""Recall and dispersion, and their harmonic combination (eqs. 26, 27, 49 to 52)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from spatialbench.metrics.ruling import Ruling, no_value, ruled
from spatialbench.types import Status

__all__ = ["harmonic", "inverse_dispersion", "place_dispersion", "place_f1", "place_recall", "population_std",
           "usable_recall"]


def harmonic(p: float, r: float) -> float:
    """H(p, r) = 2pr/(p+r), 0 when both are 0 (eq. 26); p and r are not negative."""
    # Divided first: the product of two tiny numbers would vanish.
    return 0.0 if p + r <= 0 else 2 * p * (r / (p + r))


def population_std(values: Sequence[float]) -> float:
    """Standard deviation with ddof = 0 (eq. 27); the order of the values does not matter.

    Raises
    ------
    ValueError : when there is no value.
    """
    if not values:
        raise ValueError("the standard deviation of no values is undefined")
    n = len(values)
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((x - mean) ** 2 for x in values) / n)


def inverse_dispersion(std: float) -> float:
    """p = 1/(1 + s): 1 without any spread, towards 0 with it."""
    return 1.0 / (1.0 + std)


def usable_recall(usable: Sequence[bool], slots: int = 8) -> float:
    """r_usable (eq. 50): share of the slots that hold a usable location; absent ones are not usable."""
    _check(usable, slots)
    return sum(bool(u) for u in usable) / slots


def place_recall(usable: Sequence[bool], scored: Sequence[bool] | None, origin_scored: bool,
                 slots: int = 8) -> Ruling:
    """M38 r_place (eq. 51): share of the slots that hold a usable location whose ring has a score.

    Parameters
    ----------
    usable : one flag a filled slot, at most ``slots``; the origin is not among them.
    scored : one flag a filled slot; None when the scorer never ran, so that the recall is unavailable.
    origin_scored : the origin's ring has a score; without one the recall is 0.
    """
    _check(usable, slots)
    if scored is None:
        return no_value(Status.UNAVAILABLE, "locations_not_scored")
    hits = sum(bool(u) and bool(e) for u, e in zip(usable, scored, strict=True))
    if not any(usable):
        return ruled(0.0, "no_usable_location")
    if not origin_scored:
        return ruled(0.0, "origin_not_scored")
    return ruled(hits / slots, "" if hits else "no_location_scored")


def place_dispersion(origin: float | None, locations: Sequence[float | None]) -> Ruling:
    """M15 (eq. 49): spread of the ring means of the scored locations together with the origin's.

    Parameters
    ----------
    origin, locations : ring means q_0 and q_1..q_K; None for one that was not scored.
    """
    scored = [q for q in locations if q is not None]
    if origin is None:
        return no_value(Status.INVALID, "origin_not_scored")
    if not scored:
        return no_value(Status.INVALID, "no_location_scored")
    return ruled(population_std([origin, *scored]))


def place_f1(dispersion: float | None, recall: float | None) -> Ruling:
    """M39 (eq. 52): H(1/(1+s), r) of one scene.

    Parameters
    ----------
    dispersion : M15 of the scene; None where it is undefined.
    recall : M38 of the scene; None where it is missing, and then so is this.

    Raises
    ------
    ValueError : for a recall above 0 without a dispersion, which the rules of M38 exclude.
    """
    if recall is None:
        return no_value(Status.UNAVAILABLE, "place_recall_missing")
    if recall == 0:
        return ruled(0.0, "zero_recall")
    if dispersion is None:
        raise ValueError(f"recall {recall} without a dispersion: a scored location always has one")
    return ruled(harmonic(inverse_dispersion(dispersion), recall))


def _check(usable: Sequence[bool], slots: int) -> None:
    if len(usable) > slots:
        raise ValueError(f"{len(usable)} locations for {slots} slots")
