"""``spatialbench weights`` as a user runs it, against a hub on loopback."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spatialbench.cli import main as cli
from spatialbench.scorers import web, weights
from spatialbench.scorers.weights import Lock, WeightsEntry
from tests.scorers.weights_server import Hub

MODEL = b"weights " * 5000
CONFIG = b"{}\n"
TOKEN = "hf_very_secret_token"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setattr(web, "_PAUSE_S", 0.0)
    monkeypatch.setitem(cli._COMMANDS, "weights", ("spatialbench.cli.weights", "weights", "Weights."))
    monkeypatch.setenv("SPATIALBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SPATIALBENCH_WEIGHTS", str(tmp_path / "w"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for name in ("SPATIALBENCH_OFFLINE", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    entries = tuple(WeightsEntry(**{"licence": "MIT", "repo": "org/tiny", "files": (
        {"path": "model.bin"}, {"path": "config.json"})} | more) for more in (
            {"id": "amt-s", "model": "Interpolator", "licence": "CC-BY-NC-4.0", "commercial": False},
            {"id": "tapip3d", "model": "Tracker"},
            {"id": "with-package", "model": "P", "repo": None, "source": "package",
             "files": ({"path": "x", "package": "no-such-distribution:x"},)}))
    monkeypatch.setattr(weights, "load_lock", lambda: Lock(version=1, weights=entries))

    def call(*args: str, url: str = "http://127.0.0.1:9") -> tuple[int, str, str]:
        monkeypatch.setenv("HF_ENDPOINT", url)
        with pytest.raises(SystemExit) as end:
            cli.main(["weights", *args])
        out, err = capsys.readouterr()
        assert TOKEN not in out + err
        return int(end.value.code or 0), out, err
    return call


def hub(**changes: Any) -> Hub:
    return Hub({"model.bin": MODEL, "config.json": CONFIG}, lfs=("model.bin",), **changes)


def test_list_fetch_verify(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("list", "--json")
    rows = {r["id"]: r for r in json.loads(out)["weights"]}
    assert code == 0 and rows["tapip3d"]["state"] == "not here" and rows["tapip3d"]["bytes"] is None
    assert rows["tapip3d"]["scorers"] == ["tapip3d"] and {"M19", "M20"} <= set(rows["tapip3d"]["metrics"])
    assert rows["with-package"]["state"] == "its package is not installed"
    code, out, _ = run("list")
    assert code == 0 and "CC-BY-NC-4.0" in out and "non-commercial" in out and str(tmp_path) in out
    assert "Tracker; needed by tapip3d, M19" in out
    with hub() as h:
        code, out, err = run("fetch", "--for", "tapip3d", "--json", url=h.url)
        assert code == 0 and "tapip3d: Tracker; licence MIT" in err
        files = json.loads(out)["weights"]["tapip3d"]
        assert [(f["outcome"], f["sha256"]) for f in files] == [
            ("fetched", hashlib.sha256(d).hexdigest()) for d in (MODEL, CONFIG)]
        assert {a.headers["Authorization"] for a in h.asked} == {f"Bearer {TOKEN}"}
        code, out, _ = run("fetch", "tapip3d", url=h.url)
        assert code == 0 and "tapip3d/model.bin: here, 40,000 bytes" in out
    assert "here" in run("list")[1]
    code, out, _ = run("verify")
    assert code == 0 and out.count("noted") == 2 and hashlib.sha256(MODEL).hexdigest() in out
    (tmp_path / "w/tapip3d/model.bin").write_bytes(MODEL[::-1])
    code, out, err = run("verify")
    assert code == 1 and "wrong" in out and hashlib.sha256(MODEL).hexdigest() in err and "fetch tapip3d" in err
    code, out, _ = run("verify", "--json")
    assert code == 1 and json.loads(out)["ok"] is False
    # Another folder, by an option; nothing is there.
    code, out, err = run("verify", "--dir", str(tmp_path / "other"))
    assert code == 0 and "no weights are in" in err
    assert run("verify", "tapip3d", "--dir", str(tmp_path / "other"))[0] == 1


def test_licences_that_ask(run: Run, tmp_path: Path) -> None:
    with hub() as h:
        code, _, err = run("fetch", "amt-s", url=h.url)
        assert code == 2 and "licence CC-BY-NC-4.0 (non-commercial)" in err and "--accept-licence" in err
        assert not h.asked
        assert run("fetch", "--for", "amt_s", "--accept-licence", url=h.url)[0] == 0
    assert (tmp_path / "w/amt-s/model.bin").read_bytes() == MODEL


def test_refusals(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("fetch")[0] == 2
    code, _, err = run("fetch", "absent")
    assert code == 2 and "Known: amt-s, tapip3d" in err
    assert run("fetch", "--for", "M999")[0] == 2
    assert run("verify", "absent")[0] == 2
    assert run("fetch", "--for", "reference_frames")[::2] == (0, "reference_frames: no weights are needed\n")
    code, _, err = run("fetch", "tapip3d", "--offline")
    assert code == 2 and "offline" in err
    monkeypatch.setenv("SPATIALBENCH_OFFLINE", "1")
    assert run("fetch", "tapip3d")[0] == 2
    monkeypatch.delenv("SPATIALBENCH_OFFLINE")
    code, _, err = run("fetch", "with-package")
    assert code == 1 and "pip install no-such-distribution" in err
    code, _, err = run("fetch", "tapip3d")  # nothing listens at that port
    assert code == 1 and "cannot be fetched" in err and "continues" in err
    with hub(acts={"/api/models/org/tiny/revision/main": [lambda a: a.send(401)]}) as h:
        code, _, err = run("fetch", "tapip3d", url=h.url)
    assert code == 1 and f"{h.url}/org/tiny with an account" in err
