"""Measurements to model means, normalised scores, levels and tables: one core for all tracks and suites."""

from spatialbench.aggregate.collect import MetricSummary, Reason, summarise_metric
from spatialbench.aggregate.groups import Dimension, Gap, GroupScore, Level, Part, group_score, levels_from_specs
from spatialbench.aggregate.means import exact_mean, mean, population_std, weighted_mean
from spatialbench.aggregate.normalization import NormalizationTable, load_normalization, normalise
from spatialbench.aggregate.paired import PairedDifference, paired_difference
from spatialbench.aggregate.rounding import DASH, half_up
from spatialbench.aggregate.summary import PREVIEW_NOTE, Summary, SystemSummary, summarise, summary_json
from spatialbench.aggregate.tables import Table, level_table, metric_table, scores_from_columns

__all__ = [
    "DASH",
    "PREVIEW_NOTE",
    "Dimension",
    "Gap",
    "GroupScore",
    "Level",
    "MetricSummary",
    "NormalizationTable",
    "PairedDifference",
    "Part",
    "Reason",
    "Summary",
    "SystemSummary",
    "Table",
    "exact_mean",
    "group_score",
    "half_up",
    "level_table",
    "levels_from_specs",
    "load_normalization",
    "mean",
    "metric_table",
    "normalise",
    "paired_difference",
    "population_std",
    "scores_from_columns",
    "summarise",
    "summarise_metric",
    "summary_json",
    "weighted_mean",
]
