"""Trials in worker processes: the same bits, and a crash costs one trial."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spatialbench.errors import SimulationError
from spatialbench.physics.placement import Release, plate, run_plan, run_trials, workers
from spatialbench.physics.placement.workers import end_words, run_in_processes
from spatialbench.types import PlacementSettings, PlannedTrial, Support
from tests.physics.placement_scenes import FLAT, read_case, rectangle, sheet

S = PlacementSettings()
SHORT = PlacementSettings(steps=24)
TABLE = rectangle(-1, -1, 1, 1)


def test_any_number_of_processes_gives_the_same_bits(data_dir: Path) -> None:
    case, v, f, releases = read_case(data_dir / "oracle" / "placement" / "holed_table.json")
    seen: list[tuple[int, int]] = []
    runs = [run_trials(v, f, releases, case["support_boundary"], S, workers=n, record=100,
                       progress=lambda a, b: seen.append((a, b))) for n in (0, 1, 2)]
    assert repr(runs[0]) == repr(runs[1]) == repr(runs[2])
    assert [r.path for r in runs[0]] == [r.path for r in runs[2]]
    assert seen == [(i, 6) for i in range(1, 7)] * 3
    # 12 poses on the way and the last one; the first is the release itself.
    assert {len(r.path) for r in runs[0]} == {13}
    for r in runs[0]:
        assert r.path[0] == (*r.release_centre, *r.release_quaternion)
        assert r.path[-1] == (*r.rest_centre, *r.rest_quaternion)
    # Falling freely from rest for 100 steps would be 0.85 m: the path of a body that rests is short.
    assert abs(runs[0][0].path[1][2] - 0.76) < 0.001


def _releases(n: int) -> list[Release]:
    return [Release(i, (0.1 * i, 0.0, 0.77), FLAT, 0.75) for i in range(n)]


def test_a_crash_costs_one_trial_and_says_how_it_ended() -> None:
    v, f = sheet(-1, -1, 1, 1, 0.75)
    motions = run_in_processes(v, f, SHORT, plate(SHORT), _releases(5), 0, 2, module="tests.physics.crashing_worker")
    assert [bool(m.error) for m in motions] == [False, False, True, False, False]
    assert motions[2].error == "PyBullet crashed in this trial: its process was ended by SIGSEGV"
    whole = run_trials(v, f, _releases(5), TABLE, SHORT)
    for i in (0, 1, 3, 4):
        assert motions[i].position == whole[i].rest_centre


def test_a_crash_is_neither_a_success_nor_a_failure_of_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORKER", "tests.physics.crashing_worker")
    v, f = sheet(-1, -1, 1, 1, 0.75)
    out = run_trials(v, f, _releases(4), TABLE, SHORT, workers=1)
    assert [r.success for r in out] == [True, True, False, True]
    assert (out[2].reasons, bool(out[2].error)) == ((), True)
    # A planned set has no share without it: M25 becomes invalid, not lower.
    places = [PlannedTrial(i, 0.3 * i - 0.5, 0.0, dict.fromkeys(("footprint_median", "plane", "footprint_max"), 0.75))
              for i in range(3)]
    support = Support("s", TABLE, 0.75, (0.0, 0.0, 0.75), 4.0, "case")
    with pytest.raises(SimulationError, match="SIGSEGV"):
        run_plan(v, f, support, places, SHORT, workers=1)


def test_a_worker_that_does_not_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "no_start.py"
    module.write_text("from tests.physics.crashing_worker import main_loading as main\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SimulationError, match=r"ended by itself \(exit code 7\) while it loaded"):
        run_in_processes(*sheet(-1, -1, 1, 1, 0.75), SHORT, plate(SHORT), _releases(1), 0, 1, module="no_start")


def test_what_pybullet_refuses_is_refused_in_workers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    v, f = sheet(-1, -1, 1, 1, 0.75)
    with pytest.raises(SimulationError, match="do not exist"):
        run_trials(v, f + 3, _releases(1), TABLE, SHORT, workers=1)
    far = v.copy()
    far[0] = 1e30  # finite, and far out of anything: an answer or an error, but no end of this process
    out = run_trials(far, f, _releases(2), TABLE, SHORT, workers=1)
    assert len(out) == 2


def test_a_worker_starts_without_what_it_does_not_need() -> None:
    """Starting one costs little more than numpy: neither the checked types nor scipy and shapely are loaded."""
    code = ("import sys; from spatialbench.physics.placement.worker import main; "
            "print([m for m in ('pydantic', 'yaml', 'scipy', 'shapely', 'spatialbench.types') if m in sys.modules])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(("alone", "most"), [(600.0, 1), (0.0, 3)])
def test_only_what_takes_long_is_shared(monkeypatch: pytest.MonkeyPatch, alone: float, most: int) -> None:
    monkeypatch.setattr(workers, "ALONE", alone)
    started: list[str] = []
    start = workers.start_process
    monkeypatch.setattr(workers, "start_process", lambda *a: started.append(a[0]) or start(*a))
    v, f = sheet(-1, -1, 1, 1, 0.75)
    out = run_trials(v, f, _releases(6), TABLE, SHORT, workers=3)
    assert repr(out) == repr(run_trials(v, f, _releases(6), TABLE, SHORT))
    assert len(started) == most


def test_exit_codes_in_words() -> None:
    assert end_words(-9) == "was ended by SIGKILL"
    assert end_words(1) == "ended by itself (exit code 1)"
    assert end_words(-250) == "ended by itself (exit code -250)"


def test_files_of_a_job_hold_no_pickle(tmp_path: Path) -> None:
    v, f = sheet(-1, -1, 1, 1, 0.75)
    workers.write_job(tmp_path, v, f, S, plate(S), record=0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["faces.npy", "job.json", "vertices.npy"]
    assert np.array_equal(np.load(tmp_path / "vertices.npy", allow_pickle=False), v)
