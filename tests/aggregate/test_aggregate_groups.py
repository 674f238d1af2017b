"""The published levels from the published metrics, and the rules of what is missing."""

import csv
import hashlib
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.aggregate import DASH, Dimension, Level, group_score, levels_from_specs, scores_from_columns

SPATIAL = {"W1": 8, "W2": 9, "W3": 10, "W4": 11, "W5": 12}


def plain(name, columns):
    return Level("t", name, (Dimension("all", tuple(columns)),))


def columns_of(rows):
    return list(next(iter(rows.values())))


def as_floats(rows):
    return {s: {m: None if v is None else float(v) for m, v in r.items()} for s, r in rows.items()}


def test_copies_are_those_of_the_manifest(published):
    with (published / "MANIFEST.csv").open(newline="") as fh:
        listed = {r["file"]: r["sha256"] for r in csv.DictReader(fh)}
    copies = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in published.glob("*.csv")}
    copies.pop("MANIFEST.csv")
    assert listed == copies


@pytest.mark.parametrize("as_printed", [True, False], ids=["decimals", "floats"])
def test_table_7_from_tables_8_to_12(published, table, as_printed):
    want = table(published / "table07.csv")
    seen = dashes = 0
    for name, number in SPATIAL.items():
        rows = table(published / f"table{number:02d}.csv")
        level = plain(name, columns_of(rows))
        for system in want:
            rows.setdefault(system, {})
        got = scores_from_columns(rows if as_printed else as_floats(rows), level)
        for system, row in want.items():
            if row[name] is None:
                assert got[system].shown == DASH
                assert got[system].score is None
                dashes += 1
                continue
            assert got[system].shown == str(row[name]), (system, name)
            seen += 1
    # Nine systems by five levels; 3 and 5 of them have no W4 and no W5.
    assert (seen, dashes) == (37, 8)


def test_the_one_published_gap(published, table):
    rows = table(published / "table08.csv")
    got = scores_from_columns(rows, plain("W1", columns_of(rows)))
    short = {s: g for s, g in got.items() if g.n_available < g.n_retained}
    assert list(short) == ["FlashWorld"]
    assert short["FlashWorld"].note == "9 of 10 metrics"
    assert [g.metric for g in short["FlashWorld"].missing] == ["PI"]


def test_missing_metrics_are_left_out_and_named():
    level = plain("W2", ["a", "b", "c"])
    g = group_score(level, {"a": 0.5, "b": None}, why={"b": "unavailable (3): no model"})
    assert (g.score, g.shown, g.n_available, g.n_retained) == (50.0, "50.00", 1, 3)
    assert [(x.metric, x.why) for x in g.missing] == [("b", "unavailable (3): no model"), ("c", "not run")]
    assert [(p.metric, p.normalised) for p in g.parts] == [("a", 0.5)]
    assert g.note == "1 of 3 metrics"


def test_a_zero_is_not_a_gap():
    assert group_score(plain("W2", "ab"), {"a": 0.0, "b": 1.0}).score == 50.0
    assert group_score(plain("W2", "ab"), {"a": 0.0}).score == 0.0


def test_nothing_available_is_a_dash():
    g = group_score(plain("W4", "ab"), {})
    assert (g.score, g.shown, g.note) == (None, DASH, "0 of 2 metrics")


def test_a_level_without_metrics_is_never_scored():
    g = group_score(Level("t", "W6"), {"a": 1.0})
    assert (g.score, g.shown, g.n_retained, g.note) == (None, DASH, 0, "not scored")


def test_metrics_of_other_levels_do_not_enter():
    assert group_score(plain("W2", "a"), {"a": 0.25, "z": 1.0}).score == 25.0


def test_counts_are_shown_but_do_not_weigh():
    g = group_score(plain("W2", "ab"), {"a": 0.2, "b": 0.8}, coverage={"a": "1 of 266"})
    assert g.score == 50.0
    assert g.note == "2 of 2 metrics; a on 1 of 266"
    assert [p.coverage for p in g.parts] == ["1 of 266", ""]


def test_an_empty_dimension_gives_its_weight_to_the_others():
    level = Level("t", "W", (Dimension("p", ("a", "b"), Decimal("0.2")), Dimension("q", ("c",), Decimal("0.3")),
                             Dimension("r", ("d",), Decimal("0.5"))))
    full = group_score(level, {"a": Decimal("0.1"), "b": Decimal("0.3"), "c": 1, "d": Decimal("0.5")})
    assert full.score == pytest.approx(100 * (0.2 * 0.2 + 0.3 * 1 + 0.5 * 0.5), abs=1e-12)
    part = group_score(level, {"a": Decimal("0.1"), "c": 1})
    assert part.score == pytest.approx(100 * (0.2 * 0.1 + 0.3 * 1) / 0.5, abs=1e-12)
    assert [(d.name, d.score, d.n_available, d.n_retained) for d in part.dimensions] == [
        ("p", 10.0, 1, 2), ("q", 100.0, 1, 1), ("r", None, 0, 1)]


def test_decimals_stay_exact_where_a_float_would_reach_the_tie():
    below = Decimal("0.67705") - Decimal("1e-25")
    assert group_score(plain("W", "a"), {"a": below}).shown == "67.70"
    assert group_score(plain("W", "a"), {"a": float(below)}).shown == "67.71"


@pytest.mark.parametrize("bad", [-0.01, 1.01, Decimal("1.5")])
def test_scores_outside_the_unit_interval_are_a_programming_error(bad):
    with pytest.raises(ValueError, match="outside"):
        group_score(plain("W", "a"), {"a": bad})


def test_a_metric_twice_in_a_level():
    with pytest.raises(ValueError, match="twice"):
        plain("W", "aba")


def test_levels_come_from_the_declarations(spatial, spec):
    levels = levels_from_specs({**spatial, "M99": spec("M99", "W7", retained=False)}, unscored=("W6",))
    assert [(x.level, len(x.metrics)) for x in levels] == [
        ("W1", 10), ("W2", 2), ("W3", 7), ("W4", 7), ("W5", 5), ("W6", 0), ("W7", 0)]
    assert levels[2].metrics == ("M12", "M13", "M14", "M18", "M20", "M24", "M39")


def test_tracks_with_levels_of_one_name_stay_apart(spec):
    specs = {s.id: s for s in (spec("a", "W2"), spec("b", "W2", track="other"))}
    assert [(x.track, x.metrics) for x in levels_from_specs(specs)] == [
        ("happyworld.spatial", ("a",)), ("other", ("b",))]


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1), min_size=1))
def test_the_score_is_the_mean_of_what_is_there(values):
    g = group_score(plain("W", "abcdef"), values)
    assert g.score == float(100 * sum(map(Fraction, values.values())) / len(values))
    assert 100 * min(values.values()) <= g.score * (1 + 1e-15)
    assert g.n_available + len(g.missing) == 6
