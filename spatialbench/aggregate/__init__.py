"""Measurements to model means, normalised scores, levels and tables: one core for all tracks and suites."""

from spatialbench.aggregate.collect import MetricSummary, Reason, summarise_metric
from spatialbench.aggregate.comparison import Comparison, LevelComparison, MetricComparison, compare, comparison_json
from spatialbench.aggregate.groups import (
    Dimension,
    DimensionScore,
    Gap,
    GroupScore,
    Level,
    Part,
    group_score,
    levels_from_specs,
)
from spatialbench.aggregate.intervals import Interval, IntervalSettings, mean_interval
from spatialbench.aggregate.joint import level_interval
from spatialbench.aggregate.means import exact_mean, mean, population_std, weighted_mean
from spatialbench.aggregate.normalization import NormalizationTable, load_normalization, normalise
from spatialbench.aggregate.paired import PairedDifference, paired_difference
from spatialbench.aggregate.plans import Aggregation, at_level, load_aggregation, split_levels
from spatialbench.aggregate.ranks import RankTable, SystemRank, rank_systems
from spatialbench.aggregate.rounding import DASH, half_up
from spatialbench.aggregate.significance import holm, sign_test
from spatialbench.aggregate.summary import PREVIEW_NOTE, Summary, SystemSummary, summarise, summary_json
from spatialbench.aggregate.tables import (
    Table,
    comparison_table,
    leaderboard,
    level_table,
    metric_table,
    rank_table,
    scores_from_columns,
)

__all__ = [
    "DASH",
    "PREVIEW_NOTE",
    "Aggregation",
    "Comparison",
    "Dimension",
    "DimensionScore",
    "Gap",
    "GroupScore",
    "Interval",
    "IntervalSettings",
    "Level",
    "LevelComparison",
    "MetricComparison",
    "MetricSummary",
    "NormalizationTable",
    "PairedDifference",
    "Part",
    "RankTable",
    "Reason",
    "Summary",
    "SystemRank",
    "SystemSummary",
    "Table",
    "at_level",
    "compare",
    "comparison_json",
    "comparison_table",
    "exact_mean",
    "group_score",
    "half_up",
    "holm",
    "leaderboard",
    "level_interval",
    "level_table",
    "levels_from_specs",
    "load_aggregation",
    "load_normalization",
    "mean",
    "mean_interval",
    "metric_table",
    "normalise",
    "paired_difference",
    "population_std",
    "rank_systems",
    "rank_table",
    "scores_from_columns",
    "sign_test",
    "split_levels",
    "summarise",
    "summarise_metric",
    "summary_json",
    "weighted_mean",
]
