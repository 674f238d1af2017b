"""What a unit can do to a batch: crash, hang, eat memory, lie in the way; each costs that unit alone."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from spatialbench.errors import ResultError, SpatialbenchError
from spatialbench.runs.batch import BatchOptions, Board, open_batch, read_finished
from spatialbench.runs.batch import engine as engine_module
from spatialbench.runs.batch import worker as worker_module
from spatialbench.runs.store import read_units
from spatialbench.types import Status
from tests.runs.batch.batch_worlds import METRICS, attempts, exact_files, make_world, quick_protocol_file

FAULTY = "tests.runs.batch.faulty_worker"


class Listener:
    def __init__(self) -> None:
        self.said: list[str] = []

    def update(self, board: Board) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)


def run(tmp_path: Path, *names: str, out: str = "out", **options: Any) -> tuple[Board, Listener]:
    for name in names:
        if not (tmp_path / "worlds" / f"{name}.glb").exists():
            make_world(tmp_path / "worlds" / f"{name}.glb")
    options = {"workers": 1, "pages": False, **options}
    listener = Listener()
    work = open_batch(BatchOptions(out=tmp_path / out, worlds=tmp_path / "worlds", module=FAULTY,
                                   protocol=str(quick_protocol_file(tmp_path)), **options))
    board = work.run(listener)
    assert [c for c in psutil.Process().children() if FAULTY in " ".join(c.cmdline())] == []
    return board, listener


def rows(tmp_path: Path, case: str) -> list[Any]:
    return read_units(tmp_path / "out" / "units" / "local" / case / "units.jsonl")


@pytest.mark.slow
def test_crash_hang_memory_and_fault_cost_one_unit_each(tmp_path: Path) -> None:
    run(tmp_path, "good", out="before")  # whose loops are compiled then, which takes longer than the time limit
    board, listener = run(tmp_path, "bug", "crash", "eat", "good", "hang", time_limit=6.0, memory_limit=600_000_000,
                          workers=2)
    assert (board.done, board.failed, board.left, board.stopped) == (1, 4, 0, "")
    said = {"bug": "internal error: KeyError: 'no such thing'", "crash": "the worker was killed by SIGSEGV",
            "eat": "it took more than the memory limit of 600 MB", "hang": "it took longer than the time limit of 6 s"}
    for case, reason in said.items():
        assert [(m.metric, m.status, m.reason) for m in rows(tmp_path, case)] == [
            (id, Status.UNAVAILABLE, f"{reason}, in each of 2 attempts") for id in METRICS]
        assert [a["attempt"] for a in attempts(tmp_path / "out") if a["unit"] == f"local/{case}"] == [1, 2]
        assert f"local/{case}: {reason}; it is tried again" in listener.said
    assert Status.MEASURED in {m.status for m in rows(tmp_path, "good")}
    assert all(a["peak_mb"] < 2000 for a in attempts(tmp_path / "out"))
    before = exact_files(tmp_path / "out")

    again, _ = run(tmp_path, time_limit=6.0)
    assert (again.kept, again.kept_failed, again.done, again.failed) == (5, 4, 0, 0), "a failure is not run for ever"
    assert exact_files(tmp_path / "out") == before
    records = {r.case: r for r in read_finished(tmp_path / "out")}
    assert {c: r.status for c, r in records.items()} == {**dict.fromkeys(said, "failed"), "good": "done"}
    assert [m.reason for m in records["crash"].measurements] == [m.reason for m in rows(tmp_path, "crash")]


@pytest.mark.slow
def test_what_passes_the_second_time_leaves_no_trace_but_in_the_log(tmp_path: Path) -> None:
    """A crash is tried again in turn, want of memory alone and last; what libraries print is no message."""
    board, _ = run(tmp_path, "chatty", "greedy", "once", "room", memory_limit=500_000_000)
    assert (board.done, board.failed) == (4, 0)
    assert [(a["unit"].removeprefix("local/"), a["end"]) for a in attempts(tmp_path / "out")] == [
        ("chatty", "done"), ("greedy", "memory"), ("once", "crash"), ("room", "done"), ("once", "done"),
        ("greedy", "done")]
    log = (tmp_path / "out" / "logs" / "worker-1.log").read_text()
    assert log.count("a library that prints") == 20000
    first = exact_files(tmp_path / "out")
    run(tmp_path, force=True)
    assert exact_files(tmp_path / "out") == first


def test_without_retries_there_is_one_attempt(tmp_path: Path) -> None:
    board, _ = run(tmp_path, "crash", retries=0)
    assert board.failed == 1
    assert len(attempts(tmp_path / "out")) == 1
    retried, _ = run(tmp_path, retries=0, retry_failed=True)
    assert (retried.failed, retried.kept) == (1, 0)
    assert len(attempts(tmp_path / "out")) == 2


@pytest.mark.parametrize("error", [
    ResultError("cannot be written: No space left on device", where="units.jsonl"),
    OSError(errno.ENOSPC, "No space left on device", "scratch")])
def test_a_worker_says_that_the_disk_refuses(error: Exception, tmp_path: Path) -> None:
    def refuse(*arguments: Any) -> Any:
        raise error

    end = worker_module._one(cast(Any, None), None, refuse, lambda label, done, total: None)
    assert end["end"] == "disk" and "No space left" in end["reason"]


def test_a_disk_that_refuses_the_coordinator_ends_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, event: Any, number: int) -> None:
        raise OSError(28, "No space left on device", "attempts.jsonl")

    monkeypatch.setattr(engine_module._Attempts, "add", full)
    board, _ = run(tmp_path, "alpha")
    assert board.stopped == "attempts.jsonl: No space left on device"


@pytest.mark.slow
def test_a_real_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(disk)], capture_output=True,
                      check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        board, _ = run(tmp_path, "a", "b", "c", out="disk/out")
        assert "No space left" in board.stopped
        assert board.left + board.done == 3 and board.left > 0
        kept = [r.status for r in read_finished(disk / "out")]
        assert kept.count("done") == board.done
        assert kept.count("unfinished") == board.left
        assert not list(disk.rglob(".*.tmp"))
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        again, _ = run(tmp_path, out="disk/out")
        assert (again.kept, again.done, again.stopped) == (board.done, board.left, "")
        run(tmp_path)
        assert exact_files(disk / "out") == exact_files(tmp_path / "out")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_worker_ends_when_nobody_listens(state: str, tmp_path: Path) -> None:
    world = make_world(tmp_path / "w.glb")
    worker = subprocess.Popen([sys.executable, "-c", f"from {FAULTY} import main; main()"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert worker.stdin and worker.stdout
    assert json.loads(worker.stdout.readline()) == {"ready": True}
    if state == "busy":
        job = {"job": 1, "system": "s", "case_id": "wait", "roles": {"main": str(world)}, "case": None, "root": "",
               "image": "", "metrics": ["M07"], "keep": [], "protocol": {}, "settings": [],
               "folder": str(tmp_path / "a" / "b" / "c" / "d"), "page": False}
        worker.stdin.write(json.dumps(job) + "\n")
        worker.stdin.flush()
        assert json.loads(worker.stdout.readline())["at"] == "about to wait"
    worker.stdin.close()
    assert worker.wait(timeout=10) == (3 if state == "busy" else 0)
    worker.stdout.close()


def test_workers_that_cannot_start_are_said_once(tmp_path: Path) -> None:
    make_world(tmp_path / "worlds" / "a.glb")
    work = open_batch(BatchOptions(out=tmp_path / "out", worlds=tmp_path / "worlds", module="no_such_module",
                                   protocol=str(quick_protocol_file(tmp_path)), workers=1))
    began = time.monotonic()
    with pytest.raises(SpatialbenchError, match=r"worker-1\.log: workers do not start"):
        work.run(Listener())
    assert time.monotonic() - began < 30
    assert b"no_such_module" in (tmp_path / "out" / "logs" / "worker-1.log").read_bytes()
    assert not (tmp_path / "out" / "units").exists()
