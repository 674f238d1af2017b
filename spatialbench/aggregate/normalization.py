"""Raw model-level means to scores in [0,1], by frozen rules that are data (spec section 13)."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spatialbench.configs import config_names, config_path
from spatialbench.errors import UsageError
from spatialbench.types.strict import load_strict

__all__ = ["NormalizationTable", "Rule", "affine", "affine_reversed", "area_ratio", "clip01",
           "inverse_dispersion", "load_normalization", "normalise", "one_minus_clip", "psnr", "tanh", "unit"]


def clip01(x: float) -> float:
    """C(x) = min(1, max(0, x))."""
    return min(1.0, max(0.0, x))


def one_minus_clip(x: float) -> float:
    """1 - C(x), for rates of which less is better."""
    return 1.0 - clip01(x)


def unit(x: float) -> float:
    """x as it is: for metrics that are scores in [0,1] by definition.

    Raises
    ------
    ValueError : when it is not one.
    """
    if not 0.0 <= x <= 1.0:
        raise ValueError(f"{x!r} is outside [0,1]")
    return x


def affine(x: float, lower: float, upper: float) -> float:
    """C((x - L)/(U - L))."""
    return clip01((x - lower) / (upper - lower))


def affine_reversed(x: float, lower: float, upper: float) -> float:
    """1 - C((x - L)/(U - L))."""
    return 1.0 - affine(x, lower, upper)


def tanh(x: float, scale: float) -> float:
    """1/2 + 1/2 tanh(x/a): a signed change, neutral at 1/2."""
    return 0.5 + 0.5 * math.tanh(x / scale)


def psnr(x: float) -> float:
    """C(1 - 10^(-x/20)): one minus the error of which x dB is the ratio; 0 at 0 dB and below."""
    return 0.0 if x <= 0 else clip01(1.0 - 10.0 ** (-x / 20.0))


def area_ratio(x: float) -> float:
    """C(1 - 1/x) for x > 0, else 0: 0 for no growth or loss."""
    return 0.0 if x <= 1 else 1.0 - 1.0 / x


def inverse_dispersion(x: float) -> float:
    """1/(1 + max(0, x)), for standard deviations."""
    return 1.0 / (1.0 + max(0.0, x))


RuleName = Literal["clip01", "unit", "one_minus_clip", "affine", "affine_reversed", "tanh", "psnr",
                   "area_ratio", "inverse_dispersion"]
_RULES: dict[str, tuple[Callable[..., float], tuple[str, ...]]] = {
    "clip01": (clip01, ()),
    "unit": (unit, ()),
    "one_minus_clip": (one_minus_clip, ()),
    "affine": (affine, ("lower", "upper")),
    "affine_reversed": (affine_reversed, ("lower", "upper")),
    "tanh": (tanh, ("scale",)),
    "psnr": (psnr, ()),
    "area_ratio": (area_ratio, ()),
    "inverse_dispersion": (inverse_dispersion, ()),
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Rule(_Strict):
    """One metric's rule with exactly the constants that it takes."""

    rule: RuleName
    lower: float | None = None
    upper: float | None = None
    scale: float | None = Field(None, gt=0)
    reference_count: int | None = Field(None, gt=0)
    """Rows that the constants were taken from; none for fixed rules."""

    @model_validator(mode="after")
    def _constants(self) -> Rule:
        given = {k for k in ("lower", "upper", "scale") if getattr(self, k) is not None}
        wanted = set(_RULES[self.rule][1])
        if given != wanted:
            raise ValueError(f"rule {self.rule} takes {', '.join(sorted(wanted)) or 'no constants'}, "
                             f"got {', '.join(sorted(given)) or 'none'}")
        if self.lower is not None and self.upper is not None and not self.lower < self.upper:
            raise ValueError("lower must be below upper")
        return self

    def __call__(self, x: float) -> float:
        """The score of a raw mean, in [0,1]."""
        return self.many([x])[0]

    def many(self, xs: Iterable[float]) -> list[float]:
        """The scores of many raw means."""
        function, names = _RULES[self.rule]
        constants = [getattr(self, k) for k in names]
        return [clip01(function(x, *constants)) for x in xs]


class Reference(_Strict):
    """The distribution that the constants were taken from."""

    name: str
    rows: int = Field(gt=0)


class NormalizationTable(_Strict):
    """Rules by metric id; never refitted, a changed constant is a new table."""

    id: str
    version: int
    source: str
    reference: Reference | None = None
    rules: dict[str, Rule]
    default: Rule | None = None
    """For metrics without a rule of their own; without a default these have no score."""

    def covers(self, metric_id: str) -> bool:
        """Whether the metric has a rule."""
        return self.default is not None or metric_id in self.rules

    def rule(self, metric_id: str) -> Rule:
        """The metric's rule.

        Raises
        ------
        UsageError : there is none; the nearest ids are named.
        """
        rule = self.rules.get(metric_id, self.default)
        if rule is None:
            near = difflib.get_close_matches(metric_id, self.rules, n=3, cutoff=0.5)
            raise UsageError(f"no rule for metric '{metric_id}'", where=f"normalisation {self.id}",
                             todo=f"Nearest: {', '.join(near)}" if near else "Add a rule to a new table")
        return rule


def load_normalization(name: str) -> NormalizationTable:
    """A packaged table by name, or one from a YAML file.

    Raises
    ------
    UsageError : no such table.
    ConfigError : an unknown key or wrong value.
    """
    is_file = "/" in name or name.endswith((".yaml", ".yml"))
    path = Path(name) if is_file else config_path("normalization", name)
    if not path.is_file():
        raise UsageError(f"no normalisation '{name}'", where="normalization",
                         todo=f"Known: {', '.join(config_names('normalization'))}; or give a YAML file")
    return load_strict(NormalizationTable, path)


def normalise(metric_id: str, raw_mean: float, table: NormalizationTable) -> float:
    """Score in [0,1] of a metric's raw model-level mean.

    Raises
    ------
    UsageError : the table has no rule for the metric; the nearest ids are named.
    ValueError : the mean is not a number, or outside [0,1] where the rule takes it as it is.
    """
    rule = table.rule(metric_id)
    if math.isnan(raw_mean):
        raise ValueError(f"{metric_id}: the mean is not a number")
    try:
        return rule(raw_mean)
    except ValueError as e:
        raise ValueError(f"{metric_id}: the mean {e}") from None
