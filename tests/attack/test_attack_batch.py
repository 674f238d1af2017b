"""Batches under attack: names, records and locks that want to cost more than one unit, or be mixed up."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from spatialbench.cli.main import main
from spatialbench.errors import ConfigError, ResultError, UsageError
from spatialbench.report.leaderboard.tables import print_rows
from spatialbench.runs.batch import read_finished
from spatialbench.runs.batch.lock import hold
from spatialbench.runs.batch.unitfile import inputs_digest
from spatialbench.runs.folder_plan import plan_folder
from spatialbench.runs.gather import gather
from spatialbench.types import Status
from spatialbench.types.strict import read_yaml
from tests.runs.batch.batch_worlds import batch, exact_files, make_world, make_worlds, quick_protocol_file
from tests.runs.fake_results import record, write_batch, write_unit

ONLY = ("--only", "metric=M13", "--no-pages", "--workers", 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six worlds, and ``whole``, a batch of them."""
    place = tmp_path_factory.mktemp("attack-batch")
    make_worlds(place / "worlds", 6)
    quick_protocol_file(place)
    assert batch(*common(place), "-o", place / "whole", *ONLY).returncode == 0
    return place


def common(place: Path) -> list[object]:
    return ["--worlds", place / "worlds", "--protocol", place / "quick.yaml"]


def rewrite(path: Path, edit: Callable[[str], str]) -> None:
    """Edit a record and close it again with the right hash, as an attacker would."""
    body, tail, _ = path.read_text(encoding="utf-8").rpartition(',"sha256":"')
    changed = edit(body)
    assert changed != body
    path.write_text(f'{changed}{tail}{hashlib.sha256(changed.encode()).hexdigest()}"}}\n', encoding="utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux alone")
def test_a_name_that_is_no_utf8_costs_nothing(tmp_path: Path) -> None:
    quick_protocol_file(tmp_path)
    make_world(tmp_path / "worlds" / "good.glb")
    name = b"bad\xff\xfe.glb"
    shutil.copy(tmp_path / "worlds" / "good.glb", os.path.join(os.fsencode(tmp_path / "worlds"), name))
    for done in (2, 0):  # and the record is still good the second time
        run = batch(*common(tmp_path), "-o", tmp_path / "out", *ONLY)
        assert run.returncode == 0, run.stderr
        assert f"{done} done, 0 failed, {2 - done} kept" in run.stdout
    assert len(inputs_digest([{"name": os.fsdecode(name)}], None)) == 64


EDITS: tuple[Callable[[str, str], str], ...] = (
    lambda b, case: b.replace('"value":0.', '"value":NaN,"was":0.'),
    lambda b, case: b.replace('"value":0.', '"value":1e999,"was":0.'),
    lambda b, case: b.replace(f'"case":"{case}"', '"case":"room5"', 1),
    lambda b, case: b.replace('"metric":"M13"', '"metric":"M12"'),
    lambda b, case: b.replace('"measurements":[', f'"measurements":[{{"case":"{case}","metric":"M13","reason":"x",'
                                                  '"status":"unavailable","system":"local","version":1},'),
)


def test_what_a_summary_calls_damaged_the_batch_runs_again(place: Path, tmp_path: Path) -> None:
    """Each edit in a record of its own; one batch runs them all again, and nothing else."""
    out = Path(shutil.copytree(place / "whole", tmp_path / "out"))
    for k, edit in enumerate(EDITS):
        case = f"room{k}"
        rewrite(out / "units" / "local" / case / "unit.json", lambda b, edit=edit, case=case: edit(b, case))
    assert [r.status for r in read_finished(out)] == [*["damaged"] * 5, "done"]
    run = batch(*common(place), "-o", out, *ONLY)
    assert "5 done, 0 failed, 1 kept" in run.stdout
    for k in range(len(EDITS)):
        assert any(f"room{k}" in line and "It is run again" in line for line in run.stderr.splitlines()), run.stderr
    assert exact_files(out) == exact_files(place / "whole")


def test_a_world_that_goes_while_the_batch_runs_is_unavailable_and_not_invalid(tmp_path: Path) -> None:
    from spatialbench.runs.batch.job import UnitJob, Work
    from spatialbench.runs.batch.measure import measure_unit
    from spatialbench.runs.single import prepare
    from spatialbench.runs.store import read_units
    from spatialbench.types import load_protocol

    prepare()
    protocol = load_protocol("happyworld-spatial-1-fast")
    (tmp_path / "there.glb").write_bytes(b"no world")
    for name, status in (("gone", Status.UNAVAILABLE), ("there", Status.INVALID)):
        job = UnitJob("x", name, {"main": str(tmp_path / f"{name}.glb")}, ("M07",), root=str(tmp_path))
        message = job.message(protocol, tmp_path / name, metrics=("M07",), keep=(), settings=(), page=False)
        assert measure_unit(Work.read(message)).status == "failed"
        assert [m.status for m in read_units(tmp_path / name / "units.jsonl")] == [status]


def test_shards_of_two_splits_do_not_meet(tmp_path: Path) -> None:
    def take(i: int, n: int) -> object:
        return hold(tmp_path, (i, n), plan_is=lambda: True, write_plan=lambda: None)

    with take(0, 2), take(1, 2):
        with pytest.raises(UsageError, match=r"another split \(0-of-2\)"), take(0, 3):
            pass
        with pytest.raises(UsageError, match="shard 0/2"), take(0, 2):
            pass
    with take(0, 3):  # what the others have left behind holds nobody up
        pass


@pytest.mark.parametrize("names", [("a b", "a-b"), ("世界", "星星"), ("", "local"), ("x" * 101, "x" * 102)])
def test_two_folders_are_never_one_system(names: tuple[str, str], tmp_path: Path) -> None:
    for name in names:
        make_world(tmp_path / name / "room.glb")
    with pytest.raises(UsageError, match="would both be the system"):
        plan_folder(tmp_path, by_folder=True)
    assert len(plan_folder(tmp_path).worlds) == 2


@pytest.mark.parametrize("uri", ["../good/room.glb", "own.glb", "./own.glb", "%6Fwn.glb"])
def test_no_gltf_hides_a_world(uri: str, tmp_path: Path) -> None:
    make_world(tmp_path / "good" / "room.glb")
    make_world(tmp_path / "evil" / "own.glb")
    (tmp_path / "evil" / "e.gltf").write_text(json.dumps({"asset": {"version": "2.0"}, "buffers": [
        {"uri": uri, "byteLength": 4}]}))
    assert len(plan_folder(tmp_path).worlds) == 3


def test_a_protocol_with_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    out = write_batch(tmp_path / "out", [("x", "a")])
    write_unit(out, "x", "a", [record("M07", "x", "a", 0.5)])
    data = json.loads((out / "batch.json").read_text())
    data["protocol"]["id"] = float("nan")
    text = json.dumps(data["protocol"], sort_keys=True, separators=(",", ":"))
    data["protocol_hash"] = hashlib.sha256(text.encode()).hexdigest()
    (out / "batch.json").write_text(json.dumps(data))
    with pytest.raises(ResultError, match="does not have the hash"):
        gather([out])


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_no_number_is_cut_on_a_narrow_terminal(width: int) -> None:
    rows = [("metric", "system", "mean", "interval", "n"), ("M07 Hole rate of origin views (lower is better)", "ours",
                                                            "97.07", "[96.71, 97.43]", "1 of 10")]
    out = io.StringIO()
    print_rows(rows, Console(file=out, force_terminal=True, width=width, color_system=None), left=2)
    for word in ("M07", "ours", "97.07", "[96.71, 97.43]", "1 of 10"):
        assert word in out.getvalue()


def test_protocols_of_two_batches_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = write_batch(tmp_path / "a", [("x", "a")])
    b = write_batch(tmp_path / "b", [("x", "a")], settings=("views.probe_size=16",))
    with pytest.raises(SystemExit) as ended:
        main(["protocols", "diff", str(a), str(b)])
    assert ended.value.code == 0
    assert "views.probe_size" in capsys.readouterr().out


def test_few_bytes_of_yaml_cannot_name_very_many_values(tmp_path: Path) -> None:
    """20,000 aliases of a list of 2,000 are 40 million values; a file of ordinary size holds thousands."""
    path = tmp_path / "bomb.yaml"
    path.write_text("a: &o [" + ", ".join(["1"] * 2000) + "]\nb:\n" + "- *o\n" * 20_000)
    with pytest.raises(ConfigError, match="aliases"):
        read_yaml(path)
    path.write_text("a: &o {x: 1}\nb: [*o, *o]\n")
    assert read_yaml(path) == {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}]}
