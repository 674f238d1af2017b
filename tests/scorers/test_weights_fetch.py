"""Fetching weights from a hub on loopback that does what hubs do, and what they should not."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError, ConfigError, UsageError
from spatialbench.scorers import download, verify, web, weights
from spatialbench.scorers.fetch import fetch, hub
from spatialbench.scorers.verify import check_entry, verified_folder
from spatialbench.scorers.web import Web
from spatialbench.scorers.weights import NOTE, Lock, WeightsEntry, WeightsFile
from spatialbench.types.strict import validate_strict
from tests.scorers.weights_server import COMMIT, Answering, Hub

TOKEN = "hf_very_secret_token"
BIG = np.random.default_rng(1).bytes(3_000_000)  # three blocks of a download
SMALL = b'{"hidden_size": 4}\n'
SHA = hashlib.sha256(BIG).hexdigest()


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No pauses, no proxy, and nothing of the user's."""
    monkeypatch.setattr(web, "_PAUSE_S", 0.0)
    monkeypatch.setenv("SPATIALBENCH_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "http_proxy", "HTTP_PROXY",
                 "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


def lock(monkeypatch: pytest.MonkeyPatch, *entries: WeightsEntry) -> None:
    monkeypatch.setattr(weights, "load_lock", lambda: Lock(version=1, weights=entries))


def entry(**changes: Any) -> WeightsEntry:
    return WeightsEntry(**{"id": "tiny", "model": "Tiny", "licence": "MIT", "repo": "org/tiny",
                           "files": ({"path": "sub/model.bin"}, {"path": "config.json"})} | changes)


def files(**changes: bytes) -> dict[str, bytes]:
    return {"sub/model.bin": BIG, "config.json": SMALL, "README.md": b"not asked for"}


def a_hub(**changes: Any) -> Hub:
    return Hub(files(), lfs=("sub/model.bin",), **changes)


def test_files_are_fetched_noted_and_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, entry())
    seen: list[tuple[str, int, int]] = []
    with a_hub() as h:
        done = fetch(["tiny"], tmp_path, web=Web(h.url), tell=lambda *a: seen.append(a))["tiny"]
        assert [(f.path, f.outcome, f.sha256) for f in done] == [
            ("sub/model.bin", "fetched", SHA), ("config.json", "fetched", hashlib.sha256(SMALL).hexdigest())]
        assert not h.of("README.md")
        assert all(COMMIT in a.path for a in h.asked if "/resolve/" in a.path)  # not whatever 'main' is by then
        again = fetch(["tiny"], tmp_path, web=Web(h.url))["tiny"]
        assert [f.outcome for f in again] == ["here", "here"]
        assert len(h.of("model.bin")) == 1
    assert (tmp_path / "tiny/sub/model.bin").read_bytes() == BIG
    assert seen[-1][1:] == (len(SMALL), len(SMALL)) and ("tiny/sub/model.bin", len(BIG), len(BIG)) in seen
    note = json.loads((tmp_path / "tiny" / NOTE).read_text())
    assert note["revision"] == COMMIT and note["files"]["sub/model.bin"]["sha256"] == SHA
    assert [c.state for c in check_entry("tiny", tmp_path)] == ["noted", "noted"]
    assert not list(tmp_path.rglob("*.part")) and not list(tmp_path.rglob("*.lock"))
    # Another file later is no longer trusted.
    (tmp_path / "tiny/sub/model.bin").write_bytes(BIG[::-1])
    with pytest.raises(BackendUnavailableError) as wrong:
        verified_folder("tiny", tmp_path)
    assert SHA in str(wrong.value) and hashlib.sha256(BIG[::-1]).hexdigest() in str(wrong.value)
    assert "weights fetch tiny" in str(wrong.value)


def test_a_broken_connection_is_continued_where_it_broke(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, entry())
    with a_hub(acts={"sub/model.bin": [lambda a: a.broken(BIG, 2_000_000), lambda a: a.send(503),
                                       lambda a: a.send(429)]}) as h:
        fetch(["tiny"], tmp_path, web=Web(h.url))
        ranges = [a.headers.get("Range") for a in h.of("model.bin")]
    # What came of the last block is lost in some versions of http.client: the start is what was written.
    assert ranges[0] is None and len(ranges) == 4 and len(set(ranges[1:])) == 1
    start = int(str(ranges[1]).removeprefix("bytes=").rstrip("-"))
    assert 0 < start <= 2_000_000
    assert (tmp_path / "tiny/sub/model.bin").read_bytes() == BIG


def test_ctrl_c_leaves_a_part_that_the_next_call_continues(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, entry())

    def interrupt(label: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with a_hub() as h:
        with pytest.raises(KeyboardInterrupt):
            fetch(["tiny"], tmp_path, web=Web(h.url), tell=interrupt)
        (part,) = tmp_path.rglob("*.part")
        have = part.stat().st_size
        assert 0 < have < len(BIG) and not (tmp_path / "tiny/sub/model.bin").exists()
        fetch(["tiny"], tmp_path, web=Web(h.url))
        assert h.of("model.bin")[-1].headers["Range"] == f"bytes={have}-"
    assert (tmp_path / "tiny/sub/model.bin").read_bytes() == BIG


def test_a_part_of_something_else_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, entry())
    with a_hub() as h:
        part = tmp_path / f"tiny/sub/model.bin.{SHA[:12]}.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(b"x" * 1000)
        with pytest.raises(BackendUnavailableError, match=f"instead of {SHA}"):
            fetch(["tiny"], tmp_path, web=Web(h.url))
        assert not part.exists()
        fetch(["tiny"], tmp_path, web=Web(h.url))
    assert (tmp_path / "tiny/sub/model.bin").read_bytes() == BIG


@pytest.mark.parametrize("ranges", [True, False])
def test_a_server_without_ranges_and_a_part_that_is_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                          ranges: bool) -> None:
    lock(monkeypatch, entry())
    part = tmp_path / f"tiny/sub/model.bin.{SHA[:12]}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(BIG if ranges else BIG[:10])
    with a_hub(ranges=ranges) as h:
        fetch(["tiny"], tmp_path, web=Web(h.url))
        assert len(h.of("model.bin")) == (0 if ranges else 1)
    assert (tmp_path / "tiny/sub/model.bin").read_bytes() == BIG


def short(a: Answering) -> bool:
    return a.send(200, BIG[:-1])


def endless(a: Answering) -> bool:
    a.send_response(200)
    a.send_header("Transfer-Encoding", "chunked")
    a.end_headers()
    a.wfile.write(b"1\r\nx\r\n0\r\n\r\n")
    return True


def to(location: str) -> Any:
    return lambda a: a.send(302, Location=location)


@pytest.mark.parametrize(("acts", "match", "part_stays"), [
    ([lambda a: a.send(200, b"y" * len(BIG))], "instead of " + SHA, False),
    ([lambda a: a.send(404)], r"is not there \(HTTP 404\).*HF_ENDPOINT", False),
    ([lambda a: a.send(401)], r"HTTP 401.*/org/tiny with an account.*HF_TOKEN", False),
    ([lambda a: a.send(403)], r"HTTP 403.*conditions", False),
    ([lambda a: a.send(400)], "HTTP 400", False),
    ([lambda a: a.broken(BIG, 10)] + [lambda a: a.broken(BIG, 0)] * 9, "the same command continues", True),
    ([lambda a: a.send(503)] * 9, "HTTP 503", False),
    ([short], "2,999,999 bytes, and 3,000,000 are expected", False),
    ([lambda a: a.send(200, BIG + b"z")], "3,000,001 bytes, and 3,000,000", False),
    ([endless], "does not say how long", False),
    ([lambda a: a.send(200, BIG, Content_Encoding="gzip")], "packed, which was not asked for", False),
    ([to("http://example.invalid/x")], "is not https", False),
    ([to("file:///etc/passwd")], "is not https", False),
    ([to("ftp://127.0.0.1/x")], "is not https", False),
    ([to("http://[::1/x")], "no address", False),
    ([to("/org/tiny/resolve/" + COMMIT + "/sub/model.bin")] * 30, "redirects more than", False),
])
def test_what_may_go_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, acts: list[Any], match: str,
                           part_stays: bool) -> None:
    lock(monkeypatch, entry())
    with a_hub(acts={"sub/model.bin": list(acts)}) as h, pytest.raises(BackendUnavailableError, match=match) as error:
        fetch(["tiny"], tmp_path, web=Web(h.url, TOKEN))
    assert TOKEN not in str(error.value) and TOKEN not in repr(Web("https://x.y", TOKEN))
    assert not (tmp_path / "tiny/sub/model.bin").exists()
    assert bool(list(tmp_path.rglob("*.part"))) == part_stays
    assert len(h.of("model.bin")) <= 12


def test_the_token_goes_to_the_hub_and_not_where_it_redirects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, entry())
    with a_hub() as cdn, a_hub(acts={"sub/model.bin": [to(f"{cdn.url}/cdn/sub/model.bin?signature=1")]}) as h:
        fetch(["tiny"], tmp_path, web=Web(h.url, TOKEN))
        assert {a.headers.get("Authorization") for a in h.asked} == {f"Bearer {TOKEN}"}
        assert [a.headers.get("Authorization") for a in cdn.asked] == [None]  # another port is another origin
    assert (tmp_path / "tiny/sub/model.bin").read_bytes() == BIG
    assert TOKEN not in "".join(p.read_text(errors="replace") for p in tmp_path.rglob("*") if p.is_file())


def test_the_token_goes_over_no_plain_http_but_on_this_machine(monkeypatch: pytest.MonkeyPatch,
                                                               tmp_path: Path) -> None:
    lock(monkeypatch, entry())
    monkeypatch.setattr(web, "_loopback", lambda url: False)  # as if the mirror that the user named were elsewhere
    with a_hub() as h:
        fetch(["tiny"], tmp_path, web=Web(h.url, TOKEN))
        assert h.asked and {a.headers.get("Authorization") for a in h.asked} == {None}


def test_from_https_nothing_leads_to_http() -> None:
    asked = Web("http://127.0.0.1:1")
    asked.check("http://localhost/x")
    asked.check("https://a.b/x", "http://127.0.0.1:1/x")
    with pytest.raises(BackendUnavailableError, match="not https"):
        asked.check("http://127.0.0.1:1/x", "https://a.b/x")
    with pytest.raises(BackendUnavailableError, match="not https"):
        asked.check("http://mirror.example/x")
    Web("http://mirror.example").check("http://mirror.example/x")


def test_small_files_are_held_to_the_hubs_git_hash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, entry())
    changed = SMALL.replace(b"4", b"5")
    with a_hub(acts={"config.json": [lambda a: a.send(200, changed)]}) as h:
        with pytest.raises(BackendUnavailableError, match="git hash"):
            fetch(["tiny"], tmp_path, web=Web(h.url))
        fetch(["tiny"], tmp_path, web=Web(h.url))  # what was whole by then is not fetched again
        assert len(h.of("model.bin")) == 1


def test_a_folder_copied_by_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, entry())
    for name, data in files().items():
        (tmp_path / "tiny" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tiny" / name).write_bytes(data)
    assert [c.state for c in check_entry("tiny", tmp_path)] == ["not pinned", "not pinned"]
    assert verified_folder("tiny", tmp_path) == tmp_path / "tiny"
    (tmp_path / "tiny/config.json").write_bytes(SMALL.replace(b"4", b"5"))
    said: list[str] = []
    with a_hub() as h:
        done = fetch(["tiny"], tmp_path, web=Web(h.url), said=said.append)["tiny"]
    assert [f.outcome for f in done] == ["here", "fetched"] and "config.json is not what it must be" in said[0]
    assert [c.state for c in check_entry("tiny", tmp_path)] == ["noted", "noted"]


def test_a_file_of_the_right_size_is_read_before_it_is_believed(monkeypatch: pytest.MonkeyPatch,
                                                                tmp_path: Path) -> None:
    """Whatever is kept of its hash: what rots on a disk has the size and the times that it had."""
    lock(monkeypatch, entry())
    path = tmp_path / "tiny/sub/model.bin"
    with a_hub() as h:
        fetch(["tiny"], tmp_path, web=Web(h.url))
        path.write_bytes(BIG[:-1] + bytes([BIG[-1] ^ 1]))
        monkeypatch.setitem(verify._HASHED, str(path.resolve()), [*verify._signature(path.stat()), SHA])
        assert [f.outcome for f in fetch(["tiny"], tmp_path, web=Web(h.url))["tiny"]] == ["fetched", "here"]
    assert path.read_bytes() == BIG


def test_another_commit_in_the_lock_has_other_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was noted of the former one does not bind it, and the hub is asked for this one, not for the newest."""
    lock(monkeypatch, entry())
    with a_hub() as h:
        fetch(["tiny"], tmp_path, web=Web(h.url))
    lock(monkeypatch, entry(revision="b" * 40))
    said: list[str] = []
    with Hub({"sub/model.bin": BIG[::-1], "config.json": SMALL}, lfs=("sub/model.bin",), commit="b" * 40) as h:
        fetch(["tiny"], tmp_path, web=Web(h.url), said=said.append)
        assert h.asked[0].path == f"/api/models/org/tiny/revision/{'b' * 40}?blobs=true"
    assert "now names the commit bbbbbbbbbbbb; fetched first was aaaaaaaaaaaa" in said[0]
    assert (tmp_path / "tiny/sub/model.bin").read_bytes() == BIG[::-1]
    assert [c.state for c in check_entry("tiny", tmp_path)] == ["noted", "noted"]


def test_another_part_than_was_asked_for_is_not_put_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, entry())
    part = tmp_path / f"tiny/sub/model.bin.{SHA[:12]}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(BIG[:1000])
    size = len(BIG)
    with a_hub(acts={"sub/model.bin": [lambda a: a.send(
            206, BIG[900:size - 100], Content_Range=f"bytes 900-{size - 101}/{size}")]}) as h:
        fetch(["tiny"], tmp_path, web=Web(h.url))
        assert [a.headers["Range"] for a in h.of("model.bin")] == ["bytes=1000-"] * 2
    assert (tmp_path / "tiny/sub/model.bin").read_bytes() == BIG


def test_what_the_lock_knows_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    exact = ({"path": "sub/model.bin", "bytes": len(BIG), "sha256": SHA},)
    lock(monkeypatch, entry(revision=COMMIT, files=exact))
    with a_hub() as h:
        fetch(["tiny"], tmp_path, web=Web(h.url))
        assert [a.path for a in h.asked] == [f"/org/tiny/resolve/{COMMIT}/sub/model.bin"]  # the hub is not asked
    assert [c.state for c in check_entry("tiny", tmp_path)] == ["locked"]
    lock(monkeypatch, entry(revision="b" * 40))
    with a_hub() as h, pytest.raises(BackendUnavailableError, match="commit 'aaaa"):
        fetch(["tiny"], tmp_path / "2", web=Web(h.url))
    lock(monkeypatch, entry(files=({"path": "sub/model.bin", "sha256": "0" * 64},)))
    with a_hub() as h, pytest.raises(BackendUnavailableError, match=f"{SHA}, and the lock file says {'0' * 64}"):
        fetch(["tiny"], tmp_path / "3", web=Web(h.url))
    lock(monkeypatch, entry(files=({"path": "absent.bin"},)))
    with a_hub() as h, pytest.raises(BackendUnavailableError, match="has no file 'absent"):
        fetch(["tiny"], tmp_path / "4", web=Web(h.url))


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"sha": "../../x", "siblings": []}', b"\xff",
                                  b'{"sha": "%s", "siblings": [{"rfilename": "x", "size": "1"}]}' % COMMIT.encode()])
def test_a_listing_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: bytes) -> None:
    lock(monkeypatch, entry())
    with a_hub(acts={"/api/models/org/tiny/revision/main": [lambda a: a.send(200, body)]}) as h, \
            pytest.raises(BackendUnavailableError, match="answer cannot be used"):
        fetch(["tiny"], tmp_path, web=Web(h.url))
    assert not (tmp_path / "tiny").exists()


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, entry())
    with a_hub() as h:
        monkeypatch.setattr(shutil, "disk_usage", lambda p: SimpleNamespace(free=1000))
        with pytest.raises(BackendUnavailableError, match="1,000 are free"):
            fetch(["tiny"], tmp_path, web=Web(h.url))
        assert not h.of("model.bin")
        monkeypatch.undo()
        lock(monkeypatch, entry())
        monkeypatch.setenv("SPATIALBENCH_CACHE_DIR", str(tmp_path / "cache"))

        def full(handle: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(download.os, "fsync", full)
        with pytest.raises(BackendUnavailableError, match=r"the disk is full.*the same command continues"):
            fetch(["tiny"], tmp_path, web=Web(h.url))
    assert list(tmp_path.rglob("*.part"))


def test_a_file_at_an_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with a_hub() as h:
        file = WeightsFile.model_construct(path="model.bin", url=f"{h.url}/cdn/sub/model.bin", bytes=None, sha256=None,
                                           package=None)
        plain = WeightsEntry.model_construct(id="plain", model="Plain", licence="MIT", commercial=True, gated=False,
                                             repo=None, revision=None, source="url", files=(file,))
        monkeypatch.setattr(weights, "load_lock", lambda: SimpleNamespace(weights=(plain,)))
        (tmp_path / "plain").mkdir()
        (tmp_path / "plain/model.bin.unknown.part").write_bytes(b"of another version, perhaps")
        assert fetch(["plain"], tmp_path, web=Web(h.url))["plain"][0].sha256 == SHA
        assert h.asked[-1].headers.get("Range") is None
        assert [c.state for c in check_entry("plain", tmp_path)] == ["noted"]
        (tmp_path / "plain" / NOTE).unlink()
        said: list[str] = []
        assert fetch(["plain"], tmp_path, web=Web(h.url), said=said.append)["plain"][0].outcome == "kept"
        assert "not pinned" in said[0] and len(h.asked) == 1


@pytest.mark.parametrize(("tags", "resumed"), [
    (('"a"', '"a"'), True), (('"a"', '"b"'), False), (("", ""), False), (('W/"a"', 'W/"a"'), False)])
def test_a_file_without_a_known_hash_is_continued_only_while_it_is_the_same(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tags: tuple[str, str], resumed: bool) -> None:
    """The server changes the file after the connection broke: two halves of two files would be taken for one."""
    old = bytes(len(BIG))

    def first(a: Answering) -> bool:
        a.send_response(200)
        a.send_header("Content-Length", str(len(old)))
        a.send_header("ETag", tags[0])
        a.end_headers()
        a.wfile.write(old[:2_000_000])
        a.close_connection = True
        return True

    def second(a: Answering) -> bool:
        start = int(a.headers["Range"].removeprefix("bytes=").rstrip("-")) if "Range" in a.headers else 0
        if start and a.headers.get("If-Range") == tags[1]:
            return a.send(206, old[start:], Content_Range=f"bytes {start}-{len(old) - 1}/{len(old)}")
        return a.send(200, BIG, ETag=tags[1])

    with a_hub(acts={"sub/model.bin": [first, second]}) as h:
        file = WeightsFile.model_construct(path="model.bin", url=f"{h.url}/cdn/sub/model.bin", bytes=None, sha256=None,
                                           package=None)
        plain = WeightsEntry.model_construct(id="plain", model="Plain", licence="MIT", commercial=True, gated=False,
                                             repo=None, revision=None, source="url", files=(file,))
        monkeypatch.setattr(weights, "load_lock", lambda: SimpleNamespace(weights=(plain,)))
        fetch(["plain"], tmp_path, web=Web(h.url))
        assert [a.headers.get("If-Range") for a in h.asked] == [None, tags[0] if tags[0].startswith('"') else None]
    assert (tmp_path / "plain/model.bin").read_bytes() == (old if resumed else BIG)


def test_consent_and_offline_come_before_any_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, entry(commercial=False, licence="CC-BY-NC-4.0"), entry(id="door", gated=True))
    with a_hub() as h:
        with pytest.raises(UsageError, match=r"tiny \(CC-BY-NC-4.0; non-commercial\); door \(MIT; gated\).*--accept-"):
            fetch(["tiny", "door"], tmp_path, web=Web(h.url))
        with pytest.raises(UsageError, match="offline"):
            fetch(["tiny"], tmp_path, web=Web(h.url), accept_licence=True, offline=True)
        assert not h.asked
        fetch(["tiny"], tmp_path, web=Web(h.url), accept_licence=True)
        assert h.asked


def test_two_at_a_time_do_not_mix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    lock(monkeypatch, entry())
    name = tmp_path / f"tiny/sub/.model.bin.{SHA[:12]}.lock"
    name.parent.mkdir(parents=True)
    with name.open("wb") as held, a_hub() as h:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BackendUnavailableError, match="by another process"):
            fetch(["tiny"], tmp_path, web=Web(h.url))


def test_a_lock_whose_owner_has_just_gone_locks_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Opened before the owner removed it, locked afterwards: a third process would lock a new file of that name."""
    fcntl = pytest.importorskip("fcntl")
    real = fcntl.flock

    def flock(file: Any, how: int) -> None:
        real(file, how)
        os.unlink(file.name)

    lock(monkeypatch, entry())
    with a_hub() as h:
        monkeypatch.setattr(fcntl, "flock", flock)
        with pytest.raises(BackendUnavailableError, match="by another process"):
            fetch(["tiny"], tmp_path, web=Web(h.url))
        monkeypatch.setattr(fcntl, "flock", real)
        fetch(["tiny"], tmp_path, web=Web(h.url))
    assert not list(tmp_path.rglob(".*.lock"))


def test_where_the_token_is_from(tmp_path: Path) -> None:
    assert hub({"HF_HOME": str(tmp_path)}).token == ""
    (tmp_path / "token").write_text("from-file\n")
    assert hub({"HF_HOME": str(tmp_path)}) == Web("https://huggingface.co", "from-file")
    assert hub({"HF_HOME": str(tmp_path), "HF_TOKEN": "a"}).token == "a"
    assert hub({"HF_TOKEN": "a", "HF_ENDPOINT": "http://mirror/"}).endpoint == "http://mirror"
    with pytest.raises(UsageError) as error:
        hub({"HF_TOKEN": f"{TOKEN}\nX-Header: 1"})
    assert TOKEN not in str(error.value)
    for bad in ("ftp://x", "mirror", "https://user@host"):
        with pytest.raises(UsageError, match="HF_ENDPOINT"):
            hub({"HF_TOKEN": "a", "HF_ENDPOINT": bad})


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "a//b", ".", "C:x", "a\\b", "x.part", NOTE, ""])
def test_a_lock_file_names_nothing_outside_its_folder(path: str) -> None:
    with pytest.raises(ConfigError):
        validate_strict(WeightsFile, {"path": path}, "lock")


@pytest.mark.parametrize("changes", [
    {"repo": "../x"}, {"repo": "a/b/c"}, {"revision": "main"}, {"repo": None}, {"id": "../x"},
    {"files": ({"path": "a"}, {"path": "a"})}, {"files": ({"path": "a", "url": "http://x.y/a"},)},
    {"files": ({"path": "a", "url": "https://user@x.y/a"},)}, {"files": ({"path": "a", "package": "x:../../a"},)}])
def test_what_a_lock_entry_may_not_say(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        entry(**changes)


def test_the_packaged_lock_is_whole() -> None:
    found = weights.load_lock().weights
    assert [e.id for e in found] == sorted(e.id for e in found)
    assert {"clip-l14", "da3-giant", "tapip3d", "amt-s", "megasam"} <= {e.id for e in found}
    assert os.sep not in "".join(e.id for e in found)
