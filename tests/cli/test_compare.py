"""``spatialbench compare``: paired, in words that the numbers bear out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from spatialbench.cli.compare import compare
from spatialbench.errors import SpatialbenchError
from tests.runs.fake_results import Value, record, write_batch, write_unit

N = 10


def make(out: Path, systems: dict[str, dict[str, Sequence[Value]]]) -> Path:
    """system -> metric -> values of case 0, 1, ...; None is no record."""
    units = [(s, f"case{i}") for s, by in systems.items() for i in range(max(map(len, by.values())))]
    write_batch(out, units)
    for s, c in units:
        i = int(c[4:])
        write_unit(out, s, c, [record(id, s, c, v[i]) for id, v in systems[s].items()
                               if i < len(v) and v[i] is not None])
    return out


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(compare, [str(a) for a in arguments])
    if isinstance(result.exception, SpatialbenchError):
        return result.exception.exit_code, result.stdout, str(result.exception)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """M08 (higher is better): new wins all of ten. M07 (lower is better): new is higher in all, so old wins.
    M12: five each way. M25: on three cases only."""
    out = tmp_path_factory.mktemp("compare") / "both"
    low = [0.1 + 0.01 * i for i in range(N)]
    high = [0.5 + 0.011 * i for i in range(N)]
    mixed = [(0.4 if i % 2 else 0.6) for i in range(N)]
    none = ("invalid", "no support")
    return make(out, {
        "new": {"M08": high, "M07": high, "M12": mixed, "M25": [1.0] * 3 + [none] * (N - 3)},
        "old": {"M08": low, "M07": low, "M12": [1.0 - x for x in mixed], "M25": [0.0] * N}})


def test_differences_tests_and_verdicts(folder: Path) -> None:
    code, text, warnings = run(folder, "--system-a", "new", "--system-b", "old", "--json")
    assert code == 0
    assert warnings == ""
    data = json.loads(text)
    rows = {m["metric"]: m for m in data["comparison"]["metrics"]}
    # Means of 0.5 + 0.011 i and 0.1 + 0.01 i over i = 0..9 differ by 0.4 + 0.001 * 4.5.
    assert rows["M08"]["difference"] == pytest.approx(0.4045, abs=1e-12)
    assert (rows["M08"]["wins"], rows["M07"]["losses"], rows["M12"]["wins"], rows["M12"]["losses"]) == (10, 10, 5, 5)
    # Ten of ten heads or tails: 2/2^10. Of the four, it is the smallest twice: times 4, and times 4 again (monotone).
    assert rows["M08"]["p_value"] == 2 / 2**10
    assert rows["M08"]["p_holm"] == pytest.approx(8 / 2**10)
    assert rows["M07"]["p_holm"] == pytest.approx(8 / 2**10)
    assert rows["M12"]["p_holm"] == 1.0
    assert data["verdicts"]["metrics"] == {"M07": "old better", "M08": "new better", "M12": "no difference shown",
                                           "M25": "not enough cases"}
    assert data["kept_out"]["M25"] == [{"system": "new", "status": "invalid", "reason": "no support", "cases": 7}]
    levels = {g["level"]: g for g in data["comparison"]["levels"]}
    # W1 is 1 - M07 here: old stands higher by the same difference of means.
    assert levels["W1"]["difference"] == pytest.approx(-40.45, abs=1e-9)
    assert data["verdicts"]["levels"]["W1"] == "old better"
    assert data["verdicts"]["levels"]["W4"] == "not enough cases"


def test_the_order_of_the_two_turns_everything(folder: Path) -> None:
    one, two = (json.loads(run(folder, "--system-a", a, "--system-b", b, "--json")[1])
                for a, b in (("new", "old"), ("old", "new")))
    assert one["verdicts"] == two["verdicts"]
    for m, n in zip(one["comparison"]["metrics"], two["comparison"]["metrics"], strict=True):
        assert m["difference"] == -n["difference"]
        assert m["p_holm"] == n["p_holm"]


def test_two_systems_of_one_folder_need_no_names_and_files_are_written(folder: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "spatialbench", "compare", str(folder), "-o", str(tmp_path / "t")],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    line = next(x for x in done.stdout.splitlines() if x.startswith("M08"))
    assert line.rstrip().endswith("new better")
    assert "10/0/0" in line
    assert "0.0020" in line
    assert "M25: 7 of 10 cases out (new invalid in 7: no support)." in done.stdout
    assert {p.name for p in (tmp_path / "t").iterdir()} == {"comparison.json", "comparison.md"}
    assert "| M08 Navigable ratio" in (tmp_path / "t" / "comparison.md").read_text()
    assert run(folder, "--json")[1] == (tmp_path / "t" / "comparison.json").read_text()


def test_two_folders_with_systems_called_alike(tmp_path: Path) -> None:
    one = make(tmp_path / "one", {"local": {"M08": [0.1] * 8}})
    two = make(tmp_path / "two", {"local": {"M08": [0.2] * 10}})
    code, text, _ = run(one, two, "--json")
    assert code == 0
    data = json.loads(text)
    assert (data["comparison"]["system"], data["comparison"]["baseline"]) == ("local (one)", "local (two)")
    assert data["verdicts"]["metrics"]["M08"] == "local (two) better"
    assert data["cases_of_one_side"] == {"local (one)": [], "local (two)": ["case8", "case9"]}
    assert data["kept_out"]["M08"] == [{"system": "local (one)", "status": "not asked", "reason": "", "cases": 2}]
    assert "Only local (two) was asked for 2 of the cases: case8, case9." in run(one, two)[1]


def test_five_cases_are_never_enough_for_the_sign_test(tmp_path: Path) -> None:
    """2/2^5 is above 0.05, 2/2^6 is not."""
    for n, verdict in ((5, "not enough cases"), (6, "a better")):
        out = make(tmp_path / str(n), {"a": {"M08": [0.9 + 0.01 * i for i in range(n)]}, "b": {"M08": [0.1] * n}})
        assert json.loads(run(out, "--json")[1])["verdicts"]["metrics"]["M08"] == verdict


def test_no_common_case_is_said(tmp_path: Path) -> None:
    out = make(tmp_path / "r", {"a": {"M08": [0.5, ("invalid", "x")]}, "b": {"M08": [("invalid", "y"), 0.5]}})
    code, text, _ = run(out)
    assert code == 0
    assert "No metric was measured on a common case." in text
    assert "Without a common case: M08 (2 invalid)." in text


def test_unclear_systems_end_with_2(folder: Path, tmp_path: Path) -> None:
    single = make(tmp_path / "single", {"only": {"M08": [0.5]}})
    three = make(tmp_path / "three", {s: {"M08": [0.5]} for s in "abc"})
    for arguments, said in (((single,), "cannot be compared with itself"),
                            ((three,), "Name one with --system-a: a, b, c"),
                            ((folder, single), "Name one with --system-a: new, old"),
                            ((folder, "--system-a", "q"), "has no system 'q'"),
                            ((tmp_path / "none", folder), "is not a folder")):
        code, _, error = run(*arguments)
        assert code == 2, arguments
        assert said in error
    assert run(folder, single, "--system-a", "new")[0] == 0


def test_damaged_units_are_warned_of_and_refused_when_strict(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    path = copy / "units" / "new" / "case0" / "unit.json"
    path.write_text(path.read_text()[:-20])
    code, text, warnings = run(copy, "--json")
    assert code == 0
    assert "damaged" in warnings
    rows = {m["metric"]: m for m in json.loads(text)["comparison"]["metrics"]}
    assert rows["M08"]["n_cases"] == N - 1
    assert run(copy, "--strict")[0] == 1
