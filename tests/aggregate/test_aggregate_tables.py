"""Leaderboards in every format, read back by other readers, with names that try to break out of their cell."""

import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.aggregate import (
    IntervalSettings,
    Table,
    half_up,
    leaderboard,
    level_table,
    load_normalization,
    summarise,
)
from spatialbench.aggregate.markup import csv_cell, csv_text, latex_cell, markdown_cell
from spatialbench.errors import UsageError

NORM = load_normalization("wmbench-normalization-v1")


@pytest.fixture
def summary(spatial, record):
    records = [record("M08", v, f"c{i}", "good") for i, v in enumerate([0.5, 0.75, 1.0])]
    records += [record("M08", v, f"c{i}", "fair") for i, v in enumerate([0.25, None, 0.5])]
    records += [record("M25", 1.0, "c0", "fair"), record("M07", 0.1, "c0", "odd")]
    return summarise(records, spatial, NORM, intervals=IntervalSettings())


def test_leaderboard(summary):
    t = leaderboard(summary, levels=["W2", "W1"], sort_by="W2")
    assert t.columns[:5] == ("system", "cases", "W2", "M08", "M25")
    assert t.columns[5:7] == ("W1", "M01")
    # fair: (0.375 + 1)/2; good: 0.75 alone; odd has no W2 and comes last.
    assert [r[:5] for r in t.rows] == [("good", "3", "75.00", "75.00", "–"), ("fair", "3", "68.75", "37.50", "100.00"),
                                       ("odd", "1", "–", "–", "–")]
    assert t.notes[1][2:5] == ("2 of 2 metrics; M08 on 2 of 3", "2 of 3", "1 of 1")
    assert t.notes[0][4] == "no record"
    # Mean 0.75, s = 0.25, t(2 dof) = 4.302653: 0.75 -/+ 0.6210, cut to 100.
    assert t.intervals[0][2] == ("12.90", "100.00")
    assert t.intervals[1][2] is None  # M25 on one case only
    assert [r[0] for r in leaderboard(summary).rows] == ["fair", "good", "odd"]
    assert leaderboard(summary, metrics=False).columns == ("system", "cases", "W1", "W2", "W3", "W4", "W5")
    assert level_table(summary).columns == ("system", "W1", "W2", "W3", "W4", "W5")


def test_unknown_columns(summary):
    for bad in ({"levels": ["W9"]}, {"sort_by": "W9"}, {"track": "video"}):
        with pytest.raises(UsageError, match="Known"):
            leaderboard(summary, **bad)
    assert leaderboard(summarise([], {}, NORM)).rows == ()


def test_csv_of_a_leaderboard(summary):
    rows = list(csv.DictReader(io.StringIO(leaderboard(summary, levels=["W2"]).to_csv())))
    assert [r["system"] for r in rows] == ["fair", "good", "odd"]
    assert rows[1]["W2"] == "75.00"
    assert (rows[1]["W2 low"], rows[1]["W2 high"], rows[1]["W2 n"]) == ("12.90", "100.00", "1 of 2 metrics")
    assert rows[2]["W2"] == rows[2]["W2 low"] == ""
    assert rows[0]["M08 n"] == "2 of 3"


def test_markdown_and_latex(summary):
    t = leaderboard(summary, levels=["W2"], metrics=False)
    assert t.to_markdown().splitlines() == [
        "| system | cases | W2 |", "| --- | ---: | ---: |",
        "| fair | 3 | 68.75 (2 of 2 metrics; M08 on 2 of 3) |",
        "| good | 3 | 75.00 \\[12.90, 100.00\\] (1 of 2 metrics) |", "| odd | 1 | – (0 of 2 metrics) |"]
    latex = t.to_latex().splitlines()
    assert latex[0] == r"\begin{tabular}{lrr}"
    assert latex[5] == r"good & 3 & 75.00 {[}12.90, 100.00{]} (1 of 2 metrics) \\"
    assert latex[6] == r"odd & 1 & -- (0 of 2 metrics) \\"
    assert json.loads(t.to_json())["rows"][1]["W2"] == {"text": "75.00", "note": "1 of 2 metrics", "low": "12.90",
                                                       "high": "100.00"}


@pytest.mark.parametrize(("text", "want"), [
    ("=HYPERLINK(1)", "'=HYPERLINK(1)"), ("+1", "+1"), ("-0.50", "-0.50"), ("1e-5", "1e-5"), ("-1-1", "'-1-1"),
    ("@x", "'@x"), ("\t=1", "' =1"), ("  =1", "'  =1"), ("＝1", "'＝1"), ("a=1", "a=1"), ("–", ""), ("", ""),
    ("a\r\nb", "a  b"),
])
def test_no_formula_in_a_spreadsheet(text, want):
    assert csv_cell(text) == want


@given(st.lists(st.lists(st.text(max_size=8), min_size=2, max_size=2), min_size=1, max_size=4))
def test_csv_is_read_back(rows):
    got = list(csv.reader(io.StringIO(csv_text(rows))))
    assert got == [[csv_cell(c) for c in r] for r in rows]
    assert all(not re.match(r"\s*[=@]", c) for r in got for c in r)


@given(st.text(max_size=12))
def test_a_markdown_cell_stays_one_cell(name):
    text = Table(("system", "x"), ((name, "1"),), (("", ""),)).to_markdown()
    lines = text.split("\n")
    assert len(lines) == 4
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", lines[2])) == 3
    assert "<" not in text
    assert re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]]", lines[2]) is None


@given(st.text(alphabet="ab\\{}$&%#_~^<>|[]*\"–\n ", max_size=12))
def test_a_latex_cell_has_no_live_character(name):
    cell = latex_cell(name)
    assert "\n" not in cell
    rest = re.sub(r"\\text(backslash|asciitilde|asciicircum|less|greater|bar|quotedbl)\{\}|\\[{}$&%#_]|\{[\[\]*]\}", "",
                  cell)
    assert not set(rest) & set("\\{}$&%#_~^<>|[]*\"–")
    # Nothing is lost: the plain letters are still there.
    assert [c for c in re.sub(r"\\text[a-z]+\{\}", "", cell) if c in "ab"] == [c for c in name if c in "ab"]


def test_by_hand():
    assert latex_cell(r"50% of $a_b$ \x [y]*") == r"50\% of \$a\_b\$ \textbackslash{}x {[}y{]}{*}"
    assert markdown_cell("[a](javascript:x) | <b>") == r"\[a\](javascript:x) \| &lt;b&gt;"
    assert half_up(67.705) == "67.71"
