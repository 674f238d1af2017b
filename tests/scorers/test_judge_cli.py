"""``spatialbench judge``: ask, prompts, cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from spatialbench.cli.judge import judge
from spatialbench.errors import BackendUnavailableError, UsageError
from tests.scorers.judge_server import Act, JudgeServer, flat

KEY = "sk-cli-0123456789abcdef"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("http_proxy", "https_proxy", "all_proxy", "SPATIALBENCH_JUDGE", "SPATIALBENCH_JUDGE_MODEL",
                 "SPATIALBENCH_JUDGE_PRICES", "SPATIALBENCH_JUDGE_URL"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("SPATIALBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SPATIALBENCH_JUDGE_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "200")
    for name, value in (("dark", 20), ("bright", 220)):
        Image.fromarray(flat(value, 64)).save(tmp_path / f"{name}.png")
    return tmp_path


@pytest.fixture
def server(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgeServer]:
    pytest.importorskip("openai", reason="the extra 'judge' is not installed")
    with JudgeServer() as running:
        monkeypatch.setenv("SPATIALBENCH_JUDGE_URL", running.url)
        yield running


def call(*arguments: object, fails: type[BaseException] | None = None, text: str | None = None) -> Result:
    done = CliRunner().invoke(judge, [str(a) for a in arguments], input=text)
    if fails is not None:
        assert isinstance(done.exception, fails), done.output
    elif done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_ask_then_from_the_cache(server: JudgeServer, place: Path) -> None:
    arguments = ("ask", "view-quality-1", place / "dark.png", place / "bright.png", "--each", "-o", place / "out")
    first = call(*arguments)
    assert first.exit_code == 0
    lines = first.output.splitlines()
    assert lines[0] == ('0001 dark.png: reason="seen", artifact_free=false, sharp=false, plausible_layout=false')
    assert lines[1].startswith("0002 bright.png: ")
    assert "sharp=true" in lines[1]
    assert lines[2].endswith(": 2 calls with 2 pictures, 1,400 tokens in, 40 out, price not known; 0 answered from the "
                             "cache")
    written = {p.name: p.read_bytes() for p in (place / "out").iterdir()}
    again = call(*arguments)
    assert len(server.calls) == 2
    assert "(cached)" in again.output
    assert "0 calls with 0 pictures" in again.output
    assert "2 answered from the cache" in again.output
    assert (place / "out" / "answers.jsonl").read_bytes() == written["answers.jsonl"]
    for path in place.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
    assert KEY not in first.output + again.output
    call(*arguments, "--no-cache")
    call(*arguments, "--refresh-cache")
    assert len(server.calls) == 6


def test_dry_run_limit_and_price(server: JudgeServer, place: Path) -> None:
    (place / "prices.yaml").write_text('prices: [{model: "*", input_per_million: 1000, output_per_million: 1000}]')
    (place / "judge.yaml").write_text(f"base_url: {server.url}\nmodel: own-model\nprices: prices.yaml\n")
    ask = ("ask", "object-view-1", place / "dark.png", "--field", "target=a red chair", "--judge", place / "judge.yaml")
    dry = json.loads(call(*ask, "--repeats", 3, "--dry-run", "--json").output)
    assert server.calls == []
    t = dry["tally"]
    assert (t["calls"], t["images"], t["output"]) == (3, 3, 900)
    assert t["cost"] == pytest.approx((t["input"] + 900) / 1000)
    said = call(*ask, "--repeats", 3, "--dry-run").output
    assert said.startswith(f"own-model at {server.url}: would make 3 calls with 3 pictures")
    limited = call(*ask, "--repeats", 3, "--limit", 1)
    assert limited.exit_code == 1
    assert "object-view [1]: not_asked: the limit on calls was reached" in limited.output
    assert "0.7200 USD" in limited.output  # 720 tokens at 1000 a million
    assert server.calls[0].body["model"] == "own-model"
    stopped = call(*ask, "--max-cost", 0.1, "--no-cache")
    assert "the next call could pass the cap on cost" in stopped.output
    assert "is no amount of money" in str(call(*ask, "--max-cost", "nan", fails=UsageError).exception)
    assert len(server.calls) == 1


def test_an_error_ends_with_1_and_json_has_it(server: JudgeServer, place: Path, monkeypatch: pytest.MonkeyPatch,
                                              ) -> None:
    with JudgeServer(lambda c: Act(text="Certainly!")) as chatty:
        monkeypatch.setenv("SPATIALBENCH_JUDGE_URL", chatty.url)
        done = call("ask", "view-quality-1", place / "dark.png", "--json", "--model", "m-latest")
    assert done.exit_code == 1
    data = json.loads(done.output)
    assert data["answers"][0]["status"] == "judge_error"
    assert data["answers"][0]["record"]["raw"] == "Certainly!"
    assert data["tally"]["errors"] == 1


def test_what_is_missing_is_named(place: Path) -> None:
    done = call("ask", "view-quality-1", place / "dark.png", fails=BackendUnavailableError)
    assert "no judge is named" in str(done.exception)
    assert "1 to 1 are asked for" in str(call("ask", "view-quality-1", fails=UsageError).exception)
    assert "asked for are ['target']" in str(call("ask", "object-view-1", place / "dark.png",
                                                  fails=UsageError).exception)
    assert call("ask", "object-view-1", place / "dark.png", "--field", "target").exit_code == 2
    call("ask", "view-quality-1", place / "dark.png", "--model", "m", fails=UsageError)


def test_prompts(place: Path) -> None:
    rows = json.loads(call("prompts", "--json").output)
    assert [r["name"] for r in rows] == ["edit-execution-1", "object-view-1", "view-quality-1"]
    assert "M21, M22, M23, M24" in " ".join(call("prompts").output.split())
    shown = call("prompts", "view-quality-1").output
    assert shown.startswith(f"# sha256: {rows[2]['sha256']}\n")
    again = place / "again.yaml"
    again.write_text(shown)
    assert json.loads(call("prompts", again, "--json").output)["sha256"] == rows[2]["sha256"]


def test_cache_commands(server: JudgeServer, place: Path) -> None:
    assert "0 answers of 0 models" in call("cache", "stats").output
    call("ask", "view-quality-1", place / "dark.png", place / "bright.png", "--each")
    call("ask", "edit-execution-1", place / "dark.png", "--field", "instruction=paint it red", "--model", "other")
    stats = json.loads(call("cache", "stats", "--json").output)
    assert (stats["answers"], stats["models"], stats["prompts"]) == (3, 2, 2)
    assert stats["path"] == str(place / "cache" / "judge.sqlite")
    listed = json.loads(call("cache", "list", "--json").output)
    assert [(g["model"], g["prompt"], g["answers"]) for g in listed] == [
        ("Qwen/Qwen3-VL-8B-Instruct", "view-quality-1", 2), ("other", "edit-execution-1", 1)]
    assert "edit-execution-1" in call("cache", "list").output
    assert call("cache", "prune").exit_code == 2
    assert call("cache", "prune", "--older-than", 1).output == "0 answers dropped\n"
    assert call("cache", "prune", "--model", "other").output == "1 answers dropped\n"
    assert call("cache", "clear", text="n\n").exit_code == 1
    assert call("cache", "clear", text="y\n").output.endswith("2 answers dropped\n")
    assert json.loads(call("cache", "stats", "--json").output)["answers"] == 0
    for size in ("nan", "inf", "1e300"):
        assert call("cache", "prune", "--max-mb", size).exit_code == 2
    assert call("cache", "clear", "--yes").output == "0 answers dropped\n"
