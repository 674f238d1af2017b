"""Two systems on common cases, and ranks of many: counts by hand, tests against SciPy, binomial chances."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spatialbench.aggregate import (
    Comparison,
    Dimension,
    IntervalSettings,
    Level,
    compare,
    comparison_json,
    comparison_table,
    group_score,
    holm,
    level_interval,
    load_normalization,
    mean_interval,
    paired_difference,
    rank_systems,
    rank_table,
    sign_test,
)
from spatialbench.aggregate.ranks import narrowest
from spatialbench.errors import ResultError, UsageError
from spatialbench.types import Measurement, MetricSpec, Status

UNIT = load_normalization("unit-1")
SPECS = {id: MetricSpec(id=id, name=id, title=id, track="t", level="L", group="g", retained=True, scored_on="scene",
                        range="[0,1]", higher_is_better=up) for id, up in (("a", True), ("b", True), ("low", False))}
LEVEL = Level("t", "L", (Dimension("all", ("a", "b")),))


def rec(metric, value, case, system, object=None, version=1):
    return Measurement(metric=metric, version=version, case=case, system=system, object=object, value=value,
                       status=Status.UNAVAILABLE if value is None else Status.MEASURED, reason="r")


def grid(metric, system, values):
    return [rec(metric, float(v), f"c{i:03d}", system) for i, v in enumerate(values)]


# --- tests of significance

@given(st.integers(0, 60), st.integers(0, 60))
def test_sign_test_is_scipys(wins, losses):
    want = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert sign_test(wins, losses) == pytest.approx(want, rel=1e-9)


def test_sign_test_of_many():
    assert sign_test(5000, 5000) == 1.0
    assert sign_test(5200, 4800) == pytest.approx(stats.binomtest(5200, 10_000).pvalue, rel=1e-6)
    assert sign_test(0, 10) == 2 / 1024
    with pytest.raises(ValueError, match="negative"):
        sign_test(-1, 3)


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04 -> 0.06.
    got = holm({"w": 0.01, "x": 0.04, "y": 0.03, "z": 0.005, "none": None})
    assert got == {"w": pytest.approx(0.03), "x": pytest.approx(0.06), "y": pytest.approx(0.06),
                   "z": pytest.approx(0.02), "none": None}
    assert holm({"w": 0.9, "x": 0.8}) == {"w": 1.0, "x": 1.0}
    assert holm({}) == {}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_raw_and_bonferroni(ps):
    adjusted = holm({str(i): p for i, p in enumerate(ps)})
    for i, p in enumerate(ps):
        assert p <= adjusted[str(i)] <= min(1.0, p * len(ps)) or math.isclose(adjusted[str(i)], p * len(ps)) \
            or adjusted[str(i)] <= max(min(1, q * (len(ps) - j)) for j, q in enumerate(sorted(ps)) if q <= p)


# --- comparison

def test_every_case_is_counted_once():
    records = [
        rec("a", 0.9, "both", "x"), rec("a", 0.5, "both", "y"),
        rec("a", 0.9, "only_x", "x"), rec("a", None, "only_x", "y"),
        rec("a", 0.9, "only_x2", "x"),
        rec("a", 0.9, "only_y", "y"),
        rec("a", None, "none", "x"),
        rec("a", 0.9, "other", "x", "cup"), rec("a", 0.9, "other", "y", "lamp"),
        rec("a", 0.2, "two", "x", "cup"), rec("a", 0.6, "two", "y", "cup"), rec("a", 0.3, "two", "x", "lamp"),
        rec("a", 0.4, "two", "y", "lamp"),
        rec("a", 1.0, "both", "z"),
    ]
    (m,) = compare(records, SPECS, "x", "y").metrics
    assert (m.n_pairs, m.n_cases, m.only_system, m.only_baseline, m.unmatched, m.neither) == (3, 2, 2, 1, 1, 1)
    assert m.system == pytest.approx((0.9 + 0.2 + 0.3) / 3)
    assert m.baseline == pytest.approx((0.5 + 0.6 + 0.4) / 3)
    assert m.difference == pytest.approx((0.4 - 0.4 - 0.1) / 3)
    # By case: +0.4, and -0.4 - 0.1 of two objects.
    assert (m.wins, m.losses, m.ties, m.p_value) == (1, 1, 0, 1.0)
    # The two ways of taking pairs agree.
    d = paired_difference(records, "a", "x", "y")
    assert (d.n, d.mean) == (m.n_pairs, pytest.approx(m.difference))


def test_differences_are_those_of_the_pairs():
    rng = np.random.default_rng(0)
    hard = rng.uniform(size=50)
    x, y = 0.5 * hard + 0.1 + 0.01 * rng.normal(size=50), 0.5 * hard + 0.01 * rng.normal(size=50)
    c = compare([*grid("a", "x", x), *grid("a", "y", y)], SPECS, "x", "y")
    (m,) = c.metrics
    assert m.difference == pytest.approx((x - y).mean(), abs=1e-12)
    want = mean_interval({f"c{i:03d}": [float(d)] for i, d in enumerate(x - y)})
    assert (m.interval.low, m.interval.high) == (want.low, want.high)
    # What is hard for both does not widen it: 0.014/sqrt(50) each way, against 0.15/sqrt(50) for a system alone.
    assert 0.09 < m.interval.low < 0.1 < m.interval.high < 0.11
    assert (m.wins, m.losses) == (50, 0)
    assert m.p_value == 2 / 2**50 == m.p_holm


def test_the_other_way_round_is_the_mirror():
    rng = np.random.default_rng(1)
    records = [*grid("a", "x", rng.uniform(size=40)), *grid("a", "y", rng.uniform(size=35)),
               *grid("b", "x", rng.uniform(size=40)), *grid("b", "y", rng.uniform(size=40))]
    c, d = (compare(records, SPECS, s, t, normalization="unit-1", levels=[LEVEL]) for s, t in (("x", "y"), ("y", "x")))
    for m, n in zip((*c.metrics, *c.levels), (*d.metrics, *d.levels), strict=True):
        assert (m.system, m.baseline, m.difference) == (n.baseline, n.system, -n.difference)
        assert (m.interval.low, m.interval.high) == (-n.interval.high, -n.interval.low)
    for m, n in zip(c.metrics, d.metrics, strict=True):
        assert (m.wins, m.losses, m.only_system, m.p_value) == (n.losses, n.wins, n.only_baseline, n.p_value)


def test_less_can_be_better():
    (m,) = compare([*grid("low", "x", [0.1, 0.2, 0.5]), *grid("low", "y", [0.2, 0.4, 0.5])], SPECS, "x", "y").metrics
    assert m.difference == pytest.approx(-0.1)
    assert (m.wins, m.losses, m.ties, m.higher_is_better) == (2, 0, 1, False)
    assert m.p_value == 0.5  # two of two coins, both ways


def test_signs_are_exact():
    # 0.1 + 0.2 against 0.3 + 0.0: the sums differ by 2^-55 as binary numbers; a running sum says 0.3 + 4e-17 or a tie.
    records = [rec("a", 0.1, "c", "x", "1"), rec("a", 0.2, "c", "x", "2"), rec("a", 0.3, "c", "y", "1"),
               rec("a", 0.0, "c", "y", "2")]
    (m,) = compare(records, SPECS, "x", "y").metrics
    assert (m.wins, m.ties) == (1, 0)
    assert m.interval.note == "one case only"


def test_levels_stand_on_common_cases():
    """System y was measured on the easy half only. Alone it looks better; on common cases it is not."""
    x = [rec("a", 0.9 if i < 20 else 0.1, f"c{i}", "x") for i in range(40)]
    y = [rec("a", 0.8, f"c{i}", "y") for i in range(20)]
    b = [rec("b", 0.5, f"c{i}", s) for i in range(40) for s in "xy"]
    c = compare([*x, *y, *b], SPECS, "x", "y", normalization=UNIT, levels=[LEVEL])
    (g,) = c.levels
    assert (g.system, g.baseline) == (pytest.approx(70), pytest.approx(65))
    assert g.difference == pytest.approx(5)
    assert (g.n_cases, g.metrics, g.n_retained) == (40, ("a", "b"), 2)
    assert g.interval.low == pytest.approx(5, abs=1e-8)  # constant on every case
    assert {m.metric: m.n_cases for m in c.metrics} == {"a": 20, "b": 40}


def test_a_level_difference_is_joint():
    rng = np.random.default_rng(2)
    hard = rng.uniform(size=60)
    x = [*grid("a", "x", 0.9 * hard), *grid("b", "x", hard)]
    y = [*grid("a", "y", 0.9 * hard + 0.02 * rng.uniform(size=60)), *grid("b", "y", hard)]
    (g,) = compare([*x, *y], SPECS, "x", "y", normalization=UNIT, levels=[LEVEL]).levels
    alone = level_interval(LEVEL, {"a": {f"c{i:03d}": [0.9 * float(v)] for i, v in enumerate(hard)},
                                   "b": {f"c{i:03d}": [float(v)] for i, v in enumerate(hard)}}, UNIT,
                           IntervalSettings())
    assert g.interval.high < 0
    assert g.interval.high - g.interval.low < 0.1 * (alone.high - alone.low)


def test_nothing_in_common():
    c = compare([rec("a", 0.5, "p", "x"), rec("a", 0.5, "q", "y")], SPECS, "x", "y", normalization=UNIT, levels=[LEVEL])
    (m,), (g,) = c.metrics, c.levels
    assert (m.difference, m.p_value, m.p_holm, m.interval.note) == (None, None, None, "nothing was measured")
    assert (g.system, g.difference, g.interval.note) == (None, None, "no common case")
    assert "–" in comparison_table(c).to_markdown()


def test_what_cannot_be_compared():
    records = [rec("a", 0.5, "p", "x"), rec("a", 0.5, "p", "y")]
    with pytest.raises(UsageError, match="itself"):
        compare(records, SPECS, "x", "x")
    with pytest.raises(UsageError, match=r"no system 'w'.*Known: x, y"):
        compare(records, SPECS, "w", "x")
    with pytest.raises(UsageError, match="normalisation"):
        compare(records, SPECS, "x", "y", levels=[LEVEL])
    with pytest.raises(ResultError, match="versions"):
        compare([*records, rec("a", 0.5, "q", "y", version=2)], SPECS, "x", "y")
    with pytest.raises(ResultError, match="twice"):
        compare([*records, records[0]], SPECS, "x", "y")
    # Trouble of a third system is its own.
    compare([*records, rec("a", 0.5, "q", "z", version=2)], SPECS, "x", "y")


def test_holm_over_the_metrics_of_a_comparison():
    n = 10
    records = [*grid("a", "x", [1.0] * n), *grid("a", "y", [0.0] * n),              # 10 : 0, p = 2/1024
               *grid("b", "x", [1.0] * 8 + [0.0] * 2), *grid("b", "y", [0.5] * n)]  # 8 : 2, p = 112/1024
    got = {m.metric: (m.p_value, m.p_holm) for m in compare(records, SPECS, "x", "y").metrics}
    assert got["a"] == (2 / 1024, 4 / 1024)
    assert got["b"] == (112 / 1024, 112 / 1024)


def test_a_comparison_as_text():
    records = [*grid("a", "x", [0.5, 1.0]), *grid("a", "y", [0.0, 0.5]), *grid("low", "x", [0.5]),
               *grid("low", "y", [0.25, 0.5])]
    c = compare(records, SPECS, "x", "y", normalization=UNIT, levels=[LEVEL])
    text = comparison_json(c)
    assert Comparison.model_validate_json(text) == c
    json.loads(text, parse_constant=pytest.fail)
    t = comparison_table(c)
    assert t.columns[:4] == ("metric", "x", "y", "difference")
    assert [r[0] for r in t.rows] == ["t L", "a", "low"]
    assert t.rows[1] == ("a", "0.7500", "0.2500", "0.5000", "2/0/0", "0.5000", "1.0000", "2")
    assert t.notes[2] == ("lower is better", "", "", "", "", "", "", "of 2; 0 only x, 1 only y")
    assert t.intervals[1][3] == ("0.5000", "0.5000")
    assert "difference low" in t.to_csv()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from("pqrstu"),
                          st.one_of(st.none(), st.floats(0, 1))), unique_by=lambda t: t[:3], max_size=30), st.randoms())
def test_order_changes_nothing(rows, rng):
    records = [rec("a", 0.5, "p0", "x"), rec("a", 0.25, "p0", "y"), *(rec(m, v, c, s) for m, s, c, v in rows)]
    quick = IntervalSettings(replicates=100, few_cases=4)
    shuffled = list(records)
    rng.shuffle(shuffled)
    text, other = (comparison_json(compare(r, SPECS, "x", "y", normalization=UNIT, levels=[LEVEL], settings=quick))
                   for r in (records, shuffled))
    assert text == other
    for target in (LEVEL, "a"):
        assert rank_systems(records, SPECS, target, UNIT, quick) == rank_systems(shuffled, SPECS, target, UNIT, quick)


# --- ranks

def test_separable_systems_have_one_rank():
    rng = np.random.default_rng(0)
    records = [r for k, s in enumerate("wxyz") for r in grid("a", s, 0.2 * k + 0.1 * rng.uniform(size=40))]
    t = rank_systems(records, SPECS, "a", UNIT)
    assert [(r.system, r.rank, r.low, r.high, r.modal, r.p_modal) for r in t.systems] == [
        ("z", 1, 1, 1, 1, 1.0), ("y", 2, 2, 2, 2, 1.0), ("x", 3, 3, 3, 3, 1.0), ("w", 4, 4, 4, 4, 1.0)]
    assert [r.p_first for r in t.systems] == [1.0, 0.0, 0.0, 0.0]
    assert (t.n_cases, t.replicates, t.note, t.higher_is_better) == (40, 2000, "", True)
    down = rank_systems([r.model_copy(update={"metric": "low"}) for r in records], SPECS, "low", UNIT)
    assert [r.system for r in down.systems] == list("wxyz")
    assert [r.low for r in down.systems] == [1, 2, 3, 4]


def test_equal_systems_share_every_rank():
    x = np.random.default_rng(0).uniform(size=40)
    t = rank_systems([r for s in "xyz" for r in grid("a", s, x)], SPECS, "a", UNIT)
    assert [(r.rank, r.low, r.high, r.p_first) for r in t.systems] == [(1, 1, 1, 1.0)] * 3


@pytest.mark.parametrize(("n", "k"), [(40, 22), (60, 40)])
def test_chance_of_the_first_place_is_binomial(n, k):
    """x wins k cases and y the others: in a resample x is first when its wins, binomial (n, k/n), are at least n/2."""
    wins = np.arange(n) < k
    settings = IntervalSettings(replicates=20_000)
    t = rank_systems([*grid("a", "x", wins), *grid("a", "y", ~wins)], SPECS, LEVEL, UNIT, settings)
    by = {r.system: r for r in t.systems}
    law = stats.binom(n, k / n)
    for name, want in (("x", law.sf(n // 2 - 1)), ("y", law.cdf(n // 2))):
        # Four standard errors of a share of 20,000.
        assert by[name].p_first == pytest.approx(want, abs=4 * math.sqrt(want * (1 - want) / 20_000) + 1e-12)
    assert by["x"].modal == 1
    assert by["y"].modal == (2 if law.cdf(n // 2) < 0.5 else 1)


def test_the_same_cases_for_every_system():
    """x is better by 0.001 in every case, whatever the cases: no resample can turn the order."""
    hard = np.random.default_rng(0).uniform(0, 0.9, 30)
    t = rank_systems([*grid("a", "x", hard + 0.001), *grid("a", "y", hard)], SPECS, LEVEL, UNIT)
    assert [(r.system, r.low, r.high, r.p_first) for r in t.systems] == [("x", 1, 1, 1.0), ("y", 2, 2, 0.0)]


def test_narrowest_run_by_hand():
    assert narrowest(np.array([0.5, 0.3, 0.2]), 0.95) == (0, 2)
    assert narrowest(np.array([0.04, 0.9, 0.06]), 0.95) == (1, 2)
    assert narrowest(np.array([0.05, 0.9, 0.05]), 0.95) == (0, 1)  # equal width: the better ranks
    assert narrowest(np.array([0.0, 0.0, 1.0]), 0.95) == (2, 2)
    assert narrowest(np.array([1.0]), 0.95) == (0, 0)


def test_ranks_that_cannot_be_had():
    records = [*grid("a", "x", [0.5]), *grid("a", "y", [0.25]), rec("b", None, "c000", "z")]
    t = rank_systems(records, SPECS, LEVEL, UNIT)
    assert [(r.system, r.rank, r.low, r.n_cases) for r in t.systems] == [
        ("x", 1, None, 1), ("y", 2, None, 1), ("z", None, None, 0)]
    assert t.note == "one case only"
    with pytest.raises(UsageError, match="no metric 'q'"):
        rank_systems(records, SPECS, "q", UNIT)
    assert rank_systems([], SPECS, LEVEL, UNIT).systems == ()
    short = rank_systems([*grid("a", "x", [0.5, 0.7]), *grid("a", "y", [0.25, 0.1])], SPECS, LEVEL, UNIT)
    assert (short.note, short.systems[0].low) == ("fewer than 30 cases", 1)
    sparse = rank_systems([*grid("a", "x", [0.5] * 40), rec("a", 0.5, "c000", "y")], SPECS, LEVEL, UNIT)
    # y's one case is drawn in 1 - (39/40)^40 = 64 % of the resamples.
    assert sparse.replicates == pytest.approx(2000 * 0.637, abs=4 * math.sqrt(2000 * 0.637 * 0.363))


def test_scores_of_a_rank_table_are_the_levels():
    rng = np.random.default_rng(4)
    x = {s: {m: rng.uniform(size=10) for m in "ab"} for s in "xy"}
    t = rank_systems([r for s in x for m in x[s] for r in grid(m, s, x[s][m])], SPECS, LEVEL, UNIT)
    for r in t.systems:
        assert r.score == pytest.approx(group_score(LEVEL, {m: float(v.mean()) for m, v in x[r.system].items()}).score)
    shown = rank_table(t)
    assert shown.rows[0][1] == t.systems[0].system
    assert shown.intervals[0][0] == (str(t.systems[0].low), str(t.systems[0].high))
