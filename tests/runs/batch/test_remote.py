"""Worlds at a URL: listed like a folder, fetched by the node, and nothing that leads out of it."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import spatialbench
from spatialbench.errors import BackendUnavailableError, InputError, UsageError
from spatialbench.runs.batch import BatchOptions, open_batch, remote
from spatialbench.runs.batch.keys import hash_file
from spatialbench.runs.batch.ray_actor import UnitRunner
from spatialbench.runs.batch.remote import fetch, is_url, open_remote
from spatialbench.runs.folder_plan import plan_folder
from tests.runs.batch.batch_worlds import exact_files, make_world, make_worlds, quick_protocol_file
from tests.runs.batch.test_batch_faults import Listener


@pytest.fixture
def fsspec() -> Any:
    return pytest.importorskip("fsspec", reason="needs the package 'fsspec'")


def varied(folder: Path) -> Path:
    """Worlds of several kinds: one large, one in two files, an archive, what is none, hidden ones, and a link."""
    make_worlds(folder, 2)
    sub = folder / "sub a"
    sub.mkdir()
    (sub / "big.obj").write_text("mtllib big.mtl\n" + "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n" * 100_000)
    (sub / "big.mtl").write_text("newmtl a\n")
    (sub / "tex").mkdir()
    (sub / "tex" / "a.png").write_bytes(b"\x89PNG" + bytes(100))
    with zipfile.ZipFile(folder / "splats.sog", "w") as z:
        for name, size in (("filler.bin", 3 << 20), ("meta.json", 10), ("a.webp", 10)):
            z.writestr(name, bytes(size))
    (folder / "notes.txt").write_text("x")
    (folder / "empty.glb").write_bytes(b"")
    (folder / ".hidden.glb").write_bytes((folder / "room0.glb").read_bytes())
    (folder / "link.glb").symlink_to(folder / "room0.glb")
    return folder


def test_a_listing_plans_as_the_folder_does(fsspec: Any, tmp_path: Path) -> None:
    folder = varied(tmp_path / "worlds")
    there = open_remote(folder.as_uri())
    here = plan_folder(folder)
    with there.named():
        far = plan_folder(there.root)
    assert [(w.system, w.case_id, w.state) for w in far.worlds] == [(w.system, w.case_id, w.state) for w in here.worlds]
    assert {w.case_id for w in far.worlds} >= {"room0", "room1", "sub-a-big", "splats"}
    assert [(p.kind, p.found, p.note) for p in far.problems] == [(p.kind, p.found, p.note) for p in here.problems]
    assert there.notes == ("'link.glb' is a link, and was not followed",)
    for name, file in there.files.items():
        assert (there.root / name).stat().st_size == file.size == (folder / name).stat().st_size
    root = there.root
    del there, far
    assert not root.exists()


def test_a_unit_needs_its_own_files_only(fsspec: Any, tmp_path: Path) -> None:
    folder = varied(tmp_path / "worlds")
    (folder / "room0.stage_config.json").write_text("{}")
    there = open_remote(folder.as_uri())

    def names(*paths: str) -> set[str]:
        return {n for n, _ in there.needs({str(i): str(there.root / p) for i, p in enumerate(paths)})["files"]}

    assert names("room0.glb") == {"room0.glb", "room0.stage_config.json"}
    assert names("room1.glb") == {"room1.glb"}
    assert names("sub a/big.obj") == {"sub a/big.obj", "sub a/big.mtl", "sub a/tex/a.png"}
    assert names("room0.glb", "room1.glb") == {"room0.glb", "room0.stage_config.json", "room1.glb"}


def test_what_is_fetched_is_what_is_there(fsspec: Any, tmp_path: Path) -> None:
    folder = varied(tmp_path / "worlds")
    there = open_remote(folder.as_uri())
    needs = json.loads(json.dumps(there.needs({"main": str(there.root / "sub a" / "big.obj")})))
    into = tmp_path / "into"
    into.mkdir()
    got = {n: (size, sha) for n, size, sha in fetch(needs, into)}
    assert got == {n: ((folder / n).stat().st_size, hashlib.sha256((folder / n).read_bytes()).hexdigest())
                   for n in ("sub a/big.obj", "sub a/big.mtl", "sub a/tex/a.png")}
    assert all((into / n).read_bytes() == (folder / n).read_bytes() for n in got)


def test_hashes_are_kept_until_a_file_changes(fsspec: Any, tmp_path: Path) -> None:
    folder, out = make_worlds(tmp_path / "worlds", 2), tmp_path / "out"
    out.mkdir()
    first = open_remote(folder.as_uri())
    first.attach(out)
    with pytest.raises(FileNotFoundError):
        hash_file(first.root / "room0.glb")
    real = {n: hash_file(folder / n) for n in ("room0.glb", "room1.glb")}
    first.learn((n, *known) for n, known in real.items())
    first.learn([("../x", 1, "0"), ("room0.glb", 1, "0")])
    assert hash_file(first.root / "room0.glb") == real["room0.glb"]
    make_world(folder / "room1.glb", 9.0)
    (out / "fetched.jsonl").write_text((out / "fetched.jsonl").read_text() + '{"name": "room')
    again = open_remote(folder.as_uri())
    again.attach(out)
    assert hash_file(again.root / "room0.glb") == real["room0.glb"]
    with pytest.raises(FileNotFoundError):
        hash_file(again.root / "room1.glb")


@pytest.mark.parametrize("name", ["../evil.glb", "/etc/passwd", "a/../../b", "a//b", ".", "", "a\\b", "a\0b"])
def test_no_name_leads_out_of_the_folder(name: str, fsspec: Any, tmp_path: Path) -> None:
    (tmp_path / "evil.glb").write_bytes(b"x")
    (tmp_path / "worlds").mkdir()
    (tmp_path / "into").mkdir()
    with pytest.raises(InputError, match="is no name of a file"):
        fetch({"url": (tmp_path / "worlds").as_uri(), "files": [[name, 1]]}, tmp_path / "into")
    assert not any((tmp_path / "into").iterdir())


def test_a_store_that_lies_is_refused(fsspec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names outside, a length that is not kept, and more than the disk holds."""
    folder = make_worlds(tmp_path / "worlds", 1)
    (tmp_path / "into").mkdir()
    url, real = folder.as_uri(), (folder / "room0.glb").stat().st_size
    for size in (real - 1, real + 1):
        with pytest.raises(InputError, match="another length"):
            fetch({"url": url, "files": [["room0.glb", size]]}, tmp_path / "into")
        written = tmp_path / "into" / "room0.glb"
        assert written.stat().st_size <= size + remote._BLOCK
        written.unlink()
    with pytest.raises(InputError, match="more than the temporary folder"):
        fetch({"url": url, "files": [["room0.glb", 1 << 60]]}, tmp_path / "into")

    class Lying(type(fsspec.filesystem("file"))):  # type: ignore[misc]
        cachable = False

        def ls(self, path: str, detail: bool = False, **more: Any) -> list[dict[str, Any]]:
            return [{"name": n, "type": "file", "size": 4} for n in (f"{path}/../x.glb", "/etc/x.glb", path)]

    monkeypatch.setattr(remote, "_store", lambda url: (Lying(), str(folder)))
    there = open_remote(url)
    assert there.files == {}
    assert len(there.notes) == 2


def test_urls_that_cannot_be(fsspec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no URL of a store"):
        open_remote("nosuch://x/y")
    with pytest.raises(UsageError, match="chained"):
        open_remote("zip://a::file:///x.zip")
    with pytest.raises(InputError, match="cannot be read"):
        open_remote((tmp_path / "absent").as_uri())
    with pytest.raises(UsageError, match="--executor ray only"):
        open_batch(BatchOptions(out=tmp_path / "out", worlds_url="s3://b/w"))
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="no world among the 0 files") as raised:
        open_batch(BatchOptions(out=tmp_path / "out", executor="ray", worlds_url=(tmp_path / "none").as_uri()))
    assert raised.value.where == (tmp_path / "none").as_uri()
    monkeypatch.setattr(remote, "_MAX_ENTRIES", 1)
    with pytest.raises(UsageError, match="more than 1 files"):
        open_remote(make_worlds(tmp_path / "worlds", 2).as_uri())


def test_without_fsspec_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(BackendUnavailableError, match="'fsspec'"):
        open_remote("s3://b/w")
    assert is_url("s3://b/w")
    assert not is_url("C:/worlds")


def test_a_store_that_is_no_file_system(fsspec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit of fsspec's memory store gives the files that the same world on disk gives."""
    monkeypatch.setenv("SPATIALBENCH_THREADS", "1")
    folder = make_worlds(tmp_path / "worlds", 1)
    store = fsspec.filesystem("memory")
    store.pipe("/bucket/worlds/room0.glb", (folder / "room0.glb").read_bytes())
    protocol = str(quick_protocol_file(tmp_path))
    options = BatchOptions(out=tmp_path / "out", executor="ray", worlds_url="memory://bucket/worlds", protocol=protocol)
    batch = open_batch(options)
    there = batch.options.remote
    assert there is not None
    [job] = batch.jobs
    out = tmp_path / "out"
    out.mkdir()
    (out / ".mark").write_text("t")
    runner = UnitRunner(json.dumps({
        "out": str(out), "mark": ".mark", "token": "t", "version": spatialbench.__version__, "threads": 1,
        "memory_limit": 2_000_000_000, "limit_is_firm": True, "time_limit": 60.0, "log_suffix": "", "not_a_path": "",
        "module": "spatialbench.cli.batch_worker"}))
    try:
        assert "node" in json.loads(runner.hello())
        message = job.message(batch.plan.protocol, out / "units" / "local" / "room0", metrics=job.metrics, keep=(),
                              settings=(), page=False)
        task = {"unit": job.unit, "message": message, "memory_limit": None, "sure": False}
        end = json.loads(runner.step(json.dumps({**task, "fetch": there.needs(job.roles)}), 60.0))
        while end["event"] is None or end["event"]["kind"] == "at":
            end = json.loads(runner.step("", 60.0))
        assert end["event"]["kind"] == "done", end
        assert end["fetched"] == [["room0.glb", *hash_file(folder / "room0.glb")]]
        assert runner._folder is None
        store.rm("/bucket/worlds/room0.glb")
        lost = json.loads(runner.step(json.dumps({**task, "fetch": there.needs(job.roles)}), 60.0))
        assert lost["event"]["kind"] == "crash"
        assert "cannot be fetched" in lost["event"]["reason"]
    finally:
        runner.stop()
        store.store.clear()
    other = open_batch(BatchOptions(out=tmp_path / "local", worlds=folder, protocol=protocol, workers=1, pages=False))
    other.run(Listener())
    here = exact_files(tmp_path / "local")
    del here["batch.json"]
    assert exact_files(out) == here
