"""``sidecar``, ``max_splats`` and ``drop_outliers`` as keys of cases: whose word counts, where a path may lead, and
that the bytes of a side-car are part of a unit's inputs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spatialbench.errors import ConfigError
from spatialbench.runs.batch.job import Work
from spatialbench.runs.batch.keys import hash_inputs
from spatialbench.runs.batch.measure import _inputs, _side_cars
from spatialbench.runs.batch.plan import jobs_of
from spatialbench.runs.batch.unitfile import inputs_digest
from spatialbench.runs.inspection import inspect_world
from spatialbench.runs.suite import plan_suite
from spatialbench.scene import load_scene
from spatialbench.scene.reading import ReadOptions
from spatialbench.scene.splats.write_ply import write_splat_ply
from spatialbench.types import GaussianSplats, load_protocol
from spatialbench.types.case import EditCase, load_any_case, parse_case
from spatialbench.types.suite import load_suite

SUITE = ("id: s\nversion: 1\nprotocol: happyworld-spatial-1\ncases: [cases/a.yaml]\n"
         "systems: {x: {outputs: 'w/{case}.ply'}}\n")


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def world(file: Path, n: int = 60) -> Path:
    """Splats over a floor of 4 by 4 units, y up."""
    rng = np.random.default_rng(0)
    file.parent.mkdir(parents=True, exist_ok=True)
    means, turns = (rng.random((n, 3)) * [4, 0.1, 4]).astype(np.float32), np.zeros((n, 4), np.float32)
    turns[:, 0] = 1
    write_splat_ply(GaussianSplats(means, np.full((n, 3), 0.1, np.float32), turns, np.full(n, 0.9, np.float32),
                                   np.zeros((n, 1, 3), np.float32)), file)
    return file


def marble(unit: float) -> str:
    return json.dumps({"metric_scale_factor": unit})


def test_the_user_stands_above_the_case(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", "id: a\nsidecar: meta/m.json\nmax_splats: 50\ndrop_outliers: true\n")
    case = load_any_case(file)
    assert ReadOptions().with_case(case, file) == ReadOptions(50, (tmp_path / "meta/m.json",), True)
    mine = ReadOptions(7, (Path("n.json"),))
    assert mine.with_case(case, file) == ReadOptions(7, (Path("n.json"),), True)
    assert mine.with_case(None) == mine
    several = parse_case({"id": "a", "sidecar": ["b.json", "c/sparse/0"]}, "w")
    assert ReadOptions().with_case(several, file).side_cars == (tmp_path / "b.json", tmp_path / "c/sparse/0")
    edit = parse_case({"id": "a", "kind": "edit", "instruction": "x", "category": "weather", "max_splats": 3}, "w")
    assert isinstance(edit, EditCase)
    assert ReadOptions().with_case(edit).max_splats == edit.snapshot().max_splats == 3
    assert parse_case({"id": "a"}, "w").model_dump(mode="json", exclude_defaults=True) == {"id": "a"}, "hashed as ever"


@pytest.mark.parametrize("path", ["../m.json", "/m.json", "a/../../m.json", "http://x/m.json", "link/m.json"])
def test_a_side_car_stays_in_the_folder_of_its_case(tmp_path: Path, path: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in/link").symlink_to(tmp_path / "out")
    with pytest.raises(ConfigError, match="sidecar"):
        load_any_case(write(tmp_path / "in/a.yaml", f"id: a\nsidecar: {path}\n"))


@pytest.mark.parametrize("line", ["max_splats: 0", "max_splats: many", "sidecar: 3", "drop_outliers: far"])
def test_wrong_values_are_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=line.partition(":")[0]):
        load_any_case(write(tmp_path / "a.yaml", f"id: a\n{line}\n"))


def test_an_inspection_reads_as_the_case_says(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", "id: a\nsidecar: meta/m.json\nmax_splats: 50\n")
    write(tmp_path / "meta/m.json", marble(0.5))
    case = load_any_case(file)
    found = inspect_world(world(tmp_path / "w.ply"), load_protocol("happyworld-spatial-1"), case,
                          reading=ReadOptions().with_case(case, file))
    assert found.scene.report.n_splats == 50
    assert (found.decisions["unit"].value, found.decisions["unit"].source) == (0.5, "side-car")


@pytest.mark.parametrize(("place", "name"), [("cases/m.json", "m.json"), ("w/m.json", "../w/m.json")])
def test_the_bytes_of_a_side_car_are_part_of_a_units_inputs(tmp_path: Path, place: str, name: str) -> None:
    """A batch finds its unit as it was where what was read is still what lies there; each change is seen."""
    write(tmp_path / "suite.yaml", SUITE)
    write(tmp_path / "cases/a.yaml", f"id: a\nsidecar: {name}\n")
    side_car = write(tmp_path / place, marble(0.5))
    world(tmp_path / "w/a.ply")
    job = jobs_of(plan_suite(load_suite(tmp_path / "suite.yaml")), ["M01"])[0]
    work = Work.read(job.message(load_protocol("happyworld-spatial-1"), tmp_path / "out", metrics=("M01",), keep=(),
                                 settings=(), page=False))
    assert [Path(p).resolve() for p in _side_cars(work)] == [side_car.resolve()]
    scene = load_scene(Path(work.roles["main"]), side_cars=[Path(p) for p in _side_cars(work)])
    assert scene.side.unit_m == 0.5
    read = _inputs({"main": scene.report}, work)
    assert [(f["role"], f["name"]) for f in read] == [("main", "a.ply"), ("sidecar.0", "m.json")]
    digest = inputs_digest(read, job.case, job.told)
    assert inputs_digest(hash_inputs(job.roles, job.image, {}), job.case, job.told) == digest
    side_car.write_text(marble(0.6))
    assert inputs_digest(hash_inputs(job.roles, job.image, {}), job.case, job.told) != digest


def test_a_folder_of_colmap_is_two_inputs_and_a_side_car_that_is_lost_is_said(tmp_path: Path) -> None:
    write(tmp_path / "suite.yaml", SUITE)
    write(tmp_path / "cases/a.yaml", "id: a\nsidecar: [sparse/0, lost.json]\n")
    for name in ("images.txt", "cameras.txt"):
        write(tmp_path / "cases/sparse/0" / name, "")
    world(tmp_path / "w/a.ply")
    plan = plan_suite(load_suite(tmp_path / "suite.yaml"))
    assert [(p.kind, p.role, p.expected) for p in plan.problems] == [("missing", "sidecar", "cases/lost.json")]
    assert {r: p.name for r, p in plan.worlds[0].paths.items()} == {
        "main": "a.ply", "sidecar.0": "images.txt", "sidecar.0.cameras": "cameras.txt", "sidecar.1": "lost.json"}


def test_what_is_said_of_all_worlds_is_part_of_every_unit(tmp_path: Path) -> None:
    from spatialbench.runs.batch import BatchOptions

    plain = BatchOptions(tmp_path)
    assert plain.told == {}
    assert replace(plain, max_splats=9, drop_outliers=True).told == {"max_splats": 9, "drop_outliers": True}
