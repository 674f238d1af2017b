"""What a unit says of its scorers is of that unit alone, whatever its process has measured before."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spatialbench.runs import scoring as scoring_module
from spatialbench.runs.batch.job import UnitJob, Work
from spatialbench.runs.batch.measure import measure_unit
from spatialbench.runs.batch.unitfile import read_unit
from spatialbench.runs.kept_scoring import KeptScoring, read_kept
from spatialbench.runs.lending import tally_since
from spatialbench.runs.run_files import write_results
from spatialbench.runs.scoring import Scoring, named_folder
from spatialbench.runs.single import RunOptions, prepare, run_world
from spatialbench.scorers import registry
from spatialbench.scorers.judge import Answer, Tally, read_answers
from spatialbench.scorers.judge.answers import answers_text
from spatialbench.scorers.registry import ScorerSpec
from spatialbench.types import Measurement, Status, load_protocol
from tests.runs.batch.batch_worlds import make_worlds, quick_protocol_file

PLUGS = {"plug_a": "topiq_nr", "plug_b": "pi"}
"""Stand-ins of the scorers of M01 and M03."""


class Rater:
    """A rating is the mean; ``bad`` ones are no numbers."""

    def __init__(self, bad: bool = False) -> None:
        self.identity = {"weights": "0" * 64}
        self.bad = bad

    def rate(self, images: Any, text: str = "") -> np.ndarray:
        return np.array([np.nan if self.bad else i.mean() for i in images])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for id, official in PLUGS.items():
        monkeypatch.setitem(registry._SPECS, id, ScorerSpec(id, f"the rater {id}", "rating", "tests",
                                                            lambda opening: Rater(), stands_in_for=official))
    scoring_module._BOXES.clear()
    quick_protocol_file(tmp_path)
    make_worlds(tmp_path / "worlds", 3)
    prepare()
    yield tmp_path
    scoring_module._BOXES.clear()


def measure(place: Path, out: str, case: str, metrics: tuple[str, ...], keep: tuple[str, ...] = (),
            **scoring: Any) -> dict[str, Any]:
    """A unit, as a worker gets it; its ``run.json``."""
    asked = tuple(sorted({*metrics, *keep}))
    settings = (f"metrics=[{', '.join(asked)}]", "scorers.substitutes={topiq_nr: plug_a, pi: plug_b}")
    protocol = load_protocol(str(place / "quick.yaml"), settings)
    job = UnitJob("x", case, {"main": str(place / "worlds" / f"{case}.glb")}, asked, root=str(place / "worlds"))
    message = job.message(protocol, place / out / case, metrics=metrics, keep=keep, settings=settings, page=False,
                          scoring=Scoring(**scoring).sent())
    assert measure_unit(Work.read(json.loads(json.dumps(message)))).status == "done"
    return json.loads((place / out / case / "run.json").read_text())


def test_the_order_of_units_in_a_process_changes_none_of_them(place: Path) -> None:
    asked = {"room0": ("M01",), "room1": ("M01", "M03"), "room2": ("M07",)}
    used = {"room0": {"plug_a"}, "room1": {"plug_a", "plug_b"}, "room2": set()}
    found: dict[str, list[dict[str, Any]]] = {case: [] for case in asked}
    for k, order in enumerate(itertools.islice(itertools.permutations(asked), 0, None, 2)):
        scoring_module._BOXES.clear()  # another worker
        for case in order:
            run = measure(place, f"out{k}", case, asked[case])
            assert set(run.get("scorers", {})) == used[case], (order, case)
            found[case].append({**run, "created": ""})
    assert all(run == runs[0] for runs in found.values() for run in runs)


def test_a_unit_that_is_measured_in_two_parts_names_the_scorers_of_both(place: Path) -> None:
    whole = measure(place, "whole", "room0", ("M01", "M03"))
    measure(place, "parts", "room0", ("M01",))
    scoring_module._BOXES.clear()
    assert measure(place, "parts", "room0", ("M03",), keep=("M01",))["scorers"] == whole["scorers"]
    for name in ("units.jsonl", "unit.json", "summary.json"):
        assert (place / "parts/room0" / name).read_bytes() == (place / "whole/room0" / name).read_bytes()
    # Of a metric that is not kept nothing is left.
    assert set(measure(place, "parts", "room0", ("M07",), keep=("M03",))["scorers"]) == {"plug_b"}


def test_what_a_metric_lacked_is_in_the_record_and_nothing_else(place: Path) -> None:
    """M05 needs HPSv3, whose weights are not in an empty folder; M06 a judge, and none is named."""
    (place / "none").mkdir()
    for metrics, lacking in ((("M01", "M07"), None), (("M05", "M06"), ("vlm_judge",))):
        measure(place, "out", "room0", metrics, weights=place / "none")
        unit = read_unit(place / "out" / "room0")
        assert unit is not None and unit.lacking == lacking, "without a text M05 is inapplicable, whatever is here"
    measure(place, "out", "room0", ("M01",), keep=("M06",), weights=place / "none")
    unit = read_unit(place / "out" / "room0")
    assert unit is not None and unit.lacking == ("vlm_judge",), "M06 is kept, and still waits for it"


def test_records_of_worlds_that_are_written_later_are_their_own(place: Path) -> None:
    results = []
    for metric in ("M01", "M03", "M07"):
        settings = (f"metrics=[{metric}]", "scorers.substitutes={topiq_nr: plug_a, pi: plug_b}")
        results.append(run_world(place / "worlds/room0.glb", RunOptions(str(place / "quick.yaml"), settings)))
    for k, (result, used) in enumerate(zip(results, ({"plug_a"}, {"plug_b"}, set()), strict=True)):
        write_results(result, place / f"run{k}")
        assert set(json.loads((place / f"run{k}" / "run.json").read_text()).get("scorers", {})) == used


def test_a_remedy_names_the_folder_that_was_given(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._SPECS, "plug_a", ScorerSpec(
        "plug_a", "the rater", "rating", "tests", lambda opening: Rater(bad=True), stands_in_for="topiq_nr"))
    folder = place / "my weights"
    folder.mkdir()
    options = RunOptions(str(place / "quick.yaml"), ("metrics=[M01]", "scorers.substitutes={topiq_nr: plug_a}"),
                         scoring=Scoring(weights=folder))
    (m,) = run_world(place / "worlds/room0.glb", options).measurements
    assert m.status is Status.UNAVAILABLE
    assert "a rating that is not finite" in m.reason
    assert m.reason.endswith(f": spatialbench weights verify --dir '{folder}'")


@pytest.mark.parametrize(("text", "named"), [
    ("Check the weights (spatialbench weights verify) or use another device",
     "Check the weights (spatialbench weights verify --dir /w) or use another device"),
    ("x: spatialbench weights verify; y: spatialbench weights verify",
     "x: spatialbench weights verify --dir /w; y: spatialbench weights verify --dir /w"),
    *((t, t) for t in ("spatialbench weights verify sam3", "spatialbench weights verify --dir /v", "no floor"))])
def test_a_command_that_names_something_stays(text: str, named: str) -> None:
    m = Measurement(metric="M01", version=1, case="a", system="x", status=Status.UNAVAILABLE, reason=text)
    assert [n.reason for n in named_folder([m], Scoring(weights=Path("/w")))] == [named]
    assert named_folder([m], Scoring()) == [m]


def answer(id: str, prompt: str = "view-quality-1", value: bool = True) -> Answer:
    return Answer(id, 0, "answered", {"sharp": value}, record={"prompt": prompt, "model": "m"})


def test_kept_answers_are_those_of_kept_metrics_and_new_ones_stand_above_them(tmp_path: Path) -> None:
    prepare()
    protocol = load_protocol("happyworld-spatial-1")
    old = [answer("M06.00", value=False), answer("object.a.00", "object-view-1"), answer("odd", "../no-prompt")]
    (tmp_path / "judge.jsonl").write_text(answers_text(old))
    (tmp_path / "run.json").write_text(json.dumps({
        "scorers": {"clip_l14": {"v": "1"}, "sam3": {"v": "1"}},
        "judge": {"model": "m", "endpoint": "e", "doubts": []}, "backends": {"placement": "p 1"}}))
    kept = read_kept(tmp_path, ["M06", "M09"], protocol)
    assert kept.backends == {"placement": "p 1"}
    assert set(kept.scorers) == {"clip_l14"} and [a.id for a in kept.answers] == ["M06.00", "odd"]

    class Lent:
        answers = (answer("M06.00"), answer("M31.00", "edit-execution-1"))

    (tmp_path / "judge.jsonl").write_text(kept.texts(Lent())["judge.jsonl"])  # type: ignore[arg-type]
    assert [(a.id, a.values["sharp"]) for a in read_answers(tmp_path / "judge.jsonl")] == [
        ("M06.00", True), ("M31.00", True), ("odd", True)]
    used = {"scorers": {"clip_l14": {"v": "2"}}, "judge": {"model": "n", "endpoint": "e", "doubts": []}}
    record = kept.record(used, Lent())  # type: ignore[arg-type]
    assert record["scorers"] == {"clip_l14": {"v": "2"}} and record["scorers_kept"] == {"clip_l14": {"v": "1"}}
    assert record["judge"]["model"] == "n" and record["judge_kept"]["model"] == "m"
    assert read_kept(tmp_path, ["M07"], protocol) == KeptScoring(backends={"placement": "p 1"})
    assert read_kept(tmp_path / "gone", ["M06"], protocol) == KeptScoring()


def test_a_tally_of_one_world_is_what_was_added() -> None:
    before = Tally(asked=2, calls=3, input=10, cost=1.5)
    now = Tally(asked=5, calls=9, input=30, cost=2.0, saved=0.5)
    assert tally_since(now, before) == Tally(asked=3, calls=6, input=20, cost=0.5, saved=0.5)
    assert tally_since(Tally(calls=1), Tally()).cost is None
