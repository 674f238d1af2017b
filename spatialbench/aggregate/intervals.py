"""How sure a mean or a score is: intervals over cases, never over the frames and objects inside them.

The case is the unit of chance: what was measured in one case moves together. From 30 cases on (``few_cases``), whole
cases are drawn with replacement (clustered bootstrap) and the interval is between the k-th smallest and the k-th
largest of R replicates, k = R (1 - level)/2: order statistics, without interpolation, so that the interval of a
monotone function is the function of the interval. With fewer cases the percentile interval is too narrow; there it
is Student's t with C - 1 degrees of freedom around the estimate, its standard error from the C samples that lack one
case (jackknife). For a mean of one value a case that is the textbook interval, with ddof 1; the standard deviation
that tables show has ddof 0.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from spatialbench.aggregate._record import Record
from spatialbench.aggregate._resample import (
    Array,
    Statistic,
    Values,
    case_seed,
    case_sums,
    leave_one_out,
    resample,
)
from spatialbench.aggregate.means import mean
from spatialbench.aggregate.rounding import DASH, half_up

__all__ = ["Interval", "IntervalSettings", "interval_of", "mean_interval", "no_interval", "percentile_bounds",
           "student_t_bounds"]

Method = Literal["bootstrap", "student_t", "none"]


class IntervalSettings(BaseModel):
    """How intervals are made."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: float = Field(0.95, ge=0.5, le=0.999)
    """Confidence of an interval."""
    replicates: int = Field(2000, ge=100, le=100_000)
    """Resamples of a bootstrap."""
    few_cases: int = Field(30, ge=2)
    """Below this number of cases Student's t takes the place of the bootstrap."""

    @model_validator(mode="after")
    def _tails(self) -> IntervalSettings:
        if tail(self.replicates, self.level) < 1:
            raise ValueError(f"{self.replicates} replicates have nothing outside a level of {self.level}")
        return self


class Interval(Record):
    """An interval of an estimate, or why there is none."""

    _only_if_given: ClassVar[frozenset[str]] = frozenset({"seed"})

    low: float | None
    high: float | None
    level: float
    method: Method
    n_cases: int
    """Cases it stands on."""
    replicates: int = 0
    """Of a bootstrap: those in which the estimate was defined."""
    seed: int | None = None
    """Of a bootstrap: derived from the set of cases."""
    note: str = ""
    """Why there is no interval, or why it should not be relied on."""

    @model_validator(mode="after")
    def _whole(self) -> Interval:
        if (self.low is None) != (self.high is None) or (self.low is None) != (self.method == "none"):
            raise ValueError("an interval has two ends and a method, or none of these")
        if self.low is None and not self.note:
            raise ValueError("without an interval there must be a note that says why")
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        return self

    def mapped(self, low: float, high: float) -> Interval:
        """The same interval on another scale, its ends given in any order."""
        return self.model_copy(update={"low": min(low, high), "high": max(low, high)})

    def shown(self, digits: int = 2) -> str:
        """``[low, high]`` rounded half up, or a dash."""
        if self.low is None or self.high is None:
            return DASH
        return f"[{half_up(self.low, digits)}, {half_up(self.high, digits)}]"


def tail(replicates: int, level: float) -> int:
    """k: how many replicates lie outside each end, that end included."""
    return int(replicates * (1 - Decimal(repr(level))) / 2)


def percentile_bounds(replicates: Array, level: float) -> tuple[float, float]:
    """k-th smallest and k-th largest of the replicates [R], k = R (1 - level)/2 rounded down, at least 1."""
    ordered = np.sort(replicates)
    k = max(1, tail(len(ordered), level))
    return float(ordered[k - 1]), float(ordered[len(ordered) - k])


def student_t_bounds(estimate: float, without_one: Array, level: float) -> tuple[float, float]:
    """Estimate -/+ t times the jackknife's standard error, from the C >= 2 estimates that lack one case each [C]."""
    from scipy.special import stdtrit

    n = len(without_one)
    middle = math.fsum(without_one) / n
    error = math.sqrt(math.fsum((x - middle) ** 2 for x in without_one.tolist()) * (n - 1) / n)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * error
    return estimate - half, estimate + half


def no_interval(settings: IntervalSettings, n_cases: int, note: str) -> Interval:
    """None, and why."""
    return Interval(low=None, high=None, level=settings.level, method="none", n_cases=n_cases, note=note)


def interval_of(statistic: Statistic, estimate: float, cases: tuple[str, ...], settings: IntervalSettings, *,
                bounds: tuple[float, float] = (-math.inf, math.inf)) -> Interval:
    """Interval of any statistic of weighted cases.

    Parameters
    ----------
    statistic : weights [B,C] to [B], NaN where undefined.
    estimate : its value on the cases as they are.
    cases : C ids, sorted, in the order of the weights.
    bounds : range of the statistic; Student's interval is cut to it.

    Resamples in which the statistic is undefined are left out; with less than half of them left there is no interval.
    """
    n = len(cases)
    if n < 2:
        return no_interval(settings, n, "one case only" if n else "nothing was measured")
    if n < settings.few_cases:
        left = statistic(leave_one_out(n))
        if np.isnan(left).any():
            return no_interval(settings, n, "undefined without some one of the cases")
        low, high = (min(max(x, bounds[0]), bounds[1]) for x in student_t_bounds(estimate, left, settings.level))
        return Interval(low=low, high=high, level=settings.level, method="student_t", n_cases=n,
                        note=_flat(low, high))
    seed = case_seed(cases)
    found = resample(statistic, n, settings.replicates, seed)
    found = found[~np.isnan(found)]
    if 2 * len(found) < settings.replicates:
        return no_interval(settings, n, f"undefined in {settings.replicates - len(found)} of "
                                        f"{settings.replicates} resamples")
    low, high = percentile_bounds(found, settings.level)
    return Interval(low=low, high=high, level=settings.level, method="bootstrap", n_cases=n,
                    replicates=len(found), seed=seed, note=_flat(low, high))


def mean_interval(values: Values, settings: IntervalSettings | None = None) -> Interval:
    """Interval of the mean over all values, equal weights; those of one case are drawn together.

    >>> mean_interval({"a": [1.0], "b": [2.0], "c": [3.0]}).shown()
    '[-0.48, 4.48]'
    """
    settings = settings or IntervalSettings()
    sums = case_sums([values])
    if not sums.cases:
        return no_interval(settings, 0, "nothing was measured")
    return interval_of(lambda w: sums.means(w)[:, 0], mean(x for v in values.values() for x in v), sums.cases, settings)


def _flat(low: float, high: float) -> str:
    return "no spread between the cases: the width says nothing" if low == high else ""
