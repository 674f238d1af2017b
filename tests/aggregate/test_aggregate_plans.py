"""Plans are strict data; levels that share metrics stay apart."""

import pytest

from spatialbench.aggregate import (
    Dimension,
    Level,
    at_level,
    group_score,
    load_aggregation,
    load_normalization,
    normalise,
    split_levels,
    summarise,
)
from spatialbench.configs import config_names
from spatialbench.errors import ConfigError, ResultError, UsageError

GOOD = "id: mine\nversion: 1\ntrack: t\nsource: here\nnormalization: unit-1\nlevels:\n"


@pytest.mark.parametrize("name", config_names("aggregation"))
def test_packaged_plans_load_and_name_a_normalisation(name):
    a = load_aggregation(name)
    assert a.id == name
    table = load_normalization(a.normalization)
    metrics = {m for level in a.plan for m in level.metrics}
    assert metrics
    assert all(table.covers(m) for m in metrics)
    assert all(level.track == a.track and level.digits == a.digits for level in a.plan)


def test_weights_are_the_decimals_of_the_file():
    w2 = load_aggregation("happyworld-embodied-1").level("W2")
    # As binary floats 0.2 + 0.2 + 0.3 + 0.3 is not 1.
    assert sum(d.weight for d in w2.dimensions) == 1
    assert [str(d.weight) for d in w2.dimensions] == ["0.2", "0.2", "0.3", "0.3"]


@pytest.mark.parametrize(("text", "said"), [
    ("  A: {dimension: {}}\n", "unknown key"),
    ("  A: {dimensions: {p: {metrics: []}}}\n", "at least 1"),
    ("  A: {dimensions: {p: {metrics: [a], weight: 0}}}\n", "greater than 0"),
    ("  A: {dimensions: {p: {metrics: [a], weight: -1}}}\n", "greater than 0"),
    ("  A: {dimensions: {p: {metrics: [a]}, q: {metrics: [a]}}}\n", "twice in a level: a"),
    ("  A: {of: {B: 1}}\n", "A is made of B"),
    ("  A: {of: {A: 1}}\n", "A is made of A"),
    ("  A: {dimensions: {p: {metrics: [a]}, q: {metrics: [b]}}}\n  B: {of: {A: 1}}\n", "B is made of A"),
    ("  A: {dimensions: {p: {metrics: [a]}}, of: {A: 1}}\n", "not both"),
    ("  A: {combine: harmonic}\n", "arithmetic"),
])
def test_wrong_plans_are_refused(tmp_path, text, said):
    path = tmp_path / "plan.yaml"
    path.write_text(GOOD + text)
    with pytest.raises(ConfigError, match=said):
        load_aggregation(str(path))


def test_unknown_names():
    with pytest.raises(UsageError, match="wbench-full-1"):
        load_aggregation("wbench")
    with pytest.raises(UsageError, match=r"no level 'W9'.*W2, W3, W4"):
        load_aggregation("happyworld-embodied-1").level("W9")


def test_levels_made_of_levels(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(GOOD + "  A: {dimensions: {p: {metrics: [a, b]}}}\n  B: {dimensions: {q: {metrics: [c]}}}\n"
                    "  All: {of: {A: 3, B: 1}}\n")
    level = load_aggregation(str(path)).level("All")
    assert group_score(level, {"a": 0.2, "b": 0.4, "c": 1.0}).score == pytest.approx(100 * (3 * 0.3 + 1) / 4)


def test_geometric_levels():
    level = Level("t", "g", (Dimension("p", ("a",), 4), Dimension("q", ("b",), 1)), combine="geometric")
    assert group_score(level, {"a": 0.5, "b": 0.25}).score == pytest.approx(100 * 0.5**0.8 * 0.25**0.2)
    assert group_score(level, {"a": 0.5, "b": 0.0}).score == 0
    assert group_score(level, {"a": 1.0, "b": 1.0}).score == 100
    g = group_score(level, {"a": 0.5})
    assert (g.score, g.note) == (None, "1 of 2 metrics")


def test_rounding_before_the_mean_is_only_where_the_plan_says_so():
    parts = (Dimension("p", ("a",)), Dimension("q", ("b",)))
    values = {"a": 0.12349, "b": 0.12349}
    assert group_score(Level("t", "x", parts, digits=3), values).shown == "12.349"
    assert group_score(Level("t", "x", parts, round_dimensions=1, digits=3), values).shown == "12.300"
    # Half up: 66.45 and 66.4 become 66.5 and 66.4, the mean 66.45 is shown as 66.5.
    rule = Level("t", "x", parts, round_dimensions=1, digits=1)
    assert group_score(rule, {"a": 0.6645, "b": 0.664}).shown == "66.5"


def test_scores_are_taken_as_they_are(record, spec):
    table = load_normalization("unit-1")
    assert normalise("wbench.navscore", 0.25, table) == 0.25
    for bad in (-0.01, 1.01):
        with pytest.raises(ValueError, match=r"x: the mean .* outside"):
            normalise("x", bad, table)
    s = summarise([record("x", 0.25)], {"x": spec("x", "L", retained=False)}, table).system("s")
    assert s.metric("x").normalised == 0.25


def test_one_metric_at_several_levels(record, spec):
    specs = {"video.vq": spec("video.vq", "", track="happyworld.video")}
    records = [record("video.vq", 0.2, "a"), record("video.vq", 0.4, "b"), record("video.vq", 0.9, "c")]
    split, found = split_levels(records, specs, {"a": "W1", "b": "W1", "c": "W2"})
    assert sorted(found) == ["video.vq@W1", "video.vq@W2"]
    assert found["video.vq@W2"].level == "W2"
    plan = load_aggregation("happyworld-video-1")
    s = summarise(split, found, plan.normalization, levels=plan.plan, cases={"W1": ["a", "b", "x"], "W2": ["c"]})
    w1, w2 = (s.system("s").group(x) for x in ("W1", "W2"))
    assert (w1.score, w2.score) == (pytest.approx(30), pytest.approx(90))
    assert (w1.shown, w1.note) == ("30.0", "1 of 10 metrics; video.vq@W1 on 2 of 3")
    assert w2.note == "1 of 15 metrics"
    assert at_level("m", "W3") == "m@W3"
    with pytest.raises(ResultError, match="case 'c'"):
        split_levels(records, specs, {"a": "W1", "b": "W1"})
    with pytest.raises(ResultError, match="no metric"):
        split_levels(records, {}, {"a": "W1"})
