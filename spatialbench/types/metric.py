"""What a metric declares about itself."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MetricSpec"]


@dataclass(frozen=True)
class MetricSpec:
    """The declaration of one metric.

    Attributes
    ----------
    id : ``M08``, ``wbench.navscore``: unique over all tracks and suites.
    name : the paper's or the field's name, e.g. ``navigable_ratio``.
    title : a few words for people.
    track : ``happyworld.spatial``, ``wbench``...
    level : world level or dimension the metric belongs to, e.g. ``W2``.
    group : name of that level's part, e.g. ``Physical Usability``.
    retained : enters the level's score.
    scored_on : ``scene``, ``object``, ``support``, ``edit``, ``expansion``...
    unit : of the raw value; empty for a ratio or score.
    range : of the raw value, in words of mathematics, e.g. ``[0,1]``.
    higher_is_better : direction of the raw value.
    version : raised whenever a number can change.
    observations : names of the observations it is computed from.
    scorers : ids of learned scorers or judges without which there is no value.
    reads : prefixes of the protocol keys that can change the value.
    table : the paper's table column, if it is printed.
    source : where the definition stands (paper, section, equation).
    """

    id: str
    name: str
    title: str
    track: str
    level: str
    group: str
    retained: bool
    scored_on: str
    range: str
    higher_is_better: bool
    version: int = 1
    unit: str = ""
    observations: tuple[str, ...] = ()
    scorers: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    table: str = ""
    source: str = ""
