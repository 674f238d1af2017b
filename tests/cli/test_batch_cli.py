"""``spatialbench batch`` as a user types it: real workers, killed and continued."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from spatialbench.runs.batch import read_finished
from spatialbench.runs.store import read_units
from spatialbench.types import Status
from tests.command import spatialbench
from tests.runs.batch.batch_worlds import (
    METRICS,
    attempts,
    batch,
    batch_process,
    exact_files,
    make_world,
    make_worlds,
    quick_protocol_file,
    start,
)

N = 6


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Worlds, protocol, and ``whole``: an undisturbed batch with one worker, with pages."""
    place = tmp_path_factory.mktemp("batch")
    make_worlds(place / "worlds", N)
    quick_protocol_file(place)
    done = batch_process(*common(place), "-o", place / "whole", "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert f"{N} done, 0 failed, 0 kept from before" in done.stdout
    assert f"spatialbench summarize {place / 'whole'}" in done.stdout
    return place


def common(place: Path) -> list[object]:
    return ["--worlds", place / "worlds", "--protocol", place / "quick.yaml"]


def copy_of(place: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(place / "whole", tmp_path / "out"))


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def finished(out: Path) -> int:
    return len(list(out.glob("units/*/*/unit.json")))


def test_a_unit_is_what_run_gives(place: Path, tmp_path: Path) -> None:
    done = spatialbench("run", place / "worlds" / "room2.glb", "-o", tmp_path / "one", "--protocol",
                        place / "quick.yaml", "-q")
    assert done.returncode == 0
    unit = place / "whole" / "units" / "local" / "room2"
    for name in ("units.jsonl", "import.json", "summary.json"):
        assert (unit / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    assert {p.name for p in unit.iterdir()} == {*(p.name for p in (tmp_path / "one").iterdir()), "unit.json"}
    record = next(r for r in read_finished(place / "whole") if r.case == "room2")
    assert record.measurements == tuple(m.model_copy(update={"components": {}})
                                        for m in read_units(tmp_path / "one" / "units.jsonl"))
    assert str(place) not in "".join(p.read_text() for p in unit.iterdir() if p.name != "report.html")


@pytest.mark.slow
def test_two_workers_and_a_killed_coordinator_give_the_same_bytes(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = (*common(place), "-o", out, "--workers", 2, "--no-pages")
    first = start(*arguments)
    wait_for(lambda: finished(out) >= 2, first)
    workers = psutil.Process(first.pid).children(recursive=True)
    assert len(workers) == 2
    everyone = [psutil.Process(first.pid), *workers]
    for p in everyone:
        p.suspend()  # or the batch would be over before another one has started
    other = batch(*arguments)
    assert other.returncode == 2
    assert f"another batch is working in this folder (process {first.pid})" in other.stderr
    for p in workers:
        p.resume()
    first.send_signal(signal.SIGKILL)
    first.communicate()
    psutil.wait_procs(workers, timeout=3)
    assert not [w for w in workers if w.is_running() and w.status() != psutil.STATUS_ZOMBIE], "orphans"
    there = finished(out)
    assert 2 <= there < N
    done = batch(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert (said["done"], said["kept"], said["left"]) == (N - there, there, 0)
    assert exact_files(out) == exact_files(place / "whole")


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_the_same_command_continues(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = start(*common(place), "-o", out, "--workers", 1, "--no-pages")
    wait_for(lambda: finished(out) >= 1, first)
    workers = psutil.Process(first.pid).children(recursive=True)
    first.send_signal(signal.SIGINT)
    _, stderr = first.communicate(timeout=30)
    assert first.returncode == 130
    assert "the same command continues" in stderr and "Traceback" not in stderr
    assert not [w for w in workers if w.is_running() and w.status() != psutil.STATUS_ZOMBIE]
    done = batch(*common(place), "-o", out, "--workers", 1, "--no-pages", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert exact_files(out) == exact_files(place / "whole")


@pytest.mark.slow
def test_shards_together_are_the_whole(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shards = [start(*common(place), "-o", out, "--workers", 1, "--no-pages", "--shard", f"{i}/2") for i in (0, 1)]
    for shard in shards:
        stdout, stderr = shard.communicate(timeout=200)
        assert shard.returncode == 0, stderr
        assert f"{N // 2} done" in stdout
    assert exact_files(out) == exact_files(place / "whole")


@pytest.mark.slow
def test_a_changed_protocol_measures_what_it_touches_and_nothing_else(place: Path, tmp_path: Path) -> None:
    out = copy_of(place, tmp_path)
    before = attempts(out)
    changed = (*common(place), "--set", "consistency.gain=10", "--only", "case=room[01]")
    plan = batch(*changed, "-o", out, "--dry-run")
    assert plan.stdout.splitlines() == ["local/room0: run in part: changed: M13, M14",
                                        "local/room1: run in part: changed: M13, M14",
                                        "2 units: 2 to run, 0 without anything to run, 0 finished"]
    assert batch(*changed, "-o", out, "--workers", 1).returncode == 0
    assert [(a["unit"], a["metrics"]) for a in attempts(out)[len(before):]] == [
        ("local/room0", ["M13", "M14"]), ("local/room1", ["M13", "M14"])]
    page = (out / "units" / "local" / "room0" / "report.html").read_text()
    assert "Kept from an earlier run, and without pictures here: M01, M07, M12" in page
    fresh = tmp_path / "fresh"
    assert batch(*changed, "-o", fresh, "--workers", 1, "--no-pages").returncode == 0
    assert exact_files(fresh).items() <= exact_files(out).items(), "as if measured by that protocol from the start"
    records = {r.case: r for r in read_finished(out)}
    assert records["room0"].stale == () and len(records["room0"].measurements) == len(METRICS)
    assert records["room5"].stale == ("M13", "M14"), "results of two protocols are never put together"
    assert [m.metric for m in records["room5"].measurements] == ["M01", "M07", "M12"]


@pytest.mark.slow
def test_metrics_asked_for_later_are_added(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    one = (*common(place), "-o", out, "--workers", 1, "--no-pages", "--only", "case=room3")
    assert batch(*one, "--only", "metric=M07").returncode == 0
    assert [m.metric for m in read_units(out / "units/local/room3/units.jsonl")] == ["M07"]
    assert batch(*one).returncode == 0
    assert [a["metrics"] for a in attempts(out)] == [["M07"], ["M01", "M12", "M13", "M14"]]
    assert exact_files(out).items() <= exact_files(place / "whole").items(), "and everything else stays"
    assert "run in part: forced: M13, M14" in batch(*one, "--force", "--only", "metric=M1[34]", "--dry-run").stdout


@pytest.mark.slow
def test_damaged_files_are_found_said_and_made_again(place: Path, tmp_path: Path) -> None:
    out = copy_of(place, tmp_path)
    units = out / "units" / "local"
    edited = (units / "room0" / "unit.json").read_text()
    (units / "room0" / "unit.json").write_text(edited.replace('"status":"measured"', '"status":"measured" ', 1))
    (units / "room1" / "unit.json").write_bytes((units / "room1" / "unit.json").read_bytes()[:-40])
    rows = (units / "room2" / "units.jsonl").read_text()
    (units / "room2" / "units.jsonl").write_text(rows[:-20])
    (units / "room3" / "import.json").unlink()
    (units / "room4" / "unit.json").unlink()
    shutil.copy(units / "room0" / "units.jsonl", units / "room5" / "units.jsonl")
    assert [r.status for r in read_finished(out)] == [*["damaged"] * 4, "unfinished", "damaged"]
    done = batch(*common(place), "-o", out, "--workers", 2, "--no-pages")
    assert done.returncode == 0
    for case, file in (("room0", "unit.json"), ("room1", "unit.json"), ("room2", "units.jsonl"),
                       ("room3", "import.json"), ("room5", "units.jsonl")):
        assert any(f"{case}/{file}" in line for line in done.stderr.splitlines()), (case, done.stderr)
    assert "6 done, 0 failed, 0 kept" in done.stdout
    assert exact_files(out) == exact_files(place / "whole")


@pytest.mark.slow
def test_bad_worlds_fail_alone_and_are_read_again_when_they_change(tmp_path: Path) -> None:
    quick_protocol_file(tmp_path)
    worlds = tmp_path / "worlds"
    make_worlds(worlds, 1)
    good = make_world(tmp_path / "spare.glb", 5.0).read_bytes()
    (worlds / "cut.glb").write_bytes(good[:len(good) // 2])
    (worlds / "page.glb").write_text("<!DOCTYPE html><html><body>404</body></html>")
    arguments = (*common(tmp_path), "-o", tmp_path / "out", "--workers", 1, "--no-pages")
    done = batch(*arguments)
    assert done.returncode == 1
    assert "1 done, 2 failed" in done.stdout
    assert "failed: local/cut: cut.glb, byte 8: " in done.stdout and "HTML page" in done.stdout
    for case in ("cut", "page"):
        units = read_units(tmp_path / "out" / "units" / "local" / case / "units.jsonl")
        assert {m.status for m in units} == {Status.INVALID}
        assert [m.metric for m in units] == list(METRICS)
        assert str(tmp_path) not in units[0].reason
    again = batch(*arguments, "--json")
    assert again.returncode == 1, "a batch with failed units is not done"
    assert (json.loads(again.stdout)["kept"], json.loads(again.stdout)["kept_failed"]) == (3, 2)
    (worlds / "cut.glb").write_bytes(good)
    mended = batch(*arguments)
    assert mended.returncode == 1 and "1 done, 0 failed, 2 kept from before (1 of them failed)" in mended.stdout


@pytest.mark.slow
def test_a_suite_with_gaps_has_a_record_of_every_case(tmp_path: Path) -> None:
    quick_protocol_file(tmp_path)
    make_world(tmp_path / "worlds" / "kitchen.glb")
    (tmp_path / "suite.yaml").write_text(
        "id: small\nversion: 1\nprotocol: quick.yaml\n"
        "cases:\n- {id: kitchen, text: a kitchen}\n- {id: attic}\n- {id: cellar}\n"
        "- {id: repaint, kind: edit, instruction: paint it, category: lighting}\n"
        "systems:\n  maker:\n    outputs: {snapshot: 'worlds/{case}.glb', edit: 'worlds/{case}-{role}.glb'}\n"
        "    unsupported: [cellar]\n")
    for role in ("before", "after"):
        make_world(tmp_path / "worlds" / f"repaint-{role}.glb")
    arguments = (tmp_path / "suite.yaml", "-o", tmp_path / "out", "--workers", 1, "--no-pages")
    done = batch(*arguments)
    assert done.returncode == 1, done.stderr
    assert "failed: maker/attic: no output at 'worlds/attic.glb'" in done.stdout
    assert "1 done, 1 failed, 2 skipped" in done.stdout
    records = {r.case: r for r in read_finished(tmp_path / "out")}
    assert {c: r.measurements[0].status for c, r in records.items() if c != "kitchen"} == {
        "attic": Status.UNAVAILABLE, "cellar": Status.UNSUPPORTED, "repaint": Status.UNTESTED}
    assert records["kitchen"].status == "done"
    make_world(tmp_path / "worlds" / "attic.glb", 5.0)
    assert "1 done, 0 failed, 3 kept" in batch(*arguments).stdout


@pytest.mark.parametrize(("arguments", "word"), [
    (("-o", "out"), "neither a suite nor a folder of worlds"),
    (("--worlds", "nowhere", "-o", "out"), "no such folder"),
    (("--worlds", ".", "-o", "out", "--only", "metrik=M08"), "metric=M08"),
    (("--worlds", ".", "-o", "out", "--shard", "2/2"), "not a shard"),
    (("--worlds", ".", "-o", "out", "--memory-limit", "much"), "4G"),
    (("--worlds", ".", "-o", "out", "--executor", "abacus"), "Known: local"),
    (("--worlds", ".", "-o", "out", "--only", "case=castle"), "leaves nothing to run"),
])
def test_bad_usage_is_a_sentence_and_exit_2(arguments: tuple[str, ...], word: str, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from spatialbench.cli.batch import batch as command
    from spatialbench.errors import UsageError

    monkeypatch.chdir(tmp_path)
    make_world(tmp_path / "room.glb")
    result = CliRunner().invoke(command, arguments)
    error = result.exception
    if isinstance(error, SystemExit):  # click's own
        assert result.exit_code == 2 and word in result.output
    else:
        assert getattr(error, "exit_code", None) == 2, result.output
        assert word in str(error) and (isinstance(error, UsageError) or "folder" in word)
    assert not (tmp_path / "out").exists()
