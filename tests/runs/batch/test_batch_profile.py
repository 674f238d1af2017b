"""What is said of the exporter in a batch: it reaches the worlds, and a change runs them again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from batch_worlds import batch, make_world, quick_protocol_file

from spatialbench.runs.batch import read_batch
from spatialbench.scene.splats.write_ply import write_splat_ply
from tests.analytic import box_room
from tests.splats import splat_mesh
from tests.worlds import moved

PROFILE = "id: mine\nmaker: Me\nfiles: f\nevidence: e\nunit_m: {unit}\n"


def _world(folder: Path) -> Path:
    """A small room of splats, eyes at the origin, whose opacities were written as they are."""
    splats = splat_mesh(moved(box_room(4, 4, 2.6), np.eye(3), (0, 0, -1.6)), 0.25)
    stored = (1 / (1 + np.exp(-splats.opacities.astype(np.float64)))).astype(np.float32)
    folder.mkdir()
    write_splat_ply(replace(splats, opacities=stored), folder / "room.ply")
    return folder


def _plan(*arguments: object) -> list[dict[str, object]]:
    done = batch(*arguments, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    plan: list[dict[str, object]] = json.loads(done.stdout)
    return plan


@pytest.mark.slow
def test_options_reach_a_folder_of_worlds_and_are_part_of_its_units(tmp_path: Path) -> None:
    worlds, out = _world(tmp_path / "worlds"), tmp_path / "out"
    common = ("--worlds", worlds, "--protocol", quick_protocol_file(tmp_path), "-o", out, "--workers", 1, "--no-pages",
              "--only", "metric=M01", "--set", "fusion.rounds=[1, 1, 1]", "--set", "fusion.checks=0", "--set",
              "fusion.image=32", "--set", "fusion.voxel=0.2")
    told = (*common, "--opacity", "activated")
    done = batch(*told)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((out / "units/local/room/import.json").read_text())
    assert (report["decisions"]["opacity"]["value"], report["decisions"]["opacity"]["source"]) == ("activated", "user")
    assert read_batch(out).told == {"opacity": "activated"}
    assert [d["action"] for d in _plan(*told)] == ["keep"]
    assert [(d["action"], d["why"]) for d in _plan(*common)] == [("run", "its input has changed")]
    assert [d["action"] for d in _plan(*common, "--profile", "hyworld2")] == ["run"]
    assert [d["action"] for d in _plan(*common, "--opacity", "logit")] == ["run"]


@pytest.mark.slow
def test_a_changed_profile_of_a_system_runs_its_units_again(tmp_path: Path) -> None:
    make_world(tmp_path / "worlds" / "room.glb")
    quick_protocol_file(tmp_path)
    (tmp_path / "mine.yaml").write_text(PROFILE.format(unit=1.0))
    suite = tmp_path / "suite.yaml"
    suite.write_text("id: s\nversion: 1\nprotocol: quick.yaml\ncases:\n  - {id: room}\nsystems:\n"
                     "  ours: {outputs: 'worlds/{case}.glb', profile: mine.yaml}\n"
                     "  theirs: {outputs: 'worlds/{case}.glb'}\n")
    common = (suite, "-o", tmp_path / "out", "--workers", 1, "--no-pages", "--only", "metric=M01")
    done = batch(*common)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {d["unit"]: d["action"] for d in _plan(*common)} == {"ours/room": "keep", "theirs/room": "keep"}
    (tmp_path / "mine.yaml").write_text(PROFILE.format(unit=2.0))
    assert {d["unit"]: d["action"] for d in _plan(*common)} == {"ours/room": "run", "theirs/room": "keep"}
