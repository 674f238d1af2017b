"""Which metrics make up the levels of a track or suite, and how: frozen data in ``configs/aggregation``.

A track registers metrics; its file says which level keeps which, how they form dimensions and what these weigh. Where
the same metric is measured at several levels on cases of their own (``per_level``), each level has its own mean of it:
the metric ``video.vq`` is ``video.vq@W2`` there, and ``split_levels`` renames the records by the level of their case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spatialbench.aggregate.groups import Dimension, Level
from spatialbench.configs import config_names, config_path
from spatialbench.errors import ResultError, UsageError
from spatialbench.types import Measurement, MetricSpec
from spatialbench.types.strict import load_strict

__all__ = ["Aggregation", "at_level", "load_aggregation", "split_levels"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Weight = Annotated[Decimal, Field(gt=0)]


class DimensionPlan(_Strict):
    """Metrics averaged with equal weights."""

    metrics: tuple[str, ...] = Field(min_length=1)
    weight: Weight = Decimal(1)


class LevelPlan(_Strict):
    """One level; without dimensions it is never scored."""

    dimensions: dict[str, DimensionPlan] = Field(default_factory=dict)
    of: dict[str, Weight] = Field(default_factory=dict)
    """In place of dimensions: other levels of one dimension each, with their weights."""
    combine: Literal["arithmetic", "geometric"] = "arithmetic"
    round_dimensions: int | None = Field(None, ge=0)
    """Decimals of the dimension means, 0 to 100, where the published rule rounds them first."""

    @model_validator(mode="after")
    def _once(self) -> LevelPlan:
        if self.of and self.dimensions:
            raise ValueError("a level has dimensions or is made 'of' others, not both")
        ids = [m for d in self.dimensions.values() for m in d.metrics]
        twice = sorted({m for m in ids if ids.count(m) > 1})
        if twice:
            raise ValueError(f"metrics stand twice in a level: {', '.join(twice)}")
        return self


class Aggregation(_Strict):
    """A track's or suite's way from metrics to levels."""

    id: str
    version: int
    track: str
    source: str
    normalization: str
    """Name of the table for its metrics' means."""
    per_level: bool = False
    """Metrics have a mean for each level, over that level's cases."""
    digits: int = Field(2, ge=0)
    """Decimals of a level's score in tables."""
    levels: dict[str, LevelPlan]

    @model_validator(mode="after")
    def _others(self) -> Aggregation:
        for name, level in self.levels.items():
            bad = [x for x in level.of if x not in self.levels or len(self.levels[x].dimensions) != 1]
            if bad:
                raise ValueError(f"level {name} is made of {', '.join(bad)}, which must be levels of one dimension")
        return self

    @property
    def plan(self) -> tuple[Level, ...]:
        """The levels, in the order of the file."""
        return tuple(Level(self.track, name, self._dimensions(name), level.combine, level.round_dimensions, self.digits)
                     for name, level in self.levels.items())

    def _dimensions(self, name: str) -> tuple[Dimension, ...]:
        level = self.levels[name]
        if level.of:
            return tuple(replace(self._dimensions(other)[0], weight=w) for other, w in level.of.items())
        return tuple(Dimension(d, tuple(at_level(m, name) if self.per_level else m for m in part.metrics), part.weight)
                     for d, part in level.dimensions.items())

    def level(self, name: str) -> Level:
        """One of them.

        Raises
        ------
        UsageError : no such level.
        """
        for level in self.plan:
            if level.level == name:
                return level
        raise UsageError(f"no level '{name}'", where=f"aggregation {self.id}", todo=f"Known: {', '.join(self.levels)}")


def load_aggregation(name: str) -> Aggregation:
    """A packaged plan by name, or one from a YAML file.

    Raises
    ------
    UsageError : no such plan.
    ConfigError : an unknown key or wrong value.
    """
    is_file = "/" in name or name.endswith((".yaml", ".yml"))
    path = Path(name) if is_file else config_path("aggregation", name)
    if not path.is_file():
        raise UsageError(f"no aggregation '{name}'", where="aggregation",
                         todo=f"Known: {', '.join(config_names('aggregation'))}; or give a YAML file")
    return load_strict(Aggregation, path)


def at_level(metric: str, level: str) -> str:
    """Id of a metric's mean over one level's cases."""
    return f"{metric}@{level}"


def split_levels(measurements: Iterable[Measurement], specs: Mapping[str, MetricSpec], level_of: Mapping[str, str],
                 ) -> tuple[list[Measurement], dict[str, MetricSpec]]:
    """Records and declarations of a ``per_level`` track, one metric for each level that a case of it has.

    Parameters
    ----------
    level_of : level of every case.

    Raises
    ------
    ResultError : a case without a level, or a metric that nobody declares.
    """
    records: list[Measurement] = []
    found: dict[str, MetricSpec] = {}
    for m in measurements:
        if m.metric not in specs:
            raise ResultError(f"no metric '{m.metric}' is known", where=f"system {m.system}, case {m.case}",
                              todo="Install what declares it, or leave its results out")
        if m.case not in level_of:
            raise ResultError(f"no level is known of case '{m.case}'", where=f"metric {m.metric}, system {m.system}",
                              todo="Give the set of cases that the results were made with")
        level = level_of[m.case]
        id = at_level(m.metric, level)
        records.append(m.model_copy(update={"metric": id}))
        if id not in found:
            found[id] = replace(specs[m.metric], id=id, level=level)
    return records, found
