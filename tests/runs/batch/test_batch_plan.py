"""Keys, unit files, the plan and the lock, without workers."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.errors import ResultError, UsageError
from spatialbench.observe.registry import Registry, metric, observation
from spatialbench.runs.batch.job import UnitJob, check_unique, safe_name
from spatialbench.runs.batch.keys import hash_inputs, recipes
from spatialbench.runs.batch.lock import hold
from spatialbench.runs.batch.plan import Only, parse_only, parse_shard, select
from spatialbench.runs.batch.unitfile import clear_unit, read_unit, unit_content, verify_files, write_unit
from spatialbench.types import Measurement, Status, load_protocol

DECLARED = {"name": "x", "title": "x", "track": "t", "level": "W1", "group": "g", "retained": True,
            "scored_on": "scene", "range": "[0,1]", "higher_is_better": True}


def registry(version: int = 1, seen: int = 1) -> Registry:
    r = Registry()
    observation("t.seen", label="", version=seen, reads=("views.lens",), registry=r)(lambda obs: None)
    metric(registry=r, id="A", version=version, reads=("path",), **DECLARED)(lambda obs: None)
    metric(registry=r, id="B", observations=("t.seen",), reads=("usability",), **DECLARED)(lambda obs: None)
    metric(registry=r, id="C", **DECLARED)(lambda obs: None)
    return r


@pytest.mark.parametrize(("setting", "touched"), [
    ("path.speed=2", "A"), ("views.lens={width: 9, height: 9, fov_deg: 75}", "B"), ("usability.clearance=0.2", "B"),
    ("views.probe_size=32", ""), ("version=7", ""), ("metrics=[M01]", "")])
def test_a_recipe_changes_with_what_is_declared_and_nothing_else(setting: str, touched: str) -> None:
    name = "happyworld-spatial-1"
    before = recipes(load_protocol(name), "ABC", registry())
    after = recipes(load_protocol(name, (setting,)), "ABC", registry())
    assert {id for id in "ABC" if before[id] != after[id]} == set(touched)


def test_a_recipe_changes_with_its_versions() -> None:
    p = load_protocol("happyworld-spatial-1")
    base = recipes(p, "ABC", registry())
    assert {id for id in "ABC" if recipes(p, "ABC", registry(version=2))[id] != base[id]} == {"A"}
    assert {id for id in "ABC" if recipes(p, "ABC", registry(seen=2))[id] != base[id]} == {"B"}
    assert len(set(base.values())) == 3


def test_all_that_is_declared_to_be_read_is_in_the_protocol() -> None:
    from spatialbench.runs.single import prepare

    prepare()
    p = load_protocol("happyworld-spatial-1")
    assert set(recipes(p, p.metrics)) == set(p.metrics)


def test_inputs_are_what_was_read_and_a_side_car_that_comes(tmp_path: Path) -> None:
    (tmp_path / "w.obj").write_text("v 0 0 0")
    (tmp_path / "w.mtl").write_text("newmtl a")
    roles, also = {"main": str(tmp_path / "w.obj")}, {"main": ["w.obj", "w.mtl", "../secret", "/etc/passwd"]}
    first = hash_inputs(roles, "", also)
    assert [f["name"] for f in first] == ["w.mtl", "w.obj"]
    (tmp_path / "w.stage_config.json").write_text("{}")
    assert [f["name"] for f in hash_inputs(roles, "", also)] == ["w.mtl", "w.obj", "w.stage_config.json"]
    (tmp_path / "w.mtl").write_text("newmtl b")
    assert hash_inputs(roles, "", also)[0]["sha256"] != first[0]["sha256"]


def _unit(folder: Path) -> None:
    rows = [Measurement(metric="A", version=1, case="c", system="s", value=0.1, status=Status.MEASURED,
                        components={"x": 1}, counts={"n": 2}, flags=("f",), geometry="mesh"),
            Measurement(metric="B", version=1, case="c", system="s", status=Status.INVALID, reason="\ud800 so")]
    (folder / "units.jsonl").write_text("rows")
    import hashlib

    write_unit(folder, unit_content(
        system="s", case="c", status="done", outcome="done", inputs=[], inputs_sha256="0", recipes={"A": "1", "B": "2"},
        normalization="n", files={"units.jsonl": hashlib.sha256(b"rows").hexdigest()}, measurements=rows))


def test_a_unit_file_is_read_as_written_without_components(tmp_path: Path) -> None:
    _unit(tmp_path)
    unit = read_unit(tmp_path)
    assert unit is not None
    verify_files(tmp_path, unit)
    a, b = unit.measurements
    assert (a.value, a.components, a.counts, a.flags, a.geometry) == (0.1, {}, {"n": 2}, ("f",), "mesh")
    assert (b.status, b.value, b.reason) == (Status.INVALID, None, "? so")
    assert json.loads((tmp_path / "unit.json").read_text())["schema"] == 1
    assert read_unit(tmp_path / "nowhere") is None


@given(st.data())
def test_no_byte_of_a_unit_file_can_be_changed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("u")
    _unit(folder)
    good = (folder / "unit.json").read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    how = data.draw(st.sampled_from(["cut", "flip", "drop", "insert"]))
    bad = {"cut": good[:at], "flip": good[:at] + bytes([good[at] ^ 1]) + good[at + 1:],
           "drop": good[:at] + good[at + 1:], "insert": good[:at] + b" " + good[at:]}[how]
    (folder / "unit.json").write_bytes(bad)
    with pytest.raises(ResultError):
        read_unit(folder)


def test_a_rehashed_file_with_wrong_types_is_refused_too(tmp_path: Path) -> None:
    import hashlib

    _unit(tmp_path)
    text = (tmp_path / "unit.json").read_text()
    body = text.rpartition(',"sha256"')[0].replace('"value":0.1', '"value":"0.1"')
    (tmp_path / "unit.json").write_text(f'{body},"sha256":"{hashlib.sha256(body.encode()).hexdigest()}"}}\n')
    with pytest.raises(ResultError, match="measurements"):
        read_unit(tmp_path)


def test_the_mark_goes_first_and_leftovers_with_it(tmp_path: Path) -> None:
    _unit(tmp_path)
    for name in (".units.jsonl.12.tmp", "run.json", "notes.txt"):
        (tmp_path / name).write_text("x")
    clear_unit(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


@given(st.lists(st.text(min_size=1, max_size=200), unique=True, max_size=20))
def test_names_of_folders_are_safe_and_never_meet(names: list[str]) -> None:
    safe = [safe_name(n) for n in names]
    assert len(set(safe)) == len(names)
    for s in safe:
        assert s not in ("", ".", "..") and len(s) <= 128
        assert all(c.isascii() and (c.isalnum() or c in "._-~") for c in s)


def test_units_that_differ_in_letter_case_alone_are_refused() -> None:
    with pytest.raises(UsageError, match="share"):
        check_unique((UnitJob("s", "Room", {}, ()), UnitJob("s", "room", {}, ())))


def test_only_and_shards() -> None:
    jobs = tuple(UnitJob(s, f"{room}{i}", {}, ("M07", "M08")) for s in "ab" for room in ("hall", "kitchen")
                 for i in range(3))
    only = parse_only(["metric=M08", "case=kitchen*", "case=hall0", "system=a"])
    assert only == Only(("M08",), ("kitchen*", "hall0"), ("a",))
    assert [(j.unit, j.metrics) for j in select(jobs, only, None)] == [
        (u, ("M08",)) for u in ("a/hall0", "a/kitchen0", "a/kitchen1", "a/kitchen2")]
    for n in (1, 2, 5, 30):
        parts = [select(jobs, Only(), (i, n)) for i in range(n)]
        assert sorted(j.unit for part in parts for j in part) == sorted(j.unit for j in jobs)
    with pytest.raises(UsageError):
        select(jobs, Only(metrics=("M99",)), (0, 2))
    for bad in ("", "1", "2/2", "-1/2", "0/0", "a/b"):
        with pytest.raises(UsageError):
            parse_shard(bad)
    for text in ("M08", "metric=", "case"):
        with pytest.raises(UsageError):
            parse_only([text])


_HOLD = """
import sys
from pathlib import Path
from spatialbench.runs.batch.lock import hold
shard = tuple(map(int, sys.argv[2].split("/"))) if sys.argv[2] else None
plan = Path(sys.argv[1], "plan")
try:
    with hold(Path(sys.argv[1]), shard, plan_is=lambda: plan.exists() and plan.read_text() == sys.argv[3],
              write_plan=lambda: plan.write_text(sys.argv[3])):
        print("in", flush=True)
        sys.stdin.readline()
except Exception as error:
    print(error, flush=True)
"""


@pytest.mark.slow
def test_who_may_work_in_a_folder_together(tmp_path: Path) -> None:
    held = []

    def take(shard: str, plan: str = "p") -> str:
        p = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path), shard, plan], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        assert p.stdout
        said = p.stdout.readline().strip()
        held.append(p)
        return said

    def leave() -> None:
        for p in held:
            p.kill()  # as a crash would
            p.communicate()
        held.clear()

    assert take("") == "in"
    pid = held[0].pid
    assert f"another batch is working in this folder (process {pid})" in take("")
    assert "another batch" in take("0/2")
    leave()
    assert take("0/2") == "in"
    assert take("1/2") == "in"
    assert f"shard 0/2 of this batch is working in this folder (process {held[0].pid})" in take("0/2")
    assert "another batch" in take("")
    assert "other options" in take("2/3", "another plan")
    assert (tmp_path / "plan").read_text() == "p"
    leave()
    assert take("2/3", "another plan") == "in"
    assert (tmp_path / "plan").read_text() == "another plan"
    leave()


def test_no_locks_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    written: list[int] = []
    with hold(tmp_path, None, plan_is=lambda: False, write_plan=lambda: written.append(1)) as warning:
        assert "knows no locks" in warning
    assert written == [1]


def test_a_job_is_told_apart_by_its_case() -> None:
    job = UnitJob("s", "c", {}, (), {"id": "c", "kind": "edit"})
    assert (job.kind, replace(job, case=None).kind) == ("edit", "snapshot")
