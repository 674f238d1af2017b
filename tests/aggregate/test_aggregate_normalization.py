"""Tables 19 and 20 as frozen data: printed formulas, values of the spec, and what is refused."""

import csv
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.aggregate import load_normalization, normalise
from spatialbench.aggregate import normalization as n
from spatialbench.configs import config_path
from spatialbench.errors import ConfigError, UsageError

TABLE = load_normalization("wmbench-normalization-v1")


def rows(path):
    with path.open(newline="") as fh:
        return list(csv.DictReader(fh))


def clip01(x):
    return min(1, max(0, x))


@pytest.mark.parametrize(("metric", "raw", "want"), [
    ("M05", 5, 0.670486), ("M03", 4, 0.797870), ("M28", 3, 0.639002), ("M33", 0.1, 0.690333),
    ("M29", 0.5, 0.665121), ("M30", -2, 0.329806), ("M29", 0, 0.5),
    ("M26", 1.25, 0.2), ("M26", 1, 0), ("M26", 0.8, 0),
    ("M32", 20, 0.9), ("M32", 30, 0.968377), ("M32", 99, 0.999989),
])
def test_values_of_the_spec(metric, raw, want):
    assert normalise(metric, raw, TABLE) == pytest.approx(want, abs=5e-7)  # half a unit of the sixth digit


@pytest.mark.parametrize(("metric", "raw", "want"), [
    ("M02", 1, 0), ("M02", 10, 1), ("M02", 5.5, 0.5), ("M02", 11, 1),
    ("M04", 3, 0.5), ("M09", 0, 0.5), ("M10", -1, 0), ("M27", 1, 1),
    ("M07", 0.25, 0.75), ("M12", 1.5, 0), ("M34", 0.5, 0.75), ("M34", 2.5, 0),
    ("M15", 0, 1), ("M17", 1, 0.5), ("M15", -3, 1),
    ("M01", 1.2, 1), ("M36", -0.4, 0), ("M08", 1.7, 1),
    ("M26", 0, 0), ("M26", -1, 0), ("M26", 2, 0.5),
    ("M32", 0, 0), ("M32", -1e9, 0),
    ("M05", -4.14107, 0), ("M05", 9.492435, 1), ("M03", 2.80222, 1), ("M03", 8.728, 0), ("M03", 99, 0),
])
def test_values_by_hand(metric, raw, want):
    assert normalise(metric, raw, TABLE) == pytest.approx(want, abs=1e-15)


def test_every_metric_has_a_rule_and_no_other():
    assert sorted(TABLE.rules) == [f"M{k:02d}" for k in range(1, 40)]


def test_fixed_rules_are_those_of_table_19(published):
    seen = set()
    for row in rows(published / "table19.csv"):
        for metric in row["metric_ids"].split(";"):
            seen.add(metric)
            assert TABLE.rules[metric].reference_count is None
            for x in [-30.0, -1.0, -0.3, 0.0, 0.1, 0.5, 0.99, 1.0, 1.3, 2.0, 4.4, 9.0, 10.0, 25.0, 99.0]:
                want = clip01(eval(row["python"], {"clip01": clip01, "max": max}, {"x": x}))
                assert normalise(metric, x, TABLE) == pytest.approx(want, abs=1e-15), (metric, x)
    assert seen == set(TABLE.rules) - {"M03", "M05", "M28", "M29", "M30", "M33"}


def test_reference_rules_are_those_of_table_20(published):
    for row in rows(published / "table20.csv"):
        rule = TABLE.rules[row["metric_id"]]
        assert rule.reference_count == int(row["reference_count"])
        for x in [-9.0, -4.0, -1.0, 0.0, 0.0004, 0.2, 1.0, 3.3, 6.0, 8.9, 12.0]:
            if row["kind"] == "tanh":
                want = 0.5 + 0.5 * math.tanh(x / float(row["a"]))
            else:
                low, high = float(row["L"]), float(row["U"])
                want = clip01((x - low) / (high - low))
                want = 1 - want if row["direction"] == "lower" else want
            assert rule(x) == pytest.approx(want, abs=1e-15), row


def test_reference_counts():
    # 9 systems x 266 scenes and 4 x 34 expansions.
    assert TABLE.reference.rows == 2530 == 9 * 266 + 4 * 34
    assert TABLE.rules["M05"].reference_count == 9 * 266
    assert TABLE.rules["M28"].reference_count == 4 * 34


def test_direction():
    for metric, rule in TABLE.rules.items():
        lower = metric in ("M03", "M07", "M12", "M15", "M17", "M33", "M34")
        low, high = (rule(x) for x in ((0.01, 0.3) if metric != "M26" else (1.1, 1.5)))
        if metric in ("M02", "M04"):
            low, high = rule(2), rule(3)
        if metric == "M03":
            low, high = rule(3), rule(4)
        assert (low > high) is lower, metric


@given(st.sampled_from(sorted(TABLE.rules)), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_scores_stay_in_the_unit_interval_and_are_monotonic(metric, x, y):
    a, b = normalise(metric, min(x, y), TABLE), normalise(metric, max(x, y), TABLE)
    assert 0 <= a <= 1
    assert 0 <= b <= 1
    lower = metric in ("M03", "M07", "M12", "M15", "M17", "M33", "M34")
    assert (a >= b) if lower else (a <= b)


def test_an_unknown_metric_is_named_with_its_neighbours():
    with pytest.raises(UsageError, match="'M40'") as e:
        normalise("M40", 0.5, TABLE)
    assert "M04" in e.value.todo or "M30" in e.value.todo
    with pytest.raises(UsageError, match=r"wmbench-normalization-v1.*new table"):
        normalise("video.quite_other", 0.5, TABLE)


def test_not_a_number():
    with pytest.raises(ValueError, match="not a number"):
        normalise("M01", math.nan, TABLE)


def test_an_unknown_table_lists_the_known():
    with pytest.raises(UsageError, match="wmbench-normalization-v1"):
        load_normalization("wmbench-normalization-v0")


def write(tmp_path, **change):
    data = yaml.safe_load(config_path("normalization", "wmbench-normalization-v1").read_text())
    data["rules"]["M01"] = change
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump(data))
    return str(path)


def test_a_table_of_ones_own(tmp_path):
    table = load_normalization(write(tmp_path, rule="affine", lower=0, upper=4))
    assert normalise("M01", 1, table) == 0.25


@pytest.mark.parametrize(("change", "message"), [
    ({"rule": "affine", "lower": 0}, "takes lower, upper, got lower"),
    ({"rule": "clip01", "scale": 2}, "takes no constants, got scale"),
    ({"rule": "affine", "lower": 2, "upper": 2}, "lower must be below upper"),
    ({"rule": "tanh", "scale": 0}, "greater than 0"),
    ({"rule": "affine", "lower": 0, "upper": float("inf")}, "finite"),
    ({"rule": "clip"}, "clip01"),
    ({"rule": "clip01", "uper": 1}, "unknown key"),
])
def test_broken_tables_are_refused(tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        load_normalization(write(tmp_path, **change))


def test_the_rules_by_name():
    assert n.affine_reversed(0.25, 0, 1) == 0.75
    assert n.one_minus_clip(-1) == 1
    assert n.inverse_dispersion(3) == 0.25
