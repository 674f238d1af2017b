"""Raw model-level means to scores in [0,1], by frozen rules that are data (spec section 13)."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spatialbench.configs import config_names, config_path
from spatialbench.errors import UsageError
from spatialbench.types.strict import load_strict

__all__ = ["NormalizationTable", "Rule", "affine", "affine_reversed", "area_ratio", "clip01",
           "inverse_dispersion", "load_normalization", "normalise", "one_minus_clip", "psnr", "tanh"]


def clip01(x: float) -> float:
    """C(x) = min(1, max(0, x))."""
    return min(1.0, max(0.0, x))


def one_minus_clip(x: float) -> float:
    """1 - C(x), for rates of which less is better."""
    return 1.0 - clip01(x)


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


RuleName = Literal["clip01", "one_minus_clip", "affine", "affine_reversed", "tanh", "psnr", "area_ratio",
                   "inverse_dispersion"]
_RULES: dict[str, tuple[Callable[..., float], tuple[str, ...]]] = {
    "clip01": (clip01, ()),
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
        function, names = _RULES[self.rule]
        return clip01(function(x, *(getattr(self, k) for k in names)))


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
    ValueError : the mean is not a number.
    """
    rule = table.rules.get(metric_id)
    if rule is None:
        near = difflib.get_close_matches(metric_id, table.rules, n=3, cutoff=0.5)
        raise UsageError(f"no rule for metric '{metric_id}'", where=f"normalisation {table.id}",
                         todo=f"Nearest: {', '.join(near)}" if near else "Add a rule to a new table")
    if math.isnan(raw_mean):
        raise ValueError(f"{metric_id}: the mean is not a number")
    return rule(raw_mean)
