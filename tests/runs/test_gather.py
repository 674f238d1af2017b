"""Results of folders: of one kind, complete or said to be not, and each once."""

from __future__ import annotations

import gc
import json
import shutil
from pathlib import Path

import pytest

from spatialbench.errors import MissingInputError, ResultError, UsageError
from spatialbench.runs.collector import quiet_collector
from spatialbench.runs.gather import Pick, gather, systems_of
from spatialbench.types import Status
from tests.runs.fake_results import field, record, write_batch, write_run, write_unit

CASES = ("a", "b", "c")
METRICS = ("M07", "M08")


def rows(system: str, case: str, *values: object, metrics: tuple[str, ...] = METRICS, **more: object) -> list[dict]:
    return [record(m, system, case, v, **more) for m, v in zip(metrics, values, strict=False)]


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """Two systems, three cases, two metrics; every value is its own."""
    out = write_batch(tmp_path / "batch", [(s, c) for s in ("x", "y") for c in CASES])
    for i, s in enumerate(("x", "y")):
        for j, c in enumerate(CASES):
            write_unit(out, s, c, rows(s, c, 0.1 * i + 0.01 * j, 0.5 + 0.1 * i + 0.01 * j))
    return out


def unit_file(out: Path, system: str, case: str) -> Path:
    return out / "units" / system / case / "unit.json"


def test_a_batch_as_it_is(batch: Path) -> None:
    g = gather([batch])
    assert g.systems == ("x", "y")
    assert g.cases == CASES
    assert g.metrics == METRICS
    assert g.counts == {"done": 6}
    assert not g.warnings
    assert not g.marks
    assert [(m.system, m.case, m.metric) for m in g.measurements] == [
        (s, c, m) for s in ("x", "y") for c in CASES for m in METRICS]
    assert next(m for m in g.measurements if (m.system, m.case, m.metric) == ("y", "c", "M08")).value == 0.62
    assert systems_of(batch) == ("x", "y")


def test_runs_stand_beside_a_batch_in_any_order(batch: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "z", "a", rows("z", "a", 0.3, 0.4))
    one, two = gather([batch, run]), gather([run, batch])
    assert one.systems == ("x", "y", "z")
    assert one.measurements == two.measurements
    assert [(u.system, u.case) for u in one.units] == [(u.system, u.case) for u in two.units]


def test_other_protocols_are_refused_with_hashes_folders_and_keys(batch: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", "z", "a", rows("z", "a", 0.3), settings=("views.ring_frames=18",))
    with pytest.raises(ResultError) as caught:
        gather([batch, other])
    text = str(caught.value)
    hashes = [json.loads((p).read_text())["protocol_hash"][:12] for p in (batch / "batch.json", other / "run.json")]
    for part in (*hashes, str(batch), str(other), "views.ring_frames (36, 18)", "protocols diff"):
        assert part in text


def test_overrides_and_fast_profiles_are_marked(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", "z", "a", rows("z", "a", 0.3), protocol="happyworld-spatial-1-fast",
                    settings=("views.ring_frames=9",))
    marks = gather([run]).marks
    assert len(marks) == 2
    assert "fast profile" in marks[0]
    assert "views.ring_frames=9" in marks[1]


def test_versions_of_a_metric_are_not_mixed(batch: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "z", "a", [{**record("M08", "z", "a", 0.3), "version": 2}])
    with pytest.raises(ResultError, match=r"metric M08 is of version 1 in .* and of version 2 in .*run"):
        gather([batch, run])


def test_the_same_measurement_in_two_folders_is_refused_with_both(batch: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "x", "a", rows("x", "a", 0.3))
    with pytest.raises(ResultError, match="measured in both") as caught:
        gather([batch, run])
    assert str(batch / "units" / "x" / "a") in str(caught.value)
    assert str(run) in str(caught.value)
    with pytest.raises(ResultError, match="measured in both"):
        gather([batch, batch])


def test_one_unit_with_other_metrics_elsewhere_is_whole(batch: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "x", "a", rows("x", "a", 0.3, metrics=("M12",)))
    found = [m.metric for m in gather([batch, run]).measurements if (m.system, m.case) == ("x", "a")]
    assert sorted(found) == ["M07", "M08", "M12"]


def test_a_measurement_twice_in_a_unit_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "x", "a", [*rows("x", "a", 0.3), *rows("x", "a", 0.4)])
    with pytest.raises(ResultError, match="holds a measurement twice"):
        gather([run])


def test_what_is_not_there_is_untested_and_named(batch: Path) -> None:
    unit_file(batch, "x", "a").unlink()
    path = unit_file(batch, "x", "b")
    path.write_text(path.read_text().replace("0.01", "0.99"))
    (batch / "units" / "y" / "a" / "units.jsonl").write_text("edited")
    g = gather([batch])
    assert g.counts == {"damaged": 2, "done": 3, "unfinished": 1}
    # Nothing is dropped: every planned unit still has a record of every metric.
    assert len(g.measurements) == 6 * 2
    lost = [m for m in g.measurements if m.status is Status.UNTESTED]
    assert {(m.system, m.case) for m in lost} == {("x", "a"), ("x", "b"), ("y", "a")}
    assert {m.reason for m in lost} == {"the unit was not run yet", "the files of the unit are damaged"}
    assert [w.split(":")[0] for w in g.warnings] == ["1 unit of 6 not run yet", "2 units of 6 damaged, and left out"]
    assert "x/a" in g.warnings[0]
    assert gather([batch], verify=False).counts == {"damaged": 1, "done": 4, "unfinished": 1}


def test_out_of_date_measurements_are_left_out_and_said(tmp_path: Path) -> None:
    out = write_batch(tmp_path / "b", [("x", c) for c in CASES], recipes={"M07": "new", "M08": "r"})
    for c in CASES:
        old = {"M07": "old" if c == "a" else "new", "M08": "r"}
        write_unit(out, "x", c, rows("x", c, 0.3, 0.4), recipes=old)
    g = gather([out])
    assert g.stale == {("x", "a"): ("M07",)}
    m = next(m for m in g.measurements if (m.case, m.metric) == ("a", "M07"))
    assert m.status is Status.UNTESTED
    assert "other settings" in m.reason
    assert "x/a (M07)" in g.warnings[0]


def test_failed_units_keep_their_records(tmp_path: Path) -> None:
    out = write_batch(tmp_path / "b", [("x", "a"), ("x", "b")])
    write_unit(out, "x", "a", rows("x", "a", 0.3))
    write_unit(out, "x", "b", rows("x", "b", ("invalid", "the world cannot be read")), status="failed", reason="broken")
    g = gather([out])
    assert g.counts == {"done": 1, "failed": 1}
    assert not g.lacking
    assert g.warnings == ("1 unit of 2 failed, and counted without values: x/b",)


def test_shards_in_two_folders_are_one_result(tmp_path: Path) -> None:
    units = [("x", c) for c in CASES]
    one, two = write_batch(tmp_path / "one", units), write_batch(tmp_path / "two", units)
    write_unit(one, "x", "a", rows("x", "a", 0.1, 0.2))
    write_unit(two, "x", "b", rows("x", "b", 0.3, 0.4))
    g = gather([one, two])
    assert g.counts == {"done": 2, "unfinished": 1}
    assert [(m.case, m.value) for m in g.measurements] == [("a", 0.1), ("a", 0.2), ("b", 0.3), ("b", 0.4),
                                                           ("c", None), ("c", None)]


def test_systems_are_picked_and_renamed(batch: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(batch, tmp_path / "other"))
    g = gather([Pick(batch, {"x": "old x"}), Pick(other, {"x": "new x"})])
    assert g.systems == ("new x", "old x")
    assert len(g.measurements) == 2 * 3 * 2
    assert {m.system for m in g.measurements} == {"new x", "old x"}
    with pytest.raises(UsageError, match=r"no system 'q'.*It has: x, y"):
        gather([Pick(batch, {"q": "z"})])


def test_a_stranger_in_a_run_makes_it_damaged(batch: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "z", "a", rows("other", "a", 0.3))
    g = gather([batch, run])
    assert next(u for u in g.units if u.system == "z").status == "damaged"
    assert {m.value for m in g.measurements if m.system == "z"} == {None}
    (run / "units.jsonl").write_bytes(b"\xff\xfe\n")
    assert "cannot be read" in next(u.reason for u in gather([batch, run]).units if u.system == "z")


def test_what_is_no_folder_of_results(batch: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        gather([])
    with pytest.raises(MissingInputError, match="is not a folder"):
        gather([tmp_path / "nothing"])
    with pytest.raises(MissingInputError, match=r"neither 'batch.json' nor 'run.json'.*/\* for batch"):
        gather([tmp_path])
    run = write_run(tmp_path / "run", "z", "a", rows("z", "a", 0.3))
    (run / "run.json").write_text("[1]")
    with pytest.raises(ResultError, match="is not the record of a run"):
        gather([run])
    (run / "run.json").write_text("[" * 100_000)
    with pytest.raises(ResultError, match="is not the record of a run"):
        gather([run])
    (run / "run.json").unlink()
    with pytest.raises(ResultError, match="stopped while it wrote"):
        gather([run])
    empty = write_batch(tmp_path / "empty", [("x", "a")])
    with pytest.raises(ResultError, match="no unit is finished"):
        gather([empty])


@pytest.mark.parametrize("name", ["batch.json", "run.json"])
def test_a_protocol_that_was_edited_is_refused(tmp_path: Path, name: str) -> None:
    out = tmp_path / "r"
    if name == "run.json":
        write_run(out, "z", "a", rows("z", "a", 0.3))
    else:
        field(out, ["z"], ["a"])
    data = json.loads((out / name).read_text())
    data["protocol"]["views"]["ring_frames"] = 17
    (out / name).write_text(json.dumps(data))
    with pytest.raises(ResultError, match="does not have the hash it names"):
        gather([out])


def test_the_collector_is_as_it_was() -> None:
    assert gc.isenabled()
    with quiet_collector():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(UsageError), quiet_collector():
        gather([])
    assert gc.isenabled()
    gc.disable()
    try:
        with quiet_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
