"""Pictures, tables and the HTML page of a finished run."""

from spatialbench.report.data import (
    DecisionRow,
    GateRow,
    GroupRow,
    LocationDot,
    MapData,
    MetricRow,
    PathChart,
    ProbeRow,
    ReportData,
    SupportShape,
    TrialRow,
)
from spatialbench.report.page import render_page, write_page
from spatialbench.report.text import terminal_table

__all__ = ["DecisionRow", "GateRow", "GroupRow", "LocationDot", "MapData", "MetricRow", "PathChart", "ProbeRow",
           "ReportData", "SupportShape", "TrialRow", "render_page", "terminal_table", "write_page"]
