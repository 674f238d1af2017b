"""Whole runs of the real commands with tiny checkpoints of the real models, a worker process and a judge on loopback.

What the models say is arbitrary: statuses, hashes, who was asked, and how values follow from others are not.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from spatialbench.cli.main import cli
from spatialbench.runs import scoring
from tests.scorers import tiny_weights
from tests.scorers.judge_server import MODEL, JudgeServer
from tests.scorers.tiny_vision import torch_of_tests
from tests.tracks.test_edit_worlds import QUICK, glb, room
from tests.tracks.test_expand_worlds import both_rooms, first_room

for _package in ("torch", "torchvision", "transformers", "lpips", "open_clip", "openai"):
    pytest.importorskip(_package)

ROOM = Path(__file__).parents[2] / "assets" / "sample_room.glb"
SMALL = ("views.lens={width: 48, height: 48, fov_deg: 75.0}", "views.ring_frames=4", "sampler.ring_views=1",
         "finding.min_surfels=20000", "finding.max_surfels=20000",
         "editing.orbit_views=8", "scorers.detection_score=0.05", "scorers.substitutes.tapip3d=reference_tracks")
NO_PYIQA = {"M01", "M03", "M04"}
CASE = """id: room
image: input.png
text: a living room with a table
categories: [chair, door]
objects:
  - {id: table, text: a wooden table, image_polygon: [[0.3, 0.5], [0.7, 0.5], [0.7, 0.9], [0.3, 0.9]]}
"""


class Bench:
    """The command line with everything named, and the judge that it asks."""

    def __init__(self, folder: Path, judge: JudgeServer) -> None:
        self.folder, self.judge = folder, judge

    def __call__(self, command: str, *arguments: object, settings: tuple[str, ...] = SMALL) -> dict[str, Any]:
        """Results of a run: files by name, measurements by metric; as a new process would, it opens everything anew."""
        scoring._BOXES.clear()
        scoring._JUDGES.clear()
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        words = [command, *arguments, "-o", out, "--protocol", "happyworld-spatial-1-fast", "-q", "--weights",
                 self.folder / "weights", "--device", "cpu", "--judge", self.folder / "judge.yaml",
                 *(w for s in settings for w in ("--set", s))]
        done = CliRunner().invoke(cli, [str(w) for w in words], catch_exceptions=False)
        assert done.exit_code == 0 and done.output == "", done.output
        files = {p.name: p.read_bytes() for p in out.iterdir()}
        rows = [json.loads(line) for line in files["units.jsonl"].splitlines()]
        return {"files": files, "rows": {r["metric"]: r for r in rows}, "run": json.loads(files["run.json"]),
                "page": files["report.html"].decode()}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    torch_of_tests()
    monkeypatch.setenv("SPATIALBENCH_CACHE_DIR", str(tmp_path / "cache"))
    tiny_weights.accept_weights(monkeypatch)
    tiny_weights.write_weights(tmp_path / "weights")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)).save(tmp_path / "input.png")
    (tmp_path / "case.yaml").write_text(CASE)
    with JudgeServer() as judge:
        (tmp_path / "judge.yaml").write_text(f"base_url: {judge.url}\nmodel: {MODEL}\n")
        yield Bench(tmp_path, judge)
    for box in scoring._BOXES.values():
        box.close()
    scoring._BOXES.clear()
    scoring._JUDGES.clear()


def lacking(rows: dict[str, Any]) -> set[str]:
    return {id for id, r in rows.items() if r["status"] not in ("measured", "untested")}


@pytest.mark.slow
def test_every_metric_that_can_be_measured_is(bench: Bench) -> None:
    first = bench("run", ROOM, "--case", bench.folder / "case.yaml")
    rows, page, run = first["rows"], first["page"], first["run"]
    assert lacking(rows) == NO_PYIQA
    assert {id for id, r in rows.items() if r["status"] == "untested"} == {f"M{k}" for k in range(26, 38)}
    assert all(rows[id]["status"] == "unavailable" and "pip install" in rows[id]["reason"] for id in NO_PYIQA)
    assert {id for id, r in rows.items() if r["flags"]} == {"M19", "M20"}
    assert rows["M19"]["flags"] == rows["M20"]["flags"] == ["substitute:reference_tracks"]
    for id in rows:
        assert f'id="metric-{id}"' in page, id
    assert "stand-in reference_tracks" in page and MODEL in page

    # Who measured, with what: hashes of the files as they lie here.
    used = run["scorers"]
    assert set(used) == {"clip_l14", "hpsv3", "laion_aes", "reference_tracks", "sam3"}
    for name in ("clip-l14/model.safetensors", "sam3/model.safetensors", "hpsv3/HPSv3.safetensors"):
        digest = hashlib.sha256((bench.folder / "weights" / name).read_bytes()).hexdigest()
        assert any(about.get(name) == digest for about in used.values()), name
        assert digest[:12] in page
    assert run["judge"]["model"] == MODEL and run["judge"]["endpoint"] == bench.judge.url

    # Values that follow from others, or from the judge's own words.
    said = [json.loads(line) for line in first["files"]["judge.jsonl"].splitlines()]
    views = [a["values"] for a in said if a["id"].startswith("M06")]
    yes = [v[k] for v in views for k in ("artifact_free", "sharp", "plausible_layout")]
    assert len(views) == 4 and rows["M06"]["value"] == pytest.approx(sum(yes) / 12)
    of_object = [a["values"] for a in said if a["id"].startswith("object.table")]
    valid = [v for v in of_object if v["inside_scene"] and v["target_visible"]]
    assert len(of_object) == 8 and rows["M21"]["value"] == pytest.approx(len(valid) / 8)
    assert len(said) == len(bench.judge.calls) == 12
    r, s = rows["M16"]["value"], rows["M17"]["value"]
    assert rows["M18"]["value"] == pytest.approx(2 * r / (1 + s) / (r + 1 / (1 + s)))

    # Once more: the same bytes, and nobody is asked.
    again = bench("run", ROOM, "--case", bench.folder / "case.yaml")
    assert len(bench.judge.calls) == 12
    for name in ("units.jsonl", "judge.jsonl", "summary.json"):
        assert again["files"][name] == first["files"][name], name

    # A file that has changed within its size and time is another model, and said to be.
    path = bench.folder / "weights" / "laion-aes" / "sac+logos+ava1-l14-linearMSE.pth"
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    other = bench("run", ROOM, settings=(*SMALL, "metrics=[M02]"))
    name = f"laion-aes/{path.name}"
    assert other["run"]["scorers"]["laion_aes"][name] == hashlib.sha256(data).hexdigest() != used["laion_aes"][name]


@pytest.mark.slow
def test_edits_and_expansions_by_models(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "edit.yaml").write_text("kind: edit\nid: edit\ninstruction: Remove the box.\ncategory: deletion\n"
                                        "target_before: a box\ntext: a room\n")
    worlds = glb(tmp_path / "before.glb", room()), glb(tmp_path / "after.glb", room(False))
    settings = (*QUICK, "scorers.detection_score=0.05")
    first = bench("edit", *worlds, "--case", tmp_path / "edit.yaml", settings=settings)
    assert lacking(first["rows"]) == {"M35", "M37"}  # of edits of all of a world
    assert set(first["run"]["scorers"]) == {"dinov2", "lpips_vgg", "sam3"}
    asked = len(bench.judge.calls)
    assert 0 < asked <= len(first["files"]["judge.jsonl"].splitlines()) == 12  # views that are equal are asked of once
    again = bench("edit", *worlds, "--case", tmp_path / "edit.yaml", settings=settings)
    assert len(bench.judge.calls) == asked and again["files"]["units.jsonl"] == first["files"]["units.jsonl"]

    (tmp_path / "expand.yaml").write_text("kind: expand\nid: expand\ntext: two rooms\n")
    worlds = glb(tmp_path / "one.glb", first_room().mesh()), glb(tmp_path / "two.glb", both_rooms().mesh())
    wide = bench("expand", *worlds, "--case", tmp_path / "expand.yaml", settings=QUICK)
    assert lacking(wide["rows"]) == set()
    assert set(wide["run"]["scorers"]) == {"hpsv3"}
