"""Edits and expansions as cases of a batch: found, run, kept, and run again when evidence changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spatialbench.runs.batch import BatchOptions, Board, open_batch, read_finished
from spatialbench.runs.batch.job import Work
from spatialbench.runs.batch.measure import measure_unit
from spatialbench.runs.gather import Pick, gather
from spatialbench.runs.single import prepare
from spatialbench.runs.store import read_units
from spatialbench.runs.suite import plan_suite
from spatialbench.types import Status, level_pose, load_protocol
from spatialbench.types.suite import load_suite
from tests.analytic import EYE, write_glb
from tests.tracks.test_edit_worlds import QUICK, glb, room
from tests.tracks.test_expand_worlds import both_rooms, first_room

SUITE = """\
id: pairs
version: 1
protocol: happyworld-spatial-1-fast
cases:
- {id: relight, kind: edit, instruction: make it evening, category: lighting, evidence: {judge: judge.json}}
- {id: more, kind: expand, text: two rooms}
systems:
  ours: {outputs: 'worlds/{case}-{role}.glb'}
"""


class Listener:
    def __init__(self) -> None:
        self.said: list[str] = []

    def update(self, board: Board) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "worlds").mkdir()
    glb(tmp_path / "worlds" / "relight-before.glb", room())
    glb(tmp_path / "worlds" / "relight-after.glb", room(colour=0.5))
    for role, soup in (("before", first_room()), ("after", both_rooms())):
        write_glb(tmp_path / "worlds" / f"more-{role}.glb", soup.mesh(), level_pose(EYE))
    (tmp_path / "judge.json").write_text(json.dumps({"views": list(range(6)), "after": [True] * 6}))
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    return path


def batch(suite: Path, **options: Any) -> tuple[Board, list[str]]:
    listener = Listener()
    work = open_batch(BatchOptions(out=suite.parent / "out", suite=suite, workers=1, pages=True, settings=QUICK,
                                   **options))
    return work.run(listener), listener.said


def test_evidence_is_planned_with_the_worlds(suite: Path) -> None:
    plan = plan_suite(load_suite(suite))
    relight, more = plan.worlds
    assert relight.state == more.state == "ready"
    assert set(relight.paths) == {"before", "after", "evidence.judge"}
    assert set(more.paths) == {"before", "after"}
    assert plan.problems == ()
    (suite.parent / "judge.json").unlink()
    lacking = plan_suite(load_suite(suite)).problems
    assert [(p.kind, p.case_id, p.role, p.expected) for p in lacking] == [
        ("missing", "relight", "evidence.judge", "judge.json")]


def test_a_unit_of_two_worlds(suite: Path) -> None:
    """As a worker does it; inputs of both roles and of the evidence are recorded with their hashes."""
    prepare()
    folder, out = suite.parent, suite.parent / "unit"
    case = {"id": "relight", "kind": "edit", "instruction": "x", "category": "lighting",
            "evidence": {"judge": "judge.json"}}
    work = Work(system="ours", case_id="relight", roles={
        "before": str(folder / "worlds" / "relight-before.glb"), "after": str(folder / "worlds" / "relight-after.glb"),
        "evidence.judge": str(folder / "judge.json")}, case=case, root=str(folder), image="",
        metrics=("M31", "M35", "M37"), keep=(), protocol=load_protocol("happyworld-spatial-1", QUICK).model_dump(
            mode="json"), settings=QUICK, folder=out, page=False)
    done = measure_unit(work)
    assert (done.status, done.measured) == ("done", ("M31", "M35", "M37"))
    assert {m.metric: m.value for m in read_units(out / "units.jsonl")} == {"M31": 1.0, "M35": 1.0, "M37": 1.0}
    unit = json.loads((out / "unit.json").read_text())
    assert [(f["role"], f["name"]) for f in unit["inputs"]] == [
        ("after", "relight-after.glb"), ("before", "relight-before.glb"), ("evidence.judge", "judge.json")]
    (folder / "judge.json").write_text("nonsense")
    failed = measure_unit(work)
    assert failed.status == "failed" and failed.reason.startswith("judge.json: is no JSON")
    assert {m.status for m in read_units(out / "units.jsonl")} == {Status.INVALID}


@pytest.mark.slow
def test_a_batch_of_pairs(suite: Path) -> None:
    board, _ = batch(suite)
    assert (board.done, board.failed, board.skipped) == (2, 0, 0)
    out = suite.parent / "out" / "units" / "ours"
    assert [m.metric for m in read_units(out / "relight" / "units.jsonl")] == [f"M{k}" for k in range(31, 38)]
    values = {m.metric: m for m in read_units(out / "more" / "units.jsonl")}
    assert list(values) == [f"M{k}" for k in range(26, 31)]
    assert values["M26"].value == pytest.approx(141 / 80, rel=2e-3)
    for case in ("relight", "more"):
        assert "not a benchmark result" in (out / case / "report.html").read_text()
    again, _ = batch(suite)
    assert (again.kept, again.done) == (2, 0)
    np.testing.assert_equal({r.case: r.status for r in read_finished(suite.parent / "out")},
                            {"relight": "done", "more": "done"})
    gathered = gather([Pick(suite.parent / "out")])
    assert {m.metric for m in gathered.measurements if m.case == "relight" and m.value is not None} == {
        "M31", "M35", "M37"}

    (suite.parent / "judge.json").write_text(json.dumps({"views": list(range(6)), "after": [False] * 6}))
    changed, _ = batch(suite)
    assert (changed.kept, changed.done) == (1, 1)
    assert {m.metric: m.value for m in read_units(out / "relight" / "units.jsonl")}["M37"] == 0.0
