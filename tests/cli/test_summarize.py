"""``spatialbench summarize`` as a user types it."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from spatialbench.cli.summarize import FORMATS, summarize
from tests.runs.fake_results import record, write_batch, write_run, write_unit

CASES = ("a", "b", "c")
VALUES = {"x": (0.1, 0.2, 0.6), "y": (0.5, 0.7, None)}
"""M08, higher is better, a ratio: its score is the mean."""


def spatialbench(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "spatialbench", "summarize", *map(str, arguments)],
                          capture_output=True, text=True, timeout=120, check=False)


def make(out: Path) -> Path:
    write_batch(out, [(s, c) for s in VALUES for c in CASES])
    for s, values in VALUES.items():
        for c, v in zip(CASES, values, strict=True):
            write_unit(out, s, c, [record("M08", s, c, ("invalid", "no floor") if v is None else v),
                                   record("M02", s, c, ("unavailable", "no model"))], page=True)
    return out


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("summarize") / "results")


@pytest.fixture(scope="module")
def done(results: Path) -> subprocess.CompletedProcess[str]:
    done = spatialbench(results, "-o", results.parent / "tables")
    assert done.returncode == 0, done.stderr
    return done


def test_the_terminal_has_both_tables(done: subprocess.CompletedProcess[str]) -> None:
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    x = next(line for line in lines if line.startswith("x "))
    y = next(line for line in lines if line.startswith("y "))
    # (0.1 + 0.2 + 0.6) / 3 and (0.5 + 0.7) / 2; one of the two metrics of W2.
    assert "30.00 [" in x
    assert "60.00 [" in y
    assert "1 of 2" in x
    metric = [line.split() for line in lines if line.startswith("M08") or "2 of 3" in line]
    assert "0.30" in metric[0]
    assert "0.60" in metric[1]
    assert "Without a value: M02 (6 unavailable)." in lines
    assert any("Student's t below 30 cases" in line for line in lines)


def test_all_files_are_written(done: subprocess.CompletedProcess[str], results: Path) -> None:
    tables = results.parent / "tables"
    assert {p.name for p in tables.iterdir()} == {name for name in FORMATS.values() if name}
    rows = {r["system"]: r for r in csv.DictReader((tables / "leaderboard.csv").read_text().splitlines())}
    assert (rows["x"]["W2"], rows["y"]["W2"], rows["y"]["M08 n"]) == ("30.00", "60.00", "2 of 3")
    assert rows["x"]["M02"] == ""
    data = json.loads((tables / "summary.json").read_text())
    means = {s["system"]: {m["metric"]: m["mean"] for m in s["metrics"]} for s in data["summary"]["systems"]}
    assert means == {"x": {"M02": None, "M08": pytest.approx(0.3)}, "y": {"M02": None, "M08": pytest.approx(0.6)}}
    assert "| x | 3 | 30.00" in (tables / "leaderboard.md").read_text()
    assert r"x & 3 & 30.00" in (tables / "leaderboard.tex").read_text()
    assert "../results/units/x/a/report.html" in (tables / "leaderboard.html").read_text()


def test_parquet_holds_every_measurement_and_no_number_for_nothing(
        done: subprocess.CompletedProcess[str], results: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(results.parent / "tables" / "measurements.parquet")
    rows = table.to_pylist()
    assert len(rows) == 2 * 3 * 2
    assert sorted(r["value"] for r in rows if r["value"] is not None) == [0.1, 0.2, 0.5, 0.6, 0.7]
    assert {r["status"] for r in rows if r["value"] is None} == {"invalid", "unavailable"}
    hash = json.loads((results / "batch.json").read_text())["protocol_hash"]
    assert table.schema.metadata[b"spatialbench.protocol_hash"].decode() == hash


def test_json_is_the_file_and_nothing_else(done: subprocess.CompletedProcess[str], results: Path) -> None:
    said = spatialbench(results, "--json")
    assert said.returncode == 0
    assert said.stdout == (results.parent / "tables" / "summary.json").read_text()


def run(*arguments: object) -> tuple[int, str, str, BaseException | None]:
    """In this process, for what does not need another."""
    from spatialbench.errors import SpatialbenchError

    result = CliRunner().invoke(summarize, [str(a) for a in arguments])
    error = result.exception if isinstance(result.exception, SpatialbenchError) else None
    code = error.exit_code if error is not None else result.exit_code
    return code, result.stdout, result.stderr if error is None else str(error), error


def test_nothing_is_written_without_a_folder(results: Path) -> None:
    before = sorted(results.rglob("*"))
    code, out, _, _ = run(results, "--no-intervals")
    assert code == 0
    assert "file:" not in out
    assert "rank" not in out
    assert "[" not in out
    assert sorted(results.rglob("*")) == before


def test_formats_are_chosen(results: Path, tmp_path: Path) -> None:
    code, out, _, _ = run(results, "-o", tmp_path / "t", "--format", "csv,md")
    assert code == 0
    assert {p.name for p in (tmp_path / "t").iterdir()} == {"leaderboard.csv", "leaderboard.md"}
    assert "M08" not in out
    code, _, error, _ = run(results, "-o", tmp_path / "t", "--format", "csv,xls")
    assert code == 2
    assert "no format 'xls'" in error
    code, _, error, _ = run(results, "--format", "csv")
    assert code == 2
    assert "-o" in error


def test_without_pyarrow_it_is_said_what_to_install(
        results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, error, _ = run(results, "-o", tmp_path / "t", "--format", "parquet")
    assert code == 1
    assert 'pip install "spatialbench[parquet]"' in error
    assert not (tmp_path / "t").exists()
    code, out, _, _ = run(results, "-o", tmp_path / "t")
    assert code == 0
    assert "parquet" not in out


def test_metrics_are_chosen_for_tables_only(results: Path) -> None:
    code, out, _, _ = run(results, "--metrics", "M02")
    assert code == 0
    assert "M08" not in out
    assert "30.00" in out
    code, _, error, _ = run(results, "--metrics", "M77")
    assert code == 2
    assert "There are: M02, M08" in error


def test_two_systems_called_alike_get_other_names(tmp_path: Path) -> None:
    for i in (1, 2):
        write_run(tmp_path / f"run{i}", "local", "a", [record("M08", "local", "a", 0.1 * i)])
    code, _, error, _ = run(tmp_path / "run1", tmp_path / "run2")
    assert code == 1
    assert "measured in both" in error
    code, out, warnings, _ = run(tmp_path / "run1", "--system", f"second={tmp_path / 'run2'}")
    assert code == 0
    assert out.splitlines()[1].startswith("local")
    assert out.splitlines()[2].startswith("second")
    assert "One case only: a preview" in warnings
    for bad in ("second", "=x", "a=", f"z={tmp_path / 'none'}"):
        assert run(tmp_path / "run1", "--system", bad)[0] == 2
    assert run(tmp_path / "run1", tmp_path / "run1")[0] == 2


def test_a_folder_of_several_systems_has_no_one_name(results: Path) -> None:
    code, _, error, _ = run("--system", f"new={results}")
    assert code == 2
    assert "holds 2 systems (x, y), not one" in error


def test_strict_refuses_what_is_not_complete(tmp_path: Path) -> None:
    out = make(tmp_path / "r")
    assert run(out, "--strict")[0] == 0
    (out / "units" / "x" / "a" / "unit.json").unlink()
    code, _, warnings, _ = run(out)
    assert code == 0
    assert "1 unit of 6 not run yet: x/a" in warnings
    code, _, error, _ = run(out, "--strict")
    assert code == 1
    assert "x/a" in error


@pytest.mark.parametrize("arguments", [(), ("nowhere",), ("--interval", "0.999", "--replicates", "100", "DIR"),
                                       ("--interval", "2", "DIR"), ("--aggregation", "none", "DIR")])
def test_bad_usage_ends_with_2(results: Path, arguments: tuple[str, ...]) -> None:
    assert run(*(results if a == "DIR" else a for a in arguments))[0] == 2


def test_other_protocols_end_with_1(results: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "o", "z", "a", [record("M08", "z", "a", 0.5)], protocol="happyworld-spatial-1-fast")
    done = spatialbench(results, other)
    assert done.returncode == 1
    assert "never averaged" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_hostile_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    name = "\x1b[31mred[bold]x\x07"
    out = write_batch(tmp_path / "r", [(name, "a\x1b[2J")])
    write_unit(out, name, "a\x1b[2J", [record("M08", name, "a\x1b[2J", 0.5)], status="failed", reason="\x1b[2J")
    code, text, warnings, _ = run(out)
    assert code == 0
    assert "\x1b" not in text + warnings
    assert "\x07" not in text + warnings
    assert "[bold]" in text


def test_the_same_results_elsewhere_give_the_same_tables(results: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(results, tmp_path / "copy"))
    texts = []
    for place in (results, copy):
        assert run(place, "-o", tmp_path / place.name / "t", "-q")[0] == 0
        folder = tmp_path / place.name / "t"
        texts.append([(folder / n).read_bytes() for n in ("leaderboard.csv", "leaderboard.md", "leaderboard.tex",
                                                          "summary.json", "measurements.parquet")])
    assert texts[0] == texts[1]


def test_a_stand_in_is_named_where_the_score_is_a_dash(tmp_path: Path) -> None:
    """By stand-ins alone, in part, and with cases that have no value; the official metric beside them has a score."""
    stand_in = {"flags": ["substitute:reference_tracks"]}
    write_batch(tmp_path / "r", [("x", c) for c in CASES])
    for k, c in enumerate(CASES):
        write_unit(tmp_path / "r", "x", c, [
            record("M08", "x", c, 0.5), record("M20", "x", c, 0.25, **stand_in),
            record("M09", "x", c, 0.75, **(stand_in if k == 0 else {})),
            record("M24", "x", c, ("unavailable", "no judge") if k else 0.5, **({} if k else stand_in))])
    code, out, _, _ = run(tmp_path / "r", "-o", tmp_path / "t", "--no-intervals", "--format",
                          "table,csv,md,tex,json,html")
    assert code == 0
    said = {"M20": "stand-in only (3 of 3)", "M09": "3 of 3, 1 by a stand-in", "M24": "stand-in only (1 of 3)"}
    for id, words in said.items():
        (line,) = [line for line in out.splitlines() if line.startswith(id)]
        assert re.search(rf"0\.\d\d +– +{re.escape(words)}$", line), line
    (official,) = [line for line in out.splitlines() if line.startswith("M08")]
    assert re.search(r" 50\.00 +3 of 3$", official)
    (row,) = csv.DictReader((tmp_path / "t" / "leaderboard.csv").read_text().splitlines())
    assert {id: row[f"{id} n"] for id in said} == said and all(row[id] == "" for id in said)
    for name in ("leaderboard.md", "leaderboard.tex", "leaderboard.html"):
        assert all(words in (tmp_path / "t" / name).read_text() for words in said.values()), name
    (system,) = json.loads((tmp_path / "t" / "summary.json").read_text())["summary"]["systems"]
    assert {m["metric"]: m["coverage"] for m in system["metrics"] if m["metric"] in said} == said
    gaps = {g["metric"]: g["why"] for level in system["groups"] for g in level["missing"]}
    assert {id: gaps[id] for id in said} == {id: f"{words}: reference_tracks" for id, words in said.items()}
