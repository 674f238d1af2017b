"""From records to a summary: what enters, what is counted, what is refused, and what may never change a byte."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.aggregate import (
    DASH,
    PREVIEW_NOTE,
    Dimension,
    Level,
    level_table,
    load_normalization,
    metric_table,
    paired_difference,
    summarise,
    summary_json,
)
from spatialbench.errors import ResultError, UsageError
from spatialbench.types import Measurement, MetricSpec, Status

NORM = "wmbench-normalization-v1"


def test_preview_of_one_case(spatial, record):
    records = [record("M07", 0.02), record("M08", 0.6), record("M12", 0.1), record("M13", 0.9), record("M14", 0.8),
               record("M25", None, status="inapplicable", reason="no support surface was found"),
               record("M39", None), record("M01", None)]
    s = summarise(records, spatial, NORM, preview=True, unscored=("W6",))
    assert (s.preview, s.note, s.n_cases) == (True, PREVIEW_NOTE, 1)
    assert "a single case's preview, not a benchmark result" in s.note
    one = s.system("s")
    assert {g.level: (g.shown, g.note) for g in one.groups} == {
        "W1": ("98.00", "1 of 10 metrics"),             # 1 - 0.02
        "W2": ("60.00", "1 of 2 metrics"),
        "W3": ("86.67", "3 of 7 metrics"),              # (0.9 + 0.9 + 0.8)/3
        "W4": (DASH, "0 of 7 metrics"), "W5": (DASH, "0 of 5 metrics"), "W6": (DASH, "not scored")}
    why = {x.metric: x.why for x in one.group("W2").missing}
    assert why == {"M25": "inapplicable (1): no support surface was found"}
    assert {x.metric: x.why for x in one.group("W1").missing}["M02"] == "untested: no record"


def test_the_mean_is_taken_raw_and_then_normalised(spatial, record):
    # PSNR: 20 and 40 dB have mean 30, and 1 - 10^(-30/20); the mean of the normalised values would be 0.945.
    s = summarise([record("M32", 20.0, "a"), record("M32", 40.0, "b")], spatial, NORM).system("s")
    m = s.metric("M32")
    assert m.mean == 30.0
    assert m.std == 10.0  # population
    assert m.normalised == pytest.approx(0.9683772, abs=5e-8)
    assert m.shown_raw == "30.0000"
    assert m.shown_score == "96.84 (2 of 2)"


def test_objects_are_observations_of_their_own(spatial, record):
    # Two objects in one scene and one in another: the mean over objects is 1/3, over scenes 1/4.
    records = [record("M18", 0.5, "a", object="cup"), record("M18", 0.5, "a", object="lamp"),
               record("M18", 0.0, "b", object="chair", reason="zero recall")]
    m = summarise(records, spatial, NORM).system("s").metric("M18")
    assert m.mean == pytest.approx(1 / 3, abs=1e-16)
    assert (m.n_measured, m.n_total) == (3, 3)


STATUSES = [s for s in Status if s is not Status.MEASURED]


@pytest.mark.parametrize("status", STATUSES)
def test_only_measured_enters_and_every_status_is_counted(spatial, record, status):
    base = [record("M08", 0.2, "a"), record("M08", 0.0, "b", reason="navmesh_build_failed")]
    more = record("M08", None, "c", status=status.value, reason="because")
    before = summarise(base, spatial, NORM).system("s")
    after = summarise([*base, more], spatial, NORM).system("s")
    m = after.metric("M08")
    assert m.mean == before.metric("M08").mean == 0.1  # the zero by rule stays
    assert after.group("W2").score == before.group("W2").score
    assert (m.n_measured, m.n_total) == (2, 3)
    assert m.n_applicable == (2 if status is Status.INAPPLICABLE else 3)
    assert m.statuses == {s.value: {Status.MEASURED: 2, status: 1}.get(s, 0) for s in Status}
    assert [(r.status, r.reason, r.count) for r in m.reasons] == [
        (Status.MEASURED, "navmesh_build_failed", 1), (status, "because", 1)]
    assert m.coverage == ("2 of 2" if status is Status.INAPPLICABLE else "2 of 3")
    assert after.group("W2").note == ("1 of 2 metrics" if status is Status.INAPPLICABLE
                                      else "1 of 2 metrics; M08 on 2 of 3")


def test_reasons_are_counted_and_flags_too(spatial, record):
    records = [record("M05", None, f"c{k}", reason="no model" if k < 3 else "out of memory") for k in range(5)]
    records += [record("M08", 0.5, f"c{k}", flags=("facing_disagrees",) * (k % 2)) for k in range(5)]
    s = summarise(records, spatial, NORM).system("s")
    assert [(r.reason, r.count) for r in s.metric("M05").reasons] == [("no model", 3), ("out of memory", 2)]
    assert s.metric("M05").shown_score == s.metric("M05").shown_raw == DASH
    assert s.metric("M08").flags == {"facing_disagrees": 2}
    gap = {g.metric: g.why for g in s.group("W1").missing}["M05"]
    assert gap == "unavailable (3): no model; unavailable (2): out of memory"


def test_omitted_metrics_are_summarised_but_do_not_score(spatial, record, spec):
    specs = {**spatial, "M08c": spec("M08c", "W2", retained=False)}
    s = summarise([record("M08", 0.5), record("M08c", 0.9), record("M38", 0.5)], specs, NORM).system("s")
    assert s.group("W2").score == 50.0
    assert s.metric("M08c").normalised is None  # no rule in the table, and none needed
    assert s.metric("M38").normalised == 0.5
    assert s.group("W3").score is None


def test_a_retained_metric_needs_a_rule(spatial, record, spec):
    specs = {**spatial, "M40": spec("M40", "W2")}
    with pytest.raises(UsageError, match="no rule for metric 'M40'"):
        summarise([record("M40", 0.5)], specs, NORM)
    # Without a value there is nothing to normalise.
    assert summarise([record("M40", None)], specs, NORM).system("s").metric("M40").normalised is None


def test_duplicates_are_refused(spatial, record):
    a = record("M18", 0.5, "a", object="cup")
    with pytest.raises(ResultError, match=r"twice") as e:
        summarise([a, record("M18", 0.4, "a", object="cup")], spatial, NORM)
    assert "M18" in e.value.where
    assert "cup" in e.value.where
    with pytest.raises(ResultError, match="twice"):
        summarise([a, record("M18", None, "a", object="cup")], spatial, NORM)
    others = [record("M18", 0.5, "a", object="lamp"), record("M18", 0.5, "b", object="cup"), record("M18", 0.5, "a"),
              record("M18", 0.5, "a", "other", object="cup"), record("M20", 0.5, "a", object="cup")]
    assert len(summarise([a, *others], spatial, NORM).systems) == 2


@pytest.mark.parametrize("system", ["s", "other"])
def test_versions_are_never_averaged(spatial, record, system):
    with pytest.raises(ResultError, match="versions 1 and 2 of metric M08"):
        summarise([record("M08", 0.5, "a", version=2), record("M08", 0.5, "b", system)], spatial, NORM)


def test_a_metric_that_nobody_declares(spatial, record):
    with pytest.raises(ResultError, match="no metric 'X1'"):
        summarise([record("X1", 0.5)], spatial, NORM)


def test_a_preview_is_of_one_case(spatial, record):
    with pytest.raises(UsageError, match="of one case, got 2"):
        summarise([record("M08", 0.5, "a"), record("M08", 0.5, "b")], spatial, NORM, preview=True)


def test_systems_in_order_and_apart(spatial, record):
    s = summarise([record("M08", 0.25, "a", "zeta"), record("M08", 0.75, "a", "alpha")], spatial, NORM)
    assert [x.system for x in s.systems] == ["alpha", "zeta"]
    assert [x.group("W2").score for x in s.systems] == [75.0, 25.0]
    with pytest.raises(UsageError, match="Known: alpha, zeta"):
        s.system("beta")
    with pytest.raises(UsageError, match="no level 'W9'"):
        s.systems[0].group("W9")


def test_cases_without_any_record_count_when_they_were_asked_for(spatial, record):
    records = [record("M08", 0.5, "a"), record("M08", 0.7, "b")]
    m = summarise(records, spatial, NORM, cases=["a", "b", "c", "d"]).system("s").metric("M08")
    assert (m.mean, m.coverage) == (0.6, "2 of 4")
    assert m.statuses["untested"] == 2


def test_levels_and_weights_are_data(record, spec, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("id: mine\nversion: 1\nsource: here\nrules:\n" +
                    "".join(f"  {m}: {{rule: affine, lower: 0, upper: 10}}\n" for m in "abc"))
    specs = {m: spec(m, "L", track="mine") for m in "abc"}
    level = Level("mine", "L", (Dimension("p", ("a", "b"), 1), Dimension("q", ("c",), 3)))
    s = summarise([record("a", 2.0), record("b", 4.0), record("c", 10.0)], specs, str(path), levels=[level])
    assert s.normalization == "mine"
    assert s.system("s").group("L").score == pytest.approx(100 * (0.3 + 3 * 1.0) / 4)


def test_tables_keep_their_counts(spatial, record):
    s = summarise([record("M08", 0.25, "a", "x"), record("M08", None, "b", "x"), record("M25", 1.0, "a", "x"),
                   record("M08", 0.5, "a", "y"), record("M08", 0.5, "b", "y")], spatial, NORM)
    t = level_table(s)
    assert t.columns == ("system", "W1", "W2", "W3", "W4", "W5")
    assert t.rows == (("x", DASH, "62.50", DASH, DASH, DASH), ("y", DASH, "50.00", DASH, DASH, DASH))
    assert t.notes[0][2] == "2 of 2 metrics; M08 on 1 of 2"
    m = metric_table(s, "W2")
    assert m.columns == ("system", "M08", "M25")
    assert m.rows == (("x", "25.00 (1 of 2)", "100.00 (1 of 1)"), ("y", "50.00 (2 of 2)", DASH))
    assert m.notes[1] == ("", "2 of 2", "no record")


def test_nothing_at_all(spatial):
    s = summarise([], spatial, NORM)
    assert (s.n_cases, s.systems) == (0, ())
    assert level_table(s).rows == ()


TABLE = load_normalization(NORM)
SPECS = {id: MetricSpec(id=id, name=id, title=id, track="t", level=level, group="g", retained=True, scored_on="scene",
                        range="", higher_is_better=True)
         for id, level in (("M08", "W2"), ("M25", "W2"), ("M32", "W4"), ("M29", "W5"), ("M05", "W1"))}


@st.composite
def many(draw):
    keys = draw(st.lists(st.tuples(st.sampled_from(sorted(SPECS)), st.sampled_from(["s1", "s2", "s3"]),
                                   st.sampled_from("abcde"), st.sampled_from([None, "o1", "o2"])),
                         unique=True, max_size=40))
    out = []
    for metric, system, case, object in keys:
        value = draw(st.one_of(st.none(), st.floats(-50, 120)))
        status = Status.MEASURED if value is not None else draw(st.sampled_from(STATUSES))
        reason = draw(st.sampled_from(["x", "y"])) if value is None else ""
        out.append(Measurement(metric=metric, version=1, case=case, system=system, object=object, value=value,
                               status=status, reason=reason))
    return out


@settings(max_examples=60, deadline=None)
@given(many(), st.randoms(), st.integers(0, 40))
def test_order_and_splitting_never_change_a_byte(records, rng, cut):
    text = summary_json(summarise(records, SPECS, TABLE))
    shuffled = list(records)
    rng.shuffle(shuffled)
    assert summary_json(summarise(shuffled, SPECS, TABLE)) == text
    # As lines of two files, written and read again, merged the other way round.
    lines = [m.model_dump_json() for m in shuffled]
    merged = [Measurement.model_validate_json(x) for x in (*lines[cut:], *lines[:cut])]
    assert summary_json(summarise(iter(merged), SPECS, TABLE)) == text
    json.loads(text, parse_constant=pytest.fail)


@settings(max_examples=40, deadline=None)
@given(many(), st.sampled_from(STATUSES))
def test_what_is_not_measured_moves_no_score(records, status):
    before = summarise(records, SPECS, TABLE)
    more = [Measurement(metric="M08", version=1, case="new", system=s.system, status=status, reason="r")
            for s in before.systems]
    after = summarise([*records, *more], SPECS, TABLE)
    for a, b in zip(before.systems, after.systems, strict=True):
        assert [g.score for g in a.groups] == [g.score for g in b.groups]
        old, new = a.metric("M08"), b.metric("M08")
        assert new.n_total == (old.n_total if old else 0) + 1
        assert new.mean == (old.mean if old else None)


@settings(max_examples=40, deadline=None)
@given(many())
def test_one_system_does_not_depend_on_the_others(records):
    whole = summarise(records, SPECS, TABLE)
    for s in whole.systems:
        alone = summarise([m for m in records if m.system == s.system], SPECS, TABLE)
        assert alone.systems == (s,)


@pytest.fixture
def reported(data_dir):
    """Ten cases and three systems; four, ten and ten of them measured (case B49)."""
    folder = data_dir / "reports" / "aggregation"
    records = []
    for line in (folder / "denominator_units.jsonl").read_text().splitlines():
        unit = json.loads(line)
        unit.pop("seconds")
        unit["reason"] = unit["reason"] or ""
        records.append(Measurement.model_validate(unit))
    return records, json.loads((folder / "denominator_expected.json").read_text())


def test_a_system_that_fails_often_shows_it(reported, spatial):
    records, want = reported
    s = summarise(records, spatial, NORM)
    for name in ("steady", "flaky", "honest"):
        m = s.system(name).metric("M31")
        assert m.mean == pytest.approx(want[name]["mean"], abs=1e-9)
        assert (m.n_measured, m.n_total) == (want[name]["n"], want[name]["of"])
        assert m.coverage == f"{want[name]['n']} of {want[name]['of']}"
    assert s.system("flaky").metric("M31").shown_score == "85.00 (4 of 10)"
    # Wherever its score is printed, the count stands beside it.
    assert s.system("flaky").group("W4").note == "1 of 7 metrics; M31 on 4 of 10"
    table, column = level_table(s), 4
    by_name = {r[0]: (r[column], n[column]) for r, n in zip(table.rows, table.notes, strict=True)}
    assert by_name["flaky"] == ("85.00", "1 of 7 metrics; M31 on 4 of 10")
    assert by_name["steady"] == ("70.00", "1 of 7 metrics")
    cells = metric_table(s, "W4").rows
    assert [c[1] for c in cells if c[0] == "flaky"] == ["85.00 (4 of 10)"]


def test_systems_are_compared_on_common_cases(reported):
    records, want = reported
    for a in ("flaky", "honest"):
        d = paired_difference(records, "M31", a, "steady")
        expected = want["paired"][f"{a}_minus_steady"]
        assert d.mean == pytest.approx(expected["difference"], abs=1e-9)
        assert (d.n, d.n_union) == (expected["cases"], 10)


def test_pairs(record):
    records = [record("M08", 0.5, "a", "x"), record("M08", 0.75, "a", "y"), record("M08", 0.5, "b", "x"),
               record("M08", None, "b", "y"), record("M08", 1.0, "c", "y")]
    d = paired_difference(records, "M08", "y", "x")
    assert (d.n, d.n_union, d.mean, d.std) == (1, 3, 0.25, 0.0)
    none = paired_difference(records, "M08", "y", "nobody")
    assert (none.n, none.mean, none.std) == (0, None, None)
    with pytest.raises(ResultError, match="twice"):
        paired_difference([*records, records[0]], "M08", "y", "x")
    with pytest.raises(ResultError, match="versions"):
        paired_difference([*records, record("M08", 1.0, "d", "y", version=2)], "M08", "y", "x")
