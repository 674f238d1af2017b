"""Intervals against what is known without them: binomial quantiles, Student's t of SciPy, exact sums, hand examples."""

import json
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from spatialbench.aggregate import (
    Dimension,
    Interval,
    IntervalSettings,
    Level,
    group_score,
    level_interval,
    load_normalization,
    mean_interval,
    summarise,
    summary_json,
)
from spatialbench.aggregate._resample import case_seed, case_sums, leave_one_out, resample, weights
from spatialbench.aggregate.intervals import percentile_bounds, student_t_bounds, tail
from spatialbench.aggregate.joint import level_sample
from spatialbench.types import Measurement, MetricSpec, Status

UNIT = load_normalization("unit-1")
NORM = load_normalization("wmbench-normalization-v1")


def ones(n, k):
    return {f"c{i:03d}": [1.0 if i < k else 0.0] for i in range(n)}


# --- resampling

def test_weights_are_draws_with_replacement():
    w = np.concatenate(list(weights(40, 5000, 7)))
    assert w.shape == (5000, 40)
    assert (w.sum(axis=1) == 40).all()
    # Each count is binomial (40, 1/40): mean 1, variance 39/40. 5,000 draws: 4 standard errors.
    assert abs(w.mean(axis=0) - 1).max() < 4 * math.sqrt(39 / 40 / 5000)
    assert w.var() == pytest.approx(39 / 40, rel=0.02)
    assert abs(np.corrcoef(w[:-1, 0], w[1:, 0])[0, 1]) < 4 / math.sqrt(5000)


def test_blocks_do_not_change_the_stream(monkeypatch):
    whole = np.concatenate(list(weights(30, 200, 3)))
    monkeypatch.setattr("spatialbench.aggregate._resample._BLOCK", 301)
    parts = list(weights(30, 200, 3))
    assert len(parts) == 20
    assert (np.concatenate(parts) == whole).all()


def test_the_seed_is_that_of_the_set_of_cases():
    # First six bytes of what sha256sum says of the text ["a","b"].
    assert case_seed(["b", "a", "b"]) == case_seed(["a", "b"]) == 0x0473EF2DC0D3
    assert case_seed(["ab"]) != case_seed(["a", "b"])
    assert 0 <= case_seed([]) < 2**48
    case_seed(["\ud800"])  # a broken surrogate in a file name


values = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.dictionaries(st.text(max_size=3), st.lists(values, max_size=4), min_size=1, max_size=12),
       st.integers(0, 2**32))
def test_weighted_means_are_exact_to_the_grid(column, seed):
    sums = case_sums([column])
    if not sums.cases:
        return
    w = next(weights(len(sums.cases), 5, seed))
    top = max(abs(x) for v in column.values() for x in v)
    for row, got in zip(w, sums.means(w)[:, 0], strict=True):
        pairs = [(Fraction(x), int(n)) for c, n in zip(sums.cases, row, strict=True) for x in column[c]]
        total = sum(n for _, n in pairs)
        if total == 0:
            assert math.isnan(got)
            continue
        exact = sum(x * n for x, n in pairs) / total
        # Grid: at most 2^-(52 - 1 - log2(12*4)) of the largest value, plus the division's rounding.
        assert abs(Fraction(got) - exact) <= Fraction(top) * Fraction(1, 2**44)


def test_sums_are_integers_that_float64_holds():
    rng = np.random.default_rng(0)
    column = {f"c{i}": list(rng.normal(0, 1e3, rng.integers(1, 4))) for i in range(500)}
    sums = case_sums([column, {c: v[:1] for c, v in column.items()}], ["m", "m"])
    assert sums.shift[0] == sums.shift[1]
    w = next(weights(500, 50, 1))
    by_hand = [[sum(int(n) * int(t) for n, t in zip(row, sums.total[:, k], strict=True)) for k in (0, 1)] for row in w]
    assert (sums.total == np.rint(sums.total)).all()
    assert max(abs(x) for r in by_hand for x in r) < 2**53
    assert (w @ sums.total == np.array(by_hand, dtype=object)).all()


@pytest.mark.parametrize("scale", [1e-300, 5e-324, 1e300, 1.0])
def test_any_magnitude(scale):
    column = {f"c{i}": [i * scale] for i in range(7)}
    got = case_sums([column]).means(leave_one_out(7))[:, 0]
    for i, x in enumerate(got):
        want = float(sum(Fraction(j * scale) for j in range(7) if j != i) / 6)
        assert x == pytest.approx(want, rel=1e-11, abs=1e-323)


# --- bootstrap

@pytest.mark.parametrize(("n", "k"), [(40, 20), (60, 6), (200, 150)])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_binary_values_give_binomial_quantiles(n, k, level):
    """Resampled totals are binomial (n, k/n). With R = 20,000 the order statistic lies at the probability a = (1 -
    level)/2 within 4 sqrt(a (1 - a)/R): the ends must lie between the quantiles of those two probabilities."""
    settings = IntervalSettings(level=level, replicates=20_000)
    got = mean_interval(ones(n, k), settings)
    assert (got.method, got.n_cases, got.replicates) == ("bootstrap", n, 20_000)
    a = (1 - level) / 2
    slack = 4 * math.sqrt(a * (1 - a) / 20_000)
    law = stats.binom(n, k / n)
    assert law.ppf(a - slack) <= got.low * n + 1e-9
    assert got.low * n - 1e-9 <= law.ppf(a + slack)
    assert law.ppf(1 - a - slack) <= got.high * n + 1e-9
    assert got.high * n - 1e-9 <= law.ppf(1 - a + slack)


def test_objects_move_with_their_case():
    """Ten equal objects a case are worth no more than one: the interval of the clustered mean is that of the cases."""
    rng = np.random.default_rng(1)
    x = {f"c{i:03d}": [float(v)] for i, v in enumerate(rng.normal(size=60))}
    one = mean_interval(x)
    ten = mean_interval({c: v * 10 for c, v in x.items()})
    assert ten.low == pytest.approx(one.low, abs=1e-9)
    assert ten.high == pytest.approx(one.high, abs=1e-9)
    apart = mean_interval({f"{c}-{j}": v for c, v in x.items() for j in range(10)})
    assert (apart.high - apart.low) < 0.5 * (ten.high - ten.low)  # about 1/sqrt(10) of it


def test_the_mean_is_over_objects():
    """Cases of one and of three objects: a resample's mean is (sum of all drawn)/(number of all drawn)."""
    x = {"a": [0.0], "b": [1.0, 1.0, 1.0], "c": [0.5]}
    w = np.array([[1.0, 1, 1], [0, 3, 0], [2, 1, 0]])
    assert case_sums([x]).means(w)[:, 0] == pytest.approx([3.5 / 5, 1.0, 3 / 5], abs=1e-12)


def test_negation_mirrors_the_interval():
    rng = np.random.default_rng(2)
    x = {f"c{i}": [float(v)] for i, v in enumerate(rng.gumbel(size=50))}
    a, b = mean_interval(x), mean_interval({c: [-v[0]] for c, v in x.items()})
    assert (b.low, b.high) == (-a.high, -a.low)


def test_order_statistics():
    r = np.random.default_rng(0).permutation(2000).astype(float)
    assert percentile_bounds(r, 0.95) == (49.0, 1950.0)
    assert percentile_bounds(r, 0.9) == (99.0, 1900.0)
    assert percentile_bounds(r[:3], 0.95) == (min(r[:3]), max(r[:3]))
    assert [tail(1000, x) for x in (0.95, 0.9, 0.99)] == [25, 50, 5]


def test_coverage_of_the_mean():
    """300 samples. Of 30 exponential values a nominal 95 % covers about 92 %, less 4 errors of sqrt(0.92 0.08/300) =
    1.6 %; Student's t on 8 normal values covers 95 %, 4 errors are 5 %."""
    rng = np.random.default_rng(5)
    few = IntervalSettings(replicates=400)
    hits = [i.low <= 1 <= i.high for _ in range(300)
            if (i := mean_interval({f"c{j}": [float(v)] for j, v in enumerate(rng.exponential(size=30))}, few))]
    assert sum(hits) / 300 > 0.856
    hits = [i.low <= 0 <= i.high for _ in range(300)
            if (i := mean_interval({f"c{j}": [float(v)] for j, v in enumerate(rng.normal(size=8))}, few))]
    assert 0.90 <= sum(hits) / 300 <= 1.0


# --- few cases

@pytest.mark.parametrize("n", [2, 3, 12, 29])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_student_t_is_scipys(n, level):
    x = np.random.default_rng(n).normal(3, 2, n)
    got = mean_interval({f"c{i}": [float(v)] for i, v in enumerate(x)}, IntervalSettings(level=level))
    low, high = stats.t.interval(level, n - 1, loc=x.mean(), scale=stats.sem(x))
    assert (got.method, got.n_cases, got.seed, got.replicates) == ("student_t", n, None, 0)
    # Sums on the grid are good to 2^-45 of the largest value; differences of means lose a factor n.
    assert got.low == pytest.approx(low, abs=1e-9)
    assert got.high == pytest.approx(high, abs=1e-9)


def test_the_threshold():
    assert mean_interval(ones(29, 5)).method == "student_t"
    assert mean_interval(ones(30, 5)).method == "bootstrap"
    assert mean_interval(ones(29, 5), IntervalSettings(few_cases=10)).method == "bootstrap"


def test_jackknife_of_a_ratio_by_hand():
    """Cases a: 0, b: 1 1 1, c: 0.5 leave 3.5/4, 0.5/2 and 3/4; t(2 dof, 0.975) = 4.302653."""
    got = mean_interval({"a": [0.0], "b": [1.0, 1.0, 1.0], "c": [0.5]})
    left = [3.5 / 4, 0.5 / 2, 3 / 4]
    middle = sum(left) / 3
    error = math.sqrt(2 / 3 * sum((x - middle) ** 2 for x in left))
    assert got.low == pytest.approx(0.7 - 4.302653 * error, abs=1e-5)
    assert got.high == pytest.approx(0.7 + 4.302653 * error, abs=1e-5)
    assert student_t_bounds(0.7, np.array(left), 0.95) == pytest.approx((got.low, got.high), abs=1e-9)


def test_one_case_has_no_interval():
    for x, n in (({"a": [0.1, 0.9]}, 1), ({}, 0), ({"a": []}, 0)):
        got = mean_interval(x)
        assert (got.low, got.high, got.method, got.n_cases) == (None, None, "none", n)
        assert got.note
        assert got.shown() == "–"


def test_without_spread_there_is_a_warning():
    for n in (5, 50):
        got = mean_interval({f"c{i}": [0.7] for i in range(n)})
        assert got.low == got.high == 0.7
        assert "no spread" in got.note


def test_records_are_whole():
    with pytest.raises(ValidationError, match="two ends"):
        Interval(low=1.0, high=None, level=0.95, method="bootstrap", n_cases=3)
    with pytest.raises(ValidationError, match="says why"):
        Interval(low=None, high=None, level=0.95, method="none", n_cases=1)
    with pytest.raises(ValidationError, match="above"):
        Interval(low=2.0, high=1.0, level=0.95, method="bootstrap", n_cases=3)
    for bad in ({"level": 1.0}, {"replicates": 10}, {"few_cases": 1}, {"level": 0.999, "replicates": 100}, {"x": 1}):
        with pytest.raises(ValidationError):
            IntervalSettings(**bad)
    assert Interval(low=0.125, high=67.705, level=0.95, method="bootstrap", n_cases=3).shown() == "[0.13, 67.71]"


# --- levels

LEVELS = (
    Level("t", "one", (Dimension("all", ("a", "b", "c")),)),
    Level("t", "two", (Dimension("p", ("a", "b"), 0.2), Dimension("q", ("c",), 0.3), Dimension("r", ("z",), 0.5))),
    Level("t", "geo", (Dimension("p", ("a",), 0.8), Dimension("q", ("b",), 0.2)), combine="geometric"),
)


@pytest.mark.parametrize("level", LEVELS, ids=lambda x: x.level)
def test_a_resampled_level_is_the_levels_own_rule(level):
    """Each resample against ``group_score`` on the resampled records themselves."""
    rng = np.random.default_rng(3)
    systems = [{m: {f"c{i}": list(rng.uniform(size=rng.integers(0, 4))) for i in range(12)} for m in "abc"}
               for _ in range(3)]
    sample = level_sample(level, systems, UNIT)
    w = next(weights(len(sample.sums.cases), 20, 4))
    got = sample(w)
    assert got.shape == (20, 3)
    for row, scores in zip(w, got, strict=True):
        for system, score in zip(systems, scores, strict=True):
            means = {}
            for m, by_case in system.items():
                drawn = [Fraction(x) for c, n in zip(sample.sums.cases, row, strict=True)
                         for x in by_case.get(c, []) * int(n)]
                means[m] = float(sum(drawn) / len(drawn))
            assert score == pytest.approx(group_score(level, means).score, abs=1e-8)


def test_a_level_uses_the_normalisation_of_means():
    level = Level("t", "W4", (Dimension("all", ("M32",)),))
    x = {f"c{i}": [float(v)] for i, v in enumerate(np.random.default_rng(0).uniform(5, 40, 50))}
    raw, score = mean_interval(x), level_interval(level, {"M32": x}, NORM, IntervalSettings())
    # Order statistics of a monotone function are the function of the order statistics.
    assert score.low == pytest.approx(100 * (1 - 10 ** (-raw.low / 20)), abs=1e-9)
    assert score.high == pytest.approx(100 * (1 - 10 ** (-raw.high / 20)), abs=1e-9)


def test_cases_of_a_level_are_drawn_together():
    """Two metrics that cancel case by case: their mean does not vary at all."""
    rng = np.random.default_rng(0)
    a = {f"c{i}": [float(v)] for i, v in enumerate(rng.uniform(size=50))}
    b = {c: [1 - v[0]] for c, v in a.items()}
    level = Level("t", "L", (Dimension("all", ("a", "b")),))
    got = level_interval(level, {"a": a, "b": b}, UNIT, IntervalSettings())
    assert got.low == pytest.approx(50, abs=1e-8)
    assert got.high == pytest.approx(50, abs=1e-8)


def test_levels_without_an_interval_say_why():
    level = Level("t", "L", (Dimension("all", ("a", "b")),))
    s = IntervalSettings()
    assert level_interval(level, {}, UNIT, s).note == "there is no score"
    x = ones(40, 20)
    assert level_interval(level, {"a": x, "b": {"c000": [1.0]}}, UNIT, s).note == "measured on one case only: b"
    got = level_interval(level, {"a": x, "b": {"c000": [1.0], "c001": [0.5]}}, UNIT, s)
    # Neither of two cases of 40 is drawn in (38/40)^40 = 12.9 % of the resamples: 4 errors of 0.75 %.
    assert abs(1 - got.replicates / 2000 - 0.129) < 0.03
    assert level_interval(Level("t", "W6"), {"a": x}, UNIT, s).method == "none"


def test_student_intervals_of_scores_stay_in_their_range():
    level = Level("t", "L", (Dimension("all", ("a",)),))
    got = level_interval(level, {"a": {"x": [1.0], "y": [1.0], "z": [0.0]}}, UNIT, IntervalSettings())
    assert (got.low, got.high, got.method) == (0.0, 100.0, "student_t")


# --- summaries

SPECS = {id: MetricSpec(id=id, name=id, title=id, track="t", level=level, group="g", retained=True, scored_on="scene",
                        range="", higher_is_better=id != "M07")
         for id, level in (("M08", "W2"), ("M25", "W2"), ("M32", "W4"), ("M07", "W1"))}
QUICK = IntervalSettings(replicates=100, few_cases=4)


@st.composite
def many(draw):
    keys = draw(st.lists(st.tuples(st.sampled_from(sorted(SPECS)), st.sampled_from(["s1", "s2"]),
                                   st.sampled_from("abcdef"), st.sampled_from([None, "o1", "o2"])),
                         unique=True, max_size=40))
    out = []
    for metric, system, case, object in keys:
        value = draw(st.one_of(st.none(), st.floats(-50, 120)))
        status = Status.MEASURED if value is not None else Status.UNAVAILABLE
        out.append(Measurement(metric=metric, version=1, case=case, system=system, object=object, value=value,
                               status=status, reason="" if value is not None else "r"))
    return out


@settings(max_examples=40, deadline=None)
@given(many(), st.randoms(), st.integers(0, 40))
def test_order_and_splitting_never_change_a_byte(records, rng, cut):
    text = summary_json(summarise(records, SPECS, NORM, intervals=QUICK))
    shuffled = list(records)
    rng.shuffle(shuffled)
    lines = [m.model_dump_json() for m in shuffled]
    merged = [Measurement.model_validate_json(x) for x in (*lines[cut:], *lines[:cut])]
    assert summary_json(summarise(merged, SPECS, NORM, intervals=QUICK)) == text
    json.loads(text, parse_constant=pytest.fail)


@settings(max_examples=40, deadline=None)
@given(many())
def test_intervals_change_no_score_and_systems_do_not_meet(records):
    plain = summarise(records, SPECS, NORM)
    s = summarise(records, SPECS, NORM, intervals=QUICK)
    more = [Measurement(metric="M08", version=1, case="new", system=x.system, status=Status.UNTESTED, reason="r")
            for x in s.systems]
    after = summarise([*records, *more], SPECS, NORM, intervals=QUICK)
    for a, b, c in zip(plain.systems, s.systems, after.systems, strict=True):
        assert [m.model_copy(update={"interval": None, "score_interval": None}) for m in b.metrics] == list(a.metrics)
        assert [g.model_copy(update={"interval": None}) for g in b.groups] == list(a.groups)
        # What is not measured moves no interval.
        assert [g.interval for g in b.groups] == [g.interval for g in c.groups]
        alone = summarise([m for m in records if m.system == b.system], SPECS, NORM, intervals=QUICK)
        assert alone.systems == (b,)


def test_fields_are_only_there_when_asked_for(record):
    records = [record("M08", 0.25, "a"), record("M08", 0.75, "b"), record("M07", 0.25, "a"), record("M07", 0.5, "b")]
    text = summary_json(summarise(records, SPECS, NORM))
    assert "interval" not in text
    s = summarise(records, SPECS, NORM, intervals=IntervalSettings())
    assert type(s).model_validate_json(summary_json(s)) == s
    m = s.system("s").metric("M07")
    # Lower is better: the ends change places.
    assert (m.score_interval.low, m.score_interval.high) == (
        max(0.0, 1 - min(1.0, m.interval.high)), min(1.0, 1 - max(0.0, m.interval.low)))
    assert s.system("s").group("W2").interval.n_cases == 2
    assert s.system("s").group("W4").interval.note == "there is no score"


def test_asked_cases_by_level(record):
    records = [record("M08", 0.5, "a"), record("M32", 20.0, "z")]
    s = summarise(records, SPECS, NORM, cases={"W2": ["a", "b"], "W4": ["z"]}).system("s")
    assert (s.metric("M08").coverage, s.metric("M32").coverage) == ("1 of 2", "1 of 1")


def test_ten_thousand_measurements_five_systems_two_thousand_replicates():
    rng = np.random.default_rng(0)
    systems = [{"a": {f"c{i}": [float(v)] for i, v in enumerate(rng.uniform(size=10_000))}} for _ in range(5)]
    start = time.perf_counter()
    sample = level_sample(Level("t", "L", (Dimension("all", ("a",)),)), systems, UNIT)
    found = resample(sample, 10_000, 2000, 0)
    assert found.shape == (2000, 5)
    # About 1.5 s on two slow cores; the bound only tells seconds from minutes.
    assert time.perf_counter() - start < 30
    # The spread of a mean of n uniform values: 1/sqrt(12 n); that of R replicates' spread: 1/sqrt(2 R) = 1.6 %.
    assert found.std(axis=0) == pytest.approx(100 / math.sqrt(12 * 10_000), rel=0.08)
