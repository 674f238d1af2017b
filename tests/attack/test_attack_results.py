"""Result folders under attack: known bad before the work, never mixed, never half there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spatialbench.errors import ResultError, UsageError
from spatialbench.runs import RunOptions, cache, run_files, run_world, store
from spatialbench.runs.store import check_folder, sole_writer, write_text
from spatialbench.types import level_pose
from tests.analytic import EYE, box_room, write_glb


def spatialbench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "spatialbench", *arguments], capture_output=True, check=False,
                          env={**os.environ, **environment}, timeout=120)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return write_glb(tmp_path / "room.glb", box_room(), level_pose(EYE))


@pytest.mark.parametrize("bad", ["file", "file/below", "dangling", "y" * 300])
def test_a_bad_folder_is_known_before_the_world_is_read(bad: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = sorted(p.name for p in tmp_path.iterdir())
    done = spatialbench("run", str(tmp_path / "no-such-world.glb"), "-o", str(tmp_path / bad))
    assert done.returncode == 2
    assert b"result folder cannot be made" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_text() == "mine"


def test_looking_at_a_folder_makes_none(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b")
    check_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError):
        check_folder(Path("a\0b"))


def _fake(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    monkeypatch.setattr(run_files, "run_record", lambda result, kept=None: {"name": result.name})
    monkeypatch.setattr(run_files, "summary_json", lambda summary: f"{summary}\n")
    return SimpleNamespace(name=name, timings=[], measurements=[], summary=name, judge=None,
                           report=SimpleNamespace(model_dump=lambda mode: {"name": name}))


def test_an_earlier_run_leaves_nothing_that_looks_complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run_files.write_results(_fake(monkeypatch, "first"), tmp_path, "<html>first</html>")
    assert json.loads((tmp_path / "run.json").read_text()) == {"name": "first"}
    written: list[str] = []

    def interrupted(path: Path, text: str) -> None:
        if path.name == "summary.json":
            raise KeyboardInterrupt
        written.append(path.name)
        write_text(path, text)

    monkeypatch.setattr(store, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_files.write_results(_fake(monkeypatch, "second"), tmp_path)
    assert "import.json" in written
    assert not (tmp_path / "run.json").exists()
    assert not (tmp_path / "report.html").exists(), "a page of the first run beside files of the second"


def test_a_fault_in_the_last_file_leaves_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = _fake(monkeypatch, "x")
    monkeypatch.setattr(run_files, "run_record", lambda result, kept=None: {"number": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        run_files.write_results(result, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_replaced_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(ResultError, match=r"run\.json"):
        run_files.write_results(_fake(monkeypatch, "x"), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_an_interrupted_write_leaves_the_old_file_and_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path
                                                               ) -> None:
    write_text(tmp_path / "a.json", "old")

    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "a.json", "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.json", "old")]


def test_two_writers_take_turns(tmp_path: Path) -> None:
    code = ("import sys, time; from pathlib import Path; from spatialbench.runs.store import sole_writer\n"
            "with sole_writer(Path(sys.argv[1])):\n    print('in', flush=True); time.sleep(1.0)\n"
            "    print('out', flush=True)")
    with sole_writer(tmp_path):
        other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1.5)
    assert other.communicate(timeout=30)[0].split() == [b"in", b"out"]


def test_names_that_utf8_cannot_hold_do_not_stop_the_writing(tmp_path: Path) -> None:
    write_text(tmp_path / "a.json", '"a\udcffb"')
    assert (tmp_path / "a.json").read_bytes() == b'"a?b"'


def test_settings_are_judged_before_the_world(world: Path) -> None:
    for setting in ("navmesh.cell_sizes=[]", "navmesh.cell_sizes=[.nan]", "metrics=[M99]", "track=other",
                    "normalization=none"):
        with pytest.raises(UsageError):
            run_world(world.with_name("no-such-world.glb"), RunOptions(settings=(setting,)))


def test_output_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "spatialbench", "metrics", "--json"], stdout=full,
                              stderr=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert b"internal" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_a_sign(encoding: str, world: Path, tmp_path: Path) -> None:
    done = spatialbench("run", str(world), "--protocol", "happyworld-spatial-1-fast", "-o", str(tmp_path / "o"),
                        "--no-page", "--set", "metrics=[M25]", "--set", "finding.min_surfels=40000", "--set",
                        "finding.max_surfels=40000", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture
def no_numba(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    yield
    os.environ.pop("NUMBA_CACHE_DIR", None)


@pytest.mark.usefixtures("no_numba")
def test_compiled_loops_get_a_private_place_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_writable", lambda folder: True)
    cache.ensure_kernel_cache()
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setattr(cache, "_writable", lambda folder: False)
    cache.ensure_kernel_cache()
    place = Path(os.environ["NUMBA_CACHE_DIR"])
    assert place.is_dir()
    assert place.stat().st_mode & 0o077 == 0, "nobody else may put pickles there"
    cache.ensure_kernel_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == str(place)


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    assert cache._writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    assert not cache._writable(tmp_path / "file" / "x")
    if Path("/proc/1").is_dir():
        assert not cache._writable(Path("/proc/1/x"))
